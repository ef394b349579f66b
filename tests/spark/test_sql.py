"""`kleene_match` in Spark SQL: the embedded answer with the same ids, as a table among others, and errors one can read.

What Spark is told of a call, and which arguments are refused, is in `unit/interfaces/test_sql.py`.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException

import kleene
from kleene.interfaces.query import Query
from kleene.testing import oracle
from kleene.testing.case_routes import differences, run
from kleene.testing.cases import Case, load_all
from support import connect_run, nfa_pairs, sase_pairs, spark_queries, sql_calls
from support.lazy_pairs import Pair
from support.spark import ELSEWHERE, frame_of
from support.spark_queries import QUERIES, embedded, in_order, shown
from support.sql_calls import in_sql, statement, view_of
from support.strategies import Example, any_match_examples, saseplus_examples

pytestmark = [pytest.mark.spark, pytest.mark.since(4, 1)]

ROLES: dict[str, Any] = {"time": "ts", "type": "type"}
KEYED = "PATTERN SEQ(A a, B b) WHERE [k] WITHIN 10"
CASES = [case for case in load_all(connect_run.CASES) if sql_calls.can_answer(case)]
EVERY = 10
"""One case in so many runs in every test run: they say little about SQL that others do not."""


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    kleene.register(spark, functions=spark_queries.FUNCTIONS)
    return spark


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return spark_queries.events()


@pytest.fixture(scope="module")
def events(session: Any, table: pa.Table) -> Iterator[str]:
    """The events as a view, in any order."""
    frame = frame_of(session, table).repartition(3).cache()
    frame.createOrReplaceTempView("events")
    yield "events"
    frame.unpersist()


def rows(session: Any, sql: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = session.sql(sql).toArrow().to_pylist()
    return found


# --- the same answer --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", QUERIES)
def test_sql_and_embedded_agree(name: str, session: Any, events: str, table: pa.Table) -> None:
    wanted = embedded(name, table)
    assert in_sql(name, session, events) == wanted
    assert wanted, "a query without matches compares little"


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.long] * (place % EVERY != 0)) for place, case in enumerate(CASES)],
    ids=connect_run.name_of,
)
def test_case(case: Case, session: Any) -> None:
    assert differences(case, run(case, sql_calls.sql_route(lambda: session))) == []


@pytest.mark.parametrize(
    "pairs",
    [
        pytest.param(lambda: [item for item in any_match_examples(3107, 10) if Pair(item).plan() is not None], id="any match"),
        pytest.param(  # each has kernels of its own, which have to be compiled
            lambda: [item for item in saseplus_examples(3107, 30) if not nfa_pairs.refused(item)],
            id="SASE+",
            marks=pytest.mark.long,
        ),
    ],
)
def test_random_queries_have_the_matches_of_the_oracle(pairs: Callable[[], list[Example]], session: Any) -> None:
    """With the ids of an embedded run."""
    with_matches = 0
    for pair in pairs():
        bare, table, options = nfa_pairs.bare(pair), sase_pairs.numbered(pair), nfa_pairs.call_options(pair)
        wanted = oracle.matches(pair.bound(), pair.events)
        comparison = nfa_pairs.Comparison(bare, wanted)
        comparison.add("embedded", Query(bare.query).match(table, **options).to_pylist())
        if options["schema"] is not None:
            options["schema"] = {name: sorted(attributes) for name, attributes in options["schema"].items()}
        comparison.add("SQL", rows(session, statement(str(Query(bare.query)), view_of(session, table), options)))
        assert not comparison.report, "\n".join((*comparison.report, sase_pairs.describe(pair)))
        with_matches += bool(wanted)
    assert with_matches > 2


AGGREGATES = {
    "by group": ("PATTERN SEQ(A a, B b) GROUP BY k AGG COUNT AS n, SUM(b.kind) AS total WITHIN 20", ROLES),
    "of the whole stream": ("PATTERN SEQ(A a, !(C c), B b) AGG COUNT AS n, MAX(b.k) AS most WITHIN 9", ROLES),
    "on change": ("PATTERN SEQ(A a, B b) GROUP BY k AGG COUNT AS n EMIT ON CHANGE WITHIN 20", ROLES),
    "by matching": ("PATTERN SEQ(A a, B b) WHERE a.x < b.x GROUP BY k AGG COUNT AS n HAVING n > 1 WITHIN 30", ROLES),
}


@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates(name: str, session: Any, events: str, table: pa.Table) -> None:
    text, options = AGGREGATES[name]
    wanted = shown(kleene.query(text).match(table, **options))
    assert shown(session.sql(statement(text, events, options)).toArrow()) == wanted
    assert wanted


def test_many_batches_and_buckets_in_one_task_stay_apart_and_in_order(session: Any) -> None:
    """Buckets end within batches and at their ends, and every key's events come in order of time."""
    rng = random.Random(11)
    count = 4000
    columns = {
        "ts": pa.array(rng.sample(range(count), count), pa.int64()),
        "type": pa.array([rng.choice("AB") for _ in range(count)]),
        "k": pa.array([rng.randrange(200) for _ in range(count)], pa.int64()),
    }
    table = pa.table(columns)
    wanted = in_order(kleene.query(KEYED.replace("10", "90")).match(table, **ROLES).to_pylist())
    before = session.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    try:
        for buckets in (1, 3, None):
            sql = statement(KEYED.replace("10", "90"), view_of(session, table), {**ROLES, "buckets": buckets})
            assert in_order(rows(session, sql)) == wanted
    finally:
        session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", before)
    assert len(wanted) > 400


