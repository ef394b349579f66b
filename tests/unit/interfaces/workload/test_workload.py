"""Workloads: composite events reach exactly the queries that name their type, and mistakes are told with the query's name."""

from __future__ import annotations

import datetime as dt
import warnings
from typing import Any

import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import BindingError, DataError, LimitError, PlanningError, QuerySyntaxError
from kleene.pattern.builder import event, seq, var

ROLES: dict[str, Any] = {"time": "ts", "type": "type"}
EVENTS = pa.table(
    {
        "ts": [1, 2, 3, 4, 5, 6, 7],
        "type": ["A", "B", "C", "A", "B", "A", "C"],
        "id": [1, 1, 1, 2, 2, 1, 1],
        "x": [1, 2, 3, 4, 5, 6, 7],
    }
)
PAIR = "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 5 RETURN a.id AS id, a.x + b.x AS total INTO AB"
LATE = "PATTERN SEQ(AB p, C c) WHERE [id] WITHIN 10"


def ends(matches: pa.Table) -> list[tuple[int, int]]:
    return sorted(zip(matches["match_start"].to_pylist(), matches["match_end"].to_pylist(), strict=True))


# --- composition ------------------------------------------------------------------------------------------------------


def test_a_query_reads_the_events_of_another() -> None:
    found = kleene.workload({"late": LATE, "pair": PAIR}).match(EVENTS, **ROLES)
    assert list(found) == ["late", "pair"], "in the order given, not in that of evaluation"
    assert ends(found["pair"]) == [(1, 2), (4, 5)]
    assert ends(found["late"]) == [(2, 3), (2, 7)]
    assert found["late"]["p"][0].as_py() == {"ts": 2, "type": "AB", "id": 1, "x": None, "total": 3}


def test_a_chain_and_a_type_with_two_makers() -> None:
    queries = {
        "third": "PATTERN SEQ(Two t, C c)",
        "second": "PATTERN One o WHERE o.n > 0 RETURN o.n * 10 AS n INTO Two",
        "first": "PATTERN A a WHERE a.id = 1 RETURN a.x AS n INTO One",
        "also": "PATTERN B b RETURN b.x AS m INTO Two",
    }
    found = kleene.workload(queries).match(EVENTS, **ROLES)
    assert found["second"]["n"].to_pylist() == [10, 60]
    assert sorted((row["t"]["n"] or 0, row["t"]["m"] or 0, row["match_end"]) for row in found["third"].to_pylist()) == [
        (0, 2, 3),
        (0, 2, 7),
        (0, 5, 7),
        (10, 0, 3),
        (10, 0, 7),
        (60, 0, 7),
    ]


def test_composite_events_join_input_events_of_their_type() -> None:
    queries = {"make": "PATTERN B b RETURN b.id AS id INTO C", "count": "PATTERN C c"}
    assert ends(kleene.workload(queries).match(EVENTS, **ROLES)["count"]) == [(2, 2), (3, 3), (5, 5), (7, 7)]


def test_queries_that_do_not_name_the_type_see_no_composite_events() -> None:
    """Strict contiguity counts every event of the stream: those of other queries are not in it."""
    strict = "PATTERN SEQ(A a, B b, C c) WHERE strict_contiguity { }"
    alone = kleene.query(strict, name="strict").match(EVENTS, **ROLES)
    assert ends(alone) == [(1, 3)]
    assert kleene.workload({"pair": PAIR, "late": LATE, "strict": strict}).match(EVENTS, **ROLES)["strict"].equals(alone)


def test_composite_events_at_the_time_of_their_last_event() -> None:
    """They tie with it: neither follows the other, and where a total order is needed that is an error."""
    simultaneous = kleene.workload({"pair": PAIR, "after": "PATTERN SEQ(AB p, B b)"})
    assert ends(simultaneous.match(EVENTS, **ROLES)["after"]) == [(2, 5)]
    ordered = kleene.workload({"pair": PAIR, "next": "PATTERN SEQ(AB p, B b) WHERE skip_till_next_match { }"})
    with pytest.raises(DataError, match="query 'next'"):
        ordered.match(EVENTS, **ROLES)
    assert ends(ordered.match(EVENTS, ties="arrival", **ROLES)["next"]) == [(2, 5)]


