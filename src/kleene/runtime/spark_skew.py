"""Keys that are much larger than the others, so that one task would be busy with each for long: they are cut into slices of
time, alone.

A small job reads the first rows of every partition of the DataFrame, when the query is given it. A key that has more of them
than a task should is hot. Its events are matched in slices (`spark_time_slices`), all others by key as ever; the result is the
union of both, each of which reads the DataFrame.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StringType

from kleene.plan.optimizer import Plan
from kleene.plan.slicing import obstacle
from kleene.runtime.slice_blocks import Batches
from kleene.runtime.spark_batch import INTEGERS, Spread, any_of, quoted, worker_interpreter
from kleene.runtime.spark_time_slices import Restored, sliced_matches, slicing_of
from kleene.runtime.spark_times import is_small, parallelism

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LOOKED_AT = 20_000
"""The first rows of each partition, about."""

FEWEST_SEEN = 1_000
"""Fewer rows say nothing."""

HOT = 1.25
"""A key is hot if it has so many times the rows of an average task..."""

MOST_HOT = 8
"""...and is one of these, the largest: for each the DataFrame is read once more."""


def skewed_matches(
    plan: Plan, events: DataFrame, restored: Restored, bad_rows: str, output: Any, matched: Callable[[DataFrame], Spread]
) -> Spread | None:
    """The lazy matches of a plan with keys, the hot ones in slices of time and the rest as `matched` does it; None if no key is
    hot.
    """
    kinds = [events.schema[name].dataType for name in plan.keys]
    comparable = all(isinstance(kind, INTEGERS) or kind == StringType() for kind in kinds)
    if parallelism(events) == 1 or not comparable or obstacle(plan) is not None or is_small(events):
        return None
    found: list[Spread] = []
    hot = []
    for values in hot_keys(plan, events):
        condition = _has(plan, events, values)
        of_key = events.where(condition)
        slicing = slicing_of(plan, of_key, restored)
        if slicing is not None:
            hot.append(condition)
            shown = ", ".join(f"{name}={value!r}" for name, value in zip(plan.keys, values, strict=True))
            matches = sliced_matches(plan, of_key, slicing, restored, bad_rows, output)
            found.append(Spread(matches, f"{shown} in {slicing}"))
    if not hot:
        return None
    spread = matched(events.where(~any_of(hot)))
    for item in found:
        spread = Spread(spread.matches.unionAll(item.matches), f"{spread.text}; {item.text}")
    return spread


def _has(plan: Plan, events: DataFrame, values: tuple[Any, ...]) -> Column:
    """The rows that have these values of the keys."""
    from pyspark.sql import functions as f

    held = [events[quoted(name)].eqNullSafe(f.lit(value)) for name, value in zip(plan.keys, values, strict=True)]
    condition = held[0]
    for further in held[1:]:
        condition = condition & further
    return condition


def hot_keys(plan: Plan, events: DataFrame) -> list[tuple[Any, ...]]:
    """The values of keys that have more of the first rows of partitions than a task should, the largest first."""
    keys = events.select(*(quoted(name) for name in plan.keys)).toDF(*(f"c{number}" for number in range(len(plan.keys))))
    described = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in keys.schema)
    with worker_interpreter(events):
        seen = keys.mapInArrow(partial(_largest, most=4 * MOST_HOT), f"{described}, n long").toArrow()
    names = [name for name in seen.schema.names if name != "n"]
    total = pc.sum(seen.column("n")).as_py() or 0
    good = seen.filter(pc.is_valid(seen.column(names[0])))
    counted = good.group_by(names).aggregate([("n", "sum")]).sort_by([("n_sum", "descending")]).slice(0, MOST_HOT)
    enough = max(FEWEST_SEEN, HOT * total / parallelism(events))
    return [tuple(row[name] for name in names) for row in counted.to_pylist() if row["n_sum"] >= enough]


def _largest(batches: Batches, most: int) -> Batches:
    """The largest keys among the first rows, with how many they have; NULL for how many all others have."""
    seen: list[pa.RecordBatch] = []
    for batch in batches:
        seen.append(batch)
        if sum(item.num_rows for item in seen) >= LOOKED_AT:
            break
    if not seen:
        return
    table = pa.Table.from_batches(seen)
    names = table.schema.names
    counted = table.drop_null().group_by(names).aggregate([([], "count_all")]).sort_by([("count_all", "descending")])
    counted = counted.rename_columns([*names, "n"]).slice(0, most)
    others = table.num_rows - (pc.sum(counted.column("n")).as_py() or 0)
    rest = pa.table([*(pa.nulls(1, field.type) for field in table.schema), pa.array([others], pa.int64())], counted.schema)
    yield from pa.concat_tables([counted, rest]).combine_chunks().to_batches()
