"""The suite of streams: which experiments there are. Each has processes of its own, and none is left without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.harness import Experiment
from benchmarks.streaming.latency import latency
from benchmarks.streaming.memory import memory
from benchmarks.streaming.streams import NAMED, SCALES, SEED, TYPES, Scale
from benchmarks.streaming.throughput import throughput
from benchmarks.suite import Suite

EXPERIMENTS: dict[str, Callable[[Scale], Experiment]] = {"throughput": throughput, "memory": memory, "latency": latency}


def _run(names: Sequence[str], scale: Scale, events_folder: Path, jvm: bool) -> Iterator[Experiment]:  # noqa: ARG001
    for name in names:
        yield EXPERIMENTS[name](scale)


SUITE = Suite(
    name="streaming",
    about="Structured Streaming: throughput, memory, latency",
    experiments=tuple(EXPERIMENTS),
    headlines=("throughput",),
    only_jvm=frozenset(EXPERIMENTS),
    scales=SCALES,
    packages=("kleene", "numba", "numpy", "pyarrow", "pyspark"),
    seed=SEED,
    parameters={"types": len(TYPES), "named": len(NAMED)},
    run=_run,
)
