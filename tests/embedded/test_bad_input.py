"""Input as it really comes: wrong names, wrong kinds, NULLs, odd types, broken files. Each is a clear error or a documented
result.

A clear error is one of ours (`KleeneError`), and says what was found, where, and what to do.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kleene
from kleene.common.errors import BindingError, DataError, PlanningError, QuerySyntaxError
from kleene.interfaces.options import options_of
from kleene.plan.options import CHOICES
from kleene.runtime.embedded import in_stream_order, rows_of

ROLES: dict[str, Any] = {"time": "ts", "type": "type"}
PAIR = "PATTERN SEQ(A a, B b)"
EVENTS = pa.table({"ts": [1, 2], "type": ["A", "B"], "k": [1, 1], "x": [1, 2], "s": ["p", "q"]})
LIMIT = 1 << 62

PLANS: list[Any] = [
    None,
    "basic",
    "paper",
    *({name: value} for name, values in CHOICES["sequence"].items() for value in values[1:]),
]
every_plan = pytest.mark.parametrize("plan", PLANS, ids=str)


def match(query: str, events: Any = EVENTS, **options: Any) -> pa.Table:
    return kleene.query(query).match(events, **{**ROLES, **options})


def table(**columns: Any) -> pa.Table:
    return pa.table(columns)


def fails(error: type[Exception], *fragments: str) -> Any:
    """Expects an error whose text has every fragment."""

    class Expectation:
        def __enter__(self) -> None:
            self.raised = pytest.raises(error)
            self.found = self.raised.__enter__()

        def __exit__(self, *details: object) -> bool:
            suppressed = self.raised.__exit__(*details)
            for fragment in fragments:
                assert fragment in str(self.found.value), f"'{fragment}' is not in: {self.found.value}"
            return bool(suppressed)

    return Expectation()


def streamed(query: str, events: pa.Table, **options: Any) -> list[dict[str, Any]]:
    """The matches of events fed one by one."""
    chosen = options_of({**ROLES, **options})
    parsed = kleene.query(query)
    matcher = parsed.matcher(events.schema, chosen, run_rows=0)
    ordered = in_stream_order(events, parsed.plan_for(events.schema, chosen).bound.schema)
    found = [rows for batch in ordered.to_batches(max_chunksize=1) for _, rows in matcher.feed(batch)]
    return [row for rows in [*found, *rows_of(matcher.finish())] for row in rows.to_pylist()]


# --- names and options ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "options", "fragments"),
    [
        (PAIR, {"time": "tss"}, ["time column 'tss' is not a column", "did you mean 'ts'?"]),
        (PAIR, {"type": "typ"}, ["type column 'typ' is not a column", "did you mean 'type'?"]),
        (PAIR, {"order_by": "sek"}, ["order_by column 'sek' is not a column", "known: 'k', 's', 'ts'"]),
        (PAIR, {"partition_by": "kk"}, ["unknown attribute 'kk'", "did you mean 'k'?"]),
        (PAIR, {"type": None}, ["names the types 'A', 'B', but no type column", "type=..."]),
        (f"{PAIR} WHERE a.xx = 1", {}, ["unknown attribute 'xx' of 'a' (A) at line 1, column 29", "^^^^", "did you mean 'x'?"]),
        (f"{PAIR} WHERE a.x = b.s", {}, ["cannot compare a.x, an integer, with b.s, a string", "line 1, column 29"]),
        (f"{PAIR} WHERE a.s + 1 > 2", {}, ["cannot compute string + integer", "concat"]),
        (f"{PAIR} WHERE [kk]", {}, ["unknown attribute 'kk' in the equivalence test", "did you mean 'k'?"]),
        (f"{PAIR} WHERE a.x < lim", {}, ["unknown name 'lim'", "params={'lim': ...}"]),
        (f"{PAIR} WHERE a.x < 9223372036854775808", {}, ["does not fit into 64 bits", "as a float"]),
        (PAIR, {"schema": {"A": ["zz"], "B": []}}, ["gives type 'A' the attribute 'zz'", "known:"]),
        (PAIR, {"schema": {"A": ["x"]}}, ["unknown event type 'B' at line 1", "known: 'A'"]),
        (PAIR, {"bad_rows": "skip"}, ["bad_rows cannot be 'skip'", "'drop', 'error', 'quarantine'"]),
        (PAIR, {"ties": "any"}, ["ties cannot be 'any'"]),
        (PAIR, {"columns": ["a", "match_and"]}, ["matches have no column 'match_and'", "did you mean 'match_end'?"]),
        (PAIR, {"columns": ["a", "a"]}, ["columns has 'a' twice"]),
        (PAIR, {"columns": "a", "output": "compressed"}, ["in compressed form have all their columns", "leave out"]),
    ],
)
def test_names_and_options(query: str, options: dict[str, Any], fragments: list[str]) -> None:
    with fails(BindingError, *fragments):
        match(query, **options)


def test_all_problems_are_reported_together() -> None:
    with fails(BindingError, "'tss' is not a column", "'typ' is not a column"):
        match(PAIR, time="tss", type="typ")
    with fails(BindingError, "unknown attribute 'p'", "unknown attribute 'q'"):
        match(f"{PAIR} WHERE a.p = 1 AND b.q = 2")


@pytest.mark.parametrize(
    ("plan", "fragments"),
    [
        ("fast", ["unknown plan 'fast'", "'basic', 'optimized', 'paper'"]),
        ({"negations": "scan"}, ["unknown plan option 'negations'", "did you mean 'negation'?"]),
        ({"negation": "fast"}, ["plan option 'negation' cannot be 'fast'", "'key_index', 'time_index', 'scan'"]),
    ],
)
def test_unknown_plans(plan: Any, fragments: list[str]) -> None:
    with fails(PlanningError, *fragments):
        match(PAIR, plan=plan)


def test_unknown_keyword() -> None:
    with fails(BindingError, "unknown option 'tipe'", "did you mean 'type'?"):
        kleene.query(PAIR).run(EVENTS, time="ts", tipe="type")
    with fails(BindingError, "'time' is missing", "time='ts'"):
        kleene.query(PAIR).run(EVENTS, type="type")


# --- queries at their limits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", ["0", "-1", "0 seconds", "-3 hours", "0 EVENTS"])
def test_a_window_is_positive(window: str) -> None:
    with fails(BindingError, "WITHIN must be positive at line 1, column 23", "^^^^^^"):
        kleene.query(f"{PAIR} WITHIN {window}")


@pytest.mark.parametrize("value", [0, -5, dt.timedelta(0), float("-inf"), math.nan, "ten"])
def test_a_window_parameter_is_a_positive_number(value: object) -> None:
    with fails(BindingError, "line 1, column 23"):
        match(f"{PAIR} WITHIN w", params={"w": value})


def test_window_and_time_column_must_fit() -> None:
    with fails(BindingError, "holds integers", "a window in seconds", "WITHIN 1000"):
        match(f"{PAIR} WITHIN 5 seconds")
    with fails(BindingError, "holds timestamps: a plain number is no window", "WITHIN 10 seconds"):
        match(f"{PAIR} WITHIN 5", table(ts=pa.array([1, 2], pa.timestamp("us")), type=["A", "B"]))


@pytest.mark.parametrize("pattern", ["SEQ(A a, !(B b))", "SEQ(!(B b), A a)"])
def test_an_unbounded_negation_needs_a_window(pattern: str) -> None:
    with fails(BindingError, "unbounded negated", "'b' must not occur at line 1", "add a WITHIN clause"):
        kleene.query(f"PATTERN {pattern}")


def test_ties_where_order_matters() -> None:
    tied = table(ts=[1, 1], type=["A", "B"])
    query = "PATTERN SEQ(A a, B b) WHERE skip_till_next_match(a, b) { }"
    with fails(DataError, "tie at timestamp 1", "the whole stream", "order_by=[...]", 'ties="arrival"'):
        match(query, tied)
    assert match(query, tied, ties="arrival").num_rows == 1


def test_many_components() -> None:
    def sequence(count: int) -> str:
        return f"PATTERN SEQ({', '.join(f'A a{number}' for number in range(count))})"

    with fails(BindingError, "10000 components", "at most"):
        kleene.query(sequence(10_000))
    rows = table(ts=list(range(61)), type=["A"] * 61)
    assert match(sequence(60), rows).num_rows == 61  # 61 choose 60
    assert match(sequence(60), rows, plan={"construction": "runtime_stack"}).num_rows == 61
    for count in (61, 63, 64, 65, 200):
        with fails((BindingError, PlanningError), f"{count} components", "at most 60"):  # type: ignore[arg-type]
            match(sequence(count), rows)


@pytest.mark.parametrize(
    "condition",
    ["(" * 500 + "a.x > 1" + ")" * 500, "NOT " * 500 + "a.x > 1", "a.x" + " + 1" * 5000 + " > b.x", "- " * 500 + "a.x > 1"],
)
def test_deep_expressions(condition: str) -> None:
    with fails(QuerySyntaxError, "nested deeper than 100"):
        kleene.query(f"{PAIR} WHERE {condition}")


@pytest.mark.parametrize("plan", [None, "basic"])
def test_deep_and_wide_expressions_that_are_allowed(plan: Any) -> None:
    deep = "a.x" + " + 1" * 90 + " > b.x"
    wide = " OR ".join(f"a.x + b.x = {number}" for number in range(300))
    assert match(f"{PAIR} WHERE {deep} AND ({wide})", plan=plan).num_rows == 1


# --- NULLs and bad rows -----------------------------------------------------------------------------------------------

BAD: list[tuple[dict[str, Any], str]] = [
    ({"ts": None}, "time column 'ts' is NULL"),
    ({"type": None}, "type column 'type' is NULL or holds an undeclared type"),
    ({"k": None}, "key attribute 'k' is NULL"),
]


def with_bad_row(bad: dict[str, Any]) -> pa.Table:
    rows = [{"ts": 1, "type": "A", "k": 1}, {"ts": 2, "type": "B", "k": 1} | bad, {"ts": 3, "type": "B", "k": 1}]
    return pa.Table.from_pylist(rows, pa.schema([("ts", pa.int64()), ("type", pa.string()), ("k", pa.int64())]))


@pytest.mark.parametrize(("bad", "reason"), BAD)
@every_plan
def test_bad_rows(bad: dict[str, Any], reason: str, plan: Any) -> None:
    events, query = with_bad_row(bad), f"{PAIR} WHERE [k] WITHIN 10"
    with fails(DataError, "1 bad row", reason, "bad_rows='quarantine'", "bad_rows='drop'"):
        match(query, events, plan=plan)
    assert match(query, events, bad_rows="drop", plan=plan).num_rows == 1
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        run = kleene.query(query).run(events, **ROLES, bad_rows="quarantine", plan=plan)
    assert "1 bad rows were set aside" in str(said[0].message)
    assert run.matches.num_rows == 1
    assert run.bad_rows.to_pylist() == [{"ts": 2, "type": "B", "k": 1} | bad | {"reason": reason}]
    assert run.metrics.bad == 1


def test_a_bad_row_is_named_by_its_number_in_the_stream() -> None:
    events = with_bad_row({"k": None})
    reader = pa.RecordBatchReader.from_batches(events.schema, events.to_batches(max_chunksize=1))
    with fails(DataError, "row 1", "'k': None"):
        match(f"{PAIR} WHERE [k]", reader)


def test_rows_that_no_component_can_bind_are_never_bad() -> None:
    events = table(ts=[1, None, 2], type=["A", "Z", "B"], k=[1, None, 1])
    assert match(f"{PAIR} WHERE [k]", events).num_rows == 1


def test_undeclared_types_are_bad_rows() -> None:
    events = table(ts=[1, 2, 3], type=["A", "Z", "B"])
    assert match(PAIR, events).num_rows == 1
    with fails(DataError, "NULL or holds an undeclared type", "'type': 'Z'"):
        match(PAIR, events, schema={"A": [], "B": []})
    assert match(PAIR, events, schema={"A": [], "B": []}, bad_rows="drop").num_rows == 1


@pytest.mark.parametrize("condition", ["strict_contiguity(a, b) { a.k = b.k }", "partition_contiguity(a, b) { [k] }"])
@pytest.mark.parametrize(("bad", "schema"), [(None, None), ("Z", {"A": ["k"], "B": ["k"]})])
def test_rows_set_aside_keep_no_neighbours_apart(condition: str, bad: str | None, schema: Any) -> None:
    events = table(ts=[1, 2, 3], type=["A", bad, "B"], k=[1, 1, 1])
    assert match(f"{PAIR} WHERE {condition}", events, bad_rows="drop", schema=schema).num_rows == 1
    assert match(f"{PAIR} WITHIN 2 EVENTS", events, bad_rows="drop", schema=schema).num_rows == 1


def test_every_row_may_be_bad() -> None:
    events = table(ts=pa.nulls(3, pa.int64()), type=["A", "B", "A"])
    assert match(PAIR, events, bad_rows="drop").num_rows == 0


def test_quarantine_needs_the_name_reason() -> None:
    with fails(BindingError, "column 'reason'", "rename"):
        match(PAIR, table(ts=[1], type=["A"], reason=["mine"]), bad_rows="quarantine")
    assert match(PAIR, table(ts=[1, 2], type=["A", "B"], reason=["p", "q"])).num_rows == 1


# --- order ------------------------------------------------------------------------------------------------------------


def test_a_table_is_sorted_and_a_stream_must_be() -> None:
    events = table(ts=[2, 1], type=["B", "A"])
    assert match(PAIR, events).num_rows == 1
    with fails(DataError, "not in time order", "'ts' goes back from 2 to 1", "sort the input"):
        match(PAIR, events.to_reader())
    batches = events.to_batches(max_chunksize=1)
    with fails(DataError, "goes back from 2 to 1"):
        match(PAIR, pa.RecordBatchReader.from_batches(events.schema, batches))


def test_a_stream_must_follow_order_by_too() -> None:
    events = table(ts=[1, 1], type=["A", "B"], seq=[2, 1])
    with fails(DataError, "not in stream order", "'seq' goes back", "sort the input by ts, seq"):
        match(PAIR, events.to_reader(), order_by="seq")
    assert match(PAIR, events, order_by="seq").num_rows == 0


ORDERS: list[tuple[list[Any], pa.DataType]] = [
    ([None, -math.inf, -0.5, 3.0, math.nan], pa.float64()),
    ([None, -math.inf, -0.5, 3.0, math.nan], pa.float32()),
    ([None, "", "B", "a", "é"], pa.string()),
    ([None, "", "B", "a", "é"], pa.dictionary(pa.int8(), pa.string())),
    ([None, -5, 0, 1, 7], pa.int64()),
    ([None, -5, 0, 1, 7], pa.int16()),
    ([None, 0, 1, 2, 2**63], pa.uint64()),
    ([None, False, True], pa.bool_()),
    ([None, 1, 2, 3], pa.timestamp("ns")),
]


@pytest.mark.parametrize(("values", "kind"), ORDERS, ids=lambda value: str(value) if isinstance(value, pa.DataType) else "")
def test_order_by_puts_null_first_and_nan_last(values: list[Any], kind: pa.DataType) -> None:
    """As the meaning of the language and Spark's sort have it; whatever the kind and the order of delivery."""
    count = len(values)
    column = pa.array(values, kind.value_type).cast(kind) if pa.types.is_dictionary(kind) else pa.array(values, kind)
    events = pa.table({"ts": [7] * count, "type": ["A"] * count, "o": column, "n": list(range(count))})
    for order in (list(range(count)), list(range(count))[::-1], [*range(1, count), 0]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = match("PATTERN SEQ(A a, A b) RETURN a.n AS first, b.n AS second", events.take(order), order_by="o")
        pairs = {(row["first"], row["second"]) for row in found.to_pylist()}
        assert pairs == {(i, j) for i in range(count) for j in range(i + 1, count)}


# --- nothing at all ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["A a", "SEQ(A a, B b)", "SEQ(!(C c), A a, !(D d), B b, !(E e))"])
@pytest.mark.parametrize("clause", ["", " RETURN a.k AS k, a.s AS s"])
@pytest.mark.parametrize("plan", [None, "basic"])
def test_empty_input(pattern: str, clause: str, plan: Any) -> None:
    query = f"PATTERN {pattern} WHERE [k] WITHIN 10{clause}"
    full = match(query, EVENTS, plan=plan)
    for events in (
        EVENTS.slice(0, 0),
        EVENTS.schema.empty_table(),
        pa.RecordBatchReader.from_batches(EVENTS.schema, []),
        pa.RecordBatchReader.from_batches(EVENTS.schema, [pa.RecordBatch.from_pylist([], EVENTS.schema)] * 3),
    ):
        found = match(query, events, plan=plan)
        assert found.num_rows == 0
        assert found.schema == full.schema


def test_no_columns() -> None:
    with fails(BindingError, "time column 'ts' is not a column", "type column 'type' is not a column"):
        match(PAIR, pa.table({}))


def test_columns_without_a_type() -> None:
    assert match(PAIR, pa.table({"ts": [], "type": []})).num_rows == 0


# --- the type column --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "types",
    [
        pa.array(["A", "B"]),
        pa.array(["A", "B"], pa.large_string()),
        pa.array(["A", "B"], pa.string_view()),
        pa.array(["A", "B"]).dictionary_encode(),
        pa.array(["A", "B"], pa.large_string()).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([2, 0], pa.uint8()), pa.array(["B", "unused", "A", "A"])),
        pa.DictionaryArray.from_arrays(pa.array([0, 2], pa.int16()), pa.array(["A", None, "B"])),
    ],
    ids=lambda types: str(types.type),
)
def test_type_columns(types: pa.Array) -> None:
    assert match(PAIR, pa.table({"ts": [1, 2], "type": types})).num_rows == 1


