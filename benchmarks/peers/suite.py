"""The suite of peers: each workload by every system that can express it, on the same data in one run.

An experiment is a workload. Its points are systems beside Kleene in the same rounds: each formulation for tables in memory, all
on Spark together, and each variant of an engine on a JVM. A point has as many of the first events as its system takes about a
second for (`events`); Kleene alone has the whole stream, and Spark a longer one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.harness import Experiment, Point, measure
from benchmarks.machine import one_arrow_thread
from benchmarks.peers import engines, relational
from benchmarks.peers.contenders import KLEENE, Make, kleene, longest, require_same_matches
from benchmarks.peers.jvm import write_columns
from benchmarks.peers.streams import COLUMNS, PATTERNS, SCALES, SEED, TYPES, WORKLOADS, Scale, W, Workload
from benchmarks.suite import Suite

WHOLE, SPARK = "kleene alone", "spark"

ASKED = {"keyed": 50, "rising": 100, "rare": 10_000}
"""By workload, times Flink's throughput, beside being ahead of every formulation in SQL."""
AHEAD = "ahead of every formulation for DuckDB, Polars and Spark SQL"


def experiment(workload: Workload, scale: Scale, running: engines.Running | None, session: Any) -> Experiment:
    """A workload by all systems; without a JVM, by those that need none."""
    notes: list[str] = []
    with one_arrow_thread(), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = workload.stream(workload.events(scale))
        points = [_point(workload, table, WHOLE, {}, table.num_rows, scale)]
        points += _each(workload, table, relational.makers(workload, table), scale)
        if workload.name in relational.NOT_RELATIONAL:
            notes.append(f"No SQL, no Polars: {relational.NOT_RELATIONAL[workload.name]}.")
        if session is not None:
            from benchmarks.peers import on_spark

            longer = workload.stream(scale.spark * table.num_rows)
            path = on_spark.parquet(longer, folder / "events.parquet")
            points.append(_point(workload, longer, SPARK, on_spark.makers(workload, path, session), longer.num_rows, scale))
        if running is not None:
            found, said = _engines(workload, table, running, folder, scale)
            points, notes = [*points, *found], [*notes, *said]
    return Experiment(
        workload.name,
        workload.title,
        axis="group",
        headline=f"at least {ASKED[workload.name]:,} times Flink; {AHEAD}" if workload.name in ASKED else AHEAD,
        clock="wall",
        points=tuple(points),
        notes=tuple(notes),
    )


def _engines(
    workload: Workload, table: pa.Table, running: engines.Running, folder: Path, scale: Scale
) -> tuple[list[Point], list[str]]:
    points, notes = [], []
    path = write_columns(table, folder / "events.bin", COLUMNS)
    for engine in engines.ENGINES:
        if workload.name not in engine.jobs:
            notes.append(f"Not in {engine.name}: {engine.not_expressible[workload.name]}.")
            continue
        program = running.program(engine)
        if program is None:
            notes.append(f"Absent: {engine.name}: {running.absent[engine.name]}.")
            continue
        points += _each(workload, table, engines.makers(engine, program, workload, path), scale)
        notes.append(f"{engine.name} {engine.version}.")
    return points, notes


def _each(workload: Workload, table: pa.Table, makers: Mapping[str, Make], scale: Scale) -> list[Point]:
    """A point for each system, so that none is held to the length of another."""
    return [_group(workload, table, name, {name: make}, scale) for name, make in makers.items()]


def _group(workload: Workload, table: pa.Table, group: str, makers: Mapping[str, Make], scale: Scale) -> Point:
    events = longest(makers, workload.fewest, table.num_rows, scale.seconds * workload.patience)
    return _point(workload, table, group, makers, events, scale)


def _point(workload: Workload, table: pa.Table, group: str, makers: Mapping[str, Make], events: int, scale: Scale) -> Point:
    contenders = [kleene(workload, table.slice(0, events)), *(make(events) for make in makers.values())]
    point = measure(
        contenders,
        events=events,
        parameters={"group": group, "events": events, "window": workload.window},
        baseline=KLEENE,
        repeats=scale.repeats,
    )
    require_same_matches(point)
    return point


def _run(names: Sequence[str], scale: Scale, events_folder: Path, jvm: bool) -> Iterator[Experiment]:  # noqa: ARG001
    with ExitStack() as open_until_the_end:
        running = session = None
        if jvm:
            from benchmarks.sase.on_spark import start_session

            running = open_until_the_end.enter_context(engines.Running(fetch=scale.fetch))
            session = start_session()
            open_until_the_end.callback(session.stop)
            session.conf.set("spark.sql.shuffle.partitions", "2")
        for name in names:
            yield experiment(WORKLOADS[name], scale, running, session)


SUITE = Suite(
    name="peers",
    about="the same queries by Flink, Esper, Siddhi, Spark SQL, DuckDB and Polars",
    experiments=tuple(WORKLOADS),
    headlines=("keyed",),
    scales=SCALES,
    packages=("kleene", "numba", "numpy", "pyarrow", "duckdb", "polars", "pyspark"),
    seed=SEED,
    parameters={"T": TYPES, "W": W, "patterns": PATTERNS},
    run=_run,
)
