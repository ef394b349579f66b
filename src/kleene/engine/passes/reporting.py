"""What matchers have in common that go over their working set in passes and decide negation and overlaps on finished matches.

Nothing but recent events outlives a pass: matches are found again from the events that a match may still begin with, and only
those that the new events complete are reported. The work is at most doubled, memory is bounded by the window, and what is kept
means the same to every later version.

A match with a negated end belongs to the pass in which its window passes. Under NON-OVERLAP the events up to the end of a
reported match cannot be selected again: their marks are cleared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from kleene.common.arrays import Array
from kleene.common.columns import select
from kleene.engine.allowance import Allowance
from kleene.engine.events.grouping import Groups
from kleene.engine.events.magnitudes import may_overflow
from kleene.engine.events.placed import PlacedColumns
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.matcher import Found, Metrics, State
from kleene.engine.matches.candidates import as_candidates, candidate_schema
from kleene.engine.matches.matches import Matches
from kleene.engine.matches.non_overlap import choose
from kleene.engine.matches.output import EventHashes, MatchWriter
from kleene.engine.passes.restored import require_names
from kleene.engine.passes.working_matcher import BLOCK, RUN_ROWS, WorkingMatcher
from kleene.engine.passes.working_pass import in_partitions
from kleene.pattern.policies import Output, Strategy
from kleene.plan.contract import Plan
from kleene.plan.patterns import MatchPlan


@dataclass(frozen=True, slots=True)
class Due:
    """When the matches of a query are certain, and how long events are kept for them."""

    window: int | None
    postponed: bool
    """Whether matches wait for their window to pass: the end is negated."""
    negated_start: bool
    non_overlap: bool

    @staticmethod
    def of(plan: MatchPlan) -> Due:
        negatives = [item for branch in plan.branches if branch.negation for item in branch.negation.components]
        return Due(
            plan.bound.window,
            any(not item.before for item in negatives),
            any(not item.after for item in negatives),
            plan.bound.query.output is Output.NON_OVERLAP,
        )

    def horizon(self, watermark: int, earliest: int | None) -> int | None:
        """Events at or before this time can be forgotten; None if all may still matter."""
        # A match that waits for its window to pass may reach back a window before that, and its negated start too.
        windows = 2 if self.postponed and (self.negated_start or self.non_overlap) else 1
        by_window = None if self.window is None else watermark - windows * self.window
        if self.postponed or self.negated_start:
            return by_window
        by_start = watermark - 1 if earliest is None else min(earliest, watermark) - 1
        return by_start if by_window is None else max(by_window, by_start)

    def by(self, watermark: int | None, reported: int | None, matches: Matches, ts: Array) -> Matches:
        """With a negated end, the matches whose window passed by the watermark and not by what has been reported.

        NON-OVERLAP chooses in order of the last event, so there all that end by then must be known.
        """
        if not self.postponed:
            return matches
        assert self.window is not None
        passes = ts.take(matches.last if self.non_overlap else matches.first) + self.window
        due = np.ones(passes.size, bool)
        if reported is not None:
            due &= passes > reported
        if watermark is not None:
            due &= passes <= watermark
        return matches.select(due)


class Pass(Protocol):
    """One pass over a working set: the matches that end in it."""

    events: PlacedColumns
    groups: Groups
    hashes: EventHashes
    ts: Array
    """Times by place."""
    ended: Array
    """Per partition the place where its last reported match ends, under NON-OVERLAP."""
    earliest: int | None
    """The time of the earliest event that a later match may have."""
    prunes: bool
    """Whether NON-OVERLAP is decided while matches are found."""
    counts_ends: bool
    """Whether the limit on the matches of an event is kept while they are found."""
    together: bool
    """Whether the matches of an event come one after the other."""

    def matches(self, index: int, emit_from: int) -> Iterator[Matches]:
        """The matches of an alternative that rows from `emit_from` on complete, in blocks, before negation."""
        ...

    def negated(self, index: int, matches: Matches) -> Matches:
        """The matches without a forbidden event."""
        ...

    def clear_ended(self) -> None:
        """Under NON-OVERLAP, events up to the end of a reported match cannot be selected again."""
        ...

    def may_exceed(self, most: int) -> bool:
        """Whether an event could complete more than `most` matches."""
        ...

    def partition_text(self, place: int) -> str:
        """The partition of an event, for messages."""
        ...


class Evaluation(Protocol):
    """How the matches of a plan are found: by stacks, in an order of binding, by an automaton."""

    candidates: bool
    """Whether matches are wanted that overlap, for others to choose among (`kleene.engine.matches.candidates`)."""
    ends_later: bool
    """Whether a later event may end a match: then NON-OVERLAP is not decided while matches are found."""

    @property
    def plan(self) -> MatchPlan:
        """The plan that is evaluated."""
        ...

    @property
    def chosen(self) -> str:
        """How the last pass bound events, in words; empty if there is no choice."""
        ...

    def begin(self, working: WorkingSet, emit_from: int, metrics: Metrics, allowance: Allowance, block: int) -> Pass:
        """A pass that is to find what rows from `emit_from` on complete."""
        ...


class ReportingMatcher(WorkingMatcher):
    """The part of a matcher that goes over its working set in passes of an evaluation."""

    def __init__(self, plan: Plan, evaluation: Evaluation, bad_rows: str, run_rows: int, block: int) -> None:
        """`plan` says what of the events is kept; the evaluation has its own, which may be another."""
        super().__init__(plan, bad_rows, run_rows, block)
        self.evaluation = evaluation
        self._plan = evaluation.plan
        self._due = Due.of(self._plan)
        self._reported: int | None = None
        """With a negated end: matches whose window passed by this time have been reported."""
        self._earliest: int | None = None
        """The time of the earliest event that a later match may have, as the last pass saw it."""

    @property
    def chosen(self) -> str:
        return self.evaluation.chosen

    def snapshot(self) -> State:
        """The marks of events, where NON-OVERLAP has cleared some."""
        return {"masks": pa.array(self._working.masks)} if self._due.non_overlap else {}

    def _windows(self) -> Iterable[tuple[int, bool]]:
        return () if self._due.window is None else ((self._due.window, self._due.postponed),)

    def _resume(self, watermark: int, state: State) -> None:
        require_names(state, ("masks",))  # which have been restored
        self._reported = watermark
        self._earliest = self._working.earliest

    def _begin(self) -> Pass:
        emit_from = 0 if self._due.postponed else self._working.kept
        return self.evaluation.begin(self._working, emit_from, self.metrics, self.allowance, self._block)

    def _relevant(self, batch: pa.RecordBatch) -> tuple[Array, Array]:
        rows, masks = self._scan(batch)
        if self._plan.all_rows:
            inside = self._inside(batch, rows)
            if not inside.all():
                rows, masks = rows[inside], masks[inside]
        return rows, masks

    def _inside(self, batch: pa.RecordBatch, rows: Array) -> Array:
        """Which rows belong to some partition: not those with a NULL key, or with another value than `[attr = v]` wants.

        Under strict contiguity every event of the stream counts.
        """
        bound = self._plan.bound
        if bound.query.strategy is Strategy.STRICT_CONTIGUITY:
            return np.ones(rows.size, bool)
        return in_partitions(bound, lambda name: select(batch.column(name), rows), rows.size)

    def _audit(self, watermark: int | None) -> None:
        """Raises if a value that left 64 bits in this pass is an error of the answer."""
        working = self._working
        # Under NON-OVERLAP what overlaps an earlier match is not looked at.
        unseen = self._due.non_overlap and may_overflow(self._plan.bound, working)
        if self.audit is not None and (unseen or working.noticed.concerns(working.ts)):
            self.audit(self._plan, working, self._reported, watermark)
            working.noticed.seen = False

    def _chosen_later(self, run: Pass) -> bool:
        """Whether NON-OVERLAP chooses among finished matches."""
        return self._due.non_overlap and not run.prunes

    def _require_few(self, run: Pass, matches: Matches) -> None:
        """That no event completes more matches than it may."""
        if not run.counts_ends:
            self.allowance.ended(matches.last, run)


class PatternMatcher(ReportingMatcher):
    """A matcher for one plan that finds matches; see `kleene.engine.matcher.Matcher`."""

    def __init__(
        self,
        evaluation: Evaluation,
        events: pa.Schema,
        *,
        bad_rows: str = "error",
        run_rows: int = RUN_ROWS,
        block: int = BLOCK,
    ) -> None:
        super().__init__(evaluation.plan, evaluation, bad_rows, run_rows, block)
        self._writer = self._make_writer(events)
        self.output_schemas = (self._writer.schema,)

    def _make_writer(self, events: pa.Schema) -> Any:
        """Writes matches as rows."""
        return MatchWriter(self._plan, events)

    def give_candidates(self, events: pa.Schema) -> None:
        """Under NON-OVERLAP: leaves the choice to those who know the candidates of all tasks
        (`kleene.engine.matches.candidates`).
        """
        self.evaluation.candidates = True
        self.output_schemas = (candidate_schema(self._writer.schema, events, self._plan.partition),)

    def compute_only(self, names: Sequence[str]) -> None:
        """Gives matches these columns only."""
        if list(names) != self._writer.schema.names:  # compressed ones always have all
            self._writer.narrow(names)
            self.output_schemas = (self._writer.schema,)

    def _run(self, watermark: int | None) -> Iterator[Found]:
        """Reports what the events before the watermark (None: all of them) make certain."""
        working = self._working
        if len(working) and (working.pending or self._due.postponed):
            self.allowance.begin_pass(len(working))
            run = self._begin()
            yield from self._report(run, watermark)
            self._audit(watermark)
            self._earliest = working.noticed.earliest(run.earliest)
        self._reported = watermark
        if watermark is not None:
            working.forget(self._due.horizon(watermark, self._earliest))

    def _report(self, run: Pass, watermark: int | None) -> Iterator[Found]:
        emit_from = 0 if self._due.postponed else self._working.kept
        waiting: list[Matches] = []
        for index in range(len(self._plan.branches)):
            for matches in run.matches(index, emit_from):
                kept = run.negated(index, self._due.by(watermark, self._reported, matches, run.ts))
                if self._chosen_later(run):
                    self.allowance.hold(kept.nbytes, "matches among which NON-OVERLAP chooses")
                    waiting.append(kept.take(np.arange(kept.count)))
                elif kept.count:
                    yield 0, self._written(run, kept)
        if waiting:
            for kept in choose(waiting, run.groups.offsets, run.ended, candidates=self.evaluation.candidates):
                yield 0, self._written(run, kept)
        run.clear_ended()

    def _written(self, run: Pass, matches: Matches) -> pa.RecordBatch:
        """The rows of matches that are reported; LimitError where they are more than the query may have."""
        self._require_few(run, matches)
        self.allowance.reported(matches.count)
        self.metrics.matches += matches.count
        rows: pa.RecordBatch = self._writer.write(run.events, run.hashes, matches)
        if not self.evaluation.candidates:
            return rows
        return as_candidates(rows, self.output_schemas[0], run, matches, self._plan.partition)