def test_order_by_is_asked_of_composite_events_too() -> None:
    table = EVENTS.append_column("seq", pa.array(range(7)))
    queries = {"pair": PAIR, "next": "PATTERN SEQ(AB p, B b) WHERE skip_till_next_match { }"}
    with pytest.raises(BindingError, match=r"have no 'seq'\n  hint: order_by needs it of every event: add RETURN ... AS seq"):
        kleene.workload(queries).match(table, order_by="seq", **ROLES)
    queries["pair"] = PAIR.replace("RETURN", "RETURN b.seq + 0.5 AS seq,")
    assert ends(kleene.workload(queries).match(table, order_by="seq", **ROLES)["next"]) == [(2, 5)]


def test_kleene_and_lists() -> None:
    queries = {
        "rising": "PATTERN SEQ(A+ a[], C c) WHERE skip_till_next_match { [id] } RETURN a.LEN AS n, a[].x AS xs INTO Run",
        "long": "PATTERN Run r WHERE r.n > 0 RETURN r.xs AS xs",
    }
    found = kleene.workload(queries).match(EVENTS, **ROLES)
    assert found["long"]["xs"].to_pylist() == found["rising"]["xs"].to_pylist() != []


def test_negation_reads_composite_events() -> None:
    queries = {"pair": PAIR, "none": "PATTERN SEQ(A a, !(AB p), C c) WHERE [id] WITHIN 10"}
    assert ends(kleene.workload(queries).match(EVENTS, **ROLES)["none"]) == [(6, 7)]


@pytest.mark.parametrize(
    "types",
    [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())],
    ids=str,
)
def test_types_of_the_type_column(types: pa.DataType) -> None:
    table = EVENTS.set_column(1, "type", EVENTS["type"].cast(types))
    assert ends(kleene.workload({"pair": PAIR, "late": LATE}).match(table, **ROLES)["late"]) == [(2, 3), (2, 7)]


def test_types_that_are_numbers() -> None:
    table = EVENTS.set_column(1, "type", pa.array([1, 2, 3, 1, 2, 1, 3]))
    pair = "PATTERN SEQ(`1` a, `2` b) WHERE [id] WITHIN 5 RETURN a.id AS id INTO `12`"
    late = "PATTERN SEQ(`12` p, `3` c) WHERE [id] WITHIN 10"
    assert ends(kleene.workload({"pair": pair, "late": late}).match(table, **ROLES)["late"]) == [(2, 3), (2, 7)]
    with pytest.raises(BindingError, match="'AB', but the type column 'type' holds int64 values"):
        kleene.workload({"pair": pair.replace("`12`", "AB"), "late": LATE}).match(table, **ROLES)


def test_numbers_promote() -> None:
    half = PAIR.replace("a.x + b.x AS total", "a.x / 2 AS x")
    found = kleene.workload({"pair": half, "late": LATE}).match(EVENTS, **ROLES)["late"]
    assert found["p"].type.field("x").type == pa.float64()
    assert sorted(row["c"]["x"] for row in found.to_pylist()) == [3.0, 7.0]
    narrow = EVENTS.set_column(3, "x", EVENTS["x"].cast(pa.int16()))
    wide = PAIR.replace("a.x + b.x AS total", "a.ts AS x")
    assert kleene.workload({"pair": wide, "late": LATE}).explain(narrow, **ROLES)["late"].plan.columns == (
        "ts",
        "type",
        "id",
        "x",
    )
    big = EVENTS.set_column(3, "x", pa.array([1 << 60 | 1] * 7))
    with pytest.raises(DataError, match="query 'late': values of 'x' do not fit into double"):
        kleene.workload({"pair": half, "late": LATE}).match(big, **ROLES)


def test_timestamps() -> None:
    start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    moments = pa.array([start + dt.timedelta(minutes=minute) for minute in range(7)], pa.timestamp("us", "UTC"))
    table = EVENTS.set_column(0, "ts", moments)
    queries = {"pair": PAIR.replace("5", "5 minutes"), "late": LATE.replace("10", "10 minutes")}
    assert kleene.workload(queries).match(table, **ROLES)["late"].num_rows == 2


