"""Moments finer than a microsecond, or beyond what nanoseconds reach: they compare exactly, or are refused, never cut."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import kleene
from kleene.common.schema import schema_of_arrow
from kleene.interfaces.query import Query
from kleene.language.parser import parse
from kleene.language.printer import to_text
from kleene.pattern.bind import bind
from kleene.pattern.builder import event
from kleene.pattern.moments import FineMoment, moment_at, moment_of_text
from kleene.pattern.policies import Unit, Window
from kleene.pattern.terms import var
from kleene.testing import oracle

FINE = "2026-01-01 00:00:00.123456789"
FINE_AT = 1_767_225_600_123_456_789
"""The same in nanoseconds after 1970."""
OPERATORS = ("<", "<=", "=", "!=", ">=", ">")
LARGEST = 2**63 - 1
"""In nanoseconds the last moment that there is; pandas' own is often found where something has no end."""

NANOSECONDS = pa.table(
    {
        "ts": pa.array([FINE_AT - 1, FINE_AT, FINE_AT + 1, FINE_AT + 2], pa.timestamp("ns")),
        "type": [*"AAAB"],
        "to": pa.array([LARGEST, LARGEST - 1, None, LARGEST], pa.timestamp("ns")),
        "y": [1, 2, 3, 4],
    }
)
FAR = [dt.datetime(year, 12, 31, tzinfo=dt.UTC) for year in (9999, 1500, 1)]
MICROSECONDS = pa.table(
    {
        "ts": pa.array([FINE_AT // 1_000 + step for step in (-1, 0, 1, 2)], pa.timestamp("us")),
        "type": [*"AAAB"],
        "to": pa.array([*FAR[:2], None, FAR[2]], pa.timestamp("us")),
        "y": [1, 2, 3, 4],
    }
)
TABLES = {"ns": NANOSECONDS, "us": MICROSECONDS}
every_table = pytest.mark.parametrize("events", TABLES.values(), ids=TABLES)


def count(query: str, events: pa.Table, plan: Any = None, **params: Any) -> int:
    """The number of matches: by a plan, and as many by the oracle."""
    found = kleene.query(query).match(events, time="ts", type="type", plan=plan, params=params)
    schema = schema_of_arrow(events.schema, time="ts", type="type")
    assert found.num_rows == len(oracle.matches(bind(parse(query), schema, params=params), events.to_pylist())), query
    return int(found.num_rows)


WHOLE = "2026-01-01 00:00:00.123456"
CONSTANTS = (FINE, "1500-01-01", "9999-12-31", WHOLE, "2262-04-11 23:47:16.854775807")


@every_table
@pytest.mark.parametrize("constant", CONSTANTS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_constant_compares_exactly_with_columns_of_every_unit(operator: str, constant: str, events: pa.Table) -> None:
    for column in ("ts", "to"):
        count(f"PATTERN A a WHERE a.{column} {operator} '{constant}'", events)
        count(f"PATTERN A a WHERE TIMESTAMP '{constant}' {operator} a.{column}", events)


@every_table
@pytest.mark.parametrize("plan", [None, {"mechanism": "nfa"}, {"mechanism": "chain"}], ids=str)
def test_a_constant_in_a_condition_between_events(plan: Any, events: pa.Table) -> None:
    """By compiled filters, of which one has all operators: the last event of a match says which counts."""
    latest = events.column("ts")[-1].value
    asking = pa.table(
        {
            "ts": pa.array(range(latest + 1, latest + 7), events.schema.field("ts").type),
            "type": ["Q"] * 6,
            "to": pa.nulls(6, events.schema.field("to").type),
            "y": range(6),
        }
    )
    asked = pa.concat_tables([events, asking])
    for column in ("ts", "to"):
        where = " OR ".join(f"(q.y = {number} AND a.{column} {sign} p)" for number, sign in enumerate(OPERATORS))
        for constant in (moment_of_text(text) for text in CONSTANTS if text != WHOLE):
            count(f"PATTERN SEQ(A a, Q q) WHERE {where}", asked, plan, p=str(constant))


@every_table
def test_a_constant_in_a_range_or_a_list(events: pa.Table) -> None:
    ranges = " OR ".join(f"(a.to BETWEEN '{one}' AND '{other}' AND b.y > 3)" for one in CONSTANTS for other in CONSTANTS[:2])
    count(f"PATTERN SEQ(A a, B b) WHERE {ranges}", events)
    count("PATTERN SEQ(A a, B b) WHERE a.ts IN p OR b.y < a.y", events, p=CONSTANTS)
    many = [f"2026-01-01 00:00:00.{fraction:09d}" for fraction in range(123_456_780, 123_456_800)]
    found = count("PATTERN SEQ(A a, B b) WHERE a.ts IN p OR b.y < a.y", events, p=many)
    assert found == (3 if events is NANOSECONDS else 0)
    found = count("PATTERN A a WHERE a.ts IN p", events, p=[*many, WHOLE])
    assert found == (3 if events is NANOSECONDS else 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.datetime64(FINE_AT, "ns"),
        lambda: pd.Timestamp(FINE_AT, unit="ns"),
        lambda: pd.Timestamp(FINE_AT, unit="ns", tz="UTC").tz_convert("Europe/Berlin"),
        lambda: pa.scalar(FINE_AT, pa.timestamp("ns")),
        lambda: pa.scalar(FINE_AT, pa.timestamp("ns", "Asia/Tokyo")),
        lambda: FINE,
        lambda: "2026-01-01T01:00:00.123456789+01:00",
    ],
    ids=["numpy", "pandas", "pandas-zone", "arrow", "arrow-zone", "text", "text-zone"],
)
def test_parameters_keep_nanoseconds(make: Callable[[], Any]) -> None:
    for query in ("PATTERN A a WHERE a.ts = p", "PATTERN A a WHERE a.ts IN q", "PATTERN A a WHERE [ts = p]"):
        assert count(query, NANOSECONDS, p=make(), q=[make()]) == 1
        assert count(query, MICROSECONDS, p=make(), q=[make()]) == 0
    built = event("A", "a").where(var("a").ts == make()).build()
    assert Query(built).match(NANOSECONDS, time="ts", type="type").num_rows == 1


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        (np.datetime64("2026-01-02"), dt.datetime(2026, 1, 2, tzinfo=dt.UTC)),
        (np.datetime64("2026"), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)),
        (np.datetime64("NaT"), None),
        (pd.NaT, None),
        (pa.scalar(None, pa.timestamp("ns")), None),
        (pa.scalar(5, pa.date32()), dt.datetime(1970, 1, 6, tzinfo=dt.UTC)),
        (pa.scalar(-1, pa.timestamp("s")), dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=dt.UTC)),
    ],
    ids=str,
)
def test_parameters_of_other_units(value: Any, moment: dt.datetime | None) -> None:
    for p, q in ((value, moment), (moment, value)):
        where = kleene.query("PATTERN A a WHERE a.ts > p OR a.ts < q")
        assert where.match(MICROSECONDS, time="ts", type="type", params={"p": p, "q": q}).num_rows == (
            0 if moment is None else 3
        )


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.datetime64("2026-01-01T00:00:00.123456789123", "ps"), "finer than a nanosecond"),
        (pa.scalar(2**62, pa.timestamp("s")), "out of range"),
        (dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), "out of range"),
        (np.timedelta64(5, "ns"), "precision of one microsecond"),
        (pd.Timedelta(1_500, "ns"), "precision of one microsecond"),
        (np.timedelta64(3, "M"), "no fixed length"),
    ],
)
def test_parameters_that_cannot_be_kept_are_refused(value: Any, reason: str) -> None:
    with pytest.raises(kleene.BindingError, match=reason):
        kleene.query("PATTERN A a WHERE a.ts - a.ts < p OR a.ts > p").match(
            NANOSECONDS, time="ts", type="type", params={"p": value}
        )
    with pytest.raises(kleene.BindingError, match=reason):
        var("a").ts > value  # noqa: B015


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2026-01-01 00:00:00.1234567891", "finer than a nanosecond"),
        ("2400-01-01 00:00:00.000000001", "beyond what nanoseconds reach"),
        ("0001-01-01T00:00:00+01:00", "out of range"),
        ("9999-12-31T23:59:59-05:00", "out of range"),
        ("2026-01-01T00:00:00+01:00:00.1234567", "finer than a nanosecond"),
        ("yesterday", "is not a timestamp"),
    ],
)
def test_texts_that_cannot_be_kept_are_refused(text: str, reason: str) -> None:
    with pytest.raises(kleene.QuerySyntaxError, match=reason):
        kleene.query(f"PATTERN A a WHERE a.ts > TIMESTAMP '{text}'")
    with pytest.raises(kleene.BindingError, match=reason):
        kleene.query(f"PATTERN A a WHERE a.ts > '{text}'").match(NANOSECONDS, time="ts", type="type")
    with pytest.raises(kleene.BindingError, match=reason):
        kleene.query("PATTERN A a WHERE a.ts > p").match(NANOSECONDS, time="ts", type="type", params={"p": text})