def test_the_sessions_time_zone_changes_nothing(session: Any, events: str, table: pa.Table) -> None:
    before = session.conf.get("spark.sql.session.timeZone")
    session.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        for name in ("timestamps", "local timestamps", "time arithmetic"):
            assert in_sql(name, session, events) == embedded(name, table)
    finally:
        session.conf.set("spark.sql.session.timeZone", before)


def test_an_empty_table_has_no_matches_but_their_columns(session: Any, table: pa.Table) -> None:
    view = view_of(session, table.slice(0, 0))
    for text in (KEYED, "PATTERN SEQ(A a, B b) WITHIN 10"):
        found = session.sql(statement(text, view, ROLES)).toArrow()
        assert found.num_rows == 0
        assert found.column_names == ["query", "match_id", "match_start", "match_end", "a", "b"]


def test_null_keys_are_bad_rows(session: Any) -> None:
    columns = {"ts": [1, 2, 3, 4], "type": ["A", "A", "B", "B"], "k": pa.array([1, None, None, 1], pa.int64())}
    view = view_of(session, pa.table(columns))
    found = rows(session, statement(KEYED, view, {**ROLES, "bad_rows": "drop"}))
    assert [(row["match_start"], row["match_end"]) for row in found] == [(1, 4)]
    with pytest.raises(PythonException, match="key attribute 'k' is NULL"):
        rows(session, statement(KEYED, view, ROLES))


# --- a table among others ---------------------------------------------------------------------------------------------


def test_matches_are_joined_grouped_and_filtered_like_any_table(session: Any, events: str, table: pa.Table) -> None:
    session.sql("CREATE OR REPLACE TEMP VIEW names AS SELECT * FROM VALUES (0, 'zero'), (1, 'one'), (2, 'two') AS t(k, name)")
    text = f"{KEYED} RETURN a.k AS k, b.ts - a.ts AS span"
    sql = f"""
        WITH pairs AS ({statement(text, events, ROLES)})
        SELECT name, count(*) AS pairs, max(span) AS longest FROM pairs JOIN names USING (k) WHERE span > 1 GROUP BY name
    """
    found = {row["name"]: (row["pairs"], row["longest"]) for row in rows(session, sql)}
    spans: dict[str, list[int]] = {}
    for row in kleene.query(text).match(table, **ROLES).to_pylist():
        if row["k"] < 3 and row["span"] > 1:
            spans.setdefault(("zero", "one", "two")[row["k"]], []).append(row["span"])
    assert found == {name: (len(own), max(own)) for name, own in spans.items()}
    assert len(found) == 3


def test_several_queries_in_one_statement(session: Any, events: str, table: pa.Table) -> None:
    texts = [f"PATTERN SEQ({first} a, {second} b) WHERE [k] WITHIN 10 RETURN a.k AS k" for first, second in ("AB", "BC", "CA")]
    calls = [statement(text, events, ROLES).replace("*", "k, match_id") for text in texts]
    found = rows(session, " UNION ALL ".join(calls))
    wanted = [row for text in texts for row in kleene.query(text).match(table, **ROLES).select(["k", "match_id"]).to_pylist()]
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))