def test_integer_types() -> None:
    for kind in (pa.int8(), pa.uint16(), pa.int64()):
        events = pa.table({"ts": [1, 2, 3], "type": pa.array([1, 2, 3], kind)})
        assert match("PATTERN SEQ(`1` a, `2` b)", events).num_rows == 1


def test_types_are_compared_exactly() -> None:
    assert match(PAIR, table(ts=[1, 2, 3], type=["A ", "a", "B"])).num_rows == 0
    assert match("PATTERN SEQ(`A ` x, B b)", table(ts=[1, 2, 3], type=["A ", "a", "B"])).num_rows == 1


def test_a_null_inside_the_dictionary_of_types_is_a_bad_row() -> None:
    types = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), pa.array(["A", None, "B"]))
    with fails(DataError, "type column 'type' is NULL"):
        match(PAIR, pa.table({"ts": [1, 2, 3], "type": types}))
    assert match(PAIR, pa.table({"ts": [1, 2, 3], "type": types}), bad_rows="drop").num_rows == 1


@pytest.mark.parametrize("types", [[1.0, 2.0], [True, False], [b"A", b"B"], [["A"], ["B"]]])
def test_kinds_that_are_no_types(types: list[Any]) -> None:
    with fails(BindingError, "type column 'type' holds", "not strings or integers"):
        match(PAIR, table(ts=[1, 2], type=types))


