"""`tests/support/complete_cases.py` writes what the oracle says, and changes nothing that is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.complete_cases import CASES, completed, main

GIVEN = """# A comment.

case no answer yet
events
  a1 x=1
  b2 x=2
  b3 x=1
query
  PATTERN SEQ(A a, B b) WHERE a.x < b.x RETURN b.x AS x

case a wrong one
events
  a1
  b2
query
  PATTERN SEQ(A a, B+ b[])
matches
  a=a1 b=b2
count 7

case sums
events
  a1 x=1
query
  PATTERN A a AGG COUNT, SUM(a.x) AS sum, MIN(a.y) AS least
options
  columns y=float

case an error
events
  a1
query
  PATTERN A a WHERE a.z = 1

case right, written in another order
events
  a1 x=1
  b2 x=2
query
  PATTERN SEQ(A a, B b)
matches
  b=b2   a=a1
"""

WANTED = {
    "no answer yet": "matches\n  a=a1 b=b2\nreturns\n  x=2",
    "a wrong one": "matches\n  a=a1 b=[b2]\ncount 1",
    "sums": "aggregates\n  at=1 count=1 sum=1 least=NULL",
    "an error": "error BindingError: ",
    "right, written in another order": "matches\n  b=b2   a=a1",
}


def test_answers_are_written_where_they_are_missing_or_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "some.case"
    path.write_text(GIVEN)
    assert main([str(path), "--check"]) == 1
    assert path.read_text() == GIVEN
    assert main([str(path)]) == 0
    found = path.read_text()
    assert found.startswith("# A comment.\n\ncase no answer yet\n")
    cases = {part.split("\n")[0]: part for part in found.split("case ")[1:]}
    assert cases.keys() == WANTED.keys()
    for title, answer in WANTED.items():
        assert answer in cases[title]
    assert "+  a=a1 b=[b2]" in capsys.readouterr().out
    assert completed(found, path) == found


def test_the_answers_of_all_cases_are_as_they_are_written() -> None:
    assert [path for path in CASES.rglob("*.case") if completed(text := path.read_text(), path) != text] == []
