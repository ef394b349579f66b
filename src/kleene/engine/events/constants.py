"""Columns as classes of values that the constants of conditions do not tell apart.

Any number of conditions on one column, such as `x > 17.5`, `x IN (1, 2)` or `x < 3 OR x = 7`, change where `x` passes one of
their constants and nowhere else. So they are evaluated once, on one value of each class, by the evaluator that also evaluates
all other conditions; then each row only needs its class. The classes of a dictionary are its entries: any condition will do.

Cost: 2 to 6 ns a row and column, however many conditions there are (`kernels/constants.py`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import EVER, LONG_AGO, Array
from kleene.common.columns import row_numbers, select
from kleene.engine.events.kernels.constants import INFINITE, LOOKS, Bounds, Texts, note_texts, number_classes, text_classes
from kleene.engine.expressions.vectorized import widen
from kleene.pattern.moments import nanoseconds_of

Judge = Callable[[pa.Array], Array | None]
"""Which conditions hold for each of some values, as [conditions, values]; None if one fails for some value."""

Told = tuple[Array, Array]
"""The class of each row, and which conditions hold for each class, as [conditions, classes]."""

Teller = Callable[[pa.Array, Array], Told | None]
"""Tells the rows of a column apart; None if conditions may fail there, or if looking at each row costs less."""

SAMPLE = 1 << 13
"""How many texts tell whether few of them differ."""

EXACT_FLOATS = 1 << 53
"""Integers up to this one are floats; further ones become the nearest."""


def is_told(kind: pa.DataType, *, ordered: bool) -> bool:
    """Whether values of a type are told apart by constants: by their order, or only by which they are equal to."""
    if pa.types.is_dictionary(kind) or pa.types.is_boolean(kind):
        return True
    return not ordered if is_text(kind) else _numbers(kind) is not None


def teller(kind: pa.DataType, constants: Iterable[object], judge: Judge) -> Teller:
    """What tells the values of a column apart by the constants that conditions compare them with."""
    if pa.types.is_dictionary(kind) or pa.types.is_boolean(kind):
        return _Entries(judge)
    known = [item for item in constants if item is not None]
    if is_text(kind):
        return _Named(list(dict.fromkeys(str(item) for item in known)), judge)
    numbers = _numbers(kind)
    assert numbers is not None
    bounds = sorted({bound for item in known for bound in numbers.bounds(item)})
    return _Between(numbers, [bound for bound in bounds if numbers.least < bound <= numbers.greatest], judge)


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


# Dictionaries and booleans: each entry is a class.


class _Entries:
    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._known: tuple[pa.Array, Array | None] | None = None
        """The last dictionary, and what holds for its entries."""

    def __call__(self, column: pa.Array, rows: Array) -> Told | None:
        if pa.types.is_boolean(column.type):
            indices, entries = pc.cast(column, pa.uint8()), pa.array([False, True])
        else:
            if not pa.types.is_dictionary(column.type):
                column, rows = select(column, rows), row_numbers(rows.size)
                sample = column.slice(0, SAMPLE)
                if 2 * len(pc.unique(sample)) > len(sample):
                    return None
                column = pc.dictionary_encode(column)
            indices, entries = column.indices, column.dictionary
        if len(entries) > max(rows.size, 2):
            return None
        held = self._held(entries)
        if held is None:
            return None
        return _selected(_words(indices), indices, rows, len(entries)), held

    def _held(self, entries: pa.Array) -> Array | None:
        if self._known is None or not _is_same(self._known[0], entries):
            self._known = entries, self._judge(_with_null(entries))
        return self._known[1]


def _is_same(one: pa.Array, other: pa.Array) -> bool:
    """Whether two arrays are the same memory."""
    places = [(len(item), item.offset, [buffer and buffer.address for buffer in item.buffers()]) for item in (one, other)]
    return bool(one.type == other.type and places[0] == places[1])


def _with_null(values: pa.Array) -> pa.Array:
    return pa.concat_arrays([values, pa.nulls(1, values.type)])


def _words(column: pa.Array) -> Array:
    """The integers that hold the values of a fixed-width column; anything where it is NULL."""
    width = column.type.bit_width // 8
    sign = "u" if pa.types.is_unsigned_integer(column.type) else "i"
    words = np.frombuffer(column.buffers()[1], f"{sign}{width}")
    return words[column.offset : column.offset + len(column)]


def _selected(classes: Array, column: pa.Array, rows: Array, null: int) -> Array:
    """The classes of some rows of those of a column; NULL is a class of its own."""
    whole = rows.size == len(column)
    chosen = (classes if whole else classes.take(rows)).astype(
        np.int64, copy=False
    )  # indices of few bits have no place for NULL
    return chosen if column.null_count == 0 else np.where(_missing(column, rows), null, chosen)


def _missing(column: pa.Array, rows: Array) -> Array:
    missing: Array = column.is_null().to_numpy(zero_copy_only=False)
    return missing if rows.size == missing.size else missing.take(rows)


# Texts: each constant is a class, and all others are one.


class _Named:
    def __init__(self, names: list[str], judge: Judge) -> None:
        self._texts = text_table(names)
        other = max(names, key=len, default="") + "."
        self._held = judge(pa.array([*names, other, None], pa.string()))

    def __call__(self, column: pa.Array, rows: Array) -> Told | None:
        if self._held is None:
            return None
        return named(widen(column), rows, self._texts), self._held


def text_table(names: list[str]) -> Texts:
    """Different texts, to be found by kernels."""
    encoded = [name.encode() for name in names]
    offsets = np.cumsum([0, *map(len, encoded)])
    data = np.frombuffer(b"".join([*encoded, b"."]), np.uint8)
    slots = np.full(1 << (2 * len(names)).bit_length(), -1, np.int64)
    texts = Texts(np.zeros(int(LOOKS), bool), slots, np.empty(len(names), np.uint64), offsets, data)
    with np.errstate(over="ignore"):
        note_texts(offsets, data, texts.looks, slots, texts.hashes)
    return texts


def named(column: pa.Array, rows: Array, texts: Texts) -> Array:
    """Which of some texts the text of each row is; as many as there are for any other, and one more for NULL."""
    classes = np.empty(rows.size, np.int64)
    with np.errstate(over="ignore"):  # as plain Python
        text_classes(*text_buffers(column), fixed(rows), texts, classes)
    if column.null_count:
        classes[_missing(column, rows)] = texts.hashes.size + 1
    return classes


def text_buffers(column: pa.Array) -> tuple[Array, Array]:
    """Where the texts of a string column begin and end, and their bytes."""
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return bounds, np.frombuffer(data or b".", np.uint8)


def fixed(array: Array) -> Array:
    """The array, not to be written: kernels are compiled again for one that may be."""
    array = array.view()
    array.flags.writeable = False
    return array


# Numbers and times: the classes lie between bounds.


@dataclass(frozen=True, slots=True)
class _Numbers:
    """How the values of a type are integers in the same order."""

    bounds: Callable[[Any], Iterator[int]]
    """The first integers that are not below a constant, and that are above it, if there are any."""
    values: Callable[[Array], pa.Array]
    """The values of integers."""
    integers: Callable[[pa.Array], Array]
    """The integers of a column, or of floats their bits; anything where it is NULL."""
    least: int = LONG_AGO
    greatest: int = EVER
    """Between which conditions do not fail."""
    floats: bool = False

    def fit(self, integers: Array) -> bool:
        """Whether integers of a column are within the range."""
        if self.floats or self.greatest - self.least == EVER - LONG_AGO or not integers.size:
            return True
        return bool(integers.min() >= self.least and integers.max() <= self.greatest)


class _Between:
    def __init__(self, numbers: _Numbers, bounds: list[int], judge: Judge) -> None:
        self._numbers = numbers
        self._bounds = _directory(np.array([EVER]))
        self._held: Array | None = None
        firsts = np.array([numbers.least, *bounds], np.int64)
        nan = pa.array([np.nan]) if numbers.floats else numbers.values(firsts[:1])
        held = judge(_with_null(pa.concat_arrays([numbers.values(firsts), nan])))
        if held is None:
            return
        changes = 1 + np.flatnonzero((held[:, 1 : firsts.size] != held[:, : firsts.size - 1]).any(axis=0))
        if changes.size:
            self._bounds = _directory(firsts.take(changes))
        kept = changes if changes.size else [0]
        self._held = held[:, [0, *kept, firsts.size, firsts.size + 1]]

    def __call__(self, column: pa.Array, rows: Array) -> Told | None:
        if self._held is None:
            return None
        values = self._numbers.integers(column)
        if not self._numbers.fit(values):
            return None
        classes = np.empty(rows.size, np.int64)
        with np.errstate(over="ignore"):  # as plain Python
            number_classes(fixed(values), fixed(rows), self._numbers.floats, self._bounds, classes)
        if column.null_count:
            classes[_missing(column, rows)] = self._held.shape[1] - 1
        return classes, self._held


def _directory(numbers: Array) -> Bounds:
    """Bounds with about four times as many buckets."""
    distances = numbers.view(np.uint64) - numbers.view(np.uint64)[0]
    shift = max(0, int(distances[-1]).bit_length() - (4 * numbers.size).bit_length())
    buckets = (distances >> np.uint64(shift)).astype(np.int64)
    return Bounds(numbers, np.searchsorted(buckets, np.arange(buckets[-1] + 2)), np.uint64(shift))


def _numbers(kind: pa.DataType) -> _Numbers | None:
    if pa.types.is_integer(kind):
        least = 0 if kind == pa.uint64() else LONG_AGO
        return _Numbers(_integer_bounds, pa.array, _as_integers, least)
    if pa.types.is_floating(kind):
        return _Numbers(_float_bounds, _floats, lambda column: _words(widen(column)), -INFINITE, INFINITE, floats=True)
    unit = _nanoseconds(kind)
    if unit is None:
        return None
    # Coarser units than microseconds are compared as these.
    least, greatest = (LONG_AGO, EVER) if unit <= 1_000 else (-(EVER * 1_000 // unit), EVER * 1_000 // unit)
    return _Numbers(partial(_time_bounds, unit), partial(_times, kind), _as_integers, least, greatest)


def _as_integers(column: pa.Array) -> Array:
    return _words(column).astype(np.int64, copy=False)


def _integer_bounds(constant: float) -> Iterator[int]:
    if isinstance(constant, int):
        yield constant
        yield constant + 1
    elif np.isfinite(constant):
        # An integer is compared as the nearest float.
        low = int(constant // 1)
        if abs(low) < EXACT_FLOATS:
            yield low if low == constant else low + 1
            yield low + 1
        else:
            near = range(low - 2048, low + 2049)
            yield near[0] + bisect_left(near, constant, key=float)
            yield near[0] + bisect_left(near, float(np.nextafter(constant, np.inf)), key=float)


def _key(constant: float) -> int:
    """The bits of a float, as integers that ascend with it."""
    bits = int(np.float64(constant + 0.0).view(np.int64))
    return bits if bits >= 0 else (bits ^ EVER) + 1


def _float_bounds(constant: float) -> Iterator[int]:
    number = float(constant)
    if number == number:
        yield _key(number)
        yield _key(number) + 1


def _floats(keys: Array) -> pa.Array:
    bits = np.where(keys >= 0, keys, (keys - 1) ^ EVER)
    return pa.array(bits.view(np.float64))


def _nanoseconds(kind: pa.DataType) -> int | None:
    """The nanoseconds of the unit of a time or duration."""
    if pa.types.is_date32(kind):
        return 86_400 * 10**9
    if pa.types.is_date64(kind):
        return 10**6
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[kind.unit]
    return None


def _time_bounds(unit: int, constant: Any) -> Iterator[int]:
    exact = nanoseconds_of(constant)
    yield -(-exact // unit)
    yield exact // unit + 1


def _times(kind: pa.DataType, integers: Array) -> pa.Array:
    words = integers.astype(f"i{kind.bit_width // 8}")
    return pa.Array.from_buffers(kind, words.size, [None, pa.py_buffer(words)])
