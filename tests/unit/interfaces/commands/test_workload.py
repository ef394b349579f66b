"""`kleene workload`: check, explain and match over the queries of a folder."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import kleene
from kleene.interfaces.cli import main
from kleene.interfaces.commands.workload import SearchLine
from kleene.interfaces.inputs import arrow_schema_of
from kleene.interfaces.workload.workload import Workload
from kleene.plan.multi.search import Progress

ROLES = ["--time", "ts", "--type", "type"]
COLUMNS = ["--columns", "ts:int,type:string,id:int", *ROLES]
EVENTS = pa.table({"ts": [1, 2, 3, 20], "type": ["A", "B", "B", "B"], "id": [7, 7, 8, 7]})
QUERIES = {
    "pairs": "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 10 RETURN a.id AS id, b.ts - a.ts AS gap INTO Pair",
    "after": "PATTERN SEQ(Pair p, B b) WHERE p.gap > 0 WITHIN 100",
    "none": "PATTERN SEQ(B b, A a) WITHIN 10",
    "sums": "PATTERN SEQ(A a, B b) AGG COUNT WITHIN 100",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "queries"
    path.mkdir()
    for name, text in QUERIES.items():
        (path / f"{name}.sase").write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def events(tmp_path: Path) -> str:
    path = tmp_path / "events.parquet"
    pq.write_table(EVENTS, path)
    return str(path)


# --- usage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["check", "explain", "match"])
def test_help(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", action, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: kleene workload {action} FOLDER ")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "ACTION"),
        (["frobnicate"], "invalid choice"),
        (["check"], "FOLDER"),
        (["check", "q", "--columns", "ts:int"], "--time COLUMN is required"),
        (["check", "q", "e.csv", *COLUMNS], "not both"),
        (["explain", "q", *ROLES], "events or --columns"),
        (["explain", "q", "e.csv"], "--time"),
        (["explain", "q", "e.csv", *ROLES, "--seconds", "long"], "expected a number of seconds, found 'long'"),
        (["explain", "q", "e.csv", *ROLES, "--seconds", "-1"], "expected"),
        (["match", "q", *ROLES], "EVENTS"),
        (["match", "q", "e.csv", *ROLES, "--format", "csv"], "--out DIR"),
        (["match", "q", "e.csv", *ROLES, "-o", "all.parquet"], "--out DIR writes a file for each"),
        (["match", "q", "e.csv", *ROLES, "--quarantine", "bad.csv"], "--bad-rows quarantine"),
    ],
)
def test_wrong_usage_is_2(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", *argv]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


# --- check ------------------------------------------------------------------------------------------------------------


def test_check(folder: Path, events: str, capsys: pytest.CaptureFixture[str]) -> None:
    for argv in ([], [events, *ROLES], COLUMNS):
        assert main(["workload", "check", str(folder), *argv]) == 0
        assert capsys.readouterr().out == "4 queries, no problems\n"
    assert main(["workload", "check", str(folder / "none.sase")]) == 0
    assert capsys.readouterr().out == "1 query, no problems\n"


def test_check_lists_what_is_no_query(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "none.sase").write_text("PATTERN SEQ(B b", encoding="utf-8")
    (folder / "sums.sase").write_text("PATTERN SEQ(A a, A a)", encoding="utf-8")
    assert main(["workload", "check", str(folder)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"{folder / 'none.sase'}: '(' is not closed at line 1, column 12" in captured.err
    assert f"{folder / 'sums.sase'}: variable 'a' is used twice" in captured.err


def test_check_lists_what_does_not_fit_the_events(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "none.sase").write_text("PATTERN SEQ(B b, A a) WHERE a.di = 1", encoding="utf-8")
    (folder / "after.sase").write_text(QUERIES["after"].replace("gap", "gape"), encoding="utf-8")
    assert main(["workload", "check", str(folder), *COLUMNS]) == 1
    err = capsys.readouterr().err
    assert f"{folder / 'none.sase'}: unknown attribute 'di' of 'a' (A) at line 1, column 29" in err
    assert "unknown attribute 'gape' of 'p' (Pair)" in err, "of the events that another query makes"
    (folder / "pairs.sase").write_text(QUERIES["pairs"].replace("[id]", "[idd]"), encoding="utf-8")
    assert main(["workload", "check", str(folder), *COLUMNS]) == 1
    err = capsys.readouterr().err
    assert "did you mean 'id'?" in err
    assert "after.sase" not in err, "what it reads is not known before 'pairs' is right"


def test_check_a_folder_without_queries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", "check", str(tmp_path)]) == 1
    assert "the folder has no .sase files" in capsys.readouterr().err


def test_check_loads_neither_spark_nor_numba(folder: Path) -> None:
    program = (
        "import sys; from kleene.interfaces.cli import main; code = main(sys.argv[1:]);"
        "heavy = {'pyspark', 'numba', 'pandas'} & set(sys.modules); assert not heavy, heavy; sys.exit(code)"
    )
    command = [sys.executable, "-c", program, "workload", "check", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# --- match ------------------------------------------------------------------------------------------------------------


def test_match_counts(folder: Path, events: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", "match", str(folder), events, *ROLES]) == 0
    captured = capsys.readouterr()
    assert captured.out == "after: 2 matches\nnone: 0 matches\npairs: 1 match\nsums: 3 rows\n"
    assert captured.err.startswith("4 events, 4 queries, 6 rows, ")


def test_match_writes_a_file_for_each_query(
    folder: Path, events: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "out"
    alone = kleene.workload(QUERIES).match(EVENTS, time="ts", type="type")
    for format in ("parquet", "csv", "ndjson", "arrow"):
        argv = [] if format == "parquet" else ["--format", format]
        assert main(["workload", "match", str(folder), events, *ROLES, "--out", str(out), *argv]) == 0
        assert f"pairs: 1 match, {out / 'pairs'}.{format}\n" in capsys.readouterr().out
        assert {path.stem for path in out.glob(f"*.{format}")} == set(QUERIES)
    for name, matches in alone.items():
        assert pq.read_table(out / f"{name}.parquet").equals(matches)
    assert pacsv.read_csv(out / "pairs.csv")["gap"].to_pylist() == [1]


def test_match_writes_one_labelled_file(folder: Path, events: str, tmp_path: Path) -> None:
    path = tmp_path / "all.ndjson"
    assert main(["workload", "match", str(folder), events, *ROLES, "-o", str(path)]) == 0
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [row["query"] for row in rows] == ["after"] * 2 + ["pairs"] + ["sums"] * 3
    assert rows[2]["gap"] == 1
    assert "gap" not in rows[3]


def test_match_events_out_of_order(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "unsorted.parquet"
    pq.write_table(EVENTS.take([3, 1, 0, 2]), path)
    assert main(["workload", "match", str(folder), str(path), *ROLES]) == 0
    assert "after: 2 matches\n" in capsys.readouterr().out


def test_match_bad_rows(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, bad = tmp_path / "bad-events.parquet", tmp_path / "bad.parquet"
    pq.write_table(pa.table({"ts": [1, 2, 3], "type": ["A", "B", "B"], "id": [7, None, 7]}), path)
    argv = ["workload", "match", str(folder), str(path), *ROLES]
    assert main(argv) == 1
    assert "query 'pairs'" in capsys.readouterr().err
    assert main([*argv, "--bad-rows", "drop"]) == 0
    assert "pairs: 1 match, 1 bad row\n" in capsys.readouterr().out
    assert main([*argv, "--bad-rows", "quarantine", "--quarantine", str(bad)]) == 0
    assert set(pq.read_table(bad)["ts"].to_pylist()) == {2}


def test_match_warns_of_limits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, query = tmp_path / "repeated.parquet", tmp_path / "runs.sase"
    pq.write_table(pa.table({"ts": range(6), "type": ["A"] * 5 + ["B"]}), path)
    query.write_text("PATTERN SEQ(A+ a[], B b) WITHIN 100", encoding="utf-8")
    argv = ["workload", "match", str(query), str(path), *ROLES, "--limit-matches", "10", "--at-limit", "sample"]
    assert main(argv) == 0
    assert "warning: query 'runs': 21 matches were let go of at the limits" in capsys.readouterr().err


def test_match_takes_functions_and_parameters(tmp_path: Path, events: str, capsys: pytest.CaptureFixture[str]) -> None:
    source, query = tmp_path / "own.py", tmp_path / "near.sase"
    source.write_text(
        "import kleene\nimport pyarrow.compute as pc\n\n@kleene.function\ndef gap(a, b):\n    return pc.subtract(b, a)\n",
        encoding="utf-8",
    )
    query.write_text("PATTERN SEQ(A a, B b) WHERE gap(a.ts, b.ts) > low WITHIN 100", encoding="utf-8")
    argv = ["workload", "match", str(query), events, *ROLES, "--functions", str(source), "--param", "low=1"]
    assert main(argv) == 0
    assert capsys.readouterr().out == "near: 2 matches\n"


@pytest.mark.spark
def test_match_on_spark(folder: Path, events: str, spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", "match", str(folder), events, *ROLES, "--engine", "spark"]) == 0
    assert capsys.readouterr().out == "after: 2 matches\nnone: 0 matches\npairs: 1 match\nsums: 3 rows\n"


# --- explain ----------------------------------------------------------------------------------------------------------


def state(seconds: float, component: int = 1, components: int = 1) -> Progress:
    """What a search tells of itself."""
    return Progress(1200, 5.25, seconds, component, components)


class Drawn:
    def __str__(self) -> str:
        return "the shared plan"

    def svg(self) -> str:
        return "<svg/>"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the command asks of `Workload.explain_shared`."""
    calls: list[dict[str, Any]] = []

    def explain_shared(self: Workload, events: Any, **options: Any) -> Drawn:
        calls.append({"names": set(self.queries), "columns": arrow_schema_of(events).names, **options})
        options["progress"](state(20.0))
        return Drawn()

    monkeypatch.setattr(Workload, "explain_shared", explain_shared)
    return calls


