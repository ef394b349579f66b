"""Counters in execution: any number of AGG queries over the same events, counted in one pass, no match ever built (A-Seq).

Each pass computes, partition by partition, the values of every query at its triggers (`kernels.counting`), and, where
partitions are added up or EMIT ON CHANGE asks for it, also after each expiry; these become the values of groups in stream order
(`kernels.totals`). Between passes only the events of the last window are kept. Without a window nothing expires, and the
counters themselves are kept, one set for each partition.

A row is written when a later instant has been seen: every one of simultaneous triggers sees the matches of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any

import numpy as np
import pyarrow as pa

from kleene.common.columns import concat, take
from kleene.common.errors import DataError, Problem
from kleene.engine.aggregate_output import AggregateWriter, grouped, time_column
from kleene.engine.count_program import Program, Slot, build_program, by_bit, mask_of
from kleene.engine.count_totals import Division, Points, Rows, add_up, in_order, start_values
from kleene.engine.count_values import Attributes, WeightColumns, changed, require_stable, value_columns, wanted_of
from kleene.engine.grouping import Groups, combined_codes, group_rows, without_nulls
from kleene.engine.kernels import counting, marking, prefixes, trie_counting
from kleene.engine.kernels.counter_tables import Asked, Counts, Events, Front, Leading, Weights
from kleene.engine.kernels.counting import FLOAT_TOTAL
from kleene.engine.kernels.rows import tally
from kleene.engine.kernels.totals import Span
from kleene.engine.marked_program import MarkedProgram, build_marked
from kleene.engine.trie_program import aligned, build_trie, notes_of
from kleene.engine.vectorized import widen
from kleene.engine.working_matcher import BLOCK, RUN_ROWS, State, WorkingMatcher
from kleene.engine.working_set import WorkingSet
from kleene.plan.aggregate import CounterPlan
from kleene.plan.chopping import Cuts, Load, Steps, best_cuts, marking_cost, stacks_cost, trie_cost
from kleene.plan.shared_counters import SharedCounters, alone

Array = np.ndarray[Any, Any]

EVER = np.iinfo(np.int64).max
LONG_AGO = np.iinfo(np.int64).min

DIVIDED_ROWS = 1 << 20
"""How many events of many partitions are taken in at a time."""

MOST_TALLIED = 16
"""Up to so many tests, all combinations are tallied at once."""

MOST_SNAPSHOTS = 1 << 27
"""How many numbers the snapshots of start events may take."""


class SharedCounterMatcher(WorkingMatcher):
    """Counts the queries of some plans together; `feed` and `finish` yield (number of the query, rows)."""

    def __init__(
        self,
        shared: SharedCounters,
        events: pa.Schema,
        *,
        bad_rows: str = "error",
        run_rows: int = RUN_ROWS,
        block: int = BLOCK,
    ) -> None:
        super().__init__(shared, bad_rows, run_rows, block)
        self._shared = shared
        self._writers = [AggregateWriter(plan.bound, events) for plan in shared.plans]
        self.output_schemas = [writer.schema for writer in self._writers]
        self._written = LONG_AGO
        """Rows of instants before this one have been written."""
        carries = shared.window is None and not any(plan.compares_texts for plan in shared.plans)
        self._carried = Carried() if carries else None

    def feed(self, batch: pa.RecordBatch) -> Iterator[Any]:
        """Takes the next events in stream order; those that are divided in pieces that can be put in order in the cache."""
        rows = DIVIDED_ROWS if self._shared.partition else max(batch.num_rows, 1)
        for begin in range(0, batch.num_rows, rows):
            yield from super().feed(batch.slice(begin, rows))

    def _run(self, watermark: int | None) -> Iterator[Any]:
        working = self._working
        rows = len(working) if watermark is None else int(np.searchsorted(working.ts, watermark, side="left"))
        if rows:
            yield from self._counted(rows, EVER if watermark is None else watermark)
        if watermark is None:
            return
        self._written = watermark
        if self._carried is not None:
            working.forget(watermark - 1)
        else:
            window = self._shared.window
            working.forget(None if window is None else watermark - window - 1)

    def snapshot(self) -> State:
        """The counters that are carried on."""
        return {} if self._carried is None else self._carried.columns()

    def _windows(self) -> Iterable[tuple[int, bool]]:
        window = self._shared.window
        changes = any(plan.bound.query.emit_on_change for plan in self._shared.plans)
        return () if window is None else ((window, changes),)

    def _resume(self, watermark: int, state: State) -> None:
        self._written = watermark
        if self._carried is not None:
            self._carried = Carried.of(state)

    def _counted(self, rows: int, until: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        counted = self._pass(rows, until)
        self.metrics.instances += counted.starts
        self.metrics.peak_instances = max(self.metrics.peak_instances, counted.peak)
        for number, writer in enumerate(self._writers):
            found = counted.written(number, writer)
            if found.num_rows:
                self.metrics.matches += found.num_rows
                yield number, found

    def _pass(self, rows: int, until: int) -> CounterPass:
        return CounterPass(self._shared, self._working, rows, self._carried, self._written, until)


class CounterMatcher(SharedCounterMatcher):
    """A matcher for one counter plan; see `kleene.engine.matcher.Matcher`."""

    def __init__(self, plan: CounterPlan, events: pa.Schema, **tuning: Any) -> None:
        super().__init__(alone(plan), events, **tuning)
        self.output_schema = self.output_schemas[0]

    def _counted(self, rows: int, until: int) -> Iterator[Any]:
        for _, found in super()._counted(rows, until):
            yield found


class Carried:
    """The counters of each partition, where nothing expires."""

    def __init__(self) -> None:
        self._keys: list[pa.Array] = []
        self._cells = np.empty((0, 0), np.int64)
        self._floats = np.empty((0, 0), np.float64)

    @staticmethod
    def of(state: State) -> Carried:
        """From what `columns` gave."""
        found = Carried()
        if "cells" in state:
            rows = int(state["partitions"][0].as_py())
            found._keys = [state[name] for name in sorted(state) if name.startswith("key ")]
            found._cells = np.array(state["cells"]).reshape(rows, -1)
            found._floats = np.array(state["floats"]).reshape(rows, -1)
        return found

    def columns(self) -> State:
        """The counters as columns."""
        if not self._cells.size:
            return {}
        keys = {f"key {place:03}": column for place, column in enumerate(self._keys)}
        cells = {"cells": pa.array(self._cells.ravel()), "floats": pa.array(self._floats.ravel())}
        return {"partitions": pa.array([self._cells.shape[0]]), **keys, **cells}

    def joined(self, columns: list[pa.Array]) -> list[pa.Array]:
        """The keys of the partitions, then those of events."""
        return [_joined(kept, column) for kept, column in zip(self._keys, columns, strict=True)] if self._keys else columns

    def started(self, program: Program, codes: Array, partitions: int) -> tuple[Array, Array]:
        """The cells of partitions at the beginning of a pass; the first codes are those of the partitions in hand."""
        cells = np.tile(program.initial, (partitions, 1))
        floats = np.zeros((partitions, program.floats))
        at = codes[: self._cells.shape[0]]
        if at.size:
            cells[at], floats[at] = self._cells, self._floats
        return cells, floats

    def keep(self, keys: list[pa.Array], codes: Array, cells: Array, floats: Array) -> None:
        """Takes over the cells after a pass."""
        member = np.full(cells.shape[0], -1)
        member[codes] = np.arange(codes.size)  # any one: their keys are the same
        found = np.flatnonzero(member >= 0)
        self._keys = [widen(take(column, member[found])) for column in keys]
        self._cells, self._floats = cells[found], floats[found]


def _joined(kept: pa.Array, column: pa.Array) -> pa.Array:
    """Kept keys, then those of a column; encoded, if the column is."""
    if not pa.types.is_dictionary(column.type):
        return concat([kept, widen(column)])
    encoded = kept.dictionary_encode()
    dictionary = widen(column.dictionary)
    return concat([encoded, pa.DictionaryArray.from_arrays(column.indices.cast(encoded.indices.type), dictionary)])


class Room:
    """Where a kernel writes the values of each query's slots, at places that have a test of the query's mask."""

    def __init__(self, program: Program, masks: list[int], tallies: Tallies, bits: int) -> None:
        self._slots = np.diff(program.values.slot_ranges)
        self._tests = reduce(or_, masks)
        self._asking = by_bit(masks, bits)
        counts = [tallies.passing(mask) for mask in masks]
        self._seen = np.full(len(masks), -1, np.int64)
        self._positions = np.zeros(len(masks), np.int64)
        self._place_bases = _bases(np.array(counts))
        self._places = np.empty(int(self._place_bases[-1]), np.int64)
        self._bases = _bases(np.repeat(counts, self._slots))
        self._values = np.empty(int(self._bases[-1]), np.int64)
        self._floating = bool((program.values.slots[:, 0] == FLOAT_TOTAL).any())
        self._floats = np.empty(int(self._bases[-1]) if self._floating else 0)

    def asked(self) -> Asked:
        """What kernels take."""
        pending = np.empty(self._seen.size, np.int64)
        places = self._place_bases, self._places
        return Asked(
            self._tests, *self._asking, pending, self._seen, self._positions, *places, self._bases, self._values, self._floats
        )

    def points(self) -> list[Points]:
        """What was written, for each query."""
        found = []
        last = np.cumsum(self._slots)
        for query, count in enumerate(self._positions.tolist()):
            begins = self._bases[last[query] - self._slots[query] : last[query]]
            first = self._place_bases[query]
            values = [self._values[begin : begin + count] for begin in begins]
            floats = [self._floats[begin : begin + count] for begin in begins] if self._floating else []
            found.append(Points(self._places[first : first + count], _stacked(values, count), _stacked(floats, count)))
        return found


class Tallies:
    """How many events pass tests."""

    def __init__(self, masks: Array, bits: int) -> None:
        self._masks = masks
        few = bits <= MOST_TALLIED
        self._values = np.arange(1 << bits) if few else masks
        self._counts = _tally(masks, bits) if few else np.ones(1, np.int64)

    def passing(self, mask: int) -> int:
        """How many pass one of the tests of a mask."""
        if mask == 0:
            return 0
        passing = (self._values & mask) != 0
        return int(self._counts[passing].sum()) if self._counts.size > 1 else int(np.count_nonzero(passing))


def _tally(masks: Array, bits: int) -> Array:
    counts = np.zeros((4, 1 << bits), np.int64)
    tally(masks, counts)
    return np.asarray(counts[0])


def _grouped(codes: Array | None, partitions: int, ts: Array, masks: Array) -> Groups:
    """Rows by partition; where there is one, places are rows, and no order is made."""
    if codes is None or partitions == 1:
        return Groups(np.empty(0, np.int64), np.array([0, ts.size], np.int64), ts, masks)
    return group_rows(codes, partitions, ts, masks)


def _trie_cost(trie: trie_counting.Trie, load: Load) -> float:
    return trie_cost(
        np.diff(trie.forward.ranges).astype(int).tolist(), (int(trie.forward.width), int(trie.backward.width)), load
    )


def _power(count: int) -> int:
    """The smallest power of two that is not less.

    >>> _power(5), _power(1)
    (8, 1)
    """
    return 1 << (count - 1).bit_length()


def _bases(counts: Array) -> Array:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _stacked(arrays: list[Array], count: int) -> Array:
    """Arrays of `count` values as rows of one; the only one without a copy."""
    if not arrays:
        return np.zeros((0, count))
    return arrays[0].reshape(1, count) if len(arrays) == 1 else np.array(arrays)


class CounterPass:
    """One pass over the first rows of a working set."""

    def __init__(
        self, shared: SharedCounters, working: WorkingSet, rows: int, carried: Carried | None, since: int, until: int
    ) -> None:
        self._shared = shared
        self._working = working
        self._carried = carried
        self._since, self._until = since, until
        self._ts = working.ts[:rows]
        rank = working.rank()
        self._rank = self._ts if rank is working.ts else rank[:rows]
        self._attributes = Attributes(shared.bound, working, rows)
        weights = WeightColumns()
        wanted = [
            wanted_of(plan, bits, self._attributes, weights, cautious=self._is_cautious())
            for plan, bits in zip(shared.plans, shared.bits, strict=True)
        ]
        self._items = [items for _, items in wanted]
        self._program = build_program(tuple(item for item, _ in wanted), len(shared.scanned), shared.window is not None)
        self._codes, self._partitions = self._partition_codes()
        masks = working.masks[:rows]
        self._groups = _grouped(self._codes, self._partitions, self._ts, masks)
        self._placed_rank = self._groups.ts if self._rank is self._ts else self._groups.places(self._rank)
        self._weights = Weights(*map(self._groups.places, weights.of(self._attributes, rows)))
        self._tallies = Tallies(masks, len(shared.scanned))
        self.starts = self._tallies.passing(self._program.starts)
        self._added = [
            not plan.divided or (plan.bound.query.emit_on_change and shared.window is not None) for plan in shared.plans
        ]
        self._expiring = shared.window is not None and any(self._added)
        self._before: list[tuple[Array, Array]] | None = None
        self.peak = 0
        """The most start events alive at a time, where they are marked."""
        self._triggered, self._expired = self._run()

    def _is_cautious(self) -> bool:
        """Whether counters have to mean the same whatever the events in hand are like."""
        return self._shared.window is None

    @property
    def _events(self) -> Events:
        return Events(self._groups.offsets, self._groups.ts, self._placed_rank, self._groups.masks)

    @property
    def _initial(self) -> Counts:
        """The cells before any event."""
        return Counts(self._program.initial, np.zeros(self._program.floats))

    def _leading(self) -> Leading:
        """What lies before the events: nothing."""
        return Leading(0, 0, self._initial)

    def _front(self, rows: int) -> Front:
        """Room for so many rows of the front."""
        kept, float_kept = self._program.kept, self._program.float_kept
        room = np.empty((rows, kept.size), np.int64), np.empty((rows, float_kept.size))
        return Front(kept, float_kept, *room, np.empty(rows, np.int64))

    @property
    def _longest(self) -> int:
        """How many events the largest partition has."""
        return int(np.diff(self._groups.offsets).max())

    def _partition_codes(self) -> tuple[Array | None, int]:
        """The partition of each row as a code (None: there is one), and how many there are."""
        self._keys: list[pa.Array] = []
        self._key_codes = np.zeros(1, np.int64)
        """The partitions of keys: first those that are carried, then those of events."""
        if not self._shared.partition:
            return None, 1
        columns = [without_nulls(self._working.column(name).slice(0, self._ts.size)) for name in self._shared.partition]
        self._keys = columns if self._carried is None else self._carried.joined(columns)
        self._key_codes, count = combined_codes(self._keys)
        return self._key_codes[self._key_codes.size - self._ts.size :], count

    def _run(self) -> tuple[list[Points], list[Points]]:
        """The values at triggers and after expiries, for each query."""
        wanted = self._program.wanted
        bits = len(self._shared.scanned)
        triggers = Room(self._program, [item.triggers for item in wanted], self._tallies, bits)
        expiries = Room(self._program, [item.starts if self._expiring else 0 for item in wanted], self._tallies, bits)
        if self._shared.window is None:
            self._count_all(triggers)
        else:
            self._count_window(self._shared.window, triggers, expiries)
        return triggers.points(), expiries.points()

    def _count_window(self, window: int, room: Room, expiries: Room) -> None:
        """Counts by the method that the plan asks for, or that is expected to cost least."""
        method = self._shared.options.window
        trie = None if self._expiring else build_trie(self._program.wanted, len(self._shared.scanned))
        if method != "marking" and trie is not None and len(self._shared.plans) == 1:
            self._count_trie(window, trie, room)
            return
        load = self._load(window)
        stacks, of_trie = self._stacks_cost(load), np.inf if trie is None else _trie_cost(trie, load)
        cuts = self._marking_cuts(load, np.inf if method == "marking" else min(stacks, of_trie)) if method != "stacks" else None
        if cuts is not None:
            self._count_marked(window, cuts, room, expiries)
        elif trie is not None and of_trie < stacks:
            self._count_trie(window, trie, room)
        else:
            self._count_stacked(window, room, expiries)

    def _marking_cuts(self, load: Load, least: float) -> tuple[Cuts, ...] | None:
        """Where paths are chopped for marking; None if that is not expected to cost less than `least`, however they are."""
        paths = self._paths()
        whole: tuple[Cuts, ...] = tuple(() for _ in paths)
        if marking_cost(paths, whole, load) >= least * len(paths):
            return None
        cuts = self._cuts(load)
        return cuts if marking_cost(paths, cuts, load) < least else None

    def _stacks_cost(self, load: Load) -> float:
        program = self._program
        operations = np.diff(program.forward.ranges[:, [0, -1]]) + np.diff(program.backward.ranges[:, [0, -1]])
        terms = [(path[-1][0], len(path) + 1) for path in self._paths()]
        return stacks_cost(operations[:, 0].tolist(), terms, load)

    def _load(self, window: int) -> Load:
        """How many events pass each test, and how many of them are alive in a partition on average."""
        events = [self._tallies.passing(1 << bit) for bit in range(len(self._shared.scanned))]
        span = max(int(self._ts[-1]) - int(self._ts[0]), 1) * self._partitions
        return Load(tuple(events), tuple(count * min(window / span, 1.0) for count in events))

    def _paths(self) -> list[Steps]:
        return [path for item in self._program.wanted for path in item.paths]

    def _cuts(self, load: Load) -> tuple[Cuts, ...]:
        """Where paths are chopped; only counts are connected."""
        wanted, sharing = self._program.wanted, self._shared.options.sharing
        counted = [item.slots == (Slot(counting.TOTAL),) for item in wanted for _ in item.paths]
        paths = [path for path, countable in zip(self._paths(), counted, strict=True) if countable]
        if sharing not in ("auto", "chop"):
            return tuple(() for _ in counted)
        found = iter(best_cuts(paths, load, forced=sharing == "chop"))
        return tuple(next(found) if countable else () for countable in counted)

    def _count_marked(self, window: int, cuts: tuple[Cuts, ...], room: Room, expiries: Room) -> None:
        groups = self._groups
        program = build_marked(self._program.wanted, len(self._shared.scanned), cuts)
        before = _bases((groups.masks & program.starts) != 0)
        most = int(np.diff(before[groups.offsets]).max())
        rings = len(program.ring_bits)
        alive = np.zeros(rings, np.int64), np.zeros(rings, np.int64), np.empty((rings, most), np.int64)
        peak = np.zeros(1, np.int64)
        marking.count_marked(
            self._events,
            window,
            LONG_AGO if self._expiring else self._since,
            self._until,
            program.starts,
            program.forward,
            program.operation_rings,
            self._weights,
            program.initial,
            Counts(np.empty((program.initial.size, most), np.int64), np.empty((program.floats, most))),
            marking.Rings(program.ring_of, *program.ring_cells, *program.ring_floats, *alive),
            marking.Connections(*program.connections_of, program.connections, *self._snapshots(program, window)),
            program.values,
            room.asked(),
            expiries.asked(),
            self._expiring,
            peak,
        )
        self.peak = int(peak[0])

    def _snapshots(self, program: MarkedProgram, window: int) -> tuple[Array, Array, Array]:
        """Room for snapshots: (numbers, where those of each connection begin with masks of its rows and columns, how far each
        one reaches).
        """
        at, begin, rows = [], 0, 1
        alive = {ring: _power(self._most_alive(bit, window)) for ring, bit in enumerate(program.ring_bits)}
        for first, _, _, _, ring in program.connections.tolist():
            at.append((begin, alive[ring] - 1, alive[first] - 1))
            begin += alive[ring] * alive[first]
            rows = max(rows, alive[ring])
        if begin > MOST_SNAPSHOTS:
            message = f"{begin:,} numbers are too many for snapshots of start events"
            raise DataError(Problem(message, hint="leave plan option 'sharing' or 'window' open, or narrow the window"))
        return np.empty(begin, np.int64), np.array(at, np.int64).reshape(-1, 3), np.empty((len(at), rows), np.int64)

    def _most_alive(self, bit: int, window: int) -> int:
        """The most events that pass a test in one window of a partition; one more, for the next."""
        places = np.flatnonzero(self._groups.masks & (1 << bit))
        firsts = np.searchsorted(places, self._groups.offsets)
        most = 0
        for begin, end in pairwise(firsts):
            ts = self._groups.ts[places[begin:end]]
            if ts.size:
                most = max(most, int((np.arange(ts.size) - np.searchsorted(ts, ts - window, side="right")).max()) + 1)
        return most + 1

    def _count_trie(self, window: int, trie: trie_counting.Trie, room: Room) -> None:
        with np.errstate(over="ignore"):  # as plain Python: what does not fit is found out afterwards
            trie_counting.count_trie(
                self._events,
                window,
                self._since,
                trie,
                aligned(trie.forward.initial.size),
                aligned(trie.backward.initial.size),
                self._notes(trie.backward),
                self._notes(trie.forward),
                np.empty(len(trie.leaves), np.uint64),
                room.asked(),
            )

    def _notes(self, side: trie_counting.Side) -> trie_counting.Notes:
        """Room for the notes of any partition."""
        tests = np.repeat(np.arange(side.note_ranges.size - 1), np.diff(side.note_ranges.astype(int)))
        return notes_of(side, sum(min(self._longest, self._tallies.passing(1 << bit)) for bit in tests.tolist()))

    def _count_all(self, room: Room) -> None:
        program, carried = self._program, self._carried or Carried()
        if self._carried is not None:
            for plan in self._shared.plans:
                require_stable(plan, self._working, self._ts.size)
        cells, floats = carried.started(program, self._key_codes, self._partitions)
        self._before = [start_values(program, query, cells, floats) for query in range(len(program.wanted))]
        prefixes.count_all(
            self._events,
            self._since if not any(self._added) else LONG_AGO,
            program.forward,
            self._weights,
            Counts(cells, floats),
            self._front(0),
            program.values,
            room.asked(),
        )
        carried.keep(self._keys, self._key_codes, cells, floats)

    def _count_stacked(self, window: int, room: Room, expiries: Room) -> None:
        program = self._program
        counting.count_stacked(
            self._events,
            window,
            LONG_AGO if self._expiring else self._since,
            self._until,
            program.starts,
            program.forward,
            program.backward,
            self._weights,
            self._leading(),
            self._initial,
            Counts(np.empty(program.initial.size, np.int64), np.empty(program.floats)),
            self._front(self._longest + 1),
            program.values,
            room.asked(),
            expiries.asked(),
            self._expiring,
        )

    def written(self, number: int, writer: AggregateWriter) -> pa.RecordBatch:
        """The rows of a query."""
        if not self._added[number]:
            found = in_order(self._triggered[number], self._groups, self._ts)
            return self._write(number, writer, found.select(found.instants >= self._since) if self._expiring else found)
        found, *earlier = self._added_up(number)
        if found.expired.any():
            after = found.select(found.expired)
            kept = np.ones(found.events.size, bool)
            kept[found.expired] = changed(
                self._values(number, writer, *earlier), self._values(number, writer, after.values, after.floats)
            )
            found = found.select(kept)
        return self._write(number, writer, found)

    def _added_up(self, number: int) -> tuple[Rows, Array, Array]:
        """Partitions as groups, with the values of slots before expiries."""
        plan, program = self._shared.plans[number], self._program
        kinds = program.kinds(number)
        window = 0 if self._shared.window is None else self._shared.window
        on_change = plan.bound.query.emit_on_change and self._shared.window is not None
        span = Span(self._since, self._until, window, on_change)
        before = None if self._before is None else self._before[number]
        points = self._triggered[number], self._expired[number]
        triggers = mask_of(self._shared.bits[number][bit] for bit in plan.triggers)
        emitting = (self._working.masks[: self._ts.size] & triggers) != 0
        division = self._division(plan)
        return add_up(kinds, *points, before, self._groups, self._ts, self._rank, emitting, division, span)

    def _division(self, plan: CounterPlan) -> Division:
        """The group of each partition: what is grouped by is among what divides the events, or is the same in all."""
        codes = np.zeros(self._ts.size, np.int64) if self._codes is None else self._codes
        if plan.divided:
            return Division(codes, np.arange(self._partitions), self._partitions)
        group_of = np.zeros(self._partitions, np.int64)
        if not plan.keys:
            return Division(codes, group_of, 1)
        keys = dict(zip(self._shared.partition, self._keys, strict=True))
        groups, count = combined_codes([keys[name] for name in plan.keys])
        group_of[self._key_codes] = groups
        return Division(codes, group_of, count)

    def _values(self, number: int, writer: AggregateWriter, values: Array, floats: Array) -> dict[str, pa.Array]:
        return value_columns(self._items[number], writer.schema, self._attributes, values, floats)

    def _write(self, number: int, writer: AggregateWriter, found: Rows) -> pa.RecordBatch:
        bound = self._shared.plans[number].bound
        at = time_column(found.instants, bound.schema.time_unit, writer.schema.field("at").type)
        groups = {name: self._working.gather(name, found.events) for name in grouped(bound)}
        return writer.write(groups, at, self._values(number, writer, found.values, found.floats))
