"""Run as a script: one key's events, more bytes than the process that matches them may have.

`python small_memory.py arrow|spark EVENTS WINDOW MEGABYTES` prints the number of matches. With `arrow` this process may have so
many megabytes more than it has at the start; with `spark` a Python worker may have so many in all.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

import kleene
from support.spark import SETTINGS

MEGABYTE = 1 << 20
TEXT = 200
"""How long the text of an event is."""
QUERY = "PATTERN SEQ(A a, B b) WHERE [key] AND a.text <= b.text WITHIN {} RETURN a.ts AS begin, b.ts AS end"
ROLES: dict[str, Any] = {"time": "ts", "type": "type"}
SCHEMA = pa.schema([("ts", pa.int64()), ("type", pa.string()), ("key", pa.int32()), ("text", pa.string())])
BATCH = 10_000


def main() -> None:
    where, events, window, megabytes = sys.argv[1], *map(int, sys.argv[2:])
    query = kleene.query(QUERY.format(window))
    print((of_arrow if where == "arrow" else of_spark)(query, events, megabytes))


def of_arrow(query: kleene.Query, events: int, megabytes: int) -> int:
    """The matches of a process that may have so much more than it has when it has matched a little."""
    _matches(query, 2 * BATCH)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = now + megabytes * MEGABYTE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return _matches(query, events)


def _matches(query: kleene.Query, events: int) -> int:
    found: pa.Table = query.match(pa.RecordBatchReader.from_batches(SCHEMA, _batches(events)), **ROLES)
    return found.num_rows


def _batches(events: int) -> Iterator[pa.RecordBatch]:
    """A and B in turn, all of one key."""
    kinds, keys = pa.array(["A", "B"] * (BATCH // 2)), pa.array([7] * BATCH, pa.int32())
    texts = pa.array(["x" * TEXT] * BATCH)
    for begin in range(0, events, BATCH):
        yield pa.record_batch([pa.array(range(begin, begin + BATCH)), kinds, keys, texts], schema=SCHEMA)


def of_spark(query: kleene.Query, events: int, megabytes: int) -> int:
    """The matches of a session with one task at a time, whose worker may have so much memory."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {**SETTINGS, "spark.default.parallelism": "1", "spark.executor.pyspark.memory": f"{megabytes}m"}
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    frame = session.range(events).selectExpr(
        "id AS ts", "if(id % 2 = 0, 'A', 'B') AS type", "7 AS key", f"repeat('x', {TEXT}) AS text"
    )
    return int(query.match(frame, **ROLES).count())


if __name__ == "__main__":
    main()
