"""The SASE+ plan in execution: scan, runs of NFA^b per branch, matches read from the shared buffer, negation, output.

Runs are made anew in each pass, from the events that a live run may have started with; see `kleene.engine.passes.reporting`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from kleene.engine.automaton.automaton_pass import Automata, AutomatonPass
from kleene.engine.automaton.compressed import CompressedWriter
from kleene.engine.matches.matches import Matches
from kleene.engine.matches.output import MatchWriter
from kleene.engine.passes.reporting import ReportingMatcher
from kleene.engine.passes.working_matcher import BLOCK, RUN_ROWS
from kleene.plan.automaton.nfa import NfaPlan


class NfaMatcher(ReportingMatcher):
    """A matcher for one NFA plan; see `kleene.engine.matcher.Matcher`."""

    def __init__(
        self, plan: NfaPlan, events: pa.Schema, *, bad_rows: str = "error", run_rows: int = RUN_ROWS, block: int = BLOCK
    ) -> None:
        super().__init__(plan, bad_rows, run_rows, block)
        self.automata = Automata(plan)
        self._compressed = plan.output == "compressed"
        self._writer = (CompressedWriter if self._compressed else MatchWriter)(plan, events)
        self.output_schema = self._writer.schema

    def _make_pass(self) -> AutomatonPass:
        run = AutomatonPass(self.automata, self._working, self.metrics, self.allowance, self._block)
        run.candidates = self._candidates
        return run

    def _found(self, run: AutomatonPass, index: int, emit_from: int) -> Iterator[Matches]:
        return run.matches(index, emit_from)

    def _report(self, run: AutomatonPass, watermark: int | None) -> Iterator[pa.RecordBatch]:
        negated = any(branch.negation is not None for branch in self._plan.branches)
        if not self._compressed or negated or self._chosen_later(run):
            yield from super()._report(run, watermark)
            return
        for index in range(len(self._plan.branches)):
            for found in run.detections(index, self._working.kept):
                rows = run.write_compressed(self._writer, index, found)
                self.metrics.matches += pc.sum(rows.column("match_count")).as_py() or 0
                yield rows
        run.clear_ended()

    def _chosen_later(self, run: AutomatonPass) -> bool:
        return self._due.non_overlap and not run.prunes

    def _require_few(self, run: AutomatonPass, matches: Matches) -> None:
        if self._plan.options.algorithm == "backtrack" and self._plan.limits.policy == "error":
            super()._require_few(run, matches)  # otherwise those of an event come together, and are counted while they are read

    def _written(self, run: AutomatonPass, matches: Matches) -> pa.RecordBatch:
        if not self._compressed:
            return super()._written(run, matches)
        self.metrics.matches += matches.count
        rows: pa.RecordBatch = self._writer.write_matches(run.events, run.hashes, run.groups.offsets, matches)
        return rows
