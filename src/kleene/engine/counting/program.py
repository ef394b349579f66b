"""Counter programs: the patterns of any number of queries as cells, operations on them, and the terms of each query's values.

A cell stands for a *segment*: the negative tests that hold before its first event, then steps (test of an event, negative tests
after it). Segments are known by their content, so what queries have in common, in whatever place, is one cell: common prefixes
(the PreTree of A-Seq section 4.1) and common parts anywhere are counted once.

A cell may also carry an attribute of one of the segment's events: the sum of its values over the matches of the segment, times
an integer weight or as a float, or the largest of them. Everything reduces to these: SUM of integers is a sum of positive parts
less one of negative parts, AVG divides a sum by a count of known values, MIN is MAX of complements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from operator import or_
from typing import Any

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.counting.kernels import counting as k
from kleene.engine.counting.kernels.tables import Operations, Values

Step = tuple[int, tuple[int, ...]]
"""The bit of an event's test, and the bits of negative tests that must not hold between it and the next step."""

Segment = tuple[tuple[int, ...], tuple[Step, ...]]
"""The bits of negative tests that must not hold before the first step, and the steps."""

Operation = tuple[int, int, int, int]
"""(kind, target, source, weight)."""

ONE = 0
"""The cell that is always 1: the empty segment that nothing forbids."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One value of a query: what is carried, of which weight column, and at which position of each path (None: nowhere)."""

    kind: int
    """TOTAL, FLOAT_TOTAL or LARGEST."""
    weight: int | None = None
    """The weight column; None counts matches."""
    positions: tuple[int | None, ...] = ()
    """The place (from 0) of the event in each path."""

    @property
    def is_float(self) -> bool:
        return self.kind == k.FLOAT_TOTAL


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a query wants: its paths and the values over their matches."""

    paths: tuple[tuple[Step, ...], ...]
    triggers: int
    """The mask of tests of events at which the values are asked for."""
    slots: tuple[Slot, ...]

    @property
    def starts(self) -> int:
        """The mask of tests that begin a match."""
        return mask_of(path[0][0] for path in self.paths)


def mask_of(bits: Iterable[int]) -> int:
    """The mask that has some bits."""
    found = 0
    for bit in bits:
        found |= 1 << bit
    return found


@dataclass(frozen=True, slots=True)
class Program:
    """The tables that kernels read; see `kleene.engine.counting.kernels.counting`."""

    wanted: tuple[Wanted, ...]
    forward: Operations
    backward: Operations
    initial: Array
    """Integer cells before any event."""
    floats: int
    """How many float cells there are."""
    kept: Array
    """The cells of prefixes, which make a row of the front."""
    float_kept: Array
    values: Values
    """Terms are (kind, column of the front or -1, cell)."""
    starts: int
    """The mask of tests that begin a match."""

    def kinds(self, query: int) -> Array:
        """The kinds of a query's slots."""
        first, last = self.values.slot_ranges[query : query + 2]
        return np.ascontiguousarray(self.values.slots[first:last, 0])


@lru_cache(maxsize=256)
def build_program(wanted: tuple[Wanted, ...], bits: int, windowed: bool) -> Program:
    """The program of some queries over events with `bits` tests. Without a window only prefixes are counted."""
    cells = Cells(bits, windowed=windowed)
    front = _Front()
    slots: list[tuple[int, int, int]] = []
    terms: list[tuple[int, int, int]] = []
    slot_ranges = [0]
    for item in wanted:
        for slot in item.slots:
            begin = len(terms)
            for index, path in enumerate(item.paths):
                terms.extend(_terms(cells, front, path, slot, index, windowed))
            slots.append((slot.kind, begin, len(terms)))
        slot_ranges.append(len(slots))
    return Program(
        wanted,
        cells.operations(cells.forward),
        cells.operations(cells.backward),
        np.array(cells.initial, np.int64),
        cells.floats,
        np.array(front.integers, np.int64),
        np.array(front.floats, np.int64),
        values_of(slot_ranges, slots, terms),
        reduce(or_, (item.starts for item in wanted)),
    )


