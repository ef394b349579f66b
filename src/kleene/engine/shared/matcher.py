"""A group of queries in execution, by one shared plan (multi-pattern paper, sections 3 to 5).

Events are taken in once for all queries. A pass over the working set makes what patterns have in common once, and reports for
each query exactly its own matches. Nothing but events outlives a pass, so a plan can be replaced by another between two passes:
nothing is lost or found twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.columns import select
from kleene.engine.allowance import Allowance
from kleene.engine.expressions.vectorized import of_types
from kleene.engine.matcher import BadRows, Found, Metrics, State
from kleene.engine.matches.output import MatchWriter
from kleene.engine.passes.reporting import Due
from kleene.engine.passes.restored import require_names
from kleene.engine.passes.working_matcher import BLOCK, RUN_ROWS, WorkingMatcher, is_compressible
from kleene.engine.passes.working_pass import in_partitions
from kleene.engine.shared.completion import Completion
from kleene.engine.shared.leaf_scan import LeafScan
from kleene.engine.shared.planner import REMEMBERED, Planner
from kleene.engine.shared.program import Comparisons, SharedProgram
from kleene.engine.shared.shared_pass import SharedPass
from kleene.plan.contract import Plan
from kleene.plan.multi.groups import PatternGroup
from kleene.plan.multi.nodes import SharedPlan


class SharedMatcher(WorkingMatcher):
    """Matches the queries of a group; see `kleene.engine.matcher.Matcher`."""

    _scan: LeafScan

    def __init__(
        self,
        group: PatternGroup,
        planner: Planner,
        events: pa.Schema,
        *,
        bad_rows: str = "error",
        run_rows: int = RUN_ROWS,
        block: int = BLOCK,
    ) -> None:
        super().__init__(group, "quarantine" if bad_rows == "drop" else bad_rows, run_rows, block, tuple(group.plans))
        self._group = group
        self._policy = bad_rows
        self._bad_counts = [0] * len(group.plans)
        self._bad_rows = [BadRows() for _ in group.plans]
        self._due = {name: Due.of(item) for name, item in group.plans.items()}
        self._postponed = any(due.postponed for due in self._due.values())
        self._writers = {name: MatchWriter(item, events) for name, item in group.plans.items()}
        self.output_schemas = tuple(writer.schema for writer in self._writers.values())
        self._places = {name: place for place, name in enumerate(group.plans)}
        self._allowances = {
            name: Allowance((name,), plan.limits, compressible=is_compressible(plan.bound))
            for name, plan in group.plans.items()
        }
        """Of each query; what all have in common is counted by that of the matcher."""
        self._found = [0] * len(group.plans)
        self._reported: int | None = None
        self._earliest: int | None = None
        self._planner = planner
        self._comparisons = Comparisons(group)
        self._programs: dict[int, SharedProgram] = {}
        """By the identity of their plans' nodes, which they keep; the last one was followed last."""
        self.plan: SharedPlan | None = None
        """What the last pass followed."""

    def _make_scan(self, plan: Plan, bad_rows: str) -> LeafScan:
        assert isinstance(plan, PatternGroup)
        return LeafScan(plan.tested, bad_rows, self.metrics, self.bad_rows, self.noticed)

    def advance(self, watermark: int) -> Iterator[Found]:
        """All events before the watermark have come: yields what is certain by now."""
        yield from super().advance(watermark)
        for allowance in self._allowances.values():
            allowance.begin_run()

    def finish(self) -> Iterator[Found]:
        """The stream has ended: yields what is left."""
        yield from super().finish()
        self._planner.stop()

    def _windows(self) -> Iterable[tuple[int, bool]]:
        return [(due.window, due.postponed) for due in self._due.values() if due.window is not None]

    def _resume(self, watermark: int, state: State) -> None:
        require_names(state, ())
        self._reported = watermark
        self._earliest = self._working.earliest

    def metrics_of(self, query: int) -> Metrics:
        """What was counted: of the query its bad rows and matches, of the group the rest."""
        return Metrics(
            events=self.metrics.events,
            relevant=self.metrics.relevant,
            bad=self._bad_counts[query],
            matches=self._found[query],
        )

    def bad_rows_of(self, query: int) -> BadRows:
        """The rows set aside that concern a query; `bad_rows` has only those on their way here."""
        return self._bad_rows[query]

    def _take_bad(self) -> None:
        """Hands bad rows to the queries that they concern: that name their type, if there is a good one."""
        schema = self._group.bound.schema
        for batch in self.bad_rows.batches:
            for query, plan in enumerate(self._group.plans.values()):
                own = batch
                if schema.type is not None:
                    kinds = batch.column(schema.type)
                    named = sorted({name for event, _ in plan.scanned for name in event.types})
                    concerned = pc.or_(pc.is_null(kinds), pc.fill_null(of_types(kinds, named), False))
                    if schema.types is not None:
                        known = pc.fill_null(of_types(kinds, sorted(schema.types)), False)
                        concerned = pc.or_(concerned, pc.invert(known))
                    own = batch.filter(concerned)
                self._bad_counts[query] += own.num_rows
                if self._policy == "quarantine" and own.num_rows:
                    self._bad_rows[query].batches.append(own)
        self.bad_rows.batches.clear()

    def _relevant(self, batch: pa.RecordBatch) -> tuple[Array, Array]:
        rows, codes = self._scan(batch)
        self._take_bad()
        if self._group.first.all_rows:
            inside = in_partitions(self._group.first.bound, lambda name: select(batch.column(name), rows), rows.size)
            rows, codes = rows[inside], codes[inside]
        return rows, codes

    def _run(self, watermark: int | None) -> Iterator[Found]:
        """Reports what the events before the watermark (None: all of them) make certain."""
        working = self._working
        if len(working) and (working.pending or self._postponed):
            for allowance in (self.allowance, *self._allowances.values()):
                allowance.begin_pass(len(working))
            run = self._make_pass()
            self._earliest = working.noticed.earliest(run.earliest_start())
            yield from self._report(run, watermark)
            self._audit(watermark)
        self._reported = watermark
        if watermark is not None:
            horizons = [
                due.horizon(watermark, self._earliest if name in self._group.lasting else None)
                for name, due in self._due.items()
            ]
            known = [item for item in horizons if item is not None]
            working.forget(min(known) if len(known) == len(horizons) else None)
            self._scan.forget(working.masks)

    def _audit(self, watermark: int | None) -> None:
        """Raises if a value that left 64 bits in this pass is an error of a query's answer."""
        working = self._working
        if self.audit is not None and working.noticed.concerns(working.ts):
            for plan in self._group.plans.values():
                self.audit(plan, working, self._reported, watermark)
            working.noticed.seen = False

    def _make_pass(self) -> SharedPass:
        """A pass that is ready to stream, by the plan of the planner unless that takes too much memory."""
        run = self._pass_of(self._planner.plan_for(self._scan, self._working))
        if not run.prepare():
            # Where every lookup is one of single events, partial matches are only streamed.
            run = self._pass_of(self._planner.streamed())
            ready = run.prepare()
            assert ready
        return run

    def _pass_of(self, plan: SharedPlan) -> SharedPass:
        self.plan = plan
        program = self._programs.pop(id(plan.nodes), None) or SharedProgram(self._group, plan, self._comparisons)
        self._programs[id(plan.nodes)] = program
        if len(self._programs) > REMEMBERED:
            del self._programs[next(iter(self._programs))]
        return SharedPass(program, self._scan, self._working, self.metrics, self.allowance, self._block)

    def _report(self, run: SharedPass, watermark: int | None) -> Iterator[Found]:
        completions: dict[Any, Completion] = {}
        for root, block in run.roots():
            name = root.clause.query
            due, query = self._due[name], self._places[name]
            key = (name, root.clause.branch)
            if key not in completions:
                completions[key] = Completion(run, root, postponed=due.postponed)
            for matches in completions[key].matches(block):
                kept = completions[key].negated(due.by(watermark, self._reported, matches, run.ts))
                if kept.count:
                    self._allowances[name].ended(kept.last, run)
                    self._allowances[name].reported(kept.count)
                    self._found[query] += kept.count
                    self.metrics.matches += kept.count
                    hashes = run.hashes_of(self._group.plans[name].columns)
                    yield query, self._writers[name].write(run.events, hashes, kept)