def test_a_declared_schema_gains_the_composite_types() -> None:
    declared = {"A": ["id", "x"], "B": ["id", "x"], "C": ["id"]}
    work = kleene.workload({"pair": PAIR, "late": LATE})
    assert ends(work.match(EVENTS, schema=declared, **ROLES)["late"]) == [(2, 3), (2, 7)]
    with pytest.raises(BindingError, match=r"'AB' with other attributes .*\n.* its attributes are id, total"):
        work.match(EVENTS, schema={**declared, "AB": ["id", "x"]}, **ROLES)
    with pytest.raises(BindingError, match="query 'late': unknown attribute 'x' of 'p'"):
        kleene.workload({"pair": PAIR, "late": LATE.replace("[id]", "[id] AND p.x = 1")}).match(
            EVENTS, schema=declared, **ROLES
        )
    del declared["C"]
    with pytest.raises(BindingError, match="query 'late': unknown event type 'C'"):
        work.explain(EVENTS, schema=declared, **ROLES)


# --- what can be asked of a workload ------------------------------------------------------------------------------------


def test_events_in_other_forms() -> None:
    work = kleene.workload({"pair": PAIR, "late": LATE})
    wanted = work.match(EVENTS, **ROLES)
    reader = pa.RecordBatchReader.from_batches(EVENTS.schema, EVENTS.to_batches(max_chunksize=2))
    for events in (reader, EVENTS.to_pandas(), EVENTS.take([6, 0, 5, 1, 4, 2, 3])):
        found = work.match(events, **ROLES)
        assert {name: ends(matches) for name, matches in found.items()} == {name: ends(item) for name, item in wanted.items()}


def test_queries_in_other_forms() -> None:
    a = var("a")
    built = seq(event("A", "a"), event("B", "b")).returns(id=a.id).into("AB")
    listed = kleene.workload([kleene.query(built, name="pair"), kleene.query(LATE, name="late")])
    mapped = kleene.workload({"pair": built, "late": kleene.query(LATE)})
    assert listed == mapped
    assert mapped["late"].name == "late"
    assert mapped.producers("late") == ("pair",)
    assert mapped.order == ("pair", "late")


def test_runs_have_metrics_and_bad_rows() -> None:
    table = EVENTS.set_column(2, "id", pa.array([1, 1, None, 2, 2, 1, 1]))
    with warnings.catch_warnings(action="ignore"):
        runs = kleene.workload({"pair": PAIR, "late": LATE}).run(table, bad_rows="quarantine", **ROLES)
    assert (runs["pair"].metrics.events, runs["late"].metrics.events) == (7, 9)
    assert (runs["pair"].bad_rows.num_rows, runs["late"].bad_rows.num_rows) == (0, 1)


def test_explain_reads_columns_only() -> None:
    plans = kleene.workload({"late": LATE, "pair": PAIR}).explain(EVENTS.schema, **ROLES)
    assert list(plans) == ["late", "pair"]
    assert "columns: ts, type, id, x, total" in str(plans["late"])


def test_compressed_output_is_for_queries_without_into() -> None:
    queries = {"pair": PAIR, "late": "PATTERN SEQ(AB+ p[], C c) WITHIN 10"}
    found = kleene.workload(queries).match(EVENTS, output="compressed", **ROLES)
    assert kleene.count(found["late"]) == 4
    assert "total" in found["pair"].schema.names


def test_options_hold_for_all_queries() -> None:
    many = pa.table({"ts": range(12), "type": ["A"] * 11 + ["B"], "id": [1] * 12, "x": range(12)})
    work = kleene.workload({"pair": PAIR, "runs": "PATTERN SEQ(A+ a[], B b)"})
    with pytest.raises(LimitError, match="query 'runs'"):
        work.match(many, limits={"matches": 5}, **ROLES)
    with pytest.raises(PlanningError, match="query 'pair': unknown plan option 'nonsense'"):
        work.match(many, plan={"nonsense": 1}, **ROLES)
    with pytest.warns(UserWarning, match="were let go of at the limits") as caught:
        work.match(many, limits={"matches": 5, "policy": "sample"}, plan={"algorithm": "basic"}, **ROLES)
    assert {item.filename for item in caught} == {__file__}, "a warning points at the user's line"


# --- mistakes -----------------------------------------------------------------------------------------------------------


