"""The Spark SQL runtime: a plan as a polymorphic table function, whose TABLE argument is the events.

What Spark needs to know before a statement runs is the answer of `analyze`: the schema of the matches, the columns that travel,
and how rows are distributed and ordered. It is the plan that says so, never the statement: Spark refuses a call that has a
PARTITION BY of its own. Rows are distributed by a hash of the plan's keys, into buckets of many keys each, and every bucket
comes to a matcher in stream order, as Arrow batches. Without keys there is one bucket.

Cost: that of `batch`, and what a table function cannot do without: all rows of the table are shuffled, since it cannot
filter; constant arguments travel with every row; Spark looks for the ends of buckets row by row; and events that no key divides
are matched by one task.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.udtf import AnalyzeResult, OrderingColumn, PartitioningColumn, SelectedColumn
from pyspark.util import PythonEvalType

from kleene.common.errors import PlanningError, Problem
from kleene.engine.build import build_matcher, output_schema
from kleene.engine.matcher import Matcher
from kleene.pattern.text import quoted
from kleene.plan.contract import Plan
from kleene.runtime.embedded import Batches, rows_of
from kleene.runtime.spark.frame import named_batches, warn_of_dropped, worker_interpreter
from kleene.runtime.spark.schemas import from_arrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUCKETS = 128
"""Into how many buckets keys are spread: as many tasks can have work, and each bucket costs a matcher."""


@dataclass
class Analyzed(AnalyzeResult):
    """What Spark and its tasks need to know about a call."""

    plan: Plan = field(kw_only=True, repr=False)
    events: pa.Schema = field(kw_only=True, repr=False)
    """The Arrow schema of the columns that travel, as the plan was made for them."""
    bad_rows: str = "error"


def analyzed(plan: Plan, events: pa.Schema, *, bad_rows: str, buckets: int | None) -> Analyzed:
    """How Spark must call a plan over events with an Arrow schema."""
    schema = plan.bound.schema
    keys = ", ".join(map(quoted, plan.keys))
    return Analyzed(
        schema=from_arrow(output_schema(plan, events)),
        withSinglePartition=not keys,
        # A hash of NULL is a number, too: bad rows reach the engine, which judges them.
        partitionBy=[PartitioningColumn(f"pmod(xxhash64({keys}), {buckets or BUCKETS})")] if keys else [],
        orderBy=[OrderingColumn(quoted(name)) for name in (schema.time, *schema.order_by)],
        select=[SelectedColumn(quoted(name)) for name in plan.columns],
        plan=plan,
        events=pa.schema([events.field(name) for name in plan.columns]),
        bad_rows=bad_rows,
    )


class MatchedBucket:
    """The events of one bucket of keys, or of all, on their way through a matcher; Spark makes one for each."""

    def __init__(self, call: Analyzed) -> None:
        self._call = call
        self._restored = named_batches(call.plan)
        self._matcher: Matcher | None = None

    def eval(self, *arguments: Any, **named: Any) -> Batches:
        """The matches that become certain with a batch of events; the other arguments are constants, known already."""
        batch = self._restored(next(item for item in (*arguments, *named.values()) if isinstance(item, pa.RecordBatch)))
        # Moments arrive in the session's zone, and Spark writes what it is given to a stream of moments in UTC.
        batch = batch.cast(self._call.events)
        if self._matcher is None:
            self._matcher = build_matcher(self._call.plan, batch.schema, bad_rows=self._call.bad_rows)
        yield from rows_of(self._matcher.feed(batch))

    def terminate(self) -> Batches:
        """The matches that become certain at the end of the events."""
        if self._matcher is None:
            return
        yield from rows_of(self._matcher.finish())
        warn_of_dropped(self._matcher.metrics)


def register_table_function(spark: SparkSession, name: str, handler: type[MatchedBucket]) -> None:
    """Registers a handler, with an `analyze` of its own, as a table function of a session, classic or Connect."""
    from pyspark.sql import udtf

    home: Any = udtf
    if "connect" in type(spark).__module__:
        from pyspark.sql.connect import udtf as home
    arrow = getattr(PythonEvalType, "SQL_ARROW_UDTF", None)
    if arrow is None:
        message = "table functions over Arrow batches need Spark 4.1"
        raise PlanningError(Problem(message, hint="use Query.match, and register its DataFrame as a view"))
    # `pyspark.sql.functions.arrow_udtf` takes no handler with `analyze` yet, though Spark runs one; this is what it makes
    # of any other handler.
    function = home.UserDefinedTableFunction(handler, None, name=name, evalType=arrow, deterministic=True)
    with worker_interpreter(spark.range(0)):
        spark.udtf.register(name, function)