def test_views_and_subqueries_are_tables(session: Any, events: str, table: pa.Table) -> None:
    early = table.filter(pa.compute.less(table.column("ts"), 60))
    wanted = in_order(kleene.query(KEYED).match(early, **ROLES).to_pylist())
    call = statement(KEYED, f"SELECT * FROM {events} WHERE ts < 60", ROLES)
    session.sql(f"CREATE OR REPLACE TEMP VIEW found AS {call}")
    assert in_order(rows(session, "SELECT * FROM found")) == wanted
    assert wanted
    matched_again = "PATTERN SEQ(E a, E b) WHERE a.k = b.k WITHIN 5 RETURN a.start AS first, b.start AS second"
    composed = statement(matched_again, "SELECT match_start AS start, match_end AS ts, a.k AS k FROM found", {"time": "ts"})
    starts = pa.table(
        {
            "start": [row["match_start"] for row in wanted],
            "ts": [row["match_end"] for row in wanted],
            "k": [row["a"]["k"] for row in wanted],
        }
    )
    assert in_order(rows(session, composed)) == in_order(kleene.query(matched_again).match(starts, time="ts").to_pylist())


def test_the_query_may_be_a_parameter_of_the_statement(session: Any, events: str, table: pa.Table) -> None:
    sql = f"SELECT * FROM kleene_match(TABLE({events}), :query, time => :time, type => 'type')"
    found = session.sql(sql, {"query": KEYED, "time": "ts"}).toArrow().to_pylist()
    assert in_order(found) == in_order(kleene.query(KEYED).match(table, **ROLES).to_pylist())


def test_params_limits_and_compressed_output(session: Any, events: str, table: pa.Table) -> None:
    text = "PATTERN SEQ(A a, B b) WHERE [k] AND a.x >= low AND b.kind IN kinds WITHIN 30"
    params = {"low": 2, "kinds": [1, 3]}
    wanted = in_order(kleene.query(text).match(table, params=params, **ROLES).to_pylist())
    assert in_order(rows(session, statement(text, events, {**ROLES, "params": params}))) == wanted
    assert wanted
    kleene_plus = "PATTERN SEQ(A a, B+ b[]) WHERE [k] WITHIN 12"
    packed = session.sql(statement(kleene_plus, events, {**ROLES, "output": "compressed"}))
    counted = kleene.query(kleene_plus).match(table, **ROLES).num_rows
    assert kleene.count(packed.toArrow()) == counted
    with pytest.raises(PythonException, match="LimitError"):
        rows(session, statement(kleene_plus, events, {**ROLES, "limits": {"matches": 1}}))


def test_another_name_for_the_function(session: Any, events: str, table: pa.Table) -> None:
    kleene.register(session, "find_pattern")
    found = rows(session, statement(KEYED, events, ROLES, "find_pattern"))
    assert len(found) == kleene.query(KEYED).match(table, **ROLES).num_rows


def test_only_needed_columns_travel_as_arrow_batches_by_a_hash_of_the_keys(session: Any, events: str) -> None:
    found = session.sql(statement(f"{KEYED} RETURN a.ts AS t", events, ROLES))
    plan = str(found._jdf.queryExecution().executedPlan().toString())
    assert "ArrowEvalPythonUDTF" in plan
    assert "hashpartitioning(partition_by_0" in plan
    assert "pmod(xxhash64(k" in plan
    sent = next(line for line in plan.splitlines() if "named_struct" in line)
    assert "ts" in sent
    assert "struct#" not in sent
    assert "list#" not in sent


# --- what is refused --------------------------------------------------------------------------------------------------


def refusal(session: Any, sql: str) -> str:
    with pytest.raises(AnalysisException) as raised:
        session.sql(sql).collect()
    return str(raised.value)


def test_a_wrong_query_is_an_analysis_error_with_the_place(session: Any, events: str) -> None:
    text = refusal(session, statement("PATTERN SEQ(A a, B b)\nWHERE a.x <", events, ROLES))
    assert "QuerySyntaxError" in text
    assert "line 2" in text
    assert "\n  WHERE a.x <\n" in text
    assert "scanner.py" not in text


