"""The events a mechanism looks at: those kept from before (recent enough to matter) and those that came since, as columns.

Rows are in stream order. Columns are taken from the input batches only when something reads them. What is kept between runs is
compact: the relevant rows of the last window, and only the columns that the plan reads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.columns import concat, decoded, require_safe_times, row_numbers, select, take, unchecked_times
from kleene.common.errors import DataError
from kleene.common.schema import EventSchema
from kleene.engine.expressions.failing import Noticed
from kleene.engine.kernels.rows import first_descent


class WorkingSet:
    """Relevant rows in stream order: `[0, kept)` were seen by an earlier run, the rest are new."""

    def __init__(self, schema: EventSchema, columns: Sequence[str], noticed: Noticed | None = None) -> None:
        self._schema = schema
        self.time = schema.time
        self._names = list(columns)
        self.noticed = noticed or Noticed()
        """What of these events left 64 bits."""
        self._batches: list[pa.RecordBatch] = []
        self._rows: list[Array] = []
        self._ts: list[Array] = []
        self._masks: list[Array] = []
        self._columns: dict[str, pa.Array] = {}
        self.kept = 0
        self.pending = 0
        self.latest: int | None = None
        """The time of the last row, also when it is no longer here."""
        self.horizon: int | None = None
        """Rows at or before this time have been forgotten."""

    def add(self, batch: pa.RecordBatch, rows: Array, masks: Array) -> None:
        """Appends the relevant rows of a batch."""
        if rows.size == 0:
            return
        ts = unchecked_times(select(batch.column(self._schema.time), rows), self._schema.time_unit)
        self._require_order(ts)
        self.latest = int(ts[-1])
        self._batches.append(batch)
        self._rows.append(rows)
        self._ts.append(ts)
        self._masks.append(masks)
        self._columns.clear()
        self.pending += rows.size

    def _require_order(self, ts: Array) -> None:
        descent = first_descent(ts)
        require_safe_times(ts if descent >= 0 else ts[[0, -1]], self._schema.time_unit)
        previous = int(ts[0]) if self.latest is None else self.latest
        if descent < 0 and ts[0] >= previous:
            return
        at = max(descent, 0)
        earlier = int(ts[at - 1]) if at else previous
        raise DataError(
            f"events are not in time order: '{self._schema.time}' goes back from {earlier} to {int(ts[at])}"
            f"{'' if self._schema.time_unit is None else ' (' + self._schema.time_unit + ' since 1970)'}\n"
            "  hint: sort the input by time, or pass a whole table, which is sorted for you"
        )

    def compact(self) -> None:
        """Frees the input batches of rows that wait for a pass: only relevant rows and needed columns stay."""
        last = self._batches[-1]
        if last.num_rows > self._rows[-1].size or last.schema.names != self._names:
            rows = self._rows[-1]
            self._batches[-1] = pa.RecordBatch.from_arrays(
                [select(last.column(name), rows) for name in self._names], self._names
            )
            self._rows[-1] = row_numbers(rows.size)

    @property
    def earliest(self) -> int | None:
        """The time of the first row, if there is one."""
        return int(self.ts[0]) if len(self) else None

    def __len__(self) -> int:
        return self.kept + self.pending

    @property
    def ts(self) -> Array:
        return self._joined(self._ts)

    @property
    def masks(self) -> Array:
        return self._joined(self._masks)

    def rows_with(self, bit: int) -> Array:
        """The rows whose masks have a bit."""
        return np.flatnonzero((self.masks >> bit) & 1)

    @staticmethod
    def _joined(pieces: list[Array]) -> Array:
        if len(pieces) > 1:
            pieces[:] = [np.concatenate(pieces)]
        return pieces[0] if pieces else np.empty(0, np.int64)

    def column(self, name: str) -> pa.Array:
        """A column of all rows."""
        if name not in self._columns:
            pieces = [select(batch.column(name), rows) for batch, rows in zip(self._batches, self._rows, strict=True)]
            self._columns[name] = concat(pieces)
        return self._columns[name]

    @property
    def schema(self) -> pa.Schema:
        """That of the columns that are kept."""
        return pa.schema([(name, self.column(name).type) for name in self._names])

    def batch(self, begin: int, end: int) -> pa.RecordBatch:
        """The rows `[begin, end)` with the columns that are kept."""
        columns = [self.column(name).slice(begin, end - begin) for name in self._names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def held(self, name: str) -> tuple[pa.Array, Array | None]:
        """A column with the values of all rows, and where it has them, if not in order: in one batch, that of the input."""
        if len(self._batches) == 1 and name not in self._columns and self._rows[0].size < self._batches[0].num_rows:
            return self._batches[0].column(name), self._rows[0]
        return self.column(name), None

    def gather(self, name: str, rows: Array) -> pa.Array:
        """A column at the given rows."""
        column, where = self.held(name)
        return take(column, rows if where is None else where.take(rows))

    def times(self, ts: Array) -> pa.Array | None:
        """Times as values of the time column; None if it holds them in another way."""
        kind, unit = self._batches[0].schema.field(self._schema.time).type, self._schema.time_unit
        if kind == pa.int64() if unit is None else pa.types.is_timestamp(kind) and kind.unit == unit:
            return pa.Array.from_buffers(kind, ts.size, [None, pa.py_buffer(ts)])
        return None

    def rank(self) -> Array:
        """The stream order: rows with equal rank are simultaneous. Time itself, unless `order_by` breaks ties."""
        ts = self.ts
        if not self._schema.order_by or ts.size == 0:
            return ts
        new = np.empty(ts.size, bool)
        new[0] = True
        new[1:] = ts[1:] != ts[:-1]
        tied = ~new
        for name in self._schema.order_by:
            values = _order_values(self.column(name))
            descends = np.empty(ts.size, bool)
            descends[0] = False
            descends[1:] = values[1:] < values[:-1]
            if (descends & tied).any():
                at = int(np.flatnonzero(descends & tied)[0])
                raise DataError(
                    f"events are not in stream order: '{name}' goes back at {self._schema.time} = {int(ts[at])}\n"
                    f"  hint: sort the input by {', '.join((self._schema.time, *self._schema.order_by))}, or pass a whole table"
                )
            new[1:] |= values[1:] != values[:-1]
            tied = ~new
        return np.cumsum(new)

    def settle(self, horizon: int | None, masks: Array | None) -> None:
        """All rows were seen by an earlier run, which has forgotten those up to the horizon and may have changed masks."""
        self.horizon = horizon
        if masks is not None:
            self._masks = [masks.copy()]
        self.kept, self.pending = len(self), 0

    def forget(self, horizon: int | None) -> None:
        """Ends a run: rows at or before the horizon will never matter again; without one everything is kept."""
        if horizon is not None and (self.horizon is None or horizon > self.horizon):
            self.horizon = horizon
            self.noticed.forget(horizon)
        first = 0 if horizon is None else int(np.searchsorted(self.ts, horizon, side="right"))
        ts, masks = self.ts[first:].copy(), self.masks[first:].copy()
        if ts.size:
            self._batches = [pa.RecordBatch.from_arrays([self._last(name, ts.size) for name in self._names], self._names)]
            self._rows = [np.arange(ts.size, dtype=np.int64)]
            self._ts, self._masks = [ts], [masks]
        else:
            self._batches, self._rows, self._ts, self._masks = [], [], [], []
        self._columns.clear()
        self.kept, self.pending = int(ts.size), 0

    def _last(self, name: str, count: int) -> pa.Array:
        """A column of the last rows, without those before, whose memory is freed."""
        pieces: list[pa.Array] = []
        for batch, rows in zip(reversed(self._batches), reversed(self._rows), strict=True):
            if count > 0:
                pieces.insert(0, take(batch.column(name), rows[-count:]))
                count -= rows.size
        return concat(pieces)


def _order_values(column: pa.Array) -> Array:
    """Integers in the order of the column's values, NULL first and NaN last."""
    if pa.types.is_integer(column.type) and column.null_count == 0:
        return np.asarray(column.to_numpy(zero_copy_only=False))
    column = decoded(column)
    missing = column.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(column.type):
        values = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
        ranks = np.unique(values, return_inverse=True)[1] + 1
    else:
        encoded = column.dictionary_encode()
        order = pc.sort_indices(encoded.dictionary).to_numpy()
        rank_of = np.empty(order.size + 1, np.int64)
        rank_of[order] = np.arange(1, order.size + 1)
        ranks = rank_of[pc.fill_null(pc.cast(encoded.indices, pa.int64()), order.size).to_numpy(zero_copy_only=False)]
    return np.where(missing, 0, ranks)
