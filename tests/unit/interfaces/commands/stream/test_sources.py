"""Sources of streams by their names: formats of files, and what is not there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kleene.common.errors import DataError
from kleene.interfaces.commands.stream import sources as stream_sources

# --- sources ----------------------------------------------------------------------------------------------------------


def test_sources_are_told_apart() -> None:
    source = stream_sources.source
    assert source("socket:localhost:9999").options == {"host": "localhost", "port": "9999"}
    brokers = source("kafka:one:9092,two:9092/readings").options
    assert (brokers["kafka.bootstrap.servers"], brokers["subscribe"]) == ("one:9092,two:9092", "readings")
    assert [(source(text).kind, source(text).place) for text in ("ndjson:in/x", "csv", "C:\\events", "hdfs://n/x")] == [
        ("json", "in/x"),
        ("", "csv"),
        ("", "C:\\events"),
        ("", "hdfs://n/x"),
    ]


def test_files_tell_their_format(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    pq.write_table(pa.table({"ts": [1]}), tmp_path / "day=1" / "part-0.snappy.parquet")
    for name in ("_SUCCESS", ".part-0.crc"):
        (tmp_path / name).touch()
    assert stream_sources._format_of(str(tmp_path)) == "parquet"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "has no files yet"),
        (["a.csv", "b.parquet"], "found csv, parquet"),
        (["a.csv", "notes.txt"], "found csv, txt"),
        (["a"], r"found \(no suffix\)"),
    ],
)
def test_files_that_do_not_tell_their_format(tmp_path: Path, names: list[str], message: str) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(DataError, match=message):
        stream_sources._format_of(str(tmp_path))


def test_a_source_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such folder"):
        stream_sources._format_of(str(tmp_path / "events"))
    (tmp_path / "events.csv").touch()
    with pytest.raises(DataError, match="is a file, and a stream is read from a folder"):
        stream_sources._format_of(str(tmp_path / "events.csv"))
