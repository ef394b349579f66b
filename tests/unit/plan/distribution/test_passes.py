"""Which passes a workload is answered in: as few as there can be, divided as well as can be, and said so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from math import prod
from random import Random

import pytest

from kleene.explain.shared_plans import explain_passes
from kleene.plan.distribution.passes import FEW, Pass, Spread, choose_passes, contested

Keys = Mapping[str, tuple[str, ...]]


def random_keys(random: Random, sets: int, names: str = "abcde") -> dict[str, tuple[str, ...]]:
    """Queries with so many different sets of keys, some of them twice and in another order."""
    chosen: dict[frozenset[str], tuple[str, ...]] = {}
    while len(chosen) < sets:
        keys = tuple(random.sample(names, random.randint(1, 3)))
        chosen.setdefault(frozenset(keys), keys)
    given = [*chosen.values(), *(tuple(reversed(keys)) for keys in random.sample(list(chosen.values()), sets // 2))]
    random.shuffle(given)
    return {f"q{number}": keys for number, keys in enumerate(given)}


def groupings(items: Sequence[frozenset[str]]) -> Iterator[list[list[frozenset[str]]]]:
    """All partitions of some items, allowed or not."""
    if not items:
        yield []
        return
    for others in groupings(items[1:]):
        yield [[items[0]], *others]
        for place, group in enumerate(others):
            yield [*others[:place], [items[0], *group], *others[place + 1 :]]


def common(group: Sequence[frozenset[str]]) -> frozenset[str]:
    return reduce(frozenset.intersection, group)


def best(keys: Keys, values: Mapping[str, int], tasks: int) -> tuple[int, list[int]]:
    """By trying everything: the fewest passes, and into how many parts they divide the events of each set, the worst first."""
    sets = list(dict.fromkeys(map(frozenset, keys.values())))
    found = []
    for grouping in groupings(sets):
        parts = [prod(values[name] for name in common(group)) for group in grouping]
        if all(common(group) and (len(group) == 1 or count >= tasks) for group, count in zip(grouping, parts, strict=True)):
            of_sets = [count for group, count in zip(grouping, parts, strict=True) for _ in group]
            found.append((-len(grouping), sorted(of_sets)))
    fewest, parts = max(found)
    return -fewest, parts


def require_answered(passes: Sequence[Pass], keys: Keys) -> None:
    """That every query is in one pass, whose keys are some of its own."""
    assert sorted(name for item in passes for name in item.queries) == sorted(keys)
    for item in passes:
        for name in item.queries:
            assert set(item.keys) <= set(keys[name])
            assert bool(item.keys) == bool(keys[name])


@pytest.mark.parametrize("seed", range(60))
def test_few_key_sets_are_grouped_as_well_as_can_be(seed: int) -> None:
    random = Random(seed)
    keys = random_keys(random, random.randint(1, 6))
    values = {name: random.choice([1, 2, 3, 10, 1000]) for name in "abcde"}
    tasks = random.choice([1, 4])
    passes = choose_passes(keys, Spread(values, tasks)).passes
    require_answered(passes, keys)
    found = {frozenset(keys[name]): prod(values[key] for key in item.keys) for item in passes for name in item.queries}
    assert (len(passes), sorted(found.values())) == best(keys, values, tasks)


@pytest.mark.parametrize("seed", range(20))
def test_many_key_sets_are_grouped_by_the_commonest_key(seed: int) -> None:
    random = Random(seed)
    keys = random_keys(random, FEW + random.randint(1, 12), "abcdef")
    passes = choose_passes(keys).passes
    require_answered(passes, keys)
    counts = {name: len({frozenset(item) for item in keys.values() if name in item}) for name in "abcdef"}
    largest = max(len({frozenset(keys[name]) for name in item.queries}) for item in passes)
    assert largest == max(counts.values())
    assert len(passes) <= 6


def test_many_key_sets_without_a_key_that_divides_enough_have_a_pass_each() -> None:
    names = [f"k{number}" for number in range(FEW + 2)]
    keys = {f"q{number}": (name, "small") for number, name in enumerate(names)}
    values = {"small": 2, **dict.fromkeys(names, 2)}
    assert len(choose_passes(keys, Spread(values, 3)).passes) == len(keys)
    assert len(choose_passes(keys, Spread(values, 2)).passes) == 1


def test_a_pass_is_shuffled_by_all_that_its_queries_have_in_common() -> None:
    passes = choose_passes({"p": ("c", "a", "b"), "q": ("a", "c"), "r": ("a", "c", "d")}).passes
    assert passes == (Pass(("c", "a"), ("p", "q", "r")),)


def test_where_there_is_a_choice_it_is_the_key_with_more_values() -> None:
    keys = {"one": ("a",), "other": ("b",), "both": ("a", "b")}
    by_b = choose_passes(keys, Spread({"a": 5, "b": 50}, 2)).passes
    by_a = choose_passes(keys, Spread({"a": 50, "b": 5}, 2)).passes
    assert by_b[1] == Pass(("b",), ("other", "both"))
    assert by_a[0] == Pass(("a",), ("one", "both"))


def test_queries_do_not_share_a_pass_that_too_few_values_divide() -> None:
    keys = {"coarse": ("country",), "fine": ("country", "user")}
    shared = choose_passes(keys, Spread({"country": 5, "user": 1000}, 4))
    apart = choose_passes(keys, Spread({"country": 5, "user": 1000}, 8))
    assert [item.keys for item in shared.passes] == [("country",)]
    assert [item.keys for item in apart.passes] == [("country",), ("country", "user")]
    assert "country: 5 values seen, too few to divide the work of 8 tasks" in explain_passes(apart)
    assert "too few" not in explain_passes(shared)


def test_values_are_asked_for_only_where_they_decide() -> None:
    assert contested({"p": ("a", "b"), "q": ("b", "a"), "r": ("c",), "s": ()}) == ()
    assert contested({"p": ("a", "b"), "q": ("b",), "r": ("c",)}) == ("a", "b")


def test_no_queries_no_passes() -> None:
    assert choose_passes({}).passes == ()


def test_the_text_names_passes_with_their_queries_and_why() -> None:
    keys = {"p": ("a", "b"), "q": ("b",), "r": (), "s": ("c",), "t": ("c",), "v": (), "w": ()}
    text = explain_passes(choose_passes(keys, alone={"u": "counted in slices of time"}, sliced=["v", "w"]), ["Pair", "Pair"])
    assert text.splitlines() == [
        "8 queries in 5 passes over the events and Pair",
        "",
        "pass  shuffled by  queries  why",
        "   1  b            p, q     what they have in common: (a, b), (b)",
        "   2  c            s, t     all that divides the events of each",
        "   3  nothing      v, w     no key divides the events: slices of time",
        "   4  nothing      r        no key divides the events: one task sees all",
        "   5               u        counted in slices of time",
    ]
