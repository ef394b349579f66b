"""The SASE plan in execution: scan, construction, selection, window, negation, transformation, one block at a time.

Nothing but recent events outlives a run: each run builds its stacks from the working set (the events of the last window and the
new ones) and reports the matches that the new events complete. A run waits until as many new events have come as are kept, so
the work of rebuilding is at most doubled, and memory is bounded by the window. A match with a negated end belongs to the run in
which its window passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from kleene.engine.filter_values import filter_column
from kleene.engine.filters import ColumnSpec, FilterProgram, build_filter, check_overflow, fill_columns, no_filter
from kleene.engine.grouping import combined_codes, group_rows, value_codes, without_nulls
from kleene.engine.kernels import sequence as kernels
from kleene.engine.matcher import Metrics
from kleene.engine.matches import Matches
from kleene.engine.negation import NegativeIndex
from kleene.engine.output import EventHashes, MatchWriter
from kleene.engine.placed import PlacedColumns
from kleene.engine.vectorized import Evaluator
from kleene.engine.working_matcher import BLOCK, RUN_ROWS, WorkingMatcher
from kleene.engine.working_set import WorkingSet
from kleene.plan.sequence import SequencePlan

Array = np.ndarray[Any, Any]

NO_WINDOW = np.iinfo(np.int64).max


class SequenceMatcher(WorkingMatcher):
    """A matcher for one sequence plan; see `kleene.engine.matcher.Matcher`."""

    def __init__(
        self, plan: SequencePlan, events: pa.Schema, *, bad_rows: str = "error", run_rows: int = RUN_ROWS, block: int = BLOCK
    ) -> None:
        super().__init__(plan, bad_rows, run_rows, block)
        self._plan = plan
        self._variables = [event.variable for event in plan.scan.components]
        self._negatives = plan.negation.components if plan.negation else ()
        self._filter: FilterProgram | None = build_filter(plan.bound, self._variables, plan.construction.predicates)
        self._writer = MatchWriter(plan, events)
        self._window = plan.bound.window
        self._postponed = plan.negation is not None and plan.negation.postponed
        # A match that waits for its window to pass may still ask for events of the window before its first.
        self._memory = 2 if self._postponed and any(item.after is None for item in self._negatives) else 1
        self._reported: int | None = None
        """With a negated end: matches whose window passed by this time have been reported."""
        self.output_schema = self._writer.schema

    def _run(self, watermark: int | None) -> Iterator[pa.RecordBatch]:
        """Reports what the events up to the watermark (None: the end of time) make certain."""
        working = self._working
        if len(working) and (working.pending or self._postponed):
            run = _Run(self._plan, self._filter, working, self._variables, self.metrics, self._block)
            for sequences in run.sequences(0 if self._postponed else working.kept):
                kept = self._due(sequences, run.ts, watermark)
                kept = run.negated(self._select(run, kept))
                self.metrics.matches += kept.shape[1]
                if kept.shape[1]:
                    yield self._writer.write(run.events, run.hashes, Matches.of_sequences(self._variables, kept))
        self._reported = watermark
        if watermark is not None:
            working.forget(self._horizon(watermark))

    def _horizon(self, watermark: int) -> int | None:
        """Events at or before this time can be forgotten; None if all may still matter."""
        if len(self._variables) == 1 and not self._negatives:
            return watermark - 1  # each event is a match by itself; simultaneous ones are still to be told apart
        return None if self._window is None else watermark - self._memory * self._window

    def _select(self, run: _Run, sequences: Array) -> Array:
        if self._plan.selection is not None and sequences.shape[1]:
            evaluator = run.evaluator(sequences)
            held = np.ones(sequences.shape[1], bool)
            for predicate in self._plan.selection.predicates:
                held &= evaluator.holds(predicate)
            sequences = sequences[:, held]
        if self._plan.window is not None:
            within = run.ts[sequences[-1]] - run.ts[sequences[0]] < self._plan.window.window
            sequences = sequences[:, within]
        self.metrics.selected += sequences.shape[1]
        return sequences

    def _due(self, sequences: Array, ts: Array, watermark: int | None) -> Array:
        """With a negated end, the sequences whose window passed since the last run."""
        if not self._postponed:
            return sequences
        assert self._window is not None
        passes = ts[sequences[0]] + self._window
        due = np.ones(passes.size, bool)
        if self._reported is not None:
            due &= passes > self._reported
        if watermark is not None:
            due &= passes <= watermark
        return sequences[:, due]


class _Run:
    """One pass of sequence scan and construction over a working set."""

    def __init__(
        self,
        plan: SequencePlan,
        program: FilterProgram | None,
        working: WorkingSet,
        variables: list[str],
        metrics: Metrics,
        block: int,
    ) -> None:
        self._plan = plan
        self._program = program
        self._working = working
        self._variables = variables
        self._metrics = metrics
        self._block = block
        self._rank = working.rank()
        self._codes, count = self._partition_codes()
        self._groups = group_rows(self._codes, count, working.ts, working.masks)
        self._indexes = self._negative_indexes()
        self.events = PlacedColumns(working, self._groups)
        self.ts = self._groups.ts
        """Times by place."""
        self._placed_rank = self.ts if self._rank is working.ts else self._groups.places(self._rank)
        tied = bool((self._rank[1:] == self._rank[:-1]).any())
        self.hashes = EventHashes(self.events, self._placed_rank, plan.columns, tied=tied)

    def _partition_codes(self) -> tuple[Array | None, int]:
        """The partition of each row as a code, and how many codes there are; None without partitioning."""
        if not self._plan.scan.partition:
            return None, 1
        return combined_codes([without_nulls(self._working.column(name)) for name in self._plan.scan.partition])

    def _negative_indexes(self) -> list[NegativeIndex]:
        negation = self._plan.negation
        if negation is None:
            return []
        first, order = len(self._variables), self._groups.order
        shared = (negation.method, negation.window, self._working, self._rank, self._codes, order)
        return [
            NegativeIndex(component, self._variables, first + index, *shared)
            for index, component in enumerate(negation.components)
        ]

    def evaluator(self, sequences: Array) -> Evaluator:
        """Evaluates expressions over the events of sequences."""
        places = dict(zip(self._variables, sequences, strict=True))
        return Evaluator(
            self._plan.bound, lambda variable, name: self.events.gather(name, places[variable]), sequences.shape[1]
        )

    def negated(self, sequences: Array) -> Array:
        """The sequences without a forbidden event."""
        for index in self._indexes:
            if sequences.shape[1]:
                dead = index.dead(self._plan.bound, Matches.of_sequences(self._variables, sequences))
                sequences = sequences[:, ~dead]
        return sequences

    def sequences(self, emit_from: int) -> Iterator[Array]:
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
        stack, stack_rip = np.empty((length, longest), np.int64), np.empty((length, longest), np.int64)
        selected = np.empty((length, longest if checks.any() else 0), np.int64)
        size, head, low, current, stop, chosen = (np.zeros(length, np.int64) for _ in range(6))
        state = np.zeros(8, np.int64)
        out = np.empty((length, self._block), np.int32)
        common = (groups.order, groups.offsets, groups.ts, self._placed_rank, groups.masks, window)
        in_construction = plan.construction.window is not None
        columns = (block_filter, ints, floats, valid, constants, out)
        cells = np.empty((len(working), length) if plan.construction.algorithm == "runtime_stack" else (0, 0), np.int64)
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
            check_overflow(constants)
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
        state[[kernels.PUSHES, kernels.VISITS, kernels.SEQUENCES]] = 0

    def _tests(self) -> Array:
        names = self._plan.construction.tests or self._plan.scan.transition_tests
        tests = np.empty((len(names), len(self._working)), np.int64)
        for index, name in enumerate(names):
            codes, _ = value_codes(without_nulls(self._working.column(name)))
            tests[index] = self._groups.places(codes)
        return tests

    def _filter_column(self, spec: ColumnSpec) -> pa.Array:
        return filter_column(spec, self._plan.bound, self._working, 1 << self._variables.index(spec.variable))
