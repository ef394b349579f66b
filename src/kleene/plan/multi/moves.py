"""A solution of the search, what it costs, and the solutions next to it (section 4.2, and section 5 for trees).

A solution is a tree for each clause; equal sub-trees are shared, always. A neighbour has another sub-pattern shared by two
clauses (an edge of the multi-pattern graph) or by up to k of them (a vertex): the local planner finds the best tree of the
sub-pattern, and the best trees of these clauses around it. What the clauses share already is kept or given up by the toss of a
coin.

Invariant: `Solution.cost` is the sum of the prices of the nodes in use, each in the largest window of its users.
Cost: a change costs the nodes that come and go, some microseconds; a neighbour what the local planner takes for requirements
that it has not met yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random

from kleene.plan.multi.graph import PatternGraph, Slots
from kleene.plan.multi.local import LocalPlanner, moved, positions_of
from kleene.plan.multi.nodes import Nodes, Placed, Tree

ALONE = 0.05
"""How often a neighbour is a clause with its own best tree, whatever others have: nothing is the smallest sub-pattern."""
WHOLE = 0.5
"""How often a sub-pattern is a maximal one as it is, and not a part of it."""
KEEP = 0.5
"""How often a clause keeps what it shares."""

SETTLED_EVERY = 512
"""The number of changes after which the cost is summed again."""
LESS = 1 - 1e-9
"""A cost is less than another one if it is below this share of it: sums of many prices are rounded."""

Changes = Mapping[int, Placed]


class Solution:
    """A tree for each of some clauses, and what they cost together."""

    def __init__(self, nodes: Nodes, placed: Mapping[int, Placed]) -> None:
        self.placed: dict[int, Placed] = {}
        self.cost = 0.0
        self._changes = 0
        self.signature = 0
        """A number for the solution, different for different ones."""
        self._nodes = nodes
        self._users: dict[int, dict[float, int]] = {}
        """For each node in use how many clauses use it in a window of a length."""
        self.change(placed)

    def change(self, changes: Changes) -> dict[int, Placed]:
        """Gives clauses other trees; returns those that they had, to take the change back."""
        before = {clause: self.placed[clause] for clause in changes if clause in self.placed}
        for clause, placed in changes.items():
            known = self.placed.get(clause)
            length = self._nodes.estimates[clause].length
            old = known.inner if known is not None else frozenset()
            for node in placed.inner - old:
                self._join(node, length)
            for node in old - placed.inner:
                self._leave(node, length)
            if known is not None:
                self.signature ^= hash((clause, known.node))
            self.signature ^= hash((clause, placed.node))
            self.placed[clause] = placed
        self._changes += 1
        if not self._changes % SETTLED_EVERY:
            self.settle()
        return before

    def _join(self, node: int, length: float) -> None:
        lengths = self._users.get(node)
        if lengths is None:
            self._users[node] = {length: 1}
            self.cost += self._nodes.price(node, length)
            return
        largest = max(lengths)
        if length > largest:
            self.cost += self._nodes.price(node, length) - self._nodes.price(node, largest)
        lengths[length] = lengths.get(length, 0) + 1

    def _leave(self, node: int, length: float) -> None:
        lengths = self._users[node]
        if lengths[length] > 1:
            lengths[length] -= 1
            return
        del lengths[length]
        self.cost -= self._nodes.price(node, length) if not lengths or length > max(lengths) else 0.0
        if not lengths:
            del self._users[node]
        elif length > max(lengths):
            self.cost += self._nodes.price(node, max(lengths))

    def settle(self) -> float:
        """The cost, summed again: many changes leave rounding errors behind."""
        self.cost = sum(self._nodes.price(node, max(lengths)) for node, lengths in self._users.items())
        return self.cost

    def is_shared(self, node: int) -> bool:
        """Whether several clauses use a node."""
        return sum(self._users[node].values()) > 1

    def made(self, clause: int) -> dict[int, tuple[float, Tree]]:
        """The sets of positions of a clause for which others have a tree, with what it would cost to use it too."""
        length = self._nodes.estimates[clause].length
        own = self.placed[clause].inner
        found: dict[int, tuple[float, Tree]] = {}
        for node, lengths in self._users.items():
            if node in own and sum(lengths.values()) == 1:
                continue
            for placed in self._nodes.occurrences(node, clause):
                cost = self._widened(placed.inner, length, own)
                if placed.mask not in found or cost < found[placed.mask][0]:
                    found[placed.mask] = cost, placed.tree
        return found

    def _widened(self, inner: Iterable[int], length: float, own: frozenset[int]) -> float:
        """What nodes that others use cost more in a window of a length."""
        cost = 0.0
        for node in inner:
            lengths = self._users[node]
            largest = max((item for item, count in lengths.items() if count > (node in own and item == length)), default=0.0)
            if length > largest:
                cost += self._nodes.price(node, length) - self._nodes.price(node, largest)
        return cost


class Neighbourhood:
    """The solutions next to a solution of a component of the multi-pattern graph."""

    def __init__(
        self,
        graph: PatternGraph,
        nodes: Nodes,
        planner: LocalPlanner,
        clauses: Sequence[int],
        *,
        kind: str,
        most: int,
        random: Random,
    ) -> None:
        self._graph = graph
        self._nodes = nodes
        self._planner = planner
        self._clauses = clauses
        self._left_deep = kind == "tree"
        self._most = most
        """How many clauses change at most."""
        self._random = random
        self._found = {
            clause: [(subpattern, slots) for subpattern, occurrences in graph.of(clause).items() for slots in occurrences]
            for clause in clauses
        }
        self._containing: dict[tuple[int, int], dict[int, tuple[Slots, Slots]]] = {}

    def neighbour(self, solution: Solution) -> dict[int, Placed]:
        """A random neighbour, as the trees that change."""
        random = self._random
        clause = random.choice(self._clauses)
        if random.random() < ALONE:
            return {clause: self._nodes.place(clause, self._planner.best(clause))}
        _, slots = random.choice(self._found[clause])
        mask = self._part(slots)
        inside, outside = self._kept(solution, clause, mask)
        shared = self._planner.best(clause, mask, inside)
        changes = {clause: self._around(clause, shared, outside)}
        for other, places in self._partners(clause, mask):
            own = moved(shared, places)
            _, outside = self._kept(solution, other, positions_of(own))
            changes[other] = self._around(other, own, outside)
        return changes

    def _part(self, slots: Slots) -> int:
        """Two or more positions of a maximal common sub-pattern."""
        random = self._random
        if len(slots) > 2 and random.random() >= WHOLE:
            slots = tuple(random.sample(slots, random.randint(2, len(slots) - 1)))
        return sum(1 << position for position in slots)

    def _partners(self, clause: int, mask: int) -> list[tuple[int, dict[int, int]]]:
        """Other clauses with the sub-pattern that a clause has at some positions, and where they have it."""
        found = self._containing.get((clause, mask))
        if found is None:
            found = self._containing[clause, mask] = self._graph.containing(clause, mask)
        chosen = self._random.sample(list(found), min(self._most - 1, len(found)))
        return [(other, dict(zip(*found[other], strict=True))) for other in chosen]

    def _kept(self, solution: Solution, clause: int, mask: int) -> tuple[tuple[Tree, ...], tuple[Tree, ...]]:
        """The shared sub-trees of a clause that are kept: those among some positions, and those without any of them."""
        inside: list[Tree] = []
        outside: list[Tree] = []
        ahead = [solution.placed[clause].tree] if self._random.random() < KEEP else []
        while ahead:
            tree = ahead.pop()
            if isinstance(tree, int):
                continue
            placed = self._nodes.place(clause, tree)
            side = inside if not placed.mask & ~mask else outside if not placed.mask & mask else None
            if side is not None and solution.is_shared(placed.node):
                side.append(tree)
            else:
                ahead += tree
        return tuple(inside), () if self._left_deep else tuple(outside)

    def _around(self, clause: int, shared: Tree, kept: tuple[Tree, ...]) -> Placed:
        return self._nodes.place(clause, self._planner.best(clause, None, (shared, *kept)))


def improved(
    solution: Solution, nodes: Nodes, planner: LocalPlanner, clauses: Sequence[int], has_time: Callable[[], bool]
) -> bool:
    """Gives each clause in turn the best tree for it, given those of the others; whether that made anything cheaper."""
    before = solution.settle()
    for clause in clauses:
        if not has_time():
            break
        cost = solution.cost
        old = solution.change({clause: nodes.place(clause, planner.response(clause, solution.made(clause)))})
        if solution.cost > cost:
            solution.change(old)
    return solution.settle() < before * LESS
