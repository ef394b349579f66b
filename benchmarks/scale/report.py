"""The tables of the experiments of scale."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.harness import Experiment
from benchmarks.report import Presentation, matches_per_event, table
from benchmarks.scale.suite import ONE, SUITE, TWO, WHOLE
from benchmarks.streaming.report import checks

ASKED = {"no key": 1.7, "one key has 90 % of the events": 1.6}

OPENING = """\
Queries whose events no key divides, or hardly, cut into slices of time ([Scale](scale.md)). A session has as many cores as it
is said to have, and its JVM and Python workers may use no others; both sessions of a comparison live at the same time and take
turns. Time is that of the clock, from the DataFrame to the noop sink, with the small jobs that decide how time is cut."""

REMARKS = {
    "cores": "*Not sliced* is the same session when it may not cut time: one task has all the events, or all those of the key.",
    "lead": """\
The window is given as a share of a slice when there are two. A slice also reads the window before it, so the longer the window,
the less is saved; where nothing would be saved, there are no slices. Longer windows have rarer events, so that matches do not
take all the time.""",
    "many": """\
Events are made on the fly (`spark.range`). Memory is the most of all looks, two in a second, with a heap of 4 GB.""",
}

MEASURED = {"many": "one run"}


def _cores(experiment: Experiment) -> str:
    rows, asked = [], []
    for point in experiment.points:
        case = f"{point.parameters['case']}"
        faster = point.ratio(TWO, "wall")
        rows.append(
            [
                case,
                f"{point.parameters['window']:,}",
                f"{point[TWO].events:,}",
                matches_per_event(point),
                f"{point[TWO].work['slices']}",
                f"{faster:.2f}",
                f"{point.ratio(WHOLE, 'wall'):.2f}",
                f"{point[ONE].throughput('wall') / 1e6:.1f}",
            ]
        )
        asked.append((f"{case}: two cores / one: at least {ASKED[case]}", f"{faster:.2f}", faster >= ASKED[case]))
    header = ["events", "window", "number", "matches per event", "slices", "2 cores / 1 core", "not sliced / 1 core"]
    return table([*header, "million events/s on 1 core"], rows) + "\n\n" + checks(asked)


def _lead(experiment: Experiment) -> str:
    header = ["window / slice", "window", "matches per event", "slices", "sliced / one task"]
    rows = [
        [
            f"{point.parameters['window / slice']:g}",
            f"{point.parameters['window']:,}",
            matches_per_event(point),
            f"{point[TWO].work['slices']}",
            f"{point.ratio(TWO, 'wall'):.2f}",
        ]
        for point in experiment.points
    ]
    return table(header, rows)


def _many(experiment: Experiment) -> str:
    header = ["query", "window", "events", "matches", "slices", "JVM, MB", "Python workers, MB", "million events/s"]
    rows = [
        [
            f"{point.parameters['case']}",
            f"{point.parameters['window']:,}",
            f"{point[TWO].events:,}",
            f"{point[TWO].matches:,}",
            f"{point[TWO].work['slices']}",
            f"{point[TWO].work['jvm']:,}",
            f"{point[TWO].work['python']:,}",
            f"{point[TWO].throughput('wall') / 1e6:.2f}",
        ]
        for point in experiment.points
    ]
    return table(header, rows)


TABLES: dict[str, Callable[[Experiment], str]] = {"cores": _cores, "lead": _lead, "many": _many}

PRESENTATION = Presentation(
    suite=SUITE, title="Scale", opening=OPENING, tables=TABLES, figures={}, remarks=REMARKS, measured=MEASURED
)
