"""What the footers of Parquet files say: their row groups, and between which times the rows of each are.

Footers are read in parallel, and kept: a file is known by its path, size and time of change. A file that pyarrow and Spark
might read differently is refused, in words.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kleene.common.arrays import EVER, LONG_AGO
from kleene.runtime.spark.direct.scan import NotDirectError

READERS = 8
"""Number of footers that are read at a time."""

KEPT = 20_000
"""Number of files whose footers are kept."""

OLDEST = -2_208_988_800_000_000
"""The year 1900, in microseconds: before, old writers counted days and time zones in another way."""

MICROSECONDS = {"ms": 1_000, "us": 1}
DAY = 24 * 60 * 60 * 1_000_000


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group of a file, and when its rows are."""

    file: int
    number: int
    rows: int
    first: int
    last: int
    """The times of its first and last row, in the engine's unit."""
    timeless: bool
    """Whether rows may be without a time."""


@dataclass(frozen=True, slots=True)
class File:
    """A file as it was when the query was planned."""

    path: str
    size: int
    changed: int
    """When it was written last, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class _Footer:
    """What is kept of a file."""

    file: File
    schema: pa.Schema
    metadata: pq.FileMetaData


_kept: OrderedDict[File, _Footer] = OrderedDict()


def row_groups(
    paths: Sequence[str],
    time: str,
    unit: str | None,
    expected: Mapping[str, pa.DataType],
    types: tuple[str, Collection[str]] | None,
) -> tuple[tuple[File, ...], tuple[RowGroup, ...]]:
    """The files and their row groups; NotDirectError if these columns are not of the `expected` types in one of them.

    `time` is the time column in the files, `unit` that of the engine. Row groups without an event of some types are left out:
    `types` has their column in the files, and which they are.
    """
    with ThreadPoolExecutor(READERS) as readers:
        footers = list(readers.map(_footer, paths))
    groups: list[RowGroup] = []
    for number, footer in enumerate(footers):
        places = _places(footer, expected)
        for place in range(footer.metadata.num_row_groups):
            group = footer.metadata.row_group(place)
            for name, column in places.items():
                _require_recent(group.column(column), footer.schema.field(name).type, footer.file.path)
            if group.num_rows and (types is None or _may_have(group.column(places[types[0]]), types[1])):
                first, last, timeless = _times(group.column(places[time]), footer.schema.field(time).type, unit)
                groups.append(RowGroup(number, place, group.num_rows, first, last, timeless))
    return tuple(footer.file for footer in footers), tuple(groups)


def file_at(path: str) -> File:
    """A file as it is."""
    found = Path(path).stat()
    return File(path, found.st_size, found.st_mtime_ns)


def _footer(path: str) -> _Footer:
    try:
        file = file_at(path)
        kept = _kept.get(file)
        if kept is None:
            with pq.ParquetFile(path) as opened:
                kept = _Footer(file, opened.schema_arrow, opened.metadata)
            _kept[file] = kept
            while len(_kept) > KEPT:
                _kept.popitem(last=False)
        return kept
    except (OSError, pa.ArrowException) as error:
        raise NotDirectError(f"the footer of {path} cannot be read: {str(error).partition(chr(10))[0]}") from error


def _places(footer: _Footer, expected: Mapping[str, pa.DataType]) -> dict[str, int]:
    """Where the columns are in the row groups."""
    path = footer.file.path
    known = footer.schema.metadata or {}
    if any(name.startswith(b"org.apache.spark.legacy") for name in {**known, **(footer.metadata.metadata or {})}):
        raise NotDirectError(f"{path} has dates of an old calendar")
    stored = {footer.metadata.schema.column(place).path: place for place in range(footer.metadata.num_columns)}
    for name, kind in expected.items():
        if name not in footer.schema.names or name not in stored:
            raise NotDirectError(f"{path} has no column '{name}'")
        own = footer.schema.field(name).type
        if footer.metadata.schema.column(stored[name]).physical_type == "INT96" or not alike(own, kind):
            raise NotDirectError(f"column '{name}' of {path} is stored as {own}")
    return {name: stored[name] for name in expected}


def alike(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Spark and Arrow read a stored type as the same values of the wanted one.

    >>> alike(pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")), alike(pa.timestamp("us"), pa.timestamp("us", "UTC"))
    (True, False)
    """
    if pa.types.is_timestamp(wanted):
        if not pa.types.is_timestamp(stored) or stored.unit not in MICROSECONDS:
            return False
        return (stored.tz is None) == (wanted.tz is None)
    if pa.types.is_string(wanted):
        return bool(pa.types.is_string(stored) or pa.types.is_large_string(stored))
    plain = pa.types.is_signed_integer(wanted) or pa.types.is_floating(wanted) or pa.types.is_boolean(wanted)
    return bool((plain or pa.types.is_date32(wanted)) and stored == wanted)


def _require_recent(column: Any, kind: pa.DataType, path: str) -> None:
    """That no date or time is so old that writers differ in what they meant."""
    if not pa.types.is_temporal(kind) or column.num_values == 0:
        return
    found = column.statistics
    if found is None or not found.has_min_max:
        if found is not None and found.has_null_count and found.null_count == column.num_values:
            return
        raise NotDirectError(f"{path} has no statistics of '{column.path_in_schema}'")
    if int(found.min_raw) * _microseconds(kind) < OLDEST:
        raise NotDirectError(f"{path} has times before 1900")


def _may_have(column: Any, types: Collection[str]) -> bool:
    """Whether a row group may have an event of one of some types, or of none, as a NULL is."""
    found = column.statistics
    if found is None or not found.has_min_max or not found.has_null_count or found.null_count:
        return True
    return any(found.min <= name <= found.max for name in types)


def _times(column: Any, kind: pa.DataType, unit: str | None) -> tuple[int, int, bool]:
    """The first and last time of a row group, and whether rows may be without one."""
    found = column.statistics
    if found is None or not found.has_min_max:
        only_nulls = found is not None and found.has_null_count and found.null_count == column.num_values
        return (EVER, LONG_AGO, True) if only_nulls else (LONG_AGO, EVER, True)
    timeless = not found.has_null_count or found.null_count > 0
    factor = 1 if unit is None else _microseconds(kind)
    return int(found.min_raw) * factor, int(found.max_raw) * factor, timeless


def _microseconds(kind: pa.DataType) -> int:
    """How many microseconds the unit of dates or times is."""
    return DAY if pa.types.is_date(kind) else MICROSECONDS[kind.unit]
