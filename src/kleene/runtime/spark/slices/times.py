"""When the events of a DataFrame are, as far as a sample tells, and into how many slices their time is worth cutting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructField, StructType

from kleene.common.arrays import Array
from kleene.common.columns import time_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kleene.runtime.spark.frame import Shuffled


FEWEST_ROWS = 250_000
"""A slice of fewer relevant rows is not worth a task."""

MOST_ROWS, MOST_BYTES = 2_000_000, 128 << 20
"""A task holds its slice, and what leads to it, in memory."""

MOST_SLICES = 512

CONNECT_TASKS = 32
"""The most slices on Spark Connect, which does not tell how many cores there are, unless there are very many rows."""

SAMPLED, SEED = 0.02, 2006
"""The share of rows that slices are cut by, and the seed they are drawn by: the same rows are cut in the same way, and Spark
runs the code that it compiled before.
"""

SMALL = 1 << 20
"""A DataFrame of fewer bytes, by Spark's estimate, is not looked at."""


@dataclass(frozen=True, slots=True)
class Times:
    """About how many events there are, the first and the last instant of a sample, and instants that divide it evenly."""

    events: int
    first: int
    last: int
    quantiles: Array
    width: float = 0
    """Approximate bytes per row."""

    @property
    def most_rows(self) -> int:
        """A slice of more does not fit into the memory of a task."""
        return max(min(MOST_ROWS, int(MOST_BYTES / max(self.width, 1))), 1)

    def cuts(self, count: int) -> list[int]:
        """Start times of `count` slices with about equally many events."""
        places = np.arange(1, count) * MOST_SLICES // count - 1
        return sorted({cut for cut in self.quantiles[places].tolist() if cut > self.first})


def parallelism(frame: DataFrame) -> int:
    """How many tasks run at a time."""
    session: Any = frame.sparkSession
    if "connect" in type(session).__module__:
        return min(int(session.conf.get("spark.sql.shuffle.partitions")), CONNECT_TASKS)
    return int(session.sparkContext.defaultParallelism)


def time_column(plan: Shuffled) -> str:
    """The time column of numbered events."""
    return f"c{plan.columns.index(plan.bound.schema.time)}"


def sampled_times(events: DataFrame, time: str, unit: str | None) -> Times:
    """What a sample tells of a time column: a job of its own."""
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
    count = found.column("n")[0].as_py()
    if not count:
        return Times(0, 0, 0, np.empty(0, np.int64))
    first, last = (int(time_values(found.column(name).combine_chunks(), unit)[0]) for name in ("low", "high"))
    cuts = time_values(found.column("cuts").combine_chunks().flatten(), unit)
    return Times(round(count / SAMPLED), first, last, cuts, found.column("width")[0].as_py())


def _width(field: StructField) -> str:
    """About how many bytes a value of a column takes in Arrow, in SQL."""
    if isinstance(field.dataType, StringType | BinaryType | ArrayType | MapType | StructType):
        return f"coalesce(octet_length(cast({field.name} AS string)), 0)"
    return "8"


def is_small(events: DataFrame) -> bool:
    """Whether Spark knows that there are few rows, before it computes anything; Spark Connect does not tell."""
    plan: Any = getattr(events, "_jdf", None)
    return plan is not None and plan.queryExecution().analyzed().stats().sizeInBytes() < SMALL
