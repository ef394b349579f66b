"""What the figures of the lazy evaluation experiments show."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.harness import Experiment, Measurement, Point
from benchmarks.lazy.contenders import AUTO, evaluations, loss
from benchmarks.plots import Figures, Line, Panel, of_series, series_values

SHOWN = ("eager", "chain acb", "chain bca", "chain cab", "chain cba", "tree", "tree, counts", AUTO)
"""Chains that are not shown are close to one that is: abc and bac to eager."""
STYLES = {"tree": "--", "tree, counts": "--", AUTO: ":"}
"""Lines that may lie on others."""


def _lines(experiment: Experiment, points: Sequence[Point], value: Callable[[Measurement], float]) -> list[Line]:
    along = [float(point.parameters[experiment.axis]) for point in points]
    names = [name for name in SHOWN if any(item.name == name for item in points[0].measurements)]
    return [Line(name, along, [value(point[name]) for point in points], STYLES.get(name, "-")) for name in names]


def _evaluations(experiment: Experiment) -> list[Panel]:
    """Evaluations per event along f_c (Figures 7 and 8)."""
    series = series_values(experiment)
    return [
        Panel(
            "f_c",
            "" if number else "evaluations per event",
            f"{experiment.series}: {one}",
            _lines(experiment, of_series(experiment, one), lambda item: evaluations(item) / item.events),
            legend="beside" if one == series[-1] else "nowhere",
        )
        for number, one in enumerate(series)
    ]


def _peak(experiment: Experiment) -> list[Panel]:
    """Instances along the size of the input (Figure 9); none is drawn as one."""
    lines = _lines(experiment, experiment.points, lambda item: max(1, item.work["peak_instances"]))
    return [Panel(experiment.axis, "peak instances", lines=lines, legend="beside")]


def _changing(experiment: Experiment) -> list[Panel]:
    """Evaluations of each step (Figure 10)."""
    lines = _lines(experiment, experiment.points, evaluations)
    return [Panel("events", "evaluations per step", lines=lines, log_x=False, legend="beside")]


def _losses(experiment: Experiment) -> list[Panel]:
    """Time over that of the best forced choice, workloads in ascending order."""
    lines = []
    for name in (AUTO, "tree", "tree, counts", "eager", "sequence"):
        ratios = sorted(
            loss(point, name) for point in experiment.points if any(item.name == name for item in point.measurements)
        )
        if ratios:
            lines.append(Line(name, [100 * (place + 1) / len(ratios) for place in range(len(ratios))], ratios))
    return [Panel("percent of the workloads where it is tried", "time / best forced choice", lines=lines, log_x=False)]


def _throughput(experiment: Experiment) -> list[Panel]:
    """Throughput on the streams that Kleene is timed on, and of Flink on its own."""
    bars = []
    for point in experiment.points:
        rare = f"{point.parameters['predicates']}, {100 * float(point.parameters['share']):g} % {point.parameters['rare']}"
        name = "flink" if point.parameters["stream"] == "short" else AUTO
        bars.append((f"{rare}: {name}", point[name].throughput(experiment.clock)))
    return [Panel("events per CPU second", bars=bars)]


FIGURES: Figures = {
    "figure7": {"": _evaluations},
    "figure8": {"": _evaluations},
    "figure9": {"": _peak},
    "figure10": {"": _changing},
    "random200": {"": _losses},
    "throughput": {"": _throughput},
}
