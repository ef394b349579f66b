"""How long it takes from the moment an event can be read to the moment its match is in the sink.

A process of its own writes a small file of events every so often, whose time is now. The sink notes when it has the matches.
"""

from __future__ import annotations

import datetime as dt
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Experiment, Measurement, Point
from benchmarks.streaming.contenders import CHANGELOG, KLEENE, STATELESS, apart, start_session
from benchmarks.streaming.streams import NAMED, Scale, sequence_query

EVERY = 0.2
"""Seconds between two files."""
KEYS = 10
"""Of a file, each with one match, and not of another one."""
UNTIMED = 3
"""So many micro-batches a stream takes to get going."""
WATERMARKS = ("0 seconds", "1 second")
SOON = "as soon as possible"
TRIGGERS = (SOON, "1 second")
COLUMNS = "ts timestamp, type string, key int, file int"

Seen = dict[int, float]
"""By the number of a file when it, or its matches, were there."""


@dataclass(frozen=True, slots=True)
class _Run:
    """What a stream was seen to do."""

    latencies: tuple[float, ...]
    trigger: int
    """The median time of a micro-batch in milliseconds."""

    def measurement(self, name: str) -> Measurement:
        """There is one clock only."""
        matches = len(self.latencies) * KEYS
        return Measurement(name, matches * len(NAMED), matches, self.latencies, self.latencies, {"trigger": self.trigger})


def latency(scale: Scale) -> Experiment:
    return Experiment(
        "latency",
        "From event to match, at several triggers and watermarks",
        axis="trigger",
        series="watermark",
        headline="measured and stated",
        clock="wall",
        points=apart(_points, scale),
    )


def _points(scale: Scale) -> tuple[Point, ...]:
    session = start_session()
    query = sequence_query("10 seconds", "c.file AS file")
    found = []
    for trigger in TRIGGERS:
        passed = _run(session, trigger, scale, lambda events: events.where("type = 'C'").select("file"))
        for watermark in WATERMARKS:
            for changelog in ("on", "off"):
                session.conf.set(CHANGELOG, "true" if changelog == "on" else "false")
                run = _run(
                    session,
                    trigger,
                    scale,
                    lambda events, watermark=watermark: query.match(events, time="ts", type="type", watermark=watermark),
                )
                measurements = (passed.measurement(STATELESS), run.measurement(KLEENE))
                parameters = {"trigger": trigger, "watermark": watermark, "changelog": changelog}
                found.append(Point(parameters, STATELESS, measurements))
    session.stop()
    return tuple(found)


def _run(session: Any, trigger: str, scale: Scale, matched: Callable[[Any], Any]) -> _Run:
    """Has a stream run for a while; files that come before its first micro-batches are done do not count."""
    seen: Seen = {}

    def sink(rows: Any, number: int) -> None:  # noqa: ARG001
        files = {row["file"] for row in rows.select("file").collect()}
        now = time.time()
        for file in files:
            seen.setdefault(file, now)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, _files(Path(name)) as written:
        stream = matched(session.readStream.schema(COLUMNS).parquet(f"{name}/stream"))
        writer = stream.writeStream.foreachBatch(sink).option("checkpointLocation", f"{name}/checkpoint")
        query = (writer if trigger == SOON else writer.trigger(processingTime=trigger)).start()
        while len(query.recentProgress) < UNTIMED:
            time.sleep(EVERY)
        begin = time.time()
        time.sleep(scale.seconds)
        times = written()
        query.processAllAvailable()
        query.stop()
        taken = [item.durationMs["triggerExecution"] for item in query.recentProgress[UNTIMED:] if item.numInputRows]
    latencies = tuple(seen[file] - at for file, at in times.items() if at >= begin and file in seen)
    return _Run(latencies, round(statistics.median(taken)))


@contextmanager
def _files(folder: Path) -> Iterator[Callable[[], Seen]]:
    """Writes files of events as long as this lasts; gives what ends it and says when each file was there."""
    (folder / "stream").mkdir()
    writer = multiprocessing.get_context("spawn").Process(target=drop_files, args=(folder,))

    def end() -> Seen:
        writer.terminate()
        writer.join()
        lines = (folder / "times").read_text().splitlines()
        return {int(file): float(at) for file, at in map(str.split, lines)}

    writer.start()
    try:
        yield end
    finally:
        writer.terminate()
        writer.join()


def drop_files(folder: Path) -> None:
    """Writes a file every so often, for ever, and when it was there."""
    with (folder / "times").open("w", buffering=1) as times:
        for number in count():
            begin = time.time()
            pq.write_table(events_of(number, begin), folder / "next")
            (folder / "next").rename(folder / "stream" / f"{number:06}.parquet")
            times.write(f"{number} {time.time()}\n")
            time.sleep(max(0, begin + EVERY - time.time()))


def events_of(number: int, now: float) -> pa.Table:
    """The events of a file: a match for each of its keys."""
    steps = len(NAMED)
    base = dt.datetime.fromtimestamp(now, dt.UTC)
    times = [base + dt.timedelta(microseconds=step) for step in range(steps)]
    return pa.table(
        {
            "ts": pa.array(times * KEYS, pa.timestamp("us", "UTC")),
            "type": NAMED * KEYS,
            "key": pa.array([number * KEYS + key for key in range(KEYS) for _ in NAMED], pa.int32()),
            "file": pa.array([number] * steps * KEYS, pa.int32()),
        }
    )
