"""Shared plans as nodes: a multi-pattern multitree, or a multi-pattern tree where all trees are left-deep (sections 3.2 and 5).

A tree of a clause is nested pairs of positions, such as ((0, 2), 1). `Nodes` makes nodes of trees: a leaf node is a leaf of the
workload, an inner node is known by its children and by what is decided between them. Trees of two clauses share a node where
these are equal, whatever the order of the children and the names of variables. Windows are not part of it: a node's window is
the largest among its users (section 3.1).

Invariant: equal sub-trees are one node, except that of a sub-tree whose slots can change places in very many ways some may be
missed, which costs sharing and nothing else. Children have smaller numbers than their parents.
Cost: each different tree of a clause once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from kleene.pattern.predicates import Expression
from kleene.plan.multi.clauses import Clause, Condition, Leaf, is_symmetric
from kleene.plan.multi.cost import Estimate, Estimates, SharedStatistics, join_cost, reach, scaled
from kleene.plan.order.cost import partial_order

Tree: TypeAlias = "int | tuple[Tree, Tree]"
Slots = tuple[int, ...]
Cross = tuple[tuple[tuple[int, int], ...], tuple[tuple[int, Slots], ...]]
"""What is decided between two children: pairs of slots in order, and (number of the form, slots) of conditions."""

UNSHARED = ("written", "reordering")
"""Plans whose clauses have only leaves in common."""

MOST_ARRANGEMENTS = 12
"""Ways that are remembered in which the slots of a node can change places."""


@dataclass(frozen=True, slots=True)
class Node:
    """The partial matches of a sub-pattern. The slots of an inner node are those of its left child, then of its right one."""

    number: int
    leaf: int
    """The number of the leaf; -1 of an inner node."""
    left: int
    right: int
    """The children; -1 of a leaf."""
    leaves: tuple[int, ...]
    """The leaf at each slot."""
    precedes: tuple[tuple[int, int], ...]
    """Pairs of slots, one of each child: the first precedes the second."""
    conditions: tuple[Condition, ...]
    """Over slots: those that read both children, and are decided here."""
    window: int | None
    """The largest window of the clauses that use it; None if one has none."""

    @property
    def is_leaf(self) -> bool:
        return self.leaf >= 0


@dataclass(frozen=True, slots=True)
class Root:
    """Where the tuples of a clause come from."""

    clause: Clause
    node: int
    slots: tuple[int, ...]
    """For each position of the clause its slot in the node."""


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """How the clauses of a workload are evaluated together."""

    leaves: tuple[Leaf, ...]
    nodes: tuple[Node, ...]
    """Children before parents; a node's number is its index."""
    roots: tuple[Root, ...]
    """One for each clause."""
    cost: float
    """Expected nanoseconds per unit of the clock."""
    kind: str
    search: str
    baselines: Mapping[str, float]
    """What the plans cost that no search makes: `written`, `sharing`, `reordering`, `none`."""
    statistics: SharedStatistics
    steps: int = 0
    """How many neighbours the search looked at."""
    seconds: float = field(default=0.0, compare=False)
    """How long planning took."""

    def users(self) -> tuple[tuple[str, ...], ...]:
        """For each node the queries that use it."""
        found: list[dict[str, None]] = [{} for _ in self.nodes]
        for root in self.roots:
            for number in self.below(root.node):
                found[number][root.clause.query] = None
        return tuple(map(tuple, found))

    def below(self, node: int) -> frozenset[int]:
        """A node and all nodes that it is made of."""
        found, ahead = set(), [node]
        while ahead:
            item = self.nodes[ahead.pop()]
            found.add(item.number)
            if not item.is_leaf:
                ahead += [item.left, item.right]
        return frozenset(found)

    def tree(self, root: Root) -> Tree:
        """The tree of a clause: nested pairs of its positions."""
        return self._tree(root.node, {slot: position for position, slot in enumerate(root.slots)}, 0)

    def _tree(self, number: int, positions: Mapping[int, int], first: int) -> Tree:
        node = self.nodes[number]
        if node.is_leaf:
            return positions[first]
        middle = first + len(self.nodes[node.left].leaves)
        return self._tree(node.left, positions, first), self._tree(node.right, positions, middle)


class Placed(NamedTuple):
    """A tree of a clause, as a node."""

    tree: Tree
    node: int
    mask: int
    """The positions of the tree."""
    arrangements: tuple[Slots, ...]
    """The positions at the node's slots; several where the node does not tell them apart."""
    inner: frozenset[int]
    """The inner nodes of the tree."""


class _Key(NamedTuple):
    scope: int
    """The clause, where nothing is shared."""
    left: int
    right: int
    cross: Cross


