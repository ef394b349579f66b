"""Workloads over Spark DataFrames: each tier of queries is answered in as few passes over its events as possible
(`kleene.plan.distribution.passes`). All but small jobs over samples stays lazy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kleene.interfaces.composition.queries import Tier
from kleene.interfaces.options import Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kleene.interfaces.workload.workload import Workload
    from kleene.plan.distribution.passes import Passes
    from kleene.plan.multi.search import MultiOptions
    from kleene.runtime.spark.batch import SparkRun


def run_passes(workload: Workload, events: DataFrame, options: Options, multi: MultiOptions | None) -> dict[str, SparkRun]:
    """The lazy matches of the queries of a workload over a DataFrame."""
    from kleene.plan.distribution.passes import Pass
    from kleene.runtime.spark.frame import arrow_schema
    from kleene.runtime.spark.workloads import passes_of, run_pass

    base = arrow_schema(events)
    runs: dict[str, SparkRun] = {}
    for tier in workload.tiers(base, options, multi):
        frame = tier.over(events, base, runs)
        passes = passes_of(tier.queries, events)
        alone = [Pass(item.plan.keys, (item.name,)) for item in tier.queries if item.name in passes.alone]
        for found in (*passes.passes, *alone):
            members = [item for item in tier.queries if item.name in found.queries]
            with workload.naming(*found.queries):
                runs |= run_pass(found, members, frame, multi, bad_rows=options.bad_rows or "error", scan=options.scan)
    return {name: runs[name] for name in workload.queries}


def explained_passes(tiers: Iterable[Tier], events: DataFrame) -> tuple[tuple[tuple[str, ...], Passes], ...]:
    """(the composite types that are read, the passes) of each tier."""
    from kleene.runtime.spark.workloads import passes_of

    return tuple((tuple(item.event_type for item in tier.read), passes_of(tier.queries, events)) for tier in tiers)
