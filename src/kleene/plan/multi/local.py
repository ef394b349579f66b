"""The local planner (A in section 4.2): the cheapest tree, or order, of one clause, with given sub-trees in it.

What a join costs depends on the sets of positions on its sides, not on how they were made. So the best tree of a set is the
best of its divisions into two sets, each with its own best tree; a sub-tree that is required is never divided. An order is a
left-deep tree. With nothing required this is the tree plan of a single pattern (ZStream).

Cost: 3^n / 2 divisions for a tree of n parts. With more than MOST_PARTS, those whose join is cheapest are joined first. Orders
of more than a dozen positions keep the cheapest sets of each size only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from kleene.plan.multi.cost import EVALUATION, Estimates, reach
from kleene.plan.multi.nodes import Tree
from kleene.plan.order.cost import LARGEST, PARTIAL, SCOPE
from kleene.plan.order.orders import MOST_STEPS

Part = tuple[int, Tree]
"""A set of positions that is not divided, and its tree."""
Made = Mapping[int, tuple[float, Tree]]
"""Sets of positions of which a tree exists already, with what it costs to use it."""

MOST_PARTS = 10


def written_order(positions: Iterable[int]) -> Tree:
    """The left-deep tree of positions in order.

    >>> written_order([2, 0, 1])
    ((2, 0), 1)
    """
    return left_deep([(1 << position, position) for position in positions])


def left_deep(parts: Sequence[Part]) -> Tree:
    """The left-deep tree of parts in order."""
    tree = parts[0][1]
    for _, part in parts[1:]:
        tree = (tree, part)
    return tree


def positions_of(tree: Tree) -> int:
    """The positions of a tree, as a mask.

    >>> positions_of(((0, 3), 1))
    11
    """
    return 1 << tree if isinstance(tree, int) else positions_of(tree[0]) | positions_of(tree[1])


def members(mask: int) -> list[int]:
    """The positions of a mask.

    >>> members(0b1010)
    [1, 3]
    """
    return [position for position in range(mask.bit_length()) if mask >> position & 1]


def moved(tree: Tree, places: Mapping[int, int]) -> Tree:
    """A tree with other positions."""
    return places[tree] if isinstance(tree, int) else (moved(tree[0], places), moved(tree[1], places))


class LocalPlanner:
    """The local planner for the clauses of a workload; trees with the same requirements are planned once."""

    def __init__(self, estimates: Sequence[Estimates], kind: str) -> None:
        self._estimates = estimates
        self._left_deep = kind == "tree"
        self._known: dict[tuple[int, int, tuple[Tree, ...]], Tree] = {}

    def best(self, clause: int, mask: int | None = None, required: tuple[Tree, ...] = ()) -> Tree:
        """The cheapest tree of a set of positions, of all of them by default, that has the required sub-trees.

        Sub-trees are disjoint; an order can begin with one only.
        """
        known = self._estimates[clause]
        mask = (1 << known.size) - 1 if mask is None else mask
        key = (clause, mask, required)
        found = self._known.get(key)
        if found is None:
            parts = [(positions_of(tree), tree) for tree in required]
            if self._left_deep:
                assert len(parts) <= 1, "an order begins with one prefix"
                found = _best_order(known, mask, parts[0] if parts else None, {})[1]
            else:
                rest = mask & ~sum(part for part, _ in parts)
                parts += [(1 << position, position) for position in members(rest)]
                found = _best_tree(known, parts, {})[1]
            self._known[key] = found
        return found

    def response(self, clause: int, made: Made) -> Tree:
        """The cheapest tree of a clause when some trees exist already."""
        known = self._estimates[clause]
        everything = (1 << known.size) - 1
        if self._left_deep:
            return _best_order(known, everything, None, made)[1]
        return _best_tree(known, [(1 << position, position) for position in range(known.size)], made)[1]


def _best_tree(known: Estimates, parts: list[Part], made: Made) -> tuple[float, Tree]:
    """The cheapest tree of all parts, with its cost."""
    parts = _few(known, parts)
    masks, costs, trees = [0], [0.0], [parts[0][1]]
    partial_matches, shares, inner, beside = [0.0], [1.0], [False], [0]
    for chosen in range(1, 1 << len(parts)):
        lowest = chosen & -chosen
        mask, tree = parts[lowest.bit_length() - 1]
        rest = chosen ^ lowest
        masks.append(masks[rest] | mask)
        both = known.of(masks[chosen])
        partial_matches.append(both.partial_matches)
        shares.append(both.share)
        inner.append(both.size > 1)
        beside.append(beside[rest] | known.beside(mask))
        cheapest, best, others = math.inf, chosen, rest
        # `join_cost`, as far as it differs from one division to the next: this loop is most of what planning costs.
        evaluations = EVALUATION * both.tuples
        while others:
            others = (others - 1) & rest
            left = lowest | others
            right = chosen ^ left
            cost = costs[left] + costs[right]
            if cost >= cheapest:
                continue
            if inner[left] and inner[right]:
                near = reach(known.near, bool(beside[left] & masks[right]))
                evaluated = min(partial_matches[left] * partial_matches[right] * near, LARGEST)
                cost += SCOPE * (partial_matches[left] + partial_matches[right]) + EVALUATION * evaluated
            else:
                if inner[left] or inner[right]:
                    looked_up = partial_matches[left if inner[left] else right]
                else:
                    looked_up = min(partial_matches[left], partial_matches[right])
                cost += SCOPE * looked_up + evaluations * shares[left] * shares[right]
            if cost < cheapest:
                cheapest, best = cost, left
        cheapest = cheapest + PARTIAL * both.partial_matches if rest else 0.0
        existing = made.get(masks[chosen])
        if existing is not None and existing[0] <= cheapest:
            cheapest, tree = existing
        elif rest:
            tree = trees[best], trees[chosen ^ best]
        costs.append(cheapest)
        trees.append(tree)
    return costs[-1], trees[-1]


def _few(known: Estimates, parts: list[Part]) -> list[Part]:
    """Parts, with the cheapest joins made until there are few enough."""
    while len(parts) > MOST_PARTS:
        one, other = min(combinations(parts, 2), key=lambda pair: known.join(pair[0][0], pair[1][0]))
        parts = [part for part in parts if part not in (one, other)]
        parts.append((one[0] | other[0], (one[1], other[1])))
    return parts


def _best_order(known: Estimates, mask: int, prefix: Part | None, made: Made) -> tuple[float, Tree]:
    """The cheapest order of a set of positions that begins with a prefix, with its cost."""
    positions = members(mask)
    kept = max(1, MOST_STEPS // len(positions) ** 2)
    starts = [prefix] if prefix else [(1 << position, position) for position in positions]
    best: dict[int, tuple[float, Tree]] = {part: (0.0, tree) for part, tree in starts}
    for _ in range(len(positions) - starts[0][0].bit_count()):
        longer: dict[int, tuple[float, Tree]] = {}
        for bound, (cost, tree) in best.items():
            for position in positions:
                both = bound | 1 << position
                if both == bound:
                    continue
                found = cost + known.join(bound, 1 << position)
                if both not in longer or found < longer[both][0]:
                    longer[both] = found, (tree, position)
        for both in longer.keys() & made.keys():
            if made[both][0] <= longer[both][0]:
                longer[both] = made[both]
        best = dict(sorted(longer.items(), key=lambda item: (item[1][0], item[0]))[:kept])
    ((cost, tree),) = best.values()
    return cost, tree
