"""The keyed three-step query of experiment 5 over a table in memory, on one core, against DuckDB's self-joins.

Both materialise the times of the three events to Arrow, or only count. Every formulation of the join runs in both join
orders, and the fastest is the baseline, so that DuckDB is compared at its best.
"""

from __future__ import annotations

import pyarrow as pa

from benchmarks.harness import Experiment, Point, measure
from benchmarks.machine import one_arrow_thread
from benchmarks.sase.contenders import kleene
from benchmarks.sase.joins import against_fastest_join, duckdb_joins
from benchmarks.sase.streams import Scale, W, events, selectivity, sequence_query

L = 3
V1_VALUES = (100, 1_000)


def embedded(scale: Scale) -> Experiment:
    points = [point for V1 in V1_VALUES for text in scale.encodings for point in _points(V1, text, scale)]
    return Experiment(
        "embedded",
        "Three steps with a key over an Arrow table, one core",
        axis="V1",
        series="case",
        headline="Kleene at least as fast as the fastest of DuckDB's hand-written bucketed self-joins",
        clock="cpu",
        points=tuple(points),
    )


def _points(V1: int, text: bool, scale: Scale) -> list[Point]:
    with one_arrow_thread():
        table = events(scale.big, V=(V1,), text=text)
        return [_point(V1, text, table, count_only, scale) for count_only in (False, True)]


def _point(V1: int, text: bool, table: pa.Table, count_only: bool, scale: Scale) -> Point:
    case = f"{'string' if text else 'dictionary'} types, {'count' if count_only else 'rows'}"
    contenders = [
        kleene("kleene", sequence_query(L, returned=L), table, discard=count_only),
        *duckdb_joins(table, L, W, returned=L, count_only=count_only),
    ]
    point = measure(
        contenders,
        events=table.num_rows,
        parameters={"V1": V1, "case": case, "selectivity": selectivity(L, V1)},
        baseline="kleene",
        repeats=scale.repeats,
    )
    return against_fastest_join(point)
