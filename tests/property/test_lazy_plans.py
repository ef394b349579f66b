"""Every order of binding, under every mechanism and however the stream is cut, gives the oracle's matches.

20,000 random pairs run with plain-Python kernels (in processes of their own: the choice is made when the engine is imported),
some hundreds compiled, some dozens on Spark. `tests/support/lazy_pairs.py` does the comparing; as a script it runs any part of
it by hand, and a failure names its example.
"""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import kleene
from kleene.interfaces.options import options_of
from kleene.interfaces.query import Query
from kleene.language.parser import parse
from kleene.language.printer import to_text
from kleene.pattern.operators import events as components
from kleene.runtime.embedded import rows_of
from kleene.testing.case_routes import canonical
from support import lazy_pairs, nfa_pairs, sase_pairs
from support.long_tests import mostly_long
from support.pair_runs import CUTS, assert_agreement, assert_noticed, assert_shares
from support.spark import frame_of
from support.strategies import Example, any_match_examples, any_match_shrinking_examples, any_match_streams

SEEDS = range(300, 320)
PAIRS = 1_000
"""Per seed; 20 seeds make 20,000."""

SHARES = {
    "with matches": 0.45,
    "SEQ": 0.5,
    "AND": 0.4,
    "OR": 0.15,
    "depth 0": 0.04,
    "depth 1": 0.3,
    "depth 2": 0.3,
    "depth 3": 0.015,
    "distinct events": 0.2,
    "distinct elements": 0.06,
    "partial order": 0.1,
    "negated start": 0.08,
    "negated middle": 0.12,
    "negated end": 0.08,
    "negation under AND": 0.1,
    "negation with several neighbours": 0.08,
    "with ties": 0.2,
    "with order_by": 0.15,
    "declared schema": 0.1,
    "with RETURN": 0.08,
    "with ANY": 0.15,
    "without a window": 0.04,
    "count window": 0.1,
    "NON-OVERLAP": 0.06,
    "timestamps": 0.2,
    "with NULLs": 0.2,
    "optional": 0.1,
    "1 Kleene": 0.2,
    "2 Kleene": 0.06,
    "longer arrays": 0.08,
    "negation reads Kleene": 0.03,
    "Kleene against Kleene": 0.01,
    "Kleene before single": 0.03,
    "single before Kleene": 0.03,
    "quantified over an earlier variable": 0.008,
    "a.LEN": 0.02,
    "a[1].x": 0.008,
    "a[i].x": 0.06,
    "a[i-1].x": 0.03,
    "a[].x": 0.008,
    "a[a.LEN].x": 0.008,
}
"""The least share of pairs that have a feature."""

PLAN_SHARES = {
    "partitions": 0.35,
    "test that does not divide": 0.01,
    "implied comparison": 0.05,
    "decided on blocks": 0.15,
    "three events in a condition": 0.05,
    "plan: chain in an order": 0.6,
    **{f"plan: {lazy_pairs.plan_name(options)}": 0.03 for options in lazy_pairs.PLANS},
    "scopes looked up": 0.3,
    "scopes searched for": 0.3,
    "scopes searched for, then looked up": 0.3,
    "decided together": 0.4,
    "looked up by value": 0.4,
    "planned": 0.1,
    "planned from random statistics": 0.1,
    "turns to another order": 0.15,
    **dict.fromkeys(("ties=error answered", "ties=arrival answered"), 0.01),
    "ties=error refused": 0.001,
}
"""The same for what plans have to decide, and how pairs are run."""


@pytest.mark.parametrize("seed", mostly_long(SEEDS, 2))
def test_every_order_agrees_with_the_oracle(seed: int) -> None:
    seen = assert_agreement(lazy_pairs, seed, PAIRS)
    assert seen["refused"] <= 0.08 * PAIRS, seen
    assert_shares(seen, {**SHARES, **PLAN_SHARES, **dict.fromkeys(CUTS, 0.015)}, PAIRS)


@pytest.mark.parametrize("sabotage", mostly_long(lazy_pairs.SABOTAGE))
def test_a_broken_engine_is_noticed(sabotage: str) -> None:
    """A test of the test: ways to be subtly wrong, each seen within some hundred pairs."""
    assert_noticed(lazy_pairs, sabotage, 1_500)


def checked(example: Example, rng: Random, name: str) -> bool:
    """Compares one pair; whether it has matches (and the engine supports it)."""
    pair = lazy_pairs.Pair(example)
    if pair.plan() is None:
        return False
    found = lazy_pairs.check(pair, lazy_pairs.settings_of(rng, example, 3), rng)
    assert not found, "\n".join((name, *found, sase_pairs.describe(example)))
    return bool(pair.wanted)


# --- compiled ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", range(4))
def test_compiled_kernels_agree_with_the_oracle(part: int) -> None:
    """384 pairs: 24 queries, sixteen streams each, so that a filter is compiled once."""
    rng = Random(part)
    with_matches = 0
    for seed in range(8_000 + 6 * part, 8_006 + 6 * part):
        for number, example in enumerate(any_match_streams(seed, 16)):
            with_matches += checked(example, rng, f"stream {number} of any_match_streams({seed}, 16)")
    assert with_matches > 30


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(any_match_shrinking_examples())
def test_hypothesis_shrinks_what_fails(example: Example) -> None:
    """The same property under Hypothesis, which reduces a failure to few events and conjuncts."""
    checked(example, Random(len(example.events)), "a reduced example")


