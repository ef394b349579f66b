"""Events for fault tests, as files that a stream reads one by one: out of order within the watermark, with late and bad rows.

What becomes of a row is decided here and written into it (`fate`), which is possible because a micro-batch takes one file: its
watermark is the latest time of the files before it, less the delay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

START = 1_780_000_000_000
"""The time of the first event, in milliseconds since 1970."""
SPAN = 20_000
"""The time that a file stands for, in milliseconds: what arrives within it."""
DELAY = 30_000
"""How much later than others events may come, in milliseconds."""
LATE, BAD = 0.02, 0.01
"""The share of such rows."""
TYPES = "AABBCDEN"
"""Those that queries name; other rows are not delivered when they are late."""
IRRELEVANT = "XY"
KEYS = 20
FINE, TOO_LATE, NO_GOOD, LAST = "fine", "late", "bad", "last"

SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("type", pa.string()),
        ("k", pa.int32()),
        ("x", pa.int32()),
        ("fate", pa.string()),
    ]
)
DDL = "number long, at timestamp, type string, k int, x int, fate string"


@dataclass(slots=True)
class Feed:
    """Writes a stream's files."""

    folder: Path
    seed: int
    rows: int
    """In each file, about."""
    files: int = 0
    _tables: Iterator[pa.Table] = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self._tables = arriving(self.seed, self.rows)

    def write(self) -> None:
        """The next file."""
        self._put(next(self._tables))

    def end(self) -> None:
        """The last file: an event so much later than all others that everything is decided."""
        ends = {"number": -1, "at": (START + (self.files + 1_000) * SPAN) * 1_000, "type": "X", "k": 0, "x": 0, "fate": LAST}
        self._put(table([ends]))

    def _put(self, rows: pa.Table) -> None:
        """A file has its name when it is finished."""
        unfinished = self.folder.parent / "unfinished.parquet"
        pq.write_table(rows, unfinished)
        unfinished.rename(self._path(self.files))
        self.files += 1

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06}.parquet"

    def read(self, number: int) -> pa.Table:
        """A file's events."""
        return pq.read_table(self._path(number), schema=SCHEMA)

    def events(self) -> pa.Table:
        """Everything that was written."""
        return pq.read_table(self.folder, schema=SCHEMA)


def arriving(seed: int, rows: int) -> Iterator[pa.Table]:
    """The events of file after file, without end."""
    rng = Random(seed)
    number, held = 0, []
    latest: int | None = None
    for file in range(1 << 30):
        begin = START + file * SPAN
        for _ in range(rows):
            row = _event(rng, number, begin + rng.randrange(SPAN))
            held.append((row["ms"] + rng.randrange(DELAY), row))
            number += 1
        ready = [row for due, row in held if due < begin + SPAN]
        held = [(due, row) for due, row in held if due >= begin + SPAN]
        watermark = None if latest is None else latest - DELAY
        assert watermark is None or all(row["ms"] >= watermark for row in ready)
        rng.shuffle(ready)
        decided = [_decided(rng, row, watermark) for row in ready]
        times = [row["ms"] for row in decided if row["ms"] is not None]
        latest = max(times if latest is None else [latest, *times])
        yield table([row | {"at": None if row["ms"] is None else row["ms"] * 1_000} for row in decided])


def _event(rng: Random, number: int, ms: int) -> dict[str, Any]:
    kind = rng.choice(TYPES + IRRELEVANT)
    return {"number": number, "ms": ms, "type": kind, "k": rng.randrange(KEYS), "x": rng.randrange(100), "fate": FINE}


def _decided(rng: Random, row: dict[str, Any], watermark: int | None) -> dict[str, Any]:
    """The row as it arrives: most are fine, some just at the watermark, some late, some bad."""
    chance = rng.random()
    changed: dict[str, Any]
    if watermark is not None and chance < LATE:
        changed = {"ms": watermark - rng.choice((1, rng.randint(1, 2 * SPAN))), "type": rng.choice(TYPES), "fate": TOO_LATE}
    elif watermark is not None and chance < 2 * LATE:
        changed = {"ms": watermark}
    elif chance > 1 - BAD:
        changed = {"type": rng.choice(TYPES), "fate": NO_GOOD} | rng.choice(({"ms": None}, {"k": None}))
    else:
        changed = {}
    return row | changed


def table(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows with times in microseconds."""
    columns = {name: [row[name] for row in rows] for name in SCHEMA.names}
    return pa.table([pa.array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)
