"""Plans in slices of time in one process: events are packed, sent and put together as on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from kleene.common.arrays import Array
from kleene.common.columns import time_values
from kleene.common.schema import EventSchema
from kleene.engine import time_slices
from kleene.engine.build import build_matcher, output_schema
from kleene.engine.counting.counters import LONG_AGO
from kleene.engine.counting.slices import Slice
from kleene.engine.matches import candidates
from kleene.engine.matches.candidates import order_of
from kleene.interfaces.options import options_of
from kleene.interfaces.query import Query
from kleene.plan.contract import Plan
from kleene.plan.distribution.slicing import obstacle
from kleene.plan.multi.search import MultiOptions
from kleene.runtime.embedded import batches_of, in_stream_order
from kleene.runtime.spark import workloads as spark_workloads
from kleene.runtime.spark.slices.blocks import packed, received
from kleene.runtime.units import PlannedQuery, QuerySet
from kleene.testing.case_routes import Route
from kleene.testing.cases import Case, Row
from support.engine_routes import given_options, outcome

ARRIVAL = "arrival of a row"


def random_cuts(plan: Plan, ts: Array, rng: Random) -> list[int]:
    """Instants at which slices begin: at events, beside them, and where their windows end."""
    window = plan.bound.window or 0
    found = set()
    for _ in range(rng.choice((1, 1, 2, 3, 5, 12))):
        found.add(int(rng.choice(ts.tolist())) + rng.choice((0, 0, 0, 1, -1, window, 1 - window)))
    return sorted(found)


def divided(plan: Plan, table: pa.Table) -> list[pa.Table]:
    """A table for each value of the keys."""
    rows: dict[tuple[Any, ...], list[int]] = {}
    for row, values in enumerate(zip(*(table.column(name).to_pylist() for name in plan.keys), strict=True)):
        rows.setdefault(values, []).append(row)
    return [table.take(own) for own in rows.values()]


def sliced(
    plan: Plan, table: pa.Table, cuts: Sequence[int], rng: Random, *, arrival: bool = False, bad_rows: str = "error"
) -> pa.Table:
    """The matches of a plan over a table, slice by slice; with `arrival`, events that tie as they are in the table."""
    assert obstacle(plan) is None
    schema = plan.bound.schema
    if arrival:
        table = table.append_column(ARRIVAL, pa.array(np.arange(table.num_rows)))
    order = _with_arrival(schema) if arrival else schema
    slices = time_slices.time_slices(cuts, [_low(plan, in_stream_order(table, order), cut) for cut in cuts])
    found: list[pa.RecordBatch] = []
    for number, blocks in sorted(_sent(table, slices, schema, rng).items()):
        rng.shuffle(blocks)
        task = received(iter(blocks), table.schema.names, order)
        assert task is not None
        assert task.number == number
        events = task.events.drop_columns([ARRIVAL]) if arrival else task.events
        events = pa.Table.from_batches(batches_of(events.combine_chunks(), rng.choice((1, 3, 100))), events.schema)
        found += time_slices.match_slice(plan, events, slices[number], bad_rows=bad_rows, run_rows=rng.choice((1, 4, 1000)))
    bare = table.drop_columns([ARRIVAL]).schema if arrival else table.schema
    rows = pa.Table.from_batches(found, time_slices.slice_matcher(plan, bare).output_schemas[0])
    if not time_slices.needs_choice(plan):
        return rows
    partition = plan.partition
    rows = rows.sort_by([(name, "ascending") for name in order_of(partition)])
    given, own = batches_of(rows.combine_chunks(), rng.choice((1, 3, 100))), output_schema(plan, bare)
    return pa.Table.from_batches(list(candidates.chosen(given, schema, partition, own.names)), own)


def sliced_together(
    queries: Sequence[PlannedQuery], multi: MultiOptions | None, table: pa.Table, cuts: Sequence[int], rng: Random
) -> dict[str, pa.Table]:
    """The rows of queries over a table, all in the same slices."""
    units = list(QuerySet(tuple(queries), multi).units())
    schema, lead = queries[0].plan.bound.schema, max(unit.plan.reach for unit in units)
    slices = time_slices.time_slices(cuts, [cut - lead + 1 for cut in cuts])
    found: dict[str, list[pa.RecordBatch]] = {item.name: [] for item in queries}
    put_together = partial(received, columns=table.schema.names, schema=schema)
    matched = spark_workloads.match_slices(units, lambda batch: batch, put_together, slices, strict=True)
    for _, blocks in sorted(_sent(table, slices, schema, rng).items()):
        rng.shuffle(blocks)
        for label in matched(iter(blocks)):
            assert label.column("failure")[0].as_py() is None, label.column("failure")[0]
            found[label.column("query")[0].as_py()] += pa.ipc.open_stream(label.column("matches")[0].as_buffer())
    return {item.name: pa.Table.from_batches(found[item.name], item.schema(table.schema)) for item in queries}


def _with_arrival(schema: EventSchema) -> EventSchema:
    return replace(schema, order_by=(*schema.order_by, ARRIVAL))


def _sent(table: pa.Table, slices: Sequence[Slice], schema: EventSchema, rng: Random) -> dict[int, list[pa.RecordBatch]]:
    """The blocks for each slice, from several tasks."""
    rows = list(range(table.num_rows))
    parts = rng.choice((1, 2, 3))
    found: dict[int, list[pa.RecordBatch]] = {}
    for part in range(parts):
        own = table.take(pa.array(rows[part::parts], pa.int64())).combine_chunks()
        for block in packed(iter(own.to_batches()), slices, schema.time, schema.time_unit):
            found.setdefault(block.column("slice")[0].as_py(), []).append(block)
    return found


def _low(plan: Plan, ordered: pa.Table, cut: int) -> int:
    """The first instant whose events matter to a slice."""
    lead, schema = time_slices.lead_of(plan), plan.bound.schema
    if lead.instants is not None:
        return cut - lead.instants + 1
    assert lead.events is not None
    matcher: Any = build_matcher(plan, ordered.schema, bad_rows="drop")
    ordered = ordered.combine_chunks()
    rows = np.concatenate([matcher.relevant(batch) for batch in ordered.to_batches()] or [np.empty(0, np.int64)])
    ts = time_values(ordered.column(schema.time).combine_chunks(), schema.time_unit)[rows]
    before = ts[ts < cut]
    return int(before[-lead.events]) if before.size >= lead.events else LONG_AGO


def slice_routes() -> dict[str, Route]:
    """Slices for case files, with the plan left open."""
    return {f"slices-{seed}": _slices(seed) for seed in (1, 2)}


def _slices(seed: int) -> Route:
    def answer(query: Query, case: Case) -> list[Row]:
        table, options = case.table(), options_of(given_options(case))
        plan, rng = query.plan_for(table.schema, options), Random(f"{seed}:{case.where}")
        schema, arrival = plan.bound.schema, options.ties == "arrival"
        usable = table.filter(pa.compute.is_valid(table.column(schema.time)))
        untimed = usable.num_rows < table.num_rows and case.options.bad_rows == "error"
        if obstacle(plan) is not None or usable.num_rows < 2 or untimed:
            rows: list[Row] = query.match(table, **given_options(case)).to_pylist()
            return rows
        table = usable
        ts = time_values(table.column(schema.time).combine_chunks(), schema.time_unit)
        cuts = random_cuts(plan, ts, rng)
        by_key = bool(plan.keys) and plan.bound.count_window is not None
        parts = divided(plan, table) if by_key else [table]
        policy = case.options.bad_rows
        found = [sliced(plan, own, cuts, rng, arrival=arrival, bad_rows=policy) for own in parts]
        return [row for rows in found for row in rows.to_pylist()]

    return lambda case: outcome(case, answer)
