"""COUNT on Spark, on one core and on two, relative to a job that only reads and shuffles the same rows.

All write to the `noop` sink. Clocks: wall, and CPU of the JVM with its Python workers. `embedded` is Kleene without Spark, on
one core: it reads the Parquet file and counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import kleene
from benchmarks.aseq.contenders import total
from benchmarks.aseq.streams import Scale, count_query
from benchmarks.harness import Contender, Experiment, Outcome, Point, measure
from benchmarks.machine import Memory, one_arrow_thread
from benchmarks.sase.on_spark import cpu_clock, jvm_of, parquet_events, start_session
from benchmarks.sase.streams import T
from kleene.interfaces.options import options_of

LENGTH = 4
KEYS = 1_000
LIVE = {"unkeyed": 1_000, "GROUP BY attr1": 10 * KEYS, "[attr1]": 10 * KEYS}
"""Live start events by case, over all keys."""
CORES = (1, 2)
REPEATS = 3
SHUFFLED, SPARK, EMBEDDED = "read and shuffle", "kleene", "embedded"


@dataclass(frozen=True, slots=True)
class Case:
    """A query."""

    name: str
    where: str = ""
    group_by: str = ""

    def query(self) -> kleene.Query:
        types = [f"E{place}" for place in range(1, LENGTH + 1)]
        return count_query(types, f"{LIVE[self.name] * T}", where=self.where, group_by=self.group_by)


CASES = (Case("unkeyed"), Case("GROUP BY attr1", group_by="attr1"), Case("[attr1]", where="[attr1]"))


def spark(scale: Scale, folder: Path) -> Experiment:
    return Experiment(
        "spark",
        f"COUNT of a sequence of {LENGTH} on Spark, Parquet to the noop sink",
        axis="cores",
        series="case",
        headline="close to a job that only reads and shuffles the same rows, and faster with a second core, keyed or not",
        clock="wall",
        points=tuple(_points(scale, folder)),
    )


def _points(scale: Scale, folder: Path) -> Iterator[Point]:
    path = parquet_events(folder, scale.big, KEYS)
    for cores in CORES:
        session = start_session(cores)
        try:
            for case in CASES:
                yield _point(case, cores, path, session, scale)
        finally:
            session.stop()


def _point(case: Case, cores: int, path: Path, session: Any, scale: Scale) -> Point:
    frame = session.read.parquet(str(path))
    contenders = [
        _to_nowhere(SHUFFLED, shuffled(case, frame, cores), counted=False),
        _to_nowhere(SPARK, case.query().match(frame, time="ts", type="type"), counted=True),
        _embedded(case, path),
    ]
    return measure(
        contenders,
        events=scale.big,
        parameters={"case": case.name, "cores": cores},
        baseline=SHUFFLED,
        repeats=REPEATS,
        warm_up=2,  # the JVM is still compiling during the first
        cpu=cpu_clock(session),
        memory=Memory(jvm_of(session)),
    )


def shuffled(case: Case, frame: Any, cores: int) -> Any:
    """The rows and columns that the query reads, shuffled by its key or, without one, evenly."""
    from kleene.runtime.spark.frame import arrow_schema
    from kleene.runtime.spark.push_down import relevant_events

    plan = case.query().plan_for(arrow_schema(frame), options_of({"time": "ts", "type": "type"}))
    kept = relevant_events([plan], frame)
    return kept.repartition(*plan.keys) if plan.keys else kept.repartition(cores)


def _to_nowhere(name: str, frame: Any, *, counted: bool) -> Contender:
    """Computes a DataFrame into the noop sink; its counts are added up in a job of their own, the first time."""
    known: list[int | None] = []

    def run() -> Outcome:
        frame.write.format("noop").mode("overwrite").save()
        if not known:
            known.append(_sum_of_counts(frame) if counted else None)
        return Outcome(known[0])

    return Contender(name, run)


def _sum_of_counts(frame: Any) -> int:
    from pyspark.sql import functions as f

    return int(frame.agg(f.sum(f.col("count").cast("decimal(38,0)"))).first()[0] or 0)


def _embedded(case: Case, path: Path) -> Contender:
    query, memory = case.query(), Memory()

    def run() -> Outcome:
        memory.begin()
        with one_arrow_thread():
            wall, cpu = time.perf_counter(), time.process_time()
            rows = query.match(pq.read_table(path, use_threads=False), time="ts", type="type")
            seconds = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        return Outcome(total(rows), {"rows": rows.num_rows}, seconds, memory.peak())

    return Contender(EMBEDDED, run)
