"""Experiments 5 and 6 (Figures 8f and 8g, Table 3): equivalent runs merged, against every run by itself."""

from __future__ import annotations

import pyarrow as pa

from benchmarks.harness import Experiment, Point, measure
from benchmarks.saseplus.contenders import kleene, matching
from benchmarks.saseplus.streams import PRICES, QUERIES, Scale, pattern_query, stream

S3_QUERIES = ("p1s3", "p2s3", "p3s3")


def experiment_5(scale: Scale) -> Experiment:
    return Experiment(
        "5",
        "Merging equivalent runs (Figure 8f)",
        axis="query",
        headline="merging 1.5 times basic for p1s3, 1.4 for p2s3, 1.5 for p3s3",
        clock="cpu",
        points=tuple(
            _point(name, scale.width, stream(scale.width, scale.windows, scale.complexity), scale, constructing=True)
            for name in QUERIES
        ),
    )


def experiment_6(scale: Scale) -> Experiment:
    return Experiment(
        "6",
        "Merging equivalent runs, window size W, matching by itself (Figure 8g, Table 3)",
        axis="W",
        series="query",
        headline="merging 1.4 to 2.1 times basic; 45 to 75 % of the runs merged",
        clock="cpu",
        points=tuple(
            # Nothing is enumerated, so the stream is as long as the paper's.
            _point(name, W, stream(W, scale.windows, 1 << 62), scale, constructing=False)
            for name in S3_QUERIES
            for W in scale.along(scale.widths)
        ),
    )


def _point(name: str, W: int, table: pa.Table, scale: Scale, *, constructing: bool) -> Point:
    query = pattern_query(name, W, returned=PRICES if constructing else "")
    contender = kleene if constructing else matching
    return measure(
        [contender(algorithm, query, table, algorithm=algorithm) for algorithm in ("basic", "merging")],
        events=table.num_rows,
        parameters={"query": name, "W": W},
        baseline="basic",
        repeats=scale.repeats,
    )
