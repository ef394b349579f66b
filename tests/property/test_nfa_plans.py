"""Every algorithm of the automata, however the stream is cut, gives the oracle's matches, verbose and compressed.

20,000 random pairs run with plain-Python kernels (in processes of their own: the choice is made when the engine is imported),
some hundreds compiled, some dozens on Spark. `tests/support/nfa_pairs.py` does the comparing; as a script it runs any part of
it by hand, and a failure names its example.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from kleene.interfaces.query import Query
from kleene.language.parser import parse
from kleene.language.printer import to_text
from kleene.pattern.policies import Strategy
from kleene.pattern.predicates import AggregateFunction, Element
from kleene.testing import oracle
from kleene.testing.case_routes import canonical
from support import nfa_pairs, queue_pairs, sase_pairs
from support.long_tests import mostly_long
from support.pair_runs import assert_agreement, assert_noticed, assert_shares
from support.spark import frame_of
from support.strategies import Example, saseplus_examples, saseplus_shrinking_examples, saseplus_streams

SEEDS = range(200, 220)
PAIRS = 1_000
"""Per seed; 20 seeds make 20,000."""

SHARES = {
    "with negation": 0.3,
    "negated start": 0.08,
    "negated middle": 0.1,
    "negated end": 0.08,
    "with ties": 0.04,
    "with order_by": 0.15,
    "declared schema": 0.08,
    "with RETURN": 0.1,
    "with ANY": 0.15,
    "without a window": 0.03,
    "timestamps": 0.2,
    "with NULLs": 0.2,
    "longer arrays": 0.25,
    "0 Kleene": 0.05,
    "1 Kleene": 0.4,
    "2 Kleene": 0.1,
    "3 Kleene": 0.01,
    "optional": 0.04,
    "OR": 0.05,
    "count window": 0.1,
    "NON-OVERLAP": 0.1,
    "a.LEN": 0.1,
    "negation reads Kleene": 0.08,
    "Kleene against Kleene": 0.06,
    "Kleene before single": 0.07,
    "single before Kleene": 0.07,
    "quantified over an earlier variable": 0.07,
    "count without attribute": 0.01,
    **{element.value: 0.04 for element in Element if element not in (Element.SINGLE, Element.SO_FAR)},
    **{f"{function.value}({of})": 0.01 for function in AggregateFunction for of in ("a[]", "a[..i-1]")},
}
"""The least share of pairs that have a feature."""

CUTS = ("batch_rows=0", "batch_rows=1", "batch_rows=3", "run_rows=0", "run_rows=3", "block=1", "dictionaries", "shuffled")


@pytest.mark.parametrize("seed", mostly_long(SEEDS))
def test_every_algorithm_agrees_with_the_oracle(seed: int) -> None:
    assert_covered(assert_agreement(nfa_pairs, seed, PAIRS), PAIRS)


def assert_covered(seen: Counter[str], pairs: int) -> None:
    """Every algorithm and strategy is exercised, and so is every feature of SASE+; little is refused."""
    assert seen["refused"] <= 0.05 * pairs, seen
    for algorithm in nfa_pairs.ALGORITHMS:
        assert seen[f"algorithm={algorithm}"] == pairs - seen["refused"]
    for strategy in Strategy:
        assert seen[strategy.value] >= 0.2 * pairs, (strategy, seen)
        assert seen[f"{strategy.value} with matches"] >= 0.4 * seen[strategy.value], (strategy, seen)
    ties = dict.fromkeys(("ties=error refused", "ties=error answered", "ties=arrival answered"), 0.02)
    assert_shares(seen, {**SHARES, **dict.fromkeys(CUTS, 0.02), **ties}, pairs)


@pytest.mark.parametrize("sabotage", mostly_long(nfa_pairs.SABOTAGE))
def test_a_broken_engine_is_noticed(sabotage: str) -> None:
    """A test of the test: ways to be subtly wrong, each seen within some hundred pairs."""
    assert_noticed(nfa_pairs, sabotage, 800)


@pytest.mark.parametrize("seed", mostly_long(range(4)))
def test_runs_in_a_queue_agree_with_the_oracle(seed: int) -> None:
    seen = assert_agreement(queue_pairs, seed, PAIRS)
    assert_shares(seen, {"with matches": 0.25, "several that end together": 0.05, "two branches": 0.05}, PAIRS)


@pytest.mark.parametrize("sabotage", mostly_long(queue_pairs.SABOTAGE))
def test_a_broken_queue_is_noticed(sabotage: str) -> None:
    assert_noticed(queue_pairs, sabotage, 400)


def checked(pair: Example, rng: Random, name: str) -> bool:
    """Compares one pair; whether it has matches (and the engine supports it)."""
    if nfa_pairs.refused(pair):
        return False
    wanted = oracle.matches(pair.bound(), pair.events)
    found = nfa_pairs.check(pair, nfa_pairs.settings_of(rng), rng, wanted)
    assert not found, "\n".join((name, *found, sase_pairs.describe(pair)))
    return bool(wanted)


# --- compiled ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", range(4))
def test_compiled_kernels_agree_with_the_oracle(part: int) -> None:
    """640 pairs: 40 queries, sixteen streams each, so that a filter is compiled once."""
    rng = Random(part)
    with_matches = 0
    for seed in range(7_000 + 10 * part, 7_010 + 10 * part):
        for number, pair in enumerate(saseplus_streams(seed, 16)):
            with_matches += checked(pair, rng, f"stream {number} of saseplus_streams({seed}, 16)")
    assert with_matches > 40


def test_compiled_queues_agree_with_the_oracle() -> None:
    rng = Random(0)
    assert sum(checked(queue_pairs.queue_example(9, number), rng, f"queue_example(9, {number})") for number in range(200)) > 40


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(saseplus_shrinking_examples())
def test_hypothesis_shrinks_what_fails(pair: Example) -> None:
    """The same property under Hypothesis, which reduces a failure to few events and conjuncts."""
    checked(pair, Random(len(pair.events)), "a reduced example")


# --- Spark ------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.long
def test_spark_agrees_with_the_oracle_and_with_embedded(spark: Any) -> None:
    """At least 50 pairs on Spark batch: the oracle's matches with the ids of an embedded run."""
    supported = [pair for pair in saseplus_examples(78, 64) if not nfa_pairs.refused(pair)]
    assert len(supported) >= 50
    with_matches = 0
    for pair in supported:
        shown, table, options = nfa_pairs.bare(pair), sase_pairs.numbered(pair), nfa_pairs.call_options(pair)
        frame, wanted = frame_of(spark, table), oracle.matches(pair.bound(), pair.events)
        comparison = nfa_pairs.Comparison(shown, wanted)
        comparison.add("embedded", Query(shown.query).match(table, **options).to_pylist())
        rows = Query(shown.query).match(frame, **options).collect()
        comparison.add("Spark", [row.asDict(recursive=True) for row in rows])
        assert not comparison.report, "\n".join((*comparison.report, sase_pairs.describe(pair)))
        if pair.query.returns:
            found = Query(pair.query).match(frame, **options).toArrow().to_pylist()
            expected = Query(pair.query).match(table, **options).to_pylist()
            assert Counter(map(canonical, found)) == Counter(map(canonical, expected)), sase_pairs.describe(pair)
        with_matches += bool(wanted)
    assert with_matches > 20


