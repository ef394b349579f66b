"""Encodings that the engine does not read become plain ones; all else stays the same object."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kleene.runtime.encodings import plain_events, plain_schema

TEXTS = ["a", None, "b", "a"]
WITH_NULL = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0], pa.int8()), pa.array(["a", None, "b"]))


def table(column: Any) -> pa.Table:
    return pa.table({"ts": range(4), "s": column})


@pytest.mark.parametrize("column", [pa.array(TEXTS), pa.array([1.5, None, 2.5, 3.5]), pa.array(TEXTS).dictionary_encode()])
@pytest.mark.parametrize("chunks", [1, 4])
def test_what_is_read_as_it_is_stays(column: pa.Array, chunks: int) -> None:
    given = table(pa.chunked_array([column.slice(row, 4 // chunks) for row in range(0, 4, 4 // chunks)]))
    assert plain_events(given) is given


@pytest.mark.parametrize("encoded", [WITH_NULL, pa.array(TEXTS).cast(pa.string_view()), pc.run_end_encode(pa.array(TEXTS))])
def test_other_encodings_have_the_same_values(encoded: pa.Array) -> None:
    found = plain_events(table(encoded))
    assert isinstance(found, pa.Table)
    assert found.schema == plain_schema(table(encoded).schema)
    column = found.column("s").combine_chunks()
    texts = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    assert texts.to_pylist() == TEXTS
    stream = pa.RecordBatchReader.from_batches(table(encoded).schema, table(encoded).to_batches(max_chunksize=3))
    read = plain_events(stream).read_all()
    assert read.column("ts").to_pylist() == [0, 1, 2, 3]
    assert read.schema == found.schema


def test_nothing_but_null() -> None:
    nothing = pa.DictionaryArray.from_arrays(pa.array([None] * 4, pa.int8()), pa.nulls(0))
    found = plain_events(table(nothing))
    assert pa.types.is_null(found.schema.field("s").type)
