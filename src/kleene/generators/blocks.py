"""Rows are made in blocks and handed out in batches.

A block is a fixed number of rows with a random generator of its own, derived from the seed and the block's number. The rows
therefore depend on the seed only, not on the batch size asked for, and no more than a block and a batch are ever in memory.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

BLOCK_ROWS = 65_536
DEFAULT_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """Parameters of any stream."""

    events: int = 100_000
    seed: int = 0
    rate: float | None = None
    """Events per second; None makes the time column the event's number."""
    batch_size: int = DEFAULT_BATCH_ROWS

    def __post_init__(self) -> None:
        if self.events < 0 or self.seed < 0:
            raise ValueError("events and seed must not be negative")
        if self.rate is not None and self.rate <= 0:
            raise ValueError(f"rate must be positive, not {self.rate}")


def block_ranges(rows: int) -> Iterator[tuple[int, int, int]]:
    """The blocks of a stream as (number, first row, end row).

    >>> list(block_ranges(70_000))
    [(0, 0, 65536), (1, 65536, 70000)]
    """
    for number, first in enumerate(range(0, rows, BLOCK_ROWS)):
        yield number, first, min(first + BLOCK_ROWS, rows)


def random_of(seed: int, *path: int) -> np.random.Generator:
    """The random generator of one part of a stream; parts with different paths are independent."""
    return np.random.default_rng([seed, *path])


def rebatch(blocks: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of exactly `rows` rows, the last one excepted.

    >>> block = pa.record_batch({"x": [1, 2, 3]})
    >>> [batch.num_rows for batch in rebatch([block, block], 4)]
    [4, 2]
    """
    if rows < 1:
        raise ValueError(f"a batch needs at least one row, not {rows}")
    waiting: list[pa.RecordBatch] = []
    count = 0
    for block in blocks:
        while count + block.num_rows >= rows:
            head = block.slice(0, rows - count)
            yield _joined([*waiting, head])
            block = block.slice(head.num_rows)
            waiting, count = [], 0
        if block.num_rows:
            waiting.append(block)
            count += block.num_rows
    if waiting:
        yield _joined(waiting)


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    return parts[0] if len(parts) == 1 else pa.Table.from_batches(parts).combine_chunks().to_batches()[0]


def time_type(rate: float | None) -> pa.DataType:
    """The type of the time column: the event's number without a rate, else a timestamp."""
    return pa.int64() if rate is None else pa.timestamp("us", tz="UTC")


def times(first: int, end: int, rate: float | None, start: dt.datetime) -> pa.Array:
    """The times of the rows `first` to `end`: their numbers, or `rate` events per second from `start` on.

    >>> times(0, 3, None, dt.datetime(2006, 1, 1, tzinfo=dt.UTC)).to_pylist()
    [0, 1, 2]
    """
    numbers = np.arange(first, end, dtype=np.int64)
    if rate is None:
        return pa.array(numbers)
    micros = microseconds(start) + np.floor(numbers * (1_000_000 / rate)).astype(np.int64)
    return pa.array(micros).cast(time_type(rate))


def microseconds(moment: dt.datetime) -> int:
    """Microseconds since 1970; a moment without time zone is UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


def walk(
    walker: npt.NDArray[np.int64], steps: npt.NDArray[np.float64], last: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Where the walker of each row stands after its step; `last`, where each stood before, is carried from block to block.

    >>> walk(np.array([0, 1, 0]), np.array([1.0, 2.0, 3.0]), np.zeros(2)).tolist()
    [1.0, 2.0, 4.0]
    """
    found = np.empty(walker.size)
    for one in range(last.size):
        rows = np.flatnonzero(walker == one)
        found[rows] = last[one] + np.cumsum(steps[rows])
        if rows.size:
            last[one] = found[rows[-1]]
    return found