def test_cycles_name_their_queries() -> None:
    around = {
        "beside": "PATTERN A a",
        "one": "PATTERN SEQ(A a, T3 t) RETURN t.id AS id INTO T1",
        "two": "PATTERN SEQ(T1 t, A a) RETURN t.id AS id INTO T2",
        "three": "PATTERN SEQ(A a, !(T2 t)) WITHIN 5 RETURN a.id AS id INTO T3",
    }
    with pytest.raises(BindingError, match="in a circle") as error:
        kleene.workload(around)
    assert all(f"'{name}'" in str(error.value) for name in ("one", "two", "three"))
    assert "beside" not in str(error.value)
    with pytest.raises(BindingError, match="query 'self' reads the events that it makes"):
        kleene.workload({"self": "PATTERN SEQ(T t, A a) RETURN a.id AS id INTO T"})


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ({}, "at least one query"),
        ([], "at least one query"),
        ("PATTERN A a", "not of a str"),
        (["PATTERN A a"], "Query objects"),
        ({"": "PATTERN A a"}, "name is text"),
        ({1: "PATTERN A a"}, "name is text"),
        ({"q": 7, "r": "PATTERN A a"}, "query 'q': a query is text"),
        ([kleene.query("PATTERN A a"), kleene.query("PATTERN B b")], "two queries of the workload are named 'query'"),
        ({"q": "PATTERN SEQ(A a, A a)", "r": "PATTERN A a"}, "query 'q': variable 'a' is used twice"),
    ],
)
def test_what_is_no_workload(queries: Any, message: str) -> None:
    with pytest.raises(BindingError, match=message):
        kleene.workload(queries)


def test_syntax_errors_name_their_query() -> None:
    with pytest.raises(QuerySyntaxError, match=r"^query 'q': '\(' is not closed at line 1"):
        kleene.workload({"p": "PATTERN A a", "q": "PATTERN SEQ(A a"})


def test_unknown_names() -> None:
    with pytest.raises(BindingError, match="no query 'lat'\n  hint: did you mean 'late'"):
        kleene.workload({"late": LATE})["lat"]
    with pytest.raises(BindingError, match="unknown option 'tim'"):
        kleene.workload({"late": LATE}).match(EVENTS, tim="ts", **ROLES)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ("", {"type": None}, "query 'pair' makes events of type 'AB', but no type column was given"),
        ("a.ts AS ts, ", {}, "query 'pair' returns 'ts' into 'AB', but that is the time column"),
        ("a.ts AS type, ", {}, "query 'pair' returns 'type' into 'AB', but that is the type column"),
        ("a.type AS x, ", {}, "query 'late': .* have 'x' as string, others have it as int64\n  hint: name them apart"),
        ("a.x > 1 AS x, ", {}, "have 'x' as bool, others have it as int64"),
    ],
)
def test_events_that_do_not_fit(change: str, options: dict[str, Any], message: str) -> None:
    work = kleene.workload({"pair": PAIR.replace("RETURN ", f"RETURN {change}"), "late": LATE})
    for ask in (work.match, work.explain):
        with pytest.raises(BindingError, match=message):
            ask(EVENTS, **{**ROLES, **options})


def test_trace_of_a_query() -> None:
    table = EVENTS.append_column("name", pa.array(list("abcdefg"))).take([1, 0, 2, 3, 4, 5, 6])
    traced = kleene.query("PATTERN SEQ(A a, B b) WHERE [id]").trace(table, label="name", **ROLES)
    assert [step.event for step in traced.steps] == list("abcdefg")
    assert [len(step.accepted) for step in traced.steps] == [0, 1, 0, 0, 1, 0, 0]
    with pytest.raises(BindingError, match=r"label column 'nam'.*\n.*did you mean 'name'"):
        kleene.query("PATTERN A a").trace(table, label="nam", **ROLES)


def test_statistics_are_given_by_the_name_of_a_query() -> None:
    pairs = kleene.workload({"late": LATE, "pair": PAIR})
    plans = pairs.explain(EVENTS, **ROLES, stats={"late": {"rates": {"p": 2, "c": 3}}})
    assert ["rate of p: 2" in str(plans[name]) for name in ("late", "pair")] == [True, False]
    with pytest.raises(BindingError, match="given for 'lat', which is no query of the workload") as error:
        pairs.match(EVENTS, **ROLES, stats={"lat": {"rates": {"p": 2}}})
    assert "did you mean 'late'?" in str(error.value)
    with pytest.raises(BindingError, match="statistics are those of one query"):
        pairs.match(EVENTS, **ROLES, stats=kleene.query(PAIR).statistics(EVENTS, **ROLES))


def test_an_error_of_a_kind_that_only_the_engine_knows_arrives_as_a_data_error() -> None:
    from kleene.common.errors import DataError, LimitError
    from kleene.runtime.spark.workloads import _error

    assert type(_error("SaturatedError: a sum: too large")) is DataError
    assert type(_error("LimitError: too many")) is LimitError
