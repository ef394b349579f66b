"""Every query in a table of the migration page is one that runs, and gives the oracle's answer."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import kleene
from support.page_queries import by_the_engine, by_the_oracle

PAGE = Path(__file__).parents[2] / "docs" / "migration.md"
TABLES = "\n".join(line for line in PAGE.read_text(encoding="utf-8").split("\n") if line.startswith("|"))
SHOWN = re.findall(r"`(PATTERN [^`]*)`", TABLES)
QUERIES = sorted({text.replace("\\|", "|") for text in SHOWN if not text.startswith("PATTERN (")})  # those are SQL's

# Types, keys and values for which most of the queries find something and none of them everything.
EVENTS = pa.table(
    {
        "ts": list(range(1, 13)),
        "type": list("ABCANBACBADB"),
        "k": [1, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1, 1],
        "x": [9, 3, 4, 8, 1, 5, 2, 6, 7, 3, 2, 9],
        "y": [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1],
    }
)
ROLES = {"time": "ts", "type": "type"}


@pytest.mark.parametrize("text", QUERIES)
def test_a_query_of_the_tables_gives_what_the_oracle_gives(text: str) -> None:
    assert by_the_engine(text, EVENTS, **ROLES) == by_the_oracle(text, EVENTS, **ROLES)
    if "RETURN" in text:
        assert kleene.query(text).match(EVENTS, **ROLES).num_rows > 0


def test_the_tables_have_queries_and_most_of_them_find_something() -> None:
    assert len(QUERIES) > 40
    silent = [text for text in QUERIES if not by_the_oracle(text, EVENTS, **ROLES)]
    assert len(silent) < len(QUERIES) / 5, silent
