"""docs/benchmarks.md from the results of a run: tables of ratios beside what the paper says, and the figures.

Every number in the page comes from the results file. The remarks explain how to read a table; they hold no measured numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Experiment, Point
from benchmarks.sase.plots import draw, normalised, of_series
from benchmarks.sase.remarks import REMARKS
from benchmarks.sase.suite import load

Rows = list[list[str]]


def write_report(results: Path, docs: Path, note: str = "") -> Path:
    """Writes the page and its figures into the docs folder; the note says what else a reader should know of the run."""
    experiments, context = load(results)
    if not experiments:
        raise ValueError(f"{results} holds no experiment: run `python -m benchmarks sase` first")
    sections = [section(experiment, context[name], docs / "figures") for name, experiment in experiments.items()]
    page = docs / "benchmarks.md"
    page.write_text("\n\n".join([_opening(context), *([note] if note else []), *sections]) + "\n")
    return page


def section(experiment: Experiment, context: dict[str, Any], figures: Path) -> str:
    """One experiment: what was expected, the table, the figures, how to read them."""
    heading = f"Experiment {experiment.name}" if experiment.name.isdigit() else experiment.name.capitalize()
    parts = [f"## {heading}: {experiment.title}", f"Expected: {experiment.headline}.", TABLES[experiment.name](experiment)]
    parts += [f"![{experiment.title}](figures/{path.name})" for path in draw(experiment, figures)]
    parts += [REMARKS[experiment.name], *experiment.notes]
    scale = context["scale"]
    clock = "CPU time" if experiment.clock == "cpu" else "wall-clock time"
    parts.append(f"*{scale['name']} scale, {context['measured']}; ratios of median {clock}, {_rounds(experiment)} rounds.*")
    return "\n\n".join(parts)


def table(header: Sequence[str], rows: Rows) -> str:
    """A Markdown table.

    >>> print(table(["V1", "ratio"], [["100", "2.0"]]))
    | V1 | ratio |
    |---|---|
    | 100 | 2.0 |
    """
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def times(value: float) -> str:
    """A ratio, with a decimal below 100: 17.7 must not read as a target of 18 reached."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def _rounds(experiment: Experiment) -> str:
    counts = {len(item.wall) for point in experiment.points for item in point.measurements}
    return " or ".join(str(count) for count in sorted(counts))


def _matches(point: Point) -> str:
    item = point.measurements[0]
    return f"{(item.matches or 0) / item.events:.3g}"


def _construction(experiment: Experiment) -> str:
    rows = []
    for with_rows, without in zip(of_series(experiment, "rows"), of_series(experiment, "none"), strict=True):
        basic, ais = without["basic"], without["ais"]
        rows.append(
            [
                f"{with_rows.parameters[experiment.axis]:,}",
                _matches(with_rows),
                times(with_rows.ratio("ais", experiment.clock)),
                times(without.ratio("ais", experiment.clock)),
                times(basic.work["visits"] / max(1, ais.work["visits"])),
            ]
        )
    header = [experiment.axis, "matches per event", "AIS / basic, rows written", "construction only", "fewer visits"]
    return table(header, rows)


def _equivalence(experiment: Experiment) -> str:
    rows = []
    for point in experiment.points:
        plans = ("multi_pais", "dynamic", "composite")
        sequences = [f"{point[name].work['sequences'] / point[name].events * 1e4:,.1f}" for name in ("selection", *plans)]
        setting = [str(point.parameters["V2"]), f"{point.parameters['V1']:,}"]
        rows.append([*setting, *(times(point.ratio(name, experiment.clock)) for name in plans), " / ".join(sequences)])
    header = ["V2", "V1", "Multi-PAIS / selection", "dynamic / selection", "composite / selection"]
    return table([*header, "sequences per 10,000 events: selection / Multi-PAIS / dynamic / composite"], rows)


