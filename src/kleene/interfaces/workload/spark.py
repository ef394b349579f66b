"""Workloads over Spark DataFrames: which queries read the same events, and the passes in which these are answered.

Queries that read the same events are a stage: those that read composite events come after the ones that make them. Each stage
is planned into as few passes over its events as possible (`kleene.plan.distribution.passes`). All but small jobs over samples
stays lazy.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kleene.interfaces.composition.composites import Composite, common_schema, composite_of, own_options, with_composites
from kleene.interfaces.composition.shared import naming, shared_plan
from kleene.interfaces.options import Options
from kleene.interfaces.streams import stream_query

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kleene.interfaces.workload.workload import Workload
    from kleene.plan.distribution.passes import Passes
    from kleene.plan.multi.search import MultiOptions
    from kleene.runtime.spark.batch import SparkRun
    from kleene.runtime.units import StreamQuery


@dataclass(frozen=True, slots=True)
class Stage:
    """Queries that read the same events."""

    read: tuple[Composite, ...]
    """The composite events among them."""
    queries: tuple[StreamQuery, ...]


def run_passes(workload: Workload, events: DataFrame, options: Options, multi: MultiOptions | None) -> dict[str, Any]:
    """The lazy matches of the queries of a workload over a DataFrame."""
    from kleene.plan.distribution.passes import Pass
    from kleene.runtime.spark.frame import arrow_schema
    from kleene.runtime.spark.workloads import run_pass

    base = arrow_schema(events)
    runs: dict[str, SparkRun] = {}
    for stage in stages_of(workload, base, options, multi):
        read = [replace(composite, matches=runs[composite.query].matches) for composite in stage.read]
        frame = with_composites(events, base, read)
        passes = _passes(stage, events)
        alone = [Pass(item.plan.keys, (item.name,)) for item in stage.queries if item.name in passes.alone]
        for found in (*passes.passes, *alone):
            members = [item for item in stage.queries if item.name in found.queries]
            with _naming(workload, *found.queries):
                runs |= run_pass(found, members, frame, multi, bad_rows=options.bad_rows or "error")
    return {name: runs[name] for name in workload.queries}


def explained_passes(
    workload: Workload, events: DataFrame, options: Options, multi: MultiOptions | None
) -> tuple[tuple[tuple[str, ...], Passes], ...]:
    """(the composite types that are read, the passes) of each stage."""
    from kleene.runtime.spark.frame import arrow_schema

    stages = stages_of(workload, arrow_schema(events), options, multi)
    return tuple((tuple(item.event_type for item in stage.read), _passes(stage, events)) for stage in stages)


def stages_of(workload: Workload, base: pa.Schema, options: Options, multi: MultiOptions | None) -> tuple[Stage, ...]:
    """The stages of a workload, in an order in which makers of composite events come first."""
    from kleene.plan.patterns import is_lazy

    made: dict[str, Composite] = {}
    stages: dict[tuple[str, ...], list[StreamQuery]] = {}
    for name in workload.order:
        item, producers = workload.queries[name], workload.producers(name)
        with _naming(workload, name):
            read = [made[other] for other in producers]
            own = own_options(item, options, read)
            schema = common_schema(base, read)
            shared = shared_plan(item, schema, own, multi)
            planned = stream_query(item, item.plan_for(schema, own), own, shared if is_lazy(shared) else None)
            if item.logical.into is not None:
                made[name] = composite_of(item, base, planned.schema(schema), options)
        stages.setdefault(producers, []).append(planned)
    return tuple(Stage(tuple(made[name] for name in producers), tuple(found)) for producers, found in stages.items())


def _passes(stage: Stage, events: DataFrame) -> Passes:
    from kleene.runtime.spark.workloads import passes_of

    return passes_of(stage.queries, events)


def _naming(workload: Workload, *names: str) -> AbstractContextManager[None]:
    return naming(*names) if len(workload.queries) > 1 else nullcontext()
