"""Every query of the cookbook that is a file gives the oracle's matches for the events of its section."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pyarrow.csv
import pytest

from support.page_queries import by_the_engine, by_the_oracle

PAGE = (Path(__file__).parents[2] / "docs" / "cookbook.md").read_text(encoding="utf-8")
FILE = re.compile(r"^```(sase|csv) (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def recipes() -> list[object]:
    """Every query with the events of its section."""
    found: list[object] = []
    for section in PAGE.split("\n## "):
        files = FILE.findall(section)
        for events in (text for kind, _, text in files if kind == "csv"):
            found += [pytest.param(text, events, id=name) for kind, name, text in files if kind == "sase"]
    return found


@pytest.mark.parametrize(("query", "events"), recipes())
def test_a_recipe_finds_what_the_oracle_finds(query: str, events: str) -> None:
    table = pyarrow.csv.read_csv(io.BytesIO(events.encode()))
    roles = {"time": "ts", **({"type": "type"} if "type" in table.schema.names else {})}
    found = by_the_engine(query, table, **roles)
    assert found
    assert found == by_the_oracle(query, table, **roles)


def test_every_query_and_eight_events_of_each_recipe_are_there() -> None:
    files = FILE.findall(PAGE)
    assert len(recipes()) == sum(kind == "sase" for kind, _, _ in files)
    assert {len(text.splitlines()) - 1 for kind, _, text in files if kind == "csv"} == {8}
