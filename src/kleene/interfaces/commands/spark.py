"""A local Spark session for the commands, and files of events as Spark reads them."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from kleene.common.errors import DataError, Problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PACKAGES = "spark.jars.packages"
_PACKAGES_HINT = "Spark's output above says whether it found the packages; their names are group:name:version"
_JAVA_HINT = "install Java 17 or newer (apt install openjdk-17-jre-headless, brew install openjdk@17) and set JAVA_HOME"


@contextmanager
def session(master: str, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A session for the block: the active one of this process, unchanged, or a new one with the settings, stopped at the
    end.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise DataError(Problem("Spark is not installed", hint="pip install 'kleene[spark]'")) from error
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    own = _start(master, settings or {})
    try:
        yield own
    finally:
        own.stop()


def _start(master: str, settings: Mapping[str, str]) -> SparkSession:
    """A quiet session: UTC, no web interface, workers with this interpreter."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    # Workers default to `python3` on PATH, which in a virtual environment is another Python without Kleene.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("kleene")
    builder = builder.config("spark.ui.enabled", "false").config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    quiet = files("kleene.interfaces.commands").joinpath("log4j2.properties")
    if isinstance(quiet, Path):
        builder = builder.config("spark.driver.extraJavaOptions", f'-Dlog4j2.configurationFile="{quiet.as_uri()}"')
    if master.startswith("local"):
        builder = builder.config("spark.driver.host", "localhost").config("spark.sql.shuffle.partitions", "4")
    try:
        return builder.config(map=dict(settings)).getOrCreate()
    except PySparkException as error:
        if error.getCondition() == "JAVA_GATEWAY_EXITED":
            hint = _PACKAGES_HINT if PACKAGES in settings else _JAVA_HINT
            raise DataError(Problem("Spark could not start Java", hint=hint)) from error
        raise


def require_microseconds(paths: list[str]) -> None:
    """Checks that Parquet files have no nanoseconds, which pandas writes and Spark cannot read."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    from kleene.common.columns import has_nanoseconds

    for path in paths:
        try:
            schema = ds.dataset(path, format="parquet").schema
        except (OSError, pa.ArrowException):
            continue  # Spark reports the problem
        names = [f"'{field.name}'" for field in schema if has_nanoseconds(field.type)]
        if names:
            hint = "leave out --engine spark, or write microseconds: to_parquet(..., coerce_timestamps='us')"
            raise DataError(Problem(f"'{path}' has nanoseconds in {', '.join(names)}, which Spark cannot read", hint=hint))


def read(spark: SparkSession, paths: list[str]) -> DataFrame:
    """Files of events of one format as a DataFrame."""
    suffixes = {"parquet" if Path(path).is_dir() else Path(path).suffix.lower().lstrip(".") for path in paths}
    missing = [path for path in paths if not Path(path).exists()]
    if missing:
        raise FileNotFoundError(errno.ENOENT, "no such file or directory", missing[0])
    if len(suffixes) > 1:
        raise DataError(f"all files must have one format, found {', '.join(sorted(suffixes))}")
    suffix = suffixes.pop()
    if suffix == "parquet":
        require_microseconds(paths)
        return spark.read.parquet(*paths)
    if suffix == "csv":
        return spark.read.csv(paths, header=True, inferSchema=True)
    if suffix in ("ndjson", "jsonl", "json"):
        return spark.read.json(paths)
    raise DataError(Problem(f"cannot tell the format of '{paths[0]}'", hint="use .parquet, .csv or .ndjson"))
