"""The generators: deterministic, bindable, with enough matches, and printable."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings

from kleene.language.parser import parse
from kleene.language.printer import to_text
from kleene.pattern.operators import Conjunction, Disjunction, events
from kleene.pattern.operators import Sequence as Seq
from kleene.testing.oracle import aggregates, matches, returns
from support.strategies import Example, examples, full_examples, full_language_examples, sase_examples


def answer(example: Example) -> int:
    """Runs the oracle on everything an example asks for; the number of matches."""
    bound = example.bound()
    found = matches(bound, example.events)
    if bound.query.aggregates:
        aggregates(bound, example.events)
    for match in found[:5]:
        assert set(returns(bound, example.events, match)) == {item.alias for item in bound.query.returns}
    return len(found)


def test_examples_are_reproducible() -> None:
    assert list(examples(3, 20)) == list(examples(3, 20))
    assert list(examples(3, 20)) != list(examples(4, 20))


def test_two_in_five_sase_examples_have_a_match() -> None:
    found = [answer(example) for example in examples(1, 800)]
    assert sum(map(bool, found)) >= 0.4 * len(found)


def test_the_sase_fragment_is_covered() -> None:
    seen: Counter[str] = Counter()
    for example in examples(2, 800):
        parts = list(events(example.query.pattern))
        seen["negated start"] += parts[0].negated
        seen["negated end"] += parts[-1].negated
        seen["negated middle"] += any(event.negated for event in parts[1:-1])
        seen["ANY"] += any(len(event.types) > 1 for event in parts)
        seen["negative ANY"] += any(len(event.types) > 1 and event.negated for event in parts)
        seen["repeated type"] += len({event.types for event in parts}) < len(parts)
        seen["no window"] += example.query.within is None
        seen["declared"] += example.schema_kwargs["types"] is not None
        seen["order_by"] += "order_by" in example.schema_kwargs
        seen["ties"] += len({row["ts"] for row in example.events}) < len(example.events)
        seen["returns"] += bool(example.query.returns)
        seen["timestamps"] += not example.integer_time
    assert min(seen.values()) >= 15, seen
    assert len(seen) == 12


def test_the_oracle_runs_on_the_full_language() -> None:
    seen: Counter[str] = Counter()
    for example in full_examples(1, 800):
        seen["match"] += bool(answer(example))
        seen[example.query.strategy.value] += 1
        seen["kleene"] += any(event.is_kleene for event in events(example.query.pattern))
        pattern = example.query.pattern
        parts = pattern.parts if isinstance(pattern, Seq) else ()
        for kind in (Conjunction, Disjunction):
            seen[kind.__name__] += isinstance(pattern, kind) or any(isinstance(part, kind) for part in parts)
        seen["aggregates"] += bool(example.query.aggregates)
        seen["non overlap"] += example.query.output.value == "non_overlap"
    assert seen["match"] >= 320
    assert min(seen.values()) >= 20, seen


@pytest.mark.parametrize("make", [examples, full_examples])
def test_printing_and_parsing_gives_the_query_back(make: object) -> None:
    for example in make(9, 500):  # type: ignore[operator]
        assert parse(to_text(example.query)) == example.query


def test_the_table_has_the_events() -> None:
    for example in examples(8, 20):
        assert example.table().to_pylist() == example.events


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sase_examples())
def test_hypothesis_sase_examples(example: Example) -> None:
    answer(example)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(full_language_examples())
def test_hypothesis_full_examples(example: Example) -> None:
    answer(example)