@dataclass(slots=True)
class _Numbered:
    """A clause with its forms numbered."""

    after: list[int]
    """For each position the positions after it, as a mask."""
    conditions: list[tuple[int, int, Slots, bool]]
    """Mask of positions, number of the form, positions, whether the form does not tell them apart."""


class Nodes:
    """Trees of clauses as nodes, with what they are expected to cost."""

    def __init__(
        self,
        leaves: Sequence[Leaf],
        clauses: Sequence[Clause],
        statistics: SharedStatistics,
        *,
        shared: bool = True,
        estimates: Sequence[Estimates] | None = None,
    ) -> None:
        assert len(statistics.rates) == len(leaves), "every leaf has a rate"
        self.estimates = estimates or [Estimates(clause, statistics) for clause in clauses]
        self.forms: dict[Expression, int] = {}
        self._shared = shared
        self._same_partition = statistics.same_partition
        self._clauses = clauses
        self._numbered = [_numbered(clause, self.forms) for clause in clauses]
        self._placed: list[dict[Tree, Placed]] = [
            {
                position: Placed(position, leaf, 1 << position, ((position,),), frozenset())
                for position, leaf in enumerate(clause.leaves)
            }
            for clause in clauses
        ]
        self._numbers: dict[_Key, int] = {}
        self._keys: list[_Key | None] = [None] * len(leaves)
        self._expected = [Estimate(rate, 1.0, rate, 1) for rate in statistics.rates]
        self._lengths = [1.0] * len(leaves)
        """The length of the window that a node is estimated for."""
        self._prices: dict[tuple[int, float], float] = {}
        self._occurrences: dict[tuple[int, int], tuple[Placed, ...]] = {}

    def place(self, clause: int, tree: Tree) -> Placed:
        """A tree of a clause as a node."""
        known = self._placed[clause]
        found = known.get(tree)
        if found is None:
            assert not isinstance(tree, int), tree
            found = known[tree] = self._join(clause, self.place(clause, tree[0]), self.place(clause, tree[1]))
        return found

    def _join(self, clause: int, left: Placed, right: Placed) -> Placed:
        assert not left.mask & right.mask, "a position occurs once"
        key, arrangements = self._key(clause, left, right)
        mask = left.mask | right.mask
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._keys)
            self._keys.append(key)
            self._expected.append(self.estimates[clause].of(mask))
            self._lengths.append(self.estimates[clause].length)
        return Placed((left.tree, right.tree), number, mask, arrangements, left.inner | right.inner | {number})

    def _key(self, clause: int, left: Placed, right: Placed) -> tuple[_Key, tuple[Slots, ...]]:
        """What a join is known by, and the positions at its slots: of all ways to arrange them those with the smallest key."""
        if left.node > right.node:
            left, right = right, left
        pairs = [(one, other) for one in left.arrangements for other in right.arrangements]
        if left.node == right.node:
            pairs += [(other, one) for one, other in pairs]
        crossed = [(self._cross(clause, one, other), one + other) for one, other in pairs]
        smallest = min(cross for cross, _ in crossed)
        scope = -1 if self._shared else clause
        arrangements = tuple(slots for cross, slots in crossed if cross == smallest)
        return _Key(scope, left.node, right.node, smallest), arrangements[:MOST_ARRANGEMENTS]

    def _cross(self, clause: int, left: Slots, right: Slots) -> Cross:
        numbered = self._numbered[clause]
        slots = {position: slot for slot, position in enumerate(left + right)}
        before, behind = (sum(1 << position for position in side) for side in (left, right))
        precedes = []
        for one in left:
            for other in right:
                if numbered.after[one] >> other & 1:
                    precedes.append((slots[one], slots[other]))
                elif numbered.after[other] >> one & 1:
                    precedes.append((slots[other], slots[one]))
        conditions = []
        for read, form, positions, symmetric in numbered.conditions:
            if read & before and read & behind and not read & ~(before | behind):
                found = tuple(slots[position] for position in positions)
                conditions.append((form, tuple(sorted(found)) if symmetric else found))
        return tuple(precedes), tuple(sorted(conditions))

    def occurrences(self, node: int, clause: int) -> tuple[Placed, ...]:
        """The trees of a clause that are a node."""
        known = self._occurrences.get((node, clause))
        if known is None:
            known = self._occurrences[node, clause] = tuple(self._occurring(node, clause))
        return known

    def _occurring(self, node: int, clause: int) -> Iterator[Placed]:
        key = self._keys[node]
        if key is None:
            placed = self._placed[clause]
            yield from (placed[position] for position, leaf in enumerate(self._clauses[clause].leaves) if leaf == node)
            return
        for left in self.occurrences(key.left, clause):
            for right in self.occurrences(key.right, clause):
                if not left.mask & right.mask and self._key(clause, left, right)[0] == key:
                    yield self.place(clause, (left.tree, right.tree))

    def expected(self, node: int, length: float) -> Estimate:
        """What is expected of a node in a window of a length."""
        return scaled(self._expected[node], length / self._lengths[node])

    def price(self, node: int, length: float) -> float:
        """Nanoseconds per unit of the clock that an inner node costs in a window of a length."""
        found = self._prices.get((node, length))
        if found is None:
            key = self._keys[node]
            assert key is not None, "a leaf costs nothing"
            sides = self.expected(key.left, length), self.expected(key.right, length)
            near = reach(length * self._same_partition, bool(key.cross[0]))
            found = self._prices[node, length] = join_cost(*sides, self.expected(node, length), near)
        return found

    def children(self, node: int) -> tuple[int, int] | None:
        """The children of an inner node."""
        key = self._keys[node]
        return None if key is None else (key.left, key.right)

    def cross(self, node: int) -> Cross:
        """What an inner node decides between its children."""
        key = self._keys[node]
        assert key is not None
        return key.cross


