"""Lazy evaluation in execution: the order of binding is chosen for the events of each pass
(`kleene.engine.lazy.order_planner`).
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kleene.engine.expressions.filters import FilterProgram
from kleene.engine.lazy.lazy_pass import LazyPass, Programs
from kleene.engine.lazy.order_planner import Chooser
from kleene.engine.matches.matches import Matches
from kleene.engine.matches.output import MatchWriter
from kleene.engine.passes.reporting import ReportingMatcher
from kleene.engine.passes.working_matcher import BLOCK, RUN_ROWS
from kleene.engine.sequence.sequence import SequencePass, sequence_filter
from kleene.plan.lazy.lazy import LazyPlan
from kleene.plan.sequence import SequencePlan


class LazyMatcher(ReportingMatcher):
    """A matcher for one lazy plan; see `kleene.engine.matcher.Matcher`."""

    def __init__(
        self, plan: LazyPlan, events: pa.Schema, *, bad_rows: str = "error", run_rows: int = RUN_ROWS, block: int = BLOCK
    ) -> None:
        super().__init__(plan, bad_rows, run_rows, block)
        self._programs: Programs | None = None
        self._sequence: tuple[SequencePlan, FilterProgram | None] | None = None
        self.chooser = Chooser(plan)
        self._writer = MatchWriter(plan, events)
        self.output_schema = self._writer.schema

    def _make_pass(self) -> SequencePass | LazyPass:
        working = self._working
        run = self.chooser.look_at(working, 0 if self._due.postponed else working.kept, self._lazy_pass)
        if not self.chooser.takes_stacks:
            return run or self._lazy_pass()
        if self._sequence is None:
            plan = self._plan.sequence()
            self._sequence = (plan, sequence_filter(plan))
        shared = run is not None and self._sequence[0].scan.partition == self._plan.partition
        grouped = run.grouped if run and shared else None
        return SequencePass(*self._sequence, working, self.metrics, self.allowance, self._block, grouped)

    def _lazy_pass(self) -> LazyPass:
        if self._programs is None:
            self._programs = Programs(self._plan)
        return LazyPass(self._programs, self._working, self.metrics, self.allowance, self._block)

    @property
    def chosen(self) -> str:
        """How the last pass bound events, in words."""
        return self.chooser.text

    def _found(self, run: SequencePass | LazyPass, index: int, emit_from: int) -> Iterator[Matches]:
        if isinstance(run, SequencePass):
            return run.matches(emit_from)
        return run.matches(index, self.chooser.stretches(index))
