"""The Spark batch runtime: any DataFrame in, a lazy DataFrame of matches out.

The plan is made once, on the driver. Before the shuffle the DataFrame keeps only rows that some component can bind
(`push_down`) and columns that the plan reads. Then: shuffle by key, sort by stream order within each partition, and one
`mapInArrow` in which the engine keeps the state of all keys. What no key divides is cut into slices of time (`slices.tasks`),
and so are keys that are much larger than others (`slices.skew`). Where a DataFrame is a plain scan of Parquet files, the tasks
read these themselves, without a shuffle (`direct`). Nothing of the session is changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import StructType

from kleene.common.errors import PlanningError, Problem
from kleene.engine.build import build_matcher, output_schema
from kleene.plan.contract import Plan
from kleene.plan.distribution.slicing import obstacle
from kleene.runtime.embedded import Batches, match_batches, only, rows_of
from kleene.runtime.spark.direct.route import direct_rows
from kleene.runtime.spark.direct.scan import NotDirectError
from kleene.runtime.spark.frame import (
    Answer,
    Restored,
    arrow_schema,
    distributed,
    named_batches,
    type_codes,
    warn_of_dropped,
    with_type_codes,
    worker_interpreter,
)
from kleene.runtime.spark.push_down import any_of, bad_row_conditions, relevant_events
from kleene.runtime.spark.schemas import from_arrow
from kleene.runtime.spark.slices.skew import skewed
from kleene.runtime.spark.slices.tasks import sliced_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class SparkRun:
    """A run on Spark, computed when its DataFrames are."""

    matches: DataFrame
    _find_bad_rows: Callable[[], DataFrame] = field(repr=False)
    kept: DataFrame | None = None
    """What is kept for the queries of a workload that are answered together."""
    distribution: str = ""
    """How the events are distributed over tasks, in words."""
    scan: str = ""
    """Who reads the events: the tasks, from files, or Spark, and why, in words."""

    @property
    def bad_rows(self) -> DataFrame:
        """The input rows with a NULL time, key or type, or an undeclared type, with a `reason` column."""
        return self._find_bad_rows()

    def unpersist(self) -> None:
        """Frees the persisted matches; they are recomputed on the next use."""
        if self.kept is not None:
            self.kept.unpersist()


def run_spark(plan: Plan, frame: DataFrame, *, bad_rows: str, columns: tuple[str, ...] = (), scan: str = "auto") -> SparkRun:
    """The lazy matches of a plan over a DataFrame, with some of their columns or with all; `scan` as in `MatchOptions`."""
    # Rows set aside are in SparkRun.bad_rows; the engine only has to pass over them.
    matcher_policy = "drop" if bad_rows == "quarantine" else bad_rows
    output = only(columns, output_schema(plan, arrow_schema(frame)))
    answer, who = _read_directly(plan, frame, matcher_policy, output, scan)
    if answer is None:
        answer = _shuffled(plan, frame, matcher_policy, from_arrow(output))
    return SparkRun(answer.matches, partial(bad_events, plan, frame), distribution=answer.distribution, scan=who)


def _read_directly(plan: Plan, frame: DataFrame, bad_rows: str, output: pa.Schema, scan: str) -> tuple[Answer | None, str]:
    """The rows from files that tasks read themselves, and None, with the reason, where they do not."""
    if scan == "spark":
        return None, "by Spark: scan='spark'"
    try:
        return direct_rows(plan, frame, bad_rows=bad_rows, output=output), "by the tasks, from Parquet files"
    except NotDirectError as reason:
        if scan == "direct":
            hint = "leave scan out, and Spark reads the events"
            raise PlanningError(Problem(f"tasks cannot read the events from files: {reason}", hint=hint)) from reason
        return None, f"by Spark: {reason}"


def _shuffled(plan: Plan, frame: DataFrame, bad_rows: str, output: StructType) -> Answer:
    """The rows from events that Spark reads and shuffles."""
    events = relevant_events([plan], frame)
    types = type_codes(plan, frame)
    if types is not None:
        events = with_type_codes(plan, events, types)
    return _sliced(plan, events, types, bad_rows, output) or _matched(plan, events, types, bad_rows, output)


def _sliced(plan: Plan, events: DataFrame, types: tuple[str, ...] | None, bad_rows: str, output: StructType) -> Answer | None:
    """The rows of events that no key divides, or some key hardly does, in slices of time; None where that does not pay."""
    if obstacle(plan) is not None and not plan.has_totals:
        return None
    sliced = partial(sliced_rows, plan, restored=named_batches(plan, types), bad_rows=bad_rows, output=output)
    if not plan.keys:
        return sliced(events)
    return skewed(plan.keys, events, sliced, lambda rest: _matched(plan, rest, types, bad_rows, output))


def _matched(plan: Plan, events: DataFrame, types: tuple[str, ...] | None, bad_rows: str, output: StructType) -> Answer:
    """The matches of relevant events, distributed by key."""
    events = distributed(plan, events, arrival=plan.waits_for_arrival)
    with worker_interpreter(events):
        task = partial(
            _match_partition, plan=plan, bad_rows=bad_rows, restored=named_batches(plan, types), columns=output.names
        )
        matches = events.mapInArrow(task, output)
    reason = obstacle(plan) or "there are few events, one core, or a window that is long beside them"
    return Answer(matches, f"by {', '.join(plan.keys)}" if plan.keys else f"in one task: {reason}")


def _match_partition(batches: Batches, plan: Plan, bad_rows: str, restored: Restored, columns: list[str]) -> Batches:
    first = next(batches, None)
    if first is not None:
        first = restored(first)
        matcher = build_matcher(plan, first.schema, bad_rows=bad_rows)
        matcher.compute_only(columns)
        found = match_batches(matcher, chain([first], map(restored, batches)))
        yield from (rows.select(columns) for rows in rows_of(found))
        warn_of_dropped(matcher.metrics)


def bad_events(plan: Plan, frame: DataFrame) -> DataFrame:
    """The input rows that cannot be processed, each with the reason."""
    from pyspark.sql import functions as f

    conditions = bad_row_conditions(plan, frame)
    reason: Any = None
    for condition, text in conditions:
        reason = f.when(condition, f.lit(text)) if reason is None else reason.when(condition, f.lit(text))
    return frame.where(any_of([condition for condition, _ in conditions])).withColumn("reason", reason)
