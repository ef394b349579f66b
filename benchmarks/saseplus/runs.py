"""Experiments 1 and 2 (Figures 8a to 8c, Table 2): the queries, their cost, and how it grows with the output."""

from __future__ import annotations

from benchmarks.harness import Experiment, Point, measure
from benchmarks.saseplus.contenders import kleene
from benchmarks.saseplus.streams import PRICES, QUERIES, WINDOW_QUERIES, Scale, pattern_query, stream


def experiment_1(scale: Scale) -> Experiment:
    return Experiment(
        "1",
        "Iterator predicates and event selection strategies (Figure 8a, Table 2)",
        axis="query",
        headline="p2s2 an order of magnitude faster than p2s3, p3 close to p1; matching is 60 to 100 % of the cost",
        clock="cpu",
        points=tuple(_query(name, scale) for name in QUERIES),
    )


def _query(name: str, scale: Scale) -> Point:
    table = stream(scale.width, scale.windows, scale.complexity)
    contenders = [
        kleene("enumerated", pattern_query(name, scale.width, returned=PRICES), table, algorithm="basic"),
        kleene("matching", pattern_query(name, scale.width), table, algorithm="basic", output="compressed"),
    ]
    return measure(
        contenders,
        events=table.num_rows,
        parameters={"query": name, "W": scale.width},
        baseline="enumerated",
        repeats=scale.repeats,
    )


def experiment_2(scale: Scale) -> Experiment:
    return Experiment(
        "2",
        "Window size W, cost against output complexity (Figures 8b and 8c)",
        axis="W",
        series="query",
        headline="throughput falls quadratically with W unless matches are short, but cost is linear in the output complexity",
        clock="cpu",
        points=tuple(_window(name, W, scale) for name in WINDOW_QUERIES for W in scale.along(scale.widths)),
    )


def _window(name: str, W: int, scale: Scale) -> Point:
    table = stream(W, scale.windows, scale.complexity)
    query = pattern_query(name, W, returned=PRICES)
    return measure(
        [kleene(algorithm, query, table, algorithm=algorithm) for algorithm in ("basic", "merging")],
        events=table.num_rows,
        parameters={"query": name, "W": W},
        baseline="basic",
        repeats=scale.repeats,
    )
