"""Where the events of a stream come from: a folder of files, Spark's rate source, a socket, or a Kafka topic.

A source is one word: a folder, or a kind and a location with a colon between them. Files are read once, in the order of their
age, and more may arrive. Sockets and topics have an event as JSON in every line or message.
"""

from __future__ import annotations

import argparse
import errno
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kleene.common.errors import DataError, Problem
from kleene.interfaces.commands import arguments as shared
from kleene.interfaces.commands.arguments import UsageError
from kleene.interfaces.commands.stream.errors import spark_message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FILES = {"parquet": "parquet", "csv": "csv", "ndjson": "json", "json": "json"}
"""File formats, with Spark's names for them."""
SUFFIXES = {**FILES, "jsonl": "json"}
COMPRESSED = ("gz", "bz2", "zst")
FORMS = "FOLDER, parquet:FOLDER, csv:FOLDER, ndjson:FOLDER, rate:N, socket:HOST:PORT, kafka:BROKERS/TOPIC"

READ_OPTIONS = {"csv": {"header": "true", "enforceSchema": "false"}}
INFERENCE = {"csv": {"inferSchema": "true"}, "json": {"inferTimestamp": "true"}}
"""Options for inferring columns: text in CSV and JSON may be a time."""


@dataclass(frozen=True, slots=True)
class Source:
    """A source."""

    kind: str
    """Spark's name of the format; empty for a folder whose files show their format."""
    place: str
    """The folder, or the part after the colon."""
    options: Mapping[str, str]
    """Spark's options for the location."""
    text: str
    """The source as written on the command line."""

    @property
    def is_json(self) -> bool:
        """Whether events come as JSON text in a column."""
        return self.kind in ("socket", "kafka")


def source(text: str) -> Source:
    """The source of a word.

    >>> source("rate:100").options, source("kafka:one:9092,two:9092/readings").options["subscribe"]
    ({'rowsPerSecond': '100'}, 'readings')
    >>> source("csv:events/today").kind, source("events/today").kind
    ('csv', '')
    """
    head, colon, place = text.partition(":")
    if not colon or head not in {**FILES, **_PLACES}:
        return Source("", text, {}, text)
    if head in FILES:
        return Source(FILES[head], place or ".", {}, text)
    form, options_of = _PLACES[head]
    options = options_of(place)
    if not all(options.values()):
        raise argparse.ArgumentTypeError(f"expected {form}, found {text!r}")
    return Source(head, place, options, text)


def read_stream(
    spark: SparkSession, source: Source, columns: list[tuple[str, str]] | None, options: Mapping[str, str]
) -> DataFrame:
    """The events as a streaming DataFrame, with the columns given or found."""
    require_columns(source, columns)
    if source.kind == "rate":
        return spark.readStream.format("rate").options(**source.options, **options).load()
    schema = None if columns is None else _spark_schema(columns)
    if source.is_json:
        assert schema is not None
        return _json_stream(spark, source, schema, options)
    return _file_stream(spark, source, schema, options)


def require_columns(source: Source, columns: list[tuple[str, str]] | None) -> None:
    """Checks that columns are given if they cannot be inferred, and not given if they are fixed."""
    if source.is_json and columns is None:
        raise UsageError(f"--columns NAME:TYPE,... is required: the columns of JSON from a {source.kind} source are unknown")
    if source.kind == "rate" and columns is not None:
        raise UsageError("--columns cannot be given: a rate source has the columns timestamp and value")


# --- files ------------------------------------------------------------------------------------------------------------


def _file_stream(spark: SparkSession, source: Source, schema: StructType | None, options: Mapping[str, str]) -> DataFrame:
    kind = source.kind or _format_of(source.place)
    reading = {**READ_OPTIONS.get(kind, {}), **options}
    if "://" not in source.place:
        _require_folder(source.place)
    if schema is None:
        schema = _schema_of_files(spark, source.place, kind, reading)
    return spark.readStream.format(kind).schema(schema).options(**reading).load(source.place)


