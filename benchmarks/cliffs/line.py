"""A line of the suite: contenders of which one is the baseline, and what the others may cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import kleene as library
from benchmarks import suite
from benchmarks.harness import Contender, Disagreement, Experiment, Outcome, Point, measure
from benchmarks.suite import Check

SEED = 2029

UNITS = {"ns": 1e9, "µs": 1e6, "s": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale(suite.Scale):
    """How big a run is."""

    events: int
    """Of a line with little work per event."""
    compiled: bool = True
    """Whether processes of their own compile kernels."""

    def share(self, of: float, fewest: int = 2_000) -> int:
        """The events of a line with more work."""
        return max(fewest, round(of * self.events))


SCALES = {
    "full": Scale(name="full", events=1_000_000, repeats=5),
    "quick": Scale(name="quick", events=100_000, repeats=2, thin=True),
    "tiny": Scale(name="tiny", events=4_000, repeats=1, thin=True, compiled=False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a contender may cost: times its baseline, or time for each of what a parameter of the point counts."""

    contender: str
    most: float
    unit: str = "times"
    per: str = ""
    """The parameter, such as "event"; empty for the whole run."""
    beyond: bool = False
    """Whether only the time beyond that of the baseline counts."""

    def measured(self, point: Point, clock: str) -> float:
        """What it costs, in the unit."""
        if self.unit == "times":
            return 1 / point.ratio(self.contender, clock)
        seconds = point[self.contender].seconds(clock) - self.beyond * point[point.baseline].seconds(clock)
        return seconds * UNITS[self.unit] / (float(point.parameters[self.per]) if self.per else 1)

    def said(self, point: Point) -> str:
        """The goal in words."""
        per = f" per {self.per}" if self.per else ""
        what = f"{self.contender} / {point.baseline}" if self.unit == "times" else f"{self.contender}{per}"
        return f"{what}: at most {self.shown(self.most)}{' more' if self.beyond else ''}"

    def shown(self, value: float) -> str:
        """A value with its unit."""
        digits = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
        return digits if self.unit == "times" else f"{digits} {self.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Something that should cost little more than its baseline."""

    name: str
    title: str
    points: Callable[[Scale], Iterator[Point]]
    goals: tuple[Goal, ...]
    """Each for the points that have its contender."""
    remark: str
    clock: str = "cpu"

    def experiment(self, scale: Scale) -> Experiment:
        """The line, measured."""
        found = tuple(self.points(scale))
        said = dict.fromkeys(goal.said(point) for goal, point in self._held(found))
        return Experiment(self.name, self.title, "case", "; ".join(said), self.clock, found)

    def checks(self, experiment: Experiment) -> list[Check]:
        """What is asked, what was measured, and whether that is enough."""
        rows = []
        for goal, point in self._held(experiment.points):
            value = goal.measured(point, self.clock)
            case = f"{point.parameters['case']}: " if len(experiment.points) > 1 else ""
            rows.append((f"{case}{goal.said(point)}", goal.shown(value), value <= goal.most))
        return rows

    def _held(self, points: Sequence[Point]) -> list[tuple[Goal, Point]]:
        named = [(point, {item.name for item in point.measurements}) for point in points]
        return [(goal, point) for point, names in named for goal in self.goals if goal.contender in names]


def compared(case: str, contenders: Sequence[Contender], events: int, scale: Scale, baseline: str, **units: float) -> Point:
    """Contenders in turns; `units` are what time is divided by, besides events."""
    parameters: Mapping[str, float | str] = {"case": case, "event": events, **units}
    return measure(contenders, events=events, parameters=parameters, baseline=baseline, repeats=scale.repeats)


def kleene(
    name: str, text: str, table: pa.Table, expected: int | None = None, *, other: bool = False, **options: Any
) -> Contender:
    """A query over a table in memory. Its matches must be as many as expected, if that is known.

    `other` says that it asks something else than the contenders beside it: its matches are not compared with theirs.
    """
    query = library.query(text)
    return checked(name, lambda: query.match(table, time="ts", type="type", **options).num_rows, expected, other=other)


def counting(name: str, text: str, table: pa.Table, expected: int, *, other: bool = False) -> Contender:
    """The same for `AGG COUNT`: what is compared is the sum of the counts."""
    query = library.query(text)

    def run() -> int:
        return pc.sum(query.match(table, time="ts", type="type").column("count")).as_py() or 0

    return checked(name, run, expected, other=other)


def checked(name: str, answer: Callable[[], int], expected: int | None = None, *, other: bool = False) -> Contender:
    """A contender whose answer is a number."""

    def run() -> Outcome:
        found = answer()
        if expected is not None and found != expected:
            raise Disagreement(f"{name} finds {found:,} matches, not {expected:,}")
        return Outcome(None, {"matches": found}) if other else Outcome(found)

    return Contender(name, run)
