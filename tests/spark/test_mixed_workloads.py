"""Workloads of queries with different keys, and without, on Spark: few passes over the data, and every query's own answer."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import kleene
from support.random_workloads import match_workload
from support.spark import frame_of
from support.spark_queries import shown, zone_events
from support.workload_pairs import Given, describe

pytestmark = pytest.mark.spark

ROLES: dict[str, Any] = {"time": "ts", "type": "type"}
QUERIES = {
    "rise": "PATTERN SEQ(A a, B b) WHERE [id] AND a.x < b.x WITHIN 20 minutes",
    "rise and c": "PATTERN SEQ(A p, B q, C r) WHERE [id] AND q.x > p.x WITHIN 30 minutes RETURN p.x AS low, q.x - p.x AS rise",
    "no d": "PATTERN SEQ(A a, B b, !(D d)) WHERE [zone] AND a.x < b.x WITHIN 10 minutes",
    "many": "PATTERN SEQ(A a, B+ b[], C c) WHERE [id] AND [zone] AND b[].x > a.x WITHIN 30 minutes",
    "both keys": "PATTERN SEQ(A a, C c) WHERE [zone] AND [id] WITHIN 1 hour",
    "equal": "PATTERN SEQ(A a, C c) WHERE a.zone = c.zone AND a.x = c.x WITHIN 1 hour",
    "no key": "PATTERN SEQ(A a, B b) WHERE a.x > b.x + 15 WITHIN 5 minutes",
    "no key or window": "PATTERN SEQ(A a, !(C c), B b) WHERE a.x > b.x + 5",
    "next": "PATTERN SEQ(A a, B b) WHERE skip_till_next_match(a, b) { [id] } WITHIN 20 minutes",
    "contiguous": "PATTERN SEQ(A a, B b) WHERE partition_contiguity(a, b) { [zone] }",
    "strict": "PATTERN SEQ(A a, B b) WHERE strict_contiguity(a, b) { a.x < b.x }",
    "apart": "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 20 minutes OUTPUT NON-OVERLAP",
    "events": "PATTERN SEQ(A a, D d) WHERE [id] WITHIN 6 EVENTS",
    "counted": "PATTERN SEQ(A a, B b) WHERE [id] AGG COUNT AS n WITHIN 20 minutes GROUP BY id",
    "counted too": "PATTERN SEQ(A a, C b) WHERE [id] AGG SUM(b.x) AS sum WITHIN 20 minutes GROUP BY id",
    "counted of all": "PATTERN SEQ(A a, D d) AGG COUNT AS n WITHIN 20 minutes",
    "counted matches": "PATTERN SEQ(A a, B b) WHERE [id] AND a.x < b.x AGG COUNT AS n WITHIN 20 minutes GROUP BY id",
}
"""With the keys (id), (zone), (id, zone), (zone, x) and none."""

KEYED = [name for name in QUERIES if "no key" not in name and name not in ("strict", "counted of all")]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return zone_events().append_column("unread", pa.array(range(300)))


@pytest.fixture(scope="module")
def frame(spark: Any, table: pa.Table) -> Any:
    return frame_of(spark, table).repartition(3).cache()


def exchanges(run: dict[str, Any]) -> int:
    """How many shuffles all results need."""
    kept = {id(item.kept): item.kept for item in run.values() if item.kept is not None}
    frames = [*kept.values(), *(item.matches for item in run.values() if item.kept is None)]
    return sum(str(found._jdf.queryExecution().executedPlan()).count("Exchange ") for found in frames)


# --- the same answers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"plan": {"mechanism": "nfa"}, "ties": "arrival"}], ids=["default", "automata"])
def test_every_query_has_its_own_matches(frame: Any, table: pa.Table, options: dict[str, Any]) -> None:
    found = kleene.workload(QUERIES).match(frame, **ROLES, **options)
    for name, text in QUERIES.items():
        wanted = kleene.query(text, name=name).match(table, **ROLES, **options)
        assert wanted.num_rows > 0, f"'{name}' compares nothing"
        assert shown(found[name].toArrow()) == shown(wanted), name


def test_every_query_has_the_answer_it_has_alone(frame: Any) -> None:
    found = kleene.workload(QUERIES).match(frame, **ROLES)
    for name, text in QUERIES.items():
        alone = kleene.query(text, name=name).match(frame, **ROLES)
        assert found[name].schema == alone.schema
        if name in ("many", "equal", "next", "counted too"):
            assert shown(found[name].toArrow()) == shown(alone.toArrow()), name


@pytest.mark.parametrize("seed", range(3))
def test_spark_agrees_with_the_oracle(seed: int, spark: Any) -> None:
    workload = match_workload(seed, 700)
    given = Given(workload)
    queries = {name: item.query for name, item in given.wanted.items()}
    found = kleene.workload(queries).match(frame_of(spark, given.table).repartition(3), **given.options)
    report = [line for name, item in given.wanted.items() for line in item.row_differences("spark", found[name].toArrow())]
    assert not report, "\n".join([*report, describe(workload)])


def test_odd_column_names(spark: Any, table: pa.Table) -> None:
    odd = table.rename_columns(["the.time", "a type", "i`d", "zone", "x", "unread"])
    queries = {
        "p": "PATTERN SEQ(A a, B b) WHERE [`i``d`] WITHIN 20 minutes",
        "q": "PATTERN SEQ(A a, B b) WHERE [`i``d`] AND [zone] WITHIN 20 minutes RETURN a.`the.time` AS at",
    }
    roles: dict[str, Any] = {"time": "the.time", "type": "a type"}
    found = kleene.workload(queries).match(frame_of(spark, odd), **roles)
    for name, text in queries.items():
        assert shown(found[name].toArrow()) == shown(kleene.query(text, name=name).match(odd, **roles))


def test_an_empty_frame(frame: Any) -> None:
    found = kleene.workload(QUERIES).match(frame.where("false"), **ROLES)
    assert all(matches.count() == 0 for matches in found.values())


def test_matches_that_are_events_of_other_queries(frame: Any, table: pa.Table) -> None:
    queries = {
        "pair": "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 5 minutes RETURN a.id AS id, a.zone AS zone INTO Pair",
        "other": "PATTERN SEQ(A a, D d) WHERE [id] AND [zone] WITHIN 5 minutes",
        "again": "PATTERN SEQ(Pair p, C c) WHERE [id] WITHIN 10 minutes",
        "zones": "PATTERN SEQ(Pair p, D d) WHERE [zone] WITHIN 10 minutes",
        "both": "PATTERN SEQ(Pair p, C c, D d) WHERE [zone] AND [id] WITHIN 10 minutes",
    }
    work = kleene.workload(queries)
    run = work.run(frame, **ROLES)
    assert run["pair"].kept is run["other"].kept is not None
    assert run["both"].kept is not None
    for name, wanted in work.match(table, **ROLES).items():
        assert wanted.num_rows > 0
        assert shown(run[name].matches.toArrow()) == shown(wanted), name


# --- as few passes as possible ------------------------------------------------------------------------------------------


def test_there_are_as_many_shuffles_as_passes(spark: Any, table: pa.Table) -> None:
    frame = frame_of(spark, table)
    work = kleene.workload(QUERIES)
    ((_, passes),) = work.explain_shared(frame, **ROLES).passes
    by_keys = {item.keys: set(item.queries) for item in passes.passes}
    assert len(by_keys) == 3
    assert by_keys[("id",)] >= {"rise", "next", "apart", "events", "counted"}
    assert by_keys[("zone",)] >= {"no d", "equal", "contiguous"}
    assert by_keys[()] == set(QUERIES) - set(KEYED)
    run = work.run(frame, **ROLES)
    assert exchanges(run) == 3 < exchanges({name: work[name].run(frame, **ROLES) for name in QUERIES}) == len(QUERIES)
    assert len({id(item.kept) for item in run.values()}) == 3
    for item in by_keys.values():
        assert len({id(run[name].kept) for name in item}) == 1
    for item in run.values():
        item.unpersist()


def test_the_plan_is_explained(frame: Any) -> None:
    text = str(kleene.workload(QUERIES).explain_shared(frame, **ROLES))
    assert text.startswith("17 queries in 3 passes over the events\n")
    assert "what they have in common: (id), (id, zone), (zone, id)" in text or "(zone, x)" in text
    assert "no key divides the events: one task sees all" in text


def test_a_query_that_shares_nothing_runs_as_it_does_alone(spark: Any, table: pa.Table) -> None:
    work = kleene.workload({name: QUERIES[name] for name in ("rise", "no d", "no key")})
    run = work.run(frame_of(spark, table), **ROLES)
    assert all(item.kept is None for item in run.values())
    assert exchanges(run) == 3


def test_keys_with_too_few_values_are_not_shared(spark: Any, table: pa.Table) -> None:
    """With one value of a key, one task would do the work of all queries that have it."""
    single = table.set_column(3, "zone", pa.array(["n"] * table.num_rows))
    queries = {name: QUERIES[name] for name in ("no d", "both keys")}
    ((_, passes),) = kleene.workload(queries).explain_shared(frame_of(spark, single), **ROLES).passes
    assert [item.keys for item in passes.passes] == [("zone",), ("zone", "id")]
    assert passes.spread.values == {"id": 3, "zone": 1}


# --- bad rows and errors --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def holed(table: pa.Table) -> pa.Table:
    """An A without a zone, a C without an id, a D without a time, an event without a type."""
    rows = table.to_pylist()
    for kind, column in (("A", "zone"), ("C", "id"), ("D", "ts"), ("E", "type")):
        next(row for row in rows if row["type"] == kind)[column] = None
    return pa.Table.from_pylist(rows, table.schema)


def test_bad_rows_are_those_of_each_query(spark: Any, holed: pa.Table) -> None:
    queries = {name: text for name, text in QUERIES.items() if "contig" not in text and "EVENTS" not in text}
    run = kleene.workload(queries).run(frame_of(spark, holed).repartition(3), bad_rows="quarantine", **ROLES)
    counts = set()
    for name, text in queries.items():
        with pytest.warns(UserWarning, match="bad rows"):
            alone = kleene.query(text, name=name).run(holed, bad_rows="quarantine", **ROLES)
        counts.add(alone.bad_rows.num_rows)
        assert sorted(map(str, run[name].bad_rows.toArrow().to_pylist())) == sorted(map(str, alone.bad_rows.to_pylist())), name
        assert shown(run[name].matches.toArrow()) == shown(alone.matches), name
    assert len(counts) > 1, "all queries have the same bad rows"


def test_an_error_is_that_of_the_queries_it_concerns(spark: Any, table: pa.Table) -> None:
    """An A without a zone is a bad row to queries by zone, and an event like others to queries by id."""
    rows = table.to_pylist()
    next(row for row in rows if row["type"] == "A")["zone"] = None
    holed = pa.Table.from_pylist(rows, table.schema)
    names = ["rise", "rise and c", "many", "both keys", "counted", "counted too", "next"]
    run = kleene.workload({name: QUERIES[name] for name in names}).run(frame_of(spark, holed), **ROLES)
    assert len({id(item.kept) for item in run.values()}) == 1, "all are in one pass"
    for name in names:
        if "[zone]" in QUERIES[name]:
            with pytest.raises(Exception, match=r"DataError: .*key attribute 'zone' is NULL") as raised:
                run[name].matches.toArrow()
            assert "bad_rows='quarantine'" in str(raised.value)
        else:
            wanted = kleene.query(QUERIES[name], name=name).match(holed, **ROLES)
            assert shown(run[name].matches.toArrow()) == shown(wanted), name


def test_ties_are_an_error_of_the_queries_that_need_an_order(spark: Any, table: pa.Table) -> None:
    tied = pa.concat_tables([table, table.slice(0, 1)])
    names = ["rise", "rise and c", "next", "events"]
    found = kleene.workload({name: QUERIES[name] for name in names}).match(frame_of(spark, tied), **ROLES)
    for name in ("rise", "rise and c"):
        wanted = kleene.query(QUERIES[name], name=name).match(tied, **ROLES)
        assert shown(found[name].toArrow()) == shown(wanted)
    for name in ("next", "events"):
        with pytest.raises(Exception, match="DataError: two events tie"):
            found[name].toArrow()
