"""The architecture page: a query goes through the files of its walk, in that order, and every package has its row."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "kleene"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

TRACED = """
import sys
from pathlib import Path
import pyarrow as pa
import kleene

events = pa.table({"ts": [1, 2, 3, 4], "type": ["A", "B", "A", "B"], "k": [1, 1, 2, 2], "x": [1, 2, 3, 4]})
text = "PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x WITHIN 10"
assert kleene.query(text).match(events, time="ts", type="type").num_rows == 2
home, entered = Path(kleene.__file__).parent, {}

def note(frame, event, _):
    if event == "call" and frame.f_code.co_filename.startswith(str(home)):
        entered.setdefault(Path(frame.f_code.co_filename).relative_to(home).as_posix())

sys.setprofile(note)
kleene.query(text).match(events, time="ts", type="type")
sys.setprofile(None)
print("\\n".join(entered))
"""
"""Runs the query of the page twice, and prints the files that the second run enters."""


def rows(heading: str) -> list[list[str]]:
    """The rows of the first table below a heading."""
    table = re.search(r"\n\|---.*?\n((?:\|.*\n)+)", PAGE.split(f"\n## {heading}\n")[1])
    assert table is not None
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[1].splitlines()]


def test_a_query_goes_through_the_files_of_the_walk() -> None:
    done = subprocess.run([sys.executable, "-c", TRACED], capture_output=True, text=True, check=True)
    walk = [file.strip("`") for file, _ in rows("One query through the code")]
    assert len(walk) >= 12
    assert [file for file in done.stdout.split() if file in walk] == walk


def test_every_package_has_a_row_with_the_first_line_of_its_docstring() -> None:
    found = {}
    for path in SOURCES.rglob("__init__.py"):
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        assert docstring, f"{path} does not say what lives there"
        found[f"`{path.parent.relative_to(SOURCES).as_posix()}`"] = docstring.split("\n")[0]
    del found["`.`"]
    assert dict(rows("Packages")) == found
