"""Partitions that are added up, counted by several tasks: each adds up its own, and one adds up the tasks.

A task counts some of the partitions. Wherever their total changes (triggers, events that end matches, expiries) it writes a
*change*: the instant, the place in stream order, and the values of the slots from then on. In stream order the changes of all
tasks are what the events were: a task is a partition, with values that replace each other, so the same kernel adds them up
(`kleene.engine.counting.kernels.totals`), and HAVING and EMIT ON CHANGE are decided on its totals. Between passes only the last
values of each task are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from kleene.common.arrays import EVER, LONG_AGO, Array
from kleene.common.columns import decoded
from kleene.common.schema import EventSchema
from kleene.engine.counting.counters import CounterMatcher, CounterPass
from kleene.engine.counting.kernels.counting import LARGEST, NONE
from kleene.engine.counting.kernels.totals import Span
from kleene.engine.counting.totals import Division, Points, Rows, add_up
from kleene.engine.counting.values import changed, require_stable, value_columns, wanted_of_any
from kleene.engine.events.grouping import group_rows
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.matcher import Found
from kleene.engine.matches.aggregate_output import AggregateWriter, time_column, value_type
from kleene.engine.passes.working_matcher import RUN_ROWS
from kleene.plan.counting.counters import CounterPlan
from kleene.plan.counting.shared_counters import alone

EXPIRY, END, TRIGGER = 0, 1, 2
"""What a change is: a start event expires; a negative event ends matches; a trigger, at which a row is written."""


def change_schema(plan: CounterPlan, events: pa.Schema) -> pa.Schema:
    """The columns of changes: when and what, and then those of `order_by` (o0, ...), of GROUP BY (g0, ...) and of slots (v0,
    ..., of floats f0, ...). By `turn` expiries come before what events do.
    """
    bound, slots = plan.bound, wanted_of_any(plan, events)[0].slots
    kept = {"o": bound.schema.order_by, "g": bound.query.group_by}
    return pa.schema(
        [
            *(("at", pa.int64()), ("kind", pa.int8()), ("turn", pa.int8())),
            *((f"{mark}{i}", value_type(events.field(name).type)) for mark in kept for i, name in enumerate(kept[mark])),
            *((f"f{i}", pa.float64()) if slot.is_float else (f"v{i}", pa.int64()) for i, slot in enumerate(slots)),
        ]
    )


# --- the changes of a task --------------------------------------------------------------------------------------------


class ChangeMatcher(CounterMatcher):
    """Writes changes instead of rows."""

    def __init__(self, plan: CounterPlan, events: pa.Schema, **tuning: Any) -> None:
        super().__init__(alone(plan), events, **tuning)
        self._slots = wanted_of_any(plan, events)[0].slots
        self._schema = change_schema(plan, events)

    def _counted(self, rows: int, until: int) -> Iterator[Found]:
        require_stable(self._shared.plans[0], self._working, rows)
        self.allowance.begin_pass(rows)
        common = (self._shared, self._working, rows, self._carried, self._written, until, self.allowance)
        found = _ChangePass(*common).changes()
        for changes, kind in found:
            if changes.events.size:
                yield 0, self._batch(changes, kind)

    def _batch(self, changes: Rows, kind: Array) -> pa.RecordBatch:
        bound, working = self._shared.plans[0].bound, self._working
        places = [working.gather(name, changes.events) for name in bound.schema.order_by]
        if kind[0] == EXPIRY:
            places = [pa.nulls(len(place), place.type) for place in places]
        groups = [working.gather(name, changes.events) for name in bound.query.group_by]
        values = [(changes.floats if slot.is_float else changes.values)[number] for number, slot in enumerate(self._slots)]
        numbers = (pa.array(item) for item in (changes.instants, kind, np.minimum(kind, 1)))
        columns = [*numbers, *map(decoded, (*places, *groups)), *map(pa.array, values)]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


class _ChangePass(CounterPass):
    def _is_cautious(self) -> bool:
        return True

    def changes(self) -> Iterator[tuple[Rows, Array]]:
        """The changes by expiries, then those at events, each with their kinds."""
        rows, window = self._ts.size, self._shared.window
        if window is not None:
            found, values, floats = self._total(np.zeros(rows, bool), Span(self._since, self._until, window, True))
            differs = (found.values != values).any(axis=0) | (found.floats != floats).any(axis=0)
            found = found.select(differs)
            yield found, np.full(found.events.size, EXPIRY, np.int8)
        found, *_ = self._total(np.ones(rows, bool), Span(self._since, self._until, window or 0, False))
        triggers = sum(1 << bit for bit in self._shared.plans[0].triggers)
        emitting = (self._working.masks[found.events] & triggers) != 0
        yield found, np.where(emitting, TRIGGER, END).astype(np.int8)

    def _total(self, emitting: Array, span: Span) -> tuple[Rows, Array, Array]:
        """The rows of all partitions together."""
        before = None if self._before is None else self._before[0]
        division = self._division(self._shared.plans[0])
        kinds = self._program.kinds(0)
        points = self._triggered[0], self._expired[0]
        return add_up(kinds, *points, before, self._groups, self._ts, self._rank, emitting, division, span)


# --- the total of tasks -----------------------------------------------------------------------------------------------


def added_up(plan: CounterPlan, events: pa.Schema, changes: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of the query, from the changes of all tasks in order."""
    matcher = TotalMatcher(plan, events)
    for batch in changes:
        yield from matcher.feed(batch)
    yield from matcher.finish()