# --- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
@pytest.mark.parametrize("plan", [None, "basic"])
def test_timestamps(unit: str, zone: str | None, plan: Any) -> None:
    times = pa.array([1_800_000_000, 1_800_000_001, 1_800_000_004], pa.timestamp("s", zone)).cast(pa.timestamp(unit, zone))
    events = pa.table({"ts": times, "type": ["A", "B", "B"]})
    query = f"{PAIR} WHERE b.ts - a.ts >= 1 second AND a.ts > '2024-01-01' WITHIN 4 seconds"
    found = match(query, events, plan=plan)
    assert found.num_rows == 1
    assert found.schema.field("match_start").type == times.type
    assert found.column("match_end").combine_chunks().equals(times[1:2])


@pytest.mark.parametrize("plan", [None, "basic"])
def test_dates(plan: Any) -> None:
    for kind in (pa.date32(), pa.date64()):
        days = pa.array([dt.date(2024, 1, 1), dt.date(2024, 1, 2), dt.date(2024, 1, 9)], kind)
        found = match(
            f"{PAIR} WHERE b.ts - a.ts = 1 day WITHIN 3 days", pa.table({"ts": days, "type": ["A", "B", "B"]}), plan=plan
        )
        assert found.column("match_end").to_pylist() == [dt.date(2024, 1, 2)]


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int16(), pa.uint16()])
def test_types_that_are_narrow_integers_are_their_texts_in_long_columns_too(kind: pa.DataType) -> None:
    """From a length on they are looked up by value; names that only look like one of them are other types."""
    narrow = np.random.default_rng(1).integers(0, 256, 1 << 16).astype(np.uint8)
    numbers = narrow.view(np.int8) if kind == pa.int8() else narrow
    column = pa.array(numbers).cast(kind)
    events = pa.table({"ts": np.arange(len(column)), "type": column})
    texts = events.set_column(1, "type", column.cast(pa.string()))
    for first in ("7", "-1", "0", "-0", "07", "65543", "255"):
        query = kleene.query(f'PATTERN SEQ("{first}" a, "9" b) AGG COUNT WITHIN 1000')
        assert query.match(events, **ROLES).equals(query.match(texts, **ROLES))


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int32(), pa.uint64(), pa.int64()])
def test_integer_times(kind: pa.DataType) -> None:
    assert match(f"{PAIR} WITHIN 2", pa.table({"ts": pa.array([1, 2], kind), "type": ["A", "B"]})).num_rows == 1


