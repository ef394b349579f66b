"""One pass of the automata of a plan over a working set: events grouped by partition, runs, detections, matches, negation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from kleene.common.arrays import Array
from kleene.engine.allowance import Allowance
from kleene.engine.automaton.kernels import layout as kernels
from kleene.engine.automaton.kernels import match_buffer, queue
from kleene.engine.automaton.kernels.layout import Buffer, Policy
from kleene.engine.automaton.kernels.nfa import run_automaton
from kleene.engine.automaton.match_limits import Limited
from kleene.engine.automaton.run_buffer import MatchReader, RunBuffer
from kleene.engine.automaton.run_program import build_programs
from kleene.engine.events.magnitudes import may_overflow
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.expressions.failing import condition_overflow
from kleene.engine.matcher import Metrics
from kleene.engine.matches.matches import Matches
from kleene.engine.passes.filter_values import fill_columns
from kleene.engine.passes.working_pass import WorkingPass
from kleene.pattern.policies import Output, Strategy
from kleene.plan.patterns import NfaPlan

STRATEGIES = {
    Strategy.SKIP_TILL_ANY_MATCH: kernels.ANY,
    Strategy.SKIP_TILL_NEXT_MATCH: kernels.NEXT,
    Strategy.PARTITION_CONTIGUITY: kernels.PARTITION,
    Strategy.STRICT_CONTIGUITY: kernels.STRICT,
}

AUTOMATON = "narrow the pattern (a shorter WITHIN, more predicates, another strategy than skip_till_any_match)"
POLICIES = ", or choose limits={'policy': 'keep_newest'} or 'sample'"
"""What to do at a limit of automata."""

ALGORITHMS = {"basic": kernels.BASIC, "merging": kernels.MERGING, "backtrack": kernels.BACKTRACK}


class Automata:
    """The automata of a plan, ready to run."""

    def __init__(self, plan: NfaPlan, *, audits: bool = False) -> None:
        """With `audits` a run that comes to an edge which fails is an error."""
        self.plan = plan
        self.bits = _bits(plan)
        """The bit of each (variable, role) in a row's mask."""
        automata = [branch.automaton for branch in plan.branches]
        self.columns, self.programs = build_programs(plan.bound, automata, self.bits, len(plan.tests), audits=audits)
        self._readers: dict[int, MatchReader] = {}

    def reader(self, index: int, block: int) -> MatchReader:
        """Reads the matches of a branch."""
        if index not in self._readers:
            self._readers[index] = MatchReader(self.programs[index], block)
        return self._readers[index]


def _bits(plan: NfaPlan) -> dict[tuple[str, str], int]:
    """The bit of each (variable, role) in a row's mask, in the order of `PatternPlan.scanned`."""
    bits: dict[tuple[str, str], int] = {}
    for event, _ in plan.scanned:
        role = "negative" if event.negated else "take" if (event.variable, "begin") in bits else "begin"
        bits[event.variable, role] = len(bits)
    return bits


