"""One pass of a shared plan over a working set: relations that are looked up are made first, then partial matches are streamed,
depth first, from the leaves to the roots of all queries.

A block of partial matches of a node goes to every node above it and to every query that ends there before the next is made:
what patterns have in common is found once, whatever they do with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa

from kleene.common.arrays import NO_WINDOW, Array
from kleene.common.errors import DataError
from kleene.engine.allowance import Allowance
from kleene.engine.events.kernels import windows
from kleene.engine.events.kernels.tables import Columns, Stream
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.expressions.filters import ColumnSpec, Computed
from kleene.engine.expressions.vectorized import Evaluator, widen
from kleene.engine.matcher import Metrics
from kleene.engine.matches.match_values import MatchEvaluator, MatchRows
from kleene.engine.matches.matches import Matches
from kleene.engine.matches.output import EventHashes
from kleene.engine.passes.filter_values import fill_columns
from kleene.engine.passes.working_pass import WorkingPass
from kleene.engine.shared import kernels
from kleene.engine.shared.kernels import Relation
from kleene.engine.shared.leaf_scan import LeafScan
from kleene.engine.shared.program import Joint, SharedProgram
from kleene.pattern.predicates import Attribute
from kleene.plan.multi.nodes import Root
from kleene.plan.operators import renamed

BLOCK = 1 << 15
"""How many partial matches are streamed at a time."""

CHUNK = 256
"""How many candidates of a partial match are looked at together."""

MOST_TABLES = 8
"""Windows for which tables are made of what each event allows others to be; there may be as many windows as queries."""

MOST_KEPT = 1 << 28
"""Numbers that the relations of a pass which are looked up may have together: 1 GB, and for a moment twice that to sort one."""

SORTED_BYTES = 12
"""What each of these numbers takes while a relation is sorted."""

NOTHING = np.empty(0, np.int64)


class SharedPass(WorkingPass):
    """One pass over the working set of a group of queries."""

    def __init__(
        self,
        program: SharedProgram,
        scan: LeafScan,
        working: WorkingSet,
        metrics: Metrics,
        allowance: Allowance,
        block: int,
    ) -> None:
        # What all queries of a group have in common is that of any of them, without what is its own.
        super().__init__(replace(program.group.first, branches=()), working, metrics, block, {})
        self.program = program
        self.allowance = allowance
        self.working = working
        self.row_rank, self.codes = self._rank, self._codes
        self._room = min(block, BLOCK)
        self._chosen = np.empty(CHUNK, np.int32)
        self.leaves = self._leaf_relations(scan)
        rows, parts = len(working), self.groups.offsets.size - 1
        segments = np.empty(rows if parts > 1 else 0, np.int32)
        if parts > 1:
            windows.number_segments(self.groups.offsets, segments)
        wanted = np.empty((2, parts), np.int64)
        windows.ask(self.groups.offsets, self.groups.order, working.kept, rows, wanted)
        self.fresh = wanted[0]
        """Per segment the first place that matches may end with, unless they wait for windows to pass."""
        self.stream = Stream(self.groups.offsets, segments, self.clock, self.rank, self.order_matters)
        self.values = self._filled()
        self._tables: dict[int, Array] = {}
        self._relations: dict[int, Relation] = {}
        self._hashes: dict[tuple[str, ...], EventHashes] = {}

    def _leaf_relations(self, scan: LeafScan) -> list[Relation]:
        """The events of each test, by place."""
        counts = scan.counts(self.groups.masks)
        ends = np.cumsum(counts) - counts
        begins = ends.copy()
        places = np.empty(int(counts.sum()), np.int32)
        kernels.list_leaves(self.groups.masks, *scan.sets(), ends, places)
        own = [places[begin:end] for begin, end in zip(begins, ends, strict=True)]
        return [Relation(item.size, item.reshape(1, -1), item, item) for item in own]

    def earliest_start(self) -> int | None:
        """The time of the earliest event that a later match may have."""
        return self._earliest_in(max(plan.bound.count_window or 0 for plan in self.program.group.plans.values()))

    def rows_of(self, test: int) -> Array:
        """The rows whose events pass a test, ascending."""
        places = self.leaves[test].last
        return np.sort(self.groups.order.take(places)) if self.groups.rows is not None else places.astype(np.int64)

    def hashes_of(self, columns: tuple[str, ...]) -> EventHashes:
        """The hashes of events for queries that read these columns."""
        if columns not in self._hashes:
            self._hashes[columns] = EventHashes(self.events, self.rank, columns, tied=self.order_matters, apart=self.apart)
        return self._hashes[columns]

    def _filled(self) -> Columns:
        """The columns that joins compare."""
        try:
            return fill_columns(self.program.columns, len(self.working), self._column, self.groups.rows)
        except (DataError, pa.ArrowInvalid):
            # A value that no pair of events asks for may not be computable, or not fit the unit of another.
            if not self.program.computes:
                raise
            self.program = self.program.plainer
            return self._filled()

    def _column(self, spec: ColumnSpec) -> Computed:
        """The values of a column by row."""
        if isinstance(spec.expression, Attribute):
            with suppress(DataError):  # of events that are not compared
                return widen(self.working.column(spec.expression.name)), None
        group, leaves = self.program.group, sorted(self.program.leaves_of[spec])
        read = np.zeros(len(self.working), bool)
        for leaf in leaves:
            read[self.rows_of(leaf)] = True
        rows = np.flatnonzero(read)
        expression = renamed(spec.expression, {"": group.tests[leaves[0]].event.variable})
        values = Evaluator(group.bound, lambda _, name: self.working.gather(name, rows), rows.size).values(expression)
        places = np.full(len(self.working), -1, np.int64)
        places[rows] = np.arange(rows.size)
        return values.take(pa.array(places, mask=places < 0)), None

    # --- relations ----------------------------------------------------------------------------------------------------

    def prepare(self) -> bool:
        """Makes the relations that are looked up; returns whether they fit into the memory that is meant for them."""
        room = min(MOST_KEPT, self.allowance.memory // SORTED_BYTES)
        for number in self.program.kept:
            blocks: list[Relation] = []
            for block in self._made(number):
                room -= block.size * (len(block.parts) + 2)
                if room < 0:
                    return False
                blocks.append(_taken(block, np.arange(block.size)))
            self._relations[number] = self._sorted(number, blocks)
        return True

    def roots(self) -> Iterator[tuple[Root, Relation]]:
        """Blocks of the tuples of all clauses; each must be done with before the next is asked for."""
        for number in self.program.streams():
            yield from self._pushed(number, self._relation(number))

    def _relation(self, number: int) -> Relation:
        """A relation that is there as a whole."""
        node = self.program.plan.nodes[number]
        return self.leaves[node.leaf] if node.is_leaf else self._relations[number]

    def _pushed(self, number: int, block: Relation) -> Iterator[tuple[Root, Relation]]:
        for root in self.program.roots.get(number, ()):
            yield root, block
        for parent in self.program.parents.get(number, ()):
            joint = self.program.joints[parent]
            fresh = NOTHING if self.program.parents.get(parent) else self._fresh_of(parent)
            for joined in self._joined(joint, block, fresh):
                yield from self._pushed(parent, joined)

    def _fresh_of(self, number: int) -> Array:
        """From where on the tuples of a node must end that only goes to queries."""
        queries = [root.clause.query for root in self.program.roots.get(number, ())]
        return NOTHING if any(query in self.program.group.waiting for query in queries) else self.fresh

    def _made(self, number: int) -> Iterator[Relation]:
        """Blocks of the relation of a node."""
        if number in self._relations or number not in self.program.joints:
            yield self._relation(number)
            return
        joint = self.program.joints[number]
        for block in self._made(joint.streamed):
            yield from self._joined(joint, block, NOTHING)

    def _sorted(self, number: int, blocks: list[Relation]) -> Relation:
        """Blocks of the relation of a node as a whole, sorted by last event."""
        blocks = blocks or [_empty(len(self.program.plan.nodes[number].leaves), 0)]
        whole = Relation(
            sum(block.size for block in blocks),
            np.concatenate([block.parts for block in blocks], axis=1),
            np.concatenate([block.first for block in blocks]),
            np.concatenate([block.last for block in blocks]),
        )
        blocks.clear()
        return _taken(whole, np.argsort(whole.last, kind="stable"))

    def _joined(self, joint: Joint, streamed: Relation, fresh: Array) -> Iterator[Relation]:
        """Blocks of a node's relation, of one block of what is streamed."""
        probed = self._relation(joint.probed)
        if not streamed.size or not probed.size:
            return
        window = NO_WINDOW if joint.node.window is None else joint.node.window
        bounds = self.bounds(window)
        out = _empty(len(joint.node.leaves), self._room)
        state = np.array([0, -1, 0, 0])
        status = kernels.OUTPUT_FULL
        while status == kernels.OUTPUT_FULL:
            status = kernels.join(
                streamed,
                probed,
                joint.single,
                joint.streamed_at,
                joint.probed_at,
                joint.rules,
                self.values,
                self.stream,
                kernels.Scope(window, bounds, fresh),
                state,
                self._chosen,
                out,
            )
            count = int(state[kernels.COUNT])
            if count:
                block = out._replace(size=count)
                if joint.conditions:
                    block = self._decided(joint, block)
                self._metrics.instances += block.size
                self.allowance.made(count)
                if block.size:
                    yield block
        self._metrics.evaluations += int(state[kernels.EVALUATIONS])

    def _decided(self, joint: Joint, block: Relation) -> Relation:
        """The partial matches that satisfy what no kernel decides."""
        count = block.size
        singles = dict(zip(joint.names, block.parts[:, :count], strict=True))
        matches = Matches(count, singles, {}, block.first[:count], block.last[:count])
        bound = self.program.group.plans[joint.query].bound
        evaluator = MatchEvaluator(bound, self.events.gather, MatchRows(matches), noticed=self.working.noticed)
        held = np.ones(count, bool)
        for condition in joint.conditions:
            held &= evaluator.holds(condition)
        return block if held.all() else _taken(block, np.flatnonzero(held))

    def bounds(self, window: int) -> Array:
        """The table of what each event allows others to be in a window; an empty one if there are too many."""
        found = self._tables.get(window)
        if found is None:
            room = len(self.working) if len(self._tables) < MOST_TABLES else 0
            found = self._tables[window] = np.empty((windows.BOUNDS, room), np.int32)
            if room:
                windows.prepare(self.groups.offsets, self.clock, self.rank, window, found)
        return found


def _taken(block: Relation, chosen: Array) -> Relation:
    return Relation(chosen.size, block.parts.take(chosen, axis=1), block.first.take(chosen), block.last.take(chosen))


def _empty(width: int, room: int) -> Relation:
    return Relation(0, np.empty((width, room), np.int32), np.empty(room, np.int32), np.empty(room, np.int32))
