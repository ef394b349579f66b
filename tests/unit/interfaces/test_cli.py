"""The `kleene` command: exit codes, help, errors, output formats; without a JVM except where marked."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import kleene
from kleene.generators import retail
from kleene.interfaces.cli import main
from kleene.interfaces.commands import COMMANDS, demo, display, output, spark
from kleene.interfaces.commands.arguments import UsageError, event_types, query_text, settings
from kleene.interfaces.commands.progress import Progress

SEQUENCE = "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 10"
COLUMNS = ["--columns", "ts:int,type:string,id:int", "--time", "ts", "--type", "type"]
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


@pytest.fixture
def events(tmp_path: Path) -> str:
    path = tmp_path / "events.parquet"
    pq.write_table(EVENTS, path)
    return str(path)


# Usage and help.


@pytest.mark.parametrize("argv", [["--help"], *([name, "--help"] for name in COMMANDS), ["generate", "sase", "--help"]])
def test_help(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 0
    assert capsys.readouterr().out.startswith("usage: kleene")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("kleene ")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "COMMAND"),
        (["frobnicate"], "invalid choice"),
        (["match", "query.sase", "--time", "ts"], "file of events is required"),
        (["match", "-q", SEQUENCE, "events.csv"], "--time"),
        (["match", "-q", SEQUENCE, "events.csv", *ROLES, "--limit", "many"], "expected a number"),
        (["match", "-q", SEQUENCE, "events.csv", *ROLES, "--param", "limit"], "NAME=VALUE"),
        (["match", "-q", SEQUENCE, "events.csv", *ROLES, "-o", "matches.xls"], "cannot tell the format"),
        (["match", "-q", SEQUENCE, "events.csv", *ROLES, "-o", "m.csv", "--format", "table"], "terminal"),
        (["match", "-q", SEQUENCE, "events.csv", *ROLES, "--quarantine", "bad.csv"], "--bad-rows quarantine"),
        (["match", "-q", KLEENE, "events.csv", *ROLES, "--compressed"], "give a Parquet or Arrow file"),
        (["match", "-q", KLEENE, "events.csv", *ROLES, "--compressed", "-o", "m.csv"], "give a Parquet or Arrow file"),
        (["match", "-q", KLEENE, "events.csv", *ROLES, "--limit-runs", "many"], "expected a number"),
        (["match", "-q", KLEENE, "events.csv", *ROLES, "--at-limit", "drop"], "invalid choice"),
        (["match", "-q", RISE, "events.csv", *ROLES, "--plan", "mechanism=chain,b"], "expected NAME=VALUE, found 'b'"),
        (["match", "-q", RISE, "events.csv", *ROLES, "--plan", "order=b++a"], "as order=c+a+b, found 'b++a'"),
        (["match", "-q", RISE, "events.csv", *ROLES, "--plan", "order="], "as order=c+a+b, found ''"),
        (["statistics", "query.sase", "--time", "ts"], "file of events is required"),
        (["statistics", "-q", RISE, "events.csv", *ROLES, "--fraction", "0.5"], "--engine spark"),
        (["statistics", "-q", RISE, "events.csv", *ROLES, "--fraction", "0"], "above 0 and at most 1, found '0'"),
        (["statistics", "-q", RISE, "events.csv", *ROLES, "--fraction", "half"], "above 0 and at most 1, found 'half'"),
        (["check"], "a query is required"),
        (["check", "query.sase", "-q", SEQUENCE], "not both"),
        (["check", "-q", SEQUENCE, "--columns", "ts:int"], "--time COLUMN is required"),
        (["check", "-q", SEQUENCE, "--columns", "ts:number", "--time", "ts"], "NAME:TYPE"),
        (["check", "-q", SEQUENCE, "--columns", "ts:int", "--events", "e.csv", "--time", "ts"], "not both"),
        (["check", SEQUENCE], "after -q"),
        (["explain", "-q", SEQUENCE, "--time", "ts"], "events or --columns"),
        (["explain", "--time", "ts"], "a query is required"),
        (["explain", "-q", SEQUENCE, "a.csv", "b.csv", "--time", "ts"], "one file"),
        (["generate", "sase"], "-o"),
        (["generate", "sase", "--values", "ten", "-o", "x.csv"], "numbers separated"),
        (["generate", "sase", "--types", "0", "-o", "x.csv"], "T must be"),
        (["generate", "stock", "--increase", "2", "-o", "x.csv"], "p must be"),
        (["generate", "retail", "--events", "10", "-o", "x.csv"], "events must be at least"),
        (["demo", "--events", "10"], "events must be at least"),
    ],
)
def test_wrong_usage_is_2(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_help_and_check_load_neither_spark_nor_numba() -> None:
    program = (
        "import sys; from kleene.interfaces.cli import main; code = main(sys.argv[1:]);"
        "heavy = {'pyspark', 'numba', 'pandas'} & set(sys.modules); assert not heavy, heavy; sys.exit(code)"
    )
    for argv in (["--help"], ["check", "-q", SEQUENCE, *COLUMNS]):
        done = subprocess.run([sys.executable, "-c", program, *argv], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_interrupt_is_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(COMMANDS["check"], "run", interrupted)
    assert main(["check", "-q", SEQUENCE]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_our_own_bugs_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(arguments: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(COMMANDS["check"], "run", broken)
    with pytest.raises(ZeroDivisionError):
        main(["check", "-q", SEQUENCE])


# Arguments.


def test_query_from_a_file_and_its_name(tmp_path: Path) -> None:
    path = tmp_path / "pairs.sase"
    path.write_text("\ufeff" + SEQUENCE, encoding="utf-8")
    assert query_text(None, str(path)) == ("pairs", SEQUENCE)


def test_query_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SEQUENCE.encode())))
    assert query_text(None, "-") == ("query", SEQUENCE)


def test_query_must_be_given() -> None:
    with pytest.raises(UsageError):
        query_text(None, None)


def test_query_file_that_is_not_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "query.sase"
    path.write_bytes(b"PATTERN \xff\xfe")
    assert main(["check", str(path)]) == 1
    assert "not UTF-8 text (byte 8 is 0xff)" in capsys.readouterr().err


def test_missing_query_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path / "none.sase")]) == 1
    assert "none.sase: No such file" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{", "[]", '{"A": "id"}', '{"A": [1]}'])
def test_types_file_is_checked(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "types.json"
    path.write_text(text, encoding="utf-8")
    assert main(["check", "-q", SEQUENCE, *COLUMNS, "--schema", str(path)]) == 1
    assert "types.json" in capsys.readouterr().err


def test_types_file(tmp_path: Path) -> None:
    path = tmp_path / "types.json"
    path.write_text('{"A": ["id"], "B": []}', encoding="utf-8")
    assert event_types(str(path)) == {"A": frozenset({"id"}), "B": frozenset()}


def test_plan_settings() -> None:
    assert settings("pushdown=false,depth=2") == {"pushdown": False, "depth": 2}
    for order in ("c+a+b", "c,a,b", "c + a, b"):
        assert settings(f"mechanism=chain,order={order},adaptive=true") == {
            "mechanism": "chain",
            "order": ["c", "a", "b"],
            "adaptive": True,
        }
    assert settings("order=true") == {"order": ["true"]}


# check.


def test_check_prints_the_query(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "-q", SEQUENCE]) == 0
    printed = capsys.readouterr().out
    assert "SEQ(A a, B b)" in printed
    assert main(["check", "-q", printed]) == 0
    assert capsys.readouterr().out == printed


def test_check_shows_where_a_query_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "-q", "PATTERN SEQ(A a, B b WITHIN 10"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert "^" in captured.err


def test_check_against_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "-q", SEQUENCE, *COLUMNS]) == 0
    assert main(["check", "-q", SEQUENCE.replace("[id]", "[idd]"), *COLUMNS]) == 1
    assert "did you mean 'id'?" in capsys.readouterr().err


def test_check_against_a_file(events: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "-q", SEQUENCE, "--events", events, *ROLES]) == 0
    assert main(["check", "-q", SEQUENCE, "--events", events, "--time", "tss"]) == 1
    assert "did you mean 'ts'?" in capsys.readouterr().err


@pytest.mark.parametrize("name", demo.QUERIES)
def test_check_the_packaged_queries(name: str, tmp_path: Path) -> None:
    columns = "seq:int,ts:timestamp,type:string,id:string,shelf_id:int,reader:string,category:string,manufacturer_id:int"
    types = tmp_path / "types.json"
    types.write_text(json.dumps(retail.ATTRIBUTES), encoding="utf-8")
    argv = ["check", "-q", demo.query_text(name), "--columns", columns, *ROLES, "--schema", str(types)]
    assert main(argv) == 0


# explain and match.


def test_explain_needs_no_events(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "-q", SEQUENCE, *COLUMNS]) == 0
    assert capsys.readouterr().out.strip()


def test_explain_a_file(events: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "-q", SEQUENCE, events, *ROLES]) == 0
    assert capsys.readouterr().out.strip()


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


@pytest.fixture
def typed(tmp_path: Path) -> str:
    """A hundred A, then a B, then an A and a B: only the last pair rises."""
    path = tmp_path / "typed.parquet"
    pq.write_table(pa.table({"ts": range(103), "type": ["A"] * 100 + ["B", "A", "B"], "id": [9] * 101 + [1, 2]}), path)
    return str(path)


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


# --with: queries that read the events of others.


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    path = tmp_path / "pairs.sase"
    path.write_text(PAIRS, encoding="utf-8")
    return str(path)


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


def test_explain_and_check_with_other_queries(pairs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "-q", AFTER, *COLUMNS, "--with", pairs]) == 0
    out = capsys.readouterr().out
    assert out.index("plan of 'pairs'") < out.index("plan of 'query'")
    assert main(["check", "-q", AFTER, *COLUMNS, "--with", pairs]) == 0
    assert capsys.readouterr().out.startswith("PATTERN SEQ(Pair p, B b)")
    assert main(["check", "-q", AFTER.replace("gap", "gape"), *COLUMNS, "--with", pairs]) == 1
    assert "query 'query': unknown attribute 'gape'" in capsys.readouterr().err


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


def test_check_and_explain_aggregates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "-q", SUMS, *COLUMNS]) == 0
    assert kleene.query(capsys.readouterr().out).logical == kleene.query(SUMS).logical
    assert main(["check", "-q", SUMS.replace("a.ts", "a.type"), *COLUMNS]) == 1
    assert "SUM cannot be taken of 'type', which is a string" in capsys.readouterr().err
    picture = tmp_path / "plan.svg"
    assert main(["explain", "-q", SUMS, *COLUMNS, "--svg", str(picture)]) == 0
    assert "AG  aggregation (no match is built)" in capsys.readouterr().out
    assert "prefix counters" in picture.read_text(encoding="utf-8")


def test_statistics_do_not_depend_on_what_is_made_of_matches(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for clauses in ("", "RETURN a.type AS kind", "AGG COUNT, MAX(a.type) AS last EMIT ON CHANGE"):
        assert main(["statistics", "-q", f"{RISE} {clauses}", typed, *ROLES]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1] == found[2]
    assert main(["statistics", "-q", f"{RISE} GROUP BY id AGG COUNT", typed, *ROLES]) == 0
    assert json.loads(capsys.readouterr().out)["same_partition"] < found[0]["same_partition"] == 1.0


# statistics.


def test_statistics_are_what_the_planner_takes(typed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "known.json"
    assert main(["statistics", "-q", RISE, typed, *ROLES]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("103 relevant events, ")
    found = json.loads(captured.out)
    assert found == kleene.statistics(kleene.query(RISE), pq.read_table(typed), time="ts", type="type").to_json()
    assert main(["statistics", "-q", RISE, typed, *ROLES, "-o", str(path)]) == 0
    assert capsys.readouterr().out == ""
    assert json.loads(path.read_text(encoding="utf-8")) == found
    assert main(["explain", "-q", RISE, *COLUMNS, "--statistics", str(path)]) == 0
    plan = capsys.readouterr().out
    assert "rate of b: 0.0194 per unit of time" in plan
    assert "CH  choice" in plan
    assert main(["match", "-q", RISE, typed, *ROLES, "--statistics", str(path), "--format", "csv"]) == 0
    assert "1 match," in capsys.readouterr().err


def test_statistics_of_several_files_out_of_order(typed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, halves = pq.read_table(typed), [str(tmp_path / name) for name in ("late.parquet", "early.parquet")]
    pq.write_table(table.slice(50), halves[0])
    pq.write_table(table.slice(0, 50), halves[1])
    assert main(["statistics", "-q", RISE, typed, *ROLES]) == 0
    whole = capsys.readouterr().out
    assert main(["statistics", "-q", RISE, *halves, *ROLES]) == 1
    assert "not in time order" in capsys.readouterr().err
    assert main(["statistics", "-q", RISE, *halves, *ROLES, "--unsorted"]) == 0
    assert capsys.readouterr().out == whole


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "known.json: not JSON"),
        ("[1]", "known.json: statistics are an object"),
        ('{"rates": {"x": 1}}', "a rate is given for 'x'"),
        ('{"rates": {"a": NaN}}', "the rate of 'a' must be a finite number"),
        ('{"selectivities": {"a.id > b.ts": 0.5}}', "no condition between events"),
    ],
)
@pytest.mark.parametrize("command", ["match", "explain"])
def test_statistics_files_are_checked(
    command: str, text: str, message: str, events: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "known.json"
    path.write_text(text, encoding="utf-8")
    assert main([command, "-q", RISE, events, *ROLES, "--statistics", str(path)]) == 1
    assert message in capsys.readouterr().err


def test_statistics_are_those_of_the_query_that_is_asked(
    events: str, pairs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "known.json"
    path.write_text('{"rates": {"p": 2, "b": 3}}', encoding="utf-8")
    argv = ["-q", AFTER, events, *ROLES, "--with", pairs, "--statistics", str(path)]
    assert main(["explain", *argv]) == 0
    plans = capsys.readouterr().out.split("plan of 'query'")
    assert ["rate of p: 2" in plan for plan in plans] == [False, True]
    assert main(["match", *argv, "--format", "csv"]) == 0
    assert "2 matches," in capsys.readouterr().err


# generate.


@pytest.mark.parametrize("kind", ["sase", "stock", "retail"])
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".ndjson", ".arrow", ""])
def test_generate(kind: str, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"events{suffix}"
    assert main(["generate", kind, "--events", "2000", "--seed", "3", "-o", str(path)]) == 0
    assert "2,000 events" in capsys.readouterr().err
    assert _rows(path) == 2_000


def test_generate_into_a_full_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert main(["generate", "sase", "--events", "10", "-o", str(tmp_path / "full")]) == 1
    assert "not empty" in capsys.readouterr().err


def test_generate_into_no_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "sase", "--events", "10", "-o", str(tmp_path / "none" / "x.csv")]) == 1
    assert "no such directory" in capsys.readouterr().err


def test_generate_truth(tmp_path: Path) -> None:
    assert main(["generate", "retail", "--events", "2000", "-o", str(tmp_path / "day.csv"), "--truth", str(tmp_path)]) == 0
    options = retail.RetailOptions(events=2_000)
    assert pq.read_table(tmp_path / "shoplifting-truth.parquet").equals(retail.truth(options).shoplifting)
    assert json.loads((tmp_path / "types.json").read_text(encoding="utf-8"))["EXIT-READING"] == list(
        retail.ATTRIBUTES["EXIT-READING"]
    )


def _rows(path: Path) -> int:
    if path.is_dir() or path.suffix == ".parquet":
        return int(pq.read_table(path).num_rows)
    if path.suffix == ".arrow":
        return int(pa.ipc.open_file(path).read_all().num_rows)
    return path.read_text(encoding="utf-8").count("\n") - (path.suffix == ".csv")


# Output.


def test_unfinished_files_leave_nothing_behind(tmp_path: Path) -> None:
    def failing() -> Any:
        yield pa.record_batch({"x": [1]})
        raise ZeroDivisionError

    path = tmp_path / "x.csv"
    with pytest.raises(ZeroDivisionError):
        output.write(failing(), pa.schema([("x", pa.int64())]), str(path), "csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_standard_output_is_whole(unbuffered: str) -> None:
    """A pipe takes a few kilobytes at a time; unbuffered, Python would write the first of them and drop the rest."""
    program = (
        "import sys, pyarrow as pa; from kleene.interfaces.commands import output;"
        "batch = pa.record_batch({'x': list(range(200_000))}); output.write([batch], batch.schema, None, 'ndjson')"
    )
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment, check=True)
    assert done.stdout.count(b"\n") == 200_000


def test_nested_values_as_csv_and_json(tmp_path: Path) -> None:
    table = pa.table({"a": [{"x": 1}], "b": [[{"y": float("nan")}]]})
    for name in ("t.csv", "t.ndjson"):
        output.write(table.to_batches(), table.schema, str(tmp_path / name), output.format_of(name))
    assert pacsv.read_csv(tmp_path / "t.csv").to_pylist() == [{"a.x": 1, "b": '[{"y": null}]'}]
    assert json.loads((tmp_path / "t.ndjson").read_text(encoding="utf-8")) == {"a": {"x": 1}, "b": [{"y": None}]}


def test_display_of_values() -> None:
    assert display.cell(None) == ""
    assert display.cell([]) == ""
    assert display.cell([1, None, 3]) == "1, , 3"
    assert display.cell([{"x": 1}]) == "1 event\nx=1"
    assert display.cell(retail.RetailOptions().opening) == "2006-06-27 06:00:00"


def test_progress_is_silent_unless_watched() -> None:
    unwatched = io.StringIO()
    with Progress("read", stream=unwatched) as progress:
        progress.add(5)
    assert (progress.rows, unwatched.getvalue()) == (5, "")


def test_progress_counts_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("kleene.interfaces.commands.progress._PATIENCE", 0.0)
    with Progress("read", total=10, stream=terminal) as progress:
        progress.add(5)
    assert "read 5 events (50%)" in terminal.getvalue()


# demo.


def test_demo_compares_with_the_truth() -> None:
    truth = retail.truth(retail.RetailOptions(shoplifting=2)).shoplifting
    rows = truth.to_pylist()
    found = pa.table(
        {
            "x": [{"id": row["id"], "ts": row["x_ts"]} for row in rows],
            "z": [{"id": row["id"], "ts": row["z_ts"]} for row in rows],
        }
    )
    assert demo.compare(found, truth, ("x", "z")) == ([], [])
    missing, unexpected = demo.compare(found.slice(1), truth, ("x", "z"))
    assert (len(missing), unexpected) == (1, [])
    missing, unexpected = demo.compare(found, truth.slice(1), ("x", "z"))
    assert (missing, len(unexpected)) == ([], 1)


def test_demo_spares_other_directories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").touch()
    assert main(["demo", "--data", str(tmp_path)]) == 1
    assert "holds other files" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").exists()


@pytest.mark.spark
def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "data"
    assert main(["demo", "--events", "5000", "--data", str(folder), "--master", "local[2]", "--keep"]) == 0
    assert capsys.readouterr().out.count("exactly these were found") == 2
    assert (folder / "events.parquet").exists()


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
def test_statistics_on_spark(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["statistics", "-q", RISE, typed, *ROLES]
    assert main(argv) == 0
    embedded = json.loads(capsys.readouterr().out)
    assert main([*argv, "--engine", "spark", "--master", "local[2]"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rates"], found["events"]) == (pytest.approx(embedded["rates"]), 103)


@pytest.mark.spark
def test_match_with_other_queries_on_spark(events: str, pairs: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    argv = ["match", "-q", AFTER, events, *ROLES, "--with", pairs, "--engine", "spark", "--master", "local[2]"]
    assert main(argv) == 0
    rows = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    assert sorted((row["p"]["ts"], row["b"]["ts"]) for row in rows) == [(2, 3), (2, 20)]


@pytest.mark.spark
def test_a_running_session_is_left_running(events: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    with spark.session("local[2]") as session:
        assert main(["match", "-q", SEQUENCE, events, *ROLES, "--engine", "spark"]) == 0
        assert session.range(3).count() == 3