@lru_cache(maxsize=256)
def cells_of(wanted: tuple[Wanted, ...], bits: int, windowed: bool) -> Cells:
    """The cells of the program of some queries, with the numbers they have there."""
    cells = Cells(bits, windowed=windowed)
    front = _Front()
    for item in wanted:
        for slot in item.slots:
            for index, path in enumerate(item.paths):
                list(_terms(cells, front, path, slot, index, windowed))
    return cells


def values_of(slot_ranges: list[int], slots: list[tuple[int, int, int]], terms: list[tuple[int, int, int]]) -> Values:
    """Slots and terms as tables."""
    return Values(
        *(np.array(item, np.int64).reshape(shape) for item, shape in ((slot_ranges, -1), (slots, (-1, 3)), (terms, (-1, 3))))
    )


def by_bit(masks: Sequence[int], bits: int) -> tuple[Array, Array]:
    """Which queries have each bit in their mask, as ranges of one list."""
    lists = [[query for query, mask in enumerate(masks) if mask >> bit & 1] for bit in range(bits)]
    ranges = np.cumsum([0, *(len(item) for item in lists)])
    return ranges.astype(np.int64), np.array([query for item in lists for query in item], np.int64)


def segment(path: Sequence[Step], begin: int, end: int) -> Segment:
    """The segment of a path after the first `begin` steps up to and including step `end`."""
    return (path[begin - 1][1] if begin else (), tuple(path[begin:end]))


@dataclass(slots=True)
class _Front:
    """The prefix cells in a row of the front."""

    integers: list[int] = field(default_factory=list)
    floats: list[int] = field(default_factory=list)

    def column(self, cell: int, *, of_floats: bool = False) -> int:
        columns = self.floats if of_floats else self.integers
        if cell not in columns:
            columns.append(cell)
        return columns.index(cell)


class Cells:
    """Cells by what they stand for, with the operations that change them."""

    def __init__(self, bits: int, *, windowed: bool) -> None:
        self._bits = bits
        self._windowed = windowed
        self._known: dict[Any, int] = {}
        self.initial: list[int] = [1]
        self.floats = 0
        self.forward: list[tuple[int, int, int, Operation]] = []
        """(bit, length of the target's segment, 1 if it adds, operation)."""
        self.backward: list[tuple[int, int, int, Operation]] = []

    def count(self, of: Segment) -> int:
        """The cell that counts the matches of a segment."""
        negatives, steps = of
        if not steps and not negatives:
            return ONE
        if of in self._known:
            return self._known[of]
        cell = self._known[of] = len(self.initial)
        self.initial.append(0 if steps else 1)
        self._clear(of, k.CLEAR, cell)
        if steps:
            self._on_last(of, (k.ADD, cell, self.count(_without_last(of)), 0))
            if self._windowed:
                self._on_first(of, (k.ADD, cell, self.count(_without_first(of)), 0))
        return cell

    def carried(self, of: Segment, place: int, slot: Slot) -> int:
        """The cell that carries the weight of the event at a place of a segment."""
        key = (of, place, slot.kind, slot.weight)
        if key in self._known:
            return self._known[key]
        assert slot.weight is not None
        if slot.is_float:
            cell = self.floats
            self.floats += 1
        else:
            cell = len(self.initial)
            self.initial.append(int(k.NONE) if slot.kind == k.LARGEST else 0)
        self._known[key] = cell
        clear, own, passed = _CARRIED[slot.kind]
        self._clear(of, clear, cell)
        rest = _without_last(of)
        if place == len(of[1]) - 1:
            self._on_last(of, (own, cell, self.count(rest), slot.weight))
        else:
            self._on_last(of, (passed, cell, self.carried(rest, place, slot), slot.weight))
        if self._windowed:
            rest = _without_first(of)
            if place == 0:
                self._on_first(of, (own, cell, self.count(rest), slot.weight))
            else:
                self._on_first(of, (passed, cell, self.carried(rest, place - 1, slot), slot.weight))
        return cell

    def entries(self) -> Iterator[tuple[Segment, int | None, Slot, int]]:
        """(segment, place of the event whose weight is carried or None, what is carried, cell) of all cells but ONE."""
        for key, cell in self._known.items():
            if isinstance(key[1], int):
                of, place, kind, weight = key
                yield of, place, Slot(kind, weight), cell
            else:
                yield key, None, Slot(k.TOTAL), cell

    def segments(self) -> Iterator[tuple[Segment, bool, int]]:
        """(segment, whether the cell is a float, cell) of all cells that have a step."""
        for key, cell in self._known.items():
            carried = isinstance(key[1], int)
            of = key[0] if carried else key
            if of[1]:
                yield of, carried and key[2] == k.FLOAT_TOTAL, cell

    def _on_last(self, of: Segment, operation: Operation) -> None:
        """What the event at the end of a segment does, as events come."""
        self.forward.append((of[1][-1][0], len(of[1]), 1, operation))

    def _on_first(self, of: Segment, operation: Operation) -> None:
        """What the event at the beginning of a segment does, when events are gone over backwards."""
        self.backward.append((of[1][0][0], len(of[1]), 1, operation))

    def _clear(self, of: Segment, kind: int, cell: int) -> None:
        negatives, steps = of
        for bit in steps[-1][1] if steps else negatives:
            self.forward.append((bit, len(steps), 0, (kind, cell, ONE, 0)))
        for bit in negatives:
            self.backward.append((bit, len(steps), 0, (kind, cell, ONE, 0)))

    def operations(self, table: list[tuple[int, int, int, Operation]]) -> Operations:
        """The operations by test and level: longest segments first, clearing before adding."""
        longest = max((length for _, length, _, _ in table), default=0)
        levels = 2 * (longest + 1)
        placed = sorted((bit, 2 * (longest - length) + adds, operation) for bit, length, adds, operation in table)
        ranges = np.zeros((self._bits, levels + 1), np.uint64)
        found = np.array([(bit, level) for bit, level, _ in placed], np.int64).reshape(-1, 2)
        order = found[:, 0] * (levels + 1) + found[:, 1]
        for bit in range(self._bits):
            for level in range(levels + 1):
                ranges[bit, level] = np.searchsorted(order, bit * (levels + 1) + level)
        return Operations(ranges, np.array([operation for _, _, operation in placed], np.uint64).reshape(-1, 4))


