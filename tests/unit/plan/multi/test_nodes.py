"""Nodes: what is equal is one node, and every clause finds in its node exactly what it asks for."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest

from kleene.explain.shared_plans import described
from kleene.plan.multi.clauses import Clause, Condition, Leaf, ordered
from kleene.plan.multi.cost import EVALUATION, SharedStatistics
from kleene.plan.multi.nodes import Nodes, SharedPlan, Tree, nodes_and_roots
from kleene.plan.order.cost import PARTIAL, SCOPE
from support.random_clauses import FORMS, Workload, all_trees, random_workload

LEAVES = tuple(Leaf(frozenset({name}), frozenset()) for name in "ABC")
LESS, EQUAL, _ = FORMS


def clause(leaves: tuple[int, ...], *conditions: Condition, order: bool = False, window: int | None = 10) -> Clause:
    size = len(leaves)
    precedes = frozenset((i, j) for i in range(size) for j in range(i + 1, size)) if order else frozenset()
    return Clause("P", 0, tuple(range(size)), leaves, precedes, conditions, window)


def statistics(*rates: float) -> SharedStatistics:
    return SharedStatistics(rates)


def nodes(*clauses: Clause) -> Nodes:
    return Nodes(LEAVES, clauses, statistics(1.0, 1.0, 1.0))


def planned(workload: Workload, trees: list[Tree], *, shared: bool = True) -> SharedPlan:
    leaves, clauses, known = workload
    made, roots, cost = nodes_and_roots(leaves, clauses, known, trees, shared=shared)
    return SharedPlan(leaves, made, roots, cost, "multitree", "none", {}, known)


def random_trees(workload: Workload, seed: int) -> list[Tree]:
    random = Random(seed)
    return [random.choice(all_trees(tuple(range(len(clause.leaves))))) for clause in workload[1]]


def test_the_order_of_children_does_not_matter() -> None:
    made = nodes(clause((0, 1, 2), order=True), clause((0, 1, 2), order=True))
    assert made.place(0, ((0, 1), 2)).node == made.place(1, (2, (1, 0))).node
    assert made.place(0, ((0, 1), 2)).node != made.place(1, ((0, 2), 1)).node


def test_the_order_of_events_and_conditions_matter() -> None:
    less, more = Condition(LESS, (0, 1)), Condition(LESS, (1, 0))
    different = [
        clause((0, 1)),
        clause((0, 1), order=True),
        clause((1, 0), order=True),
        clause((0, 1), less),
        clause((0, 1), more),
    ]
    made = nodes(*different, clause((1, 0), more))
    found = [made.place(number, (0, 1)).node for number in range(6)]
    assert len(set(found[:5])) == 5
    assert found[5] == found[3]


def test_positions_that_a_node_does_not_tell_apart_are_arranged_as_a_parent_needs_them() -> None:
    """AND(A, A, B) with a condition between B and either A is one pattern."""
    made = nodes(clause((0, 0, 1), Condition(LESS, (0, 2))), clause((0, 0, 1), Condition(LESS, (1, 2))))
    assert made.place(0, ((0, 1), 2)).node == made.place(1, ((0, 1), 2)).node
    plan = planned((LEAVES, (clause((0, 0, 1), Condition(LESS, (1, 2))),), statistics(1.0, 1.0, 1.0)), [((0, 1), 2)])
    (condition,) = plan.nodes[plan.roots[0].node].conditions
    assert condition.components == tuple(plan.roots[0].slots[position] for position in (1, 2))


def test_a_node_may_be_joined_with_itself() -> None:
    """SEQ(A, B, A, B): both pairs are the same partial matches."""
    pattern = clause((0, 1, 0, 1), order=True)
    plan = planned((LEAVES, (pattern,), statistics(1.0, 1.0, 1.0)), [((0, 1), (2, 3))])
    root = plan.nodes[plan.roots[0].node]
    assert root.left == root.right
    assert len(plan.nodes) == 4
    assert set(plan.roots[0].slots) == {0, 1, 2, 3}


def test_symmetric_conditions_are_one_whichever_side_comes_first() -> None:
    equal = [clause((0, 1), Condition(EQUAL, (0, 1))), clause((1, 0), Condition(EQUAL, (0, 1)))]
    made = nodes(*equal)
    assert made.place(0, (0, 1)).node == made.place(1, (0, 1)).node


@pytest.mark.parametrize("seed", range(40))
def test_every_clause_finds_its_order_and_conditions_in_its_node(seed: int) -> None:
    workload = random_workload(seed, count=6, sizes=(1, 2, 3, 4), types=4, repeated=seed % 2 == 0, wide=seed % 3 == 0)
    plan = planned(workload, random_trees(workload, seed), shared=seed % 4 > 0)
    found = described(plan)
    for root in plan.roots:
        item, slots = found[root.node], root.slots
        assert sorted(slots) == list(range(len(item.leaves)))
        assert tuple(item.leaves[slot] for slot in slots) == root.clause.leaves
        assert set(item.precedes) == {(slots[i], slots[j]) for i, j in root.clause.precedes}
        wanted = {(c.form, ordered(c.form, tuple(slots[i] for i in c.components))) for c in root.clause.conditions}
        assert {(c.form, c.components) for c in item.conditions} == wanted
        assert len(item.conditions) == len(wanted)


@pytest.mark.parametrize("seed", range(20))
def test_nodes_are_numbered_from_the_leaves_up_and_all_used(seed: int) -> None:
    workload = random_workload(seed, count=5, sizes=(2, 3, 4), types=5, windows=(5, 10, None))
    plan = planned(workload, random_trees(workload, seed))
    used = frozenset().union(*(plan.below(root.node) for root in plan.roots))
    assert used == set(range(len(plan.nodes)))
    for number, node in enumerate(plan.nodes):
        assert node.number == number
        windows = [root.clause.window for root in plan.roots if number in plan.below(root.node)]
        assert node.window == (None if None in windows else max(window for window in windows if window is not None))
        if not node.is_leaf:
            assert max(node.left, node.right) < number
            assert node.leaves == plan.nodes[node.left].leaves + plan.nodes[node.right].leaves


@pytest.mark.parametrize("seed", range(20))
def test_the_tree_of_a_clause_can_be_read_from_the_plan(seed: int) -> None:
    workload = random_workload(seed, count=5, sizes=(1, 3, 4), types=4, repeated=True)
    trees = random_trees(workload, seed)
    plan = planned(workload, trees)
    again = planned(workload, [plan.tree(root) for root in plan.roots])
    assert again == plan


def test_without_sharing_clauses_have_only_leaves_in_common() -> None:
    pattern = clause((0, 1, 2), order=True)
    workload = LEAVES, (pattern, pattern), statistics(1.0, 2.0, 3.0)
    apart, shared = (planned(workload, [((0, 1), 2)] * 2, shared=shared) for shared in (False, True))
    assert [len(plan.nodes) for plan in (apart, shared)] == [7, 5]
    assert apart.cost == pytest.approx(2 * shared.cost)


def test_the_cost_of_a_join() -> None:
    """Two A and three B in a unit of time, of which the share 0.5 satisfies the condition."""
    pattern = clause((0, 1), Condition(LESS, (0, 1)), order=True)
    plan = planned((LEAVES, (pattern,), statistics(2.0, 3.0, 1.0)), [(0, 1)])
    assert plan.cost == pytest.approx(2 * SCOPE + 60 * EVALUATION + 30 * PARTIAL)


def test_a_node_costs_what_its_widest_window_costs() -> None:
    narrow, wide = clause((0, 1, 2), order=True, window=10), clause((0, 1, 2), order=True, window=30)
    alone, both = (
        planned((LEAVES, patterns, statistics(1.0, 2.0, 3.0)), [((0, 1), 2)] * len(patterns)).cost
        for patterns in ((wide,), (narrow, wide))
    )
    assert alone == pytest.approx(both)


@pytest.mark.parametrize("seed", range(30))
def test_occurrences_are_all_trees_that_are_a_node(seed: int) -> None:
    leaves, clauses, known = random_workload(seed, count=3, sizes=(3,), types=3, repeated=True)
    made = Nodes(leaves, clauses, known)
    for number in range(3):
        for tree in all_trees((0, 1, 2)):
            node = made.place(number, tree).node
            for other in range(3):
                wanted = {
                    tuple(sorted((1 << i | 1 << j, 1 << k)))
                    for i, j, k in permutations(range(3))
                    if made.place(other, ((i, j), k)).node == node
                }
                masks = [[made.place(other, part).mask for part in placed.tree] for placed in made.occurrences(node, other)]
                assert {tuple(sorted(pair)) for pair in masks} == wanted
