"""When the events of a DataFrame are, as far as a sample tells, and how many tasks there are for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructField, StructType

from kleene.common.columns import time_values
from kleene.plan.distribution import slicing
from kleene.plan.distribution.slicing import MOST_SLICES, Times
from kleene.runtime.spark.frame import Shuffled, numbered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONNECT_TASKS = 32
"""The most slices on Spark Connect, which does not tell how many cores there are, unless there are very many rows."""

SAMPLED, SEED = 0.02, 2006
"""The share of rows that slices are cut by, and the seed they are drawn by: the same rows are cut in the same way, and Spark
runs the code that it compiled before.
"""

SMALL = 1 << 20
"""A DataFrame of fewer bytes, by Spark's estimate, is not looked at."""


def parallelism(frame: DataFrame) -> int:
    """How many tasks run at a time."""
    session: Any = frame.sparkSession
    if "connect" in type(session).__module__:
        return min(int(session.conf.get("spark.sql.shuffle.partitions")), CONNECT_TASKS)
    return int(session.sparkContext.defaultParallelism)


def time_column(plan: Shuffled) -> str:
    """The time column of numbered events."""
    return f"c{plan.columns.index(plan.bound.schema.time)}"


def sampled_times(plan: Shuffled, events: DataFrame) -> Times | None:
    """What a sample of relevant events tells, by a job of its own; None if they are too few to be cut, or one task runs at a
    time.
    """
    tasks = parallelism(events)
    if tasks == 1 or is_small(events):
        return None
    events, time, unit = numbered(events), time_column(plan), plan.bound.schema.time_unit
    quantiles = ", ".join(f"{number / MOST_SLICES}D" for number in range(1, MOST_SLICES))
    width = " + ".join(_width(field) for field in events.schema)
    found = (
        events.where(f"rand({SEED}) < {SAMPLED}")
        .selectExpr(
            f"count({time}) AS n",
            f"min({time}) AS low",
            f"max({time}) AS high",
            f"percentile_approx({time}, array({quantiles})) AS cuts",
            f"avg({width}) AS width",
        )
        .toArrow()
    )
    count = round(found.column("n")[0].as_py() / SAMPLED)
    if not count or count < 2 * slicing.FEWEST_ROWS:
        return None
    first, last = (int(time_values(found.column(name).combine_chunks(), unit)[0]) for name in ("low", "high"))
    cuts = time_values(found.column("cuts").combine_chunks().flatten(), unit)
    return Times(tasks, count, first, last, cuts, found.column("width")[0].as_py())


def _width(field: StructField) -> str:
    """About how many bytes a value of a column takes in Arrow, in SQL."""
    if isinstance(field.dataType, StringType | BinaryType | ArrayType | MapType | StructType):
        return f"coalesce(octet_length(cast({field.name} AS string)), 0)"
    return "8"


def is_small(events: DataFrame) -> bool:
    """Whether Spark knows that there are few rows, before it computes anything; Spark Connect does not tell."""
    plan: Any = getattr(events, "_jdf", None)
    return plan is not None and plan.queryExecution().analyzed().stats().sizeInBytes() < SMALL