def test_a_fine_moment_is_written_and_read() -> None:
    query = kleene.query(f"PATTERN A a WHERE a.ts > TIMESTAMP '{FINE}'")
    assert FINE in str(query)
    assert kleene.query(str(query)) == query
    assert moment_of_text(f"{FINE}000") == moment_at(FINE_AT, "ns") == FineMoment(moment_of_text("20260101T000000.123456"), 789)
    assert moment_of_text("2026-01-01 00:00:00.123456000") == moment_of_text("20260101T000000.123456")


def test_computing_with_a_fine_moment() -> None:
    since = f"TIMESTAMP '{FINE}'"
    query = kleene.query(f"PATTERN A a RETURN a.ts - {since} AS d, least(a.ts, {since}) AS least, year({since}) AS year")
    rows = query.match(NANOSECONDS, time="ts", type="type", columns=["d", "least", "year"])
    assert rows.column("d").cast(pa.int64()).to_pylist() == [-1, 0, 1]
    assert rows.column("least").cast(pa.int64()).to_pylist() == [FINE_AT - 1, FINE_AT, FINE_AT]
    assert rows.column("year").to_pylist() == [2026] * 3
    between = kleene.query(f"PATTERN SEQ(A a, B b) WHERE b.ts - {since} > {since} - a.ts")
    assert between.match(NANOSECONDS, time="ts", type="type").num_rows == 3
    with pytest.raises(kleene.DataError, match="1677 to 2262"):
        kleene.query("PATTERN A a RETURN a.ts - TIMESTAMP '1500-01-01' AS d").match(NANOSECONDS, time="ts", type="type")
    long = kleene.query("PATTERN SEQ(A a, B b) WHERE a.ts + 400000 days > b.ts")
    with pytest.raises(kleene.DataError, match="1677 to 2262"):
        long.match(NANOSECONDS, time="ts", type="type")


