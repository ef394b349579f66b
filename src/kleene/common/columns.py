"""Arrow columns as NumPy views and codes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.errors import DataError, Problem

TIME_LIMIT = (1 << 62) - 1
"""The largest time to which a window can be added, and from which a time can be subtracted, within 64 bits."""


def time_values(column: pa.Array, unit: str | None) -> Array:
    """A time column without NULLs as int64 in the unit of the engine ("us", "ns", or None for plain integers)."""
    values = unchecked_times(column, unit)
    require_safe_times(values, unit)
    return values


def unchecked_times(column: pa.Array, unit: str | None) -> Array:
    """`time_values` without the check against `TIME_LIMIT`."""
    wanted = pa.int64() if unit is None else pa.timestamp(unit, getattr(column.type, "tz", None))
    try:
        return view((column if column.type == wanted else pc.cast(column, wanted)).cast(pa.int64()))
    except pa.ArrowInvalid as error:
        raise _unsafe_times(str(error)) from error


def require_safe_times(values: Array, unit: str | None) -> None:
    """Checks that times are within `TIME_LIMIT`: all of them, or the first and the last if they are sorted."""
    if values.size and (int(values.max()) > TIME_LIMIT or int(values.min()) < -TIME_LIMIT):
        raise _unsafe_times(f"{int(values.min())} .. {int(values.max())}{'' if unit is None else ' ' + unit + ' since 1970'}")


def _unsafe_times(found: str) -> DataError:
    hint = "check the column for sentinel values; nanoseconds only range from 1824 to 2116, microseconds much further"
    return DataError(Problem(f"time values beyond ±2^62 cannot be ordered safely: {found}", hint=hint))


def time_type(own: pa.DataType) -> pa.DataType:
    """The type of the times of matches; integers for a time column of only NULLs, which has no type."""
    return pa.int64() if pa.types.is_null(own) else own


def view(column: pa.Array) -> Array:
    """A fixed-width column without NULLs as a NumPy array, without a copy."""
    return np.asarray(column.to_numpy(zero_copy_only=not pa.types.is_boolean(column.type)))


def is_viewable(data_type: pa.DataType) -> bool:
    """Whether a column of this type, without NULLs, is a plain NumPy array in memory."""
    return bool(pa.types.is_integer(data_type) or pa.types.is_floating(data_type) or pa.types.is_temporal(data_type))


KEPT_NUMBERS = 1 << 22
"""The most row numbers that are cached (32 MB); longer ranges are rebuilt each time."""

_numbers = np.empty(0, np.int64)


def row_numbers(count: int) -> Array:
    """0, 1, ... count - 1, read-only: all batches whose rows all matter share this memory."""
    global _numbers
    if count > KEPT_NUMBERS:
        return np.arange(count, dtype=np.int64)
    if _numbers.size < count:
        _numbers = np.arange(min(max(count, 2 * _numbers.size), KEPT_NUMBERS), dtype=np.int64)
    return _numbers[:count]


class RepeatedText:
    """A column that repeats a text, from cached memory."""

    def __init__(self, text: str) -> None:
        self._text = pa.scalar(text)
        self._repeated = pa.array([], pa.string())

    def times(self, count: int) -> pa.Array:
        """The text, `count` times."""
        if len(self._repeated) < count:
            self._repeated = pa.repeat(self._text, count)
        return self._repeated.slice(0, count)


def take(column: pa.Array, rows: Array) -> pa.Array:
    """`column[rows]`, of the same type; fixed-width columns without NULLs go through NumPy, which is several times faster."""
    data_type = column.type
    if column.null_count == 0:
        if pa.types.is_dictionary(data_type):
            indices = take(column.indices, rows)
            return pa.DictionaryArray.from_arrays(indices, column.dictionary, ordered=data_type.ordered)
        if is_viewable(data_type) and data_type.bit_width in (8, 16, 32, 64):
            words = np.frombuffer(column.buffers()[1], dtype=f"i{data_type.bit_width // 8}")
            buffer = pa.allocate_buffer(rows.size * words.itemsize)  # Arrow keeps freed memory, NumPy returns it
            words[column.offset : column.offset + len(column)].take(rows, out=np.frombuffer(buffer, words.dtype), mode="clip")
            return pa.Array.from_buffers(data_type, rows.size, [None, buffer])
    return column.take(pa.array(rows))


def select(column: pa.Array, rows: Array) -> pa.Array:
    """`column[rows]` for strictly ascending rows; the column itself if these are all of its rows."""
    return column if rows.size == len(column) else take(column, rows)


def showable(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A column whose values Python can represent: nanoseconds are truncated to microseconds."""
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return column.cast(pa.timestamp("us", kind.tz), safe=False)
    if pa.types.is_duration(kind) and kind.unit == "ns":
        return column.cast(pa.duration("us"), safe=False)
    return column


def has_nanoseconds(kind: pa.DataType) -> bool:
    """Whether a type counts nanoseconds, or has a part that does."""
    if pa.types.is_timestamp(kind):
        return bool(kind.unit == "ns")
    if pa.types.is_dictionary(kind):
        return has_nanoseconds(kind.value_type)
    return any(has_nanoseconds(kind.field(place).type) for place in range(kind.num_fields))


def free_name(name: str, taken: Sequence[str]) -> str:
    """An unused column name: the given one, prefixed by underscores until it is free.

    >>> free_name("row", ["row", "_row"])
    '__row'
    """
    while name in taken:
        name = f"_{name}"
    return name


def concat(pieces: Sequence[pa.Array]) -> pa.Array:
    """One array of several; the only one as it is."""
    if len(pieces) == 1:
        return pieces[0]
    if pa.types.is_dictionary(pieces[0].type):
        joined = pa.chunked_array(pieces).unify_dictionaries()
        return pa.concat_arrays(joined.chunks)
    return pa.concat_arrays(pieces)


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column of a table as one array."""
    return concat(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def decoded(column: pa.Array) -> pa.Array:
    """A column without dictionary encoding."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def bytes_of(rows: pa.RecordBatch) -> int:
    """The bytes that rows take, without dictionaries, which many batches share.

    >>> bytes_of(pa.record_batch({"x": pa.array([1, 2, 3])}))
    24
    """
    return sum(_bytes_of(column) for column in rows.columns)


def _bytes_of(column: pa.Array) -> int:
    if is_viewable(column.type) and column.null_count == 0:
        return len(column) * int(column.type.bit_width) // 8  # Arrow takes longer to tell
    if pa.types.is_dictionary(column.type):
        return int(column.indices.nbytes)
    if pa.types.is_struct(column.type):
        return sum(_bytes_of(column.field(number)) for number in range(column.type.num_fields))
    if pa.types.is_list(column.type):
        return int(column.offsets.nbytes) + _bytes_of(column.values)
    return int(column.nbytes)
