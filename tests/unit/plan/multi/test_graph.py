"""The multi-pattern graph against its definition, and after changes against a fresh one."""

from __future__ import annotations

from itertools import combinations, permutations
from random import Random

import pytest

from kleene.plan.multi.clauses import Clause, ordered
from kleene.plan.multi.graph import PatternGraph, Subpattern
from support.random_clauses import random_workload
from support.work import calls_of

Matching = frozenset[tuple[int, int]]


def agrees(one: Clause, other: Clause, pairs: dict[int, int]) -> bool:
    """Whether positions of two clauses make the same sub-pattern, by definition."""
    if any(one.leaves[i] != other.leaves[j] for i, j in pairs.items()):
        return False
    back = {j: i for i, j in pairs.items()}
    if {pair for pair in one.precedes if set(pair) <= pairs.keys()} != {
        (back[i], back[j]) for i, j in other.precedes if {i, j} <= back.keys()
    }:
        return False
    ours = {(item.form, item.components) for item in one.conditions if set(item.components) <= pairs.keys()}
    theirs = {
        (item.form, ordered(item.form, tuple(back[j] for j in item.components)))
        for item in other.conditions
        if set(item.components) <= back.keys()
    }
    return ours == theirs


def maximal(one: Clause, other: Clause) -> set[Matching]:
    """The maximal common sub-patterns of two clauses, by trying everything."""
    found: list[Matching] = []
    for size in range(min(len(one.leaves), len(other.leaves)), 1, -1):
        for ours in combinations(range(len(one.leaves)), size):
            for theirs in permutations(range(len(other.leaves)), size):
                pairs = dict(zip(ours, theirs, strict=True))
                matching = frozenset(pairs.items())
                if agrees(one, other, pairs) and not any(matching < larger for larger in found):
                    found.append(matching)
    return set(found)


def places(graph: PatternGraph, number: int) -> set[tuple[Subpattern, int]]:
    return {(subpattern, mask) for subpattern, slots in graph.of(number).items() for mask in slots.values()}


@pytest.mark.parametrize("seed", range(60))
def test_maximal_common_subpatterns_are_those_of_the_definition(seed: int) -> None:
    _, clauses, _ = random_workload(seed, count=2, sizes=(2, 3, 4), types=4, repeated=seed % 3 == 0, wide=seed % 2 == 0)
    graph = PatternGraph(clauses)
    wanted = maximal(*clauses)
    masks = {tuple(sum(1 << position for position in side) for side in zip(*pairs, strict=True)) for pairs in wanted}
    found = [{mask for _, mask in places(graph, number)} for number in (0, 1)]
    assert found == [{pair[0] for pair in masks}, {pair[1] for pair in masks}]
    assert all(len(holders) == 2 for holders in graph.subpatterns.values())


@pytest.mark.parametrize("seed", range(20))
def test_clauses_have_what_the_tables_say(seed: int) -> None:
    """Sub-patterns with one form are equal, and the positions at their slots belong together."""
    _, clauses, _ = random_workload(seed, count=6, sizes=(3, 4), types=4, repeated=seed % 2 == 0, wide=seed % 3 == 0)
    graph = PatternGraph(clauses)
    checked = 0
    for subpattern, holders in graph.subpatterns.items():
        for one, other in combinations(holders, 2):
            for ours in graph.of(one)[subpattern]:
                for theirs in graph.of(other)[subpattern]:
                    assert agrees(clauses[one], clauses[other], dict(zip(ours, theirs, strict=True)))
                    checked += 1
    assert checked or not graph.subpatterns


@pytest.mark.parametrize("seed", range(30))
def test_containing_finds_every_clause_with_a_part(seed: int) -> None:
    _, clauses, _ = random_workload(seed, count=5, sizes=(3, 4), types=5)
    graph = PatternGraph(clauses)
    for one, clause in enumerate(clauses):
        for size in (2, 3):
            for part in combinations(range(len(clause.leaves)), size):
                found = graph.containing(one, sum(1 << position for position in part))
                wanted = {
                    number
                    for number, other in enumerate(clauses)
                    if number != one
                    and any(
                        agrees(clause, other, dict(zip(part, theirs, strict=True)))
                        for theirs in permutations(range(len(other.leaves)), size)
                    )
                }
                assert found.keys() == wanted
                for number, sides in found.items():
                    matched = dict(zip(*sides, strict=True))
                    assert agrees(clause, clauses[number], {position: matched[position] for position in part})


def contents(graph: PatternGraph, clauses: dict[int, Clause]) -> set[tuple[str, frozenset[tuple[str, int]]]]:
    """What a graph says, in terms of the clauses' names."""
    found = set()
    for subpattern, holders in graph.subpatterns.items():
        masks = {(clauses[number].query, mask) for number in holders for mask in graph.of(number)[subpattern].values()}
        found.add((str(sorted(subpattern.leaves)), frozenset(masks)))
    return found


@pytest.mark.parametrize("seed", range(30))
def test_adding_and_removing_leads_to_the_same_graph(seed: int) -> None:
    _, clauses, _ = random_workload(seed, count=9, sizes=(3, 4, 5), types=6, wide=seed % 2 == 0)
    random = Random(seed)
    graph, present = PatternGraph(), dict[int, Clause]()
    for clause in clauses:
        present[graph.add(clause)] = clause
        if random.random() < 0.4:
            gone = random.choice(list(present))
            graph.remove(gone)
            del present[gone]
    fresh = PatternGraph(present.values())
    assert contents(graph, present) == contents(fresh, dict(enumerate(present.values())))
    named = [sorted(present[number].query for number in group) for group in graph.components()]
    assert sorted(named) == sorted(
        sorted(list(present.values())[number].query for number in group) for group in fresh.components()
    )


def test_removing_everything_leaves_nothing() -> None:
    _, clauses, _ = random_workload(1, count=8, sizes=(3, 4), types=5)
    graph = PatternGraph(clauses)
    assert graph.subpatterns
    for number in graph.numbers:
        graph.remove(number)
    assert not graph.subpatterns
    assert graph.components() == []


def test_components_have_nothing_in_common() -> None:
    _, clauses, _ = random_workload(3, count=30, sizes=(2, 3), types=12)
    graph = PatternGraph(clauses)
    groups = graph.components()
    assert len(groups) > 1
    assert sorted(number for group in groups for number in group) == list(range(30))
    for one, other in combinations(groups, 2):
        for i in one:
            for j in other:
                assert not maximal(clauses[i], clauses[j])


def test_clauses_of_one_leaf_only_are_compared_without_trying_every_order() -> None:
    _, clauses, _ = random_workload(5, count=6, sizes=(8,), types=1, repeated=True)
    graph = PatternGraph(clauses)
    assert calls_of(lambda: PatternGraph(clauses)) < 200_000  # 8! orders of the leaves are 40,320, for each pair of clauses
    assert any(len(subpattern.leaves) == 8 for subpattern in graph.subpatterns)


def test_the_work_of_two_hundred_clauses_is_that_of_their_pairs() -> None:
    _, clauses, _ = random_workload(7, count=200, sizes=(5, 6, 7, 8), types=20)
    graph = PatternGraph(clauses)
    assert calls_of(lambda: PatternGraph(clauses)) < 5 * calls_of(lambda: PatternGraph(clauses[:100]))
    assert max(map(len, graph.components())) > 150