class TotalMatcher:
    """Takes the changes of all tasks in stream order, each with the number of its `task`; yields the rows of the query."""

    def __init__(self, plan: CounterPlan, events: pa.Schema, *, run_rows: int = RUN_ROWS) -> None:
        self._plan = plan
        self._run_rows = run_rows
        self._writer = AggregateWriter(plan.bound, events)
        wanted, self._items, self._attributes = wanted_of_any(plan, events)
        self._kinds = np.array([slot.kind for slot in wanted.slots], np.int64)
        columns = change_schema(plan, events).names
        places, self._groups, self._names = ([name for name in columns[3:] if name[0] in marks] for marks in ("o", "g", "vf"))
        schema = EventSchema({}, "at", order_by=tuple(places), time_unit=None)
        self._working = WorkingSet(schema, [*columns, "task"])
        self._tasks = np.empty(0, np.int64)
        self._values = np.empty((self._kinds.size, 0), np.int64)
        self._floats = np.empty((self._kinds.size, 0))
        self.output_schema = self._writer.schema

    def feed(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Takes the next changes; yields rows that are certain by now."""
        kinds = batch.column("kind").to_numpy().astype(np.int64)
        self._working.add(batch, np.arange(batch.num_rows, dtype=np.int64), kinds)
        if self._working.pending >= self._run_rows:
            latest = self._working.latest
            assert latest is not None
            yield from self._run(int(np.searchsorted(self._working.ts, latest, side="left")))
            self._working.forget(latest - 1)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """All changes have come: yields what is left."""
        yield from self._run(len(self._working))

    def _run(self, rows: int) -> Iterator[pa.RecordBatch]:
        if not rows:
            return
        values, floats = self._columns(rows)
        tasks = np.asarray(self._working.column("task").to_numpy()[:rows], np.int64)
        self._tasks, codes = np.unique(np.concatenate([self._tasks, tasks]), return_inverse=True)
        before = self._before(codes[: codes.size - rows])
        found, *earlier = self._total(rows, codes[codes.size - rows :], values, floats, before)
        self._keep(codes[codes.size - rows :], values, floats, before)
        if found.expired.any():
            found = found.select(self._kept(found, *earlier))
        if found.events.size:
            yield self._write(found)

    def _columns(self, rows: int) -> tuple[Array, Array]:
        """The values of slots at the changes."""
        values, floats = np.zeros((self._kinds.size, rows), np.int64), np.zeros((self._kinds.size, rows))
        for number, name in enumerate(self._names):
            (floats if name[0] == "f" else values)[number] = self._working.column(name).to_numpy()[:rows]
        return values, floats

    def _before(self, known: Array) -> tuple[Array, Array]:
        """The values of all tasks before these changes; the known ones have the given codes."""
        values = np.where((self._kinds == LARGEST)[:, None], NONE, np.zeros(self._tasks.size, np.int64))
        floats = np.zeros((self._kinds.size, self._tasks.size))
        values[:, known], floats[:, known] = self._values, self._floats
        return values, floats

    def _keep(self, codes: Array, values: Array, floats: Array, before: tuple[Array, Array]) -> None:
        """Takes over the last values of each task."""
        self._values, self._floats = before
        changed_tasks, from_end = np.unique(codes[::-1], return_index=True)
        last = codes.size - 1 - from_end
        self._values[:, changed_tasks], self._floats[:, changed_tasks] = values[:, last], floats[:, last]

    def _total(
        self, rows: int, tasks: Array, values: Array, floats: Array, before: tuple[Array, Array]
    ) -> tuple[Rows, Array, Array]:
        kinds = self._working.masks[:rows]
        ts = self._working.ts[:rows]
        expired, events = np.flatnonzero(kinds == EXPIRY), np.flatnonzero(kinds != EXPIRY)
        at_events, at_expiries = (Points(places, values[:, places], floats[:, places]) for places in (events, expired))
        division = Division(tasks, np.zeros(self._tasks.size, np.int64), 1)
        span = Span(LONG_AGO, EVER, 0, self._plan.bound.query.emit_on_change)
        started = before[0].copy(), before[1].copy()
        groups, rank = group_rows(None, 1, ts, kinds), self._working.rank()[:rows]
        return add_up(self._kinds, at_events, at_expiries, started, groups, ts, rank, kinds == TRIGGER, division, span)

    def _kept(self, found: Rows, values: Array, floats: Array) -> Array:
        """The rows of triggers, and of expiries those that change a value."""
        kept = np.ones(found.events.size, bool)
        after = found.select(found.expired)
        kept[found.expired] = changed(self._read(values, floats), self._read(after.values, after.floats))
        return kept

    def _read(self, values: Array, floats: Array) -> dict[str, pa.Array]:
        return value_columns(self._items, self._writer.schema, self._attributes, values, floats)

    def _write(self, found: Rows) -> pa.RecordBatch:
        bound = self._plan.bound
        at = time_column(found.instants, bound.schema.time_unit, self._writer.schema.field("at").type)
        named = zip(bound.query.group_by, self._groups, strict=True)
        groups = {name: self._working.gather(column, found.events) for name, column in named}
        return self._writer.write(groups, at, self._read(found.values, found.floats))
