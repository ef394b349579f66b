"""Tables to files and standard output, batch by batch: CSV, NDJSON, Parquet, Arrow.

A file appears under its name only when it is complete: it is written under a temporary name and then renamed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import io
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from kleene.common.terminal import printable
from kleene.interfaces.commands import arguments
from kleene.interfaces.commands.arguments import UsageError
from kleene.interfaces.commands.terminal import PrintableBytes, say
from kleene.interfaces.options import BAD_ROWS

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = {
    ".csv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "ndjson",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}


def format_of(path: str) -> str:
    """The format of a file, by its suffix.

    >>> format_of("matches.parquet")
    'parquet'
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(f"cannot tell the format of '{path}' from its name; use one of {', '.join(SUFFIXES)}, or --format")
    return SUFFIXES[suffix]


def add_quarantine(parser: argparse.ArgumentParser, help: str) -> None:
    """What happens to bad rows, and `--quarantine FILE` for those that are set aside."""
    arguments.add_options(parser, BAD_ROWS).add_argument("--quarantine", metavar="FILE", help=help)


def require_quarantine(given: argparse.Namespace) -> None:
    """Checks that bad rows are set aside if they are to be written, and that their file has a format."""
    if given.quarantine and given.bad_rows != "quarantine":
        raise UsageError("--quarantine FILE needs --bad-rows quarantine")
    if given.quarantine:
        format_of(given.quarantine)


def write(batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: str | None, format: str) -> None:
    """Writes batches to a file, or to standard output without one."""
    from kleene.common.columns import has_nanoseconds

    if format == "parquet" and any(has_nanoseconds(field.type) for field in schema):
        say("note: times are written with nanoseconds, as in the events; Spark cannot read these: convert them to microseconds")
    with _standard_output() if path is None else _complete(Path(path)) as sink:
        WRITERS[format](sink, schema, batches)


@contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    """Standard output with a buffer: without one (`python -u`, PYTHONUNBUFFERED) a write to a pipe may be partial."""
    raw: Any = sys.stdout.buffer
    if sys.stdout.isatty():
        raw = PrintableBytes(raw)
    if not isinstance(raw, io.RawIOBase):
        yield raw
        return
    sink = io.BufferedWriter(raw)
    try:
        yield sink
        sink.flush()
    finally:
        with suppress(BrokenPipeError):
            sink.detach()


@contextmanager
def _complete(path: Path) -> Iterator[IO[bytes]]:
    """A file that gets its name when the block succeeds, and is removed when it fails."""
    if path.exists() and not path.is_file():
        with path.open("wb") as sink:  # a device or a pipe
            yield sink
        return
    unfinished = path.with_name(path.name + ".part")
    try:
        with unfinished.open("wb") as sink:
            yield sink
    except FileNotFoundError as error:
        raise FileNotFoundError(error.errno, "no such directory", str(path.parent)) from error
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    unfinished.replace(path)


def _csv(sink: IO[bytes], schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    import pyarrow as pa
    import pyarrow.csv as pacsv

    flat = flatten(schema.empty_table()).schema
    with pacsv.CSVWriter(sink, flat) as writer:
        for batch in batches:
            writer.write_table(flatten(pa.Table.from_batches([batch])))


def _ndjson(sink: IO[bytes], schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    assert schema is not None
    for batch in batches:
        sink.write("".join(_json(row) + "\n" for row in batch.to_pylist()).encode())


def _parquet(sink: IO[bytes], schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetWriter(pa.PythonFile(sink, mode="w"), schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _arrow(sink: IO[bytes], schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """The Arrow file format if readers can seek, the stream format for a pipe."""
    import pyarrow as pa

    new = pa.ipc.new_file if sink.seekable() else pa.ipc.new_stream
    with new(pa.PythonFile(sink, mode="w"), schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


WRITERS: dict[str, Callable[[IO[bytes], Any, Iterable[Any]], None]] = {
    "csv": _csv,
    "ndjson": _ndjson,
    "parquet": _parquet,
    "arrow": _arrow,
}


def flatten(table: pa.Table) -> pa.Table:
    """The table with plain columns only: a struct becomes columns `a.x`, a list becomes JSON text."""
    import pyarrow as pa
    import pyarrow.types as pat

    while any(pat.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    for index, field in enumerate(table.schema):
        if pat.is_nested(field.type):
            texts = [None if value is None else _json(value) for value in table.column(index).to_pylist()]
            table = table.set_column(index, field.name, pa.array(texts, pa.string()))
        elif pat.is_dictionary(field.type):
            table = table.set_column(index, field.name, table.column(index).cast(field.type.value_type))
    return table


def _json(value: Any) -> str:
    try:
        text = json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), default=_plain, ensure_ascii=False, allow_nan=False)
    return text if text.isascii() else _escaped(text)


def _escaped(text: str) -> str:
    """JSON with escapes for control characters and for what UTF-8 cannot encode; it parses to the same values."""
    shown = printable(text)
    return text if shown == text else json.dumps(json.loads(text))


def _plain(value: Any) -> Any:
    """Values without a JSON type: timestamps in ISO 8601, durations in seconds, bytes in hexadecimal, the rest as text."""
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    return value.hex() if isinstance(value, bytes) else str(value)


def _finite(value: Any) -> Any:
    """NaN and infinities as null: JSON cannot represent them."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
