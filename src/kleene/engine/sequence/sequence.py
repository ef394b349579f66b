"""The SASE plan in execution: scan, construction, selection, window, negation, transformation, one block at a time.

Each pass builds its stacks from the working set (the events of the last window and the new ones); see
`kleene.engine.passes.reporting`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from kleene.common.arrays import NO_WINDOW, Array
from kleene.engine.allowance import Allowance
from kleene.engine.events.grouping import value_codes, without_nulls
from kleene.engine.events.placed import PlacedColumns
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.expressions.filter_constants import OVERFLOW
from kleene.engine.expressions.filters import ColumnSpec, Computed, FilterProgram, build_filter, no_filter
from kleene.engine.expressions.vectorized import Evaluator
from kleene.engine.matcher import Metrics
from kleene.engine.matches.matches import Matches
from kleene.engine.matches.negation import NegativeIndex
from kleene.engine.matches.output import EventHashes, MatchWriter
from kleene.engine.passes.filter_values import fill_columns, filter_column
from kleene.engine.passes.reporting import ReportingMatcher
from kleene.engine.passes.working_matcher import BLOCK, RUN_ROWS
from kleene.engine.passes.working_pass import Grouped, group_working, partition_text
from kleene.engine.sequence import kernels
from kleene.plan.sequence import SequencePlan


class SequenceMatcher(ReportingMatcher):
    """A matcher for one sequence plan; see `kleene.engine.matcher.Matcher`."""

    def __init__(
        self, plan: SequencePlan, events: pa.Schema, *, bad_rows: str = "error", run_rows: int = RUN_ROWS, block: int = BLOCK
    ) -> None:
        super().__init__(plan, bad_rows, run_rows, block)
        self._filter = sequence_filter(plan)
        self._writer = MatchWriter(plan, events)
        self.output_schema = self._writer.schema

    def _relevant(self, batch: pa.RecordBatch) -> tuple[Array, Array]:
        return self._scan(batch)

    def _make_pass(self) -> SequencePass:
        return SequencePass(self._plan, self._filter, self._working, self.metrics, self.allowance, self._block)

    def _found(self, run: SequencePass, index: int, emit_from: int) -> Iterator[Matches]:  # noqa: ARG002 - there is one branch
        return run.matches(emit_from)


def sequence_filter(plan: SequencePlan) -> FilterProgram | None:
    """The filter of a plan's predicates between events."""
    return build_filter(plan.bound, [event.variable for event in plan.scan.components], plan.construction.predicates)


