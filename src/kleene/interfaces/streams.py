"""Queries over streaming DataFrames: which plans there are, how the events are spread, and what travels."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kleene.common.errors import BindingError, PlanningError, Problem
from kleene.interfaces.api import Options, Query
from kleene.interfaces.shared_runs import multi_options_of, naming, shared_plan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kleene.plan.multi.search import MultiOptions
    from kleene.runtime.spark_stream_run import StreamRun
    from kleene.runtime.stream_units import StreamQuery

RESERVED = ("reason",)
"""A column of bad rows."""


def is_streaming(events: Any) -> bool:
    """Whether events are a streaming DataFrame."""
    return bool(getattr(events, "isStreaming", False))


def run_stream(queries: Mapping[str, Query], events: DataFrame, options: Options) -> StreamRun:
    """The queries over a streaming DataFrame."""
    import pyarrow as pa

    from kleene.runtime.spark_batch import arrow_schema
    from kleene.runtime.spark_functions import pickled
    from kleene.runtime.spark_stream_run import StreamRun
    from kleene.runtime.spark_streaming import Distribution, StreamPlan, groups_for
    from kleene.runtime.stream_units import QuerySet

    given, multi = multi_options_of(options)
    schema = arrow_schema(events)
    _require_free(schema)
    planned = [_stream_query(item, schema, given, multi, alone=len(queries) == 1) for item in queries.values()]
    for item in planned:
        for function in item.plan.bound.query.functions:
            pickled(function)  # raises here what Spark would report as an error of its own
    spread: dict[tuple[str, ...], list[StreamQuery]] = {}
    for item in planned:
        spread.setdefault(item.plan.keys, []).append(item)
    partitions = int(events.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    counts = [(options.buckets or partitions) if keys else 1 for keys in spread]
    distributions = tuple(
        Distribution(keys, QuerySet(tuple(members), multi), groups)
        for (keys, members), groups in zip(spread.items(), groups_for(counts, partitions), strict=True)
    )
    first = planned[0].plan.bound.schema
    read = {name for item in planned for name in item.plan.columns}
    wide = StreamPlan(first, schema, distributions, options.bad_rows or "quarantine")
    narrow = replace(wide, events=pa.schema([field for field in schema if field.name in read]))
    schemas = {item.name: item.schema(schema) for item in planned}
    return StreamRun(events, narrow, wide, schemas, options.watermark)


def _require_free(schema: pa.Schema) -> None:
    problems = [
        Problem(f"the events have a column '{name}', which is what Kleene calls a column of bad rows", hint="rename the column")
        for name in RESERVED
        if name in schema.names
    ]
    if problems:
        raise BindingError(problems)


def _stream_query(item: Query, schema: pa.Schema, options: Options, multi: MultiOptions | None, *, alone: bool) -> StreamQuery:
    from kleene.plan.lazy import LazyPlan
    from kleene.runtime.stream_units import StreamQuery

    with naming(item.name):
        if item.logical.into is not None and not alone:
            raise PlanningError(Problem("not supported yet: RETURN ... INTO in a stream"))
        own = replace(options, stats=(options.stats or {}).get(item.name) if isinstance(options.stats, Mapping) else None)
        plan = item.plan_for(schema, options if alone else own)
        shared = None if alone else shared_plan(item, schema, own, multi)
        return StreamQuery(item.name, 1, key_of(item, options), plan, shared if isinstance(shared, LazyPlan) else None)


def key_of(item: Query, options: Options, version: int = 1) -> str:
    """What tells a query and what its results depend on from any other."""
    read = (options.time, options.type, options.partition_by, options.order_by, options.ties, options.output)
    declared = None if options.schema is None else sorted((name, sorted(own)) for name, own in options.schema.items())
    described = (item.name, version, str(item), read, declared, sorted((options.params or {}).items()), repr(options.limits))
    return f"{item.name}#{version}#{hashlib.sha256(repr(described).encode()).hexdigest()[:16]}"
