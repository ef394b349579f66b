"""The SASE+ plan in execution: runs of NFA^b per branch, matches read from the shared buffer, or the buffer itself as rows.

Runs are rebuilt in each pass, from the events that a live run may have started with; see `kleene.engine.passes.reporting`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from kleene.engine.allowance import Allowance
from kleene.engine.automaton.automaton_pass import Automata, AutomatonPass
from kleene.engine.automaton.compressed import CompressedWriter
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.matcher import Found, Metrics
from kleene.engine.matches.matches import Matches
from kleene.engine.passes.reporting import Pass, PatternMatcher
from kleene.plan.patterns import NfaPlan, runs_automata


class AutomatonEvaluation:
    """Finds matches by automata."""

    candidates = False
    ends_later = False
    chosen = ""

    def __init__(self, plan: NfaPlan, *, audits: bool = False) -> None:
        """With `audits` a run that comes to an edge which fails is an error."""
        self.plan = plan
        self.automata = Automata(plan, audits=audits)

    def begin(
        self,
        working: WorkingSet,
        emit_from: int,  # noqa: ARG002 - runs are made of all events
        metrics: Metrics,
        allowance: Allowance,
        block: int,
    ) -> AutomatonPass:
        """A pass of the automata."""
        run = AutomatonPass(self.automata, working, metrics, allowance, block)
        run.candidates = self.candidates
        run.prunes &= not self.ends_later  # a match that dies gives way to those it overlaps
        return run


class CompressedMatcher(PatternMatcher):
    """A matcher whose rows have many matches each."""

    def _make_writer(self, events: pa.Schema) -> CompressedWriter:
        assert runs_automata(self._plan)
        return CompressedWriter(self._plan, events)

    def _report(self, run: Pass, watermark: int | None) -> Iterator[Found]:
        if any(branch.negation is not None for branch in self._plan.branches) or self._chosen_later(run):
            yield from super()._report(run, watermark)
            return
        assert isinstance(run, AutomatonPass)
        for index in range(len(self._plan.branches)):
            for found in run.detections(index, self._working.kept):
                rows = run.write_compressed(self._writer, index, found)
                self.metrics.matches += pc.sum(rows.column("match_count")).as_py() or 0
                yield 0, rows
        run.clear_ended()

    def _written(self, run: Pass, matches: Matches) -> pa.RecordBatch:
        self.metrics.matches += matches.count
        rows: pa.RecordBatch = self._writer.write_matches(run.events, run.hashes, run.groups.offsets, matches)
        return rows
