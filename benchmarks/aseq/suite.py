"""The suite of A-Seq: which experiments there are, and what each needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.aseq import paper, sharing, throughput, windows
from benchmarks.aseq.streams import SCALES, SEED, TICKERS, WINDOW, Scale
from benchmarks.harness import Experiment
from benchmarks.suite import Suite

EMBEDDED: dict[str, Callable[[Scale], Experiment]] = {
    "figure12": paper.figure_12,
    "figure13": paper.figure_13,
    "figure14a": paper.figure_14a,
    "figure14b": paper.figure_14b,
    "figure15": sharing.figure_15,
    "figure16a": sharing.figure_16a,
    "figure16b": sharing.figure_16b,
    "figure16c": sharing.figure_16c,
    "figure16d": sharing.figure_16d,
    "windows": windows.windows,
    "throughput": throughput.throughput,
}
"""Experiments that need no JVM."""


def _run(names: Sequence[str], scale: Scale, events_folder: Path, jvm: bool) -> Iterator[Experiment]:  # noqa: ARG001
    for name in names:
        if name == "spark":
            from benchmarks.aseq.on_spark import spark

            yield spark(scale, events_folder)
        else:
            yield EMBEDDED[name](scale)


SUITE = Suite(
    name="aseq",
    about="A-Seq, 2014: counts without matches, shared counters",
    experiments=(*EMBEDDED, "spark"),
    headlines=("figure12", "figure15", "figure16a"),
    only_jvm=frozenset({"spark"}),
    scales=SCALES,
    packages=("kleene", "numba", "numpy", "pyarrow", "duckdb", "pyspark"),
    seed=SEED,
    parameters={"W": WINDOW, "tickers": len(TICKERS)},
    run=_run,
)
