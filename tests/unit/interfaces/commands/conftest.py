"""Files of events and of a query, for the tests of commands."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

PAIRS = "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 10 RETURN a.id AS id, b.ts - a.ts AS gap INTO Pair"
EVENTS = pa.table({"ts": [1, 2, 3, 20], "type": ["A", "B", "B", "B"], "id": [7, 7, 8, 7]})


@pytest.fixture
def events(tmp_path: Path) -> str:
    path = tmp_path / "events.parquet"
    pq.write_table(EVENTS, path)
    return str(path)


@pytest.fixture
def typed(tmp_path: Path) -> str:
    """A hundred A, then a B, then an A and a B: only the last pair rises."""
    path = tmp_path / "typed.parquet"
    pq.write_table(pa.table({"ts": range(103), "type": ["A"] * 100 + ["B", "A", "B"], "id": [9] * 101 + [1, 2]}), path)
    return str(path)


# --with: queries that read the events of others.


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    path = tmp_path / "pairs.sase"
    path.write_text(PAIRS, encoding="utf-8")
    return str(path)
