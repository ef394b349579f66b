"""Queries over streaming DataFrames: which plans there are, how the events are spread, and what travels.

Queries that read the same events are a stage. One that reads composite events is in a later stage than those that make them,
and stays so far behind the watermark that they are there in time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kleene.common.errors import BindingError, Problem
from kleene.interfaces.composition.composites import Composite, cast_frame, common_schema, composite_of, own_options
from kleene.interfaces.composition.shared import multi_options_of, naming, shared_plan
from kleene.interfaces.options import Options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kleene.interfaces.query import Query
    from kleene.interfaces.workload.workload import Workload
    from kleene.plan.contract import Plan
    from kleene.plan.multi.search import MultiOptions
    from kleene.runtime.spark.stream.run import Stage, StreamRun
    from kleene.runtime.stream.plan import Distribution
    from kleene.runtime.units import StreamQuery

RESERVED = "reason"
"""A column of bad rows."""


def is_streaming(events: Any) -> bool:
    """Whether events are a streaming DataFrame."""
    return bool(getattr(events, "isStreaming", False))


def run_query(item: Query, events: DataFrame, options: Options) -> StreamRun:
    """One query over a streaming DataFrame."""
    from kleene.runtime.embedded import only
    from kleene.runtime.spark.stream.run import StreamRun

    schema = schema_of_stream(events)
    plan = item.plan_for(schema, options)
    found = stream_query(item, plan, options)
    stage = _stage(events, schema, [found], options, None)
    return StreamRun(
        (stage,), {item.name: only(options.columns, found.schema(schema))}, options.watermark, max_ahead=options.max_ahead
    )


def run_workload(workload: Workload, events: DataFrame, options: Options) -> StreamRun:
    """The queries of a workload over a streaming DataFrame."""
    from kleene.runtime.spark.stream.run import StreamRun

    given, multi = multi_options_of(options)
    base = schema_of_stream(events)
    planned = _planned(workload, base, given, multi)
    schemas = {name: item.found.schema(item.events) for name, item in planned.items()}
    stages: dict[tuple[str, ...], list[_Planned]] = {}
    for name in workload.order:
        stages.setdefault(planned[name].producers, []).append(planned[name])
    later = [
        event for members in stages.values() for item in members if item.read for event in item.found.plan.bound.components
    ]
    watched = tuple(sorted({name for event in later for name in event.types}))
    found = []
    for producers, members in stages.items():
        read, schema = members[0].read, members[0].events
        frame = cast_frame(events, schema) if producers else events
        stage = _stage(frame, schema, [item.found for item in members], given, multi)
        lag = max((planned[name].delay for name in producers), default=0)
        own = partial(replace, made=tuple(map(_made, read)), lag=lag, watched=() if producers else watched)
        found.append(replace(stage, narrow=own(stage.narrow), wide=own(stage.wide)))
    return StreamRun(
        tuple(found), {name: schemas[name] for name in workload.queries}, options.watermark, max_ahead=options.max_ahead
    )


@dataclass(frozen=True, slots=True)
class _Planned:
    """A query of a workload with what it reads."""

    found: StreamQuery
    events: pa.Schema
    producers: tuple[str, ...]
    read: tuple[Composite, ...]
    delay: int
    """How much later than the watermark its matches are known."""


def _planned(workload: Workload, base: pa.Schema, options: Options, multi: MultiOptions | None) -> dict[str, _Planned]:
    """The queries in an order in which producers come first."""
    from kleene.plan.patterns import is_lazy

    found: dict[str, _Planned] = {}
    made: dict[str, Composite] = {}
    for name in workload.order:
        item, producers = workload.queries[name], workload.producers(name)
        with naming(name):
            read = [made[other] for other in producers]
            own = own_options(item, options, read)
            schema = common_schema(base, read)
            plan = item.plan_for(schema, own)
            shared = shared_plan(item, schema, own, multi)
            query = stream_query(item, plan, own, shared if is_lazy(shared) else None)
            if item.logical.into is not None:
                made[name] = composite_of(item, base, query.schema(schema), options)
        before = max((found[other].delay for other in producers), default=0)
        found[name] = _Planned(query, schema, producers, tuple(read), before + _delay(plan))
    return found


def _delay(plan: Plan) -> int:
    """How much later than its last event a match may be known: its window, if the end is negated."""
    from kleene.engine.passes.reporting import Due

    return (plan.bound.window or 0) if hasattr(plan, "branches") and Due.of(plan).postponed else 0


def _made(composite: Composite) -> Any:
    import pyarrow as pa

    from kleene.runtime.stream.plan import Made

    integer = pa.types.is_integer(composite.schema.field(composite.type).type)
    event_type = int(composite.event_type) if integer else composite.event_type
    return Made(composite.query, event_type, tuple(composite.attributes))


def schema_of_stream(events: DataFrame) -> pa.Schema:
    """The Arrow schema of a streaming DataFrame; any column may be NULL in events from before there was it."""
    import pyarrow as pa

    from kleene.runtime.spark.frame import arrow_schema

    schema = arrow_schema(events)
    if RESERVED in schema.names:
        message = f"the events have a column '{RESERVED}', which is what streams call the reason of a bad row"
        raise BindingError(Problem(message, hint="rename the column"))
    return pa.schema([field.with_nullable(True) for field in schema])


def _stage(
    frame: DataFrame, schema: pa.Schema, queries: Sequence[StreamQuery], options: Options, multi: MultiOptions | None
) -> Stage:
    import pyarrow as pa

    from kleene.runtime.spark.functions import pickled
    from kleene.runtime.spark.stream.run import Stage
    from kleene.runtime.stream.plan import StreamPlan

    for item in queries:
        for function in item.plan.bound.query.functions:
            pickled(function)  # raises here what Spark would report as an error of its own
    spread: dict[tuple[str, ...], list[StreamQuery]] = {}
    for item in queries:
        spread.setdefault(item.plan.keys, []).append(item)
    read = {name for item in queries for name in item.plan.columns}
    policy = options.bad_rows or "quarantine"
    kept = pa.schema([field for field in schema if field.name in read])
    spread_over = distributions(frame, spread, options, multi)
    failing = failing_of(options, "stop")
    wide = StreamPlan(
        queries[0].plan.bound.schema,
        schema,
        kept,
        spread_over,
        policy,
        options.max_events,
        columns=tuple(schema.names),
        **failing,
    )
    narrow = replace(wide, events=kept)
    return Stage(frame, narrow, wide)


def failing_of(options: Options, default: str) -> dict[str, Any]:
    """What of a stream's plan says what becomes of queries that fail, or use too much."""
    from kleene.runtime.stream.budget import budget_of

    suspends = (options.on_error or default) == "suspend"
    return {"suspends": suspends, "budget": budget_of(options.budget) if suspends or options.budget is not None else None}


