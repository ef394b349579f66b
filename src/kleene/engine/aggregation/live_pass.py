"""Which matches are alive when, in one pass over a working set of whole instants, and the rows of AGG that follow from it.

Everything that happens has a position on one axis: each event (simultaneous ones share a position), and before the events of an
instant the expiry of the first events that leave the window then. A match is alive from the position of its last event up to
the first position that ends it: its expiry, under a count window the event that pushes its first event out, a forbidden event.

A row of expiry is about what expiry alone changes: what the events of that instant forbid does not count before it either. So
where negation looks ahead, EMIT ON CHANGE has a view of its own, in which forbidden events come before the expiries of their
instant.

Cost: sorting the spans, and the logarithm of the number of different deaths per span and per row that is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.columns import concat, decoded
from kleene.common.errors import damaged
from kleene.engine.aggregation import kernels
from kleene.engine.aggregation.values import Measures, RowValues, extreme_values
from kleene.engine.events.grouping import integer_codes, value_codes, without_nulls
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.expressions.vectorized import of_types, widen
from kleene.engine.matches.aggregate_output import AggregateWriter, grouped, time_column
from kleene.engine.matches.matches import Matches
from kleene.engine.passes.restored import floats, integers, plain_type, require_names, require_within, values
from kleene.engine.passes.working_pass import in_partitions
from kleene.pattern.bound import BoundQuery
from kleene.plan.aggregation import MatchThenAggregate
from kleene.plan.analysis.keys import always_has, positive_components

NEVER = np.iinfo(np.int64).max
"""The death of what does not die in the pass."""

BEFORE = -1
"""The birth of what was alive before the pass."""

TRIGGERS, EXPIRIES = range(2)
"""The views of a pass."""


@dataclass(frozen=True, slots=True)
class Cells:
    """Matches of earlier passes that are still alive, those of a group with the same first event added up."""

    groups: tuple[pa.Array, ...]
    """The values of the GROUP BY attributes."""
    first: Array
    """The row of the first event (of the first one of its instant); 0 without a window."""
    ints: Array
    floats: Array
    extremes: Mapping[int, pa.Array]
    """By field the values of MIN and MAX, whose codes are those of one pass."""

    @staticmethod
    def of(columns: Mapping[str, pa.Array], measures: Measures, rows: int, events: pa.Schema) -> Cells | None:
        """From what `columns` gave; None if there were none. `rows` is the number of rows that first events are among."""
        if not columns:
            return None
        first = require_within("cells", integers(columns, "cells"), 0, rows - 1)
        count = first.size
        if not count:
            raise damaged("what is alive has no first events")
        ints = integers(columns, "ints", count * measures.kinds.size).reshape(count, -1)
        numbers = floats(columns, "floats", count * measures.floats).reshape(count, measures.floats)
        kinds = {name: plain_type(events.field(name).type) for name in grouped(measures.bound)}
        groups = tuple(values(columns, f"group {place:03}", count, kind) for place, kind in enumerate(kinds.values()))
        wide = {field: widen(pa.nulls(0, events.field(name).type)).type for field, name, _ in measures.extremes()}
        extremes = {field: values(columns, f"extreme {field}", count, kind) for field, kind in wide.items()}
        found = Cells(groups, first, ints, numbers, extremes)
        require_names(columns, found.columns())
        return found

    def columns(self) -> dict[str, pa.Array]:
        """The cells as columns."""
        groups = {f"group {place:03}": column for place, column in enumerate(self.groups)}
        extremes = {f"extreme {field}": column for field, column in self.extremes.items()}
        numbers = {"cells": self.first, "ints": self.ints.ravel(), "floats": self.floats.ravel()}
        return {**{name: pa.array(own) for name, own in numbers.items()}, **groups, **extremes}


@dataclass(frozen=True, slots=True)
class Spans:
    """Matches with their lives, several in one span if they do not differ."""

    keys: Array
    """The codes of the group: one for each key of `GroupKeys` and span; then the view, where there are two."""
    first: Array
    birth: Array
    death: Array
    ints: Array
    floats: Array

    @property
    def nbytes(self) -> int:
        """The bytes that it takes."""
        columns = (self.keys, self.first, self.birth, self.death, self.ints, self.floats)
        return sum(column.nbytes for column in columns)

    @staticmethod
    def joined(spans: Sequence[Spans]) -> Spans:
        if len(spans) == 1:
            return spans[0]
        return Spans(
            np.concatenate([one.keys for one in spans], axis=1),
            *(np.concatenate([getattr(one, name) for one in spans]) for name in ("first", "birth", "death", "ints", "floats")),
        )

    def take(self, chosen: Array) -> Spans:
        return Spans(
            self.keys[:, chosen],
            *(getattr(self, name)[chosen] for name in ("first", "birth", "death", "ints", "floats")),
        )

    def folded(self, kinds: Array) -> Spans:
        """The same with spans that do not differ in group, first event, birth and death added up."""
        codes, count = integer_codes(self.birth)
        for described in (self.death, self.first, *self.keys):
            further, size = integer_codes(described)
            codes, count = integer_codes(codes * size + further)
        firsts = np.full(count, -1, np.int64)
        firsts[codes[::-1]] = np.arange(codes.size - 1, -1, -1)
        present = firsts >= 0
        runs = (np.cumsum(present) - 1).take(codes)
        found = self.take(firsts[present])
        with np.errstate(all="ignore"):  # floats follow IEEE 754
            kernels.fold_alike(runs, firsts[present], kinds, self.ints, self.floats, found.ints, found.floats)
        return found


class Axis:
    """The positions of a pass."""

    def __init__(self, ts: Array, rank: Array, window: int | None) -> None:
        changes = np.ones(ts.size, bool)
        changes[1:] = rank[1:] != rank[:-1]
        tick = np.cumsum(changes) - 1
        self.of_row = tick
        """The position of each event."""
        self.due = np.empty(0, np.int64)
        """The instants of expiries, ascending."""
        self.of_due = np.empty(0, np.int64)
        """The position of each of them."""
        self.instant = np.zeros(ts.size, np.int64)
        """With a window, the number of each event's instant, which is that of its expiry."""
        self.begins = np.zeros(1, np.int64)
        """The first row of each instant."""
        if window is not None:
            changes[1:] = ts[1:] != ts[:-1]
            self.instant = np.cumsum(changes) - 1
            self.begins = np.flatnonzero(changes)
            self.due = ts[self.begins] + window
            ticks_before = np.append(tick, tick[-1] + 1).take(np.searchsorted(ts, self.due))
            self.of_row = 2 * (tick + np.searchsorted(self.due, ts, side="right"))
            self.of_due = 2 * (ticks_before + np.arange(self.due.size))
        self.ends = self.of_row, self._before_expiries(ts)
        """By view the position at which each event ends what it forbids."""

    def _before_expiries(self, ts: Array) -> Array:
        """The beginning of each event's instant; between two positions where first events expire then."""
        if not self.due.size:
            return self.of_row
        number = np.minimum(np.searchsorted(self.due, ts), self.due.size - 1)
        first = self.of_row.take(self.begins.take(self.instant))
        return np.where(self.due.take(number) == ts, self.of_due.take(number) - 1, first)


