"""Experiments 3 and 4 (Figures 8d and 8e): all runs at once against one run at a time, all results and non-overlapping ones."""

from __future__ import annotations

from benchmarks.harness import Experiment, Point, measure
from benchmarks.saseplus.contenders import kleene
from benchmarks.saseplus.streams import PRICES, QUERIES, Scale, pattern_query, stream

THIRD_COMPONENT = ("p3*s2", "p3*s3")


def experiment_3(scale: Scale) -> Experiment:
    return Experiment(
        "3",
        "Basic and backtrack algorithms, all results (Figure 8d)",
        axis="query",
        headline="basic 200 to 300 times backtrack, 1.3 times for p2s2",
        clock="cpu",
        points=tuple(_point(name, scale, non_overlap=False) for name in QUERIES),
    )


def experiment_4(scale: Scale) -> Experiment:
    return Experiment(
        "4",
        "Basic and backtrack algorithms, non-overlapping results (Figure 8e)",
        axis="query",
        headline="close to each other for the queries of experiment 1, basic 10 times backtrack for p3*s3",
        clock="cpu",
        points=tuple(_point(name, scale, non_overlap=True) for name in (*QUERIES, *THIRD_COMPONENT)),
    )


def _point(name: str, scale: Scale, *, non_overlap: bool) -> Point:
    table = stream(scale.width, scale.backtrack_windows, scale.complexity)
    query = pattern_query(name, scale.width, returned=PRICES, non_overlap=non_overlap)
    return measure(
        [kleene(algorithm, query, table, algorithm=algorithm) for algorithm in ("basic", "backtrack")],
        events=table.num_rows,
        parameters={"query": name, "W": scale.width},
        baseline="backtrack",
        repeats=scale.repeats,
    )
