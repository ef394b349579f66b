"""The page on papers: every module, symbol and test that it names is there, and every case of a figure is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
CASES = ROOT / "tests" / "cases"
HOMES = {"module": (ROOT / "src" / "kleene", ROOT), "tests": (CASES, ROOT)}


def rows() -> list[dict[str, str]]:
    """The rows of all tables that have modules and tests, by the titles of their columns."""
    found: list[dict[str, str]] = []
    titles: list[str] = []
    for line in PAGE.split("\n"):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            titles = []
        elif not titles:
            titles = cells
        elif "module" in titles and set(line) - set("|-"):
            found.append(dict(zip(titles, cells, strict=True)))
    return found


def is_there(name: str, column: str) -> bool:
    return any(list(home.glob(name.rstrip("/"))) for home in HOMES[column])


@pytest.mark.parametrize("column", ["module", "tests"])
def test_every_module_and_every_test_named_exists(column: str) -> None:
    named = [name for row in rows() for name in re.findall(r"`([\w./*-]+)`", row[column]) if "/" in name or "." in name]
    assert len(named) > 60
    assert [name for name in named if not is_there(name, column)] == []


def test_a_name_in_brackets_is_in_the_module_before_it() -> None:
    found = [pair for row in rows() for pair in re.findall(r"`([\w./]+\.py)` \(`(\w+)`\)", row["module"])]
    assert len(found) >= 5
    homes = HOMES["module"]
    texts = {
        name: next(home / name for home in homes if (home / name).exists()).read_text(encoding="utf-8") for name, _ in found
    }
    assert [(name, symbol) for name, symbol in found if not re.search(rf"\b{symbol}\b", texts[name])] == []


def test_every_row_has_a_test_or_says_why_not() -> None:
    assert [row for row in rows() if not row["tests"] and not row["deviation"]] == []


def test_every_case_of_a_figure_or_a_query_of_a_paper_is_named() -> None:
    cases = [path.relative_to(CASES).as_posix() for path in CASES.rglob("*.case")]
    own = [name for name in cases if re.search(r"/(figure|query|q\d|example|appendix)", name)]
    assert len(own) > 20
    assert [name for name in own if f"`{name}`" not in PAGE] == []
    assert [path.name for path in (CASES / "papers").glob("*.txt") if f"papers/{path.name}" not in PAGE] == []
