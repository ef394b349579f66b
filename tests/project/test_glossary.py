"""The glossary: its words are in order and each once, what it names in the code is there, and so are the papers' symbols."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "kleene"
PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
SYMBOLS = ["PreCntr", "SEM", "DPC", "HPC", "SnapShot", "PreTree", "Chop-Connect", "RIP", "AIS", "PAIS", "NFA^b", "Dewey"]


def tables() -> list[list[list[str]]]:
    """The rows of each table, without its titles."""
    found = []
    for text in re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE):
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
        assert {len(row) for row in rows} == {len(rows[0])}
        found.append(rows[2:])
    return found


WORDS, OTHER_NAMES = tables()


def defined(path: Path) -> set[str]:
    """What a module defines, members of classes as `Class.member`."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        found |= names_of(node)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{name}" for member in node.body for name in names_of(member)}
    return found


def names_of(statement: ast.stmt) -> set[str]:
    """The names that a statement gives."""
    if isinstance(statement, ast.ClassDef | ast.FunctionDef):
        return {statement.name}
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}


def test_the_words_are_in_alphabetical_order_and_each_once() -> None:
    words = [row[0] for row in WORDS]
    assert len(words) > 30
    assert words == sorted(set(words))


def test_every_word_has_a_meaning_and_a_place_in_the_code() -> None:
    assert [row[0] for row in WORDS if not row[1].endswith(".")] == []
    rows = [*WORDS, *OTHER_NAMES]
    assert [row[0] for row in rows if not re.fullmatch(r"`[\w/]+\.py` \(`\w+(\.\w+)?`\)", row[-1])] == []


def test_what_is_named_in_the_code_is_defined_there() -> None:
    for row in [*WORDS, *OTHER_NAMES]:
        path, name = re.findall(r"`([^`]+)`", row[-1])
        assert (SOURCES / path).is_file(), path
        assert name in defined(SOURCES / path), f"{path} has no {name}"


def test_other_names_are_for_words_of_the_table() -> None:
    words = {row[0] for row in WORDS}
    assert [row[0] for row in OTHER_NAMES if not any(re.match(rf"{word}\b", row[1]) for word in words)] == []


def test_the_symbols_of_the_papers_are_in_the_table() -> None:
    terms = " ".join(row[2] for row in WORDS)
    assert [symbol for symbol in SYMBOLS if not re.search(rf"(?<![\w-]){re.escape(symbol)}(?![\w-])", terms)] == []
