"""What the figures of the multi-pattern experiments show: throughput over that of the written plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.harness import Experiment, Point
from benchmarks.multi.contenders import ANNEALING, PREFIXES, REORDERING, SHARING, TABU, WRITTEN
from benchmarks.multi.dynamic import ADAPTIVE
from benchmarks.plots import Figures, Line, Panel, of_series, series_values

STYLES = {SHARING: ":", REORDERING: ":"}


def limits(point: Point, search: str) -> list[tuple[float, str]]:
    """The limits of time that a search was given, and the contenders' names."""
    names = [item.name for item in point.measurements if item.name.startswith(f"{search}, ") and item.name.endswith(" s")]
    return [(float(name.removesuffix(" s").rpartition(" ")[2]), name) for name in names]


def gain(point: Point, name: str) -> float:
    """Throughput over that of the baseline, the written plan mostly."""
    return point.ratio(name, "cpu")


def _gains(label: str, *names: str, log_x: bool = True, over: str = "written plan") -> Callable[[Experiment], list[Panel]]:
    """A panel for each dataset, a line for each contender; all of them if none is named."""

    def panels(experiment: Experiment) -> list[Panel]:
        found = series_values(experiment)
        return [
            Panel(
                label,
                "" if place else f"throughput / {over}",
                f"{dataset}",
                _lines(experiment, of_series(experiment, dataset), names),
                log_x=log_x,
                legend="beside" if dataset == found[-1] else "nowhere",
            )
            for place, dataset in enumerate(found)
        ]

    return panels


def _lines(experiment: Experiment, points: Sequence[Point], names: Sequence[str]) -> list[Line]:
    along = sorted(points, key=lambda point: float(point.parameters[experiment.axis]))
    shown = names or [item.name for item in points[0].measurements if item.name != WRITTEN]
    x = [float(point.parameters[experiment.axis]) for point in along]
    return [Line(name, x, [gain(point, name) for point in along], STYLES.get(name, "-")) for name in shown]


def _by_limit(experiment: Experiment) -> list[Panel]:
    """Figure 11b: the limits of one point."""
    lines = []
    for point in experiment.points:
        for search in (ANNEALING, TABU):
            found = limits(point, search)
            dataset = f"{search}, {point.parameters['dataset']}"
            lines.append(Line(dataset, [seconds for seconds, _ in found], [gain(point, name) for _, name in found]))
    return [Panel("seconds of search", "throughput / written plan", lines=lines, legend="beside")]


FIGURES: Figures = {
    "figure10": {
        f"-{search}": _gains(
            "patterns", search, f"{search}, vertex 4", f"{search}, vertex 8", f"{search}{PREFIXES}", SHARING, REORDERING
        )
        for search in (ANNEALING, TABU)
    },
    "figure11a": {"": _gains("components", log_x=False)},
    "figure11b": {"": _by_limit},
    "figure11c": {"": _gains("window, ms")},
    "figure11d": {"": _gains("window, events")},
    "figure13": {"": _gains("reshufflings per 100,000 events", ADAPTIVE, over="static plan")},
    "figure14a": {"": _gains("density", log_x=False)},
    "figure14c": {"": _gains("difference between rates", log_x=False)},
    "parts": {"": _gains("parts", log_x=False)},
}
