"""Groups of queries over Spark DataFrames: one pass over the data for all queries of a group.

The plan is made once, on the driver, for a sample of the events, and shipped to the tasks. A task gives the matches of each
query as they come, a row for each Arrow batch, labelled with the query; the result is kept (`persist`), and the DataFrame of a
query reads its own rows of it. So the data is read, shuffled and matched once, however many of the queries are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from kleene.engine.multitree import SharedMatcher
from kleene.engine.multitree_choice import WORTH, Planner, expected_seconds
from kleene.plan.multi.cost import SharedStatistics
from kleene.plan.multi.groups import PatternGroup
from kleene.plan.multi.nodes import SharedPlan
from kleene.plan.multi.search import SEARCHES, MultiOptions, plan_shared
from kleene.runtime.arrow import match_batches
from kleene.runtime.spark_batch import (
    SparkRun,
    arrow_schema,
    bad_events,
    distributed,
    named_batches,
    relevant_events,
    worker_interpreter,
)
from kleene.runtime.workloads import SAMPLED, table_statistics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LABELLED = StructType([StructField("query", StringType()), StructField("matches", BinaryType())])
"""A row for each batch of matches: the query, and the batch as an Arrow stream."""


LEAST_SECONDS = 1.0
"""So long may a plan be searched for beside a job on Spark, however few events it was sampled on."""


def run_group(group: PatternGroup, frame: DataFrame, options: MultiOptions, *, bad_rows: str) -> dict[str, SparkRun]:
    """The lazy matches of all queries of a group over a DataFrame."""
    events = relevant_events(group, frame)
    plan = sampled_plan(group, sampled_statistics(group, frame), options)
    policy = "drop" if bad_rows == "quarantine" else bad_rows
    spread = distributed(group, events, arrival=group.all_rows and group.first.ties == "arrival")
    with worker_interpreter(spread):
        labelled = spread.mapInArrow(_match_partition(group, plan, options, policy), LABELLED).persist()
        schemas = SharedMatcher(group, Planner(group, options), arrow_schema(frame)).output_schemas
        matches = {name: _of_query(labelled, name, schema) for name, schema in schemas.items()}
    return {name: SparkRun(found, bad_events(group.plans[name], frame), labelled) for name, found in matches.items()}


def sampled_plan(group: PatternGroup, statistics: SharedStatistics, options: MultiOptions) -> SharedPlan:
    """The plan for a sample of the events, searched for a part of the time that the sample is expected to take, or a second."""
    if options.search not in SEARCHES:
        return plan_shared(group.leaves, group.clauses, statistics, options)
    first = plan_shared(group.leaves, group.clauses, statistics, replace(options, search="none"))
    seconds = min(options.seconds, max(LEAST_SECONDS, WORTH * expected_seconds(first)))
    return plan_shared(group.leaves, group.clauses, statistics, replace(options, seconds=seconds))


def sampled_statistics(group: PatternGroup, frame: DataFrame) -> SharedStatistics:
    """The statistics of some relevant events of a DataFrame."""
    return table_statistics(group, relevant_events(group, frame).limit(SAMPLED).toArrow())


def _match_partition(
    group: PatternGroup, plan: SharedPlan, options: MultiOptions, bad_rows: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    named = named_batches(group)

    def match(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = next(batches, None)
        if first is None:
            return
        first = named(first)
        matcher = SharedMatcher(group, Planner(group, options, plan=plan), first.schema, bad_rows=bad_rows)
        for query, rows in match_batches(matcher, chain([first], map(named, batches))):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as writer:
                writer.write_batch(rows)
            yield pa.record_batch(
                {"query": pa.array([query]), "matches": pa.array([sink.getvalue().to_pybytes()], pa.binary())}
            )

    return match


def _of_query(labelled: DataFrame, name: str, schema: pa.Schema) -> DataFrame:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for item in batch.column("matches"):
                yield from pa.ipc.open_stream(item.as_buffer())

    return labelled.where(labelled["query"] == name).mapInArrow(read, from_arrow_schema(schema))
