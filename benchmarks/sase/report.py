"""The tables of the SASE experiments."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.harness import Experiment
from benchmarks.plots import normalised, of_series
from benchmarks.report import Headline, Presentation, matches_per_event, table, times
from benchmarks.sase.plots import FIGURES
from benchmarks.sase.remarks import REMARKS
from benchmarks.sase.suite import SUITE


def _construction(experiment: Experiment) -> str:
    rows = []
    for with_rows, without in zip(of_series(experiment, "rows"), of_series(experiment, "none"), strict=True):
        basic, ais = without["basic"], without["ais"]
        rows.append(
            [
                f"{with_rows.parameters[experiment.axis]:,}",
                matches_per_event(with_rows),
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
        rows.append([f"{L:.0f}", matches_per_event(point), *relative, times(point.ratio("kleene", experiment.clock))])
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
            rows.append([str(tests), f"{V1:,.0f}", matches_per_event(point), times(ours[V1]), times(theirs[V1]), ratio])
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
        without, join = point["without_matching"].seconds("wall"), point["spark_sql"].seconds("wall")
        row.append(f"{without / join:.2f}")
        for name in ("returning_column", "all_columns"):
            row += [f"{point[name].seconds('wall') / other:.2f}" for other in (without, join)]
        rows.append(row)
    others = ("job without matching", "the same returning as many rows", "Spark SQL self-join")
    header = ["V1", "matches", *(f"time / {other}, {clock}" for other in others for clock in ("wall", "CPU"))]
    further = [
        f"{what} / {other}, wall"
        for what in ("one column of as many rows", "with all columns")
        for other in ("job without matching", "self-join")
    ]
    return table([*header, "job without matching / self-join, wall", *further], rows)


def _sql(experiment: Experiment) -> str:
    rows = []
    for point in experiment.points:
        row = [f"{point.parameters['V1']:,}", f"{point['sql'].matches or 0:,}"]
        for name in ("sql", "sql_filtered"):
            row += [f"{point[name].seconds(clock) / point['dataframe'].seconds(clock):.2f}" for clock in ("wall", "cpu")]
        rows.append(row)
    ways = ("all events", "events of the query's types")
    header = ["V1", "matches", *(f"{way}: time / DataFrame API, {clock}" for way in ways for clock in ("wall", "CPU"))]
    return table(header, rows)


TABLES: dict[str, Callable[[Experiment], str]] = {
    "1": _construction,
    "2": _construction,
    "3": _equivalence,
    "5": _lengths,
    "6": _domains,
    "embedded": _embedded,
    "spark": _spark,
    "sql": _sql,
}


def _stacks(experiment: Experiment) -> tuple[str, bool]:
    point = next(point for point in of_series(experiment, "rows") if point.parameters["V1"] == 100)
    ratio = point.ratio("ais", experiment.clock)
    return f"{times(ratio)} times", ratio >= 18


def _longest(experiment: Experiment) -> tuple[str, bool] | None:
    kept = dict(normalised(experiment, of_series(experiment, "rows"), "kleene", 2)).get(6)
    return None if kept is None else (f"{kept:.2f} of it", kept >= 0.5)


def _join(experiment: Experiment) -> tuple[str, bool]:
    ratios = [point.ratio("kleene", experiment.clock) for point in experiment.points]
    return f"{times(min(ratios))} to {times(max(ratios))} times", min(ratios) >= 1


HEADLINES = (
    Headline(
        experiment="1",
        figure="Figure 8",
        said="active instance stacks 18 times the basic algorithm at V1 = 100",
        ours=_stacks,
        reason="both plans share the scan and write the same matches",
    ),
    Headline(
        experiment="5",
        figure="Figure 11",
        said="at length 6, half of the throughput at length 2",
        ours=_longest,
        reason="windows slide here, so that longer sequences have more matches per event",
    ),
    Headline(
        experiment="embedded",
        figure="(ours)",
        said="at least the fastest of DuckDB's self-joins, one core",
        ours=_join,
        reason="see the table",
    ),
)

PRESENTATION = Presentation(
    suite=SUITE,
    title="SASE",
    paper="SASE, 2006",
    headlines=HEADLINES,
    opening="The experiments of section 5 of the paper of 2006, and two comparisons with today's engines.",
    tables=TABLES,
    figures=FIGURES,
    remarks=REMARKS,
)