def test_durations_are_of_the_unit_of_their_columns() -> None:
    query = kleene.query(
        "PATTERN SEQ(A a, B b) RETURN (b.ts - a.ts) * 1.5 AS d, abs(a.ts - b.ts) AS abs, (b.ts - a.ts) / 2 AS h"
    )
    rows = query.match(NANOSECONDS, time="ts", type="type", columns=["d", "abs", "h"])
    assert [sorted(column.cast(pa.int64()).to_pylist()) for column in rows.columns] == [[2, 3, 4], [1, 2, 3], [0, 1, 2]]
    long = "PATTERN SEQ(A a, B b) WHERE b.ts - a.ts < 400000 days AND (b.y > a.y OR b.ts - a.ts > 400000 days)"
    assert count(long, NANOSECONDS) == 3


WINDOWS: list[Any] = [np.timedelta64(2, "ns"), pd.Timedelta(2, "ns"), pa.scalar(2, pa.duration("ns"))]


@pytest.mark.parametrize("window", WINDOWS, ids=["numpy", "pandas", "arrow"])
def test_a_window_may_be_finer_than_the_unit(window: Any) -> None:
    pairs = kleene.query("PATTERN SEQ(A a, B b) WITHIN w")
    assert pairs.match(NANOSECONDS, time="ts", type="type", params={"w": window}).num_rows == 1
    # Less than a microsecond apart is at the same time, which is not in sequence.
    assert pairs.match(MICROSECONDS, time="ts", type="type", params={"w": window}).num_rows == 0
    both = kleene.query("PATTERN AND(A a, B b) WITHIN w")
    at_once = MICROSECONDS.set_column(0, "ts", pa.array([1, 2, 2, 2], pa.timestamp("us")))
    assert both.match(at_once, time="ts", type="type", params={"w": window}).num_rows == 2
    built = event("A", "a").within(window).build()
    assert built.within == Window(Fraction(2, 1_000), Unit.MICROSECONDS)
    assert kleene.query(to_text(built)).logical.within == built.within


@pytest.mark.parametrize("bound", [FINE, np.datetime64(FINE_AT, "ns"), pd.Timestamp(FINE_AT, unit="ns")], ids=str)
def test_ranges_of_events_keep_nanoseconds(bound: Any) -> None:
    query = kleene.query("PATTERN SEQ(A a, B b)")

    def asked(events: pa.Table, **given: Any) -> int:
        return query.why_not(events, time="ts", type="type", **given).events

    assert asked(NANOSECONDS, since=bound) == 3
    assert asked(NANOSECONDS, until=bound) == 2
    assert asked(MICROSECONDS, since=bound) == 2
    assert asked(MICROSECONDS, until=bound) == 2
    assert asked(NANOSECONDS, since="1500-01-01", until="9999-12-31") == 4
    with pytest.raises(kleene.BindingError, match=r"since cannot be .* out of range"):
        asked(NANOSECONDS, since="0001-01-01T00:00:00+01:00")
