"""The tables of the suite of cliffs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.cliffs.suite import LINES, SUITE
from benchmarks.harness import Experiment
from benchmarks.report import Presentation, checks, table, times

OPENING = """\
Columns as they come (floats, strings, ties, chunks), conditions between events without a key, and the first use: each query
beside one that differs in nothing else, or beside a sketch in NumPy, in turns in one run on one core. A contender that is asked
something else than its baseline must find as many matches as NumPy counts, where that is known."""


def _table(experiment: Experiment) -> str:
    rows, clock = [], experiment.clock
    for point in experiment.points:
        for item in point.measurements:
            low, high = (1 / value for value in reversed(point.spread(item.name, clock)))
            ratio = times(1 / point.ratio(item.name, clock))
            rows.append(
                [
                    str(point.parameters["case"]),
                    item.name,
                    f"{item.events:,}",
                    f"{item.work.get('matches', item.matches):,}",
                    f"{item.seconds(clock):.3g}",
                    f"{1e9 * item.seconds(clock) / item.events:,.3g}",
                    "" if item.name == point.baseline else f"{ratio} ({times(low)} to {times(high)})" if low < high else ratio,
                ]
            )
    shown = table(["case", "contender", "events", "matches", "seconds", "ns per event", "times its baseline"], rows)
    return f"{shown}\n\n{checks(LINES[experiment.name].checks(experiment))}"


def overview(experiments: Mapping[str, Experiment]) -> str:
    """All goals in one table."""
    rows = []
    for name, experiment in experiments.items():
        for asked, measured, reached in LINES[name].checks(experiment):
            rows.append([LINES[name].title, asked, measured, "yes" if reached else "no"])
    return table(["line", "asked", "measured", "reached"], rows)


TABLES: dict[str, Callable[[Experiment], str]] = dict.fromkeys(LINES, _table)

PRESENTATION = Presentation(
    suite=SUITE,
    title="Cliffs",
    opening=OPENING,
    overview=overview,
    tables=TABLES,
    figures={},
    remarks={name: line.remark for name, line in LINES.items()},
)
