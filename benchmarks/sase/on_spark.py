"""The keyed three-step query of experiment 5 on Spark, against the same job with matching left out and against Spark SQL.

All write to the `noop` sink. Clocks: wall, and CPU of the JVM with its Python workers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import kleene
from benchmarks.harness import Clock, Contender, Experiment, Outcome, Point, measure
from benchmarks.machine import Memory, tree_cpu_seconds
from benchmarks.sase.joins import spark_join
from benchmarks.sase.streams import SEED, Scale, T, W, selectivity, sequence_query
from kleene.generators import sase
from kleene.interfaces.options import options_of

L = 3
V1_VALUES = (100, 1_000)
ROW_GROUP = 1_000_000


def start_session(cores: int = 2, memory: str = "4g") -> Any:
    """A local session whose workers use this interpreter."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{cores}]").appName("kleene-benchmarks")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.driver.memory": memory,
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def cpu_clock(session: Any) -> Clock:
    """CPU seconds of the session's JVM and of everything it started."""
    process = jvm_of(session)
    return lambda: tree_cpu_seconds(process)


def jvm_of(session: Any) -> int:
    """The process of a session's JVM."""
    return int(session._jvm.java.lang.ProcessHandle.current().pid())  # noqa: SLF001 -- pyspark has no public way


def parquet_events(folder: Path, count: int, V1: int) -> Path:
    """A Parquet file of events with plain string types, written once."""
    path = folder / f"sase-{count}-{V1}-{SEED}.parquet"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([("ts", pa.int64()), ("type", pa.string()), ("attr1", pa.int32())])
    partial = path.with_suffix(".partial")
    with pq.ParquetWriter(partial, schema) as writer:
        options = sase.SaseOptions(events=count, seed=SEED, V=(V1,), batch_size=ROW_GROUP)
        for batch in sase.batches(options):
            writer.write_table(pa.Table.from_batches([batch]).cast(schema), row_group_size=ROW_GROUP)
    partial.rename(path)
    return path


def to_nowhere(name: str, frame: Any, *, counted: bool = True) -> Contender:
    """Computes a DataFrame into the noop sink; its rows are counted in a job of their own, the first time."""
    known: list[int | None] = []

    def run() -> Outcome:
        frame.write.format("noop").mode("overwrite").save()
        if not known:
            known.append(frame.count() if counted else None)
        return Outcome(known[0])

    return Contender(name, run)


def _shuffled(frame: Any) -> Any:
    """What the three-step query's matcher is given: same filter, projection, types as numbers, shuffle and sort."""
    from kleene.runtime.spark.frame import arrow_schema, type_codes, with_type_codes
    from kleene.runtime.spark.push_down import relevant_events

    query = sequence_query(L, returned=L)
    plan = query.plan_for(arrow_schema(frame), options_of({"time": "ts", "type": "type"}))
    types = type_codes(plan, frame)
    assert types is not None
    return with_type_codes(plan, relevant_events([plan], frame), types).repartition(*plan.keys).sortWithinPartitions("ts")


def without_matching(frame: Any) -> Any:
    """The job with an empty matcher: events go to Python, nothing comes back."""

    # Inside, so that it travels by value: workers need not be able to import this package.
    def drop(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        return iter(())

    return _shuffled(frame).mapInArrow(drop, "t1 long, t2 long, t3 long")


def returning_rows(frame: Any, names: Sequence[str], per_row: float) -> Any:
    """The job with a matcher that finds nothing but returns as many rows as matches are expected, of the columns named."""

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        block = 1 << 17
        constant = pa.RecordBatch.from_pydict(dict.fromkeys(names, pa.array(range(block), pa.int64())))
        due = 0.0
        for batch in batches:
            due += batch.num_rows * per_row
            while due >= block:
                due -= block
                yield constant
        yield constant.slice(0, int(due))

    return _shuffled(frame).mapInArrow(answer, ", ".join(f"{name} long" for name in names))


def spark(scale: Scale, session: Any, folder: Path) -> Experiment:
    return Experiment(
        "spark",
        "Three steps with a key on Spark, local[2], Parquet to the noop sink",
        axis="V1",
        headline="at most 1.2 times the job without matching, at most 0.4 times the self-join",
        clock="wall",
        points=tuple(_point(V1, scale, session, folder) for V1 in V1_VALUES),
    )


def _point(V1: int, scale: Scale, session: Any, folder: Path) -> Point:
    frame = session.read.parquet(str(parquet_events(folder, scale.big, V1)))
    query, columns = sequence_query(L, returned=L), [f"t{number}" for number in range(1, L + 1)]
    per_row = selectivity(L, V1) * T / L
    contenders = [
        to_nowhere("kleene", query.match(frame, time="ts", type="type", columns=columns)),
        to_nowhere("all_columns", query.match(frame, time="ts", type="type")),
        to_nowhere("without_matching", without_matching(frame), counted=False),
        to_nowhere("returning_rows", returning_rows(frame, columns, per_row), counted=False),
        to_nowhere("returning_column", returning_rows(frame, columns[:1], per_row), counted=False),
        to_nowhere("spark_sql", spark_join(frame, L, W, returned=L)),
    ]
    return measure(
        contenders,
        events=scale.big,
        parameters={"V1": V1, "selectivity": selectivity(L, V1)},
        baseline="without_matching",
        repeats=max(3, scale.repeats),
        warm_up=2,  # the JVM is still compiling during the first
        cpu=cpu_clock(session),
        memory=Memory(jvm_of(session)),
    )


def sql(scale: Scale, session: Any, folder: Path) -> Experiment:
    return Experiment(
        "sql",
        "The same query in Spark SQL, by the table function `kleene_match`",
        axis="V1",
        headline="the same matches as the DataFrame API's, which is the faster one",
        clock="wall",
        points=tuple(_sql_point(V1, scale, session, folder) for V1 in V1_VALUES),
    )


def _sql_point(V1: int, scale: Scale, session: Any, folder: Path) -> Point:
    kleene.register(session)
    frame = session.read.parquet(str(parquet_events(folder, scale.big, V1)))
    frame.createOrReplaceTempView("events")
    query = sequence_query(L, returned=L)
    relevant = ", ".join(f"'E{number}'" for number in range(1, L + 1))

    def matched(table: str) -> Any:
        statement = f"SELECT * FROM kleene_match(TABLE({table}), :query, time => 'ts', type => 'type')"
        return session.sql(statement, {"query": str(query)})

    contenders = [
        to_nowhere("dataframe", query.match(frame, time="ts", type="type")),
        to_nowhere("sql", matched("events")),
        to_nowhere("sql_filtered", matched(f"SELECT * FROM events WHERE type IN ({relevant})")),
    ]
    return measure(
        contenders,
        events=scale.big,
        parameters={"V1": V1, "selectivity": selectivity(L, V1)},
        baseline="dataframe",
        repeats=max(3, scale.repeats),
        warm_up=2,
        cpu=cpu_clock(session),
        memory=Memory(jvm_of(session)),
    )
