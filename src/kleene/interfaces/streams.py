"""Queries over streaming DataFrames: which plans there are, how the events are spread, and what travels.

Queries that read the same events are a tier. One that reads composite events is in a later tier than those that make them,
and stays so far behind the watermark that they are there in time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kleene.common.errors import BindingError, Problem
from kleene.interfaces.composition.composites import Composite, cast_frame
from kleene.interfaces.composition.queries import Tier
from kleene.interfaces.composition.shared import multi_options_of, planned_query
from kleene.interfaces.options import Options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kleene.interfaces.query import Query
    from kleene.interfaces.workload.workload import Workload
    from kleene.plan.multi.search import MultiOptions
    from kleene.runtime.spark.stream.run import StreamRun, StreamTier
    from kleene.runtime.stream.plan import Distribution, Made
    from kleene.runtime.units import PlannedQuery

RESERVED = "reason"
"""A column of bad rows."""


def is_streaming(events: Any) -> bool:
    """Whether events are a streaming DataFrame."""
    return bool(getattr(events, "isStreaming", False))


def run_query(item: Query, events: DataFrame, options: Options) -> StreamRun:
    """One query over a streaming DataFrame."""
    schema = schema_of_stream(events)
    return _run([Tier((), schema, (planned_query(item, schema, options),))], [item.name], events, options, None)


def run_workload(workload: Workload, events: DataFrame, options: Options) -> StreamRun:
    """The queries of a workload over a streaming DataFrame."""
    given, multi = multi_options_of(options)
    tiers = workload.tiers(schema_of_stream(events), given, multi)
    return _run(tiers, workload.queries, events, given, multi)


def _run(
    tiers: Sequence[Tier], names: Iterable[str], events: DataFrame, options: Options, multi: MultiOptions | None
) -> StreamRun:
    from kleene.runtime.embedded import only
    from kleene.runtime.spark.stream.run import StreamRun

    watched = tuple(sorted({name for tier in tiers if tier.read for name in _types_read(tier)}))
    schemas: dict[str, pa.Schema] = {}
    delays: dict[str, int] = {}
    found = []
    for tier in tiers:
        lag = max((delays[composite.query] for composite in tier.read), default=0)
        delays |= {item.name: lag + ((item.plan.window or 0) if item.plan.postponed else 0) for item in tier.queries}
        schemas |= {item.name: only(options.columns, item.schema(tier.events)) for item in tier.queries}
        made = _tier(cast_frame(events, tier.events) if tier.read else events, tier, options, multi)
        own = partial(replace, made=tuple(map(_made, tier.read)), lag=lag, watched=() if tier.read else watched)
        found.append(replace(made, narrow=own(made.narrow), wide=own(made.wide)))
    return StreamRun(tuple(found), {name: schemas[name] for name in names}, options.watermark, max_ahead=options.max_ahead)


def _types_read(tier: Tier) -> Iterator[str]:
    """The types of events that the queries of a tier name."""
    return (name for item in tier.queries for event in item.plan.bound.components for name in event.types)


def _made(composite: Composite) -> Made:
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


def _tier(frame: DataFrame, tier: Tier, options: Options, multi: MultiOptions | None) -> StreamTier:
    import pyarrow as pa

    from kleene.runtime.spark.functions import pickled
    from kleene.runtime.spark.stream.run import StreamTier
    from kleene.runtime.stream.plan import StreamPlan

    queries, schema = tier.queries, tier.events
    for item in queries:
        for function in item.plan.bound.query.functions:
            pickled(function)  # raises here what Spark would report as an error of its own
    spread: dict[tuple[str, ...], list[PlannedQuery]] = {}
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
    return StreamTier(frame, narrow, wide)


def failing_of(options: Options, default: str) -> dict[str, Any]:
    """What of a stream's plan says what becomes of queries that fail, or use too much."""
    from kleene.runtime.stream.budget import budget_of

    suspends = (options.on_error or default) == "suspend"
    return {"suspends": suspends, "budget": budget_of(options.budget) if suspends or options.budget is not None else None}


def distributions(
    frame: DataFrame, spread: Mapping[tuple[str, ...], Sequence[PlannedQuery]], options: Options, multi: MultiOptions | None
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