@pytest.mark.parametrize("times", [[1.0, 2.0], ["1", "2"], [decimal.Decimal(1), decimal.Decimal(2)], [True, False]])
def test_kinds_that_are_no_times(times: list[Any]) -> None:
    with fails(BindingError, "time column 'ts' holds", "not timestamps or integers", "cast it to a timestamp"):
        match(PAIR, table(ts=times, type=["A", "B"]))


@pytest.mark.parametrize(
    "times",
    [
        pa.array([0, LIMIT]),
        pa.array([-LIMIT, 0]),
        pa.array([0, 2**63 - 1]),
        pa.array([0, 2**63], pa.uint64()),
        pa.array([0, 2**53], pa.timestamp("s")),
        pa.array([0, 2**63 - 1], pa.timestamp("us")),
        pa.array([0, 2**63 - 1], pa.timestamp("ns")),
    ],
    ids=lambda times: f"{times.type}",
)
@pytest.mark.parametrize("plan", [None, "basic"])
def test_times_too_far_from_now(times: pa.Array, plan: Any) -> None:
    window = "10" if pa.types.is_integer(times.type) else "10 seconds"
    with fails(DataError, "time values beyond ±2^62 cannot be ordered safely", "hint"):
        match(f"{PAIR} WITHIN {window}", pa.table({"ts": times, "type": ["A", "B"]}), plan=plan)