class SequencePass:
    """One pass of sequence scan and construction over a working set."""

    together = True
    """Whether the matches of an event come one after the other."""

    def __init__(
        self,
        plan: SequencePlan,
        program: FilterProgram | None,
        working: WorkingSet,
        metrics: Metrics,
        allowance: Allowance,
        block: int,
        grouped: Grouped | None = None,
    ) -> None:
        """`grouped` are the rows by the partition of the plan, if that is known."""
        self._plan = plan
        self._program = program
        self._working = working
        self._variables = [event.variable for event in plan.scan.components]
        self._metrics = metrics
        self._allowance = allowance
        self._block = block
        self._rank = working.rank()
        self._codes, self._groups = grouped or group_working(working, plan.scan.partition)
        self._indexes = self._negative_indexes()
        self.events = PlacedColumns(working, self._groups)
        self.ts = self._groups.ts
        """Times by place."""
        self._placed_rank = self.ts if self._rank is working.ts else self._groups.places(self._rank)
        tied = bool((self._rank[1:] == self._rank[:-1]).any())
        self.hashes = EventHashes(self.events, self._placed_rank, plan.columns, tied=tied)
        alone = len(self._variables) == 1
        self.earliest = None if alone else int(working.ts[0])
        """The time of the earliest event that a later match may have; alone, an event is a match by itself."""

    def _negative_indexes(self) -> list[NegativeIndex]:
        negation = self._plan.negation
        if negation is None:
            return []
        first, order = len(self._variables), self._groups.order
        shared = (negation.method, negation.window, self._working, self._rank, self._codes, order)
        return [
            NegativeIndex(component, self._variables, self._working.rows_with(first + index), *shared)
            for index, component in enumerate(negation.components)
        ]

    def matches(self, emit_from: int) -> Iterator[Matches]:
        """Blocks of the matches that rows from `emit_from` on complete, before negation."""
        for sequences in self._sequences(emit_from):
            yield Matches.of_sequences(self._variables, self._selected(sequences))

    def negated(self, index: int, matches: Matches) -> Matches:  # noqa: ARG002 - there is one branch
        """The matches without a forbidden event."""
        for negative in self._indexes:
            if matches.count:
                matches = matches.select(~negative.dead(self._plan.bound, matches))
        return matches

    def may_exceed(self, most: int) -> bool:  # noqa: ARG002 - nothing is known
        """Whether an event could complete more than `most` matches."""
        return True

    def partition_text(self, place: int) -> str:
        """The partition of an event, for messages."""
        return partition_text(self._plan.bound, self._plan.scan.partition, self.events, place)

    def clear_ended(self) -> None:
        """All matches are reported, overlapping ones too."""

    def _selected(self, sequences: Array) -> Array:
        """The sequences that satisfy what construction left open."""
        if self._plan.selection is not None and sequences.shape[1]:
            places = dict(zip(self._variables, sequences, strict=True))
            evaluator = Evaluator(
                self._plan.bound,
                lambda variable, name: self.events.gather(name, places[variable]),
                sequences.shape[1],
                self._working.noticed,
            )
            held = np.ones(sequences.shape[1], bool)
            for predicate in self._plan.selection.predicates:
                held &= evaluator.holds(predicate)
            sequences = sequences[:, held]
        if self._plan.window is not None:
            within = self.ts[sequences[-1]] - self.ts[sequences[0]] < self._plan.window.window
            sequences = sequences[:, within]
        self._metrics.selected += sequences.shape[1]
        return sequences

    def _sequences(self, emit_from: int) -> Iterator[Array]:
        """Blocks of sequences completed by rows from `emit_from` on, as places per component and sequence."""
        length = len(self._variables)
        if length > 1:
            yield from self._construct(length, emit_from)
            return
        places = np.flatnonzero((self._groups.masks & 1) & (self._groups.order >= emit_from))
        for begin in range(0, places.size, self._block):
            block = places[begin : begin + self._block].reshape(1, -1)
            self._metrics.sequences += block.shape[1]
            yield block

    def _construct(self, length: int, emit_from: int) -> Iterator[Array]:
        working, plan = self._working, self._plan
        groups = self._groups
        longest = int(np.diff(groups.offsets).max(initial=0))
        tests = self._tests()
        checks = np.array(
            [
                (kernels.TESTED if plan.construction.tests else 0)
                | (kernels.FILTERED if plan.construction.predicates[level] else 0)
                for level in range(length)
            ],
            np.int64,
        )
        ints, floats, valid, constants = fill_columns(self._program, len(working), self._filter_column, groups.rows)
        block_filter = self._program.block_filter if self._program else no_filter()
        window = NO_WINDOW if plan.bound.window is None else plan.bound.window
        cell_rows = len(working) if plan.construction.algorithm == "runtime_stack" else 0
        self._allowance.hold(8 * length * cell_rows, "the cells of the runtime stack")
        stack, stack_rip = np.empty((length, longest), np.int64), np.empty((length, longest), np.int64)
        selected = np.empty((length, longest if checks.any() else 0), np.int64)
        size, head, low, current, stop, chosen = (np.zeros(length, np.int64) for _ in range(6))
        state = np.zeros(kernels.STATE_FIELDS, np.int64)
        state[kernels.PATIENCE] = self._allowance.patience
        out = np.empty((length, self._block), np.int32)
        common = (groups.order, groups.offsets, groups.ts, self._placed_rank, groups.masks, window)
        in_construction = plan.construction.window is not None
        columns = (block_filter, ints, floats, valid, constants, out)
        cells = np.empty((cell_rows, length), np.int64)
        while True:
            state[kernels.COUNT] = 0
            if plan.construction.algorithm == "runtime_stack":
                status = kernels.runtime_stack(
                    *common, in_construction, emit_from, checks, tests, cells, stack, stack_rip, low, selected, current,
                    stop, chosen, state, *columns,
                )  # fmt: skip
            else:
                status = kernels.active_instance_stacks(
                    *common, plan.scan.window is not None, in_construction, emit_from, checks, tests,
                    bool(plan.scan.transition_tests), stack, stack_rip, size, head, low, selected, current, stop, chosen,
                    state, *columns,
                )  # fmt: skip
            self._working.noticed.seen |= bool(constants[OVERFLOW])
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
        names = self._plan.construction.tests or self._plan.scan.transition_tests
        tests = np.empty((len(names), len(self._working)), np.int64)
        for index, name in enumerate(names):
            codes, _ = value_codes(without_nulls(self._working.column(name)))
            tests[index] = self._groups.places(codes)
        return tests

    def _filter_column(self, spec: ColumnSpec) -> Computed:
        return filter_column(spec, self._plan.bound, self._working, 1 << self._variables.index(spec.variable))
