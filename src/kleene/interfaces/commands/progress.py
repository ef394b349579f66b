"""A progress line on standard error for work that takes longer than a second; only on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    import pyarrow as pa

_PATIENCE = 1.0
_INTERVAL = 0.2


class Line:
    """A line of a terminal that is written again and again, until the block ends; without a terminal, a line each time."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self.on_terminal = self._stream.isatty()
        self._shown = False

    def show(self, text: str) -> None:
        """Replaces the line."""
        self._stream.write(f"\r\x1b[K{text}" if self.on_terminal else f"{text}\n")
        self._stream.flush()
        self._shown = self.on_terminal

    def clear(self) -> None:
        """Clears the line, to make room for other output."""
        if self._shown:
            self.show("")
            self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()


class Progress(Line):
    """Counts rows. `with Progress("read") as progress: progress.add(rows)`."""

    def __init__(self, verb: str, total: int | None = None, *, hidden: bool = False, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self.rows = 0
        self._verb = verb
        self._total = total
        self._watched = self.on_terminal and not hidden
        self._begin = time.monotonic()
        self._next = self._begin + _PATIENCE

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._begin

    def add(self, rows: int) -> None:
        """Counts rows, and updates the line from time to time."""
        self.rows += rows
        if self._watched and time.monotonic() >= self._next:
            share = f" ({100 * self.rows // self._total}%)" if self._total else ""
            self.show(f"{self._verb} {self.rows:,} events{share}, {self.rows / max(self.seconds, 1e-9):,.0f} a second")
            self._next = time.monotonic() + _INTERVAL

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, counting their rows."""
        for batch in batches:
            self.add(batch.num_rows)
            yield batch
