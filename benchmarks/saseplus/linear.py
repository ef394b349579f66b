"""Whether cost is linear in the output complexity (Figure 8c): a least-squares line, and the cost of an element at the ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.harness import Experiment, Point

FLAT = 1.5
"""Output complexities that differ by less than this factor say nothing about growth."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Cost against output complexity, both per event: y = slope x + intercept."""

    r_squared: float
    ends: float
    """Cost per element at the largest complexity over that at the smallest; 1 where cost is proportional."""


def per_event(experiment: Experiment, points: Sequence[Point], name: str) -> list[tuple[float, float]]:
    """(output complexity per event, microseconds per event) of a contender, in ascending order."""
    found = [point[name] for point in points]
    return sorted((item.work["complexity"] / item.events, 1e6 / item.throughput(experiment.clock)) for item in found)


def fit(line: Sequence[tuple[float, float]]) -> Fit | None:
    """The fit of (complexity, cost) pairs; None if there is no growth to speak of.

    >>> fit([(10, 21), (20, 41), (40, 81)]).r_squared
    1.0
    >>> fit([(10, 20), (20, 30), (40, 40)]).ends
    0.5
    >>> fit([(10, 21), (11, 50)]) is None
    True
    """
    x, y = np.array(line, dtype=float).T
    if len(x) < 2 or x[0] <= 0 or x[-1] / x[0] < FLAT:
        return None
    slope, intercept = np.polyfit(x, y, 1)
    left = float(((y - slope * x - intercept) ** 2).sum())
    return Fit(round(1 - left / max(float(((y - y.mean()) ** 2).sum()), 1e-30), 6), float((y[-1] / x[-1]) / (y[0] / x[0])))
