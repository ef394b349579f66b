"""The arguments of `kleene_match`, and what Spark is told of a call, without a JVM."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t
from pyspark.sql.functions import AnalyzeArgument

import kleene
from kleene.common.errors import BindingError, KleeneError, QuerySyntaxError
from kleene.explain.plans import explain
from kleene.interfaces.sql import _analyze
from kleene.runtime.spark.sql import BUCKETS, Analyzed, MatchedBucket

EVENTS = t.StructType(
    [
        t.StructField("ts", t.LongType()),
        t.StructField("type", t.StringType()),
        t.StructField("k", t.IntegerType()),
        t.StructField("odd`name.", t.StringType()),
        t.StructField("x", t.LongType()),
        t.StructField("unused", t.StringType()),
    ]
)
KEYED = "PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x WITHIN 10 RETURN a.x AS x, b.ts AS at"


def table(kind: t.StructType = EVENTS) -> AnalyzeArgument:
    return AnalyzeArgument(kind, None, isTable=True, isConstantExpression=False)


def constant(value: Any, kind: t.DataType | None = None) -> AnalyzeArgument:
    return AnalyzeArgument(kind or t.StringType(), value, isTable=False, isConstantExpression=True)


def column(kind: t.DataType | None = None) -> AnalyzeArgument:
    return AnalyzeArgument(kind or t.StringType(), None, isTable=False, isConstantExpression=False)


def call(text: str = KEYED, /, **named: Any) -> Analyzed:
    """What Spark is told of a call with a time and a type, and with constants that are texts unless they say otherwise."""
    given = {"time": "ts", "type": "type", **named}
    arguments = {name: item if isinstance(item, AnalyzeArgument) else constant(item) for name, item in given.items()}
    return _analyze((), table(), constant(text), **arguments)


def refusal(*places: AnalyzeArgument, **named: AnalyzeArgument) -> str:
    with pytest.raises(KleeneError) as raised:
        _analyze((), *places, **named)
    return str(raised.value)


# --- what Spark is told -----------------------------------------------------------------------------------------------


def test_the_schema_is_that_of_the_matches() -> None:
    names = ["query", "match_id", "match_start", "match_end", "x", "at"]
    assert call().schema.names == names


def test_rows_come_by_a_hash_of_the_keys_in_stream_order_with_the_columns_that_are_read() -> None:
    found = call(order_by="x")
    assert [item.name for item in found.partitionBy] == [f"pmod(xxhash64(`k`), {BUCKETS})"]
    assert [(item.name, item.ascending) for item in found.orderBy] == [("`ts`", True), ("`x`", True)]
    assert [item.name for item in found.select] == ["`ts`", "`type`", "`k`", "`x`"]
    assert not found.withSinglePartition


def test_odd_names_are_quoted() -> None:
    found = call("PATTERN SEQ(A a, B b) WITHIN 10", partition_by="odd`name.")
    assert [item.name for item in found.partitionBy] == [f"pmod(xxhash64(`odd``name.`), {BUCKETS})"]


def test_partition_by_adds_keys() -> None:
    several = constant(["k", "x"], t.ArrayType(t.StringType()))
    found = call("PATTERN SEQ(A a, B b) WITHIN 10", partition_by=several, buckets=constant(7, t.IntegerType()))
    assert [item.name for item in found.partitionBy] == ["pmod(xxhash64(`k`, `x`), 7)"]


def test_what_no_key_divides_comes_to_one_task_in_order() -> None:
    found = call("PATTERN SEQ(A a, B b) WITHIN 10")
    assert found.withSinglePartition
    assert list(found.partitionBy) == []
    assert [item.name for item in found.orderBy] == ["`ts`"]


def test_what_a_task_gets_is_pickled_with_the_answer() -> None:
    found = pickle.loads(pickle.dumps(call(bad_rows="drop")))
    assert found.bad_rows == "drop"
    assert found.plan.keys == ("k",)


def test_all_arguments_may_have_names() -> None:
    found = _analyze((), query=constant(KEYED), time=constant("ts"), type=constant("type"), events=table())
    assert found == call()


def test_null_is_not_given() -> None:
    assert call(order_by=constant(None), bad_rows=constant(None, t.NullType())) == call()


def test_functions_are_those_of_the_registration() -> None:
    text = "PATTERN SEQ(A a, B b) WHERE [k] AND Twice(a.x) = 2 WITHIN 10"
    with pytest.raises(KleeneError, match="Twice"):
        call(text)
    twice = kleene.function("Twice", returns="integer")(lambda x: x)
    found = _analyze((twice,), table(), constant(text), time=constant("ts"), type=constant("type"))
    assert [item.name for item in found.plan.bound.query.functions] == ["Twice"]


@pytest.mark.parametrize(
    ("value", "kind", "wanted"),
    [
        (3, t.IntegerType(), "3"),
        (Decimal("2.5"), t.DecimalType(2, 1), "2.5"),
        (True, t.BooleanType(), "TRUE"),
        ("it's", t.StringType(), "'it''s'"),
        (dt.date(2026, 3, 1), t.DateType(), "'2026-03-01"),
    ],
    ids=str,
)
def test_params_are_constants_of_any_kind(value: Any, kind: t.DataType, wanted: str) -> None:
    names = {"IntegerType": "x", "DecimalType": "y", "BooleanType": "b", "StringType": "type", "DateType": "day"}
    name = names[type(kind).__name__]
    more = [t.StructField("y", t.DoubleType()), t.StructField("b", t.BooleanType()), t.StructField("day", t.DateType())]
    events = t.StructType([*EVENTS.fields, *more])
    text = constant(f"PATTERN A a WHERE a.{name} = given")
    for params in (
        constant(t.Row(given=value), t.StructType([t.StructField("given", kind)])),
        constant({"given": value}, t.MapType(t.StringType(), kind)),
    ):
        found = _analyze((), table(events), text, time=constant("ts"), type=constant("type"), params=params)
        assert wanted in explain(found.plan)


def test_a_moment_is_a_moment_wherever_the_worker_is() -> None:
    """pyspark gives a worker's local time for it."""
    moment = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
    local = moment.astimezone().replace(tzinfo=None)
    events = t.StructType([*EVENTS.fields, t.StructField("at", t.TimestampType())])
    params = constant(t.Row(given=local), t.StructType([t.StructField("given", t.TimestampType())]))
    text = constant("PATTERN A a WHERE a.at = given")
    found = _analyze((), table(events), text, time=constant("ts"), type=constant("type"), params=params)
    assert "2026-03-01 12:00:00" in explain(found.plan).replace("T", " ")


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_wrong_query_is_shown_with_the_place() -> None:
    with pytest.raises(QuerySyntaxError) as raised:
        call("PATTERN SEQ(A a, B b)\nWHERE a.x <")
    assert "line 2" in str(raised.value)
    assert "\n  WHERE a.x <" in str(raised.value)
    assert "^" in str(raised.value)


