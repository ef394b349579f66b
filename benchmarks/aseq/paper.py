"""Figures 12, 13, 14a and 14b: one query, construct-then-count against counters.

The state of the art of the paper builds every match and then counts. It is compared twice. `matches` is Kleene's own plan of
that kind; where it would build more matches than the scale allows, it and what is beside it are given the first events of the
stream only (`stream` is "compared"). `construction` is its floor: stacks build every match, and nothing is done with them; that
is fast enough for the whole stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from benchmarks.aseq.contenders import (
    AUTO,
    CONSTRUCTION,
    MARKING,
    MATCHES,
    PLANS,
    construction,
    kleene_query,
    largest,
    require_same,
)
from benchmarks.aseq.streams import NEGATED, TRIGGER, WINDOW, Scale, affordable, count_query, tickers_of, trades
from benchmarks.harness import Experiment, Point, measure
from kleene.runtime.embedded import Run

LENGTHS = (2, 3, 4, 5)
WINDOWS = (100, 200, 400, 600, 800, 1_000)
WINDOWS_LENGTH = 3
LONG_LENGTHS = (6, 7, 8, 9, 10)
LONG_WINDOW = 2_000
SHORTEST = 2
REPEATS_OF_CONSTRUCTION = 3


def figure_12(scale: Scale) -> Experiment:
    return Experiment(
        "figure12",
        "Length of the pattern, construction and counters, time and objects",
        axis="length",
        series="stream",
        headline="construction grows exponentially with the length, counters stay; 16,736 times faster at length 5",
        clock="cpu",
        points=tuple(
            point
            for length in scale.along(LENGTHS)
            for point in _both_streams(length, WINDOW, {"length": length, "window": WINDOW}, scale)
        ),
    )


def figure_13(scale: Scale) -> Experiment:
    return Experiment(
        "figure13",
        "Size of the window, construction and counters, time and objects",
        axis="window",
        series="stream",
        headline="both grow with the window; construction, which is polynomial in the events of a window, much faster",
        clock="cpu",
        points=tuple(
            point
            for window in scale.along(WINDOWS)
            for point in _both_streams(WINDOWS_LENGTH, window, {"window": window, "length": WINDOWS_LENGTH}, scale)
        ),
    )


def _both_streams(length: int, window: int, parameters: Mapping[str, float | str], scale: Scale) -> list[Point]:
    compared = trades(affordable(scale.events, scale.matches, length, window))
    whole = trades(affordable(scale.events, scale.constructed, length, window))
    repeats = min(REPEATS_OF_CONSTRUCTION, scale.repeats)
    point = _point(length, window, compared, (MATCHES, MARKING, AUTO), {**parameters, "stream": "compared"}, repeats)
    require_same(point, MATCHES, CONSTRUCTION, counted="matches")
    return [point, _point(length, window, whole, (MARKING, AUTO), {**parameters, "stream": "whole"}, repeats)]


def _point(
    length: int,
    window: int,
    table: pa.Table,
    plans: Sequence[str],
    parameters: Mapping[str, float | str],
    repeats: int,
) -> Point:
    types = tickers_of(length)
    query = count_query(types, f"{window} ms")
    work = {MATCHES: _built_objects(table, types, window)}
    counted = [
        kleene_query(name, query, table, PLANS[name], work=work.get(name, _counter_objects(table, types, window)))
        for name in plans
    ]
    return measure(
        [construction(CONSTRUCTION, [types], f"{window} ms", table), *counted],
        events=table.num_rows,
        parameters=parameters,
        baseline=MATCHES if MATCHES in plans else CONSTRUCTION,
        repeats=repeats,
    )


Work = Callable[[Run], Mapping[str, int]]


def _counter_objects(table: pa.Table, types: Sequence[str], window: int) -> Work:
    """The paper's count of prefix counters: one per live start event."""
    starts = most_in_window(table, types[:1], window)
    return lambda _: {"objects": starts}