_CARRIED = {
    k.TOTAL: (k.CLEAR, k.ADD_WEIGHTED, k.ADD),
    k.FLOAT_TOTAL: (k.CLEAR_FLOAT, k.ADD_WEIGHTED_FLOAT, k.ADD_FLOAT),
    k.LARGEST: (k.CLEAR_LARGEST, k.RAISE_TO, k.RAISE),
}
"""By kind of slot: how a cell is cleared, how it takes its own event's weight, how it takes over what a shorter one carries."""


def _without_last(of: Segment) -> Segment:
    return of[0], of[1][:-1]


def _without_first(of: Segment) -> Segment:
    return of[1][0][1], of[1][1:]


def _terms(
    cells: Cells, front: _Front, path: tuple[Step, ...], slot: Slot, index: int, windowed: bool
) -> Iterator[tuple[int, int, int]]:
    """A path's terms of a slot: for each place to cut the path, what is in front and what lies behind."""
    length = len(path)
    place = None if slot.weight is None else slot.positions[index]
    if slot.weight is not None and place is None:
        return
    for cut in range(length + 1 if windowed else 1):
        before, after = segment(path, 0, cut), segment(path, cut, length)
        if place is None:
            column = front.column(cells.count(before)) if cut else -1
            yield k.PRODUCT, column, cells.count(after)
        elif place >= cut:
            column = front.column(cells.count(before)) if cut else -1
            yield _BACK[slot.kind], column, cells.carried(after, place - cut, slot)
        else:
            carried = cells.carried(before, place, slot)
            yield _FRONT[slot.kind], front.column(carried, of_floats=slot.is_float), cells.count(after)


_BACK = {k.TOTAL: k.PRODUCT, k.FLOAT_TOTAL: k.FLOAT_BACK, k.LARGEST: k.LARGEST_BACK}
_FRONT = {k.TOTAL: k.PRODUCT, k.FLOAT_TOTAL: k.FLOAT_FRONT, k.LARGEST: k.LARGEST_FRONT}
