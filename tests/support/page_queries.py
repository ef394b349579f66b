"""Queries that documentation shows, answered by the engine and by the oracle: the events of every match, by row number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

import kleene
from kleene.common.schema import schema_of_arrow
from kleene.language.parser import parse
from kleene.pattern.bind import bind
from kleene.testing import oracle

OWN = ["query", "match_id", "match_start", "match_end"]
NUMBER = "row number"


def by_the_engine(text: str, events: pa.Table, **roles: str) -> list[str]:
    """The matches of the query without its RETURN: variables with row numbers, a list for a Kleene variable."""
    numbered = events.append_column(NUMBER, pa.array(range(events.num_rows)))
    query = kleene.query(replace(parse(text), returns=(), into=None, text=None))
    matches = query.match(numbered, **roles).drop_columns(OWN).to_pylist()
    return _sorted([{name: _numbers(value) for name, value in row.items() if value is not None} for row in matches])


def by_the_oracle(text: str, events: pa.Table, **roles: str) -> list[str]:
    """The same, from the oracle."""
    bound = bind(parse(text), schema_of_arrow(events.schema, **roles))
    return _sorted([dict(match.bindings) for match in oracle.matches(bound, events.to_pylist())])


def _numbers(value: Any) -> object:
    return tuple(item[NUMBER] for item in value) if isinstance(value, list) else value[NUMBER]


def _sorted(matches: list[dict[str, object]]) -> list[str]:
    return sorted(str(sorted(match.items())) for match in matches)
