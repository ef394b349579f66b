"""What the figures of the streaming experiments show: CPU time beside a pass-through operator, and memory along a stream."""

from __future__ import annotations

from benchmarks.harness import Experiment, Point
from benchmarks.plots import Figures, Line, Panel, of_series, series_values
from benchmarks.streaming.contenders import KLEENE, PACKED

MEGABYTE = 1 << 20


def cost(point: Point, name: str, other: str, clock: str) -> float:
    """Time per event over another contender's."""
    return point[other].throughput(clock) / point[name].throughput(clock)


def _beside(experiment: Experiment) -> list[Panel]:
    bars = [
        (f"{point.parameters['types']} types, {point.parameters['keys']:,} keys", cost(point, KLEENE, PACKED, "cpu"))
        for point in experiment.points
    ]
    return [Panel("CPU time / pass-through", bars=bars, log_x=False, reference=1)]


def _held(experiment: Experiment) -> list[Panel]:
    found = []
    for place, case in enumerate(series_values(experiment)):
        points = of_series(experiment, case)
        x = [float(point.parameters["events"]) / 1e6 for point in points]
        lines = [
            Line(label, x, [point[KLEENE].work[name] / MEGABYTE for point in points])
            for name, label in (("jvm", "JVM"), ("python", "Python workers"), ("state_bytes", "state"))
        ]
        found.append(Panel("million events", "" if place else "MB", f"{case}", lines, log_x=False, log_y=False))
    return found


FIGURES: Figures = {"throughput": {"": _beside}, "memory": {"": _held}}
