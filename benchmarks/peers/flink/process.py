"""Flink's Pattern API in a JVM of its own, which stays up between jobs: the peer of the suites `saseplus` and `lazy`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from benchmarks.peers.jars import FLINK, flink_jars
from benchmarks.peers.jvm import Program, compiled, write_columns

SOURCES = [Path(__file__).parent / f"{name}.java" for name in ("Jobs", "AnyPatterns", "StockPatterns")]
COLUMNS = {
    "StockPatterns": {"ts": "<i8", "symbol": "<i4", "price": "<i4", "volume": "<i4"},
    "AnyPatterns": {"ts": "<i8", "kind": "<i4", "x": "<f8"},
}
"""What each program reads: the columns one after the other."""


def write_events(table: pa.Table, path: Path, program: str = "StockPatterns") -> Path:
    """Events as a program reads them."""
    return write_columns(table, path, COLUMNS[program])


class Flink(Program):
    """A JVM that runs one job after the other."""

    version = FLINK

    def __init__(self, program: str = "StockPatterns") -> None:
        jars = flink_jars()
        super().__init__(program, compiled("flink", SOURCES, jars), jars)

    def run(
        self, pattern: str, events: Path, *, window: int, parallelism: int, matches: Path | None = None
    ) -> dict[str, float]:
        """Runs a job: `matches`, `length` (elements of all matches), `wall` and `cpu` seconds; writes the matches if asked."""
        written = [] if matches is None else [matches.absolute()]
        found = self.ask(pattern, window, parallelism, events.absolute(), *written)
        return {key: float(value) for key, value in found.items()}


def read_matches(path: Path) -> list[tuple[int, ...]]:
    """The matches that a job wrote, sorted: the times of their events."""
    return sorted(tuple(map(int, line.split())) for line in path.read_text().splitlines())
