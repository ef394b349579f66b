"""The tables of the experiments of scale."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.harness import Experiment, Measurement, Point
from benchmarks.report import Presentation, checks, matches_per_event, table
from benchmarks.scale.suite import APART, CHOSEN, HALF, HOT, NONE, ONE, RELEVANT, SLICES, SUITE, TWO, TYPES, WHOLE

ASKED = {NONE: 1.7, HOT: 1.6}

OPENING = """\
Queries whose events no key divides, or hardly, cut into slices of time ([Scale](scale.md)). A session has as many cores as it
is said to have, and its JVM and Python workers may use no others; both sessions of a comparison live at the same time and take
turns. Time is that of the clock, from the DataFrame to the noop sink, with the small jobs that decide how time is cut."""

REMARKS = {
    "cores": """\
*Two sessions of 1 core* have half of the events each and nothing in common, not even a JVM: what this machine gives to twice as
many cores. *Half the events on 1 core / all on 2* is weak scaling: 1 were perfect. *Not sliced* is the session with two cores
when it may not cut time: one task has all the events, or all those of the key.""",
    "lead": f"""\
Each event takes the next that fits, so that a longer window has hardly more matches, but more events before each slice. All
events are relevant. There are {SLICES} slices, whatever the window is, on one core and on two. The time of the stage that
matches is beside that of one task in the same rounds, and then beside the shortest window; the model is that of
[Scale](scale.md), where an event that leads costs what any other does. In the last columns there are as many slices as the
library chooses, and one task, whose sort in the JVM and matching in Python go side by side.""",
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
                f"{point.ratio(APART, 'wall'):.2f}",
                f"{point[HALF].seconds('wall') / point[TWO].seconds('wall'):.2f}",
                f"{point.ratio(WHOLE, 'wall'):.2f}",
                f"{_bytes_sent(point[TWO]) * len(TYPES) / len(RELEVANT):.1f}",
                f"{point[ONE].throughput('wall') / 1e6:.1f}",
            ]
        )
        if case in ASKED:
            asked.append((f"{case}: two cores / one: at least {ASKED[case]}", f"{faster:.2f}", faster >= ASKED[case]))
    header = ["events", "window", "number", "matches per event", "slices", "2 cores / 1 core"]
    header += ["two sessions of 1 core / one", "half the events on 1 core / all on 2", "not sliced / 1 core"]
    return table([*header, "bytes shuffled per relevant event", "million events/s on 1 core"], rows) + "\n\n" + checks(asked)


def _bytes_sent(found: Measurement) -> float:
    """What was shuffled, for each event."""
    return 1e3 * found.work["shuffled"] / found.events


def _lead(experiment: Experiment) -> str:
    header = ["window / all events", "window", "matches per event", "bytes shuffled per event", "model"]
    header += ["stage that matches, 1 core", "model", "stage that matches, 2 cores", "model"]
    header += ["slices as chosen", "so sliced / one task, whole job"]
    first, rows = experiment.points[0], []
    for point in experiment.points:
        share = float(point.parameters["share"])
        in_all, longest = 1 + (SLICES - 1) * share, 1 + SLICES * share
        rows.append(
            [
                f"{share:g}",
                f"{point.parameters['window']:,}",
                matches_per_event(point),
                f"{_bytes_sent(point[TWO]):.1f}",
                f"{_bytes_sent(first[TWO]) * in_all:.1f}",
                f"{_stage(point, ONE) / _stage(first, ONE):.2f}",
                f"{in_all:.2f}",
                f"{_stage(point, TWO) / _stage(first, TWO):.2f}",
                f"{longest:.2f}",
                f"{point[CHOSEN].work['slices']}",
                f"{point.ratio(CHOSEN, 'wall'):.2f}",
            ]
        )
    return table(header, rows)


def _stage(point: Point, name: str) -> float:
    """The stage that matches beside that of the one task, in the same rounds."""
    return point[name].work["matching"] / point[WHOLE].work["matching"]


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
