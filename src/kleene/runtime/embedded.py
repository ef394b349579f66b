"""The embedded runtime: one process, Arrow in, Arrow out.

A whole table is sorted by stream order if it is not; a stream of batches must come in stream order and is matched in memory
bounded by the window.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.columns import bytes_of, view
from kleene.common.errors import BindingError, DataError, Problem, nearest
from kleene.common.schema import EventSchema
from kleene.engine.kernels.rows import first_descent
from kleene.engine.matcher import BadRows, Found, Matcher, Metrics, RowsFound
from kleene.engine.shared.rows_once import RowsOnce
from kleene.runtime.encodings import plain_events
from kleene.runtime.units import Unit

SLICE = 1 << 22
"""Rows handed to the engine at a time."""

WORTH_SHARING = 4
"""Number of units for which one scan costs less than one each."""

SMALL = 1 << 14
"""Batches of fewer rows are joined: what a matcher does once a batch takes as long as some hundred events."""

JOINED_BYTES = 1 << 28
"""About how many bytes of a stream are joined at a time."""

SHOWN = 8
"""Columns that errors about rows show, and that stay though nothing else reads them."""

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Run:
    """A finished embedded run: matches, rows set aside, counted work."""

    matches: pa.Table
    bad_rows: pa.Table
    """With `bad_rows="quarantine"`: the rows set aside, with a `reason` column."""
    metrics: Metrics


def event_stream(events: Any) -> pa.Table | pa.RecordBatchReader:
    """Events as Arrow: a table as it is, a stream of batches as a reader; pandas, Polars, DuckDB through the Arrow C stream."""
    if isinstance(events, pa.Table | pa.RecordBatchReader):
        return plain_events(events)
    if isinstance(events, pa.RecordBatch):
        return plain_events(pa.Table.from_batches([events]))
    if type(events).__module__.partition(".")[0] == "pandas" and type(events).__name__ == "DataFrame":
        try:
            return plain_events(_without_guesses(pa.Table.from_pandas(events, preserve_index=False)))
        except (pa.ArrowException, TypeError, ValueError) as error:
            reason = ": ".join(str(part) for part in error.args)
            hint = "give every column one type and a name of its own"
            raise DataError(Problem(f"cannot read the pandas DataFrame: {reason}", hint=hint)) from error
    if hasattr(events, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(events)
        # Whatever is held in memory as a whole (a Polars frame, say) may be sorted; a reader is a stream.
        return plain_events(reader if type(events).__name__.endswith("Reader") else reader.read_all())
    raise DataError(
        f"events are of type {type(events).__module__}.{type(events).__qualname__}: neither a Spark DataFrame nor a thing with "
        "the Arrow C stream interface\n  hint: pass a Spark, pandas or Polars DataFrame, a pyarrow Table or RecordBatchReader"
    )


def _without_guesses(table: pa.Table) -> pa.Table:
    """A pandas frame that never had a row: pandas calls its columns floats, or objects, and nothing is known of them."""
    if table.num_rows or not all(pa.types.is_floating(kind) or pa.types.is_null(kind) for kind in table.schema.types):
        return table
    return pa.Table.from_arrays([pa.nulls(0)] * table.num_columns, table.column_names)


def in_stream_order(table: pa.Table, schema: EventSchema) -> pa.Table:
    """The table sorted by time and `order_by`; itself if it is sorted already."""
    names = [schema.time, *schema.order_by]
    if len(names) == 1 and _ascends(table.column(schema.time)):
        return table
    columns: list[pa.ChunkedArray] = []
    for name in names:
        column = table.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if column.null_count:
            columns.append(pc.is_valid(column))  # NULL comes first, as in Spark; only new versions of Arrow can be told so
        if pa.types.is_floating(column.type):
            columns.append(pc.fill_null(pc.is_nan(column), False))  # NaN comes last; by itself Arrow would put it beside NULL
        columns.append(column)
    keys = [(str(number), "ascending") for number in range(len(columns))]
    order = pc.sort_indices(pa.table(columns, names=[key[0] for key in keys]), sort_keys=keys)
    return table.take(order)


def _ascends(column: pa.ChunkedArray) -> bool:
    """Whether a column never descends; NULLs (bad rows) are passed over."""
    latest = None
    for chunk in column.chunks:
        values = chunk.drop_null() if chunk.null_count else chunk
        if len(values) == 0:
            continue
        if latest is not None and pc.less(values[0], latest).as_py():
            return False
        if pa.types.is_int64(values.type) or pa.types.is_timestamp(values.type):
            if first_descent(view(values.view(pa.int64()))) >= 0:
                return False
        elif len(values) > 1 and not pc.all(pc.less_equal(values[:-1], values[1:])).as_py():
            return False
        latest = values[-1]
    return True


def batches_of(events: pa.Table | pa.RecordBatchReader, rows: int = SLICE) -> Iterator[pa.RecordBatch]:
    """The record batches of a table or stream, none longer than `rows`."""
    if isinstance(events, pa.Table):
        yield from events.to_batches(max_chunksize=rows)
        return
    for batch in events:
        for begin in range(0, batch.num_rows, rows):
            yield batch.slice(begin, rows)


def joined_chunks(table: pa.Table) -> pa.Table:
    """A table with fewer chunks, if they are small."""
    is_cut = table.num_columns and table.column(0).num_chunks > 1 + table.num_rows // SMALL
    return _combined(table) if is_cut else table


def _combined(table: pa.Table) -> pa.Table:
    """A table without chunks; itself where the dictionaries of its chunks do not fit into one."""
    try:
        return table.combine_chunks()
    except pa.ArrowInvalid:
        return table


def joined_batches(events: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The record batches of a stream, several small ones as one."""
    waiting: list[pa.RecordBatch] = []
    count = most = 0
    for batch in events:
        if waiting and (count >= most or batch.num_rows >= SMALL):
            yield from _combined(pa.Table.from_batches(waiting)).to_batches()
            waiting, count = [], 0
        if batch.num_rows >= SMALL:
            yield batch
        elif batch.num_rows:
            if not waiting:
                most = min(SMALL, JOINED_BYTES * batch.num_rows // max(1, batch.nbytes))
            waiting.append(batch)
            count += batch.num_rows
    if waiting:
        yield from _combined(pa.Table.from_batches(waiting)).to_batches()


def match_batches(matcher: Matcher, events: Iterable[pa.RecordBatch]) -> Iterator[Found]:
    """What a matcher finds in events in stream order, as it becomes certain."""
    for batch in events:
        yield from matcher.feed(batch)
    yield from matcher.finish()


def rows_of(found: Iterable[Found]) -> Batches:
    """The rows of what a matcher found, where it is that of one query."""
    return (rows for _, rows in found)


def found_once(units: Sequence[Unit]) -> list[RowsFound | None]:
    """For each of some units that are matched over the same table: what finds the rows that matter to it, for all at once; None
    where the unit does so itself.
    """
    first = units[0].plan.bound.schema
    apart = [place for place, unit in enumerate(units) if unit.multi is None and unit.plan.bound.schema == first]
    if len(apart) < WORTH_SHARING or first.order_by:  # then each unit has a sorted table of its own
        return [None] * len(units)
    once = RowsOnce([units[place].plan for place in apart])
    numbers = {place: number for number, place in enumerate(apart)}
    return [partial(once.of, numbers[place]) if place in numbers else None for place in range(len(units))]


def run_unit(
    unit: Unit,
    events: pa.Table | pa.RecordBatchReader,
    *,
    bad_rows: str = "error",
    columns: tuple[str, ...] = (),
    found: RowsFound | None = None,
) -> list[Run]:
    """Matches the queries of a unit over all events: a run for each, whose matches have some of their columns or all.

    The rows that matter may be `found` already. Where there are bad rows, which are those of a query's own events, queries that
    count together are counted one by one.
    """
    matcher = unit.matcher(events.schema, bad_rows=bad_rows)
    read = None if bad_rows == "quarantine" else unit.plan.columns
    if found is not None:
        matcher.take_rows(found)
        read = None  # other units need other columns of the same batches
    matches = _tables(matcher, events, unit.plan.bound.schema, columns, read)
    if matcher.metrics.bad and len(unit.queries) > 1 and unit.plan.kind == "counters":
        assert isinstance(events, pa.Table)
        return [run for item in unit.queries for run in run_unit(item.alone, events, bad_rows=bad_rows, columns=columns)]
    return [
        _finished(matcher.bad_rows_of(query), matcher.metrics_of(query), table, events.schema)
        for query, table in enumerate(matches)
    ]


def run_embedded(matcher: Matcher, events: pa.Table | pa.RecordBatchReader, schema: EventSchema) -> Run:
    """Matches all events by the matcher of one query."""
    (matches,) = _tables(matcher, events, schema)
    return _finished(matcher.bad_rows, matcher.metrics, matches, events.schema)


def _tables(
    matcher: Matcher,
    events: pa.Table | pa.RecordBatchReader,
    schema: EventSchema,
    columns: tuple[str, ...] = (),
    read: Collection[str] | None = None,
) -> list[pa.Table]:
    """The matches of each query; of a table only the columns that are `read` are sorted and joined, if they are known."""
    wanted = [only(columns, rows) for rows in matcher.output_schemas]
    if columns:
        matcher.compute_only(columns)
    if isinstance(events, pa.Table):
        if read is not None and events.num_columns > SHOWN:
            events = events.select([place for place, name in enumerate(events.column_names) if place < SHOWN or name in read])
        events = in_stream_order(joined_chunks(events), schema)
    batches = batches_of(events)
    found: list[list[pa.RecordBatch]] = [[] for _ in wanted]
    for query, rows in match_batches(matcher, batches if isinstance(events, pa.Table) else joined_batches(batches)):
        found[query].append(rows.select(wanted[query].names))
        matcher.allowance.collected(bytes_of(found[query][-1]))
    return [pa.Table.from_batches(batches, rows) for batches, rows in zip(found, wanted, strict=True)]


def only(columns: tuple[str, ...], rows: pa.Schema) -> pa.Schema:
    """The schema of rows with these columns, in this order, or with all."""
    unknown = [name for name in columns if name not in rows.names]
    problems = [Problem(f"matches have no column '{name}'", hint=nearest(name, rows.names)) for name in unknown]
    twice = sorted({name for name in columns if columns.count(name) > 1})
    problems += [Problem(f"columns has '{name}' twice", hint="name each column once") for name in twice]
    if problems:
        raise BindingError(problems)
    return pa.schema([rows.field(name) for name in columns], rows.metadata) if columns else rows


def _finished(bad_rows: BadRows, metrics: Metrics, matches: pa.Table, events: pa.Schema) -> Run:
    """A run with its bad rows, and warnings about bad rows and dropped matches."""
    aside = [batch for batch in bad_rows.batches if batch.num_rows]
    bad_schema = aside[0].schema if aside else events.append(pa.field("reason", pa.string()))
    if aside:
        _warn(f"{metrics.bad:,} bad rows were quarantined (see Run.bad_rows)")
    dropped = dropped_at_limits(metrics)
    if dropped:
        _warn(f"{dropped}; the result is incomplete (see Run.metrics)")
    return Run(matches, pa.Table.from_batches(aside, bad_schema), metrics)


def dropped_at_limits(metrics: Metrics) -> str | None:
    """What was dropped at the limits, in words; None if nothing was.

    >>> dropped_at_limits(Metrics(dropped_runs=1200, dropped_matches=1))
    'limits reached: 1,200 runs and 1 match were dropped'
    """
    counted = ((metrics.dropped_runs, "run", "runs"), (metrics.dropped_matches, "match", "matches"))
    parts = [f"{count:,} {one if count == 1 else many}" for count, one, many in counted if count]
    if not parts:
        return None
    alone = metrics.dropped_runs + metrics.dropped_matches == 1
    return f"limits reached: {' and '.join(parts)} {'was' if alone else 'were'} dropped"


def _warn(message: str) -> None:
    """A warning that points at the caller outside Kleene, however the run was started."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith("kleene."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
