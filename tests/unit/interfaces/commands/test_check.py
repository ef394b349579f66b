"""`kleene check`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import kleene
from kleene.generators import retail
from kleene.interfaces.cli import main
from kleene.interfaces.commands import demo

SEQUENCE = "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 10"
COLUMNS = ["--columns", "ts:int,type:string,id:int", "--time", "ts", "--type", "type"]
ROLES = ["--time", "ts", "--type", "type"]
EVENTS = pa.table({"ts": [1, 2, 3, 20], "type": ["A", "B", "B", "B"], "id": [7, 7, 8, 7]})
SUMS = "PATTERN SEQ(A a, B b) GROUP BY id AGG COUNT, SUM(a.ts) AS total EMIT ON CHANGE WITHIN 10"


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


def test_check_and_explain_aggregates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "-q", SUMS, *COLUMNS]) == 0
    assert kleene.query(capsys.readouterr().out).logical == kleene.query(SUMS).logical
    assert main(["check", "-q", SUMS.replace("a.ts", "a.type"), *COLUMNS]) == 1
    assert "SUM cannot be taken of 'type', which is a string" in capsys.readouterr().err
    picture = tmp_path / "plan.svg"
    assert main(["explain", "-q", SUMS, *COLUMNS, "--svg", str(picture)]) == 0
    assert "AG  aggregation (no match is built)" in capsys.readouterr().out
    assert "prefix counters" in picture.read_text(encoding="utf-8")