@pytest.mark.parametrize(
    "pattern", ["SEQ(A a, B b)", "SEQ(!(C c), A a, B b)", "SEQ(A a, B b, !(C c))", "SEQ(!(C c), A a, B b, !(D d))"]
)
@every_plan
def test_times_and_windows_at_the_limit(pattern: str, plan: Any) -> None:
    """The farthest times and the widest window: no sum or difference may wrap, in one batch or event by event."""
    events = table(ts=[1 - LIMIT, LIMIT - 2, LIMIT - 1], type=["A", "A", "B"])
    for window, expected in ((10, 1), (LIMIT, 1)):
        query = f"PATTERN {pattern} WITHIN {window}"
        assert match(query, events, plan=plan).num_rows == expected
        assert len(streamed(query, events, plan=plan)) == expected


def test_a_window_longer_than_time() -> None:
    with fails(BindingError, "WITHIN is longer than times can be apart", "leave the clause out"):
        match(f"{PAIR} WITHIN {LIMIT + 1}")


# --- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "condition", ["a.x + b.x > 0", "a.x * b.x > 0", "-a.x - b.x - b.x < 0", "a.x * 4 > b.x", "a.x + a.x > 0", "-b.y > a.x"]
)
@every_plan
def test_integer_overflow_is_an_error_in_every_plan(condition: str, plan: Any) -> None:
    events = table(ts=[1, 2], type=["A", "B"], x=[LIMIT, LIMIT], y=[-(2**63), -(2**63)])
    with fails(DataError, "integer overflow", "64 bits"):
        match(f"{PAIR} WHERE {condition}", events, plan=plan)


@pytest.mark.parametrize(
    ("x", "y", "condition"),
    [
        (2**63 - 2, 1, "a.x + b.y > 0"),
        (2**63 - 1, 0, "a.x + b.y > 0"),
        (-(2**63) + 1, 1, "a.x - b.y < 0"),
        (9_221_000_000_000_000_000, 1, "a.x + b.y > 0"),
        (-(2**62), 2, "a.x * b.y < 0"),
        (3_037_000_499, 3_037_000_499, "a.x * b.y > 0"),
        (-(2**63), 5, "a.x < -b.y"),
    ],
)
@every_plan
def test_numbers_just_inside_64_bits_are_none(x: int, y: int, condition: str, plan: Any) -> None:
    events = table(ts=[1, 2], type=["A", "B"], x=[x, x], y=[y, y])
    assert match(f"{PAIR} WHERE {condition}", events, plan=plan).num_rows == 1


@pytest.mark.parametrize("plan", [None, "basic"])
def test_numbers_beyond_what_floats_count(plan: Any) -> None:
    events = table(ts=[1, 2], type=["A", "B"], x=[2**60 + 1, 2**60])
    assert match(f"{PAIR} WHERE a.x > b.x AND a.x / 2 > 0 AND b.x % 7 < 7", events, plan=plan).num_rows == 1
    assert match(f"{PAIR} WHERE a.x / b.x = 1", events, plan=plan).num_rows == 1


@every_plan
def test_nan(plan: Any) -> None:
    """NaN equals nothing, itself included: as a key it joins nothing, and only != holds."""
    events = table(ts=[1, 2, 3, 4], type=list("ABAB"), k=[math.nan, math.nan, 0.0, -0.0])
    assert match(f"{PAIR} WHERE [k]", events, plan=plan).column("match_start").to_pylist() == [3]
    pair = table(ts=[1, 2], type=["A", "B"], y=[math.nan, 1.0])
    held = [
        sign for sign in ("<", "<=", "=", ">=", ">", "!=") if match(f"{PAIR} WHERE a.y {sign} b.y", pair, plan=plan).num_rows
    ]
    assert held == ["!="]


@pytest.mark.parametrize("plan", [None, "basic"])
def test_division_by_zero_is_null(plan: Any) -> None:
    events = table(ts=[1, 2], type=["A", "B"], x=[1, 0])
    for condition in ("a.x / b.x > 0", "NOT a.x / b.x > 0", "a.x % b.x = 0"):
        assert match(f"{PAIR} WHERE {condition}", events, plan=plan).num_rows == 0
    assert match(f"{PAIR} RETURN a.x / b.x AS q, a.x % b.x AS r", events, plan=plan).to_pylist()[0] | {"q": 0} == {
        "query": "query", "match_start": 1, "match_end": 2, "q": 0, "r": None,
    } | {"match_id": match(f"{PAIR} RETURN a.x / b.x AS q, a.x % b.x AS r", events).column("match_id")[0].as_py()}  # fmt: skip


