"""NON-OVERLAP over matches that several tasks have found: each gives its candidates, and one pass over all of them chooses.

A match that starts no later than another one which ended before it is never reported: whatever was reported until then either
lets the other one be reported, which it overlaps, or overlaps both. So of the matches that end at one event only the one that
wins is a candidate, and candidates end in the order in which they start.

Where a candidate starts and ends in stream order is given by its time and its place among the events of that instant, which is
the same for all who know the instant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.columns import time_values
from kleene.common.schema import EventSchema
from kleene.engine.matches.kernels.apart import keep_apart
from kleene.engine.matches.matches import Matches

START, END, PARTITION = "candidate_start", "candidate_end", "candidate_partition_"
"""Columns of candidates beside those of matches: the places among the events of an instant, and what divides the events."""


def candidate_schema(matches: pa.Schema, events: pa.Schema, partition: Sequence[str]) -> pa.Schema:
    """The columns of candidates."""
    divided = [pa.field(name, _plain(events.field(own).type)) for name, own in zip(_names(partition), partition, strict=True)]
    return pa.schema([*matches, pa.field(START, pa.int64()), pa.field(END, pa.int64()), *divided])


def as_candidates(
    rows: pa.RecordBatch, schema: pa.Schema, run: Any, matches: Matches, partition: Sequence[str]
) -> pa.RecordBatch:
    """Rows of matches with what the choice needs."""
    places = [pa.array(_places(run, at)) for at in (matches.first, matches.last)]
    divided = [run.events.gather(own, matches.first) for own in partition]
    columns = [*rows.columns, *places, *(item.cast(_plain(item.type)) for item in divided)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _places(run: Any, at: Array) -> Array:
    """The places of events among those of their instant, in their partition."""
    segments = np.searchsorted(run.groups.offsets, at, side="right") - 1
    instants = np.flatnonzero(np.diff(run.ts, prepend=run.ts[0] - 1) != 0)
    first = np.maximum(instants.take(np.searchsorted(instants, at, side="right") - 1), run.groups.offsets.take(segments))
    return np.asarray(at - first, np.int64)


def _names(partition: Sequence[str]) -> list[str]:
    return [f"{PARTITION}{number}" for number in range(len(partition))]


def _plain(data_type: pa.DataType) -> pa.DataType:
    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type


def order_of(partition: Sequence[str]) -> list[str]:
    """The columns by which candidates are sorted for the choice."""
    return [*_names(partition), "match_end", END]


def chosen(
    candidates: Iterable[pa.RecordBatch], schema: EventSchema, partition: Sequence[str], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The matches that are reported, of all candidates in the order of `order_of`, with these columns of matches."""
    names = _names(partition)
    state = np.zeros(3, np.int64)
    before: pa.RecordBatch | None = None
    for batch in candidates:
        if not batch.num_rows:
            continue
        last = batch.slice(0, 0) if before is None else before
        new = np.zeros(batch.num_rows, bool)
        for name in names:
            column = pa.concat_arrays([last.column(name), batch.column(name)])
            changed = pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
            new[batch.num_rows - changed.size :] |= changed
        if before is None:
            new[0] = True
        starts, ends = (time_values(batch.column(name), schema.time_unit) for name in ("match_start", "match_end"))
        start_places, end_places = (batch.column(name).to_numpy() for name in (START, END))
        kept = np.zeros(batch.num_rows, bool)
        keep_apart(new, starts, start_places, ends, end_places, state, kept)
        before = batch.slice(batch.num_rows - 1)
        yield batch.select(columns).filter(pa.array(kept))
