"""The architecture page: queries go through the files of their walks, in that order, and packages have their rows."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "kleene"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

TRACED = """
import json, sys
from pathlib import Path
import pyarrow as pa
import kleene

events = pa.table({"ts": [1, 2, 3, 4, 5], "type": [*"ABABC"], "k": [1, 1, 2, 2, 2], "x": [1, 2, 3, 4, 5]})
home = Path(kleene.__file__).parent

def walk(text):
    entered, phase = {"plan": {}, "build": {}, "run": {}}, "plan"

    def note(frame, event, _):
        nonlocal phase
        if event == "call" and frame.f_code.co_filename.startswith(str(home)):
            phase = {"build_matcher": "build", "match_batches": "run"}.get(frame.f_code.co_name, phase)
            entered[phase].setdefault(Path(frame.f_code.co_filename).relative_to(home).as_posix())

    assert kleene.query(text).match(events, time="ts", type="type").num_rows
    sys.setprofile(note)
    kleene.query(text).match(events, time="ts", type="type")
    sys.setprofile(None)
    return {name: list(files) for name, files in entered.items()}

print(json.dumps([walk(text) for text in json.load(sys.stdin)]))
"""
"""Runs queries twice, and prints the files that the second run enters: while planning, building and running."""


def tables(heading: str) -> list[list[list[str]]]:
    """The tables below a heading, as rows of cells."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = re.findall(r"\n\|---.*?\n((?:\|.*\n)+)", section)
    return [[[cell.strip() for cell in line.strip("|").split(" | ")] for line in rows.splitlines()] for rows in found]


def files(text: str) -> list[str]:
    return re.findall(r"`([\w/]+\.py)`", text)


def test_queries_go_through_the_files_of_their_walks() -> None:
    planned, ran, others, _ = tables("One query through the code")
    (first,) = re.findall(r"`(PATTERN [^`]*)`, a sequence", PAGE)
    texts = [first, *(re.findall(r"`(PATTERN [^`]*)`", row[0])[0] for row in others)]
    done = subprocess.run([sys.executable, "-c", TRACED], input=json.dumps(texts), capture_output=True, text=True, check=True)
    walks = [([files(row[0])[0] for row in planned], [files(row[0])[0] for row in ran])]
    walks += [(files(row[1]), files(row[2])) for row in others]
    for text, (plan, run), entered in zip(texts, walks, json.loads(done.stdout), strict=True):
        assert plan
        assert run
        assert [name for name in entered["plan"] if name in plan] == plan, text
        assert [name for name in entered["run"] if name in run] == run, text


def test_every_package_has_a_row_with_the_first_line_of_its_docstring() -> None:
    found = {}
    for path in SOURCES.rglob("__init__.py"):
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        assert docstring, f"{path} does not say what lives there"
        found[f"`{path.parent.relative_to(SOURCES).as_posix()}`"] = docstring.split("\n")[0]
    del found["`.`"]
    (rows,) = tables("Packages")
    assert dict(rows) == found


@pytest.mark.parametrize("path", sorted(SOURCES.rglob("*.py")), ids=lambda path: path.relative_to(SOURCES).as_posix())
def test_modules_that_docstrings_name_are_there(path: Path) -> None:
    named = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            named.update(re.findall(r"`(kleene(?:\.\w+)+)`", node.value.value))
    assert [name for name in named if not _is_there(name)] == []


def _is_there(name: str) -> bool:
    """A package, a module, or what one defines."""
    _, *parts = name.split(".")
    for count in range(len(parts), 0, -1):
        place = SOURCES.joinpath(*parts[:count])
        if place.is_dir() or place.with_suffix(".py").exists():
            source = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
            rest = parts[count:]
            return not rest or re.search(rf"\b{rest[0]}\b", source.read_text(encoding="utf-8")) is not None
    return name.split(".")[1] in (SOURCES / "__init__.py").read_text(encoding="utf-8")
