"""The embedded runtime: one process, Arrow in, Arrow out.

A whole table is sorted by stream order if it is not; a stream of batches must come in stream order and is matched in memory
bounded by the window.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.errors import DataError
from kleene.common.schema import EventSchema
from kleene.engine.matcher import Matcher, Metrics

SLICE = 1 << 22
"""Rows handed to the engine at a time."""


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
        return events
    if isinstance(events, pa.RecordBatch):
        return pa.Table.from_batches([events])
    if type(events).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(events, preserve_index=False)
    if hasattr(events, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(events)
        # Whatever is held in memory as a whole (a Polars frame, say) may be sorted; a reader is a stream.
        return reader if type(events).__name__.endswith("Reader") else reader.read_all()
    raise DataError(
        f"events are of type {type(events).__module__}.{type(events).__qualname__}: neither a Spark DataFrame nor a thing with "
        "the Arrow C stream interface\n  hint: pass a Spark, pandas or Polars DataFrame, a pyarrow Table or RecordBatchReader"
    )


def in_stream_order(table: pa.Table, schema: EventSchema) -> pa.Table:
    """The table sorted by time and `order_by`; itself if it is sorted already."""
    names = [schema.time, *schema.order_by]
    if len(names) == 1 and _ascends(table.column(schema.time)):
        return table
    keys = [(name, "ascending", "at_start") for name in names]
    order = pc.sort_indices(table.select(names), sort_keys=keys)
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
        if len(values) > 1 and not pc.all(pc.less_equal(values[:-1], values[1:])).as_py():
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


def match_batches(matcher: Matcher, events: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Matches as they become certain."""
    for batch in events:
        yield from matcher.feed(batch)
    yield from matcher.finish()


def run_embedded(matcher: Matcher, events: pa.Table | pa.RecordBatchReader, schema: EventSchema) -> Run:
    """Matches all events."""
    ordered = in_stream_order(events, schema) if isinstance(events, pa.Table) else events
    found = list(match_batches(matcher, batches_of(ordered)))
    matches = pa.Table.from_batches(found, matcher.output_schema)
    aside = matcher.bad_rows.batches
    bad_schema = aside[0].schema if aside else events.schema.append(pa.field("reason", pa.string()))
    if aside:
        warnings.warn(f"{matcher.metrics.bad:,} bad rows were set aside (see Run.bad_rows)", stacklevel=4)
    return Run(matches, pa.Table.from_batches(aside, bad_schema), matcher.metrics)
