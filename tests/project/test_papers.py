"""Every query printed in the five papers is a query of the language, and survives printing."""

from pathlib import Path

import pytest

from kleene.language.parser import parse
from kleene.language.printer import to_text

PAPERS = sorted((Path(__file__).parents[1] / "cases" / "papers").glob("*.txt"))


def queries() -> list[object]:
    cases = []
    for paper in PAPERS:
        for block in paper.read_text(encoding="utf-8").split("=== ")[1:]:
            title, _, text = block.partition("\n")
            cases.append(pytest.param(text, id=f"{paper.stem}: {title}"))
    return cases


@pytest.mark.parametrize("text", queries())
def test_every_query_of_the_papers_parses_and_prints(text: str) -> None:
    query = parse(text)
    assert parse(to_text(query)) == query


def test_all_five_papers_are_covered() -> None:
    assert len(PAPERS) == 5
