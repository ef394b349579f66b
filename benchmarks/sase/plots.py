"""Figures of the experiments: small SVG files, drawn without a display and the same for the same results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

from benchmarks.harness import Experiment, Measurement, Point

mpl.use("Agg")
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "kleene", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3})

Line = tuple[str, list[float], list[float]]


def draw(experiment: Experiment, folder: Path) -> list[Path]:
    """Writes the figures of an experiment; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _write(folder / f"sase-{experiment.name}{suffix}.svg", panels(experiment), log_y)
        for suffix, panels, log_y in FIGURES[experiment.name]
    ]


def best_of(point: Point, name: str) -> Measurement | None:
    """A contender by name; "duckdb" and "spark_sql" are the fastest of those whose names begin so."""
    found = [item for item in point.measurements if item.name.startswith(name)]
    return min(found, key=lambda item: item.seconds("cpu")) if found else None


def normalised(experiment: Experiment, points: Sequence[Point], name: str, at: float) -> list[tuple[float, float]]:
    """(x, throughput over the contender's own throughput where the axis is `at`)."""
    values = {}
    for point in points:
        item = best_of(point, name)
        if item is not None:
            values[float(point.parameters[experiment.axis])] = item.throughput(experiment.clock)
    return [(x, value / values[at]) for x, value in sorted(values.items())] if at in values else []


def of_series(experiment: Experiment, value: float | str) -> list[Point]:
    """The points of one line."""
    assert experiment.series is not None
    return [point for point in experiment.points if point.parameters[experiment.series] == value]


def _throughput(*series: float | str) -> Callable[[Experiment], list[tuple[str, str, str, list[Line]]]]:
    def panels(experiment: Experiment) -> list[tuple[str, str, str, list[Line]]]:
        return [
            (
                f"{experiment.series} = {value}",
                experiment.axis,
                "events per CPU second",
                _lines(experiment, of_series(experiment, value), lambda item: item.throughput(experiment.clock)),
            )
            for value in series
        ]

    return panels


def _sequences(experiment: Experiment) -> list[tuple[str, str, str, list[Line]]]:
    return [
        (
            f"{experiment.series} = {value}",
            experiment.axis,
            "sequences per 10,000 events",
            # A log axis has no zero.
            _lines(
                experiment, of_series(experiment, value), lambda item: max(item.work["sequences"] / item.events * 1e4, 1e-2)
            ),
        )
        for value in (20, 5)
    ]


def _lines(experiment: Experiment, points: Sequence[Point], value: Callable[[Measurement], float]) -> list[Line]:
    return [
        (
            item.name,
            [float(point.parameters[experiment.axis]) for point in points],
            [value(point[item.name]) for point in points],
        )
        for item in points[0].measurements
    ]


def _relative(at: float, systems: Sequence[tuple[float | str, str, str]]) -> Callable[[Experiment], list[Any]]:
    def panels(experiment: Experiment) -> list[Any]:
        lines = []
        for series, name, label in systems:
            line = normalised(experiment, of_series(experiment, series), name, at)
            if line:
                lines.append((label, [x for x, _ in line], [y for _, y in line]))
        return [("", experiment.axis, f"throughput relative to {experiment.axis} = {at:,.0f}", lines)]

    return panels


def _ratios(experiment: Experiment) -> list[Any]:
    """Bars: the ratio of every contender at every point."""
    bars = []
    for point in experiment.points:
        setting = ", ".join(str(point.parameters[key]) for key in (experiment.axis, experiment.series) if key)
        for label, name in (("kleene", "kleene"), ("Spark SQL", "spark_sql")):
            item = best_of(point, name)
            if item is not None:
                bars.append((f"{label}: {experiment.axis} {setting}", point.ratio(item.name, experiment.clock)))
    base = "the job without matching" if experiment.name == "spark" else "the fastest DuckDB join"
    return [("bars", f"throughput relative to {base}", "", bars)]


FIGURES: dict[str, list[tuple[str, Callable[[Experiment], list[Any]], bool]]] = {
    "1": [("", _throughput("rows", "none"), True)],
    "2": [("", _throughput("rows", "none"), True)],
    "3": [("", _throughput(20, 5), True), ("-sequences", _sequences, True)],
    "5": [
        (
            "",
            _relative(
                2,
                [
                    ("rows", "kleene", "Kleene, rows"),
                    ("none", "kleene", "Kleene, no output"),
                    ("rows", "duckdb", "DuckDB, rows"),
                    ("join order", "duckdb: reordered", "DuckDB, its own join order"),
                    ("spark", "kleene", "Kleene on Spark"),
                    ("spark", "spark_sql", "Spark SQL"),
                ],
            ),
            True,
        )
    ],
    "6": [
        (
            "",
            _relative(
                10_000,
                [
                    (t, n, f"{s}, {t} test{'s' * (t > 1)}")
                    for t in (1, 2)
                    for n, s in (("kleene", "Kleene"), ("duckdb", "DuckDB"))
                ],
            ),
            True,
        )
    ],
    "embedded": [("", _ratios, False)],
    "spark": [("", _ratios, False)],
}
"""Per experiment: (suffix of the file, what it shows, whether y is logarithmic)."""


def _write(path: Path, panels: list[Any], log_y: bool) -> Path:
    from matplotlib import pyplot as plt

    bars = panels[0][0] == "bars"
    height = 0.5 + 0.3 * len(panels[0][3]) if bars else 2.8
    figure, axes = plt.subplots(1, len(panels), figsize=(7 if bars or len(panels) > 1 else 5, height), squeeze=False)
    for axis, (title, x_label, y_label, content) in zip(axes[0], panels, strict=True):
        if bars:
            axis.barh([label for label, _ in content], [value for _, value in content], color="C0")
            axis.axvline(1.0, color="black", linewidth=1)
            axis.invert_yaxis()
        else:
            _draw_lines(axis, content, log_x=x_label != "L", log_y=log_y)
        axis.set(title=title if not bars else "", xlabel=x_label, ylabel=y_label)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path


def _draw_lines(axis: Any, lines: Sequence[Line], *, log_x: bool, log_y: bool) -> None:
    for label, x, y in lines:
        axis.plot(x, y, marker="o", markersize=3, label=label)
    if log_x:
        axis.set_xscale("log")
    if log_y:
        axis.set_yscale("log")
    axis.legend(fontsize=7)
