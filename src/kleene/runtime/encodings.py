"""Columns in the encodings that the engine reads: plain ones, and dictionaries whose NULLs are among the indices.

Views of strings and run-ends become plain columns, dictionaries of nothing but NULL columns of NULL. Events that have none of
that stay as they are. Cost: a look at every chunk of a dictionary; else one pass over the columns that change.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.errors import DataError, Problem


def plain_events(events: pa.Table | pa.RecordBatchReader) -> pa.Table | pa.RecordBatchReader:
    """Events whose columns the engine reads, with the same values."""
    if all(pa.types.is_primitive(kind) or pa.types.is_string(kind) for kind in events.schema.types):
        return events
    schema = plain_schema(events.schema)
    if schema.equals(events.schema) and not any(map(pa.types.is_dictionary, schema.types)):
        return events
    if isinstance(events, pa.RecordBatchReader):
        return pa.RecordBatchReader.from_batches(schema, _plain_batches(events, schema))
    given = events.columns
    columns = [_plain_column(column, field.type) for column, field in zip(given, schema, strict=True)]
    if all(new is old for new, old in zip(columns, given, strict=True)):
        return events
    return pa.Table.from_arrays(columns, schema=schema)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of `plain_events`."""
    return pa.schema([field.with_type(_plain_type(field.type)) for field in schema], schema.metadata)


def _plain_batches(events: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in events:
        columns = [_plain_array(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_run_end_encoded(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_dictionary(kind):
        values = _plain_type(kind.value_type)
        if pa.types.is_null(values):
            return values
        return kind if values == kind.value_type else pa.dictionary(kind.index_type, values, kind.ordered)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain_type(kind.value_type)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_plain_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in kind])
    return kind


def _plain_column(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind and not pa.types.is_dictionary(kind):
        return column
    given = column.chunks
    chunks = [_plain_array(chunk, kind) for chunk in given]
    if column.type == kind and all(new is old for new, old in zip(chunks, given, strict=True)):
        return column
    return pa.chunked_array(chunks, kind)


def _plain_array(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_run_end_encoded(array.type):
        return _plain_array(_without_run_ends(array), kind)
    if pa.types.is_dictionary(array.type):
        if pa.types.is_null(kind):
            return pa.nulls(len(array))
        if array.dictionary.null_count:
            array = _without_nulls_in_values(array)
    if array.type == kind:
        return array
    try:
        return array.cast(kind)
    except pa.ArrowNotImplementedError as error:
        message = f"a column of type {array.type} cannot be read: {error}"
        raise DataError(Problem(message, hint="give it without run-ends and views")) from error


def _without_run_ends(array: pa.Array) -> pa.Array:
    ends = array.run_ends.to_numpy(zero_copy_only=False)
    rows = np.arange(array.offset, array.offset + len(array))
    return array.values.take(pa.array(np.searchsorted(ends, rows, side="right")))


def _without_nulls_in_values(array: pa.DictionaryArray) -> pa.Array:
    """The same values, with NULL indices in place of indices of NULL."""
    known = array.dictionary.is_valid()
    places = pc.if_else(known, pa.array(np.cumsum(known.to_numpy(zero_copy_only=False)) - 1), None)
    indices = places.take(array.indices).cast(array.type.index_type)
    return pa.DictionaryArray.from_arrays(indices, array.dictionary.drop_null(), ordered=array.type.ordered)