# --- column names -----------------------------------------------------------------------------------------------------


def test_a_column_may_not_occur_twice() -> None:
    with fails(BindingError, "column 'k' occurs more than once", "rename or drop"):
        match(PAIR, pa.table([[1], ["A"], [1], [2]], names=["ts", "type", "k", "k"]))


def test_columns_named_like_those_of_a_match() -> None:
    columns = {name: [1, 2] for name in ("query", "match_id", "match_start", "match_end", "a", "b")}
    (row,) = match(PAIR, table(ts=[1, 2], type=["A", "B"], **columns)).to_pylist()
    assert row["query"] == "query"
    assert row["a"] == {"ts": 1, "type": "A", **dict.fromkeys(columns, 1)}
    with fails(BindingError, "'match_id' is reserved"):
        kleene.query("PATTERN SEQ(A match_id, B b)")
    with fails(BindingError, "RETURN column 'query' is reserved"):
        kleene.query(f"{PAIR} RETURN a.x AS query")


def test_odd_column_names() -> None:
    names = ["a.b", "c d", "e`f", "größe", "", "1", "SELECT", "日本", "x'y", 'x"y', "a[1]", "new\nline"]
    events = pa.table({"ts": [1, 2], "type": ["A", "B"], **{name: [number, number] for number, name in enumerate(names)}})
    (row,) = match(PAIR, events).to_pylist()
    assert [row["a"][name] for name in names] == list(range(len(names)))
    quoted = ["`" + name.replace("`", "``") + "`" for name in names if name not in ("", "new\nline")]
    query = f"{PAIR} WHERE {' AND '.join(f'[{name}]' for name in quoted)} RETURN a.`a.b` AS `x.y`, b.`e``f` AS `e``f`"
    (row,) = match(query, events).to_pylist()
    assert (row["x.y"], row["e`f"]) == (0, 2)


# --- attributes of every Arrow type -----------------------------------------------------------------------------------

CARRIED: dict[str, pa.Array] = {
    "int8": pa.array([1, -2], pa.int8()),
    "uint8": pa.array([1, 255], pa.uint8()),
    "uint64": pa.array([2**64 - 1, None], pa.uint64()),
    "float16": pa.array([np.float16(1.5), None], pa.float16()),
    "float32": pa.array([1.5, math.inf], pa.float32()),
    "bool": pa.array([True, None]),
    "decimal128": pa.array([decimal.Decimal("1.50"), None]),
    "decimal256": pa.array([decimal.Decimal("1.50"), None], pa.decimal256(50, 2)),
    "large_string": pa.array(["ä", None], pa.large_string()),
    "string_view": pa.array(["a string longer than twelve bytes", None], pa.string_view()),
    "dictionary": pa.array(["a", None]).dictionary_encode(),
    "dictionary of integers": pa.array([5, 7]).dictionary_encode(),
    "binary": pa.array([b"\x00\xff", None]),
    "binary_view": pa.array([b"\x00\xff", None], pa.binary_view()),
    "fixed binary": pa.array([b"ab", b"cd"], pa.binary(2)),
    "list": pa.array([[1, None], None], pa.list_(pa.int64())),
    "list of views": pa.array([["a"], []], pa.list_(pa.string_view())),
    "fixed list": pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)),
    "struct": pa.array([{"p": 1, "q": ["x"]}, None]),
    "map": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
    "date32": pa.array([dt.date(2024, 1, 1), None]),
    "time64": pa.array([dt.time(1, 2), None], pa.time64("us")),
    "time32": pa.array([dt.time(1, 2), None], pa.time32("s")),
    "interval": pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
    "duration": pa.array([dt.timedelta(seconds=1), None]),
    "timestamp[ns]": pa.array([1_000, None], pa.timestamp("ns", "UTC")),
    "timestamp[s]": pa.array([1, None], pa.timestamp("s")),
    "null": pa.nulls(2),
}  # fmt: skip


@pytest.mark.parametrize("name", CARRIED)
def test_attributes_are_carried_as_they_are(name: str) -> None:
    values = CARRIED[name]
    events = pa.table({"ts": [1, 2], "type": ["A", "B"], "v": values})
    found = match(PAIR, events)
    (row,) = found.to_pylist()
    assert [row["a"]["v"], row["b"]["v"]] == values.to_pylist()
    if "view" not in str(values.type):
        assert found.schema.field("a").type.field("v").type == values.type
        assert [row["match_id"]] == [item["match_id"] for item in streamed(PAIR, events)]
    (returned,) = match(f"{PAIR} RETURN b.v AS v", events).to_pylist()
    assert returned["v"] == values.to_pylist()[1]


@pytest.mark.parametrize("plan", [None, "basic"])
@pytest.mark.parametrize("name", CARRIED)
def test_attributes_of_every_type_compare_or_say_why_not(name: str, plan: Any) -> None:
    events = pa.table({"ts": [1, 2], "type": ["A", "B"], "v": CARRIED[name]})
    for condition in ("a.v != b.v", "a.v = a.v AND a.ts < b.ts", "[v]"):
        try:
            assert match(f"{PAIR} WHERE {condition}", events, bad_rows="drop", plan=plan).num_rows in (0, 1)
        except (BindingError, DataError) as error:
            said = str(error)
            assert any(word in said for word in ("cannot be compared", "does not fit 64 bits")), said


