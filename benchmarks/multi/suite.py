"""The suite of the multi-pattern paper: which experiments there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.harness import Experiment
from benchmarks.machine import one_arrow_thread
from benchmarks.multi import dynamic, paper, parts
from benchmarks.multi.streams import COUNTED, SCALES, SEED, TYPES, WINDOW, Scale
from benchmarks.suite import Suite

EXPERIMENTS: dict[str, Callable[[Scale], Experiment]] = {
    "figure10": paper.figure_10,
    "figure11a": paper.figure_11a,
    "figure11b": paper.figure_11b,
    "figure11c": paper.figure_11c,
    "figure11d": paper.figure_11d,
    "figure13": dynamic.figure_13,
    "figure14a": paper.figure_14a,
    "figure14c": paper.figure_14c,
    "parts": parts.parts,
}
"""None needs a JVM."""


def _run(names: Sequence[str], scale: Scale, events_folder: Path, jvm: bool) -> Iterator[Experiment]:  # noqa: ARG001
    with one_arrow_thread():
        for name in names:
            yield EXPERIMENTS[name](scale)


SUITE = Suite(
    name="multi",
    about="multi-pattern plans, 2019: sharing and reordering for many patterns",
    experiments=tuple(EXPERIMENTS),
    headlines=("figure10", "figure13"),
    scales=SCALES,
    packages=("kleene", "numba", "numpy", "pyarrow"),
    seed=SEED,
    parameters={"types": TYPES, "W": WINDOW, "events": COUNTED},
    run=_run,
)
