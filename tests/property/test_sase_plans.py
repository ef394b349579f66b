"""Every plan of the SASE fragment, however the stream is cut, gives the oracle's matches.

20,000 random pairs run with plain-Python kernels (in processes of their own: the choice is made when the engine is imported),
some hundreds compiled, some dozens on Spark. `tests/support/sase_pairs.py` does the comparing; as a script it runs any part of
it by hand, and a failure names its example.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from kleene.interfaces.query import Query
from kleene.pattern.operators import events as components
from kleene.plan.options import CHOICES
from kleene.testing import oracle
from kleene.testing.case_routes import canonical
from support import sase_pairs
from support.long_tests import mostly_long
from support.pair_runs import assert_agreement, assert_noticed, assert_shares
from support.random_queries import sase_query
from support.spark import frame_of
from support.strategies import Example, _stream, example, examples, sase_examples

SEEDS = range(100, 120)
PAIRS = 1_000
"""Per seed; 20 seeds make 20,000."""


@pytest.mark.parametrize("seed", mostly_long(SEEDS, 2))
def test_every_plan_agrees_with_the_oracle(seed: int) -> None:
    assert_covered(assert_agreement(sase_pairs, seed, PAIRS), PAIRS)


def assert_covered(seen: Counter[str], pairs: int) -> None:
    """Every option is exercised in each of its values, and so is every feature of the fragment."""
    for name, values in CHOICES["sequence"].items():
        for value in values:
            assert seen[f"{name}={value}"] >= 0.1 * pairs, (name, value, seen)
    shares = {
        "with matches": 0.4,
        "with negation": 0.3,
        "negated start": 0.1,
        "negated middle": 0.15,
        "negated end": 0.1,
        "with ties": 0.3,
        "with order_by": 0.15,
        "declared schema": 0.1,
        "with RETURN": 0.1,
        "with ANY": 0.2,
        "without a window": 0.05,
        "timestamps": 0.2,
        "with NULLs": 0.2,
    }
    cuts = ("batch_rows=0", "batch_rows=1", "batch_rows=3", "run_rows=0", "run_rows=3", "block=1", "block=2")
    assert_shares(seen, {**shares, **dict.fromkeys((*cuts, "dictionaries", "shuffled"), 0.03)}, pairs)


@pytest.mark.parametrize("sabotage", mostly_long(sase_pairs.SABOTAGE))
def test_a_broken_engine_is_noticed(sabotage: str) -> None:
    """A test of the test: five ways to be subtly wrong, each seen within a few hundred pairs."""
    assert_noticed(sase_pairs, sabotage, 400)


# --- compiled ---------------------------------------------------------------------------------------------------------


def one_query_many_streams(seed: int, streams: int) -> list[Example]:
    """Examples that share a query, so that its filter is compiled once."""
    first = example(seed)
    rng = Random(seed)
    more = [
        _stream(rng, first.query, rng.randrange(8, 40), first.integer_time, rng.choice((0.0, 0.2)), rng.choice((0.0, 0.15)))
        for _ in range(streams - 1)
    ]
    return [first, *(Example(first.query, first.schema_kwargs, rows, first.integer_time) for rows in more)]


@pytest.mark.parametrize("part", range(4))
def test_compiled_kernels_agree_with_the_oracle(part: int) -> None:
    """600 pairs: 100 queries, six streams each."""
    rng = Random(part)
    with_matches = 0
    for seed in range(5_000 + 25 * part, 5_000 + 25 * (part + 1)):
        other = sase_pairs.random_setting(rng)
        for pair in one_query_many_streams(seed, 6):
            mine = [sase_pairs.default_setting(rng), sase_pairs.replace(other, seed=rng.randrange(1 << 30))]
            found = sase_pairs.check(pair, mine, rng)
            assert not found, "\n".join((f"seed {seed}", *found, sase_pairs.describe(pair)))
            with_matches += bool(oracle.matches(pair.bound(), pair.events))
    assert with_matches > 50


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(sase_examples())
def test_hypothesis_shrinks_what_fails(pair: Example) -> None:
    """The same property under Hypothesis, which reduces a failure to few events and conjuncts."""
    rng = Random(len(pair.events))
    found = sase_pairs.check(pair, [sase_pairs.default_setting(rng), sase_pairs.random_setting(rng)], rng)
    assert not found, "\n".join((*found, sase_pairs.describe(pair)))


# --- Spark ------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_spark_agrees_with_the_oracle_and_with_embedded(spark: Any) -> None:
    """60 pairs on Spark batch: the oracle's matches with the ids of an embedded run."""
    with_matches = 0
    for number, pair in enumerate(examples(77, 60)):
        bound = pair.bound()
        variables = [event.variable for event in bound.branches[0].positives]
        table = sase_pairs.numbered(pair)
        query = Query(sase_pairs.replace(pair.query, returns=(), into=None))
        options = {key: value for key, value in pair.schema_kwargs.items() if key != "types"}
        options["schema"] = pair.schema_kwargs["types"]
        frame = frame_of(spark, table)
        rows = [row.asDict(recursive=True) for row in query.match(frame, **options).collect()]
        wanted = oracle.matches(bound, pair.events)
        expected = Counter(tuple(sorted(match.bindings)) for match in wanted)
        assert sase_pairs.bindings(rows, variables) == expected, f"example(77, {number})\n{sase_pairs.describe(pair)}"
        embedded = query.match(table, **options)
        assert sorted(row["match_id"] for row in rows) == sorted(embedded.column("match_id").to_pylist())
        if pair.query.returns:
            whole = Query(pair.query)
            given = Counter(canonical(row) for row in whole.match(frame, **options).toArrow().to_pylist())
            assert given == Counter(canonical(row) for row in whole.match(table, **options).to_pylist()), (
                f"example(77, {number})"
            )
        with_matches += bool(wanted)
    assert with_matches > 20


def test_the_generator_reaches_every_shape() -> None:
    """Queries of one to four components and up to two negations come up."""
    shapes = Counter(
        (sum(not part.negated for part in parts), sum(part.negated for part in parts))
        for seed in range(600)
        for parts in [list(components(sase_query(Random(seed), None, True).pattern))]
    )
    assert {positives for positives, _ in shapes} >= {1, 2, 3}
    assert {negatives for _, negatives in shapes} >= {0, 1, 2}
