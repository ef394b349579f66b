"""Figures 15 and 16: several queries at once, counted apart or with what they have in common counted once.

Synthetic streams have the types of the queries and no others, all equally frequent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import kleene
from benchmarks.aseq.contenders import (
    AUTO,
    CONSTRUCTION,
    MARKING,
    MATCHES,
    PLANS,
    STACKS,
    Plan,
    construction,
    kleene_workload,
    require_same,
)
from benchmarks.aseq.streams import WINDOW, Scale, affordable, count_query, synthetic, trades
from benchmarks.harness import Experiment, Point, measure

WINDOWS = (100, 200, 500, 1_000)
THREE = {
    "q1": ("DELL", "IPIX", "AMAT", "INTC"),
    "q2": ("MSFT", "IPIX", "AMAT", "CSCO"),
    "q3": ("ORCL", "IPIX", "AMAT", "SUNW"),
}
"""The queries of Figure 15: two tickers are common to all, in the middle."""
QUERIES = (2, 3, 4, 5, 6)
COMMON = (2, 3, 4, 5, 6)
QUERIES_FIXED = 3
COMMON_FIXED = 3
METHODS = (MARKING, STACKS)
ALONE, SHARED = "alone", "shared"
REPEATS_OF_CONSTRUCTION = 3


def figure_15(scale: Scale) -> Experiment:
    return Experiment(
        "figure15",
        "Three queries with a common substring: construction, counters, counters shared",
        axis="window",
        headline="counters at least 100 times faster than construction, with and without sharing",
        clock="cpu",
        points=tuple(_three(window, scale) for window in scale.along(WINDOWS)),
    )


def _three(window: int, scale: Scale) -> Point:
    table = trades(affordable(scale.events, scale.matches // len(THREE), len(THREE["q1"]), window))
    queries = {name: count_query(types, f"{window} ms", name=name) for name, types in THREE.items()}
    plans: dict[str, Plan] = {MATCHES: PLANS[MATCHES]}
    for method in METHODS:
        plans |= _plans(method, "chop")
    plans[AUTO] = None
    point = measure(
        [
            *(kleene_workload(name, queries, table, plan) for name, plan in plans.items()),
            construction(CONSTRUCTION, list(THREE.values()), f"{window} ms", table),
        ],
        events=table.num_rows,
        parameters={"window": window},
        baseline=MATCHES,
        repeats=min(REPEATS_OF_CONSTRUCTION, scale.repeats),
    )
    require_same(point, *plans)
    return point


def _plans(method: str, sharing: str) -> dict[str, Plan]:
    """Counters of one window method, sharing nothing and sharing."""
    return {
        f"{method}, {ALONE}": {"mechanism": "counters", "window": method, "sharing": "none"},
        f"{method}, {SHARED}": {"mechanism": "counters", "window": method, "sharing": sharing},
    }


def figure_16a(scale: Scale) -> Experiment:
    return _figure_16("figure16a", "prefix", "queries", QUERIES, scale, "about 2 times faster from 2 to 6 queries")


def figure_16b(scale: Scale) -> Experiment:
    return _figure_16("figure16b", "prefix", "common", COMMON, scale, "3 times faster at length 2, 5 times at length 6")


def figure_16c(scale: Scale) -> Experiment:
    return _figure_16("figure16c", "chop", "common", COMMON, scale, "1.3 times faster at length 2, 2.6 times at length 6")


def figure_16d(scale: Scale) -> Experiment:
    return _figure_16("figure16d", "chop", "queries", QUERIES, scale, "a gain that grows with the queries, to about 2 times")


def _figure_16(name: str, sharing: str, axis: str, values: tuple[int, ...], scale: Scale, headline: str) -> Experiment:
    common = {"prefix": "prefix", "chop": "substring"}[sharing]
    title = {
        "queries": f"Queries that share a {common} of {COMMON_FIXED} types",
        "common": f"Length of the {common} that {QUERIES_FIXED} queries share",
    }[axis]
    fixed = {"queries": QUERIES_FIXED, "common": COMMON_FIXED}
    return Experiment(
        name,
        title,
        axis=axis,
        headline=headline,
        clock="cpu",
        points=tuple(_shared(sharing, {**fixed, axis: value}, scale) for value in scale.along(values)),
    )


def patterns(sharing: str, queries: int, common: int) -> dict[str, tuple[str, ...]]:
    """Queries that begin alike and end each in a type of its own, or begin each in a type of its own and end alike.

    >>> patterns("prefix", 2, 2)
    {'q1': ('S1', 'S2', 'X1'), 'q2': ('S1', 'S2', 'X2')}
    >>> patterns("chop", 2, 2)
    {'q1': ('X1', 'S1', 'S2'), 'q2': ('X2', 'S1', 'S2')}
    """
    shared = tuple(f"S{place}" for place in range(1, common + 1))
    owned = [f"X{number}" for number in range(1, queries + 1)]
    return {f"q{item[1:]}": (*shared, item) if sharing == "prefix" else (item, *shared) for item in owned}


def types_of(of_queries: Mapping[str, Sequence[str]]) -> list[str]:
    """The types of all queries, each once."""
    return list(dict.fromkeys(item for types in of_queries.values() for item in types))


def _shared(sharing: str, parameters: Mapping[str, int], scale: Scale) -> Point:
    found = patterns(sharing, parameters["queries"], parameters["common"])
    queries: dict[str, kleene.Query] = {name: count_query(types, f"{WINDOW}", name=name) for name, types in found.items()}
    table = synthetic(scale.synthetic, types_of(found))
    plans: dict[str, Plan] = {}
    for method in METHODS:
        plans |= _plans(method, sharing)
    plans[AUTO] = None
    point = measure(
        [kleene_workload(name, queries, table, plan) for name, plan in plans.items()],
        events=table.num_rows,
        parameters=parameters,
        baseline=f"{MARKING}, {ALONE}",
        repeats=scale.repeats,
    )
    require_same(point, *plans)
    return point