# --- the generator and the comparison ---------------------------------------------------------------------------------


def test_the_generator_reaches_every_feature() -> None:
    """Without the engine: shares of matches per strategy and of features, and texts that parse to their queries."""
    seen: Counter[str] = Counter()
    for pair in saseplus_examples(3, 1_000):
        seen.update(nfa_pairs.features(pair, oracle.matches(pair.bound(), pair.events)))
        assert parse(to_text(pair.query)) == pair.query
    for strategy in Strategy:
        assert seen[f"{strategy.value} with matches"] >= 0.4 * seen[strategy.value] > 80, (strategy, seen)
    assert_shares(seen, SHARES, 1_000)


def test_examples_are_reproducible() -> None:
    assert list(saseplus_examples(3, 20)) == list(saseplus_examples(3, 20))
    assert list(saseplus_examples(3, 20)) != list(saseplus_examples(4, 20))


def test_the_comparison_sees_what_differs() -> None:
    """One match lost, one too many, one element less, another id: each is reported."""
    pair = next(pair for pair in map(nfa_pairs.bare, saseplus_examples(5, 50)) if len(_rows(pair)) > 3)
    right, wanted = _rows(pair), oracle.matches(pair.bound(), pair.events)
    spoiled = [right[1:], [*right, right[0]], [{**right[0], "match_end": None}, *right[1:]]]
    spoiled.append([{**right[0], "match_id": -1}, *right[1:]])
    for rows in spoiled:
        comparison = nfa_pairs.Comparison(pair, wanted)
        comparison.add("first", right)
        assert comparison.report == []
        comparison.add("second", rows)
        assert comparison.report


def _rows(pair: Example) -> list[dict[str, Any]]:
    """The oracle's matches as an engine would give them."""
    absent = dict.fromkeys(event.variable for event in nfa_pairs.components(pair.query.pattern))
    rows = []
    for number, match in enumerate(oracle.matches(pair.bound(), pair.events)):
        times = [pair.events[position]["ts"] for position in match.positions]
        bound = {name: [{"row": one} for one in at] if isinstance(at, tuple) else {"row": at} for name, at in match.bindings}
        rows.append({**absent, **bound, "match_id": number, "match_start": min(times), "match_end": max(times)})
    return rows
