"""`kleene match`: formats, files, limits, Kleene variables, aggregates, and queries that read the events of others."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import kleene
from kleene.interfaces.cli import main
from kleene.interfaces.commands import demo, spark

SEQUENCE = "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 10"
ROLES = ["--time", "ts", "--type", "type"]
KLEENE = "PATTERN SEQ(A+ a[], B b) WITHIN 100"
PAIRS = "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 10 RETURN a.id AS id, b.ts - a.ts AS gap INTO Pair"
AFTER = "PATTERN SEQ(Pair p, B b) WHERE p.gap > 0 WITHIN 100"
EVENTS = pa.table({"ts": [1, 2, 3, 20], "type": ["A", "B", "B", "B"], "id": [7, 7, 8, 7]})
RISE = "PATTERN SEQ(A a, B b) WHERE a.id < b.id WITHIN 10"
SUMS = "PATTERN SEQ(A a, B b) GROUP BY id AGG COUNT, SUM(a.ts) AS total EMIT ON CHANGE WITHIN 10"
SUM_ROWS = [
    {"query": "query", "id": 7, "at": 2, "count": 1, "total": 1},
    {"query": "query", "id": 8, "at": 3, "count": 0, "total": None},
    {"query": "query", "id": 7, "at": 11, "count": 0, "total": None},
    {"query": "query", "id": 7, "at": 20, "count": 0, "total": None},
]


def test_match_writes_ndjson_when_nobody_reads(events: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["match", "-q", SEQUENCE, events, *ROLES, "--stats"]) == 0
    captured = capsysbinary.readouterr()
    (row,) = (json.loads(line) for line in captured.out.splitlines())
    assert (row["query"], row["a"]["ts"], row["b"]["ts"]) == ("query", 1, 2)
    assert b"4 events, 1 match," in captured.err


def test_match_several_files(events: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    more = tmp_path / "more.parquet"
    pq.write_table(pa.table({"ts": [21], "type": ["B"], "id": [7]}), more)
    assert main(["match", "-q", SEQUENCE.replace("10", "100"), events, str(more), *ROLES]) == 0
    assert len(capsysbinary.readouterr().out.splitlines()) == 3


def test_match_files_with_other_columns(events: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"ts": [1]}), other)
    assert main(["match", "-q", SEQUENCE, events, str(other), *ROLES]) == 1
    assert "other columns" in capsys.readouterr().err


def test_match_shows_a_table(events: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["match", "-q", SEQUENCE.replace("10", "100"), events, *ROLES, "--format", "table"]
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert "match_start" in out
    assert "id=7" in out
    assert "more" not in out


def test_match_counts_what_a_table_leaves_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "many.parquet"
    pq.write_table(pa.table({"ts": range(30), "type": ["A"] + ["B"] * 29, "id": [7] * 30}), path)
    assert main(["match", "-q", SEQUENCE.replace("10", "100"), str(path), *ROLES, "--format", "table"]) == 0
    captured = capsys.readouterr()
    assert "... and 9 more" in captured.out
    assert "30 events, 29 matches" in captured.err


def test_match_events_out_of_order(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    path = tmp_path / "unsorted.parquet"
    pq.write_table(EVENTS.take([3, 1, 0, 2]), path)
    assert main(["match", "-q", SEQUENCE, str(path), *ROLES]) == 1
    assert b"not in time order" in capsysbinary.readouterr().err
    assert main(["match", "-q", SEQUENCE, str(path), *ROLES, "--unsorted"]) == 0
    assert len(capsysbinary.readouterr().out.splitlines()) == 1


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet", "arrow"])
def test_match_writes_files(suffix: str, events: str, tmp_path: Path) -> None:
    path = tmp_path / f"matches.{suffix}"
    assert main(["match", "-q", SEQUENCE, events, *ROLES, "-o", str(path)]) == 0
    assert path.stat().st_size > 0
    if suffix == "csv":
        assert pacsv.read_csv(path)["b.ts"].to_pylist() == [2]
    if suffix == "parquet":
        assert pq.read_table(path)["b"].to_pylist()[0]["ts"] == 2


def test_match_limit(events: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["match", "-q", SEQUENCE.replace("10", "100"), events, *ROLES, "--limit", "1"]) == 0
    assert len(capsysbinary.readouterr().out.splitlines()) == 1


def test_match_parameters(events: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    query = "PATTERN SEQ(A a, B b) WHERE [id] AND b.ts > low WITHIN 100"
    assert main(["match", "-q", query, events, *ROLES, "--param", "low=2"]) == 0
    assert [json.loads(line)["b"]["ts"] for line in capsysbinary.readouterr().out.splitlines()] == [20]


def test_match_quarantine(tmp_path: Path) -> None:
    path, bad = tmp_path / "events.parquet", tmp_path / "bad.parquet"
    pq.write_table(pa.table({"ts": [1, None, 2], "type": ["A", "B", "B"], "id": [7, 7, 7]}), path)
    argv = ["match", "-q", SEQUENCE, str(path), *ROLES, "-o", str(tmp_path / "m.parquet")]
    assert main(argv) == 1
    assert main([*argv, "--bad-rows", "quarantine", "--quarantine", str(bad)]) == 0
    assert pq.read_table(bad).num_rows == 1
    assert "reason" in pq.read_table(bad).schema.names


@pytest.mark.parametrize(
    ("name", "content"), [("e.csv", b"ts,type,id\n1,\xff\xfe,2\n"), ("e.parquet", b"PAR1 but not really"), ("e.xls", b"")]
)
def test_match_unreadable_files(name: str, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert main(["match", "-q", SEQUENCE, str(path), *ROLES]) == 1
    assert name in capsys.readouterr().err


def test_match_missing_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", "-q", SEQUENCE, "nowhere.parquet", *ROLES]) == 1
    assert "nowhere.parquet" in capsys.readouterr().err


def test_match_finds_the_planted_incidents(tmp_path: Path) -> None:
    day, truth = tmp_path / "day.parquet", tmp_path / "truth"
    assert main(["generate", "retail", "--events", "5000", "-o", str(day), "--truth", str(truth)]) == 0
    for name, variables in demo.QUERIES.items():
        found = tmp_path / f"{name}.parquet"
        roles = [*ROLES, "--schema", str(truth / "types.json")]
        assert main(["match", "-q", demo.query_text(name), str(day), *roles, "-o", str(found)]) == 0
        expected = pq.read_table(truth / f"{name}-truth.parquet")
        assert demo.compare(pq.read_table(found), expected, variables) == ([], [])


# Kleene plus: tables, compressed output, limits.


@pytest.fixture
def repeated(tmp_path: Path) -> str:
    path = tmp_path / "repeated.parquet"
    pq.write_table(pa.table({"ts": range(6), "type": ["A"] * 5 + ["B"], "id": [7] * 6}), path)
    return str(path)


def test_match_shows_the_events_of_kleene_variables(repeated: str, capsys: pytest.CaptureFixture[str]) -> None:
    query = "PATTERN SEQ(A+ a[], B b) WHERE skip_till_next_match { a[1].ts = 0 }"
    assert main(["match", "-q", query, repeated, *ROLES, "--format", "table", "--limit", "1"]) == 0
    out = capsys.readouterr().out
    assert all(text in out for text in ("5 events", "ts=0 type=A id=7", "ts=1 type=A id=7", "...", "ts=4 type=A id=7"))
    assert "ts=2" not in out


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_match_writes_compressed_rows(suffix: str, repeated: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"matches.{suffix}"
    assert main(["match", "-q", KLEENE, repeated, *ROLES, "--compressed", "-o", str(path), "--stats"]) == 0
    captured = capsys.readouterr()
    assert "6 events, 31 matches in 1 row," in captured.err
    assert all(f"  {name}: " in captured.err for name in ("merged", "peak_runs", "buffered"))
    assert ": 0\n" not in captured.err
    table = pq.read_table(path) if suffix == "parquet" else pa.ipc.open_file(path).read_all()
    assert kleene.count(table) == kleene.expand(table).num_rows == 31


def test_match_forced_algorithm(repeated: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("merging", "basic", "backtrack"):
        argv = [KLEENE, repeated, *ROLES, "--plan", f"algorithm={name}"]
        assert main(["match", "-q", *argv, "--format", "csv"]) == 0
        assert "31 matches" in capsys.readouterr().err
        assert main(["explain", "-q", *argv]) == 0


def test_match_in_a_forced_order(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["match", "-q", RISE, typed, *ROLES, "--format", "csv", "--stats"]
    counted = {}
    for order in ("a,b", "b,a"):
        assert main([*argv, "--plan", "mechanism=chain", "--plan", f"order={order}"]) == 0
        err = capsys.readouterr().err
        assert "103 events, 1 match," in err
        counted[order] = dict(line.strip().split(": ") for line in err.splitlines()[1:])
    assert counted["a,b"]["peak_buffered"] == counted["b,a"]["peak_buffered"] == "10"
    assert counted["a,b"]["evaluations"] == "118", "101 A, then 9 pairs with the first B and 8 with the second"
    assert counted["b,a"]["evaluations"] == "19", "2 B, then the same pairs"
    assert counted["a,b"]["peak_instances"] == "10"
    assert "peak_instances" not in counted["b,a"]
    assert main([*argv, "--plan", "order=b+x"]) == 1
    assert "'x' in the plan's order is no positive component" in capsys.readouterr().err


def test_match_limits(repeated: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["match", "-q", KLEENE, repeated, *ROLES, "--format", "csv"]
    assert main([*argv, "--limit-matches", "10"]) == 1
    assert "more than 10 matches" in capsys.readouterr().err
    for policy in ("keep-newest", "sample"):
        assert main([*argv, "--limit-matches", "10", "--at-limit", policy]) == 0
        err = capsys.readouterr().err
        assert "6 events, 10 matches," in err
        assert "warning: 21 matches were let go of at the limits" in err
    assert main([*argv, "--limit-runs", "2", "--at-limit", "keep-newest", "--plan", "algorithm=basic"]) == 0
    assert " runs were let go of" in capsys.readouterr().err
    assert main([*argv, "--limits", "total=20", "--limits", "memory=1000000,partials=1000"]) == 1
    assert "has 31 matches; the limit is 20" in capsys.readouterr().err
    assert main([*argv, "--limit-runs", "0"]) == 1
    assert "positive number" in capsys.readouterr().err


def test_match_ties(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tied.csv"
    path.write_text("ts,type,id\n1,A,7\n1,B,7\n", encoding="utf-8")
    argv = ["match", "-q", "PATTERN SEQ(A a, B b) WHERE skip_till_next_match { }", str(path), *ROLES]
    assert main(argv) == 1
    assert "order_by" in capsys.readouterr().err
    assert main([*argv, "--ties", "arrival", "--format", "csv"]) == 0
    assert "1 match," in capsys.readouterr().err


def test_match_with_other_queries(events: str, pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["match", "-q", AFTER, events, *ROLES, "--with", pairs]
    assert main([*argv, "--format", "ndjson"]) == 0
    captured = capsys.readouterr()
    rows = [json.loads(line) for line in captured.out.splitlines()]
    assert sorted((row["p"]["ts"], row["p"]["gap"], row["b"]["ts"]) for row in rows) == [(2, 1, 3), (2, 1, 20)]
    assert "4 events, 2 matches," in captured.err
    assert main([*argv, "--compressed", "-o", str(tmp_path / "m.parquet")]) == 0
    assert "4 events, 2 matches in " in capsys.readouterr().err


def test_match_with_other_queries_sets_rows_aside(pairs: str, tmp_path: Path) -> None:
    path, bad = tmp_path / "events.parquet", tmp_path / "bad.parquet"
    pq.write_table(pa.table({"ts": [1, 2, 3, 4], "type": ["A", "A", "B", "B"], "id": [7, None, 7, 8]}), path)
    argv = ["match", "-q", AFTER, str(path), *ROLES, "--with", pairs, "-o", str(tmp_path / "m.parquet")]
    assert main(argv) == 1
    assert main([*argv, "--bad-rows", "quarantine", "--quarantine", str(bad)]) == 0
    assert pq.read_table(bad)["ts"].to_pylist() == [2]


@pytest.mark.parametrize(
    ("query", "other", "code", "message"),
    [
        (AFTER, SEQUENCE, 2, "'other' has no RETURN ... INTO"),
        (SEQUENCE, PAIRS, 2, "'other' makes events of type 'Pair', which 'query' does not read"),
        (f"{AFTER} RETURN b.id AS id INTO A", PAIRS, 1, "in a circle"),
    ],
)
def test_other_queries_must_help(
    query: str, other: str, code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.sase"
    path.write_text(other, encoding="utf-8")
    assert main(["check", "-q", query, "--with", str(path)]) == code
    assert message in capsys.readouterr().err


# Aggregates.


@pytest.mark.parametrize(
    "plan", ["mechanism=aggregate", "mechanism=counters,window=stacks", "window=marking", "mechanism=matches"]
)
@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet", "arrow"])
def test_match_writes_aggregates(
    suffix: str, plan: str, events: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"rows.{suffix}"
    assert main(["match", "-q", SUMS, events, *ROLES, "--plan", plan, "-o", str(path)]) == 0
    assert capsys.readouterr().err.startswith("4 events, 4 rows, ")
    if suffix == "ndjson":
        found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    elif suffix == "arrow":
        found = pa.ipc.open_file(path).read_all().to_pylist()
    else:
        found = (pacsv.read_csv(path) if suffix == "csv" else pq.read_table(path)).to_pylist()
    assert found == SUM_ROWS


def test_match_shows_aggregates(events: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", "-q", SUMS, events, *ROLES, "--format", "table", "--limit", "1"]) == 0
    captured = capsys.readouterr()
    assert [cell.strip() for cell in captured.out.splitlines()[1].split("┃")[1:-1]] == ["id", "at", "count", "total"]
    assert [cell.strip() for cell in captured.out.splitlines()[3].split("│")[1:-1]] == ["7", "2", "1", "1"]
    assert captured.err.startswith("4 events, 1 row, ")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--compressed", "-o", "rows.parquet"], "AGG has a row for each trigger"),
        (["--plan", "window=stack"], "plan option 'window' cannot be 'stack'"),
    ],
)
def test_match_refuses_what_aggregates_do_not_have(
    argv: list[str], message: str, events: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["match", "-q", SUMS, events, *ROLES, *argv]) == 1
    assert message in capsys.readouterr().err


def test_match_aggregates_over_events_of_other_queries(
    events: str, pairs: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    query = "PATTERN SEQ(Pair p, B b) AGG COUNT, MAX(p.gap) AS longest WITHIN 100"
    assert main(["match", "-q", query, events, *ROLES, "--with", pairs]) == 0
    rows = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    assert [(row["at"], row["count"], row["longest"]) for row in rows] == [(2, 0, None), (3, 1, 1), (20, 2, 1)]


@pytest.mark.spark
def test_match_on_spark(events: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["match", "-q", SEQUENCE, events, *ROLES, "--engine", "spark", "--master", "local[2]"]) == 0
    (row,) = (json.loads(line) for line in capsysbinary.readouterr().out.splitlines())
    assert (row["a"]["ts"], row["b"]["ts"]) == (1, 2)


@pytest.mark.spark
def test_match_aggregates_on_spark(events: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["match", "-q", SUMS, events, *ROLES, "--engine", "spark", "--master", "local[2]"]) == 0
    captured = capsysbinary.readouterr()
    assert sorted((json.loads(line) for line in captured.out.splitlines()), key=lambda row: row["at"]) == SUM_ROWS
    assert b"4 events, 4 rows, " in captured.err


@pytest.mark.spark
def test_match_with_other_queries_on_spark(events: str, pairs: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    argv = ["match", "-q", AFTER, events, *ROLES, "--with", pairs, "--engine", "spark", "--master", "local[2]"]
    assert main(argv) == 0
    rows = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    assert sorted((row["p"]["ts"], row["b"]["ts"]) for row in rows) == [(2, 3), (2, 20)]


@pytest.mark.spark
def test_a_running_session_is_left_running_on_spark(events: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    with spark.session("local[2]") as session:
        assert main(["match", "-q", SEQUENCE, events, *ROLES, "--engine", "spark"]) == 0
        assert session.range(3).count() == 3
