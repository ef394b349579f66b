"""Groups of queries over Arrow tables, each in one pass."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kleene.common.columns import bytes_of
from kleene.engine.build import build_shared_matcher
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.expressions.failing import Noticed
from kleene.engine.matcher import BadRows, Metrics
from kleene.engine.shared.leaf_scan import LeafScan
from kleene.engine.shared.planner import Planner, observe_shared
from kleene.plan.multi.cost import SharedStatistics
from kleene.plan.multi.groups import PatternGroup
from kleene.plan.multi.search import MultiOptions
from kleene.runtime.embedded import Run, batches_of, finished, in_stream_order, match_batches


def run_group(
    group: PatternGroup, events: pa.Table, options: MultiOptions, *, bad_rows: str = "error"
) -> Iterator[tuple[str, Run]]:
    """Matches the queries of a group over a table: a run for each."""
    ordered = in_stream_order(events, group.bound.schema)
    matcher = build_shared_matcher(group, Planner(group, options), events.schema, bad_rows=bad_rows)
    found: dict[str, list[pa.RecordBatch]] = {name: [] for name in group.plans}
    for name, rows in match_batches(matcher, batches_of(ordered)):
        found[name].append(rows)
        matcher.allowance.collected(bytes_of(rows))
    for name, batches in found.items():
        matches = pa.Table.from_batches(batches, matcher.output_schemas[name])
        yield name, finished(matcher.bad_rows_of(name), matcher.metrics_of(name), matches, events.schema)


SAMPLED = 1 << 18
"""How many events of a table its statistics are measured on."""


def table_statistics(group: PatternGroup, events: pa.Table) -> SharedStatistics:
    """The statistics of the beginning of a table."""
    ordered = in_stream_order(events, group.bound.schema).slice(0, SAMPLED)
    scan = LeafScan(group, "drop", Metrics(), BadRows(), Noticed())
    working = WorkingSet(group.bound.schema, group.columns)
    for batch in ordered.select(list(group.columns)).combine_chunks().to_batches():
        working.add(batch, *scan(batch))
    return observe_shared(group, scan, working)