def _numbered(clause: Clause, forms: dict[Expression, int]) -> _Numbered:
    return _Numbered(
        partial_order(len(clause.leaves), clause.precedes).after,
        [
            (
                sum(1 << position for position in item.components),
                forms.setdefault(item.form, len(forms)),
                item.components,
                is_symmetric(item.form),
            )
            for item in clause.conditions
        ],
    )


def nodes_and_roots(
    leaves: Sequence[Leaf],
    clauses: Sequence[Clause],
    statistics: SharedStatistics,
    trees: Sequence[Tree],
    *,
    shared: bool = True,
    estimates: Sequence[Estimates] | None = None,
) -> tuple[tuple[Node, ...], tuple[Root, ...], float]:
    """The nodes that trees, one for each clause, are made of, where each clause comes from, and what the nodes cost.

    Without `shared` clauses have only leaves in common. `estimates` of the clauses need not be made twice. The result depends
    on nothing but the clauses, the statistics and the trees.
    """
    made = Nodes(leaves, clauses, statistics, shared=shared, estimates=estimates)
    placed = [made.place(number, tree) for number, tree in enumerate(trees)]
    windows: dict[int, int | None] = {}
    for clause, item in zip(clauses, placed, strict=True):
        for node in (*clause.leaves, *item.inner):
            windows[node] = _larger(windows[node], clause.window) if node in windows else clause.window
    numbers = {node: number for number, node in enumerate(sorted(windows))}
    forms = list(made.forms)
    found: list[Node] = []
    for node, number in numbers.items():
        children = made.children(node)
        if children is None:
            found.append(Node(number, node, -1, -1, (node,), (), (), windows[node]))
            continue
        left, right = (numbers[child] for child in children)
        precedes, decided = made.cross(node)
        conditions = tuple(Condition(forms[form], slots) for form, slots in decided)
        slots = found[left].leaves + found[right].leaves
        found.append(Node(number, -1, left, right, slots, precedes, conditions, windows[node]))
    roots = [_root(clause, item, numbers) for clause, item in zip(clauses, placed, strict=True)]
    return tuple(found), tuple(roots), cost_of(found, roots, statistics, made.estimates)


def cost_of(
    nodes: Sequence[Node], roots: Sequence[Root], statistics: SharedStatistics, estimates: Iterable[Estimates] | None = None
) -> float:
    """What nodes are expected to cost; `estimates` of the roots' clauses need not be made twice."""
    expected: dict[int, tuple[Estimate, float]] = {}
    """By node, what is expected of it in a window of some length, and that length."""
    for root, own in zip(roots, estimates or (Estimates(root.clause, statistics) for root in roots), strict=True):
        bits = [1 << position for _, position in sorted((slot, position) for position, slot in enumerate(root.slots))]
        ahead = [(root.node, bits)]
        while ahead:
            number, bits = ahead.pop()
            if number not in expected:
                expected[number] = own.of(sum(bits)), own.length
                if not nodes[number].is_leaf:
                    width = len(nodes[nodes[number].left].leaves)
                    ahead += [(nodes[number].left, bits[:width]), (nodes[number].right, bits[width:])]

    def within(number: int, length: float) -> Estimate:
        estimate, known = expected[number]
        return scaled(estimate, length / known)

    cost = 0.0
    for node in nodes:
        if not node.is_leaf:
            length = statistics.length(node.window)
            near = reach(length * statistics.same_partition, bool(node.precedes))
            left, right, both = (within(number, length) for number in (node.left, node.right, node.number))
            cost += join_cost(left, right, both, near)
    return cost


def _larger(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


def _root(clause: Clause, placed: Placed, numbers: Mapping[int, int]) -> Root:
    slots = {position: slot for slot, position in enumerate(placed.arrangements[0])}
    return Root(clause, numbers[placed.node], tuple(slots[position] for position in range(len(slots))))