class AutomatonPass(WorkingPass):
    """One pass of the automata over a working set."""

    def __init__(self, automata: Automata, working: WorkingSet, metrics: Metrics, allowance: Allowance, block: int) -> None:
        super().__init__(automata.plan, working, metrics, block, automata.bits)
        plan = automata.plan
        self._allowance = allowance
        self._automata = automata
        self._plan: NfaPlan = plan
        self.prunes = (
            plan.bound.query.output is Output.NON_OVERLAP
            and plan.options.algorithm != "backtrack"
            and len(plan.branches) == 1
            and plan.branches[0].negation is None
            and not may_overflow(plan.bound, working)
        )
        """Whether runs that overlap a reported match are dropped while running."""
        self.counts_ends = plan.options.algorithm != "backtrack" or plan.limits.policy != "error"
        """Where the matches of an event come together they are counted while they are read."""
        self.candidates = False
        """Whether matches are reported that overlap, but none that starts no later than one that ended before."""
        self.filled = fill_columns(automata.columns, len(working), self._filter_column, self.groups.rows)
        self._buffer: RunBuffer | None = None

    def matches(self, index: int, emit_from: int) -> Iterator[Matches]:
        """The matches of a branch that rows from `emit_from` on complete, in blocks."""
        if self._plan.branches[index].queued:
            yield from self._queued(index, emit_from)
            return
        for found in self.detections(index, emit_from):
            yield from self._read(index, found)

    def _queued(self, index: int, emit_from: int) -> Iterator[Matches]:
        """The matches of a branch whose runs are a queue."""
        groups, program = self.groups, self._automata.programs[index]
        bits, limits = program.nfa.components[kernels.BEGIN_BIT], self._plan.limits
        longest = int(np.diff(groups.offsets).max(initial=0))
        passed, selected = np.zeros(bits.size, np.int64), np.empty((bits.size, longest), np.int32)
        state = queue.new_state()
        out = np.empty((bits.size, max(self._block, min(longest, limits.matches))), np.int32)
        status = queue.OUTPUT_FULL
        while status == queue.OUTPUT_FULL:
            state[queue.COUNT] = 0
            status = queue.run_queue(self.by_place, bits, self.window, emit_from, limits.matches, passed, selected, state, out)
            if status == queue.MATCH_LIMIT:
                self._refuse_matches(int(state[queue.POSITION]))
            self._metrics.sequences += int(state[queue.COUNT])
            self._allowance.made(int(state[queue.COUNT]))
            if state[queue.COUNT]:
                yield Matches.of_sequences(program.variables, out[:, : state[queue.COUNT]])
        self._metrics.instances += int(state[queue.STARTS])
        self._metrics.visits += int(state[queue.STEPS])
        self._metrics.peak_runs = max(self._metrics.peak_runs, int(state[queue.PEAK]))
        if state[queue.EARLIEST] != kernels.NOTHING:
            self._note_earliest(int(state[queue.EARLIEST]))

    def _note_earliest(self, earliest: int) -> None:
        self.earliest = earliest if self.earliest is None else min(earliest, self.earliest)

    def policy(self, index: int, emit_from: int) -> Policy:
        """How the runs of a branch are evaluated, for matches that rows from `emit_from` on complete."""
        plan, components = self._plan, self._automata.programs[index].nfa.components
        merges = plan.branches[index].merges or plan.options.algorithm != "merging"
        return Policy(
            window=self.window,
            strategy=STRATEGIES[plan.bound.query.strategy],
            order_matters=self.order_matters,
            algorithm=ALGORITHMS[plan.options.algorithm] if merges else kernels.BASIC,
            non_overlap=self.prunes,
            candidates=self.candidates,
            relevant=sum(1 << int(bit) for bit in (*components[kernels.BEGIN_BIT], *components[kernels.TAKE_BIT]) if bit >= 0),
            emit_from=emit_from,
            most_runs=plan.limits.runs,
        )

    def detections(self, index: int, emit_from: int) -> Iterator[Array]:
        """Runs a branch; yields what was found as (node, place) per detection, while the buffer holds its nodes."""
        plan, program = self._plan, self._automata.programs[index]
        longest = int(np.diff(self.groups.offsets).max(initial=0))
        backtrack = plan.options.algorithm == "backtrack"
        buffer = self._buffer = RunBuffer(program, self._block, longest, backtrack=backtrack)
        state = buffer.state
        policy = self.policy(index, emit_from)
        created = 0
        while True:
            with np.errstate(over="ignore"):
                status = run_automaton(
                    self.by_place,
                    policy,
                    program.nfa,
                    buffer.runs,
                    buffer.postponed,
                    Buffer(buffer.nodes, buffer.found),
                    self.ended,
                    state,
                    program.filter,
                    self.filled,
                )
            self.note_overflow(self.filled.constants)
            if state[kernels.FAILED]:
                raise condition_overflow(plan.bound.query.name)
            self._allowance.made(int(state[kernels.CREATED]) - created)
            created = int(state[kernels.CREATED])
            if status in (kernels.FOUND_FULL, kernels.NODES_FULL, kernels.DONE) and state[kernels.FOUND]:
                yield buffer.found[:, : state[kernels.FOUND]]
                state[kernels.FOUND] = 0
            if status == kernels.DONE:
                break
            self._make_room(buffer, status)
        self._count(state)
        if state[kernels.EARLIEST] != kernels.NOTHING:
            self._note_earliest(int(state[kernels.EARLIEST]))

    def _make_room(self, buffer: RunBuffer, status: int) -> None:
        state = buffer.state
        if status == kernels.RUNS_FULL:
            self._allowance.require(2 * buffer.runs_bytes, "live runs")
            buffer.grow_runs()
        elif status == kernels.POSTPONED_FULL:
            self._allowance.require(2 * buffer.postponed_bytes, "runs that are put off")
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
                    self.clock,
                    state[kernels.POSITION],
                    self.window,
                )
            if 2 * state[kernels.USED] + 8 * state[kernels.LIVE] + 8 > buffer.nodes.shape[1]:
                if 2 * buffer.nodes.shape[1] > self._plan.limits.nodes:
                    self._refuse(f"{int(state[kernels.USED]):,} nodes in its match buffer", "nodes", state)
                buffer.grow_nodes()
        elif status == kernels.FOUND_FULL and state[kernels.LIVE] + 2 > buffer.found.shape[1]:
            buffer.grow_found(2 * int(state[kernels.LIVE]) + 2)

    def _refuse(self, found: str, limit: str, state: Array, otherwise: str = "") -> NoReturn:
        found = f"has {found} in partition {self.partition_text(int(state[kernels.POSITION]))}"
        most = f"{getattr(self._plan.limits, limit):,}"
        raise self._allowance.exceeded(found, limit, most, AUTOMATON, otherwise)

    def _refuse_matches(self, place: int) -> NoReturn:
        """More matches that end at one event than the limit allows."""
        raise self._allowance.too_many_matches(self.partition_text(place), POLICIES)

    def _at_run_limit(self, buffer: RunBuffer) -> None:
        """Too many live runs in one partition."""
        limits = self._plan.limits
        live = int(buffer.state[kernels.LIVE])
        if limits.policy == "error":
            self._refuse(f"{live:,} live runs", "runs", buffer.state, POLICIES)
        self._metrics.dropped_runs += buffer.let_go(live - limits.runs, limits)

    def _count(self, state: Array) -> None:
        metrics = self._metrics
        metrics.instances += int(state[kernels.CREATED])
        metrics.visits += int(state[kernels.STEPS])
        metrics.merged += int(state[kernels.MERGED])
        metrics.peak_runs = max(metrics.peak_runs, int(state[kernels.PEAK]))
        metrics.buffered = max(metrics.buffered, int(state[kernels.USED]))

    def _read(self, index: int, found: Array) -> Iterator[Matches]:
        """The matches of detections, in blocks."""
        assert self._buffer is not None
        buffer, limits = self._buffer, self._plan.limits
        used = int(buffer.state[kernels.USED])
        parts: Iterable[tuple[Array, Array]] = ((found, buffer.nodes),)
        if limits.policy != "error":
            limited = Limited(found, buffer.nodes, used, self.clock, self.window, self._allowance)
            self._metrics.dropped_matches += limited.dropped
            parts = limited.parts()
        for some, nodes in parts:
            yield from self._read_from(index, some, nodes, used if nodes is buffer.nodes else nodes.shape[1])

    def _read_from(self, index: int, found: Array, nodes: Array, used: int) -> Iterator[Matches]:
        limits = self._plan.limits
        reader = self._automata.reader(index, self._block)
        reader.open(found, nodes, used)
        while True:
            status = reader.read(self.clock, self.window, limits.matches, limits.policy != "error")
            count = reader.count
            self._metrics.sequences += count
            if count:
                yield reader.matches()
            if status == match_buffer.READ:
                break
            if status == match_buffer.MATCH_LIMIT:
                self._refuse_matches(int(found[kernels.FOUND_PLACE, reader.entry - 1]))
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
