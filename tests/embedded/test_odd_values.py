"""Values at the ends of what the language can hold: units of time, remainders, infinities, encodings, text that is none.

Each has its answer by every mechanism, the one that the oracle gives, or is refused with an error of ours.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import kleene
from kleene.common.schema import schema_of_arrow
from kleene.language.parser import parse
from kleene.pattern.bind import bind
from kleene.pattern.predicates import Literal
from kleene.pattern.terms import var
from kleene.testing import oracle

PAIR = "PATTERN SEQ(A a, B b)"
PLANS: list[Any] = [None, "basic", *({"mechanism": name} for name in ("sequence", "chain", "tree", "nfa"))]
every_plan = pytest.mark.parametrize("plan", PLANS, ids=str)
SMALLEST = -(2**63)


def match(query: str, events: Any, **options: Any) -> pa.Table:
    return kleene.query(query).match(events, time="ts", type="type", **options)


def holds(condition: str, events: pa.Table, plan: Any = None, **params: Any) -> bool:
    """Whether a condition holds for the only pair of events, by a plan and by the oracle, who must agree."""
    found = match(f"{PAIR} WHERE {condition}", events, plan=plan, params=params).num_rows == 1
    schema = schema_of_arrow(events.schema, time="ts", type="type")
    bound = bind(parse(f"{PAIR} WHERE {condition}"), schema, params=params)
    assert found == (len(oracle.matches(bound, events.to_pylist())) == 1), condition
    return found


def pair(**columns: Any) -> pa.Table:
    return pa.table({"ts": [1, 2], "type": ["A", "B"], **columns})


# --- units of time ----------------------------------------------------------------------------------------------------

IDS = [-6964513779063310698, -4791860812750835893, -1161525150595843320, 4908122386832885821]
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def timed(unit: str, **columns: Any) -> pa.Table:
    times = pa.array([UNITS[unit] * second for second in (-7, 1, 2, 3)], pa.timestamp(unit))
    return pa.table({"ts": times, "type": ["A", "A", "B", "B"], "d": times.cast(pa.int64()).cast(pa.duration(unit)), **columns})


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("query", [PAIR, "PATTERN SEQ(A a, B+ b[])", f"{PAIR} RETURN a.d AS d"])
def test_the_unit_of_a_time_is_no_part_of_an_id(query: str, nulls: bool) -> None:
    ids = {}
    for unit, factor in UNITS.items():
        seconds = [1, None if nulls else 2, 3, 4]
        values = pa.array([None if second is None else second * factor for second in seconds], pa.timestamp(unit, "UTC"))
        ids[unit] = sorted(match(query, timed(unit, v=values)).column("match_id").to_pylist())
    assert ids["s"] == ids["ms"] == ids["us"] == ids["ns"]
    assert len(set(ids["ns"])) == len(ids["ns"]) > 3


def test_ids_of_microseconds_stay() -> None:
    """Ids are kept by sinks: these are those of the first version."""
    assert sorted(match(PAIR, timed("us")).column("match_id").to_pylist()) == IDS


def test_nanoseconds_tell_matches_apart() -> None:
    times = pa.array([1_000, 1_001, 1_999, 2_000, 3_000], pa.timestamp("ns"))
    found = match(PAIR, pa.table({"ts": times, "type": [*"AAAAB"]}))
    assert len(set(found.column("match_id").to_pylist())) == 4


# --- remainders -------------------------------------------------------------------------------------------------------


@every_plan
@pytest.mark.parametrize(
    ("x", "y"),
    [(SMALLEST, 7), (7, SMALLEST), (-7, SMALLEST), (SMALLEST, -1), (SMALLEST, SMALLEST), (SMALLEST, -3), (-7, 2), (7, -2)],
)
def test_remainders_have_the_sign_of_the_dividend(x: int, y: int, plan: Any) -> None:
    remainder = int(math.copysign(1, x)) * (abs(x) % abs(y))
    events = pair(x=[x, x], y=[y, y], r=[remainder] * 2)
    assert holds("a.x % b.y = a.r", events, plan)
    assert not holds("a.x % b.y != a.r", events, plan)
    (row,) = match(f"{PAIR} RETURN a.x % b.y AS r", events, plan=plan).to_pylist()
    assert row["r"] == remainder


@every_plan
def test_remainders_of_the_smallest_integer_by_floats(plan: Any) -> None:
    events = pair(x=[SMALLEST, 0], y=[0.0, 3.0])
    assert holds("a.x % b.y = -2.0", events, plan)


# --- infinities and NaN -----------------------------------------------------------------------------------------------


@every_plan
@pytest.mark.parametrize("kind", [pa.int64(), pa.float64()])
def test_infinities_and_nan_are_numbers(kind: pa.DataType, plan: Any) -> None:
    events = pair(x=pa.array([1, 2], kind))
    assert holds("a.x + b.x < 1e309", events, plan)
    assert holds("a.x + b.x > -1e309", events, plan)
    for value, less in ((math.inf, True), (-math.inf, False), (math.nan, False)):
        assert holds("a.x + b.x < p", events, plan, p=value) is less
        assert holds("a.x < p", events, plan, p=value) is less
        assert holds("a.x + b.x != p", events, plan, p=value)
        assert not holds("a.x + b.x IN (p, 7)", events, plan, p=value)


def test_nan_is_one_constant() -> None:
    assert Literal(math.nan) == Literal(float("nan")) != Literal(1.0)
    assert hash(Literal(math.nan)) == hash(Literal(float("nan")))


def test_infinities_and_nan_in_every_entrance() -> None:
    events = pair(x=[1.0, math.inf])
    for value in (math.inf, -math.inf, math.nan):
        asked = entrances("PATTERN SEQ(A a, B b) WHERE a.x + b.x != p AND b.x < 1e309 OR a.x < p", events, params={"p": value})
        assert len(asked[0]) == (value == math.inf)


# --- encodings --------------------------------------------------------------------------------------------------------


def with_nulls(*values: Any, kind: pa.DataType | None = None) -> pa.DictionaryArray:
    """A dictionary that has NULL among its values, and each of these values once."""
    known = [value for value in dict.fromkeys(values) if value is not None]
    places = [known.index(value) + 1 if value is not None else 0 for value in values]
    return pa.DictionaryArray.from_arrays(pa.array(places, pa.int8()), pa.array([None, *known], kind))


def with_run_ends(*values: Any) -> pa.Array:
    return pc.run_end_encode(pa.array(values))


def with_views(*values: Any) -> pa.Array:
    return pa.array(values, pa.string_view())


COLUMNS = {"ts": [1, 2, 3, 4, 5], "type": [*"AAABB"], "k": [1, 1, 2, 1, 2], "s": ["p", "p", None, "p", "q"]}
ENCODED = {
    "dictionaries": {name: with_nulls(*values) for name, values in COLUMNS.items()},
    "run ends": {name: with_run_ends(*values) for name, values in COLUMNS.items()},
    "views": {**COLUMNS, "s": with_views(*COLUMNS["s"]), "type": with_views(*COLUMNS["type"])},
    "dictionaries of views": {**COLUMNS, "s": with_views(*COLUMNS["s"]).dictionary_encode()},
}
ASKED = [
    PAIR,
    f"{PAIR} WHERE [k] AND a.s = b.s",
    f"{PAIR} WHERE [s]",
    f"{PAIR} WHERE skip_till_next_match(a, b) {{ [s] }}",
    f"{PAIR} WHERE a.s IS NULL OR b.k > a.k RETURN a.s AS s, b.k AS k",
    "PATTERN SEQ(A+ a[], B b) WHERE last(a[].s) = b.s RETURN a[].s AS list, max(a[].k) AS most",
    f"{PAIR} AGG COUNT, SUM(a.k), MIN(a.s) WITHIN 3",
    f"{PAIR} WHERE b.k >= a.k AGG COUNT, SUM(a.k), MAX(a.s)",
    f"{PAIR} GROUP BY s AGG COUNT",
]


def entrances(query: str, events: Any, **options: Any) -> list[Any]:
    """What every way of asking answers."""
    asked = kleene.query(query)
    given = {"time": "ts", "type": "type", **options}
    matched = plain_rows(asked.match(events, **given))
    found = [matched, plain_rows(asked.run(events, **given).matches)]
    found += [plain_rows(table) for table in kleene.workload({"one": asked, "two": asked}).match(events, **given).values()]
    assert str(asked.explain(events, **given))
    assert str(asked.explain(events, **given, analyze=True))
    found.append(str(asked.why_not(events, **given)))
    if not asked.logical.aggregates:
        found.append(len(asked.explore(events, **given).html()))
    return found


def plain_rows(table: pa.Table) -> list[str]:
    rows = [{name: value for name, value in row.items() if name not in ("query", "match_id")} for row in table.to_pylist()]
    return sorted(map(str, rows))


@pytest.mark.filterwarnings("ignore:.*bad rows")
@pytest.mark.parametrize("encoding", ENCODED)
@pytest.mark.parametrize("query", ASKED)
def test_encodings_change_nothing(query: str, encoding: str) -> None:
    plain = plain_rows(match(query, pa.table(COLUMNS), bad_rows="drop"))
    events = pa.table(ENCODED[encoding])
    for given in (events, events.to_reader(max_chunksize=2)):
        assert plain_rows(match(query, given, bad_rows="drop")) == plain


@pytest.mark.parametrize("encoding", ENCODED)
def test_encodings_in_every_entrance(encoding: str) -> None:
    query = f"{PAIR} WHERE [k] AND a.s = b.s"
    assert entrances(query, pa.table(ENCODED[encoding])) == entrances(query, pa.table(COLUMNS))


def test_encodings_keep_slices_and_carry_what_is_not_read() -> None:
    runs = with_run_ends(0, 0, 1, 1, 1, 2, None).slice(1, 5)
    nulls = with_nulls("x", "a", "b", None, "a", "c", "c").slice(1, 5)
    events = pa.table({"ts": [1, 2, 3, 4, 5], "type": [*"AABBB"], "r": runs, "d": nulls})
    found = match(f"{PAIR} WHERE a.r < b.r RETURN a.r AS r, b.r AS t, a.d AS d, b.d AS e", events)
    rows = sorted(f"{row['r']} {row['t']} {row['d']} {row['e']}" for row in found.to_pylist())
    assert rows == ["0 1 a None", "0 1 a a", "0 2 a c", "1 2 b c"]


def test_files_of_odd_encodings(tmp_path: Path) -> None:
    from kleene.interfaces.cli import main

    for name, columns in ENCODED.items():
        if name != "run ends":
            path, out = tmp_path / f"{name}.arrow", tmp_path / "out.ndjson"
            with pa.ipc.new_file(str(path), pa.table(columns).schema) as writer:
                writer.write_table(pa.table(columns))
            roles = ["--time", "ts", "--type", "type", "-o", str(out)]
            assert main(["match", "-q", f"{PAIR} WHERE [k]", str(path), *roles]) == 0
            assert len(out.read_text().splitlines()) == 3


# --- columns of nothing but NULL --------------------------------------------------------------------------------------

EXPRESSIONS = [
    "a.n = b.x", "NOT (a.n = 1)", "a.n IN (1, 2, 3, 4, 5)", "a.n BETWEEN 1 AND b.x", "a.n LIKE 'x%'", "upper(a.n) = 'X'",
    "sqrt(a.n) > b.x", "coalesce(a.n, 0) > 3", "-a.n < b.x", "a.n - b.n < 5 seconds", "a.n / b.x > 1", "a.n",
]  # fmt: skip


@every_plan
def test_conditions_on_a_column_of_null(plan: Any) -> None:
    events = pa.table({"ts": [1, 2, 3], "type": [*"AAB"], "x": [1, 2, 3], "n": pa.nulls(3)})
    assert match(f"{PAIR} WHERE {' OR '.join(EXPRESSIONS)} OR b.x - a.x = 1", events, plan=plan).num_rows == 1
    assert match(f"{PAIR} WHERE a.n IS NULL AND (b.n IS NULL OR b.x < a.x)", events, plan=plan).num_rows == 2


@pytest.mark.parametrize("window", ["", " WITHIN 2", " EMIT ON CHANGE WITHIN 2"])
@pytest.mark.parametrize("plan", [None, {"mechanism": "matches"}], ids=str)
@pytest.mark.parametrize("nulls", [pa.nulls(3), pa.DictionaryArray.from_arrays(pa.array([0, None, 0], pa.int8()), pa.nulls(1))])
def test_aggregates_of_a_column_of_null(nulls: pa.Array, plan: Any, window: str) -> None:
    events = pa.table({"ts": [1, 2, 3], "type": [*"AAB"], "n": nulls})
    items = "COUNT, SUM(a.n), AVG(a.n), MIN(a.n), MAX(b.n)"
    rows = match(f"{PAIR} AGG {items}{window}", events, plan=plan).to_pylist()
    assert [row["count"] for row in rows][:1] == [2 if not window else 1]
    assert {value for row in rows for name, value in row.items() if "_n" in name} == {None}
    assert match(f"{PAIR} AGG COUNT, SUM(a.n) HAVING sum_a_n > 1{window}", events, plan=plan).num_rows == 0
    lists = match("PATTERN SEQ(A+ a[], B b) RETURN a[].n AS n, sum(a[].n) AS s, count(a[].n) AS c, stddev(a[].n) AS d", events)
    assert {str(row["s"]) + str(row["c"]) + str(row["d"]) for row in lists.to_pylist()} == {"None0None"}


EMPTY = [
    PAIR, f"{PAIR} WITHIN 5", f"{PAIR} WITHIN 5 seconds", f"{PAIR} WITHIN 3 EVENTS",
    "PATTERN SEQ(A a, !(C c), B b) WHERE [k] AND a.s LIKE 'x%' AND b.ts - a.ts < 5 seconds AND year(a.ts) = 2026 WITHIN 1 hour",
    "PATTERN SEQ(A+ a[], B b) WHERE skip_till_next_match(a[], b) { [k] AND a[i].s > min(a[..i-1].s) } RETURN a[].k AS k",
    f"{PAIR} AGG COUNT, SUM(a.k), MIN(a.s), MAX(b.ts) WITHIN 5 minutes",
    f"{PAIR} WHERE a.k < b.k GROUP BY s AGG COUNT HAVING count > 3 EMIT ON CHANGE WITHIN 5 minutes",
    "PATTERN AND(A a, B b) WITHIN 1 hour OUTPUT NON-OVERLAP",
]  # fmt: skip


@pytest.mark.parametrize("query", EMPTY)
def test_an_empty_frame_has_no_matches(query: str) -> None:
    """Its columns are of no type that Arrow knows; the same for all rows of a table without a time."""
    for events in (pd.DataFrame(columns=[*COLUMNS]), pd.DataFrame({name: [] for name in COLUMNS})):
        assert match(query, events).num_rows == 0
        assert match(query, events, order_by="s").num_rows == 0
    nulls = pa.table({name: pa.nulls(2) for name in COLUMNS})
    assert match(query, nulls, bad_rows="drop").num_rows == 0
    with pytest.raises(kleene.DataError, match="bad row"):
        match(query, nulls)


def test_an_empty_frame_in_every_entrance() -> None:
    for clauses in ("WHERE [k] AND a.s != b.s", "GROUP BY s AGG COUNT, SUM(a.k)"):
        assert not any(entrances(f"{PAIR} {clauses} WITHIN 5 seconds", pd.DataFrame(columns=[*COLUMNS]))[:4])


def test_an_empty_text_file_has_no_matches(tmp_path: Path) -> None:
    from kleene.interfaces.cli import main

    (tmp_path / "empty.csv").write_text("ts,type,k\n")
    roles = ["--time", "ts", "--type", "type", "-o", str(tmp_path / "out.ndjson")]
    assert main(["match", "-q", f"{PAIR} WHERE [k] WITHIN 5 seconds", str(tmp_path / "empty.csv"), *roles]) == 0
    assert (tmp_path / "out.ndjson").read_text() == ""


# --- text that is none ------------------------------------------------------------------------------------------------

HALF = "\ud800"


@pytest.mark.parametrize(
    "text",
    [
        f"PATTERN A a WHERE a.s = '{HALF}'", f"PATTERN SEQ(A a, B b) WHERE b.s > concat(a.s, '{HALF}')", f"PATTERN A `{HALF}`",
        f"PATTERN `{HALF}` a", f"PATTERN A a WHERE a.s LIKE '{HALF}%'", f"PATTERN A a WHERE [s = '{HALF}']",
        f"PATTERN A a RETURN a.s AS `{HALF}`", f"PATTERN A a RETURN a.s INTO `{HALF}`", f"PATTERN A a AGG COUNT AS `{HALF}`",
        f"PATTERN A a WHERE a.s IN ('a', 'b', 'c', '{HALF}')", f"PATTERN A a WHERE a.`{HALF}` = 1",
    ],
)  # fmt: skip
def test_half_characters_in_a_query_are_refused(text: str) -> None:
    with pytest.raises(kleene.KleeneError, match="lone surrogate") as raised:
        kleene.query(text)
    str(raised.value).encode()


def test_half_characters_beside_a_query_are_refused() -> None:
    events = pair(s=["a", "b"])
    params = {"p": HALF, "q": ["a", HALF]}
    for text in ("PATTERN A a WHERE a.s = p", "PATTERN A a WHERE a.s IN q"):
        with pytest.raises(kleene.BindingError, match="lone surrogate"):
            match(text, events, params=params)
    with pytest.raises(kleene.BindingError, match="lone surrogate"):
        match("PATTERN A a", events, schema={HALF: ["s"], "A": ["s"]})
    for name in (lambda: kleene.query(PAIR, name=HALF), lambda: kleene.workload({HALF: PAIR}), lambda: var("a").s == HALF):
        with pytest.raises(kleene.BindingError, match="lone surrogate"):
            name()
    for options in ({"key": HALF}, {"since": HALF}):
        with pytest.raises(kleene.BindingError):
            kleene.query(f"{PAIR} WHERE [s]").why_not(events, time="ts", type="type", **options)
    with pytest.raises(kleene.DataError):
        match(PAIR, pd.DataFrame({"ts": [1], "type": ["A"], "s": [HALF]}))
    assert match(f"{PAIR} -- {HALF}", events).num_rows == 1


# --- nanoseconds on their way to and from Spark -----------------------------------------------------------------------


def test_spark_and_nanoseconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Spark has no type for them: Parquet files that have some are refused before it starts, and written with a note."""
    from kleene.interfaces.cli import main
    from kleene.interfaces.commands.spark import require_microseconds

    for unit in ("ns", "us"):
        pq.write_table(timed(unit).drop_columns(["d"]), tmp_path / f"{unit}.parquet")
        out = tmp_path / f"{unit}-out.parquet"
        roles = ["--time", "ts", "--type", "type", "-o", str(out)]
        assert main(["match", "-q", PAIR, str(tmp_path / f"{unit}.parquet"), *roles]) == 0
        assert ("Spark cannot read" in capsys.readouterr().err) == (unit == "ns")
    require_microseconds([str(tmp_path / "us.parquet"), str(tmp_path / "us-out.parquet")])
    for name, column in (("ns.parquet", "'ts'"), ("ns-out.parquet", "'match_start', 'match_end', 'a', 'b'")):
        with pytest.raises(kleene.DataError, match=f"has nanoseconds in {column}, which Spark cannot read"):
            require_microseconds([str(tmp_path / "us.parquet"), str(tmp_path / name)])


@every_plan
def test_lists_of_constants_compare_as_equality_does(plan: Any) -> None:
    events = pair(x=[-0.0, 1.0], n=[3, 2**53 + 1])
    assert holds("a.x IN (0.0, 5.0, 6.0, 7.0)", events, plan)
    assert holds("a.x * b.x IN (0.0, 5.0, 6.0, 7.0)", events, plan)
    assert holds("a.n IN (1, 2, 3.0, 4)", events, plan)
    assert holds("b.n IN (1.5, 2.5, 3.5, 9007199254740992.0)", events, plan)
    assert not holds("b.n IN (1, 2, 3, 9007199254740992)", events, plan)
