"""The query over a stream, and operators that only pass the events through that the query reads."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

import kleene
from benchmarks.harness import Contender, Outcome
from benchmarks.machine import Memory
from benchmarks.sase import on_spark
from benchmarks.streaming.streams import COLUMNS, FILES, NAMED, Files

KLEENE, PACKED, PER_KEY, STATELESS = "kleene", "packed pass-through", "a state per key", "stateless"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
OPTIONS: dict[str, Any] = {"time": "ts", "type": "type", "watermark": 0}
OBSERVED = "kleene"
CORES = 2

Result = TypeVar("Result")


def apart(function: Callable[..., Result], *arguments: Any) -> Result:
    """The result of a function in a process, and with a JVM, of its own: nothing is left of what was measured before."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def start_session(memory: str = "4g") -> Any:
    """A session that keeps state in RocksDB."""
    from kleene.runtime.spark.stream.run import PROVIDER, ROCKSDB

    session = on_spark.start_session(CORES, memory)
    for name, value in {PROVIDER: ROCKSDB, CHANGELOG: "true", "spark.sql.shuffle.partitions": f"{CORES}"}.items():
        session.conf.set(name, value)
    return session


def to_nowhere(name: str, session: Any, files: Files, matched: Callable[[Any], Any]) -> Contender:
    """A streaming query to the noop sink. The clocks run while it takes what comes after its first micro-batch."""
    cpu, memory = on_spark.cpu_clock(session), Memory(on_spark.jvm_of(session))

    def run() -> Outcome:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            coming = files.begin(Path(folder))
            stream = session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", FILES).parquet(f"{folder}/stream/*")
            writer = matched(stream).writeStream.format("noop").option("checkpointLocation", f"{folder}/checkpoint")
            query = writer.start()
            query.processAllAvailable()
            memory.begin()
            wall, used = time.perf_counter(), cpu()
            coming()
            query.processAllAvailable()
            seconds = {"wall": time.perf_counter() - wall, "cpu": cpu() - used}
            peak = memory.peak()
            query.stop()
            found = [item.observedMetrics[OBSERVED] for item in query.recentProgress if item.observedMetrics]
        matches = sum(item["matches"] for item in found) if name == KLEENE else None
        return Outcome(matches, {"events": sum(item["events"] for item in found)}, seconds, peak)

    return Contender(name, run)


def packed_pass_through(query: kleene.Query, events: Any) -> Any:
    """The packets of the query's own stream to an operator that counts them: a state for each bucket, a row for each packet."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    from kleene.runtime.spark.stream.packing import packed

    # Inside, so that it travels by value: workers need not be able to import this package.
    class PassThrough(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._count = handle.getValueState("count", "count long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802
            from pyspark.sql import Row

            before = self._count.get()
            count = 0 if before is None else before[0]
            for row in rows:
                count += 1
                yield Row(events=row["rows"])
            self._count.update((count,))

        def close(self) -> None:
            pass

    run = query.run(events, **OPTIONS)
    packets = packed(run.tiers[0].narrow, events, run.watermark)
    return _observed(packets.groupBy("group").transformWithState(PassThrough(), "events long", "append", "none"))


def pass_through_per_key(events: Any) -> Any:
    """The events to an operator that counts them by key."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class PassThrough(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._count = handle.getValueState("count", "count long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802
            from pyspark.sql import Row

            before = self._count.get()
            count = sum(1 for _ in rows)
            self._count.update(((0 if before is None else before[0]) + count,))
            yield Row(events=count)

        def close(self) -> None:
            pass

    kept = events.where(events["type"].isin(*NAMED))
    return _observed(kept.groupBy("key").transformWithState(PassThrough(), "events long", "append", "none"))


def without_state(events: Any) -> Any:
    """The events by key to Python, and no further."""

    def drop(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"events": [batch.num_rows]})

    kept = events.where(events["type"].isin(*NAMED))
    return _observed(kept.repartition("key").mapInArrow(drop, "events long"))


def _observed(counts: Any) -> Any:
    from pyspark.sql import functions as f

    return counts.observe(OBSERVED, f.coalesce(f.sum("events"), f.lit(0)).alias("events"))
