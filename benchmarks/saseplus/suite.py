"""The suite of SASE+'08: which experiments there are, and what each needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.harness import Experiment
from benchmarks.saseplus import backtrack, merging, runs, speed
from benchmarks.saseplus.streams import SCALES, SEED, SYMBOLS, P, Scale, W
from benchmarks.suite import Suite

EMBEDDED: dict[str, Callable[[Scale], Experiment]] = {
    "1": runs.experiment_1,
    "2": runs.experiment_2,
    "3": backtrack.experiment_3,
    "4": backtrack.experiment_4,
    "5": merging.experiment_5,
    "6": merging.experiment_6,
    "speed": speed.speed,
}
"""All of them run without a JVM (speed adds Flink when there may be one)."""


def _run(names: Sequence[str], scale: Scale, events_folder: Path, jvm: bool) -> Iterator[Experiment]:
    for name in names:
        if name == "speed" and jvm:
            from benchmarks.peers.flink.process import Flink

            with Flink() as flink:
                yield speed.speed(scale, flink, events_folder)
        else:
            yield EMBEDDED[name](scale)


SUITE = Suite(
    name="saseplus",
    about="SASE+, 2008: Kleene closure, strategies, merging of runs; Flink beside it",
    experiments=tuple(EMBEDDED),
    headlines=("4", "5"),
    scales=SCALES,
    packages=("kleene", "numba", "numpy", "pyarrow"),
    seed=SEED,
    parameters={"W": W, "symbols": SYMBOLS, "p": P},
    run=_run,
)