class GroupKeys:
    """The groups of events and matches as codes.

    Where every component has all GROUP BY attributes, one key stands for the whole group, and any event of a match tells it.
    Else each attribute is a key, and a match has the value of those of its events that have the attribute; 0 stands for none.
    """

    def __init__(self, bound: BoundQuery, working: WorkingSet, cells: Cells | None) -> None:
        names = grouped(bound)
        self._rows = len(working)
        self._columns = [
            _with(working.column(name), cells.groups[place] if cells else None) for place, name in enumerate(names)
        ]
        codes = [value_codes(without_nulls(column))[0] + 1 for column in self._columns]
        positives = positive_components(bound)
        self._whole = all(always_has(bound, event, name) for event in positives for name in names)
        if self._whole:
            count = self._rows + (cells.first.size if cells else 0)
            self.codes = [combined(np.array(codes))] if codes else [np.zeros(count, np.int64)]
            return
        self.codes = codes
        for place, name in enumerate(names):
            absent = codes[place] < 0
            absent[: self._rows] = _lacking(bound, working, name)
            absent[self._rows :] = self._columns[place][self._rows :].is_null().to_numpy(zero_copy_only=False)
            codes[place][absent] = 0

    def of_events(self, rows: Array) -> Array:
        return np.array([codes.take(rows) for codes in self.codes])

    def of_cells(self) -> Array:
        return np.array([codes[self._rows :] for codes in self.codes])

    def of_matches(self, matches: Matches) -> Array:
        if self._whole:
            return self.of_events(matches.first)
        found = np.zeros((len(self.codes), matches.count), np.int64)
        for codes, own in zip(self.codes, found, strict=True):
            for rows in matches.singles.values():
                np.maximum(own, codes.take(rows), out=own)
            for offsets, rows in matches.lists.values():
                np.maximum(own, np.maximum.reduceat(codes.take(rows), offsets[:-1]), out=own)
        return found

    def values(self, keys: Array) -> list[pa.Array]:
        """The GROUP BY columns of groups given by their keys."""
        found = []
        for place, column in enumerate(self._columns):
            codes = self.codes[0 if self._whole else place]
            known = np.zeros(int(codes.max(initial=0)) + 1, np.int64)
            valid = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))  # no event with NULL is in a group
            known[codes.take(valid)] = valid
            wanted = keys[0 if self._whole else place]
            absent = np.zeros(wanted.size, bool) if self._whole else wanted == 0
            found.append(column.take(pa.array(known.take(wanted), mask=absent)))
        return found