def test_chunks_with_dictionaries_of_their_own() -> None:
    def chunk(values: list[str], dictionary: list[str]) -> pa.DictionaryArray:
        return pa.DictionaryArray.from_arrays(pa.array([dictionary.index(value) for value in values], pa.int8()), dictionary)

    types = [chunk(["A", "B"], ["A", "B"]), chunk(["A", "B"], ["B", "C", "A"]), chunk(["B"], ["B"]), chunk([], ["A"])]
    keys = [chunk(["x", "y"], ["y", "x"]), chunk(["y", "x"], ["x", "y"]), chunk(["x"], ["x", "z"]), chunk([], ["q"])]
    events = pa.table(
        {
            "ts": pa.chunked_array([[1, 2], [3, 4], [5], []], pa.int64()),
            "type": pa.chunked_array(types),
            "k": pa.chunked_array(keys),
        }
    )
    plain = events.set_column(1, "type", events["type"].cast(pa.string())).set_column(2, "k", events["k"].cast(pa.string()))
    for query in (
        f"{PAIR} WHERE [k]",
        f"{PAIR} WHERE a.k < b.k",
        f"{PAIR} WHERE a.k = b.k RETURN a.k AS k",
        f"{PAIR} WHERE b.k = 'x'",
    ):
        for plan in (None, "basic"):
            found = match(query, events, plan=plan)
            assert sorted(found.column("match_id").to_pylist()) == sorted(match(query, plain).column("match_id").to_pylist())
            assert found.num_rows > 0


def test_a_table_of_many_chunks() -> None:
    rows = [{"ts": number, "type": "AB"[number % 2], "k": number % 7} for number in range(400)]
    whole = pa.Table.from_pylist(rows)
    pieces = pa.concat_tables([whole.slice(number, 1) for number in range(400)])
    query = f"{PAIR} WHERE [k] WITHIN 30"
    assert pieces.column("ts").num_chunks == 400
    assert match(query, pieces).sort_by("match_id") == match(query, whole).sort_by("match_id")


def test_slices_and_offsets() -> None:
    whole = pa.table({"ts": range(100), "type": ["A", "B"] * 50, "s": ["u", "v", None, "w"] * 25, "f": [True, None] * 50})
    part = whole.slice(37, 21)
    copied = pa.Table.from_pylist(part.to_pylist(), schema=part.schema)
    for query in (f"{PAIR} WHERE a.s != b.s WITHIN 6", f"{PAIR} WHERE a.f IS NULL AND b.f WITHIN 6", f"{PAIR} WITHIN 4"):
        assert match(query, part).to_pylist() == match(query, copied).to_pylist()


# --- other libraries --------------------------------------------------------------------------------------------------


def test_pandas() -> None:
    times = pd.to_datetime(["2024-01-01 00:00:00", "2024-01-01 00:00:01", "2024-01-01 00:00:02"])
    frame = pd.DataFrame({"ts": times, "type": pd.Categorical(["A", "B", "B"]), "x": [1.0, None, 2.0]}, index=[5, 6, 7])
    found = match(f"{PAIR} WITHIN 5 seconds", frame.iloc[::-1])
    assert found.num_rows == 2
    assert "__index_level_0__" not in found.schema.field("a").type.names
    frame.loc[6, "ts"] = pd.NaT
    with fails(DataError, "time column 'ts' is NULL"):
        match(f"{PAIR} WITHIN 5 seconds", frame)
    assert match(f"{PAIR} WITHIN 5 seconds", frame, bad_rows="drop").num_rows == 1


def test_pandas_frames_that_arrow_cannot_hold() -> None:
    mixed = pd.DataFrame({"ts": [1, 2], "type": ["A", "B"], "m": [1, "x"]})
    with fails(DataError, "cannot read the pandas DataFrame", "column m", "one type"):
        match(PAIR, mixed)
    twice = pd.DataFrame([[1, "A", 2], [2, "B", 3]], columns=["ts", "type", "type"])
    with fails((BindingError, DataError), "type", "name"):  # type: ignore[arg-type]
        match(PAIR, twice)


def test_pandas_with_numbers_for_names() -> None:
    frame = pd.DataFrame({"ts": [1, 2], "type": ["A", "B"], 0: [7, 8]})
    assert match(PAIR, frame).to_pylist()[0]["a"]["0"] == 7


def test_polars() -> None:
    frame = pl.DataFrame(
        {
            "ts": [2, 1],
            "type": ["B", "A"],
            "c": pl.Series(["u", None], dtype=pl.Categorical),
            "l": [["long enough to be a view"], []],
        }
    )
    (row,) = match(PAIR, frame).to_pylist()
    assert row["b"] == {"ts": 2, "type": "B", "c": "u", "l": ["long enough to be a view"]}
    same = pa.table({"ts": [1, 2], "type": ["A", "B"], "c": pa.array([None, "u"]), "l": [[], ["long enough to be a view"]]})
    assert match(PAIR, same).column("match_id").to_pylist() == [row["match_id"]]
    for kind in (pl.Categorical, pl.Enum(["A", "B"])):
        assert match(PAIR, frame.with_columns(pl.col("type").cast(kind))).num_rows == 1
    timed = frame.with_columns(pl.from_epoch("ts"))
    assert match(f"{PAIR} WITHIN 2 seconds", timed).num_rows == 1


def test_duckdb() -> None:
    import duckdb

    relation = duckdb.sql("SELECT * FROM (VALUES (2, 'B', 1.5), (1, 'A', NULL)) AS events(ts, type, d)")
    assert match(PAIR, relation).to_pylist()[0]["b"] == {"ts": 2, "type": "B", "d": decimal.Decimal("1.5")}


