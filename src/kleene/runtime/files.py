"""Event files: Parquet, CSV and NDJSON, read in batches.

The kind is known by the suffix (`.parquet`, `.csv`, `.tsv`, `.ndjson`, `.jsonl`, `.arrow`, `.feather`; compressed text as
`.csv.gz` and so on). A folder, or several paths, is one stream of the files in the order of their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds

from kleene.common.errors import DataError, Problem, nearest
from kleene.runtime.encodings import plain_events

FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".ndjson": "json",
    ".jsonl": "json",
    ".json": "json",
    ".arrow": "ipc",
    ".feather": "ipc",
}
COMPRESSIONS = (".gz", ".bz2", ".zst", ".lz4")


def open_events(paths: str | Path | Sequence[str | Path], columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
    """The events of one or more files or folders as a stream of record batches.

    >>> open_events("missing.parquet")
    Traceback (most recent call last):
    ...
    kleene.common.errors.DataError: cannot read 'missing.parquet': no such file or folder
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    files = [file for path in given for file in _files(Path(path))]
    formats = {_format(file) for file in files}
    if len(formats) > 1:
        raise DataError(f"event files of different kinds cannot be read as one stream: {', '.join(sorted(formats))}")
    name = files[0].name
    try:
        options = ds.CsvFileFormat(parse_options=pa.csv.ParseOptions(delimiter="\t")) if ".tsv" in name else formats.pop()
        dataset = ds.dataset([str(file) for file in files], format=options)
        reader = dataset.scanner(columns=list(columns) if columns else None, use_threads=True).to_reader()
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise _unreadable(files, error) from error
    if _format(files[0]) == "csv":
        _require_text(files, reader.schema)
    return plain_events(pa.RecordBatchReader.from_batches(reader.schema, _guarded(reader, files)))


def _guarded(reader: pa.RecordBatchReader, files: list[Path]) -> Iterator[pa.RecordBatch]:
    try:
        yield from reader
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise _unreadable(files, error) from error


def _require_text(files: list[Path], schema: pa.Schema) -> None:
    """A column of a text file that is not UTF-8 is read as bytes, which no query can use."""
    for field in schema:
        if pa.types.is_binary(field.type):
            raise _unreadable(files, ValueError(f"column '{field.name}' is not UTF-8 text"))


def _unreadable(files: list[Path], error: Exception) -> DataError:
    shown = files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
    reason = str(error).split("\n")[0]
    hint = None
    if "utf" in reason.lower():
        hint = "event files must be UTF-8 text: convert the file, for example with iconv -f latin1 -t utf-8"
    return DataError(Problem(f"cannot read '{shown}': {reason}", hint=hint))


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith((".", "_")))
        if not found:
            raise DataError(f"cannot read '{path}': the folder has no event files")
        return found
    if not path.exists():
        raise DataError(f"cannot read '{path}': no such file or folder")
    return [path]


def _format(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    if not suffixes or suffixes[-1] not in FORMATS:
        hint = nearest(suffixes[-1] if suffixes else "", FORMATS)
        raise DataError(Problem(f"cannot tell what kind of file '{path}' is from its name", hint=hint))
    return FORMATS[suffixes[-1]]