def distributions(
    frame: DataFrame, spread: Mapping[tuple[str, ...], Sequence[StreamQuery]], options: Options, multi: MultiOptions | None
) -> tuple[Distribution, ...]:
    """Queries by the keys that spread their events, over buckets that lie evenly on the shuffle partitions."""
    from kleene.runtime.stream.plan import Distribution, groups_for
    from kleene.runtime.units import QuerySet

    partitions = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    items = sorted(spread.items(), key=lambda item: (not item[0], item[0]))
    return tuple(
        Distribution(keys, QuerySet(tuple(members), multi), groups_for(keys, (options.buckets or partitions) if keys else 1))
        for keys, members in items
    )


def stream_query(item: Query, plan: Plan, options: Options, shared: Any = None, version: int = 1) -> StreamQuery:
    """A query with its plans, and a key that tells it and what its results depend on from any other."""
    from kleene.runtime.units import StreamQuery

    read = (options.time, options.type, options.partition_by, options.order_by, options.ties, options.output)
    declared = None if options.schema is None else sorted((name, sorted(own)) for name, own in options.schema.items())
    params = sorted((options.params or {}).items())
    described = (item.name, version, str(item), read, declared, params, repr(options.limits))
    digest = hashlib.sha256(repr(described).encode()).hexdigest()[:16]
    return StreamQuery(item.name, version, f"{item.name}#{version}#{digest}", plan, shared)
