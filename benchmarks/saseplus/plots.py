"""What the figures of the SASE+ experiments show."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.harness import Experiment, Point
from benchmarks.plots import Figures, Line, Panel, of_series, series_values
from benchmarks.saseplus.linear import per_event


def _throughput_bars(experiment: Experiment) -> list[Panel]:
    """Throughput of every contender at every point (Figure 8a)."""
    bars = [
        (f"{point.parameters[experiment.axis]}: {item.name}", item.throughput(experiment.clock))
        for point in experiment.points
        for item in point.measurements
    ]
    return [Panel("events per CPU second", bars=bars)]


def _ratio_bars(name: str) -> Callable[[Experiment], list[Panel]]:
    """The ratio of one contender to the baseline at every point (Figures 8d to 8f)."""

    def panels(experiment: Experiment) -> list[Panel]:
        bars = [(str(point.parameters[experiment.axis]), point.ratio(name, experiment.clock)) for point in experiment.points]
        baseline = experiment.points[0].baseline
        return [Panel(f"throughput of {name} / {baseline}", bars=bars, log_x=False, reference=1.0)]

    return panels


def _along_windows(y_label: str, value: Callable[[Experiment, Point], float], *, log_y: bool) -> Callable[[Experiment], Panel]:
    """A line per query along W."""

    def panel(experiment: Experiment) -> Panel:
        lines = []
        for query in series_values(experiment):
            points = of_series(experiment, query)
            along = [float(point.parameters["W"]) for point in points]
            lines.append(Line(str(query), along, [value(experiment, point) for point in points]))
        return Panel("W", y_label, lines=lines, log_x=False, log_y=log_y)

    return panel


_fall = _along_windows(
    "events per CPU second, basic", lambda experiment, point: point["basic"].throughput(experiment.clock), log_y=True
)
_gain = _along_windows(
    "throughput of merging / basic", lambda experiment, point: point.ratio("merging", experiment.clock), log_y=False
)


def _growth(experiment: Experiment) -> list[Panel]:
    """Throughput along W, and cost along the output complexity (Figures 8b and 8c)."""
    lines = []
    for query in series_values(experiment):
        pairs = per_event(experiment, of_series(experiment, query), "basic")
        lines.append(Line(str(query), [x for x, _ in pairs], [y for _, y in pairs]))
    cost = Panel("elements of matches per event", "CPU microseconds per event, basic", lines=lines)
    return [_fall(experiment), cost]


FIGURES: Figures = {
    "1": {"": _throughput_bars},
    "2": {"": _growth},
    "3": {"": _ratio_bars("basic")},
    "4": {"": _ratio_bars("basic")},
    "5": {"": _ratio_bars("merging")},
    "6": {"": lambda experiment: [_gain(experiment)]},
    "speed": {"": _throughput_bars},
}
