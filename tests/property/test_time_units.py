"""The same instants in seconds, milliseconds, microseconds and nanoseconds: the same matches, with the same ids."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from kleene.common.errors import KleeneError
from kleene.interfaces.query import Query
from kleene.language.printer import to_text
from kleene.pattern.operators import events as components
from kleene.pattern.predicates import And, Attribute, Comparison, Element, Expression, Literal, Or, conjunction
from support.long_tests import mostly_long
from support.strategies import Example, any_match_example, full_example, saseplus_example

OPERATORS = ("<", "<=", ">", ">=", "=", "!=")
UNITS = ("s", "ms", "us", "ns")


@pytest.mark.parametrize("seed", mostly_long(range(40)))
def test_the_unit_of_a_time_changes_nothing(seed: int) -> None:
    for number in range(3):
        make = (any_match_example, full_example, saseplus_example)[number % 3]
        found = make(seed, number)
        while found.integer_time:
            number += 1_000
            found = make(seed, number)
        _compare(_with_moments(found, Random(f"{seed}:{number}")))


def _with_moments(found: Example, rng: Random) -> Example:
    """The example with a condition that compares times with constants: between events, to be compiled, or of one alone."""
    singles = [event for event in components(found.query.pattern) if not event.negated and not event.is_kleene]
    if not singles:
        return found
    one, other = rng.choice(singles), rng.choice(singles)
    moment = rng.choice(found.events)["ts"].replace(tzinfo=None) if found.events else dt.datetime(2026, 3, 1)  # noqa: DTZ001
    far = rng.choice([moment, moment, moment.replace(year=1500), moment.replace(year=2900)])
    conditions: list[Expression] = [
        Comparison(
            rng.choice(("<", "<=", ">", ">=", "=", "!=")), Attribute(event.variable, "ts", Element.SINGLE), Literal(bound)
        )
        for event, bound in ((one, far), (other, moment))
    ]
    condition = rng.choice((Or, And))(tuple(conditions)) if rng.random() < 0.7 else conditions[0]
    query = replace(found.query, where=conjunction([*([found.query.where] if found.query.where else []), condition]))
    return replace(found, query=query)


def _compare(found: Example) -> None:
    query, table = Query(found.query), found.table()
    kwargs = dict(found.schema_kwargs)
    if kwargs.get("types") is not None:
        kwargs["schema"] = {name: sorted(attributes) for name, attributes in kwargs["types"].items()}
    kwargs.pop("types", None)
    answers = {}
    for unit in UNITS:
        place = table.schema.get_field_index("ts")
        timed = table.set_column(place, "ts", table.column("ts").cast(pa.timestamp(unit, "UTC")))
        try:
            answers[unit] = _rows(query.match(timed, **kwargs))
        except KleeneError as error:  # what no plan evaluates
            answers[unit] = Counter([type(error).__name__])
    for unit in UNITS:
        assert answers[unit] == answers["us"], f"{unit}\n{to_text(found.query)}"


def _rows(table: pa.Table) -> Counter[str]:
    """The rows, without the units of their times."""
    return Counter(str({name: _plain(value) for name, value in row.items()}) for row in table.to_pylist())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.isoformat(sep=" ", timespec="microseconds")[:26] if isinstance(value, dt.datetime) else value
