"""Columns as buffers that a browser reads without conversion, and all buffers as one compressed text.

A dictionary describes a column: its kind and its buffers; the layout is Arrow's, with a byte per value for validity. Texts are
dictionary-encoded. Other types are shown as text.

Cost: a few Arrow kernels for each column. Only values of rare types (binary, intervals) are converted one by one, each distinct
one once.
"""

from __future__ import annotations

import base64
import gzip
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.columns import decoded

NAMES = {"i32": np.int32, "i64": np.int64, "f64": np.float64, "u8": np.uint8}
LISTS = (
    pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view, pa.types.is_large_list_view,
    pa.types.is_map,
)  # fmt: skip
BINARY = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
ALIGNMENT = 8
"""Alignment of buffers: typed arrays of a browser start at multiples of the size of their values."""
LONGEST = 2_000
"""Maximum characters of a text; of a longer one the beginning is embedded, with the number of omitted characters."""


class Payload:
    """Buffers one after the other."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, values: Array, kind: str) -> dict[str, Any]:
        """Appends an array; returns its position."""
        data = np.ascontiguousarray(values, NAMES[kind]).tobytes()
        place = {"at": self._size, "count": int(values.size), "type": kind}
        self._pieces.append(data + bytes(-len(data) % ALIGNMENT))
        self._size += len(self._pieces[-1])
        return place

    def text(self) -> str:
        """All buffers, compressed, in base64; equal buffers give equal texts."""
        return base64.b64encode(gzip.compress(b"".join(self._pieces), compresslevel=6, mtime=0)).decode("ascii")


def encode(column: pa.Array, payload: Payload) -> dict[str, Any]:
    """A column as kind and buffers."""
    column = decoded(column)
    kind = column.type
    if pa.types.is_null(kind):
        return {"kind": "null", "count": len(column)}
    if pa.types.is_struct(kind):
        children = {field.name: encode(pc.struct_field(column, [place]), payload) for place, field in enumerate(kind)}
        return {"kind": "struct", "valid": _valid(column, payload), "children": children}
    if any(is_such(kind) for is_such in LISTS):
        return _lists(column, payload)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        values = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        buffers = {"valid": _valid(column, payload), "values": payload.add(values, "i64")}
        what = {"kind": "time", "zone": kind.tz} if pa.types.is_timestamp(kind) else {"kind": "duration"}
        return {**what, "unit": kind.unit, **buffers}
    if pa.types.is_boolean(kind):
        values = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
        return {"kind": "bool", "valid": _valid(column, payload), "values": payload.add(values, "u8")}
    if kind == pa.float64():
        values = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False)
        return {"kind": "float", "valid": _valid(column, payload), "values": payload.add(values, "f64")}
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return _integers(column, payload)
    return _texts(column, payload)


def _valid(column: pa.Array, payload: Payload) -> dict[str, Any] | None:
    return payload.add(column.is_valid().to_numpy(zero_copy_only=False), "u8") if column.null_count else None


def _integers(column: pa.Array, payload: Payload) -> dict[str, Any]:
    values = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    limits = np.iinfo(np.int32)
    small = not values.size or (values.min() >= limits.min and values.max() <= limits.max)
    return {"kind": "int", "valid": _valid(column, payload), "values": payload.add(values, "i32" if small else "i64")}


def _lists(column: pa.Array, payload: Payload) -> dict[str, Any]:
    if pa.types.is_map(column.type):
        column = column.cast(pa.list_(pa.struct([column.type.key_field, column.type.item_field])))
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(column) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    buffers = {"valid": _valid(column, payload), "offsets": payload.add(offsets, "i32")}
    return {"kind": "list", **buffers, "child": encode(pc.list_flatten(column), payload)}


def _texts(column: pa.Array, payload: Payload) -> dict[str, Any]:
    encoded = _as_text(column).dictionary_encode()
    distinct = _shortened(encoded.dictionary)
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    size = pc.sum(pc.binary_length(distinct)).as_py() or 0
    _, offsets, data = distinct.buffers()
    count = len(distinct)
    begins = np.frombuffer(offsets, np.int32, count + 1, 4 * distinct.offset) if count else np.zeros(1, np.int32)
    bytes_ = np.frombuffer(data, np.uint8, size, int(begins[0])) if size else np.empty(0, np.uint8)
    places = {"codes": payload.add(codes, "i32"), "offsets": payload.add(begins - begins[0], "i32")}
    return {"kind": "text", **places, "bytes": payload.add(bytes_, "u8")}


def _as_text(column: pa.Array) -> pa.Array:
    """Values as text, by Arrow where it can."""
    if pa.types.is_string(column.type):
        return column
    if not any(is_such(column.type) for is_such in BINARY):
        try:
            return pc.cast(column, pa.string())
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            pass  # it has no words for this type: Python does
    try:
        distinct = column.dictionary_encode()
    except pa.ArrowNotImplementedError:
        return pa.array([_words(value) for value in column.to_pylist()], pa.string())
    words = pa.array([_words(value) for value in distinct.dictionary.to_pylist()], pa.string())
    return words.take(distinct.indices)


def _words(value: Any) -> str | None:
    return None if value is None else value.hex() if isinstance(value, bytes) else str(value)


def _shortened(texts: pa.Array) -> pa.Array:
    lengths = pc.utf8_length(texts)
    if not len(texts) or pc.max(lengths).as_py() <= LONGEST:
        return texts
    rest = pc.cast(pc.subtract(lengths, LONGEST), pa.string())
    cut = pc.binary_join_element_wise(pc.utf8_slice_codeunits(texts, 0, LONGEST), "… (", rest, " more characters)", "")
    return pc.if_else(pc.greater(lengths, LONGEST), cut, texts)
