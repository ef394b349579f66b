"""What the versions of Spark that are supported do differently, in one place; schemas are in `kleene.runtime.spark.schemas`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from kleene.runtime.stream.plan import groups_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ModuleNotFoundError:  # before Spark 4.2, where a source made in Python has all its rows in one micro-batch

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Nothing that Spark would ask for."""


__all__ = ["SupportsTriggerAvailableNow", "placed"]


def placed(blocks: DataFrame, count: int, column: str) -> DataFrame:
    """The rows with each number of a column, 0 to count - 1, in a partition of their own."""
    if hasattr(blocks, "repartitionById"):
        return blocks.repartitionById(count, column)
    # Spark 4.0 places rows by hash only: each number becomes one whose hash leads to its partition.
    hashed = f.array(*map(f.lit, groups_for([column], count)))
    return blocks.repartition(count, f.element_at(hashed, blocks[column] + 1))
