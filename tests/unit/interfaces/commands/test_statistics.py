"""`kleene statistics`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kleene
from kleene.interfaces.cli import main

COLUMNS = ["--columns", "ts:int,type:string,id:int", "--time", "ts", "--type", "type"]
ROLES = ["--time", "ts", "--type", "type"]
PAIRS = "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 10 RETURN a.id AS id, b.ts - a.ts AS gap INTO Pair"
AFTER = "PATTERN SEQ(Pair p, B b) WHERE p.gap > 0 WITHIN 100"
EVENTS = pa.table({"ts": [1, 2, 3, 20], "type": ["A", "B", "B", "B"], "id": [7, 7, 8, 7]})
RISE = "PATTERN SEQ(A a, B b) WHERE a.id < b.id WITHIN 10"


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


@pytest.mark.spark
def test_statistics_on_spark(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["statistics", "-q", RISE, typed, *ROLES]
    assert main(argv) == 0
    embedded = json.loads(capsys.readouterr().out)
    assert main([*argv, "--engine", "spark", "--master", "local[2]"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rates"], found["events"]) == (pytest.approx(embedded["rates"]), 103)
