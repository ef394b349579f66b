"""Values that leave 64 bits: which rows of a column they are, and that a matcher has met some.

What fails is NULL in the column, and the row is marked. See `kleene.pattern.faults` for what an error is, and
`kleene.engine.audit` for how it is distinguished from one that no match has.

Cost: none where nothing fails; else a few calls of the operation for every row that does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kleene.common.arrays import Array
from kleene.common.errors import DataError, Problem

Column = Any


class OverflowedError(DataError):
    """A value leaves 64 bits, which is not yet known to be an error of the answer: to users it is a DataError."""


def overflow(detail: object = None) -> OverflowedError:
    """The error of a value that is computed from events."""
    if "out of bounds" in str(detail):
        hint = "nanoseconds reach from 1677 to 2262, and over 292 years: cast such columns to microseconds"
        return OverflowedError(Problem(f"a time does not fit 64 bits ({detail})", hint=hint))
    return OverflowedError("integer overflow: a result does not fit 64 bits" + (f" ({detail})" if detail else ""))


def condition_overflow(query: str) -> DataError:
    """The error of a condition."""
    hint = "compare floats, or exclude such values by a condition of their own"
    message = f"integer overflow: a result in a WHERE predicate of query '{query}' does not fit 64 bits"
    return DataError(Problem(message, hint=hint))


@dataclass(slots=True)
class Noticed:
    """What a matcher knows of values that did not fit, since the last audit and in the events that it keeps."""

    seen: bool = False
    """Whether a pass has met some."""
    since: int | None = None
    until: int | None = None
    """The times between which there are events, not forgotten yet, of which the scan computed one."""

    fresh: bool = False
    """Whether the scan has met some since this was last set to False."""

    def concerns(self, ts: Array) -> bool:
        """Whether matches of events with these times, ascending, may be errors."""
        return self.seen or (self.until is not None and ts.size > 0)

    def note_time(self, time: int) -> None:
        """An event at this time has a value that does not fit."""
        self.fresh = True
        self.since = time if self.since is None else min(self.since, time)
        self.until = time if self.until is None else max(self.until, time)

    def forget(self, horizon: int) -> None:
        """Events at or before this time will not matter again."""
        if self.until is not None and self.until <= horizon:
            self.since = self.until = None
        elif self.since is not None:
            self.since = max(self.since, horizon + 1)

    def earliest(self, otherwise: int | None) -> int | None:
        """The earliest time of an event that is kept for what it may turn out to be, or of one that is anyway."""
        return min((time for time in (self.since, otherwise) if time is not None), default=None)


def attempt(function: Callable[..., Column], operands: tuple[Column, ...], count: int) -> tuple[Column, Array]:
    """`function(*operands)` for `count` rows, where it fails for some of them: the values, NULL there, and which rows fail."""
    failed = np.zeros(count, bool)
    if all(isinstance(operand, pa.Scalar) for operand in operands):
        failed[:] = True
        return pa.scalar(None, _kind(function, operands)), failed
    pieces: list[Column] = [pa.nulls(0, _kind(function, operands))]
    waiting = [(0, count)]
    while waiting:
        begin, end = waiting.pop()
        some = [operand if isinstance(operand, pa.Scalar) else operand.slice(begin, end - begin) for operand in operands]
        try:
            pieces.append(function(*some))
        except pa.ArrowInvalid:
            if end - begin == 1:
                failed[begin] = True
                pieces.append(pa.nulls(1, pieces[0].type))
            else:
                middle = (begin + end) // 2
                waiting += [(middle, end), (begin, middle)]
    return pa.concat_arrays(pieces), failed


def _kind(function: Callable[..., Column], operands: tuple[Column, ...]) -> pa.DataType:
    """The type of the values, as of no rows."""
    return function(*(pa.nulls(0, operand.type) for operand in operands)).type
