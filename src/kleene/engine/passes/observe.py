"""Statistics of events, estimated on the events themselves: rates are counted, the rest is measured on a few tuples.

Cost: bit counts over all rows, and what `kleene.engine.passes.sampling` takes to measure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kleene.common.arrays import Array
from kleene.common.columns import take, time_values
from kleene.engine.events.scan import Scan
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.expressions.failing import Noticed
from kleene.engine.matcher import BadRows, Metrics
from kleene.engine.passes.sampling import LOOKED_AT, WorkingRows
from kleene.pattern.bound import BoundQuery
from kleene.pattern.predicates import Aggregate, Attribute, Expression, walk
from kleene.plan.analysis.keys import key_attributes
from kleene.plan.contract import Scanned
from kleene.plan.order.statistics import Statistics, ticks_per_unit

PAIRS = 1024
"""How many tuples decide about a condition."""

SAMPLED_ROWS = 200_000
"""How many rows of a table are read at most."""

SLICES = 16
"""A sample has at least this many slices, unless the table is shorter, and fewer than twice as many."""


def observe(
    bound: BoundQuery,
    variables: Mapping[str, int],
    conditions: Sequence[Expression],
    partition: Sequence[str],
    working: WorkingSet,
    *,
    span: float | None = None,
    rows: int = LOOKED_AT,
    pairs: int = PAIRS,
    seed: int = 0,
) -> Statistics:
    """The statistics of a working set.

    `variables` gives the bit of each positive variable in a row's mask. `span` is how much time (under `WITHIN n EVENTS`, how
    many events) the rows stand for, in the unit of the rates, where they are not consecutive. Rates are counted on
    all rows, the rest is measured on `rows` of them.
    """
    counts = {variable: int(np.count_nonzero(working.masks & (1 << bit))) for variable, bit in variables.items()}
    if span is None:
        span = span_of(bound, working)
    measured = WorkingRows(bound, variables, partition, working, rows, seed)
    return Statistics(
        {variable: count / span for variable, count in counts.items()} if span else {},
        measured.selectivities(conditions, pairs),
        measured.same_partition(pairs),
        span,
        measured.events,
    )


def span_of(bound: BoundQuery, working: WorkingSet) -> float:
    """How much time (under `WITHIN n EVENTS`, how many events) a working set stands for, in the unit of the rates."""
    if bound.count_window is not None or len(working) == 0:
        return float(len(working))
    ts = working.ts
    return time_span(bound, int(ts[0]), int(ts[-1]), len(working))


def time_span(bound: BoundQuery, first: int, last: int, rows: int) -> float:
    """How much time rows between two times stand for, in the unit of the rates: as many gaps as rows. Rows of one instant are
    taken to fill a window.
    """
    ticks = ticks_per_unit(bound.schema)
    if last > first:
        return (last - first) / ticks * rows / (rows - 1)
    return (bound.window or ticks) / ticks


def bits_of(scanned: Scanned) -> dict[str, int]:
    """The bit of each positive variable in a row's mask."""
    return {event.variable: bit for bit, (event, _) in enumerate(scanned) if not event.negated}


def read_columns(
    bound: BoundQuery, scanned: Scanned, conditions: Iterable[Expression], partition: Iterable[str]
) -> tuple[str, ...]:
    """The columns that statistics need, in the order of the input."""
    schema = bound.schema
    needed = {schema.time, *schema.order_by, *partition, *key_attributes(bound)} | ({schema.type} if schema.type else set())
    for expression in (*conditions, *(item for _, own in scanned for item in own)):
        needed.update(node.name for node in walk(expression) if isinstance(node, Attribute | Aggregate) and node.name)
    return tuple(name for name in schema.columns if name in needed)


def scan_of(bound: BoundQuery, scanned: Scanned, metrics: Metrics) -> Scan:
    """The scan of statistics: bad rows are passed over, for they are the match's to judge."""
    events, own = [event for event, _ in scanned], [items for _, items in scanned]
    return Scan(bound, events, own, key_attributes(bound), "drop", metrics, BadRows(), noticed=Noticed())


# Tables and streams


@dataclass(frozen=True, slots=True)
class _Slice:
    """The relevant rows of consecutive rows of a table."""

    batch: pa.RecordBatch
    masks: Array
    rows: int
    """How many rows with a time it had."""
    first: int
    last: int
    end: int
    """How many rows of the table had been read at its end."""


def collect_arrow(
    bound: BoundQuery,
    scanned: Scanned,
    conditions: Sequence[Expression],
    partition: Sequence[str],
    events: pa.Table | pa.RecordBatchReader,
    *,
    rows: int = SAMPLED_ROWS,
    pairs: int = 4 * PAIRS,
    seed: int = 0,
) -> Statistics:
    """The statistics of a table or a stream in stream order, from slices of consecutive rows that are spread evenly over it."""
    columns = read_columns(bound, scanned, conditions, partition)
    metrics = Metrics()
    scan = scan_of(bound, scanned, metrics)
    slices: list[_Slice] = []
    apart, end = 1, 0
    for number, piece in enumerate(_pieces(events, max(1, rows // (2 * SLICES)))):
        end += piece.num_rows
        if number % apart == 0:
            slices.append(_slice(bound, columns, scan, piece, end))
        if len(slices) == 2 * SLICES:
            slices, apart = slices[::2], 2 * apart
    working = WorkingSet(bound.schema, columns)
    for item in slices:
        working.add(item.batch, np.arange(item.batch.num_rows), item.masks)
    span = _sampled_span(bound, [item for item in slices if item.rows], whole=apart == 1)
    return observe(bound, bits_of(scanned), conditions, partition, working, span=span, rows=rows, pairs=pairs, seed=seed)


def _pieces(events: pa.Table | pa.RecordBatchReader, size: int) -> Iterator[pa.Table]:
    """Consecutive rows, `size` at a time, without copying."""
    waiting: list[pa.RecordBatch] = []
    room = size
    for batch in events.to_reader() if isinstance(events, pa.Table) else events:
        begin = 0
        while begin < batch.num_rows:
            waiting.append(batch.slice(begin, room))
            begin += waiting[-1].num_rows
            room -= waiting[-1].num_rows
            if room == 0:
                yield pa.Table.from_batches(waiting)
                waiting, room = [], size
    if waiting:
        yield pa.Table.from_batches(waiting)


def _slice(bound: BoundQuery, columns: Sequence[str], scan: Scan, piece: pa.Table, end: int) -> _Slice:
    """The relevant rows of a piece, copied: the piece may be a small part of a batch."""
    whole = piece.select(list(columns)).combine_chunks().to_batches()[0]
    rows, masks = scan(whole)
    ts = time_values(whole.column(bound.schema.time).drop_null(), bound.schema.time_unit)
    batch = pa.RecordBatch.from_arrays([take(whole.column(name), rows) for name in columns], list(columns))
    return _Slice(batch, masks, ts.size, int(ts[0]) if ts.size else 0, int(ts[-1]) if ts.size else 0, end)


def _sampled_span(bound: BoundQuery, slices: list[_Slice], *, whole: bool) -> float:
    """How much time (how many events) slices stand for: what passes within them, or their part of all where nothing does."""
    rows = sum(item.rows for item in slices)
    if bound.count_window is not None or not slices:
        return float(rows)
    passed, gaps = sum(item.last - item.first for item in slices), sum(item.rows - 1 for item in slices)
    if whole or passed == 0:
        read = rows if whole else slices[-1].end
        return time_span(bound, slices[0].first, slices[-1].last, read) * rows / read
    return passed / ticks_per_unit(bound.schema) * rows / gaps
