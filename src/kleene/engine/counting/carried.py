"""The counters that are carried from pass to pass where nothing expires: a set for each partition.

A pass looks up the partitions of its events, and writes back those that it changed. So its cost, and what has to be written of
it in a stream, go with the events that come, and not with the partitions that there are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from kleene.common.arrays import Array
from kleene.common.columns import concat, take
from kleene.engine.counting.program import Program
from kleene.engine.events.key_index import KeyIndex, grown
from kleene.engine.expressions.vectorized import widen
from kleene.engine.matcher import State
from kleene.engine.passes.restored import ROW, require_width

UNKNOWN = -1
"""The number of a partition that is not carried."""


class Carried:
    """The counters of partitions, which are numbered as they come."""

    def __init__(self) -> None:
        self._index = KeyIndex()
        self._keys: list[_Column] = []
        self._cells = np.empty((0, 0), np.int64)
        self._floats = np.empty((0, 0), np.float64)
        self._changed: list[Array] = []

    def __len__(self) -> int:
        return self._index.count

    @staticmethod
    def of(state: State) -> Carried:
        """From what `changes` gave, all in one, or from the counters as they were once written."""
        found = Carried()
        if "cells" not in state:
            return found
        rows = len(state[ROW]) if ROW in state else int(state["partitions"][0].as_py())
        keys = [widen(state[name]) for name in sorted(state) if name.startswith("key ")]
        cells, floats = (_rows_of(state[name], rows) if name in state else np.empty((rows, 0)) for name in ("cells", "floats"))
        found.keep(keys, np.arange(rows), np.full(rows, UNKNOWN), cells, floats)
        if ROW in state:
            found._changed = []
        return found

    def changes(self) -> pa.RecordBatch | None:
        """The partitions that changed since the last call, as a row for each number."""
        if not self._changed:
            return None
        numbers = np.unique(np.concatenate(self._changed))
        self._changed = []
        columns = {ROW: pa.array(numbers)}
        columns |= {f"key {place:03}": column.take(numbers) for place, column in enumerate(self._keys)}
        for name, table in (("cells", self._cells), ("floats", self._floats)):
            if table.shape[1]:
                columns[name] = pa.FixedSizeListArray.from_arrays(pa.array(table[numbers].ravel()), table.shape[1])
        return pa.RecordBatch.from_pydict(columns)

    def find(self, columns: Sequence[pa.Array], rows: Array) -> Array:
        """The numbers of the partitions whose keys are in some rows of columns."""
        return self._index.find([take(column, rows) for column in columns], rows.size)

    def beside(self, numbers: Array) -> Array:
        """The numbers of all other partitions."""
        others = np.ones(len(self), bool)
        others[numbers[numbers != UNKNOWN]] = False
        return np.flatnonzero(others)

    def keys(self, place: int, numbers: Array) -> pa.Array:
        """A key of some partitions, by ascending numbers."""
        return self._keys[place].take(numbers)

    def started(self, program: Program, numbers: Array) -> tuple[Array, Array]:
        """The cells of partitions at the beginning of a pass."""
        cells = np.tile(program.initial, (numbers.size, 1))
        floats = np.zeros((numbers.size, program.floats))
        known = np.flatnonzero(numbers != UNKNOWN)
        if len(self):
            require_width(self._cells, self._floats, (program.initial.size, program.floats))
        if known.size:
            cells[known], floats[known] = self._cells[numbers[known]], self._floats[numbers[known]]
        return cells, floats

    def keep(self, columns: Sequence[pa.Array], rows: Array, numbers: Array, cells: Array, floats: Array) -> None:
        """Takes over the cells of partitions after a pass; those without a number get one, by the keys in rows of columns."""
        new = np.flatnonzero(numbers == UNKNOWN)
        if new.size:
            keys = [widen(take(column, rows[new])) for column in columns]
            numbers = numbers.copy()
            numbers[new] = self._index.add(keys, new.size)
            self._keys = self._keys or [_Column() for _ in keys]
            for column, key in zip(self._keys, keys, strict=True):
                column.append(key)
        if not self._cells.shape[1]:
            self._cells, self._floats = (np.empty((0, item.shape[1]), item.dtype) for item in (cells, floats))
        self._cells, self._floats = grown(self._cells, len(self)), grown(self._floats, len(self))
        self._cells[numbers], self._floats[numbers] = cells, floats
        if numbers.size:
            self._changed.append(numbers)


class _Column:
    """A column that grows; its pieces are merged while they are about as long, so that there are few."""

    def __init__(self) -> None:
        self._pieces: list[pa.Array] = []

    def append(self, piece: pa.Array) -> None:
        while self._pieces and len(self._pieces[-1]) <= 2 * len(piece):
            piece = concat([self._pieces.pop(), piece])
        self._pieces.append(piece)

    def take(self, rows: Array) -> pa.Array:
        """The values at ascending rows."""
        if not rows.size:
            return self._pieces[0].slice(0, 0)
        bounds = np.cumsum([0, *map(len, self._pieces)])
        cuts = np.searchsorted(rows, bounds)
        parts = zip(self._pieces, bounds[:-1], cuts[:-1], cuts[1:], strict=True)
        return concat([take(piece, rows[begin:end] - base) for piece, base, begin, end in parts if begin < end])


def _rows_of(column: pa.Array, rows: int) -> Array:
    """Numbers, one list for each row, as a table."""
    flat = column.flatten() if pa.types.is_fixed_size_list(column.type) else column
    return np.array(flat).reshape(rows, -1)
