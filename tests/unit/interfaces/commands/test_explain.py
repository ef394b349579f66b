"""`kleene explain`."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kleene.interfaces.cli import main

SEQUENCE = "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 10"
COLUMNS = ["--columns", "ts:int,type:string,id:int", "--time", "ts", "--type", "type"]
ROLES = ["--time", "ts", "--type", "type"]
PAIRS = "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 10 RETURN a.id AS id, b.ts - a.ts AS gap INTO Pair"
AFTER = "PATTERN SEQ(Pair p, B b) WHERE p.gap > 0 WITHIN 100"
EVENTS = pa.table({"ts": [1, 2, 3, 20], "type": ["A", "B", "B", "B"], "id": [7, 7, 8, 7]})


# explain and match.


def test_explain_needs_no_events(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "-q", SEQUENCE, *COLUMNS]) == 0
    assert capsys.readouterr().out.strip()


def test_explain_a_file(events: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "-q", SEQUENCE, events, *ROLES]) == 0
    assert capsys.readouterr().out.strip()


def test_explain_and_check_with_other_queries(pairs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "-q", AFTER, *COLUMNS, "--with", pairs]) == 0
    out = capsys.readouterr().out
    assert out.index("plan of 'pairs'") < out.index("plan of 'query'")
    assert main(["check", "-q", AFTER, *COLUMNS, "--with", pairs]) == 0
    assert capsys.readouterr().out.startswith("PATTERN SEQ(Pair p, B b)")
    assert main(["check", "-q", AFTER.replace("gap", "gape"), *COLUMNS, "--with", pairs]) == 1
    assert "query 'query': unknown attribute 'gape'" in capsys.readouterr().err
