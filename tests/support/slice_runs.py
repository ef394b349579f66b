"""Plans in slices of time in one process: events are packed, sent and put together as on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from kleene.common.arrays import LONG_AGO, Array
from kleene.common.columns import time_values
from kleene.common.schema import EventSchema
from kleene.engine import time_slices
from kleene.engine.build import build_matcher, output_schema
from kleene.interfaces.options import options_of
from kleene.interfaces.query import Query
from kleene.plan.contract import Plan
from kleene.plan.distribution import slicing
from kleene.plan.distribution.slicing import Slice, obstacle
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
    slices = slices_of(plan, in_stream_order(table, order), cuts)
    found: list[pa.RecordBatch] = []
    tasks = {}
    for number, blocks in sorted(_sent(table, slices, schema, rng).items()):
        rng.shuffle(blocks)
        task = received(iter(blocks), table.schema.names, order, lambda batch: batch)
        assert task is not None
        assert task.number == number
        events = task.events.drop_columns([ARRIVAL]) if arrival else task.events
        tasks[number] = pa.Table.from_batches(batches_of(events.combine_chunks(), rng.choice((1, 3, 100))), events.schema)
    summaries = {}
    if any(part.between for part in slices):
        made = {number: time_slices.summarize_slice(plan, events, slices[number]) for number, events in tasks.items()}
        summaries = {number: summary for number, summary in made.items() if summary is not None}
    for number, events in tasks.items():
        tuning = {"bad_rows": bad_rows, "run_rows": rng.choice((1, 4, 1000))}
        found += time_slices.match_slice(plan, events, slices[number], summaries, **tuning)
    bare = table.drop_columns([ARRIVAL]).schema if arrival else table.schema
    own = output_schema(plan, bare)
    merge = time_slices.choice(plan, bare, own.names)
    rows = pa.Table.from_batches(found, own if merge is None else merge.schema)
    if merge is None:
        return rows
    rows = rows.sort_by([(name, "ascending") for name in merge.order])
    return pa.Table.from_batches(list(merge.rows(batches_of(rows.combine_chunks(), rng.choice((1, 3, 100))))), own)


def slices_of(plan: Plan, ordered: pa.Table, cuts: Sequence[int]) -> tuple[Slice, ...]:
    """The slices of a plan that begin at some instants, about."""
    if not plan.has_summaries:
        return slicing.time_slices(cuts, lambda since: _low(plan, ordered, since))
    schema = plan.bound.schema
    ts = time_values(ordered.column(schema.time).combine_chunks(), schema.time_unit)
    bounds, on_change = (int(ts.min()), int(ts.max())), plan.bound.query.emit_on_change
    return slicing.summarized_slices(cuts, *bounds, plan.window, on_change=on_change)


def sliced_together(
    queries: Sequence[PlannedQuery], multi: MultiOptions | None, table: pa.Table, cuts: Sequence[int], rng: Random
) -> dict[str, pa.Table]:
    """The rows of queries over a table, all in the same slices."""
    units = list(QuerySet(tuple(queries), multi).units())
    schema, reach = queries[0].plan.bound.schema, max(unit.plan.reach for unit in units)
    slices = slicing.reaching(reach)(cuts)
    found: dict[str, list[pa.RecordBatch]] = {item.name: [] for item in queries}
    for _, blocks in sorted(_sent(table, slices, schema, rng).items()):
        rng.shuffle(blocks)
        task = received(iter(blocks), table.schema.names, schema, lambda batch: batch)
        assert task is not None
        for label in spark_workloads.match_slice(units, task.events, slices[task.number], {}, strict=True):
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
    schema, counted = plan.bound.schema, plan.bound.count_window
    if counted is None:
        return cut - plan.reach + 1
    matcher: Any = build_matcher(plan, ordered.schema, bad_rows="drop")
    ordered = ordered.combine_chunks()
    rows = np.concatenate([matcher.relevant(batch) for batch in ordered.to_batches()] or [np.empty(0, np.int64)])
    ts = time_values(ordered.column(schema.time).combine_chunks(), schema.time_unit)[rows]
    before = ts[ts < cut]
    return int(before[-counted]) if before.size >= counted else LONG_AGO


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