def test_a_missing_column_is_an_analysis_error(session: Any, events: str) -> None:
    text = refusal(session, statement(KEYED, events, {"time": "tsx", "type": "type"}))
    assert "time column 'tsx' is not a column of the events" in text
    assert "hint: did you mean 'ts'?" in text


@pytest.mark.parametrize(
    "clause", ["PARTITION BY (k)", "PARTITION BY (k, ts)", "PARTITION BY (k) ORDER BY (x)", "WITH SINGLE PARTITION"]
)
def test_the_query_alone_says_how_rows_are_distributed(clause: str, session: Any, events: str) -> None:
    """What a statement says could be finer than what matches need, and the answer wrong: Spark refuses it."""
    sql = statement(KEYED, events, ROLES).replace(f"TABLE({events})", f"TABLE({events}) {clause}")
    text = refusal(session, sql)
    assert "TABLE_VALUED_FUNCTION_REQUIRED_METADATA_INCOMPATIBLE_WITH_CALL" in text
    assert "kleene_match" in text


def test_what_is_no_table_or_no_constant(session: Any, events: str) -> None:
    assert "the events are no TABLE argument" in refusal(session, f"SELECT * FROM kleene_match('{events}', '{KEYED}', 'ts')")
    lateral = f"SELECT * FROM {events} AS e, LATERAL kleene_match(TABLE({events}), e.s, time => 'ts', type => 'type')"
    assert "argument 'query' is not a constant" in refusal(session, lateral)


# --- Spark Connect ----------------------------------------------------------------------------------------------------


def test_connect(tmp_path: Path) -> None:
    """In a process of its own: a Connect session cannot live in one with a classic session."""
    hidden = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= ELSEWHERE
    environment["PYSPARK_PYTHON"] = sys.executable  # what runs the workers is for the server to say
    queries = ["keyed", "without a key", "returns", "order_by", "declared", "time arithmetic", "functions of several events"]
    asked = [*(connect_run.name_of(case) for case in CASES[:: EVERY * 4]), *queries]
    done = subprocess.run(
        [sys.executable, str(Path(sql_calls.__file__))],
        env=environment,
        cwd=tmp_path,
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    report = json.loads(done.stdout[done.stdout.index("{") :])
    assert "connect" in report.pop("session")
    assert report == {name: [] for name in asked}


# --- time zones -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_the_zone_of_the_session_changes_no_match(session: Any, zone: str) -> None:
    """Around the hour that daylight saving repeats in New York: 01:30 comes twice, an hour apart."""
    moments = [datetime(2026, 11, 1, hour, 30, tzinfo=UTC) for hour in (4, 5, 6, 7)]
    columns = {"ts": pa.array(moments, pa.timestamp("us", "UTC")), "type": ["A", "B", "A", "B"], "k": [1, 1, 1, 1]}
    query = "PATTERN SEQ(A a, B b) WHERE [k] WITHIN 90 minutes RETURN a.ts AS first, b.ts AS second"
    wanted = kleene.query(query).match(pa.table(columns), **ROLES)
    before = session.conf.get("spark.sql.session.timeZone")
    try:
        session.conf.set("spark.sql.session.timeZone", zone)
        frame = frame_of(session, pa.table(columns))
        frame.createOrReplaceTempView("moments")
        call = f"SELECT * FROM kleene_match(TABLE(moments), '{query}', time => 'ts', type => 'type')"
        for found in (session.sql(call), kleene.query(query).match(frame, **ROLES)):
            assert instants(found.toArrow()) == instants(wanted)
    finally:
        session.conf.set("spark.sql.session.timeZone", before)
    assert len(wanted) == 2


def instants(matches: pa.Table) -> list[tuple[Any, ...]]:
    """Ids and moments of matches, whatever the zone in which they are written."""
    names = ["match_id", "match_start", "match_end", "first", "second"]
    plain = [matches.column(name) for name in names[:1]]
    plain += [matches.column(name).cast(pa.timestamp("us", "UTC")) for name in names[1:]]
    return sorted(zip(*(column.to_pylist() for column in plain), strict=True))
