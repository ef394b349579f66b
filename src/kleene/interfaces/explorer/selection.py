"""The events that are explored: all, or those of a key and a range of time, as one table in this process.

A Spark DataFrame is filtered on Spark, and the remaining events are collected here: more than a bound are refused, never cut.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from kleene.common.errors import DataError, Problem
from kleene.interfaces.composition.composites import held
from kleene.interfaces.composition.queries import Queries
from kleene.interfaces.event_range import Range
from kleene.interfaces.inputs import arrow_schema_of, is_spark_frame
from kleene.interfaces.options import Options
from kleene.interfaces.streams import is_streaming
from kleene.runtime.embedded import batches_of


def select(queries: Queries, events: Any, options: Options, key: Any, since: Any, until: Any) -> tuple[pa.Table, str | None]:
    """The selected events, and how they were selected, in words; None for all of them."""
    if is_streaming(events):
        hint = "write a part of the stream to a table, and explore that"
        raise DataError(Problem("a stream has no end, so its matches cannot be put on a page", hint=hint))
    on_spark = is_spark_frame(events)
    if not on_spark:
        events = held(events)
        if key is None and since is None and until is None:
            return events, None
    schema = arrow_schema_of(events)
    bound = queries[queries.order[0]].plan_for(schema, replace(options, plan=None, stats=None)).bound
    chosen = Range(bound, schema, key, since, until)
    table = chosen.of_spark(events) if on_spark else chosen.of_batches(batches_of(events), schema)
    return table, chosen.words or None
