"""What the figures of the A-Seq experiments show."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.aseq.contenders import AUTO, CONSTRUCTION, MARKING, MATCHES, STACKS
from benchmarks.aseq.on_spark import SHUFFLED, SPARK
from benchmarks.aseq.sharing import ALONE, SHARED
from benchmarks.harness import Experiment, Measurement, Point
from benchmarks.plots import Figures, Line, Panel, contender_lines, of_series


def microseconds(item: Measurement) -> float:
    """CPU time per event."""
    return 1e6 * item.seconds("cpu") / item.events


def _line(experiment: Experiment, points: Sequence[Point], name: str, value: Callable[[Point], float]) -> Line:
    return Line(name, [float(point.parameters[experiment.axis]) for point in points], [value(point) for point in points])


def _time_and_objects(experiment: Experiment) -> list[Panel]:
    """Figures 12 and 13: CPU per event, and objects."""
    compared, whole = of_series(experiment, "compared"), of_series(experiment, "whole")
    label = f"{experiment.axis}, ms" if experiment.axis == "window" else experiment.axis
    timed = [_line(experiment, compared, MATCHES, lambda point: microseconds(point[MATCHES]))]
    timed += contender_lines(experiment, whole, microseconds)
    objects = [
        _line(experiment, compared, name, lambda point, name=name: point[name].work["objects"]) for name in (MATCHES, MARKING)
    ]
    return [
        Panel(label, "CPU µs per event", lines=timed, log_x=False),
        Panel(label, "objects at the peak", lines=objects, log_x=False),
    ]


def _long(experiment: Experiment) -> list[Panel]:
    """Figure 14a: CPU per event over that of length 2."""
    lines = [
        _line(experiment, experiment.points, name, lambda point, name=name: 1 / over_shortest(point, name))
        for name in (AUTO, MARKING)
    ]
    return [Panel("length", "CPU per event / at length 2", lines=lines, log_x=False, log_y=False)]


def over_shortest(point: Point, name: str) -> float:
    """Throughput of a pattern over that of the shortest."""
    return point[name].throughput("cpu") / point[f"{name}, length 2"].throughput("cpu")


def _negation(experiment: Experiment) -> list[Panel]:
    """Figure 14b: CPU of q2 over that of q1."""
    bars = [
        (f"{name}, {point.parameters['window']} ms", overhead(point, name))
        for name in (CONSTRUCTION, MATCHES, MARKING, AUTO)
        for point in experiment.points
        if any(item.name == f"{name}, q2" for item in point.measurements)
    ]
    return [Panel("CPU of q2 / CPU of q1", bars=bars, log_x=False, reference=1.0)]


def overhead(point: Point, name: str) -> float:
    """What q2 takes over what q1 takes."""
    return point[f"{name}, q2"].seconds("cpu") / point[f"{name}, q1"].seconds("cpu")


def _three(experiment: Experiment) -> list[Panel]:
    """Figure 15."""
    lines = contender_lines(experiment, experiment.points, microseconds)
    return [Panel("window, ms", "CPU µs per event", lines=lines, log_x=False, legend="beside")]


def gain(point: Point, method: str) -> float:
    """Throughput with sharing over that without."""
    return point[f"{method}, {SHARED}"].throughput("cpu") / point[f"{method}, {ALONE}"].throughput("cpu")


def _gains(experiment: Experiment) -> list[Panel]:
    """Figure 16: what sharing gains."""
    lines = [
        _line(experiment, experiment.points, method, lambda point, method=method: gain(point, method))
        for method in (MARKING, STACKS)
    ]
    label = "queries" if experiment.axis == "queries" else "types in common"
    return [Panel(label, "shared / alone", lines=lines, log_x=False, log_y=False)]


def _windows(experiment: Experiment) -> list[Panel]:
    lines = [
        Line(
            item,
            [float(point.parameters["live"]) for point in experiment.points],
            [1 / point.ratio(item, "cpu") for point in experiment.points],
        )
        for item in (MARKING, STACKS)
    ]
    return [Panel("live start events", "CPU / stacks at 100 live", lines=lines)]


def case_name(point: Point) -> str:
    """The query and stream of a point of the throughput experiment."""
    given = point.parameters
    live = f", {given['live']:,} live" if given["live"] else ""
    encoding = "" if given["encoding"] == "dictionary" else f", {given['encoding']}"
    return f"{given['case']}, {given['types']} types{live}{encoding}"


def _throughput(experiment: Experiment) -> list[Panel]:
    bars = [(case_name(point), point[AUTO].throughput("cpu")) for point in experiment.points]
    return [Panel("events per CPU second", bars=bars, log_x=False)]


def _spark(experiment: Experiment) -> list[Panel]:
    bars = [
        (
            f"{point.parameters['case']}, local[{point.parameters['cores']}]",
            point[SPARK].seconds("wall") / point[SHUFFLED].seconds("wall"),
        )
        for point in experiment.points
    ]
    return [Panel("wall time / read and shuffle", bars=bars, log_x=False, reference=1.0)]


FIGURES: Figures = {
    "figure12": {"": _time_and_objects},
    "figure13": {"": _time_and_objects},
    "figure14a": {"": _long},
    "figure14b": {"": _negation},
    "figure15": {"": _three},
    "figure16a": {"": _gains},
    "figure16b": {"": _gains},
    "figure16c": {"": _gains},
    "figure16d": {"": _gains},
    "windows": {"": _windows},
    "throughput": {"": _throughput},
    "spark": {"": _spark},
}
