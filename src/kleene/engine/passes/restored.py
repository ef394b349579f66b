"""State columns on their way back into matchers: what matchers rely on is checked, and anything else is damage.

A matcher uses restored values as indices. So numbers have a type and no NULLs, columns that belong together have one length,
and rows are rows of the events that are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from kleene.common.arrays import Array
from kleene.common.errors import damaged

ROW = "row"
"""The column that numbers what is known of different things, from 0 on."""


def require_names(state: Mapping[str, pa.Array], known: Iterable[str]) -> None:
    """That there are no columns which nobody takes back."""
    strange = sorted(state.keys() - set(known))
    if strange:
        raise damaged(f"it has columns {', '.join(map(repr, strange))} that its query does not know")


def integers(state: Mapping[str, pa.Array], name: str, size: int | None = None) -> Array:
    """A column of 64-bit integers, of a length."""
    return _numbers(state, name, pa.int64(), size)


def floats(state: Mapping[str, pa.Array], name: str, size: int | None = None) -> Array:
    """A column of doubles, of a length."""
    return _numbers(state, name, pa.float64(), size)


def _numbers(state: Mapping[str, pa.Array], name: str, kind: pa.DataType, size: int | None) -> Array:
    column = sized(state, name, size)
    if column.type != kind or column.null_count:
        raise damaged(f"'{name}' has {column.type}s, {column.null_count} of them NULL, where {kind}s without NULLs belong")
    return np.array(column)


def sized(state: Mapping[str, pa.Array], name: str, size: int | None) -> pa.Array:
    """A column of a length."""
    column = state.get(name)
    if column is None or (size is not None and len(column) != size):
        found = "no values" if column is None else f"{len(column)} values"
        raise damaged(f"it has {found} of '{name}'{'' if size is None else f', not {size}'}")
    return column


def values(state: Mapping[str, pa.Array], name: str, size: int, like: pa.DataType) -> pa.Array:
    """A column of values of events, of a length; a type that reads as theirs is made theirs."""
    column = sized(state, name, size)
    try:
        return column.cast(like)
    except (NotImplementedError, ValueError) as error:
        raise damaged(f"'{name}' has {column.type}s, where the events have {like}s") from error


def require_within(name: str, numbers: Array, low: int, high: int) -> Array:
    """Numbers from `low` to `high`."""
    if numbers.size and not (low <= int(numbers.min()) and int(numbers.max()) <= high):
        raise damaged(f"'{name}' goes from {numbers.min()} to {numbers.max()}, which is not within {low} to {high}")
    return numbers


def require_offsets(name: str, offsets: Array, places: Array) -> None:
    """Offsets of lists that have at least one element each."""
    if not offsets.size or offsets[0] != 0 or offsets[-1] != places.size or (np.diff(offsets) < 1).any():
        raise damaged(f"the offsets of '{name}' are not those of lists")


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Without dictionary encoding."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def carried_counters(state: Mapping[str, pa.Array], keys: Sequence[pa.DataType]) -> dict[str, pa.Array]:
    """The columns of counters that are carried on, for partitions with keys of these types."""
    if not state:
        return {}
    if ROW in state:
        return _numbered_counters(state, keys)
    rows = int(integers(state, "partitions", 1)[0])
    names = [f"key {place:03}" for place in range(len(keys))]
    require_names(state, ("partitions", "cells", "floats", *names))
    cells = integers(state, "cells")
    if rows < 1 or not cells.size or cells.size % rows or floats(state, "floats").size % rows:
        raise damaged(f"it has {cells.size} counters of {rows} partitions")
    return {**state, **{name: values(state, name, rows, kind) for name, kind in zip(names, keys, strict=True)}}


def _numbered_counters(state: Mapping[str, pa.Array], keys: Sequence[pa.DataType]) -> dict[str, pa.Array]:
    """The same as rows with numbers."""
    rows = integers(state, ROW)
    names = [f"key {place:03}" for place in range(len(keys))]
    require_names(state, (ROW, "cells", "floats", *names))
    if (rows != np.arange(rows.size)).any():
        raise damaged("partitions are missing")
    for name, kind in (("cells", pa.int64()), ("floats", pa.float64())):
        column = sized(state, name, rows.size) if name == "cells" or name in state else None
        if column is not None and not (pa.types.is_fixed_size_list(column.type) and column.type.value_type == kind):
            raise damaged(f"'{name}' has {column.type}s, where lists of {kind}s belong")
    return {**state, **{name: values(state, name, rows.size, kind) for name, kind in zip(names, keys, strict=True)}}


def require_width(cells: Array, floats: Array, wanted: tuple[int, int]) -> None:
    """Checks the number of counters, of integers and of floats, for each partition."""
    if cells.size and (cells.shape[1], floats.shape[1]) != wanted:
        raise damaged(f"it has {cells.shape[1]} and {floats.shape[1]} counters of a partition, not {wanted[0]} and {wanted[1]}")
