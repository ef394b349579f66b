"""A checkpoint of Spark with the state of a stream, as a version of the library left it: later versions go on from it.

Run as a script, it writes the checkpoint as this version does:

    python tests/support/stream_checkpoint.py tests/data/checkpoint_v1

Its one bucket has matches that are due by a timer, events that wait, and a watermark; nothing has been reported. `CHECKPOINT`
stands for the folder of the checkpoint, which Spark writes into it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow as pa
import pyarrow.parquet as pq

import kleene

TEXT = "PATTERN SEQ(A a, !(B b)) WHERE [k] WITHIN 10 minutes RETURN a.x AS x"
OPTIONS: dict[str, Any] = {"time": "ts", "type": "type", "watermark": "5 minutes", "buckets": 1}
SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("type", pa.string()), ("k", pa.int64()), ("x", pa.int64())],
)
MINUTE = 60_000_000
BEGIN = 1_704_067_200_000_000
"""The beginning of 2024."""

BEFORE = [(0, "A", 1, 1), (1, "A", 2, 2), (2, "B", 2, 3), (8, "A", 1, 4)], [(9, "A", 2, 5), (7, "A", 3, 6), (14, "A", 4, 7)]
"""Files of events that had come, by the minute: the watermark is at 9 minutes, and 7 is waiting till then."""


def table(rows: Any) -> pa.Table:
    """Events, each (minute, type, k, x)."""
    columns = [[BEGIN + int(row[0] * MINUTE) for row in rows], *([row[place] for row in rows] for place in (1, 2, 3))]
    arrays = [pa.array(column, item.type) for column, item in zip(columns, SCHEMA, strict=True)]
    return pa.table(arrays, schema=SCHEMA)


def deliver(folder: Path, number: int, rows: Any) -> None:
    """Another file of events in the folder that the stream reads."""
    (folder / "in").mkdir(exist_ok=True)
    pq.write_table(table(rows), folder / "file")
    os.utime(folder / "file", (number + 1, number + 1))  # Spark reads the oldest first
    (folder / "file").rename(folder / "in" / f"{number:04}.parquet")


def run(spark: Any, folder: Path, **further: Any) -> list[dict[str, Any]]:
    """Lets the stream read what is there; the metrics of its micro-batches."""
    columns = "ts timestamp, type string, k long, x long"
    events = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    sinks = {kind: str(folder / kind) for kind in ("matches", "late", "bad_rows")}
    stream = kleene.query(TEXT, name="quiet").run(events, **{**OPTIONS, **further})
    query = stream.write(sinks, checkpoint=str(folder / "checkpoint"), trigger={"availableNow": True})
    query.awaitTermination()
    return [progress["observedMetrics"]["kleene"].asDict() for progress in query.recentProgress]


if __name__ == "__main__":
    from support.spark import classic_session

    with tempfile.TemporaryDirectory() as name:
        made = Path(name)
        for place, rows in enumerate(BEFORE):
            deliver(made, place, rows)
        for row in run(classic_session(), made):
            print(row)
        assert not any((made / "matches").glob("batch=*"))
        shutil.copytree(made / "checkpoint", sys.argv[1], ignore=shutil.ignore_patterns("*.crc"))
        described = Path(sys.argv[1]) / "state" / "0" / "_metadata" / "v2" / "0"
        described.write_text(described.read_text().replace(f"file:{made / 'checkpoint'}", "CHECKPOINT"))
