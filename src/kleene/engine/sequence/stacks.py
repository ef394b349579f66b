"""The SASE plan in execution: construction, selection and window over active instance stacks, one block at a time.

Each pass builds its stacks from the working set (the events of the last window and the new ones); see
`kleene.engine.passes.reporting`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from kleene.common.arrays import NO_WINDOW, Array
from kleene.engine.allowance import Allowance
from kleene.engine.events.grouping import value_codes, without_nulls
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.expressions.filter_constants import OVERFLOW
from kleene.engine.expressions.filters import FilterProgram, build_filter, no_filter
from kleene.engine.expressions.vectorized import Evaluator
from kleene.engine.matcher import Metrics
from kleene.engine.matches.matches import Matches
from kleene.engine.passes.filter_values import fill_columns
from kleene.engine.passes.working_pass import NEGATIVE, Grouped, WorkingPass
from kleene.engine.sequence import kernels
from kleene.plan.lazy.lazy import Stacks
from kleene.plan.patterns import StackPlan


class StackEvaluation:
    """Finds matches by active instance stacks."""

    candidates = False
    ends_later = False
    chosen = ""

    def __init__(self, plan: StackPlan) -> None:
        self.plan = plan
        (branch,) = plan.branches
        assert branch.stacks is not None
        self._stacks = branch.stacks
        self._filter = build_filter(plan.bound, branch.variables, self._stacks.predicates)
        roles = [NEGATIVE if event.negated else "begin" for event, _ in plan.scanned]
        self._bits = {
            (event.variable, role): bit for bit, ((event, _), role) in enumerate(zip(plan.scanned, roles, strict=True))
        }

    def begin(
        self,
        working: WorkingSet,
        emit_from: int,  # noqa: ARG002 - stacks are made of all events
        metrics: Metrics,
        allowance: Allowance,
        block: int,
    ) -> SequencePass:
        """A pass of scan and construction."""
        return self.over(working, metrics, allowance, block)

    def over(
        self, working: WorkingSet, metrics: Metrics, allowance: Allowance, block: int, grouped: Grouped | None = None
    ) -> SequencePass:
        """The same; `grouped` are the rows by the partition of the plan, if that is known."""
        return SequencePass(self.plan, self._stacks, self._filter, self._bits, working, metrics, allowance, block, grouped)


class SequencePass(WorkingPass):
    """One pass of sequence scan and construction over a working set."""

    together = True

    def __init__(
        self,
        plan: StackPlan,
        stacks: Stacks,
        program: FilterProgram | None,
        bits: Mapping[tuple[str, str], int],
        working: WorkingSet,
        metrics: Metrics,
        allowance: Allowance,
        block: int,
        grouped: Grouped | None,
    ) -> None:
        super().__init__(plan, working, metrics, block, bits, grouped)
        self._plan: StackPlan = plan
        self._stacks = stacks
        self._program = program
        self._variables = plan.branches[0].variables
        self._allowance = allowance
        self.earliest = None if len(self._variables) == 1 else int(working.ts[0])  # alone, an event is a match by itself

    def matches(self, index: int, emit_from: int) -> Iterator[Matches]:  # noqa: ARG002 - there is one branch
        """Blocks of the matches that rows from `emit_from` on complete, before negation."""
        for sequences in self._sequences(emit_from):
            yield Matches.of_sequences(self._variables, self._selected(sequences))

    def _selected(self, sequences: Array) -> Array:
        """The sequences that satisfy what construction left open."""
        if self._stacks.selection and sequences.shape[1]:
            places = dict(zip(self._variables, sequences, strict=True))
            evaluator = Evaluator(
                self._plan.bound,
                lambda variable, name: self.events.gather(name, places[variable]),
                sequences.shape[1],
                self._working.noticed,
            )
            held = np.ones(sequences.shape[1], bool)
            for predicate in self._stacks.selection:
                held &= evaluator.holds(predicate)
            sequences = sequences[:, held]
        window = self._plan.bound.window
        if window is not None and not self._stacks.window_in_construction:
            within = self.ts[sequences[-1]] - self.ts[sequences[0]] < window
            sequences = sequences[:, within]
        self._metrics.selected += sequences.shape[1]
        return sequences

    def _sequences(self, emit_from: int) -> Iterator[Array]:
        """Blocks of sequences completed by rows from `emit_from` on, as places per component and sequence."""
        length = len(self._variables)
        if length > 1:
            yield from self._construct(length, emit_from)
            return
        places = np.flatnonzero((self.groups.masks & 1) & (self.groups.order >= emit_from))
        for begin in range(0, places.size, self._block):
            block = places[begin : begin + self._block].reshape(1, -1)
            self._metrics.sequences += block.shape[1]
            yield block

    def _construct(self, length: int, emit_from: int) -> Iterator[Array]:
        working, stacks = self._working, self._stacks
        groups = self.groups
        longest = int(np.diff(groups.offsets).max(initial=0))
        checks = np.array(
            [
                (kernels.TESTED if stacks.tests and not stacks.filters_transitions else 0)
                | (kernels.FILTERED if stacks.predicates[level] else 0)
                for level in range(length)
            ],
            np.int64,
        )
        columns = fill_columns(self._program, len(working), self._filter_column, groups.rows)
        block_filter = self._program.block_filter if self._program else no_filter()
        limit = self._plan.bound.window
        cell_rows = len(working) if stacks.algorithm == "runtime_stack" else 0
        self._allowance.hold(8 * length * cell_rows, "the cells of the runtime stack")
        cells = np.empty((cell_rows, length), np.int64)
        events = self.by_place._replace(tests=self._tests())
        given = kernels.Plan(
            window=NO_WINDOW if limit is None else limit,
            window_in_scan=stacks.window_in_scan and limit is not None,
            window_in_construction=stacks.window_in_construction and limit is not None,
            transition_tests=stacks.filters_transitions,
            emit_from=emit_from,
            checks=checks,
        )
        places, rip = np.empty((length, longest), np.int64), np.empty((length, longest), np.int64)
        size, head, low, current, stop, chosen = (np.zeros(length, np.int64) for _ in range(6))
        instances = kernels.Stacks(places, rip, size, head, low)
        search = kernels.Search(np.empty((length, longest if checks.any() else 0), np.int64), current, stop, chosen)
        state = kernels.new_state(self._allowance.patience)
        out = np.empty((length, self._block), np.int32)
        common = (instances, search, state, block_filter, columns, out)
        while True:
            state[kernels.COUNT] = 0
            if stacks.algorithm == "runtime_stack":
                status = kernels.runtime_stack(events, given, cells, *common)
            else:
                status = kernels.active_instance_stacks(events, given, *common)
            self._working.noticed.seen |= bool(columns.constants[OVERFLOW])
            self._count(state)
            if state[kernels.COUNT]:
                yield out[:, : state[kernels.COUNT]]
            if status == kernels.DONE:
                break

    def _count(self, state: Array) -> None:
        """Moves the work that a kernel counted to the metrics."""
        self._metrics.instances += int(state[kernels.PUSHES])
        self._metrics.visits += int(state[kernels.VISITS])
        self._metrics.sequences += int(state[kernels.SEQUENCES])
        self._allowance.made(int(state[kernels.PARTIALS] + state[kernels.SEQUENCES]))
        state[[kernels.PUSHES, kernels.VISITS, kernels.SEQUENCES, kernels.PARTIALS]] = 0

    def _tests(self) -> Array:
        names = self._stacks.tests
        tests = np.empty((len(names), len(self._working)), np.int64)
        for index, name in enumerate(names):
            codes, _ = value_codes(without_nulls(self._working.column(name)))
            tests[index] = self.groups.places(codes)
        return tests
