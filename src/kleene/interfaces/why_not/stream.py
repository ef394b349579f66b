"""The selected events, and combinations of them, as arrays: stream order, keys, positions.

A combination is a row of row numbers, with a column for each variable, as the engine returns it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.columns import decoded, showable, take, time_values
from kleene.engine.expressions.vectorized import of_types
from kleene.engine.matches.matches import Matches
from kleene.pattern.bound import BoundQuery
from kleene.pattern.operators import Event
from kleene.pattern.policies import Output, Strategy

FREE = -1
"""The code of a key that the type of the event lacks: it agrees with every other."""

DIFFERENT = -2
"""The code of a key that agrees with no other, such as NULL, and of events that disagree."""


@dataclass(frozen=True)
class Stream:
    """Events in stream order, with a column of row numbers, and the query."""

    bound: BoundQuery
    table: pa.Table
    arrival: bool
    """Whether events that tie are in the order of their rows."""

    @cached_property
    def columns(self) -> dict[str, pa.Array]:
        """The columns, each as one array."""
        return {name: self.table.column(name).combine_chunks() for name in self.table.column_names}

    @cached_property
    def shown(self) -> pa.Table:
        """The events as reports show them."""
        return shown(self.table)

    @cached_property
    def ts(self) -> Array:
        """The times of the events, in the unit of the window."""
        return time_values(self.columns[self.bound.schema.time], self.bound.schema.time_unit)

    @cached_property
    def rank(self) -> Array:
        """The stream order: events that tie have the same number."""
        count = self.table.num_rows
        needs_total = (
            self.bound.query.strategy is not Strategy.SKIP_TILL_ANY_MATCH
            or self.bound.count_window is not None
            or self.bound.query.output is Output.NON_OVERLAP
        )
        if self.arrival and needs_total:
            return np.arange(count)
        changes = np.zeros(count, bool)
        for values in (self.ts, *(_codes(self.columns[name]) for name in self.bound.schema.order_by)):
            changes[1:] |= values[1:] != values[:-1]
        return np.cumsum(changes)

    def gather(self, name: str, places: Array) -> pa.Array:
        """A column at some rows."""
        return take(self.columns[name], places)

    @cached_property
    def keys(self) -> Callable[[str], Array]:
        """A code for each row, by attribute: equal for events that agree on it, FREE without it, DIFFERENT where it is NULL."""
        return cache(self._key_codes)

    def _key_codes(self, name: str) -> Array:
        column = decoded(self.columns[name])
        codes = np.where(column.is_null().to_numpy(zero_copy_only=False), DIFFERENT, _codes(column))
        nans = np.flatnonzero(_is_nan(column))
        codes[nans] = codes.size + np.arange(nans.size)  # NaN equals nothing
        schema = self.bound.schema
        if schema.types is not None and schema.type is not None:
            lacking = [kind for kind in schema.types if name not in schema.attributes_of(kind)]
            codes = np.where(of_types(self.columns[schema.type], lacking), FREE, codes) if lacking else codes
        return codes

    def positions(self, names: Iterable[str]) -> Array:
        """The number of each row among those with the same keys."""
        partition = np.zeros(self.table.num_rows, np.int64)
        for name in names:
            partition = np.unique(np.stack((partition, self.keys(name))), axis=1, return_inverse=True)[1].reshape(-1)
        order = np.argsort(partition, kind="stable")
        sizes = np.bincount(partition)
        position = np.empty(order.size, np.int64)
        position[order] = np.arange(order.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return position

    @cached_property
    def position(self) -> Array:
        """The number of each row in its partition."""
        return self.positions(test.name for test in self.bound.equivalences)

    def of(self, event: Event) -> Array:
        """The rows of a component's types."""
        if self.bound.schema.type is None:
            return np.arange(self.table.num_rows)
        return np.flatnonzero(of_types(self.columns[self.bound.schema.type], list(event.types)).to_numpy(zero_copy_only=False))


def shown(table: pa.Table) -> pa.Table:
    """A table whose values Python can represent."""
    return pa.table([showable(column) for column in table.columns], names=table.column_names)


def _codes(column: pa.Array) -> Array:
    """A number for each value, equal for equal values; NULL has one, and so has NaN."""
    column = decoded(column)
    if pa.types.is_floating(column.type):
        column = pc.add(column, 0.0)  # -0.0 equals 0.0
    codes = column.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return np.where(_is_nan(column), len(column), codes)


def _is_nan(column: pa.Array) -> Array:
    if not pa.types.is_floating(column.type):
        return np.zeros(len(column), bool)
    return np.asarray(pc.fill_null(pc.is_nan(column), False).to_numpy(zero_copy_only=False))


def blocks_of(rows: pa.Table) -> Iterator[tuple[Array, Matches]]:
    """Combinations in blocks with the same variables: the numbers of their rows, and the rows of the events that they bind."""
    present = [~pc.is_null(rows.column(name)).to_numpy() for name in rows.column_names]
    shape = sum((held.astype(np.int64) << bit for bit, held in enumerate(present)), np.zeros(rows.num_rows, np.int64))
    for own in np.unique(shape).tolist():
        numbers = np.flatnonzero(shape == own)
        taken = rows.take(pa.array(numbers))
        singles: dict[str, Array] = {}
        lists: dict[str, tuple[Array, Array]] = {}
        for bit, name in enumerate(rows.column_names):
            if not own >> bit & 1:
                continue
            column = taken.column(name).combine_chunks()
            if pa.types.is_list(column.type):
                offsets = column.offsets.to_numpy().astype(np.int64)
                lists[name] = offsets - offsets[0], column.flatten().to_numpy()
            else:
                singles[name] = column.to_numpy()
        yield numbers, _matches(numbers.size, singles, lists)


def _matches(count: int, singles: dict[str, Array], lists: dict[str, tuple[Array, Array]]) -> Matches:
    """The combinations as the engine has them: rows are in stream order, so the first event is that of the lowest row."""
    firsts = [*singles.values(), *(places.take(offsets[:-1]) for offsets, places in lists.values())]
    lasts = [*singles.values(), *(places.take(offsets[1:] - 1) for offsets, places in lists.values())]
    return Matches(count, singles, lists, np.minimum.reduce(firsts), np.maximum.reduce(lasts))


def row_keys(rows: pa.Table) -> pa.Array:
    """A text for each combination, equal for equal events under the same variables."""
    parts = []
    for name in sorted(rows.column_names):
        column = rows.column(name).combine_chunks()
        if pa.types.is_list(column.type):
            column = pc.binary_join(column.cast(pa.list_(pa.string())), ",")
        parts.append(pc.fill_null(column.cast(pa.string()), ""))
    return pc.binary_join_element_wise(*parts, "|")
