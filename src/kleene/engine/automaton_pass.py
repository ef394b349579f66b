"""One pass of the automata of a plan over a working set: events grouped by partition, runs, detections, matches, negation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.errors import DataError, LimitError
from kleene.engine.filter_values import filter_column
from kleene.engine.filters import ColumnSpec, check_overflow, fill_columns
from kleene.engine.grouping import combined_codes, group_rows, value_codes, without_nulls
from kleene.engine.kernels import layout as kernels
from kleene.engine.kernels import match_buffer
from kleene.engine.kernels.nfa import run_automaton
from kleene.engine.match_limits import Limited
from kleene.engine.matcher import Metrics
from kleene.engine.matches import Matches
from kleene.engine.negation import NegativeIndex
from kleene.engine.output import EventHashes
from kleene.engine.placed import PlacedColumns
from kleene.engine.run_buffer import MatchReader, RunBuffer
from kleene.engine.run_program import build_programs
from kleene.engine.vectorized import of_types, widen
from kleene.engine.working_set import WorkingSet
from kleene.pattern.bound import BoundQuery
from kleene.pattern.policies import Output, Strategy
from kleene.pattern.predicates import Literal
from kleene.plan.nfa import BranchPlan, NfaPlan

Array = np.ndarray[Any, Any]

NO_WINDOW = np.iinfo(np.int64).max

STRATEGIES = {
    Strategy.SKIP_TILL_ANY_MATCH: kernels.ANY,
    Strategy.SKIP_TILL_NEXT_MATCH: kernels.NEXT,
    Strategy.PARTITION_CONTIGUITY: kernels.PARTITION,
    Strategy.STRICT_CONTIGUITY: kernels.STRICT,
}

ALGORITHMS = {"basic": kernels.BASIC, "merging": kernels.MERGING, "backtrack": kernels.BACKTRACK}


def in_partitions(bound: BoundQuery, column: Callable[[str], pa.Array], count: int) -> Array:
    """Which of `count` rows agree with the equivalence tests by themselves."""
    inside = np.ones(count, bool)
    for test in bound.equivalences:
        values = column(test.name)
        held = values.is_valid()
        if isinstance(test.value, Literal):
            held = pc.fill_null(pc.equal(widen(values), pa.scalar(test.value.value)), False)
        lacking = [kind for kind in bound.schema.types or () if bound.lacks(kind, test.name)]
        if lacking and bound.schema.type is not None:
            held = pc.or_(held, pc.fill_null(of_types(column(bound.schema.type), lacking), False))
        inside &= held.to_numpy(zero_copy_only=False)
    return inside


class Automata:
    """The automata of a plan, ready to run."""

    def __init__(self, plan: NfaPlan) -> None:
        self.plan = plan
        self.bits = _bits(plan)
        """The bit of each (variable, role) in a row's mask."""
        self.positive = sum(1 << bit for (_, role), bit in self.bits.items() if role != "negative")
        automata = [branch.automaton for branch in plan.branches]
        self.columns, self.programs = build_programs(plan.bound, automata, self.bits, len(plan.tests))


def _bits(plan: NfaPlan) -> dict[tuple[str, str], int]:
    """The bit of each (variable, role) in a row's mask, in the order of `NfaPlan.scanned`."""
    bits: dict[tuple[str, str], int] = {}
    for event, _ in plan.scanned:
        role = "negative" if event.negated else "take" if (event.variable, "begin") in bits else "begin"
        bits[event.variable, role] = len(bits)
    return bits


