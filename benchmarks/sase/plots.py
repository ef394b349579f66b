"""What the figures of the SASE experiments show."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.harness import Experiment
from benchmarks.plots import Figures, Line, Panel, best_of, normalised, of_series, panel_per_series, throughput

# A log axis has no zero.
_sequences = panel_per_series(
    "sequences per 10,000 events", lambda item, _: max(item.work["sequences"] / item.events * 1e4, 1e-2), 20, 5
)


def _relative(at: float, systems: Sequence[tuple[float | str, str, str]]) -> Callable[[Experiment], list[Panel]]:
    def panels(experiment: Experiment) -> list[Panel]:
        lines = []
        for series, name, label in systems:
            line = normalised(experiment, of_series(experiment, series), name, at)
            if line:
                lines.append(Line(label, [x for x, _ in line], [y for _, y in line]))
        axis = experiment.axis
        return [Panel(axis, f"throughput relative to {axis} = {at:,.0f}", lines=lines, log_x=axis != "L")]

    return panels


def _ratios(experiment: Experiment) -> list[Panel]:
    """Bars: the ratio of every contender at every point."""
    bars = []
    for point in experiment.points:
        setting = ", ".join(str(point.parameters[key]) for key in (experiment.axis, experiment.series) if key)
        for label, name in (("kleene", "kleene"), ("Spark SQL", "spark_sql")):
            item = best_of(point, name)
            if item is not None:
                bars.append((f"{label}: {experiment.axis} {setting}", point.ratio(item.name, experiment.clock)))
    base = "the job without matching" if experiment.name == "spark" else "the fastest DuckDB join"
    return [Panel(f"throughput relative to {base}", bars=bars, log_x=False, reference=1.0)]


FIGURES: Figures = {
    "1": {"": throughput("rows", "none")},
    "2": {"": throughput("rows", "none")},
    "3": {"": throughput(20, 5), "-sequences": _sequences},
    "5": {
        "": _relative(
            2,
            [
                ("rows", "kleene", "Kleene, rows"),
                ("none", "kleene", "Kleene, no output"),
                ("rows", "duckdb", "DuckDB, rows"),
                ("join order", "duckdb: reordered", "DuckDB, its own join order"),
                ("spark", "kleene", "Kleene on Spark"),
                ("spark", "spark_sql", "Spark SQL"),
            ],
        )
    },
    "6": {
        "": _relative(
            10_000,
            [(t, n, f"{s}, {t} test{'s' * (t > 1)}") for t in (1, 2) for n, s in (("kleene", "Kleene"), ("duckdb", "DuckDB"))],
        )
    },
    "embedded": {"": _ratios},
    "spark": {"": _ratios},
}
