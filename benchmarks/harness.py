"""Measures contenders that do the same work: interleaved, repeated, wall and CPU, and only if their match counts are equal.

A time alone says little on a shared machine, so what is reported is a ratio to a named baseline measured in the same rounds.
Contenders take turns within a round and the order rotates from round to round, so a slow spell of the machine hits all of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.machine import Memory

Clock = Callable[[], float]

CLOCKS = ("cpu", "wall")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one execution found, and the work it counted."""

    matches: int | None
    """None where nothing is matched (a job with matching left out)."""
    work: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] | None = None
    """By the contender's own clocks, "wall" and "cpu", where starting a job must not count; otherwise the harness measures."""
    memory: int | None = None
    """Bytes at the peak, where the contender knows of a process of its own; otherwise the harness looks."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A named way to do the work."""

    name: str
    run: Callable[[], Outcome]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One contender at one point: seconds of every round, and the work, of the median round where it differs."""

    name: str
    events: int
    matches: int | None
    wall: tuple[float, ...]
    cpu: tuple[float, ...]
    work: Mapping[str, int]
    memory: int | None = None
    """Bytes at the peak: in this process beyond what was there before the run, of other processes all they had."""

    def seconds(self, clock: str) -> float:
        """The median over the rounds."""
        return statistics.median(self.cpu if clock == "cpu" else self.wall)

    def throughput(self, clock: str) -> float:
        """Events per second."""
        return self.events / max(self.seconds(clock), 1e-9)


@dataclass(frozen=True, slots=True)
class Point:
    """All contenders at one setting of the parameters."""

    parameters: Mapping[str, float | str]
    baseline: str
    measurements: tuple[Measurement, ...]

    def __getitem__(self, name: str) -> Measurement:
        return next(item for item in self.measurements if item.name == name)

    def ratio(self, name: str, clock: str) -> float:
        """How many times the baseline's throughput a contender has: above 1 is faster."""
        return self[name].throughput(clock) / self[self.baseline].throughput(clock)

    def spread(self, name: str, clock: str) -> tuple[float, float]:
        """The lowest and the highest ratio of any round, or of any two where the rounds are not the same."""
        this, base = self[name], self[self.baseline]
        own, theirs = ((item.cpu if clock == "cpu" else item.wall) for item in (this, base))
        scale = this.events / base.events
        pairs = zip(own, theirs, strict=True) if len(own) == len(theirs) else ((one, two) for one in own for two in theirs)
        ratios = [scale * max(two, 1e-9) / max(one, 1e-9) for one, two in pairs]
        return min(ratios), max(ratios)


@dataclass(frozen=True, slots=True)
class Experiment:
    """A series of points along one parameter."""

    name: str
    title: str
    axis: str
    """The parameter that varies."""
    headline: str
    """What the paper (or the target) says."""
    clock: str
    """The clock its ratios use: "cpu" or "wall"."""
    points: tuple[Point, ...]
    series: str | None = None
    """A second parameter, where points form several lines."""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert self.clock in CLOCKS


class Disagreement(AssertionError):  # noqa: N818 -- not a user's error: a wrong answer has no speed
    """Contenders found different numbers of matches."""


def measure(
    contenders: Sequence[Contender],
    *,
    events: int,
    parameters: Mapping[str, float | str],
    baseline: str,
    repeats: int,
    cpu: Clock = time.process_time,
    memory: Memory | None = None,
    warm_up: int = 1,
) -> Point:
    """Runs all contenders `warm_up` times, compares their counts, then times `repeats` rounds of all of them.

    `cpu` and `memory` are those of the processes that do the work, this one unless said.

    >>> two = [Contender("a", lambda: Outcome(3)), Contender("b", lambda: Outcome(3))]
    >>> point = measure(two, events=10, parameters={"L": 3}, baseline="a", repeats=2)
    >>> point.ratio("a", "wall"), len(point["b"].wall)
    (1.0, 2)
    """
    assert baseline in {contender.name for contender in contenders}
    watch = memory or Memory()
    peaks: dict[str, list[int]] = {contender.name: [] for contender in contenders}

    def note(contender: Contender, found: Outcome) -> Outcome:
        peak = watch.peak() if found.memory is None else found.memory
        peaks[contender.name] += [] if peak is None else [peak]
        return found

    def once(contender: Contender) -> Outcome:
        watch.begin()
        return note(contender, contender.run())

    outcomes = [{contender.name: once(contender) for contender in contenders} for _ in range(warm_up)][-1]
    if len({found.matches for found in outcomes.values()} - {None}) > 1:
        raise Disagreement(f"at {dict(parameters)}: { ({name: found.matches for name, found in outcomes.items()}) }")
    wall: dict[str, list[float]] = {name: [] for name in outcomes}
    used: dict[str, list[float]] = {name: [] for name in outcomes}
    work: dict[str, list[Mapping[str, int]]] = {name: [] for name in outcomes}
    for turn in range(repeats):
        first = turn % len(contenders)
        for contender in (*contenders[first:], *contenders[:first]):
            watch.begin()
            wall_before, cpu_before = time.perf_counter(), cpu()
            found = contender.run()
            wall_after, cpu_after = time.perf_counter(), cpu()
            own = note(contender, found).seconds
            work[contender.name].append(found.work)
            wall[contender.name].append(wall_after - wall_before if own is None else own["wall"])
            used[contender.name].append(cpu_after - cpu_before if own is None else own["cpu"])
    measurements = tuple(
        Measurement(
            name,
            events,
            found.matches,
            tuple(wall[name]),
            tuple(used[name]),
            {key: statistics.median_low([item[key] for item in work[name]]) for key in found.work},
            max(peaks[name], default=None),
        )
        for name, found in outcomes.items()
    )
    return Point(dict(parameters), baseline, measurements)


DERIVED = ("ratios", "spreads")
"""What `to_json` spells out, for readers of the file."""


def to_json(experiment: Experiment) -> dict[str, Any]:
    """An experiment as JSON, with the ratios and their spreads spelled out."""
    document = asdict(experiment)
    for point, written in zip(experiment.points, document["points"], strict=True):
        for key, value in zip(DERIVED, (point.ratio, point.spread), strict=True):
            written[key] = {clock: {item.name: value(item.name, clock) for item in point.measurements} for clock in CLOCKS}
    return document


def from_json(document: Mapping[str, Any]) -> Experiment:
    """The experiment that `to_json` wrote."""
    points = tuple(
        Point(
            point["parameters"],
            point["baseline"],
            tuple(
                Measurement(**{**item, "wall": tuple(item["wall"]), "cpu": tuple(item["cpu"])})
                for item in point["measurements"]
            ),
        )
        for point in document["points"]
    )
    return Experiment(**{**document, "points": points, "notes": tuple(document["notes"])})