def combined(codes: Array) -> Array:
    """One code for each combination of codes, along the last axis."""
    found: Array = codes[0]
    for further in codes[1:]:
        size = int(further.max(initial=0)) + 1
        found = integer_codes(integer_codes(found)[0] * size + further)[0]
    return found


def _with(column: pa.Array, kept: pa.Array | None) -> pa.Array:
    return decoded(column) if kept is None else concat([decoded(column), kept])


def _lacking(bound: BoundQuery, working: WorkingSet, name: str) -> Array:
    """Which events are of a type that is declared without the attribute."""
    kinds = [kind for kind in bound.schema.types or () if bound.lacks(kind, name)]
    if not kinds or bound.schema.type is None:
        return np.zeros(len(working), bool)
    found = of_types(working.column(bound.schema.type), kinds)
    return np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False), dtype=bool)


class LivePass:
    """One pass: spans are made of matches and cells, then asked about."""

    def __init__(
        self, plan: MatchThenAggregate, measures: Measures, working: WorkingSet, rank: Array, cells: Cells | None
    ) -> None:
        bound = plan.bound
        self._bound = bound
        self._measures = measures
        self._working = working
        self._cells = cells
        self.axis = Axis(working.ts, rank, bound.window)
        self.keys = GroupKeys(bound, working, cells)
        self._values = RowValues(measures, working, cells.extremes if cells else {})
        self._leaving = _leaving(bound, working) if bound.count_window is not None else None
        self.views = (TRIGGERS, EXPIRIES)[: 2 if plan.looks_ahead and bound.query.emit_on_change else 1]

    def expiry(self, first: Array) -> Array:
        """The position at which first events leave the window."""
        if self._bound.window is not None:
            return self.axis.of_due.take(self.axis.instant.take(first))
        if self._leaving is not None:
            return np.append(self.axis.of_row, NEVER).take(self._leaving.take(first))
        return np.full(first.size, NEVER)

    def unexpired(self, first: Array, watermark: int) -> Array:
        """Which first events have not left the window by the watermark."""
        window = self._bound.window
        return np.ones(first.size, bool) if window is None else self.ts.take(first) + window > watermark

    def spans(self, matches: Matches, view: int = TRIGGERS) -> Spans:
        """Matches, given by rows, as spans that live until they expire."""
        first = matches.first
        if self._bound.window is not None:
            first = self.axis.begins.take(self.axis.instant.take(first))
        elif self._leaving is None:
            first = np.zeros(matches.count, np.int64)
        birth = self.axis.of_row.take(matches.last)
        keys = self._in_view(self.keys.of_matches(matches), view)
        return Spans(keys, first, birth, self.expiry(first), *self._values.of(matches))

    def _in_view(self, keys: Array, view: int) -> Array:
        return np.vstack([keys, np.full(keys.shape[1], view)]) if len(self.views) > 1 else keys

    def kept_spans(self) -> Spans:
        """What is alive from before."""
        cells = self._cells
        if cells is None:
            nothing = np.empty(0, np.int64)
            keys = self._in_view(self.keys.of_events(nothing), TRIGGERS)
            return Spans(keys, nothing, nothing, nothing, *self._measures.nothing(0))
        ints = cells.ints.copy()
        for field, codes in self._values.kept_codes.items():
            ints[:, field] = codes
        birth = np.full(cells.first.size, BEFORE)
        return Spans(self.keys.of_cells(), cells.first, birth, self.expiry(cells.first), ints, cells.floats)

    def cells(self, spans: Spans, watermark: int) -> Cells | None:
        """What outlives the pass and the watermark; first events are still given by the rows of this pass."""
        alive = (spans.death > self.axis.of_row[-1]) & self.unexpired(spans.first, watermark)
        if not alive.any():
            return None
        left = spans.take(np.flatnonzero(alive))
        left.birth[:] = BEFORE
        left = left.folded(self._measures.kinds)
        extremes = {field: extreme_values(codes, left.ints[:, field]) for field, codes in self._values.codes.items()}
        return Cells(tuple(self.keys.values(left.keys)), left.first, left.ints, left.floats, extremes)

    def triggers(self, bits: Sequence[int]) -> Array:
        """The rows of new triggers."""
        working = self._working
        wanted = sum(1 << bit for bit in bits)
        rows = np.flatnonzero(working.masks[working.kept :] & wanted) + working.kept
        return rows[in_partitions(self._bound, lambda name: working.gather(name, rows), rows.size)]

    def answer(
        self, spans: Spans, triggers: Array, writer: AggregateWriter, since: int | None, until: int | None
    ) -> pa.RecordBatch | None:
        """The rows of triggers and, for EMIT ON CHANGE, of expiries after `since` and up to `until`."""
        questions = _Questions(self, spans, triggers)
        if self._bound.query.emit_on_change and self._bound.window is not None:
            questions.ask_expiries(since, until)
        if not questions.count:
            return None
        ints, floats = questions.answers(self._measures)
        columns = self._measures.columns(ints, floats, self._values.codes)
        rows, instants = questions.rows(columns)
        keys = questions.keys.take(rows, axis=1)
        groups = dict(zip(grouped(self._bound), self.keys.values(keys), strict=True))
        at = time_column(instants, self._bound.schema.time_unit, writer.schema.field("at").type)
        chosen = pa.array(rows)
        return writer.write(groups, at, {alias: column.take(chosen) for alias, column in columns.items()})

    @property
    def ts(self) -> Array:
        return self._working.ts