def test_a_missing_column_is_named_with_the_nearest() -> None:
    with pytest.raises(BindingError, match=r"no attribute|not a column|unknown") as raised:
        call("PATTERN SEQ(A a, B b) WHERE [k] AND a.unsed = 'v' WITHIN 10")
    assert "did you mean 'unused'?" in str(raised.value)
    with pytest.raises(BindingError, match="time column 'tss' is not a column of the events"):
        call(time="tss")


def test_all_that_is_wrong_with_the_arguments_is_said_at_once() -> None:
    text = refusal(constant("x"), column(), constant("more"), typ=constant("type"), bad_rows=constant("quarantine"))
    for part in (
        "3 arguments without a name, of which there are 2",
        "unknown argument 'typ'\n  hint: did you mean 'type'?",
        "the events are no TABLE argument",
        "argument 'query' is not a constant",
        "the argument 'time' is missing",
        "bad_rows cannot be 'quarantine' in SQL",
    ):
        assert part in text
    assert "the query is missing" not in text


@pytest.mark.parametrize("given", [None, 7], ids=str)
def test_the_query_is_a_text(given: Any) -> None:
    assert "the query is missing: it is a text" in refusal(table(), constant(given), time=constant("ts"))


def test_nothing_at_all() -> None:
    text = refusal()
    assert "the events are no TABLE argument" in text
    assert "the query is missing" in text


def test_an_argument_given_twice() -> None:
    assert "argument 'query' is given twice" in refusal(table(), constant(KEYED), query=constant(KEYED), time=constant("ts"))


@pytest.mark.parametrize("name", ["time", "type", "buckets"])
def test_arguments_of_another_kind(name: str) -> None:
    with pytest.raises(BindingError, match=f"argument '{name}' is a"):
        call(**{name: constant(1.5, t.DoubleType())})
    with pytest.raises(BindingError, match=f"argument '{name}' is a"):
        call(**{name: constant(True, t.BooleanType())})


NUMBER, TEXT = constant(5, t.IntegerType()), constant("k")
TEXTS, WITH_NULL = (constant(value, t.ArrayType(t.StringType())) for value in (["k"], ["k", None]))
TEXT_BY_TEXT = constant({"A": "k"}, t.MapType(t.StringType(), t.StringType()))
TEXTS_BY_NUMBER = constant({1: ["k"]}, t.MapType(t.IntegerType(), t.ArrayType(t.StringType())))
WRONG = {
    "partition_by": [NUMBER, WITH_NULL, TEXT_BY_TEXT],
    "order_by": [NUMBER, WITH_NULL, TEXT_BY_TEXT],
    "schema": [NUMBER, TEXT, TEXTS, TEXT_BY_TEXT, TEXTS_BY_NUMBER],
    "params": [NUMBER, TEXT, TEXTS, TEXTS_BY_NUMBER],
    "plan": [NUMBER, TEXTS, TEXTS_BY_NUMBER],
    "limits": [NUMBER, TEXT, TEXTS, TEXTS_BY_NUMBER],
}


@pytest.mark.parametrize(
    ("name", "wrong"), [pytest.param(name, item, id=f"{name}-{item.value}") for name, items in WRONG.items() for item in items]
)
def test_what_an_option_cannot_be_is_refused_with_a_hint(name: str, wrong: AnalyzeArgument) -> None:
    with pytest.raises(BindingError, match=rf"argument '{name}' is an? .*, not .*\n  hint: write {name} => "):
        call(**{name: wrong})


def test_options_are_checked_as_everywhere() -> None:
    with pytest.raises(BindingError, match="buckets cannot be 0"):
        call(buckets=constant(0, t.IntegerType()))
    with pytest.raises(BindingError, match="unknown argument 'ties'"):
        call(ties="arrival")


# --- a bucket ---------------------------------------------------------------------------------------------------------


def test_a_bucket_matches_batches_and_ends() -> None:
    bucket = MatchedBucket(call())
    rows = {"ts": [1, 2], "type": ["A", "B"], "k": pa.array([1, 1], pa.int32()), "x": [1, 2]}
    batch = pa.RecordBatch.from_pydict(rows)
    first, second = batch.slice(0, 1), batch.slice(1, 1)
    found = [*bucket.eval(first, pa.array([KEYED])), *bucket.eval(second, pa.array([KEYED])), *bucket.terminate()]
    assert [row["x"] for item in found for row in item.to_pylist()] == [1]


def test_a_bucket_without_events_has_no_matches() -> None:
    assert list(MatchedBucket(call()).terminate()) == []
