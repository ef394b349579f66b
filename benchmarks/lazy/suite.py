"""The suite of the lazy evaluation paper: which experiments there are, and what each needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.harness import Experiment
from benchmarks.lazy import choices, dynamic, paper, throughput
from benchmarks.lazy.streams import SCALES, SEED, TICKERS, WINDOW, H, Scale, T
from benchmarks.suite import Suite

EMBEDDED: dict[str, Callable[[Scale], Experiment]] = {
    "figure7": paper.figure_7,
    "figure8": paper.figure_8,
    "figure9": paper.figure_9,
    "figure10": dynamic.figure_10,
    "random200": choices.random_workloads,
    "throughput": throughput.throughput,
}
"""All of them run without a JVM (throughput adds Flink when there may be one)."""


def _run(names: Sequence[str], scale: Scale, events_folder: Path, jvm: bool) -> Iterator[Experiment]:  # noqa: ARG001
    for name in names:
        if name == "throughput" and jvm:
            from benchmarks.peers.flink.process import Flink

            with Flink(throughput.PROGRAM) as flink:
                yield throughput.throughput(scale, flink)
        else:
            yield EMBEDDED[name](scale)


SUITE = Suite(
    name="lazy",
    about="lazy evaluation, 2015: orders of binding, rare events first; Flink beside it",
    experiments=tuple(EMBEDDED),
    headlines=("figure7", "figure10"),
    scales=SCALES,
    packages=("kleene", "numba", "numpy", "pyarrow"),
    seed=SEED,
    parameters={"h": H, "T": T, "W": WINDOW, "tickers": TICKERS},
    run=_run,
)
