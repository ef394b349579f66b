"""The suite of scale: which experiments there are. Each has processes of its own, and none is left without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import suite
from benchmarks.harness import Experiment, Measurement, Point, measure
from benchmarks.scale.jobs import Job, apart, contender, run_job, session_of
from benchmarks.suite import Suite

SEED = 2006
TYPES, RELEVANT = "ABCDEFGHIJKLMNOPQRST", "ABC"
"""Of all events, and of the queries."""
ONE, TWO, HALF, WHOLE = "1 core", "2 cores", "1 core, half of the events", "2 cores, not sliced"
APART = "two sessions of 1 core, half of the events each"
SHORT, LONG = 200, 60_000
"""Windows with little to match, so that reading takes the time, and with much."""
SHARES = (0.001, 0.01, 0.05, 0.1, 0.25)
"""Windows, as shares of all events. The first one is the model's unit."""
SLICES = 4
CHOSEN = "2 cores, slices as chosen"
WARM_UP = 4
"""A JVM gets faster for minutes."""

UNKEYED = (
    "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x AND c.x < a.x + 3 WITHIN {window} "
    "RETURN a.ts AS t1, b.ts AS t2, c.ts AS t3"
)
KEYED = UNKEYED.replace("WHERE", "WHERE [key] AND")
NEXT = (
    "PATTERN SEQ(A a, B b, C c) WHERE skip_till_next_match(a, b, c) { a.x < b.x AND b.x < c.x } WITHIN {window} "
    "RETURN a.ts AS t1, b.ts AS t2, c.ts AS t3"
)
RISING = "PATTERN SEQ(A a, B b, C c) WHERE [key] AND a.x < b.x AND b.x < c.x WITHIN {window} RETURN a.ts AS t1, c.ts AS t3"