@pytest.mark.parametrize(
    "events",
    [None, "events.csv", [{"ts": 1}], {"ts": [1]}, 7, pd.Series([1, 2]), pl.DataFrame({"ts": [1]}).lazy()],
    ids=lambda events: type(events).__name__,
)
def test_things_that_are_no_events(events: Any) -> None:
    with fails((DataError, BindingError), "hint"):  # type: ignore[arg-type]
        match(PAIR, events)


# --- files ------------------------------------------------------------------------------------------------------------


def _latin(folder: Path) -> Path:
    path = folder / "latin.csv"
    path.write_bytes("ts,type\n1,A\n2,caf\xe9\n".encode("latin-1"))
    return path


def _late_latin(folder: Path) -> Path:
    path = folder / "late.csv"
    path.write_bytes(b"ts,type\n" + b"1,A\n" * 600_000 + "2,caf\xe9\n".encode("latin-1"))
    return path


def _truncated(folder: Path) -> Path:
    path = folder / "t.parquet"
    pq.write_table(EVENTS, path)
    path.write_bytes(path.read_bytes()[:-50])
    return path


def _corrupt(folder: Path) -> Path:
    path = folder / "c.parquet"
    pq.write_table(pa.table({"ts": range(10_000), "type": ["A", "B"] * 5_000}), path)
    content = bytearray(path.read_bytes())
    content[200:2_000] = bytes(1_800)
    path.write_bytes(content)
    return path


def _no_files(folder: Path) -> Path:
    (folder / "empty").mkdir()
    (folder / "empty" / "_SUCCESS").touch()
    return folder / "empty"


def _mixed(folder: Path) -> Path:
    (folder / "mixed").mkdir()
    (folder / "mixed" / "a.csv").write_text("ts,type\n1,A\n")
    pq.write_table(EVENTS, folder / "mixed" / "b.parquet")
    return folder / "mixed"


def _empty_csv(folder: Path) -> Path:
    (folder / "nothing.csv").touch()
    return folder / "nothing.csv"


def _ragged(folder: Path) -> Path:
    (folder / "ragged.csv").write_text("ts,type\n1,A\n2\n")
    return folder / "ragged.csv"


def _cut_json(folder: Path) -> Path:
    (folder / "cut.ndjson").write_text('{"ts":1,"type":"A"}\n{"ts":2,"type"')
    return folder / "cut.ndjson"


def _unknown(folder: Path) -> Path:
    (folder / "events.xlsx").touch()
    return folder / "events.xlsx"


FILES: list[tuple[Callable[[Path], Path], list[str]]] = [
    (_latin, ["cannot read", "latin.csv", "UTF-8", "iconv"]),
    (_late_latin, ["cannot read", "late.csv", "UTF", "iconv"]),
    (_truncated, ["cannot read", "t.parquet"]),
    (_corrupt, ["cannot read", "c.parquet"]),
    (_no_files, ["cannot read", "empty", "the folder has no event files"]),
    (_mixed, ["different kinds", "csv, parquet"]),
    (_empty_csv, ["cannot read", "nothing.csv", "Empty CSV"]),
    (_ragged, ["cannot read", "ragged.csv", "Row #3", "Expected 2 columns, got 1"]),
    (_cut_json, ["cannot read", "cut.ndjson", "JSON parse error"]),
    (_unknown, ["cannot tell what kind of file", "events.xlsx", "'.csv'"]),
    (lambda folder: folder / "missing.csv", ["missing.csv", "no such file or folder"]),
]


@pytest.mark.parametrize(("make", "fragments"), FILES, ids=lambda value: getattr(value, "__name__", ""))
def test_files_that_cannot_be_read(make: Callable[[Path], Path], fragments: list[str], tmp_path: Path) -> None:
    path = make(tmp_path)
    with fails(DataError, *fragments):
        match(PAIR, kleene.open_events(path))


def test_tab_separated_files(tmp_path: Path) -> None:
    path = tmp_path / "events.tsv"
    path.write_text("ts\ttype\n1\tA\n2\tB\n")
    assert match(PAIR, kleene.open_events(path)).num_rows == 1


# --- attributes that a type does not have -----------------------------------------------------------------------------


@every_plan
def test_a_bare_boolean_that_a_type_lacks_holds(plan: Any) -> None:
    """A predicate that reads an attribute which the event's type lacks holds (SASE section 2.2.2): a bare one, negated, too."""
    events = table(ts=[1, 2, 3], type=["A", "B", "C"], f=[False, False, None], g=[True, True, True])
    options = {"schema": {"A": ["f", "g"], "B": ["g"], "C": ["g"]}, "plan": plan}
    query = "PATTERN SEQ(ANY(A, B) a, C c) WHERE"
    assert match(f"{query} a.f", events, **options).column("match_start").to_pylist() == [2]
    assert sorted(match(f"{query} NOT a.f", events, **options).column("match_start").to_pylist()) == [1, 2]
    assert match(f"{query} a.f OR c.g", events, **options).num_rows == 2
    assert sorted(match(f"{query} NOT (a.f AND c.g)", events, **options).column("match_start").to_pylist()) == [1, 2]


@every_plan
def test_an_attribute_that_a_type_lacks_is_returned_as_null(plan: Any) -> None:
    events = table(ts=[1, 2, 3], type=["A", "B", "C"], x=[5, 6, 7])
    found = match(
        "PATTERN SEQ(ANY(A, B) a, C c) RETURN a.x AS x, a.x + c.x AS sum",
        events,
        schema={"A": ["x"], "B": [], "C": ["x"]},
        plan=plan,
    )
    assert sorted((row["match_start"], row["x"], row["sum"]) for row in found.to_pylist()) == [(1, 5, 12), (2, None, None)]
