"""The constants of compiled filters: an array that is an argument of them, so that other constants need no other code.

Entry 0 is the overflow flag; each constant has an entry, a list that is searched two, its begin and its length, and the lists
stand behind all entries, each in order. Times are in the unit of the filter's columns. One that has no number there, because
it is between two or beyond them, is compared as the range of numbers that are before, at or after it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.errors import DataError, Problem
from kleene.pattern.moments import FineMoment, nanoseconds_of

OVERFLOW = 0
"""The entry of `constants` that a filter sets when integer arithmetic leaves 64 bits."""

SMALLEST, LARGEST = -(2**63), 2**63 - 1

End = tuple[str, Literal["first", "last"]]
"""Of the numbers that compare with a time as an operator says, the first or the last."""


@dataclass(frozen=True, slots=True)
class Constant:
    """Constants that a filter reads: one value, or a list of them that is searched."""

    values: tuple[Any, ...]
    is_float: bool
    is_list: bool = False
    end: End | None = None
    """In place of a time that columns need not hold: an end of what compares with it."""


def filled_constants(constants: Sequence[Constant], dictionary: pa.Array, unit: str) -> Array:
    """The overflow flag, the entries of all constants, and the lists."""
    entries = 1 + sum(1 + constant.is_list for constant in constants)
    filled = np.zeros(entries + sum(len(constant.values) for constant in constants if constant.is_list), np.int64)
    at, end = 1, entries
    for constant in constants:
        own = _numbers(constant, dictionary, unit)
        if constant.is_list:
            own = np.sort(own)
            filled[at : at + 2] = end, own.size
            filled[end : end + own.size] = own.view(np.int64)
            end += own.size
        else:
            filled[at] = own.view(np.int64)[0]
        at += 1 + constant.is_list
    return filled


def _numbers(constant: Constant, dictionary: pa.Array, unit: str) -> Array:
    """The values of a constant as the columns that they are compared with have them: numbers of 64 bits."""
    values = constant.values
    if constant.is_float:
        return np.array(values, np.float64)
    if isinstance(values[0], str):
        return np.asarray(pc.index_in(pa.array(values, pa.string()), value_set=dictionary), np.int64)
    if isinstance(values[0], int):
        return np.array(values, np.int64)
    if constant.end is not None:
        return np.array([_end(values[0], unit, constant.end)], np.int64)
    return np.array([_time(value, unit) for value in values], np.int64)


def _time(value: dt.datetime | dt.timedelta, unit: str) -> int:
    """A moment or duration in a unit."""
    number = nanoseconds_of(value) // (1_000 if unit == "us" else 1)
    if not SMALLEST <= number <= LARGEST:
        hint = "cast the columns of nanoseconds to microseconds"
        raise DataError(Problem(f"'{value}' cannot be computed with in nanoseconds, which reach from 1677 to 2262", hint=hint))
    return number


def _end(value: dt.datetime | dt.timedelta | FineMoment, unit: str, end: End) -> int:
    """The first or the last number of a unit that compares with a time as an operator says; of none the ends are crossed."""
    operator, which = end
    per_unit = 1_000 if unit == "us" else 1
    below, above = nanoseconds_of(value) // per_unit, -(-nanoseconds_of(value) // per_unit)
    low = {">": below + 1, ">=": above, "=": above}.get(operator, SMALLEST)
    high = {"<": above - 1, "<=": below, "=": below}.get(operator, LARGEST)
    if max(low, SMALLEST) > min(high, LARGEST):
        low, high = LARGEST, SMALLEST
    return max(low, SMALLEST) if which == "first" else min(high, LARGEST)