def _lengths(experiment: Experiment) -> str:
    columns = [
        ("Kleene, rows", "rows", "kleene"),
        ("Kleene, no output", "none", "kleene"),
        ("DuckDB, rows", "rows", "duckdb"),
        ("DuckDB, its own join order", "join order", "duckdb: reordered"),
        ("Kleene on Spark", "spark", "kleene"),
        ("Spark SQL", "spark", "spark_sql"),
    ]
    lines = [dict(normalised(experiment, of_series(experiment, series), name, 2)) for _, series, name in columns]
    rows = []
    for point in of_series(experiment, "rows"):
        L = float(point.parameters["L"])
        relative = [times(line[L]) if L in line else "" for line in lines]
        rows.append([f"{L:.0f}", _matches(point), *relative, times(point.ratio("kleene", experiment.clock))])
    return table(["L", "matches per event", *(name for name, _, _ in columns), "Kleene / fastest DuckDB join"], rows)


def _domains(experiment: Experiment) -> str:
    rows = []
    for tests in (1, 2):
        points = of_series(experiment, tests)
        ours = dict(normalised(experiment, points, "kleene", 10_000))
        theirs = dict(normalised(experiment, points, "duckdb", 10_000))
        for point in points:
            V1 = float(point.parameters["V1"])
            ratio = times(point.ratio("kleene", experiment.clock))
            rows.append([str(tests), f"{V1:,.0f}", _matches(point), times(ours[V1]), times(theirs[V1]), ratio])
    return table(["tests", "V1", "matches per event", "Kleene", "DuckDB", "Kleene / fastest DuckDB join"], rows)


def _embedded(experiment: Experiment) -> str:
    rows = []
    for point in experiment.points:
        own = point["kleene"]
        rows.append(
            [
                f"{point.parameters['V1']:,}",
                str(point.parameters["case"]),
                f"{own.matches or 0:,}",
                times(point.ratio("kleene", experiment.clock)),
                point.baseline.removeprefix("duckdb: "),
                f"{own.throughput('cpu') / 1e6:.0f} M",
            ]
        )
    header = ["V1", "case", "matches", "Kleene / fastest DuckDB join", "that join", "Kleene, events per CPU second"]
    return table(header, rows)


def _spark(experiment: Experiment) -> str:
    rows = []
    for point in experiment.points:
        row = [f"{point.parameters['V1']:,}", f"{point['kleene'].matches or 0:,}"]
        for other in ("without_matching", "returning_rows", "spark_sql"):
            row += [f"{point['kleene'].seconds(clock) / point[other].seconds(clock):.2f}" for clock in ("wall", "cpu")]
        rows.append(row)
    others = ("job without matching", "the same returning as many rows", "Spark SQL self-join")
    header = ["V1", "matches", *(f"time / {other}, {clock}" for other in others for clock in ("wall", "CPU"))]
    return table(header, rows)


TABLES: dict[str, Callable[[Experiment], str]] = {
    "1": _construction,
    "2": _construction,
    "3": _equivalence,
    "5": _lengths,
    "6": _domains,
    "embedded": _embedded,
    "spark": _spark,
}


def _opening(context: dict[str, Any]) -> str:
    latest = max(context.values(), key=lambda item: item["measured"])
    machine = latest["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    hardware = f"{machine['cores']} cores, {machine['memory_gb']} GB of memory, {machine['system']}"
    return f"""# Benchmarks

The experiments of SASE (SIGMOD 2006, section 5) with the paper's parameters, and two comparisons with today's engines. This
page is written by `python -m benchmarks sase --report` from the results of a run.

```
pip install -e '.[spark,bench]'
python -m benchmarks sase                         # everything; results in artifacts/bench/sase.json
python -m benchmarks sase --quick                 # a fifth of the events or fewer
python -m benchmarks sase --experiment 1 embedded # some of it
python -m benchmarks sase --no-jvm                # without Spark
python -m benchmarks sase --report                # this page, from the results
```

How it is measured: contenders take turns in every round, after a warm-up in which **their match counts must
be equal**, or nothing is reported. Numbers are ratios of medians to a named contender of the same rounds. CPU time is that of
the process (on Spark, of the JVM and its Python workers). Events are made from seed {latest["seed"]}; time is the event number.

This run: {hardware}, Python {machine["python"]}; {versions}."""
