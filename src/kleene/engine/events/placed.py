"""The columns of a working set in the order in which construction reads it: grouped by partition.

Matches of one partition lie together, so reading their events in this order stays in cache. A column is brought into it when
half as many of its values have been read as it has; until then single values are taken from where they are.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kleene.common.arrays import Array
from kleene.common.columns import is_viewable, take
from kleene.engine.events.grouping import Groups
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.kernels.rows import gather


class PlacedColumns:
    """Columns by place; see `kleene.engine.events.grouping.Groups`."""

    def __init__(self, working: WorkingSet, groups: Groups) -> None:
        self._working = working
        self._groups = groups
        self._read: dict[str, int] = {}
        self._found = (np.empty(0, np.int64),) * 2
        """The places that were looked up last, and their rows..."""
        self._inputs: Array | None = None
        """...and where in the input these are, once a column is read there."""
        times = working.times(groups.ts)
        self._columns: dict[str, pa.Array] = {} if times is None else {working.time: times}

    def __len__(self) -> int:
        return len(self._working)

    def by_row(self, name: str) -> pa.Array:
        """A whole column by row."""
        return self._working.column(name)

    def by_place(self, values: Array) -> Array:
        """Values by row as values by place."""
        return self._groups.places(values)

    def column(self, name: str) -> pa.Array:
        """A whole column by place."""
        if name not in self._columns:
            column = self._working.column(name)
            self._columns[name] = column if self._groups.is_one else take(column, self._groups.order)
        return self._columns[name]

    def source(self, name: str, places: Array) -> tuple[pa.Array, Array]:
        """A column and the rows of it that hold the values at the given places."""
        if name in self._columns:
            return self._columns[name], places
        column, where = self._working.held(name)
        if self._found[0] is not places:
            self._found = places, places if self._groups.is_one else self._groups.order.take(places)
            self._inputs = None
        rows = self._found[1]
        if where is None:
            return column, rows
        if self._inputs is None:
            self._inputs = where.take(rows)
        return column, self._inputs

    def gather(self, name: str, places: Array) -> pa.Array:
        """A column's values at the given places."""
        self._read[name] = self._read.get(name, 0) + places.size
        if 2 * self._read[name] > len(self):
            self.column(name)
        return take_places(*self.source(name, places))


def take_places(column: pa.Array, places: Array) -> pa.Array:
    """`column[places]`, of the same type."""
    data_type = column.type
    if column.null_count == 0:
        if pa.types.is_dictionary(data_type):
            indices = take_places(column.indices, places)
            return pa.DictionaryArray.from_arrays(indices, column.dictionary, ordered=data_type.ordered)
        if is_viewable(data_type) and data_type.bit_width in (8, 16, 32, 64):
            words = np.frombuffer(column.buffers()[1], dtype=f"i{data_type.bit_width // 8}")
            buffer = pa.allocate_buffer(places.size * words.itemsize)
            gather(words[column.offset : column.offset + len(column)], places, np.frombuffer(buffer, words.dtype))
            return pa.Array.from_buffers(data_type, places.size, [None, buffer])
    return column.take(pa.array(places))
