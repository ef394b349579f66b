"""The suite of cliffs: an experiment for each line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.cliffs import between, columns, first
from benchmarks.cliffs.line import SCALES, SEED, Line, Scale
from benchmarks.harness import Experiment
from benchmarks.machine import one_arrow_thread
from benchmarks.suite import Check, Suite

LINES: dict[str, Line] = {line.name: line for line in (*columns.LINES, *between.LINES, *first.LINES)}


def _run(names: Sequence[str], scale: Scale, events_folder: Path, jvm: bool) -> Iterator[Experiment]:  # noqa: ARG001
    for name in names:
        with one_arrow_thread():
            yield LINES[name].experiment(scale)


def _checks(experiment: Experiment) -> list[Check]:
    return LINES[experiment.name].checks(experiment)


SUITE = Suite(
    name="cliffs",
    about="ordinary queries that cost much more than their neighbours, each beside its own baseline, with a goal",
    experiments=tuple(LINES),
    headlines=tuple(name for name in LINES if name != "queries"),
    scales=SCALES,
    packages=("kleene", "numba", "numpy", "pyarrow", "duckdb", "polars"),
    seed=SEED,
    parameters={},
    run=_run,
    checks=_checks,
)
