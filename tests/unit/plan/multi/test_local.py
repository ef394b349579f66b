"""The local planner against all trees and all orders of a clause, with and without required parts."""

from __future__ import annotations

from random import Random

import pytest

from kleene.plan.multi import local
from kleene.plan.multi.cost import Estimates
from kleene.plan.multi.local import LocalPlanner, members, moved, positions_of, written_order
from kleene.plan.multi.nodes import Tree
from support.random_clauses import all_orders, all_trees, random_workload


def estimates(seed: int, size: int) -> Estimates:
    _, (clause,), statistics = random_workload(seed, count=1, sizes=(size,), types=size + 2)
    return Estimates(clause, statistics)


def cost(known: Estimates, tree: Tree) -> float:
    """The cost of a tree, join by join."""
    if isinstance(tree, int):
        return 0.0
    left, right = tree
    return cost(known, left) + cost(known, right) + known.join(positions_of(left), positions_of(right))


def subtrees(tree: Tree) -> set[frozenset[int] | Tree]:
    """The sub-trees of a tree, whatever the order of children."""
    if isinstance(tree, int):
        return {tree}
    return {_unordered(tree)} | subtrees(tree[0]) | subtrees(tree[1])


def _unordered(tree: Tree) -> frozenset[object] | int:
    return tree if isinstance(tree, int) else frozenset(map(_unordered, tree))


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("kind", ["multitree", "tree"])
def test_the_best_of_all(seed: int, kind: str) -> None:
    size = 1 + seed % 5
    known = estimates(seed, size)
    tree = LocalPlanner([known], kind).best(0)
    every = all_trees(tuple(range(size))) if kind == "multitree" else tuple(all_orders(tuple(range(size))))
    assert cost(known, tree) == pytest.approx(min(cost(known, other) for other in every), rel=1e-12)
    assert _unordered(tree) in set(map(_unordered, every))


@pytest.mark.parametrize("seed", range(30))
def test_the_best_of_all_with_required_subtrees(seed: int) -> None:
    random = Random(seed)
    known = estimates(seed, 5)
    positions = random.sample(range(5), 4)
    required = (
        ((positions[0], positions[1]), (positions[2], positions[3])) if seed % 2 else ((tuple(positions[:2]), positions[2]),)
    )
    tree = LocalPlanner([known], "multitree").best(0, None, required)
    wanted = set(map(_unordered, required))
    assert wanted <= subtrees(tree)
    every = [other for other in all_trees(tuple(range(5))) if wanted <= subtrees(other)]
    assert cost(known, tree) == pytest.approx(min(cost(known, other) for other in every), rel=1e-12)


@pytest.mark.parametrize("seed", range(30))
def test_the_best_of_all_orders_with_a_prefix(seed: int) -> None:
    known = estimates(seed, 5)
    prefix = written_order(Random(seed).sample(range(5), 1 + seed % 4))
    tree = LocalPlanner([known], "tree").best(0, None, (prefix,))
    every = [other for other in all_orders(tuple(range(5))) if _unordered(prefix) in subtrees(other)]
    starts = [other for other in every if not isinstance(prefix, int) or _first_two(other) & {prefix}]
    assert _unordered(prefix) in subtrees(tree)
    assert cost(known, tree) == pytest.approx(min(cost(known, other) for other in starts), rel=1e-12)


def _first_two(tree: Tree) -> set[int]:
    while not isinstance(tree, int) and not isinstance(tree[0], int):
        tree = tree[0]
    return {tree} if isinstance(tree, int) else {item for item in tree if isinstance(item, int)}


@pytest.mark.parametrize("kind", ["multitree", "tree"])
def test_the_best_of_some_positions(kind: str) -> None:
    known = estimates(3, 6)
    tree = LocalPlanner([known], kind).best(0, 0b101100)
    every = all_trees((2, 3, 5))
    assert positions_of(tree) == 0b101100
    assert cost(known, tree) == pytest.approx(min(cost(known, other) for other in every), rel=1e-12)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kind", ["multitree", "tree"])
def test_the_best_response_uses_what_exists(seed: int, kind: str) -> None:
    """What costs nothing is used: the best plan is the best of those with it and of those without it."""
    known = estimates(seed, 4)
    planner = LocalPlanner([known], kind)
    existing: Tree = (seed % 4, (seed + 1) % 4)
    made = {positions_of(existing): (0.0, existing)}

    def priced(tree: Tree) -> float:
        if isinstance(tree, int) or positions_of(tree) == positions_of(existing):
            return 0.0
        return priced(tree[0]) + priced(tree[1]) + known.join(positions_of(tree[0]), positions_of(tree[1]))

    every = all_trees((0, 1, 2, 3)) if kind == "multitree" else tuple(all_orders((0, 1, 2, 3)))
    assert priced(planner.response(0, made)) == pytest.approx(min(map(priced, every)), rel=1e-12)


@pytest.mark.parametrize("kind", ["multitree", "tree"])
def test_many_positions_are_planned_in_bounded_time(kind: str) -> None:
    known = estimates(5, 30)
    planner = LocalPlanner([known], kind)
    assert positions_of(planner.best(0)) == (1 << 30) - 1
    assert cost(known, planner.best(0)) <= cost(known, written_order(range(30)))


def test_joining_the_cheapest_first_is_close_to_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [estimates(seed, 7) for seed in range(20)]
    exact = [cost(item, LocalPlanner([item], "multitree").best(0)) for item in known]
    monkeypatch.setattr(local, "MOST_PARTS", 5)
    bounded = [cost(item, LocalPlanner([item], "multitree").best(0)) for item in known]
    assert all(one >= other * (1 - 1e-12) for one, other in zip(bounded, exact, strict=True))
    assert sum(one <= 1.2 * other for one, other in zip(bounded, exact, strict=True)) >= 15


def test_trees_are_moved_and_measured() -> None:
    assert moved(((0, 1), 2), {0: 5, 1: 3, 2: 4}) == ((5, 3), 4)
    assert members(positions_of(((5, 3), 4))) == [3, 4, 5]
