"""What is measured on the beginning of a table before queries are planned together."""

from __future__ import annotations

import pyarrow as pa

from kleene.engine.events.working_set import WorkingSet
from kleene.engine.expressions.failing import Noticed
from kleene.engine.matcher import BadRows, Metrics
from kleene.engine.shared.leaf_scan import LeafScan
from kleene.engine.shared.planner import observe_shared
from kleene.plan.multi.cost import SharedStatistics
from kleene.plan.multi.groups import PatternGroup
from kleene.runtime.embedded import in_stream_order

SAMPLED = 1 << 18
"""How many events of a table its statistics are measured on."""


def table_statistics(group: PatternGroup, events: pa.Table) -> SharedStatistics:
    """The statistics of the beginning of a table."""
    ordered = in_stream_order(events, group.bound.schema).slice(0, SAMPLED)
    scan = LeafScan(group.tested, "drop", Metrics(), BadRows(), Noticed())
    working = WorkingSet(group.bound.schema, group.columns)
    for batch in ordered.select(list(group.columns)).combine_chunks().to_batches():
        working.add(batch, *scan(batch))
    return observe_shared(group, scan, working)
