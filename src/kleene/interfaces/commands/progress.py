"""A progress line on standard error for work that takes longer than a second; only on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    import pyarrow as pa

_PATIENCE = 1.0
_INTERVAL = 0.2


class Progress:
    """Counts rows. `with Progress("read") as progress: progress.add(rows)`."""

    def __init__(self, verb: str, total: int | None = None, *, hidden: bool = False, stream: TextIO | None = None) -> None:
        self.rows = 0
        self._verb = verb
        self._total = total
        self._stream = sys.stderr if stream is None else stream
        self._watched = self._stream.isatty() and not hidden
        self._begin = time.monotonic()
        self._next = self._begin + _PATIENCE
        self._shown = False

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._begin

    def add(self, rows: int) -> None:
        """Counts rows, and updates the line from time to time."""
        self.rows += rows
        if self._watched and time.monotonic() >= self._next:
            self._show()

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, counting their rows."""
        for batch in batches:
            self.add(batch.num_rows)
            yield batch

    def _show(self) -> None:
        share = f" ({100 * self.rows // self._total}%)" if self._total else ""
        rate = self.rows / max(self.seconds, 1e-9)
        self._stream.write(f"\r\x1b[K{self._verb} {self.rows:,} events{share}, {rate:,.0f} a second")
        self._stream.flush()
        self._next = time.monotonic() + _INTERVAL
        self._shown = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.clear()

    def clear(self) -> None:
        """Clears the line, to make room for other output."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False
