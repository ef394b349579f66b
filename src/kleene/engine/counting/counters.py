"""Counters in execution: any number of AGG queries over the same events, counted in one pass, no match ever built (A-Seq).

Each pass computes, partition by partition, the values of every query at its triggers (`kernels`), and, where
partitions are added up or EMIT ON CHANGE asks for it, also after each expiry; these become the values of groups in stream order
(`kernels.totals`). Between passes only the events of the last window are kept. Without a window nothing expires, and the
counters themselves are kept, one set for each partition.

A row is written when a later instant has been seen: every one of simultaneous triggers sees the matches of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from kleene.common.arrays import EVER, LONG_AGO, Array
from kleene.common.columns import concat
from kleene.common.errors import DataError
from kleene.engine.allowance import Allowance
from kleene.engine.counting.carried import UNKNOWN, Carried
from kleene.engine.counting.counter_room import Room, Tallies, bases_of
from kleene.engine.counting.kernels import counting, marking, prefixes, trie_counting
from kleene.engine.counting.kernels.tables import Counts, Events, Front, Leading, Period, Questions, Weights
from kleene.engine.counting.kernels.totals import Span
from kleene.engine.counting.marked_program import MarkedProgram, build_marked
from kleene.engine.counting.pairs import Pairs
from kleene.engine.counting.program import Slot, Wanted, build_program, mask_of
from kleene.engine.counting.totals import Division, Points, Rows, add_up, in_order, start_values
from kleene.engine.counting.trie_program import aligned, build_trie, notes_of
from kleene.engine.counting.values import (
    Attributes,
    SaturatedError,
    WeightColumns,
    changed,
    require_stable,
    value_columns,
    wanted_of,
)
from kleene.engine.events.grouping import Groups, combined_codes, group_rows, without_nulls
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.expressions.vectorized import widen
from kleene.engine.matcher import Found, State
from kleene.engine.matches.aggregate_output import AggregateWriter, grouped, time_column
from kleene.engine.passes.restored import carried_counters, require_names
from kleene.engine.passes.working_matcher import BLOCK, RUN_ROWS, WorkingMatcher
from kleene.plan.counting.chopping import Cuts, Load, Steps, best_cuts, marking_cost, stacks_cost, trie_cost
from kleene.plan.counting.counters import CounterPlan
from kleene.plan.counting.shared_counters import SharedCounters

DIVIDED_ROWS = 1 << 20
"""How many events of many partitions are taken in at a time."""

LOOKED_AT = 1 << 10
"""Number of events after which live events are counted."""


class CounterMatcher(WorkingMatcher):
    """Counts the queries of some plans together, or of one; see `kleene.engine.matcher.Matcher`."""

    takes_failing = False
    widens = True
    """Whether a pass whose sums do not fit is done again, counting by digits."""

    def __init__(
        self,
        shared: SharedCounters,
        events: pa.Schema,
        *,
        bad_rows: str = "error",
        run_rows: int = RUN_ROWS,
        block: int = BLOCK,
    ) -> None:
        names = tuple(plan.bound.query.name for plan in shared.plans)
        super().__init__(shared, bad_rows, run_rows, block, names)
        self._shared = shared
        self._writers = [AggregateWriter(plan.bound, events) for plan in shared.plans]
        self.output_schemas = tuple(writer.schema for writer in self._writers)
        self._written = LONG_AGO
        """Rows of instants before this one have been written."""
        carries = shared.window is None and not any(plan.needs_events for plan in shared.plans)
        self._carried = Carried() if carries else None
        self._key_types = [widen(pa.nulls(0, events.field(name).type)).type for name in shared.partition]

    def feed(self, batch: pa.RecordBatch) -> Iterator[Found]:
        """Takes the next events in stream order; those that are divided in pieces that can be put in order in the cache."""
        rows = DIVIDED_ROWS if self._shared.partition else max(batch.num_rows, 1)
        for begin in range(0, batch.num_rows, rows):
            yield from super().feed(batch.slice(begin, rows))

    def _run(self, watermark: int | None) -> Iterator[Found]:
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

    def changes(self) -> pa.RecordBatch | None:
        """The counters of partitions that are carried on."""
        return None if self._carried is None else self._carried.changes()

    @property
    def known(self) -> int:
        """The partitions whose counters are carried on."""
        return 0 if self._carried is None else len(self._carried)

    def _windows(self) -> Iterable[tuple[int, bool]]:
        window = self._shared.window
        changes = any(plan.bound.query.emit_on_change for plan in self._shared.plans)
        return () if window is None else ((window, changes),)

    def _resume(self, watermark: int, state: State) -> None:
        self._written = watermark
        if self._carried is not None:
            self._carried = Carried.of(carried_counters(state, self._key_types))
        else:
            require_names(state, ())

    def _counted(self, rows: int, until: int) -> Iterator[Found]:
        self.allowance.begin_pass(rows)
        fresh = self._carried is None or len(self._carried) == 0
        try:
            counted = self._pass(rows, until)
            found = [counted.written(number, writer) for number, writer in enumerate(self._writers)]
        except SaturatedError as error:
            # Parts of sums do not fit. Counters that are carried on stay as they are; others are made again.
            if not self.widens or not fresh or (self._carried is not None and until < EVER):
                raise DataError(str(error)) from error
            found, counted = self._counted_widely(rows, until)
        self.metrics.instances += counted.starts
        self.metrics.peak_instances = max(self.metrics.peak_instances, counted.peak)
        for number, batch in enumerate(found):
            if batch.num_rows:
                self.allowance.reported(batch.num_rows)
                self.metrics.matches += batch.num_rows
                yield number, batch

    def _counted_widely(self, rows: int, until: int) -> tuple[list[pa.RecordBatch], CounterPass]:
        carried = None if self._carried is None else Carried()
        self.allowance.begin_pass(rows)
        common = (self._shared, self._working, rows, carried, self._written, until, self.allowance)
        try:
            counted = CounterPass(*common, wide=True)
            return [counted.written(number, writer) for number, writer in enumerate(self._writers)], counted
        except SaturatedError as error:
            raise DataError(str(error)) from error

    def _pass(self, rows: int, until: int) -> CounterPass:
        return CounterPass(self._shared, self._working, rows, self._carried, self._written, until, self.allowance)


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


class CounterPass:
    """One pass over the first rows of a working set."""

    def __init__(
        self,
        shared: SharedCounters,
        working: WorkingSet,
        rows: int,
        carried: Carried | None,
        since: int,
        until: int,
        allowance: Allowance,
        *,
        wide: bool = False,
    ) -> None:
        self._shared = shared
        self._allowance = allowance
        self._working = working
        self._carried = carried
        self._since, self._until = since, until
        self._ts = working.ts[:rows]
        rank = working.rank()
        self._rank = self._ts if rank is working.ts else rank[:rows]
        self._attributes = Attributes(shared.bound, working, rows)
        weights = WeightColumns()
        wanted = [
            wanted_of(plan, bits, self._attributes, weights, cautious=self._is_cautious(), wide=wide)
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
        """Whether counters have to mean the same whatever the current events are."""
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
        """Room for rows of the front."""
        kept, float_kept = self._program.kept, self._program.float_kept
        self._allowance.hold(8 * rows * (kept.size + float_kept.size + 1), "the counters of start events")
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
        """The partitions of keys: first those of events, then those that are only carried."""
        self._first = np.zeros(1, np.int64)
        """Of each partition a row; -1 for one without events."""
        self._numbers = np.full(1, UNKNOWN)
        """Of each partition its number among those that are carried."""
        if not self._shared.partition:
            self._find_carried()
            return None, 1
        columns = [without_nulls(self._working.column(name).slice(0, self._ts.size)) for name in self._shared.partition]
        self._keys = columns
        codes, count = combined_codes(columns)
        self._key_codes = codes
        self._first = np.full(count, -1)
        self._first[codes] = np.arange(codes.size)  # any one: their keys are the same
        self._numbers = np.full(count, UNKNOWN)
        self._find_carried()
        return codes, self._numbers.size

    def _find_carried(self) -> None:
        """Looks up what is carried of the partitions of events; where partitions are added up, takes in all others, too."""
        carried = self._carried
        if carried is None:
            return
        there = np.flatnonzero(self._first >= 0)
        self._numbers[there] = carried.find(self._keys, self._first[there])
        if all(plan.divided for plan in self._shared.plans):
            return
        others, count = carried.beside(self._numbers), self._numbers.size
        self._numbers = np.concatenate([self._numbers, others])
        self._key_codes = np.concatenate([self._key_codes, np.arange(count, self._numbers.size)])
        if any(plan.keys for plan in self._shared.plans) and others.size:
            self._keys = [concat([widen(own), carried.keys(place, others)]) for place, own in enumerate(self._keys)]

    def _run(self) -> tuple[list[Points], list[Points]]:
        """The values at triggers and after expiries, for each query."""
        wanted = self._program.wanted
        if self._shared.plans[0].compared is not None:
            return self._of_pairs(self._shared.plans[0], wanted[0])
        triggers = self._room([item.triggers for item in wanted])
        expiries = self._room([item.starts if self._expiring else 0 for item in wanted])
        if self._shared.window is None:
            self._count_all(triggers)
        else:
            self._count_window(self._shared.window, triggers, expiries)
        return triggers.points(), expiries.points()

    def _of_pairs(self, plan: CounterPlan, wanted: Wanted) -> tuple[list[Points], list[Points]]:
        """The same for a query that compares two events: by sums over pairs, which are made one after the other."""
        single = build_program((replace(wanted, slots=(Slot(counting.TOTAL),)),), len(self._shared.scanned), False)
        masks = wanted.triggers, wanted.starts if self._expiring else 0
        rooms = [Room(single, [mask], [self._tallies.passing(mask)], len(self._shared.scanned)) for mask in masks]
        since = LONG_AGO if any(self._added) else self._since
        period = Period(self._shared.window or 0, since, self._until, self._expiring)
        pairs = Pairs(plan, self._working, self._groups, self._events, self._allowance)
        triggered, expired = pairs.points(wanted.slots, self._weights, period, rooms)
        return [triggered], [expired]

    def _room(self, masks: list[int]) -> Room:
        """Room for values at the events that pass a test of a mask, for each query."""
        return Room(self._program, masks, [self._tallies.passing(mask) for mask in masks], len(self._shared.scanned))

    def _count_window(self, window: int, room: Room, expiries: Room) -> None:
        """Counts by the method that the plan asks for, or that is expected to cost least."""
        method = self._shared.options.window
        trie = None if self._expiring else build_trie(self._program.wanted, len(self._shared.scanned))
        if method != "marking" and trie is not None and len(self._shared.plans) == 1:
            self._count_trie(window, trie, room)
            return
        load = self._load(window)
        stacks, of_trie = self._stacks_cost(load), np.inf if trie is None else _trie_cost(trie, load)
        going_on = self._expiring and self._since > LONG_AGO  # only stacks resume from the state at that time
        marks = method == "marking" or (method != "stacks" and not going_on)
        cuts = self._marking_cuts(load, np.inf if method == "marking" else min(stacks, of_trie)) if marks else None
        if cuts is not None:
            self._count_marked(window, cuts, room, expiries)
        elif trie is not None and of_trie < stacks:
            self._count_trie(window, trie, room)
        else:
            self._count_stacked(window, self._since, room, expiries)

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
        """How many events pass each test, and how many of them are alive, on average, when one of their partition comes."""
        events = [self._tallies.passing(1 << bit) for bit in range(len(self._shared.scanned))]
        rows = self._ts.size
        looked = np.linspace(0, rows - 1, min(rows, LOOKED_AT), dtype=np.int64)
        oldest = np.searchsorted(self._ts, self._ts.take(looked) - window, side="right")
        beside = float(np.square(np.diff(self._groups.offsets) / rows).sum())  # of two events: that they share a partition
        part = float((looked + 1 - oldest).mean()) / rows * beside
        return Load(tuple(events), tuple(count * part for count in events))

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
        before = bases_of((groups.masks & program.starts) != 0)
        most = int(np.diff(before[groups.offsets]).max())
        rings = len(program.ring_bits)
        alive = np.zeros(rings, np.int64), np.zeros(rings, np.int64), np.empty((rings, most), np.int64)
        peak = np.zeros(1, np.int64)
        self._allowance.hold(8 * most * (program.initial.size + program.floats), "the counters of start events")
        marking.count_marked(
            self._events,
            Period(window, LONG_AGO if self._expiring else self._since, self._until, self._expiring),
            program.starts,
            program.forward,
            program.operation_rings,
            self._weights,
            program.initial,
            Counts(np.empty((program.initial.size, most), np.int64), np.empty((program.floats, most))),
            marking.Rings(program.ring_of, *program.ring_cells, *program.ring_floats, *alive),
            marking.Connections(*program.connections_of, program.connections, *self._snapshots(program, window)),
            Questions(program.values, room.asked(), expiries.asked()),
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
        self._allowance.hold(8 * begin, "snapshots of start events (see the plan options 'sharing' and 'window')")
        return np.empty(begin, np.int64), np.array(at, np.int64).reshape(-1, 3), np.empty((len(at), rows), np.int64)

    def _most_alive(self, bit: int, window: int) -> int:
        """The most events that pass a test in one window of a partition; one more, for the next."""
        return int(marking.most_alive(self._events, 1 << bit, window)) + 1

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
        program = self._program
        carried = Carried() if self._carried is None else self._carried
        goes_on = self._carried is not None and self._until < EVER
        if len(carried) or goes_on:
            for plan in self._shared.plans:
                require_stable(plan, self._working, self._ts.size)
        cells, floats = carried.started(program, self._numbers)
        self._allowance.hold(cells.nbytes + floats.nbytes, "the counters of partitions")
        if any(self._added):
            self._before = [start_values(program, query, cells, floats) for query in range(len(program.wanted))]
        known = self._first
        before = (cells[: known.size].copy(), floats[: known.size].copy()) if goes_on else None
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
        if before is not None:
            differ = (cells[: known.size] != before[0]).any(axis=1)
            differ |= (floats[: known.size].view(np.int64) != before[1].view(np.int64)).any(axis=1)
            changed = np.flatnonzero(differ & (known >= 0))
            carried.keep(self._keys, known[changed], self._numbers[changed], cells[changed], floats[changed])

    def _count_stacked(self, window: int, since: int, room: Room, expiries: Room) -> None:
        """Counts from the time `since` on; where there are expiries, from what the partitions have by then."""
        program = self._program
        begun = self._expiring and since > LONG_AGO
        queries = len(program.wanted)
        begins = Room(program, [0] * queries, [self._partitions if begun else 0] * queries, len(self._shared.scanned))
        counting.count_stacked(
            self._events,
            Period(window, since, self._until, self._expiring),
            program.starts,
            program.forward,
            program.backward,
            self._weights,
            self._leading(),
            self._initial,
            Counts(np.empty(program.initial.size, np.int64), np.empty(program.floats)),
            self._front(self._longest + 1),
            Questions(program.values, room.asked(), expiries.asked()),
            begins.asked(),
        )
        if begun:
            self._before = [(found.values, found.floats) for found in begins.points()]

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
        span = Span(self._since, self._until, window, on_change, plan.ends_at_expiry)
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
