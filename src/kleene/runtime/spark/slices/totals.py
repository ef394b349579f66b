"""Aggregates over partitions that are added up, where time cannot be cut: partitions are counted by all tasks, totals by one.

The shuffle is by the attributes that divide the events. Each task writes how the total of its partitions changes
(`kleene.engine.counting.partial_totals`), one `mapInArrow`; the changes of all tasks are sorted into stream order, and another
`mapInArrow` in one task adds them up.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kleene.engine.counting.partial_totals import ChangeMatcher, TotalMatcher, change_names, slots_of
from kleene.plan.counting.counters import CounterPlan
from kleene.runtime.embedded import Batches, match_batches, rows_of
from kleene.runtime.spark.frame import Restored, arrow_schema, worker_interpreter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def totalled_rows(plan: CounterPlan, events: DataFrame, restored: Restored, bad_rows: str, output: Any) -> DataFrame:
    """The lazy rows of a plan over relevant events whose columns are c0, c1, ..."""
    column = {name: f"c{number}" for number, name in enumerate(plan.columns)}
    schema = plan.bound.schema
    own = pa.schema(list(zip(plan.columns, arrow_schema(events).types, strict=True)))
    events = events.repartition(*(column[name] for name in plan.partition))
    events = events.sortWithinPartitions(*(column[name] for name in (schema.time, *schema.order_by)))
    slots = slots_of(plan, own)[0]
    places, groups, values = change_names(plan, slots)
    kept = [*zip(places, schema.order_by, strict=True), *zip(groups, plan.bound.query.group_by, strict=True)]
    types = {name: events.schema[column[source]].dataType.simpleString() for name, source in kept}
    types |= {name: "double" if slot.is_float else "bigint" for name, slot in zip(values, slots, strict=True)}
    described = ", ".join(f"{name} {kind}" for name, kind in {"at": "bigint", "kind": "tinyint", **types}.items())
    with worker_interpreter(events):
        changes = events.mapInArrow(_changes(plan, restored, bad_rows), described)
        changes = changes.selectExpr("*", "spark_partition_id() AS task", "least(kind, 1) AS turn").repartition(1)
        return changes.sortWithinPartitions("at", "turn", *places).mapInArrow(_totals(plan, own), output)


def _changes(plan: CounterPlan, restored: Restored, bad_rows: str) -> Callable[[Batches], Batches]:
    def changes(batches: Batches) -> Batches:
        first = next(batches, None)
        if first is not None:
            matcher = ChangeMatcher(plan, restored(first).schema, bad_rows=bad_rows)
            yield from rows_of(match_batches(matcher, map(restored, chain([first], batches))))

    return changes


def _totals(plan: CounterPlan, events: pa.Schema) -> Callable[[Batches], Batches]:
    def totals(batches: Batches) -> Batches:
        matcher = TotalMatcher(plan, events)
        for batch in batches:
            yield from matcher.feed(batch)
        yield from matcher.finish()

    return totals