# --- longer streams ---------------------------------------------------------------------------------------------------

LONGER = (
    "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 40",
    "PATTERN AND(A a, B b, C c) WHERE [k] AND a.x < b.x AND b.x < c.x WITHIN 60",
    "PATTERN SEQ(AND(A a, B b), !(N n), C c) WHERE [k] AND abs(a.x - b.x) < 10 WITHIN 60",
    "PATTERN AND(A a, C{1,2} c[], !(N n)) WHERE [k] AND a.x > c[1].x WITHIN 30",
)


def switching_stream(events: int, seed: int) -> pa.Table:
    """A stream whose rare type becomes the frequent one halfway."""
    rng = np.random.default_rng(seed)
    half = events // 2
    types = [
        rng.choice(list("ABCNX"), half, p=shares) for shares in ((0.01, 0.2, 0.3, 0.02, 0.47), (0.3, 0.2, 0.01, 0.02, 0.47))
    ]
    return pa.table(
        {
            "ts": np.cumsum(rng.integers(0, 3, 2 * half)),
            "type": np.concatenate(types),
            "x": rng.integers(0, 50, 2 * half),
            "k": rng.integers(0, 5, 2 * half),
        }
    )


@pytest.mark.parametrize("text", LONGER)
def test_plans_agree_where_rates_change(text: str) -> None:
    """40,000 events, too many for the oracle: the ids of matches under every plan, in one go and in batches."""
    events, query = switching_stream(40_000, 7), kleene.query(text)
    options = {"time": "ts", "type": "type"}
    names = [event.variable for event in components(query.logical.pattern) if not event.negated]
    plans: list[Any] = [{"mechanism": "chain", "order": list(order)} for order in permutations(names)]
    wanted = sorted(query.match(events, **options, plan={"mechanism": "eager"}).column("match_id").to_pylist())
    assert len(set(wanted)) == len(wanted) > 500
    for plan in [*plans, *lazy_pairs.PLANS]:
        found = query.match(events, **options, plan=plan).column("match_id").to_pylist()
        assert sorted(found) == wanted, plan
    matcher = query.matcher(events.schema, options_of({**options, "plan": {"mechanism": "lazy"}}), run_rows=3_000)
    rows = [rows for batch in events.to_batches(max_chunksize=1_000) for _, rows in matcher.feed(batch)]
    rows += rows_of(matcher.finish())
    assert sorted(pa.Table.from_batches(rows).column("match_id").to_pylist()) == wanted


# --- Spark ------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_spark_agrees_with_the_oracle_and_with_embedded(spark: Any) -> None:
    """Some pairs on Spark batch: the oracle's matches with the ids of an embedded run; plans take turns."""
    pairs = [pair for pair in map(lazy_pairs.Pair, any_match_examples(79, 30)) if pair.plan() is not None]
    assert len(pairs) >= 25
    with_matches = 0
    for number, pair in enumerate(pairs):
        example = pair.example
        shown, options = nfa_pairs.bare(example), nfa_pairs.call_options(example)
        options["plan"] = lazy_pairs.PLANS[number % len(lazy_pairs.PLANS)]
        frame = frame_of(spark, pair.table)
        comparison = nfa_pairs.Comparison(shown, pair.wanted)
        comparison.add("embedded", Query(shown.query).match(pair.table, **options).to_pylist())
        rows = Query(shown.query).match(frame, **options).collect()
        comparison.add("Spark", [row.asDict(recursive=True) for row in rows])
        assert not comparison.report, "\n".join((*comparison.report, sase_pairs.describe(example)))
        if example.query.returns:
            found = Query(example.query).match(frame, **options).toArrow().to_pylist()
            expected = Query(example.query).match(pair.table, **options).to_pylist()
            assert Counter(map(canonical, found)) == Counter(map(canonical, expected)), sase_pairs.describe(example)
        with_matches += bool(pair.wanted)
    assert with_matches > 8


# --- the generator ----------------------------------------------------------------------------------------------------


def test_the_generator_reaches_every_feature() -> None:
    """Without the engine: shares of features, and texts that parse to their queries."""
    seen: Counter[str] = Counter()
    for example in any_match_examples(3, 1_000):
        seen.update(lazy_pairs.features(lazy_pairs.Pair(example)))
        assert parse(to_text(example.query)) == example.query
    assert_shares(seen, SHARES, 1_000)


def test_examples_are_reproducible() -> None:
    assert list(any_match_examples(3, 20)) == list(any_match_examples(3, 20))
    assert list(any_match_examples(3, 20)) != list(any_match_examples(4, 20))


def test_every_order_is_asked_for_where_there_are_few() -> None:
    """Every fifteenth pair of at most three components is answered in all of their orders."""
    rng = Random(0)
    for example in any_match_examples(5, 50):
        names = lazy_pairs.positives_of(example)
        orders = [setting.options.order for setting in lazy_pairs.settings_of(rng, example, 15) if setting.options]
        given = [order for order in orders if order is not None]
        assert len(set(given)) == len(given) == {1: 1, 2: 2, 3: 6, 4: 1}[len(names)]
        assert all(sorted(order) == names for order in given)