def test_explain(
    folder: Path, events: str, asked: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "plan.svg"
    argv = ["workload", "explain", str(folder), events, *ROLES, "--svg", str(picture)]
    assert main([*argv, "--search", "tabu", "--seconds", "0.5", "--plan", "kind=tree"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "the shared plan\n"
    assert captured.err == "searched 20 s, 1,200 steps, cost 5.25\n", "nobody watches, and it takes long"
    assert picture.read_text(encoding="utf-8") == "<svg/>"
    (call,) = asked
    assert call["names"] == set(QUERIES)
    assert call["columns"] == ["ts", "type", "id"]
    assert (call["time"], call["type"]) == ("ts", "type")
    assert call["plan"] == {"mechanism": "multi", "kind": "tree", "search": "tabu", "seconds": 0.5}


def test_explain_without_events(folder: Path, asked: list[dict[str, Any]], tmp_path: Path) -> None:
    known = tmp_path / "known.json"
    known.write_text('{"none": {"rates": {"a": 2}}}', encoding="utf-8")
    assert main(["workload", "explain", str(folder), *COLUMNS, "--statistics", str(known)]) == 0
    (call,) = asked
    assert call["plan"] is None
    assert call["stats"] == {"none": {"rates": {"a": 2}}}


SHARING = {
    "abc": "PATTERN SEQ(A a, B b, C c) WHERE a.id < b.id WITHIN 10",
    "abd": "PATTERN SEQ(A x, B y, D z) WHERE x.id < y.id WITHIN 20",
    "next": "PATTERN SEQ(A a, B b) WHERE skip_till_next_match { [id] } WITHIN 10",
}


def sharing(tmp_path: Path) -> list[str]:
    """A folder of queries, two of which have a part in common, and events."""
    queries, events = tmp_path / "sharing", tmp_path / "typed.parquet"
    queries.mkdir()
    for name, text in SHARING.items():
        (queries / f"{name}.sase").write_text(text, encoding="utf-8")
    pq.write_table(pa.table({"ts": range(80), "type": list("ABCD") * 20, "id": [i * 7 % 11 for i in range(80)]}), events)
    return [str(queries), str(events), *ROLES]


@pytest.mark.parametrize("search", ["annealing", "tabu", "none", "sharing", "reordering", "written"])
def test_explain_shows_the_shared_plan(search: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "plan.svg"
    argv = [*sharing(tmp_path), "--search", search, "--plan", "steps=200", "--svg", str(picture)]
    assert main(["workload", "explain", *argv]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert all(f"\n{name} " in captured.out for name in ("written", "sharing", "reordering", "none", "this plan"))
    assert "abc, abd" in captured.out
    assert "not in a shared plan: next" in captured.out
    assert picture.read_text(encoding="utf-8").startswith("<svg")


def test_explain_by_columns_and_a_search_that_does_not_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = sharing(tmp_path)[0]
    assert main(["workload", "explain", folder, *COLUMNS, "--search", "none"]) == 0
    assert "abc, abd" in capsys.readouterr().out
    assert main(["workload", "explain", folder, *COLUMNS, "--search", "nun"]) == 1
    assert "plan option 'search' cannot be 'nun'" in capsys.readouterr().err


def test_matches_do_not_depend_on_the_search(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = sharing(tmp_path)
    events = pq.read_table(argv[1])
    alone = {name: kleene.query(text).match(events, time="ts", type="type") for name, text in SHARING.items()}
    wanted = "".join(f"{name}: {matches.num_rows} matches\n" for name, matches in sorted(alone.items()))
    for search in ("tabu", "written"):
        assert main(["workload", "match", *argv, "--search", search, "--plan", "steps=50"]) == 0
        assert capsys.readouterr().out == wanted


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_search_is_shown_on_one_line_of_a_terminal() -> None:
    stream = Terminal()
    line = SearchLine(stream)
    for seconds in (0.5, 1.0, 1.1, 1.3):
        line(state(seconds, 2, 3))
    assert stream.getvalue().count("\r\x1b[K") == 2, "not before a second, and not at every step"
    assert "1,200 steps, cost 5.25, part 2 of 3" in stream.getvalue()
    line.clear()
    line.clear()
    assert stream.getvalue().count("\r\x1b[K") == 3


def test_a_search_that_nobody_watches_speaks_when_it_takes_long() -> None:
    stream = io.StringIO()
    line = SearchLine(stream)
    for seconds in range(25):
        line(state(float(seconds)))
    line.clear()
    assert [text.split(",")[0] for text in stream.getvalue().splitlines()] == ["searched 10 s", "searched 20 s"]
