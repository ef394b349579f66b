"""Jobs on Spark with so many cores and no more: each session is in a process of its own that may use these cores only."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import kleene
from benchmarks.harness import Contender, Outcome
from benchmarks.machine import descendants
from benchmarks.sase import on_spark
from benchmarks.streaming.memory import resident

ROLES: dict[str, Any] = {"time": "ts", "type": "type"}
MEGABYTE = 1 << 20
NEVER = 1 << 60
"""With so few rows there are no slices."""
EVERY = 0.5
"""Seconds between two looks at memory."""


@dataclass(frozen=True, slots=True)
class Job:
    """A query over events that are files, or made on the fly."""

    query: str
    events: str
    """A Parquet file or folder, or a number of events to make."""
    slices: int | None = None
    """Into how many slices time is cut; None where that is for the library to say."""


@contextmanager
def session_of(cores: int, first: int = 0) -> Iterator[ProcessPoolExecutor]:
    """A process with a session of so many cores, from the first one on, and no access to others."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin, (cores, first)) as pool:
        yield pool


def _begin(cores: int, first: int) -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[first : first + cores])
    on_spark.start_session(cores)


def contender(name: str, pool: ProcessPoolExecutor, job: Job) -> Contender:
    """A job in a process, which takes its own time."""

    def run() -> Outcome:
        seconds, work, matches = pool.submit(run_job, job).result()
        return Outcome(matches, work, seconds, MEGABYTE * (work["jvm"] + work["python"]))

    return Contender(name, run)


def apart(name: str, pools: Sequence[ProcessPoolExecutor], job: Job) -> Contender:
    """A job in each of some processes at the same time: as many times the events, and nothing in common."""

    def run() -> Outcome:
        found = [pool.submit(run_job, job) for pool in pools]
        seconds, work, matches = zip(*(item.result() for item in found), strict=True)
        longest = {clock: max(item[clock] for item in seconds) for clock in ("wall", "cpu")}
        return Outcome(sum(matches), {}, longest, MEGABYTE * sum(item["jvm"] + item["python"] for item in work))

    return Contender(name, run)


def run_job(job: Job) -> tuple[dict[str, float], dict[str, int], int]:
    """Runs a job to the noop sink: seconds, what it took (megabytes of memory, kilobytes shuffled, milliseconds of the stage
    that matches, slices), and the matches.
    """
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    assert session is not None
    events = _made(session, int(job.events)) if job.events.isdigit() else session.read.parquet(job.events)
    clock, shuffled = on_spark.cpu_clock(session), _shuffle_clock(session)
    with _peak(on_spark.jvm_of(session)) as peak, _cut_into(job.slices):
        wall, cpu, written = time.perf_counter(), clock(), shuffled()
        run = kleene.query(job.query).run(events, **ROLES)
        observed = _counted(run.matches)
        seconds = {"wall": time.perf_counter() - wall, "cpu": clock() - cpu}
    peak["shuffled"] = (shuffled() - written) // 1_000
    slices = run.distribution.partition(" slices")[0].rpartition(" ")[2]
    return seconds, {**peak, "matching": _last_stage(session), "slices": int(slices) if slices.isdigit() else 1}, observed


@contextmanager
def _cut_into(slices: int | None) -> Iterator[None]:
    """Jobs cut time into so many slices, as they would with as many cores and slices for each."""
    from kleene.plan.distribution import slicing
    from kleene.runtime.spark.slices import times as spark_times

    with ExitStack() as changes:
        if slices == 1:
            changes.enter_context(patch.object(slicing, "FEWEST_ROWS", NEVER))
        elif slices is not None:
            changes.enter_context(patch.object(spark_times, "parallelism", lambda _events: slices))
            changes.enter_context(patch.object(slicing, "TURNS", (1,)))
        yield


def _shuffle_clock(session: Any) -> Callable[[], int]:
    """Bytes that tasks have written for others to read."""
    spark = session.sparkContext._jsc.sc()  # noqa: SLF001 -- pyspark has no public way

    def written() -> int:
        spark.listenerBus().waitUntilEmpty()
        return int(spark.statusStore().executorSummary("driver").totalShuffleWrite())

    return written


def _last_stage(session: Any) -> int:
    """Milliseconds from the first to the last moment of the stage that ran last."""
    context = session.sparkContext
    tracker = context.statusTracker()
    job = tracker.getJobInfo(max(tracker.getJobIdsForGroup()))
    found = context._jsc.sc().statusStore().lastStageAttempt(max(job.stageIds))  # noqa: SLF001 -- pyspark has no public way
    return int(found.completionTime().get().getTime() - found.submissionTime().get().getTime())


def _counted(matches: Any) -> int:
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    observation = Observation("matches")
    matches.observe(observation, f.count(f.lit(1)).alias("n")).write.format("noop").mode("overwrite").save()
    return int(observation.get["n"])


def _made(session: Any, count: int) -> Any:
    """Events of twenty types and a hundred thousand keys, made where they are read."""
    return session.range(count).selectExpr(
        "id AS ts",
        "substring('ABCDEFGHIJKLMNOPQRST', int(pmod(xxhash64(id), 20)) + 1, 1) AS type",
        "int(pmod(xxhash64(id, 1), 100000)) AS key",
        "int(pmod(xxhash64(id, 2), 1000)) AS x",
    )


@contextmanager
def _peak(jvm: int) -> Iterator[dict[str, int]]:
    """The most memory that the JVM, and its Python workers, have at a time, in megabytes."""
    found = {"jvm": 0, "python": 0}
    over = threading.Event()

    def look() -> None:
        while not over.wait(EVERY):
            found["jvm"] = max(found["jvm"], resident([jvm]) // MEGABYTE)
            found["python"] = max(found["python"], resident(descendants(jvm)) // MEGABYTE)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()
