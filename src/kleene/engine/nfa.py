"""The SASE+ plan in execution: scan, runs of NFA^b per branch, matches read from the shared buffer, negation, output.

As with sequence plans nothing but recent events outlives a pass: runs are made anew from the events that a live run may have
started with, and only matches that the new events complete are reported. The work is at most doubled, memory is bounded by the
window (without one, by the oldest live run), and what is kept means the same to every later version.

Under NON-OVERLAP the events up to the end of a reported match cannot be selected again: their marks are cleared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.columns import select
from kleene.engine.automaton_pass import Automata, AutomatonPass, in_partitions
from kleene.engine.compressed import CompressedWriter
from kleene.engine.matches import Matches
from kleene.engine.non_overlap import choose
from kleene.engine.output import MatchWriter
from kleene.engine.working_matcher import BLOCK, RUN_ROWS, WorkingMatcher
from kleene.pattern.policies import Output, Strategy
from kleene.plan.nfa import NfaPlan

Array = np.ndarray[Any, Any]


class NfaMatcher(WorkingMatcher):
    """A matcher for one NFA plan; see `kleene.engine.matcher.Matcher`."""

    def __init__(
        self, plan: NfaPlan, events: pa.Schema, *, bad_rows: str = "error", run_rows: int = RUN_ROWS, block: int = BLOCK
    ) -> None:
        super().__init__(plan, bad_rows, run_rows, block)
        self._plan = plan
        self.automata = Automata(plan)
        self._writer: Any = (CompressedWriter if plan.output == "compressed" else MatchWriter)(plan, events)
        self._window = plan.bound.window
        negatives = [item for branch in plan.branches if branch.negation for item in branch.negation.components]
        self._postponed = any(item.before is None for item in negatives)
        self._negated_start = any(item.after is None for item in negatives)
        self._reported: int | None = None
        """With a negated end: matches whose window passed by this time have been reported."""
        self.output_schema = self._writer.schema

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
        earliest: int | None = None
        if len(working) and (working.pending or self._postponed):
            run = AutomatonPass(self.automata, working, self.metrics, self._block)
            yield from self._report(run, watermark)
            earliest = run.earliest
        self._reported = watermark
        if watermark is not None:
            working.forget(self._horizon(watermark, earliest))

    def _report(self, run: AutomatonPass, watermark: int | None) -> Iterator[pa.RecordBatch]:
        emit_from = 0 if self._postponed else self._working.kept
        query = self._plan.bound.query
        compressed = self._plan.output == "compressed"
        chosen_later = query.output is Output.NON_OVERLAP and not run.prunes
        waiting: list[Matches] = []
        for index, branch in enumerate(self._plan.branches):
            direct = compressed and branch.negation is None and not chosen_later and not self._postponed
            for found in run.detections(index, emit_from):
                if direct:
                    rows = run.write_compressed(self._writer, index, found)
                    self.metrics.matches += pc.sum(rows.column("match_count")).as_py() or 0
                    yield rows
                    continue
                for matches in run.read(index, found):
                    kept = run.negated(index, self._due(matches, run.ts, watermark))
                    if chosen_later:
                        waiting.append(kept)
                    elif kept.count:
                        yield self._written(run, kept, compressed)
        if chosen_later:
            for kept in choose(waiting, run.groups.offsets, run.ended):
                yield self._written(run, kept, compressed)
        run.clear_ended()

    def _written(self, run: AutomatonPass, matches: Matches, compressed: bool) -> pa.RecordBatch:
        self.metrics.matches += matches.count
        if compressed:
            return self._writer.write_matches(run.events, run.hashes, run.groups.offsets, matches)
        return self._writer.write(run.events, run.hashes, matches)

    def _horizon(self, watermark: int, earliest: int | None) -> int | None:
        """Events at or before this time can be forgotten; None if all may still matter."""
        # A match that waits for its window to pass may reach back a window before that, and its negated start too.
        windows = 2 if self._postponed and (self._negated_start or self._non_overlap) else 1
        by_window = None if self._window is None else watermark - windows * self._window
        if self._postponed or self._negated_start:
            return by_window
        by_runs = watermark - 1 if earliest is None else min(earliest, watermark) - 1
        return by_runs if by_window is None else max(by_window, by_runs)

    @property
    def _non_overlap(self) -> bool:
        return self._plan.bound.query.output is Output.NON_OVERLAP

    def _due(self, matches: Matches, ts: Array, watermark: int | None) -> Matches:
        """With a negated end, the matches whose window passed since the last pass.

        NON-OVERLAP chooses in order of the last event, so there all that end by then must be known.
        """
        if not self._postponed:
            return matches
        assert self._window is not None
        passes = ts.take(matches.last if self._non_overlap else matches.first) + self._window
        due = np.ones(passes.size, bool)
        if self._reported is not None:
            due &= passes > self._reported
        if watermark is not None:
            due &= passes <= watermark
        return matches.select(due)