def _built_objects(table: pa.Table, types: Sequence[str], window: int) -> Work:
    """The paper's count: events on the stacks, a pointer of each but the first type's, and matches that are kept for counting.

    The last is the largest COUNT: matches alive at a trigger.
    """
    events = most_in_window(table, types, window)
    pointers = most_in_window(table, types[1:], window)
    return lambda done: {"objects": events + pointers + largest(done.matches)}


def most_in_window(table: pa.Table, types: Sequence[str], window: int) -> int:
    """The most events of some types that any window holds, in a stream with one event per millisecond.

    >>> most_in_window(pa.table({"type": pa.array(["A", "B", "A", "A", "B"]).dictionary_encode()}), ("A",), 3)
    2
    """
    column = table.column("type").combine_chunks()
    chosen = np.flatnonzero(np.isin(np.array(column.dictionary.to_pylist()), types))
    seen = np.concatenate([[0], np.cumsum(np.isin(column.indices.to_numpy(), chosen))])
    width = min(window, len(column))
    return int(np.max(seen[width:] - seen[: seen.size - width]))


def figure_14a(scale: Scale) -> Experiment:
    return Experiment(
        "figure14a",
        f"Patterns of length {LONG_LENGTHS[0]} to {LONG_LENGTHS[-1]}, counters alone",
        axis="length",
        headline=f"no degradation up to length {LONG_LENGTHS[-1]} and a window of {LONG_WINDOW:,} ms",
        clock="cpu",
        points=tuple(_long(length, scale) for length in scale.along(LONG_LENGTHS)),
    )


def _long(length: int, scale: Scale) -> Point:
    table = trades(scale.synthetic)
    contenders = [
        kleene_query(_named(name, of), count_query(tickers_of(of), f"{LONG_WINDOW} ms"), table, PLANS[name], by_rows=True)
        for name in (AUTO, MARKING)
        for of in (SHORTEST, length)
    ]
    point = measure(
        contenders,
        events=table.num_rows,
        parameters={"length": length, "window": LONG_WINDOW},
        baseline=_named(AUTO, SHORTEST),
        repeats=scale.repeats,
    )
    for of in (SHORTEST, length):
        require_same(point, _named(AUTO, of), _named(MARKING, of))
    return point


def _named(plan: str, length: int) -> str:
    return f"{plan}, length {SHORTEST}" if length == SHORTEST else plan


def figure_14b(scale: Scale) -> Experiment:
    return Experiment(
        "figure14b",
        "Negation: q2 is q1 with a negative component",
        axis="window",
        series="stream",
        headline="almost no overhead for counters, a significant one where matches are filtered after construction",
        clock="cpu",
        points=tuple(point for window in scale.along((WINDOW // 2, WINDOW)) for point in _negation(window, scale)),
    )


Q1 = ("DELL", "IPIX", TRIGGER)
Q2 = ("DELL", "IPIX", f"!{NEGATED}", TRIGGER)


def _negation(window: int, scale: Scale) -> list[Point]:
    compared = affordable(scale.events, scale.matches, len(Q1), window)
    return [
        _negated(window, trades(compared), (MATCHES,), "compared", min(REPEATS_OF_CONSTRUCTION, scale.repeats)),
        _negated(window, trades(scale.synthetic), (AUTO, MARKING), "whole", 2 * scale.repeats),
    ]


def _negated(window: int, table: pa.Table, plans: Sequence[str], stream: str, repeats: int) -> Point:
    contenders = [
        kleene_query(f"{name}, {of}", count_query(types, f"{window} ms"), table, PLANS[name], by_rows=True)
        for name in plans
        for of, types in (("q1", Q1), ("q2", Q2))
    ]
    if stream == "compared":
        contenders += [
            construction(f"{CONSTRUCTION}, {of}", [types], f"{window} ms", table) for of, types in (("q1", Q1), ("q2", Q2))
        ]
    point = measure(
        contenders,
        events=table.num_rows,
        parameters={"window": window, "stream": stream},
        baseline=f"{plans[0]}, q1",
        repeats=repeats,
    )
    for of in ("q1", "q2"):
        require_same(point, *(f"{name}, {of}" for name in plans))
    return point