EVEN, LIGHT, NONE, HOT = "a key", "no key, little to match", "no key", "one key has 90 % of the events"
CASES = ((EVEN, RISING, LONG, 0.0), (LIGHT, UNKEYED, SHORT, 0.0), (NONE, UNKEYED, LONG, 0.0), (HOT, KEYED, 100_000, 0.9))
"""Queries, their windows, and the share of the events that one key has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale(suite.Scale):
    """How big a run is."""

    events: int
    many: int
    cases: tuple[int, ...] = (0, 1, 2, 3)
    """Of the experiment on cores, by place."""


SCALES = {
    "full": Scale(name="full", events=10_000_000, many=100_000_000, repeats=3),
    "quick": Scale(name="quick", events=4_000_000, many=20_000_000, repeats=1, thin=True, cases=(1,)),
    "tiny": Scale(name="tiny", events=600_000, many=1_200_000, repeats=1, thin=True),
}


def parquet_events(folder: Path, count: int, share: float, types: str = TYPES) -> str:
    """A file of events, written once, of which one key has a share; the others are of a thousand keys."""
    path = folder / f"scale-{count}-{share}-{len(types)}.parquet"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(SEED)
        keys = np.where(rng.random(count) < share, 0, rng.integers(1, 1_001, count)).astype(np.int32)
        kinds = pa.DictionaryArray.from_arrays(rng.integers(0, len(types), count, np.int32), pa.array(list(types)))
        table = pa.table(
            {
                "ts": np.arange(count, dtype=np.int64),
                "type": kinds.cast(pa.string()),
                "key": keys,
                "x": rng.integers(0, 1_000, count, np.int32),
            }
        )
        pq.write_table(table, path, row_group_size=500_000)
    return str(path)


def cores(scale: Scale, folder: Path) -> Experiment:
    """Queries whose events are divided by a key, hardly, and not at all."""
    points = []
    for case, query, window, share in (CASES[place] for place in scale.cases):
        text, path = query.replace("{window}", str(window)), parquet_events(folder, scale.events, share)
        half = parquet_events(folder, scale.events // 2, share)
        with session_of(1) as one, session_of(1, 1) as other, session_of(2) as two:
            found = measure(
                [contender(ONE, one, Job(text, path)), contender(TWO, two, Job(text, path))],
                events=scale.events,
                parameters={"case": case, "window": window},
                baseline=ONE,
                repeats=scale.repeats,
                warm_up=WARM_UP,
            )
            others = [
                measure([item], events=events, parameters={}, baseline=item.name, repeats=scale.repeats, warm_up=warm_up)
                for item, events, warm_up in (
                    (contender(HALF, one, Job(text, half)), scale.events // 2, 1),
                    (contender(WHOLE, two, Job(text, path, slices=1)), scale.events, 1),
                    (apart(APART, (one, other), Job(text, half)), scale.events, WARM_UP),
                )
            ]
        points.append(Point(found.parameters, ONE, (*found.measurements, *(item.measurements[0] for item in others))))
    return Experiment(
        "cores",
        "Two cores beside one, where a key divides the events, where none does, and where one key has most of them",
        axis="case",
        headline="1.7 times as fast without a key, 1.6 times with one key that has 90 % of the events",
        clock="wall",
        points=tuple(points),
    )


def lead(scale: Scale, folder: Path) -> Experiment:
    """Windows that are long beside slices, of which there are as many on one core and on two."""
    count = scale.events * 6 // 10
    path, points = parquet_events(folder, count, 0.0, RELEVANT), []
    with session_of(1) as one, session_of(2) as two:
        for share in SHARES:
            window = int(share * count)
            text = NEXT.replace("{window}", str(window))
            points.append(
                measure(
                    [
                        contender(ONE, one, Job(text, path, slices=SLICES)),
                        contender(TWO, two, Job(text, path, slices=SLICES)),
                        contender(CHOSEN, two, Job(text, path)),
                        contender(WHOLE, two, Job(text, path, slices=1)),
                    ],
                    events=count,
                    parameters={"share": share, "window": window},
                    baseline=WHOLE,
                    repeats=scale.repeats,
                    warm_up=WARM_UP if not points else 1,
                )
            )
    return Experiment(
        "lead",
        "Slices, as the window grows: the model beside what is measured",
        axis="share",
        headline="what the model says of copies, of the stage that matches, and of two cores",
        clock="wall",
        points=tuple(points),
    )


def many(scale: Scale, folder: Path) -> Experiment:  # noqa: ARG001 - events are made on the fly
    """Very many events, made on the fly."""
    points = []
    for case, query, window in ((EVEN, RISING, 1_000_000), (NONE, NEXT, 2_000)):
        with session_of(2) as two:
            seconds, work, matches = two.submit(run_job, Job(query.replace("{window}", str(window)), str(scale.many))).result()
        found = Measurement(TWO, scale.many, matches, (seconds["wall"],), (seconds["cpu"],), work)
        points.append(Point({"case": case, "window": window}, TWO, (found,)))
    return Experiment(
        "many",
        "Memory for very many events",
        axis="case",
        headline="bounded by a slice, or by what is sorted at a time, not by the number of events",
        clock="wall",
        points=tuple(points),
    )


EXPERIMENTS: dict[str, Callable[[Scale, Path], Experiment]] = {"cores": cores, "lead": lead, "many": many}


def _run(names: Sequence[str], scale: Scale, events_folder: Path, jvm: bool) -> Iterator[Experiment]:  # noqa: ARG001
    for name in names:
        yield EXPERIMENTS[name](scale, events_folder)


SUITE = Suite(
    name="scale",
    about="Spark on one core and two, slices of time, very many events",
    experiments=tuple(EXPERIMENTS),
    headlines=("cores",),
    only_jvm=frozenset(EXPERIMENTS),
    scales=SCALES,
    packages=("kleene", "numba", "numpy", "pyarrow", "pyspark"),
    seed=SEED,
    parameters={"types": len(TYPES)},
    run=_run,
)
