"""The suite of SASE'06: which experiments there are, and what each needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Experiment
from benchmarks.sase import construction, embedded, equivalence, peers
from benchmarks.sase.streams import SCALES, SEED, Scale, T, W
from benchmarks.suite import Suite

EMBEDDED: dict[str, Callable[[Scale], Experiment]] = {
    "1": construction.experiment_1,
    "2": construction.experiment_2,
    "3": equivalence.experiment_3,
    "5": peers.experiment_5,
    "6": peers.experiment_6,
    "embedded": embedded.embedded,
}
"""Experiments that need no JVM (5 adds Spark when there is one)."""


def _run(names: Sequence[str], scale: Scale, events_folder: Path, jvm: bool) -> Iterator[Experiment]:
    session = None
    try:
        for name in names:
            if jvm and session is None and name in ("5", "spark", "sql"):
                from benchmarks.sase.on_spark import start_session

                session = start_session()
            yield _experiment(name, scale, session, events_folder)
    finally:
        if session is not None:
            session.stop()


def _experiment(name: str, scale: Scale, session: Any, events_folder: Path) -> Experiment:
    if name in ("spark", "sql"):
        from benchmarks.sase import on_spark

        return (on_spark.spark if name == "spark" else on_spark.sql)(scale, session, events_folder)
    if name == "5":
        return peers.experiment_5(scale, session, events_folder)
    return EMBEDDED[name](scale)


SUITE = Suite(
    name="sase",
    about="SASE, 2006: sequence scan and construction; DuckDB and Spark SQL beside it",
    experiments=(*EMBEDDED, "spark", "sql"),
    headlines=("1", "3", "embedded"),
    only_jvm=frozenset({"spark", "sql"}),
    scales=SCALES,
    packages=("kleene", "numba", "numpy", "pyarrow", "duckdb", "pyspark"),
    seed=SEED,
    parameters={"T": T, "W": W},
    run=_run,
)