class AutomatonPass:
    """One pass of the automata over a working set."""

    def __init__(self, automata: Automata, working: WorkingSet, metrics: Metrics, block: int) -> None:
        plan = automata.plan
        self._automata = automata
        self._plan = plan
        self._working = working
        self._metrics = metrics
        self._block = block
        arrival = plan.total_order and plan.ties == "arrival"
        self._rank = np.arange(len(working), dtype=np.int64) if arrival else working.rank()
        self._codes: Array | None = None
        count = 1
        if plan.partition:
            self._codes, count = combined_codes([without_nulls(working.column(name)) for name in plan.partition])
        self.groups = group_rows(self._codes, count, working.ts, working.masks)
        self.ts = self.groups.ts
        self.events = PlacedColumns(working, self.groups)
        self.rank = self.ts if self._rank is working.ts else self.groups.places(self._rank)
        self.tests = self._test_codes()
        tied = bool((self._rank[1:] == self._rank[:-1]).any())
        if tied and plan.total_order:
            self._refuse_ties()
        self.order_matters = tied
        self.hashes = EventHashes(self.events, self.rank, plan.columns, tied=tied)
        counted = plan.bound.count_window
        limit = plan.bound.window if counted is None else counted
        self.window: int = NO_WINDOW if limit is None else limit
        self.clock = self.ts if counted is None else self._positions()
        self._indexes = [self._negative_indexes(branch, index) for index, branch in enumerate(plan.branches)]
        self.prunes = (
            plan.bound.query.output is Output.NON_OVERLAP
            and plan.options.algorithm != "backtrack"
            and len(plan.branches) == 1
            and plan.branches[0].negation is None
        )
        """Whether runs that overlap a reported match are let go of while running."""
        self.ended = np.full(self.groups.offsets.size - 1, -1, np.int64)
        """Per segment the place where its last reported match ends, under NON-OVERLAP."""
        self.earliest: int | None = None
        """The time of the earliest start of a run that is still alive."""
        self.filled = fill_columns(automata.columns, len(working), self._filter_column, self.groups.rows)
        self._buffer: RunBuffer | None = None

    # --- preparation --------------------------------------------------------------------------------------------------

    def _test_codes(self) -> Array:
        """Per test a code by place: -1 where the event's type lacks the attribute, -2 where it is NULL."""
        bound = self._plan.bound
        tests = np.empty((len(self._plan.tests), len(self._working)), np.int64)
        for index, name in enumerate(self._plan.tests):
            column = self._working.column(name)
            codes, _ = value_codes(without_nulls(column))
            codes = np.where(column.is_null().to_numpy(zero_copy_only=False), -2, codes)
            lacking = [kind for kind in bound.schema.types or () if bound.lacks(kind, name)]
            if lacking and bound.schema.type is not None:
                free = of_types(self._working.column(bound.schema.type), lacking).to_numpy(zero_copy_only=False)
                codes = np.where(free, -1, codes)
            tests[index] = self.groups.places(codes)
        return tests

    def _positions(self) -> Array:
        """The position of each event in its partition, by place."""
        places = np.arange(len(self._working), dtype=np.int64)
        bound = self._plan.bound
        if bound.query.strategy is not Strategy.STRICT_CONTIGUITY or not bound.equivalences:
            return places  # the events of a segment are all there, one after the other
        inside = in_partitions(bound, self._working.column, places.size)
        _, keys = np.unique(np.vstack([self.tests, self.groups.places(inside)]), axis=1, return_inverse=True)
        keys = keys.ravel()
        order = np.argsort(keys, kind="stable")
        starts = np.searchsorted(keys[order], keys[order])
        positions = np.empty(places.size, np.int64)
        positions[order] = places - starts
        return positions

    def _refuse_ties(self) -> None:
        """Two events of one partition that tie, where order matters."""
        mask = self.groups.masks & self._automata.positive
        places = np.arange(mask.size) if self._plan.all_rows else np.flatnonzero(mask)
        rank, segment = self.rank[places], np.searchsorted(self.groups.offsets, places, side="right")
        same = np.flatnonzero((rank[1:] == rank[:-1]) & (segment[1:] == segment[:-1]))
        strict = self._plan.bound.query.strategy is Strategy.STRICT_CONTIGUITY
        for at in same.tolist():
            if strict or self._ties_in_partition(places, rank, at):
                raise DataError(self._tie(int(places[at])))

    def _ties_in_partition(self, places: Array, rank: Array, at: int) -> bool:
        """Whether some events tied with that at `at`, from it on, agree on all tests."""
        end = at + 1
        while end < rank.size and rank[end] == rank[at]:
            end += 1
        codes = self.tests[:, places[at:end]]
        for left in range(codes.shape[1]):
            for right in range(left + 1, codes.shape[1]):
                one, other = codes[:, left], codes[:, right]
                if ((one >= -1) & (other >= -1) & ((one == other) | (one == -1) | (other == -1))).all():
                    return True
        return False

    def _tie(self, place: int) -> str:
        schema = self._plan.bound.schema
        time = self.events.gather(schema.time, np.array([place]))[0]
        shown = time.as_py() if schema.time_unit is None else str(time)
        return (
            f"two events tie at timestamp {shown} in partition {self.partition_text(place)}, "
            "but the query needs a total order\n"
            '  hint: give order_by=[...], or ties="arrival" to accept the order in which rows are delivered'
        )

    def partition_text(self, place: int) -> str:
        """The partition of an event, for messages."""
        names = [test.name for test in self._plan.bound.equivalences] or list(self._plan.partition)
        values = [(name, self.events.gather(name, np.array([place]))[0].as_py()) for name in names]
        return ", ".join(f"{name}={value!r}" for name, value in values) or "the whole stream"

    def _negative_indexes(self, branch: BranchPlan, index: int) -> list[NegativeIndex]:
        if branch.negation is None:
            return []
        names = self._automata.programs[index].variables
        return [
            NegativeIndex(
                component,
                names,
                self._automata.bits[component.event.variable, "negative"],
                branch.negation.method,
                branch.negation.window,
                self._working,
                self._rank,
                self._codes,
                self.groups.order,
            )
            for component in branch.negation.components
        ]

    def _filter_column(self, spec: ColumnSpec) -> pa.Array:
        roles = [bit for (variable, _), bit in self._automata.bits.items() if variable == spec.variable]
        return filter_column(spec, self._plan.bound, self._working, sum(1 << bit for bit in roles))

    # --- matching -----------------------------------------------------------------------------------------------------

    def detections(self, index: int, emit_from: int) -> Iterator[Array]:
        """Runs a branch; yields what was found as (node, place) per detection, while the buffer holds its nodes."""
        plan, program = self._plan, self._automata.programs[index]
        branch = plan.branches[index]
        buffer = self._buffer = RunBuffer(program, self._block, backtrack=plan.options.algorithm == "backtrack")
        components = program.components
        relevant = sum(1 << int(bit) for bit in (*components[kernels.BEGIN_BIT], *components[kernels.TAKE_BIT]) if bit >= 0)
        strategy = STRATEGIES[plan.bound.query.strategy]
        state = buffer.state
        scratch = np.empty(int(np.diff(self.groups.offsets).max(initial=0)) * max(1, len(program.variables)) + 1, np.int64)
        groups = self.groups
        algorithm = (
            ALGORITHMS[plan.options.algorithm] if branch.merges or plan.options.algorithm != "merging" else kernels.BASIC
        )
        while True:
            common = (groups.order, groups.offsets, groups.ts, self.clock, self.rank, groups.masks, self.tests)
            with np.errstate(over="ignore"):
                status = run_automaton(
                    *common, self.window, strategy, self.order_matters, algorithm, self.prunes, relevant, emit_from,
                    plan.limits.runs, components, program.accumulators, program.merge_reads, program.merge_bounds, buffer.runs,
                    buffer.run_floats, buffer.counts, buffer.touched, buffer.flags, buffer.table, buffer.postponed,
                    buffer.postponed_floats, buffer.nodes, buffer.found, self.ended, scratch, state, program.filter,
                    *self.filled,
                )  # fmt: skip
            check_overflow(self.filled[3])
            if state[kernels.OVERFLOWED]:
                raise DataError("integer overflow: a sum in a WHERE predicate does not fit 64 bits")
            if status in (kernels.FOUND_FULL, kernels.NODES_FULL, kernels.DONE) and state[kernels.FOUND]:
                yield buffer.found[:, : state[kernels.FOUND]]
                state[kernels.FOUND] = 0
            if status == kernels.DONE:
                break
            self._make_room(buffer, status)
        self._count(state)
        if state[kernels.EARLIEST] != kernels.NOTHING:
            earliest = int(state[kernels.EARLIEST])
            self.earliest = earliest if self.earliest is None else min(earliest, self.earliest)

    def _make_room(self, buffer: RunBuffer, status: int) -> None:
        state = buffer.state
        if status == kernels.RUNS_FULL:
            buffer.grow_runs()
        elif status == kernels.POSTPONED_FULL:
            buffer.grow_postponed()
        elif status == kernels.RUN_LIMIT:
            self._at_run_limit(buffer)
        elif status == kernels.NODES_FULL:
            self._metrics.buffered = max(self._metrics.buffered, int(state[kernels.USED]))
            if self._plan.options.algorithm != "backtrack":
                state[kernels.USED] = match_buffer.prune(
                    buffer.nodes,
                    state[kernels.USED],
                    buffer.runs,
                    buffer.counts,
                    self.clock,
                    state[kernels.POSITION],
                    self.window,
                )
            if 2 * state[kernels.USED] + 8 * state[kernels.LIVE] + 8 > buffer.nodes.shape[1]:
                if 2 * buffer.nodes.shape[1] > self._plan.limits.nodes:
                    self._refuse(
                        f"{int(state[kernels.USED]):,} nodes in its match buffer", "nodes", int(state[kernels.POSITION])
                    )
                buffer.grow_nodes()
        elif status == kernels.FOUND_FULL and state[kernels.LIVE] + 2 > buffer.found.shape[1]:
            buffer.grow_found(2 * int(state[kernels.LIVE]) + 2)

    def _refuse(self, found: str, limit: str, place: int, otherwise: str = "") -> NoReturn:
        raise LimitError(
            f"query '{self._plan.bound.query.name}' has {found} in partition {self.partition_text(place)}; "
            f"the limit is {getattr(self._plan.limits, limit):,}\n"
            "  hint: narrow the pattern (a shorter WITHIN, more predicates, another strategy than skip_till_any_match), "
            f"raise limits={{'{limit}': ...}}{otherwise}"
        )

    def _at_run_limit(self, buffer: RunBuffer) -> None:
        """Too many live runs in one partition."""
        limits = self._plan.limits
        live = int(buffer.state[kernels.LIVE])
        place = int(buffer.state[kernels.POSITION])
        if limits.policy == "error":
            self._refuse(f"{live:,} live runs", "runs", place, ", or choose limits={'policy': 'keep_newest'} or 'sample'")
        self._metrics.dropped_runs += buffer.let_go(live - limits.runs, limits)

    def _count(self, state: Array) -> None:
        metrics = self._metrics
        metrics.instances += int(state[kernels.CREATED])
        metrics.visits += int(state[kernels.STEPS])
        metrics.merged += int(state[kernels.MERGED])
        metrics.peak_runs = max(metrics.peak_runs, int(state[kernels.PEAK]))
        metrics.buffered = max(metrics.buffered, int(state[kernels.USED]))

    def read(self, index: int, found: Array) -> Iterator[Matches]:
        """The matches of detections, in blocks."""
        assert self._buffer is not None
        buffer, limits = self._buffer, self._plan.limits
        parts: Iterable[tuple[Array, Array]] = ((found, buffer.nodes),)
        if limits.policy != "error":
            limited = Limited(found, buffer.nodes, int(buffer.state[kernels.USED]), self.clock, self.window, limits)
            self._metrics.dropped_matches += limited.dropped
            parts = limited.parts()
        for some, nodes in parts:
            yield from self._read(index, some, nodes)

    def _read(self, index: int, found: Array, nodes: Array) -> Iterator[Matches]:
        program, limits = self._automata.programs[index], self._plan.limits
        reader = MatchReader(program, self._block)
        while True:
            status = reader.read(found, nodes, self.clock, self.window, limits.matches, limits.policy != "error")
            count = reader.count
            self._metrics.sequences += count
            if count:
                yield reader.matches()
            if status == match_buffer.READ:
                break
            if status == match_buffer.MATCH_LIMIT:
                place = int(found[kernels.FOUND_PLACE, reader.entry - 1])
                raise LimitError(
                    f"query '{self._plan.bound.query.name}' has more than {limits.matches:,} matches that end at one event in "
                    f"partition {self.partition_text(place)}\n"
                    "  hint: ask for output='compressed', narrow the pattern, raise limits={'matches': ...}, or choose "
                    "limits={'policy': 'keep_newest'} or 'sample'"
                )
            if status in (match_buffer.STACK_FULL, match_buffer.TOO_LONG):
                reader.grow(status)

    def write_compressed(self, writer: Any, index: int, found: Array) -> pa.RecordBatch:
        """Detections with the part of the buffer that they reach."""
        assert self._buffer is not None
        buffer = self._buffer
        return writer.write(
            self.events, self.hashes, self.groups.offsets, found, buffer.nodes, int(buffer.state[kernels.USED]), self.clock,
            self.window, self._automata.programs[index],
        )  # fmt: skip

    def negated(self, index: int, matches: Matches) -> Matches:
        """The matches without a forbidden event."""
        for negative in self._indexes[index]:
            if matches.count:
                matches = matches.select(~negative.dead(self._plan.bound, matches))
        return matches

    def clear_ended(self) -> None:
        """Under NON-OVERLAP, events up to the end of a reported match cannot be selected again."""
        for segment in np.flatnonzero(self.ended >= 0).tolist():
            rows = self.groups.order[self.groups.offsets[segment] : self.ended[segment] + 1]
            self._working.masks[rows] &= ~self._automata.positive