def _format_of(folder: str) -> str:
    """The format of the files in a folder, by their names."""
    hint = f"name it, such as csv:{folder}, and give --columns if there are no files yet"
    if "://" in folder:
        raise DataError(Problem(f"cannot tell the format of the files in '{folder}'", hint=hint))
    _require_folder(folder)
    found = sorted({_suffix(path) for path in _data_files(Path(folder))})
    if not found:
        raise DataError(Problem(f"'{folder}' has no files yet, so their format is unknown", hint=hint))
    if len(found) > 1 or found[0] not in SUFFIXES:
        message = f"the files in '{folder}' must have one format, Parquet, CSV or NDJSON; found {', '.join(found)}"
        raise DataError(Problem(message, hint=f"csv:{folder} reads all of them as CSV"))
    return SUFFIXES[found[0]]


def _require_folder(folder: str) -> None:
    if not Path(folder).exists():
        raise FileNotFoundError(errno.ENOENT, "no such folder; a source is one of " + FORMS, folder)
    if not Path(folder).is_dir():
        raise DataError(Problem(f"'{folder}' is a file, but a stream is read from a folder", hint="put it into a folder"))


def _data_files(folder: Path) -> list[Path]:
    """The files that Spark would read: not those that start with a dot or an underscore."""
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    ]


def _suffix(path: Path) -> str:
    """A file's format, by its name.

    >>> _suffix(Path("a.csv.gz")), _suffix(Path("part-0.snappy.parquet")), _suffix(Path("notes"))
    ('csv', 'parquet', '(no suffix)')
    """
    suffixes = [item.lstrip(".").lower() for item in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes else "(no suffix)"


def _schema_of_files(spark: SparkSession, folder: str, kind: str, options: Mapping[str, str]) -> StructType:
    from pyspark.errors import PySparkException

    try:
        found = spark.read.format(kind).options(**INFERENCE.get(kind, {}), **options).load(folder).schema
    except PySparkException as error:
        hint = "give --columns NAME:TYPE,... if there are no files yet"
        raise DataError(
            Problem(f"cannot tell the columns of the files in '{folder}': {spark_message(error)}", hint=hint)
        ) from error
    if not found.fields:
        raise DataError(Problem(f"the files in '{folder}' have no columns", hint="give --columns NAME:TYPE,..."))
    return found


# --- JSON in lines and messages ---------------------------------------------------------------------------------------


def _json_stream(spark: SparkSession, source: Source, schema: StructType, options: Mapping[str, str]) -> DataFrame:
    """The events in the column `value`; text that is not JSON becomes NULLs, and thus a bad row."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as f

    try:
        lines = spark.readStream.format(source.kind).options(**{**source.options, **options}).load()
    except AnalysisException as error:
        if source.kind != "kafka" or "kafka" not in str(error):
            raise
        raise DataError(_no_connector()) from error
    event = f.from_json(lines["value"].cast("string"), schema).alias("event")
    return lines.select(event).select("event.*")


def _no_connector() -> Problem:
    import pyspark

    package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    return Problem("Spark's Kafka connector is missing: it is a separate package", hint=f"--packages {package}")


def _spark_schema(columns: list[tuple[str, str]]) -> StructType:
    from kleene.runtime.spark.schemas import from_arrow

    return from_arrow(shared.arrow_schema(columns))


# --- places -----------------------------------------------------------------------------------------------------------


def _rate(place: str) -> dict[str, str]:
    return {"rowsPerSecond": place if place.isdecimal() and int(place) else ""}


def _socket(place: str) -> dict[str, str]:
    host, _, port = place.rpartition(":")
    return {"host": host, "port": port if port.isdecimal() else ""}


def _kafka(place: str) -> dict[str, str]:
    brokers, _, topic = place.rpartition("/")
    return {"kafka.bootstrap.servers": brokers, "subscribe": topic, "startingOffsets": "earliest"}


_PLACES = {
    "rate": ("rate:N, a number of rows a second", _rate),
    "socket": ("socket:HOST:PORT", _socket),
    "kafka": ("kafka:BROKERS/TOPIC, such as kafka:localhost:9092/readings", _kafka),
}
