"""Experiments 5 and 6 (Figures 11 and 12): SASE's plan against relational joins, normalised as in the paper.

The paper's peer was TelegraphCQ; here it is DuckDB at one thread over the same Arrow table and, for experiment 5, Spark SQL
over the same Parquet file. Each system is normalised by its own throughput at the lightest load.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.harness import Experiment, Point, measure
from benchmarks.machine import Memory
from benchmarks.sase.contenders import kleene
from benchmarks.sase.joins import against_fastest_join, duckdb_join, duckdb_joins, duckdb_sql, spark_join
from benchmarks.sase.streams import Scale, W, affordable, events, selectivity, sequence_query

LENGTHS = (2, 3, 4, 5, 6)
V1_OF_LENGTHS = 100
V1_VALUES = (10, 20, 50, 100, 200, 500, 1_000, 10_000)
V2 = 20
REORDERED_EVENTS = 100_000


def experiment_5(scale: Scale, session: Any = None, folder: Path | None = None) -> Experiment:
    """Varies the length; with a Spark session also on Spark, over events in Parquet in the folder."""
    points = [point for L in scale.along(LENGTHS) for point in _length(L, scale)]
    if session is not None:
        assert folder is not None
        points += _lengths_on_spark(scale, session, folder)
    return Experiment(
        "5",
        "Sequence length L (Figure 11)",
        axis="L",
        series="route",
        headline="normalised to L = 2, SASE keeps 0.5 at L = 6; the join falls below 0.01 from L = 5 on",
        clock="cpu",
        points=tuple(points),
    )


def _length(L: int, scale: Scale) -> list[Point]:
    # The longest sequences have the most matches: the same events serve all lengths.
    table = events(affordable(scale, max(selectivity(n, V1_OF_LENGTHS) for n in LENGTHS)), V=(V1_OF_LENGTHS,))
    found = []
    for route in ("rows", "none"):
        count_only = route == "none"
        contenders = [
            kleene("kleene", sequence_query(L), table, discard=count_only),
            *duckdb_joins(table, L, W, count_only=count_only, reordered=False),
        ]
        parameters: dict[str, float | str] = {"L": L, "route": route, "selectivity": selectivity(L, V1_OF_LENGTHS)}
        point = measure(contenders, events=table.num_rows, parameters=parameters, baseline="kleene", repeats=scale.repeats)
        found.append(against_fastest_join(point))
    return [*found, _reordered(L, scale)]


def _reordered(L: int, scale: Scale) -> Point:
    """What DuckDB's own join order costs: on few events, as it may cost a hundred times more."""
    table = events(min(scale.events // 5, REORDERED_EVENTS), V=(V1_OF_LENGTHS,))
    sql = duckdb_sql("packed key", L, W)
    contenders = [
        duckdb_join(f"duckdb: {order}", sql, table, as_written=order == "as written") for order in ("as written", "reordered")
    ]
    parameters: dict[str, float | str] = {"L": L, "route": "join order", "selectivity": selectivity(L, V1_OF_LENGTHS)}
    return measure(
        contenders,
        events=table.num_rows,
        parameters=parameters,
        baseline="duckdb: as written",
        repeats=min(3, scale.repeats),
    )


def _lengths_on_spark(scale: Scale, session: Any, folder: Path) -> list[Point]:
    from benchmarks.sase.on_spark import cpu_clock, jvm_of, parquet_events, to_nowhere

    count = max(scale.events, scale.big // 5)
    frame = session.read.parquet(str(parquet_events(folder, count, V1_OF_LENGTHS)))
    found = []
    for L in scale.along(LENGTHS):
        matches = sequence_query(L).match(frame, time="ts", type="type")
        contenders = [to_nowhere("kleene", matches), to_nowhere("spark_sql", spark_join(frame, L, W))]
        parameters: dict[str, float | str] = {"L": L, "route": "spark", "selectivity": selectivity(L, V1_OF_LENGTHS)}
        found.append(
            measure(
                contenders,
                events=count,
                parameters=parameters,
                baseline="spark_sql",
                repeats=min(3, scale.repeats),
                cpu=cpu_clock(session),
                memory=Memory(jvm_of(session)),
            )
        )
    return found


def experiment_6(scale: Scale) -> Experiment:
    return Experiment(
        "6",
        "Domain size V1 with one and two equivalence tests (Figure 12)",
        axis="V1",
        series="tests",
        headline="normalised to V1 = 10,000, the join drops much faster than SASE as V1 shrinks; a second test helps SASE more",
        clock="cpu",
        points=tuple(_domain(V1, tests, scale) for tests in (1, 2) for V1 in scale.along(V1_VALUES)),
    )


def _domain(V1: int, tests: int, scale: Scale) -> Point:
    # DuckDB may apply the second test after the first join, so the first alone bounds the work.
    table = events(affordable(scale, selectivity(3, V1)), V=(V1, V2))
    contenders = [kleene("kleene", sequence_query(3, tests=tests), table), *duckdb_joins(table, 3, W, tests=tests)]
    parameters = {"V1": V1, "tests": tests, "selectivity": selectivity(3, V1 * (V2 if tests == 2 else 1))}
    point = measure(contenders, events=table.num_rows, parameters=parameters, baseline="kleene", repeats=scale.repeats)
    return against_fastest_join(point)
