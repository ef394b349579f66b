"""Figures of experiments: small SVG files, drawn without a display and the same for the same results.

A file has both a light and a dark look, and the reader's preference chooses: that works wherever a page shows the file as an
image, with nothing but Markdown. Its background is part of it, so it can be read on pages that follow no preference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

from benchmarks.harness import Experiment, Measurement, Point

mpl.use("Agg")
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "kleene", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3})


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a panel."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    style: str = "-"


@dataclass(frozen=True, slots=True)
class Panel:
    """One coordinate system of a figure: lines, or horizontal bars."""

    x_label: str
    y_label: str = ""
    title: str = ""
    lines: Sequence[Line] = ()
    bars: Sequence[tuple[str, float]] = ()
    log_x: bool = True
    log_y: bool = True
    reference: float | None = None
    """Where bars are compared with: a vertical line."""
    legend: str = "inside"
    """Where the lines are named: "inside", "beside" or "nowhere" (in the panel beside)."""


Figures = Mapping[str, Mapping[str, Callable[[Experiment], Sequence[Panel]]]]
"""Per experiment: the ends of the files' names, and what each file shows."""


def draw(figures: Figures, prefix: str, experiment: Experiment, folder: Path) -> list[Path]:
    """Writes the figures of an experiment; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = figures.get(experiment.name, {})
    drawn = {suffix: [panel for panel in panels(experiment) if panel.lines or panel.bars] for suffix, panels in chosen.items()}
    return [_write(folder / f"{prefix}-{experiment.name}{suffix}.svg", panels) for suffix, panels in drawn.items() if panels]


def best_of(point: Point, name: str) -> Measurement | None:
    """The fastest of the contenders whose names begin so, by CPU."""
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


def series_values(experiment: Experiment) -> list[float | str]:
    """The values of the second parameter, in the order of the points."""
    assert experiment.series is not None
    return list(dict.fromkeys(point.parameters[experiment.series] for point in experiment.points))


def contender_lines(experiment: Experiment, points: Sequence[Point], value: Callable[[Measurement], float]) -> list[Line]:
    """A line per contender along the axis."""
    return [
        Line(
            item.name,
            [float(point.parameters[experiment.axis]) for point in points],
            [value(point[item.name]) for point in points],
        )
        for item in points[0].measurements
    ]


def panel_per_series(
    y_label: str, value: Callable[[Measurement, str], float], *series: float | str
) -> Callable[[Experiment], list[Panel]]:
    """A panel per value of the second parameter, with a line per contender; `value` is given the experiment's clock."""

    def panels(experiment: Experiment) -> list[Panel]:
        return [
            Panel(
                experiment.axis,
                y_label,
                f"{experiment.series} = {one}",
                contender_lines(experiment, of_series(experiment, one), lambda item: value(item, experiment.clock)),
            )
            for one in series
        ]

    return panels


def throughput(*series: float | str) -> Callable[[Experiment], list[Panel]]:
    """Throughput of all contenders, a panel per value of the second parameter."""
    return panel_per_series("events per CPU second", Measurement.throughput, *series)


def _write(path: Path, panels: Sequence[Panel]) -> Path:
    from matplotlib import pyplot as plt

    bars = panels[0].bars
    height = 0.5 + 0.3 * len(bars) if bars else 2.8
    figure, axes = plt.subplots(1, len(panels), figsize=(7 if bars or len(panels) > 1 else 5, height), squeeze=False)
    for axis, panel in zip(axes[0], panels, strict=True):
        if panel.bars:
            _draw_bars(axis, panel)
        else:
            _draw_lines(axis, panel)
        axis.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    path.write_text(with_dark_look(path.read_text()))
    return path


DARK_LOOK = """\
  <style type="text/css">@media (prefers-color-scheme: dark) {
   text, use { fill: #e6edf3 }
   [style*="fill: #ffffff"] { fill: #0d1117 !important }
   [style*="stroke: #000000"] { stroke: #e6edf3 !important }
   [style*="#1f77b4"] { stroke: #58a6ff !important }
   [style*="fill: #1f77b4"] { fill: #58a6ff !important }
  }</style>
"""


def with_dark_look(svg: str) -> str:
    """A figure of Matplotlib's with colours for readers who prefer dark pages; one that has them stays as it is.

    >>> with_dark_look("<svg>\\n <defs>\\n </defs>\\n</svg>").count("prefers-color-scheme")
    1
    """
    if "prefers-color-scheme" in svg:
        return svg
    return svg.replace("<defs>\n", f"<defs>\n{DARK_LOOK}", 1)


def _draw_bars(axis: Any, panel: Panel) -> None:
    axis.barh([label for label, _ in panel.bars], [value for _, value in panel.bars], color="C0")
    if panel.reference is not None:
        axis.axvline(panel.reference, color="black", linewidth=1)
    if panel.log_x:
        axis.set_xscale("log")
    axis.invert_yaxis()


def _draw_lines(axis: Any, panel: Panel) -> None:
    for line in panel.lines:
        axis.plot(line.x, line.y, line.style, marker="o", markersize=3, label=line.label)
    if panel.log_x:
        axis.set_xscale("log")
    if panel.log_y:
        axis.set_yscale("log")
    if panel.legend != "nowhere":
        axis.legend(fontsize=7, **({"loc": "upper left", "bbox_to_anchor": (1, 1)} if panel.legend == "beside" else {}))
