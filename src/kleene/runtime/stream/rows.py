"""Matches of any query as rows of the same columns: the events of a match as a list, what it returns as texts by name."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.schema import EventSchema

OWN = ("query", "match_id", "match_start", "match_end", "at")
"""Columns of matches and aggregates that have a place of their own."""


def rows_schema(schema: EventSchema, events: pa.Schema) -> pa.Schema:
    """The columns of matches of any query over events."""
    time = events.field(schema.time).type
    event = pa.struct([field.with_nullable(True) for field in events])
    return pa.schema(
        [
            ("query", pa.string()),
            ("query_version", pa.int32()),
            ("match_id", pa.int64()),
            ("match_start", time),
            ("match_end", time),
            ("events", pa.list_(pa.struct([("variable", pa.string()), ("event", event)]))),
            ("returned", pa.map_(pa.string(), pa.string())),
        ]
    )


def uniform_rows(rows: pa.RecordBatch, version: int, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of one query with the columns of `rows_schema`; of an aggregate, `match_end` is its time."""
    count = rows.num_rows
    time = schema.field("match_end").type
    names = [name for name in rows.schema.names if name not in OWN]
    event = schema.field("events").type.value_type.field("event").type
    variables = [name for name in names if _is_event(rows.schema.field(name).type)]
    aggregate = "at" in rows.schema.names
    found = {
        "query": rows.column("query"),
        "query_version": pa.array(np.full(count, version, np.int32)),
        "match_id": pa.nulls(count, pa.int64()) if aggregate else rows.column("match_id"),
        "match_start": pa.nulls(count, time) if aggregate else rows.column("match_start").cast(time),
        "match_end": rows.column("at" if aggregate else "match_end").cast(time),
        "events": _events(rows, variables, event),
        "returned": _returned(rows, [name for name in names if name not in variables]),
    }
    return pa.RecordBatch.from_arrays([found[item.name].cast(item.type) for item in schema], schema=schema)


def _is_event(kind: pa.DataType) -> bool:
    return bool(pa.types.is_struct(kind.value_type if pa.types.is_list(kind) else kind))


def _events(rows: pa.RecordBatch, variables: list[str], event: pa.StructType) -> pa.Array:
    """Per match the events of all variables, in the order of the pattern."""
    matches: list[Array] = []
    values: list[pa.Array] = []
    labels: list[str] = []
    for name in variables:
        column = rows.column(name)
        held = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        if pa.types.is_list(column.type):
            lengths = np.array(pc.list_value_length(column.take(pa.array(held))))
            matches.append(np.repeat(held, lengths))
            values.append(column.take(pa.array(held)).flatten())
        else:
            matches.append(held)
            values.append(column.take(pa.array(held)))
        labels += [name] * len(values[-1])
    of_match = np.concatenate(matches) if matches else np.empty(0, np.int64)
    order = pa.array(np.argsort(of_match, kind="stable"))
    flat = pa.concat_arrays([item.cast(event) for item in values]).take(order) if values else pa.nulls(0, event)
    items = pa.StructArray.from_arrays([pa.array(labels, pa.string()).take(order), flat], ["variable", "event"])
    offsets = np.append(0, np.cumsum(np.bincount(of_match, minlength=rows.num_rows)))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items)


def _returned(rows: pa.RecordBatch, names: list[str]) -> pa.Array:
    """Per match the values of some columns as texts, by name."""
    count, width = rows.num_rows, len(names)
    texts = [_text(rows.column(name)) for name in names]
    order = pa.array(np.arange(count * width).reshape(width, count).T.ravel())
    values = pa.concat_arrays(texts).take(order) if texts else pa.array([], pa.string())
    keys = pa.array(names * count, pa.string())
    return pa.MapArray.from_arrays(pa.array(np.arange(count + 1) * width, pa.int32()), keys, values)


def _text(column: pa.Array) -> pa.Array:
    if pa.types.is_list(column.type):
        return pc.binary_join(column.cast(pa.list_(pa.string())), ", ")
    return column.cast(pa.string())
