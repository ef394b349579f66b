"""The tables of the streaming experiments."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.harness import Experiment, Point
from benchmarks.plots import of_series, series_values
from benchmarks.report import Presentation, checks, matches_per_event, table
from benchmarks.streaming.contenders import KLEENE, PACKED, PER_KEY, STATELESS
from benchmarks.streaming.plots import FIGURES, MEGABYTE, cost
from benchmarks.streaming.remarks import MEASURED, OPENING, REMARKS
from benchmarks.streaming.suite import SUITE

ASKED_COST = 1.5
NOISE = 1.05
"""What counts as flat."""

HELD: dict[str, tuple[str, float]] = {
    "jvm": ("JVM, MB", MEGABYTE),
    "python": ("Python workers, MB", MEGABYTE),
    "state_bytes": ("state, MB", MEGABYTE),
    "state_rows": ("events in the state, thousands", 1_000),
}
"""What is held: how it is called, and its unit."""


def _throughput(experiment: Experiment) -> str:
    rows, asked_for = [], []
    for point in experiment.points:
        keys, types = f"{point.parameters['keys']:,}", f"{point.parameters['types']}"
        over = cost(point, KLEENE, PACKED, "cpu")
        slow = any(item.name == PER_KEY for item in point.measurements)
        rows.append(
            [
                types,
                keys,
                f"{point.parameters['window']:,}",
                f"{point[KLEENE].events:,}",
                matches_per_event(point),
                f"{over:.2f}",
                f"{cost(point, KLEENE, PACKED, 'wall'):.2f}",
                f"{cost(point, KLEENE, STATELESS, 'cpu'):.2f}",
                f"{cost(point, PER_KEY, KLEENE, 'cpu'):.0f}" if slow else "",
                f"{1e6 / point[KLEENE].throughput('cpu'):.2f}",
            ]
        )
        asked = f"{types} types, {keys} keys, Kleene / pass-through: at most {ASKED_COST}"
        asked_for.append((asked, f"{over:.2f}", over <= ASKED_COST))
    header = ["types", "keys", "window", "events", "matches per event", "Kleene / pass-through", "the same, wall-clock time"]
    header += ["Kleene / stateless", "a state per key / Kleene", "microseconds of CPU time per event"]
    return "\n\n".join(part for part in (table(header, rows), _per_key(experiment), checks(asked_for)) if part)


def _per_key(experiment: Experiment) -> str:
    """What a key costs that is there and does not have more events than before."""
    rows = []
    for types in series_values(experiment):
        if len(of_series(experiment, types)) == 1:
            continue
        few, many = sorted(of_series(experiment, types), key=lambda point: float(point.parameters["keys"]))
        keys = float(many.parameters["keys"]) - float(few.parameters["keys"])
        more = [1e6 * (many[name].seconds("cpu") - few[name].seconds("cpu")) / keys for name in (KLEENE, PACKED)]
        rows.append([f"{types}", f"{many.parameters['keys']:,}", *(f"{value:.2f}" for value in more)])
    return table(["types", "keys", "Kleene: microseconds of CPU time per key", "pass-through"], rows) if rows else ""


def quarters(values: Sequence[float]) -> tuple[float, float]:
    """The medians of the second quarter and of the last.

    >>> quarters([1, 2, 3, 4, 5, 6, 7, 8])
    (3.5, 7.5)
    """
    part = len(values) // 4
    return statistics.median(values[part : 2 * part]), statistics.median(values[-part:])


def slope(points: Sequence[Point], values: Sequence[float]) -> float:
    """How much more there is after another million events, in the second half of the stream."""
    half = len(points) // 2
    events = [float(point.parameters["events"]) / 1e6 for point in points[half:]]
    return float(np.polyfit(events, values[half:], 1)[0])


def _memory(experiment: Experiment) -> str:
    rows, asked_for = [], []
    for case in series_values(experiment):
        points = of_series(experiment, case)
        for name, (label, unit) in HELD.items():
            values = [point[KLEENE].work[name] / unit for point in points]
            second, last = quarters(values)
            shown = [f"{value:,.1f}" for value in (second, last, max(values))]
            rows.append([f"{case}", label, *shown, f"{last / second:.2f}", f"{slope(points, values):+.2f}"])
        second, last = quarters([point[KLEENE].work["jvm"] + point[KLEENE].work["python"] for point in points])
        events = float(points[-1].parameters["events"])
        asked = f"{case}, {events:,.0f} events: resident memory of the last quarter / of the second: at most {NOISE}"
        asked_for.append((asked, f"{last / second:.2f}", last <= NOISE * second))
    header = ["stream", "held", "second quarter", "last quarter", "most", "last / second", "slope per million events"]
    return table(header, rows) + "\n\n" + checks(asked_for)


def _latency(experiment: Experiment) -> str:
    rows = []
    for point in experiment.points:
        times = sorted(point[KLEENE].wall)
        rows.append(
            [
                f"{point.parameters['trigger']}",
                f"{point.parameters['watermark']}",
                f"{point.parameters['changelog']}",
                f"{point[KLEENE].matches:,}",
                f"{statistics.median(times):.2f}",
                f"{times[int(0.95 * (len(times) - 1))]:.2f}",
                f"{point[KLEENE].work['trigger'] / 1_000:.2f}",
                f"{statistics.median(point[STATELESS].wall):.2f}",
                f"{cost(point, KLEENE, STATELESS, 'wall'):.1f}",
            ]
        )
    header = ["trigger", "watermark", "changelog", "matches", "seconds: median", "95 % below", "a micro-batch", "stateless"]
    return table([*header, "Kleene / stateless"], rows)


TABLES: dict[str, Callable[[Experiment], str]] = {"throughput": _throughput, "memory": _memory, "latency": _latency}

PRESENTATION = Presentation(
    suite=SUITE, title="Streaming", opening=OPENING, tables=TABLES, figures=FIGURES, remarks=REMARKS, measured=MEASURED
)
