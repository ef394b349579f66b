"""What matchers have in common that go over their working set in passes and decide negation and overlaps on finished matches.

Nothing but recent events outlives a pass: matches are found anew from the events that a match may still begin with, and only
those that the new events complete are reported. The work is at most doubled, memory is bounded by the window, and what is kept
means the same to every later version.

A match with a negated end belongs to the pass in which its window passes. Under NON-OVERLAP the events up to the end of a
reported match cannot be selected again: their marks are cleared.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kleene.common.arrays import Array
from kleene.common.columns import select
from kleene.engine.matches.candidates import as_candidates, candidate_schema
from kleene.engine.matches.matches import Matches
from kleene.engine.matches.non_overlap import choose
from kleene.engine.passes.magnitudes import may_overflow
from kleene.engine.passes.restored import require_names
from kleene.engine.passes.working_matcher import State, WorkingMatcher
from kleene.engine.passes.working_pass import in_partitions
from kleene.pattern.policies import Output, Strategy


@dataclass(frozen=True, slots=True)
class Due:
    """When the matches of a query are certain, and how long events are kept for them."""

    window: int | None
    postponed: bool
    """Whether matches wait for their window to pass: the end is negated."""
    negated_start: bool
    non_overlap: bool

    @staticmethod
    def of(plan: Any) -> Due:
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


class ReportingMatcher(WorkingMatcher):
    """The part of a matcher that reports what passes find."""

    _writer: Any
    """Writes matches as rows."""
    output_schema: pa.Schema

    def __init__(self, plan: Any, bad_rows: str, run_rows: int, block: int) -> None:
        super().__init__(plan, bad_rows, run_rows, block)
        self._plan: Any = plan
        self._due = Due.of(plan)
        self._reported: int | None = None
        """With a negated end: matches whose window passed by this time have been reported."""
        self._earliest: int | None = None
        """The time of the earliest event that a later match may have, as the last pass saw it."""
        self._candidates = False

    def give_candidates(self, events: pa.Schema) -> None:
        """Under NON-OVERLAP: leaves the choice to those who know the candidates of all tasks
        (`kleene.engine.matches.candidates`).
        """
        self._candidates = True
        self.output_schema = candidate_schema(self._writer.schema, events, self._plan.partition)

    def compute_only(self, names: Sequence[str]) -> None:
        """Gives matches these columns only."""
        if list(names) != self.output_schema.names:  # compressed ones always have all
            self._writer.narrow(names)
            self.output_schema = self._writer.schema

    def snapshot(self) -> State:
        """The marks of events, where NON-OVERLAP has cleared some."""
        return {"masks": pa.array(self._working.masks)} if self._due.non_overlap else {}

    def _windows(self) -> Iterable[tuple[int, bool]]:
        return () if self._due.window is None else ((self._due.window, self._due.postponed),)

    def _resume(self, watermark: int, state: State) -> None:
        require_names(state, ("masks",))  # which have been restored
        self._reported = watermark
        self._earliest = self._working.earliest

    @abstractmethod
    def _make_pass(self) -> Any:
        """A pass over the working set."""

    @abstractmethod
    def _found(self, run: Any, index: int, emit_from: int) -> Iterator[Matches]:
        """The matches of a branch that rows from `emit_from` on complete, before negation."""

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

    def _run(self, watermark: int | None) -> Iterator[pa.RecordBatch]:
        """Reports what the events up to the watermark (None: the end of time) make certain."""
        working = self._working
        if len(working) and (working.pending or self._due.postponed):
            self.allowance.begin_pass(len(working))
            run = self._make_pass()
            yield from self._report(run, watermark)
            self._audit(watermark)
            self._earliest = working.noticed.earliest(run.earliest)
        self._reported = watermark
        if watermark is not None:
            working.forget(self._due.horizon(watermark, self._earliest))

    def _audit(self, watermark: int | None) -> None:
        """Raises if a value that left 64 bits in this pass is an error of the answer."""
        working = self._working
        # Under NON-OVERLAP what overlaps an earlier match is not looked at.
        unseen = self._due.non_overlap and may_overflow(self._plan.bound, working)
        if self.audit is not None and (unseen or working.noticed.concerns(working.ts)):
            self.audit(self._plan, working, self._reported, watermark)
            working.noticed.seen = False

    def _report(self, run: Any, watermark: int | None) -> Iterator[pa.RecordBatch]:
        emit_from = 0 if self._due.postponed else self._working.kept
        waiting: list[Matches] = []
        for index in range(len(self._plan.branches)):
            for matches in self._found(run, index, emit_from):
                kept = run.negated(index, self._due.by(watermark, self._reported, matches, run.ts))
                if self._chosen_later(run):
                    self.allowance.hold(kept.nbytes, "matches among which NON-OVERLAP chooses")
                    waiting.append(kept.take(np.arange(kept.count)))
                elif kept.count:
                    yield self._written(run, kept)
        if waiting:
            for kept in choose(waiting, run.groups.offsets, run.ended, candidates=self._candidates):
                yield self._written(run, kept)
        run.clear_ended()

    def _chosen_later(self, run: Any) -> bool:  # noqa: ARG002 - a pass may choose while it runs
        """Whether NON-OVERLAP chooses among finished matches."""
        return self._due.non_overlap

    def _admit(self, run: Any, matches: Matches) -> None:
        """Counts matches that are reported; LimitError where they are more than the query may have."""
        self._require_few(run, matches)
        self.allowance.reported(matches.count)

    def _require_few(self, run: Any, matches: Matches) -> None:
        """That no event completes more matches than it may."""
        self.allowance.ended(matches.last, run)

    def _written(self, run: Any, matches: Matches) -> pa.RecordBatch:
        self._admit(run, matches)
        self.metrics.matches += matches.count
        rows: pa.RecordBatch = self._writer.write(run.events, run.hashes, matches)
        return as_candidates(rows, self.output_schema, run, matches, self._plan.partition) if self._candidates else rows