class _Questions:
    """What is asked about the spans of a pass: first the triggers, then for each expiry the value before and after it."""

    def __init__(self, run: LivePass, spans: Spans, triggers: Array) -> None:
        self._run, self._spans, self._triggers = run, spans, triggers
        self.keys = run.keys.of_events(triggers)
        """The keys of each question's group."""
        count, views = self.keys.shape[0], len(run.views)
        groups = combined(np.concatenate([spans.keys[:count], self.keys], axis=1))
        own, self._groups = groups[: spans.birth.size], groups[spans.birth.size :]
        self._views = views
        self._stride = int(max(run.axis.of_row[-1], run.axis.of_due.max(initial=0))) + 3
        death = np.minimum(spans.death, self._stride - 1)
        leaves = (own * views + (spans.keys[count] if views > 1 else TRIGGERS)) * self._stride + death
        self._leaves, self._leaf = np.unique(leaves, return_inverse=True)
        """The leaves as `(group * views + view) * stride + death`, ascending."""
        self._member = np.zeros(self._leaves.size, np.int64)
        self._member[self._leaf] = np.arange(own.size)
        self._until = run.axis.of_row.take(triggers)
        self._ranges = self._alive(self._groups * views, self._until, triggers)
        self._due = np.empty(0, np.int64)

    @property
    def count(self) -> int:
        return int(self._triggers.size + self._due.size)

    def _bounds(self, trees: Array) -> tuple[Array, Array]:
        """Where the leaves of trees begin and end."""
        begin, end = (np.searchsorted(self._leaves, (trees + more) * self._stride) for more in (0, 1))
        return begin, end

    def _alive(self, trees: Array, position: Array, row: Array) -> Array:
        """Where the leaves of trees begin, how many there are, and the range of those that die after a position, and not after
        matches do that begin with the given rows, the latest by then.
        """
        begin, end = self._bounds(trees)
        low = np.searchsorted(self._leaves, trees * self._stride + position, side="right")
        high = end
        if self._run.axis.due.size:
            latest = self._run.axis.of_due.take(self._run.axis.instant.take(row))
            high = np.searchsorted(self._leaves, trees * self._stride + latest, side="right")
        return np.stack([begin, end - begin, low, high], axis=1)

    def ask_expiries(self, since: int | None, until: int | None) -> None:
        """Asks about the expiries of an interval at which no trigger of the same group occurs."""
        axis, ts, views = self._run.axis, self._run.ts, self._views
        trees, death = np.divmod(self._leaves, self._stride)
        number = np.minimum(np.searchsorted(axis.of_due, death), axis.of_due.size - 1)
        due = axis.due.take(number)
        wanted = (axis.of_due.take(number) == death) & (trees % views == views - 1)
        if since is not None:
            wanted &= due > since
        if until is not None:
            wanted &= due <= until
        wanted &= ~np.isin(self._moments(trees // views, due), self._moments(self._groups, ts.take(self._triggers)))
        leaf = np.flatnonzero(wanted)
        trees, death, self._due = trees[leaf], death[leaf], due[leaf]
        row = np.searchsorted(ts, self._due, side="right") - 1
        end = np.maximum(death, axis.of_row.take(row))
        keys = self._spans.keys[: self.keys.shape[0]].take(self._member.take(leaf), axis=1)
        self.keys = np.concatenate([self.keys, keys, keys], axis=1)
        self._until = np.concatenate([self._until, death - 1, end])
        self._ranges = np.concatenate([self._ranges, self._alive(trees, death - 1, row), self._alive(trees, end, row)])

    def _moments(self, groups: Array, instants: Array) -> Array:
        """Groups and the instants of events as one number; -1 where there is no event."""
        ts = self._run.ts
        row = np.minimum(np.searchsorted(ts, instants), ts.size - 1)
        return np.where(ts.take(row) == instants, groups * (ts.size + 1) + row, -1)

    def answers(self, measures: Measures) -> tuple[Array, Array]:
        """The sums that were asked for."""
        spans = self._spans
        begin, end = self._bounds(self._leaves // self._stride)
        height = int((self._ranges[:, 3] - self._ranges[:, 2]).max()).bit_length()
        tree, out = measures.nothing(2 * self._leaves.size), measures.nothing(self._until.size)
        order = np.argsort(spans.birth, kind="stable")
        asked = np.argsort(self._until, kind="stable")
        with np.errstate(all="ignore"):  # floats follow IEEE 754
            lives = kernels.Spans(order, spans.birth, self._leaf, spans.ints, spans.floats)
            kernels.add_alive(lives, begin, end - begin, measures.kinds, asked, self._until, self._ranges, height, *tree, *out)
        return out

    def rows(self, columns: Mapping[str, pa.Array]) -> tuple[Array, Array]:
        """The questions that become rows, and their instants, in order of time: expiries that change nothing are left out, and
        those that do come before the triggers of the same instant.
        """
        triggers, expiries = self._triggers.size, self._due.size
        before, after = np.arange(expiries) + triggers, np.arange(expiries) + triggers + expiries
        changed = np.zeros(expiries, bool)
        for column in columns.values() if expiries else ():
            changed |= _differ(column.take(pa.array(before)), column.take(pa.array(after)))
        rows = np.concatenate([after[changed], np.arange(triggers)])
        instants = np.concatenate([self._due[changed], self._run.ts.take(self._triggers)])
        order = np.argsort(instants, kind="stable")
        return rows[order], instants[order]


def _differ(one: pa.Array, other: pa.Array) -> Array:
    """Where two columns differ; NULL is like NULL and NaN like NaN."""
    if pa.types.is_null(one.type):
        return np.zeros(len(one), bool)
    found = np.asarray(pc.fill_null(pc.not_equal(one, other), False).to_numpy(zero_copy_only=False), dtype=bool)
    if pa.types.is_floating(one.type):
        alike = pc.and_(pc.is_nan(one), pc.is_nan(other))
        found &= ~np.asarray(pc.fill_null(alike, False).to_numpy(zero_copy_only=False), dtype=bool)
    missing, absent = (column.is_null().to_numpy(zero_copy_only=False) for column in (one, other))
    found |= missing != absent
    return found


def _leaving(bound: BoundQuery, working: WorkingSet) -> Array:
    """Per row the row that pushes it out of a count window: the n-th event of its partition after it, or the number of rows."""
    count = len(working)
    assert bound.count_window is not None
    columns = [working.column(test.name) for test in bound.equivalences if test.value is None]
    codes = [value_codes(without_nulls(column))[0] for column in columns]
    inside = in_partitions(bound, working.column, count).astype(np.int64)
    partition = combined(np.array([inside, *codes]))
    order = np.argsort(partition, kind="stable")
    leaving = np.full(count, count, np.int64)
    if count > bound.count_window:
        early, late = order[: -bound.count_window], order[bound.count_window :]
        same = partition[early] == partition[late]
        leaving[early[same]] = late[same]
    return leaving
