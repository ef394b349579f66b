"""AGG by matching, in execution: the passes of the inner plan find matches, each once, and `LivePass` says what is alive when.

Events are taken in by whole instants: those of the latest one wait until a later one, or the end, has come. So every pass knows
all that its triggers may count, and the rows do not depend on how the stream is cut into batches.

Between passes are kept: the events that the inner plan keeps, and what is still alive. Matches of a group with the same first
event are added up (`Cells`): there are no more of them than events. Without a window that is one sum per group. Where negation
looks ahead, matches die one by one, and are kept themselves, as rows of the working set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from kleene.common.arrays import Array
from kleene.common.columns import select, time_values
from kleene.engine.aggregation.expiring import Lives, in_epochs, joined
from kleene.engine.aggregation.live_pass import NEVER, TRIGGERS, Cells, LivePass, Spans
from kleene.engine.aggregation.values import Measures
from kleene.engine.allowance import Allowance
from kleene.engine.events.grouping import combined_codes, without_nulls
from kleene.engine.events.scan import Scan
from kleene.engine.matcher import BadRows, Found, Metrics, State
from kleene.engine.matches.aggregate_output import AggregateWriter
from kleene.engine.matches.matches import Matches
from kleene.engine.matches.negation import NegativeIndex
from kleene.engine.matches.non_overlap import choose
from kleene.engine.passes.reporting import Evaluation, Pass, ReportingMatcher
from kleene.engine.passes.working_matcher import BLOCK, RUN_ROWS
from kleene.pattern.conditions import condition_of
from kleene.plan.aggregation import MatchThenAggregate
from kleene.plan.operators import fixed_values, kleene_variables

MANY = 1 << 20
"""Number of spans that are worth adding up before the end of a pass."""


class MatchAggregator(ReportingMatcher):
    """A matcher for one matched plan, over the evaluation of its inner plan; see `kleene.engine.matcher.Matcher`."""

    def __init__(
        self,
        plan: MatchThenAggregate,
        evaluation: Evaluation,
        events: pa.Schema,
        *,
        bad_rows: str = "error",
        run_rows: int = RUN_ROWS,
        block: int = BLOCK,
    ) -> None:
        super().__init__(plan, evaluation, bad_rows, run_rows, block)
        evaluation.ends_later = plan.looks_ahead
        bound = plan.bound
        self._live = plan
        self._events = events
        self._aggregates = AggregateWriter(bound, events)
        self.output_schemas = (self._aggregates.schema,)
        self._measures = Measures(bound, events)
        self._windowed = bound.window is not None or bound.count_window is not None
        self._waiting: list[tuple[pa.RecordBatch, Array]] = []
        """The relevant events of the latest instant, with their masks."""
        self._latest = 0
        """That instant."""
        self._cells: Cells | None = None
        self._lives = [Lives.none() for _ in plan.ahead]
        """Where negation looks ahead: per branch the matches that are alive; under NON-OVERLAP those that may be chosen."""

    # Events

    def feed(self, batch: pa.RecordBatch) -> Iterator[Found]:
        """Takes the next events in stream order; yields rows that are certain by now."""
        self.noticed.fresh = False
        rows, masks = self._relevant(batch)
        if self.noticed.fresh:
            self._require_decided(batch)
        if not rows.size:
            return
        self._take_in(batch, rows, masks)
        working = self._working
        if working.pending and working.pending >= max(self._run_rows, working.kept):
            yield from self._run(working.latest)
        elif working.pending:
            working.compact()

    def _require_decided(self, batch: pa.RecordBatch) -> None:
        """What single events decide says which of them take part: there an error is that of the event."""
        bound = self._live.bound
        kleene = kleene_variables(bound)
        conditions = [condition_of(conjunct, kleene) for conjunct in bound.conjuncts]
        tests = []
        for event in bound.components:
            own = [item for item in conditions if item.variables <= {event.variable}]
            if event.is_kleene:
                own = [item for item in own if item.reads_only(event.variable, "each")]
            tests.append((event, [*(item.expression for item in own), *fixed_values(bound, (event,))]))
        events, predicates = [event for event, _ in tests], [own for _, own in tests]
        Scan(bound, events, predicates, (), "drop", Metrics(), BadRows())(batch)

    def finish(self) -> Iterator[Found]:
        """The stream has ended: yields what is left."""
        self._let_in()
        yield from self._run(None)

    def _take_in(self, batch: pa.RecordBatch, rows: Array, masks: Array) -> None:
        """Adds all but the latest instant to the working set."""
        schema = self._live.bound.schema
        ts = time_values(select(batch.column(schema.time), rows), schema.time_unit)
        if ts[-1] != self._latest or ts[0] < self._latest:
            self._let_in()
        earlier = np.flatnonzero(ts != ts[-1])
        cut = int(earlier[-1]) + 1 if earlier.size else 0
        if cut:
            self._working.add(batch, rows[:cut], masks[:cut])
        names = list(self._live.columns)
        self._waiting.append(
            (pa.RecordBatch.from_arrays([select(batch.column(n), rows[cut:]) for n in names], names), masks[cut:])
        )
        self._latest = int(ts[-1])

    def _let_in(self) -> None:
        for batch, masks in self._waiting:
            self._working.add(batch, np.arange(masks.size, dtype=np.int64), masks)
        self._waiting.clear()

    def advance(self, watermark: int) -> Iterator[Found]:
        """All events before the watermark have come: yields what is certain by now."""
        self._let_in()
        yield from self._run(watermark - 1)

    def snapshot(self) -> State:
        """The marks of events where NON-OVERLAP has cleared some, and what is alive."""
        cells = {} if self._cells is None else self._cells.columns()
        lives = [(f"branch {index} ", item.columns()) for index, item in enumerate(self._lives)]
        return {**super().snapshot(), **cells, **{prefix + name: own for prefix, item in lives for name, own in item.items()}}

    def _windows(self) -> Iterable[tuple[int, bool]]:
        window = self._live.bound.window
        return () if window is None else ((window, self._live.bound.query.emit_on_change),)

    def _resume(self, watermark: int, state: State) -> None:
        rows = len(self._working)
        prefixes = [f"branch {index} " for index in range(len(self._lives))]
        split = [{name.removeprefix(p): own for name, own in state.items() if name.startswith(p)} for p in prefixes]
        own = {name: column for name, column in state.items() if not name.startswith(tuple(prefixes))}
        super()._resume(watermark - 1, {name: own.pop(name) for name in ("masks",) if name in own})
        self._cells = Cells.of(own, self._measures, rows if self._windowed else 1, self._events)
        variables = [[event.variable for event in branch.positives] for branch in self._live.bound.branches]
        self._lives = [Lives.of(columns, names, rows) for columns, names in zip(split, variables, strict=True)] if split else []

    # Passes

    def _run(self, watermark: int | None) -> Iterator[Found]:
        """Writes the rows of the events since the last pass and of the expiries up to the watermark (None: of all).

        All events at the watermark have come as well: a row of expiry depends on those of its instant.
        """
        if len(self._working):
            yield from self._pass(watermark)
        if watermark is not None:
            self._reported = watermark
            self._forget(watermark)

    def _pass(self, watermark: int | None) -> Iterator[Found]:
        working = self._working
        self.allowance.begin_pass(len(working))
        live = LivePass(self._live, self._measures, working, self._rank(), self._cells)
        triggers = live.triggers(self._live.trigger_bits)
        run = self._begin() if working.pending or self._live.looks_ahead else None
        collected = _Collected(live, self._measures, self.allowance)
        if run is not None and self._live.looks_ahead:
            self._look_ahead(run, live, collected, watermark)
        elif run is not None:
            self._collect(run, collected)
        self._audit(None)
        spans = collected.spans()
        rows = live.answer(spans, triggers, self._aggregates, self._reported, watermark)
        if rows is not None and rows.num_rows:
            yield 0, rows
        if watermark is not None:
            self._cells = None if self._live.looks_ahead else live.cells(spans, watermark)
            self._earliest = working.noticed.earliest(run.earliest if run is not None else self._earliest)

    def _rank(self) -> Array:
        if self._live.total_order and self._live.ties == "arrival":
            return np.arange(len(self._working), dtype=np.int64)
        return self._working.rank()

    def _collect(self, run: Pass, collected: _Collected) -> None:
        """Finds the matches that the new events complete."""
        waiting: list[Matches] = []
        rows = run.events.by_place(np.arange(len(self._working), dtype=np.int64))
        for index in range(len(self._plan.branches)):
            for matches in run.matches(index, self._working.kept):
                kept = run.negated(index, matches)
                if self._chosen_later(run):
                    self.allowance.hold(kept.nbytes, "matches among which NON-OVERLAP chooses")
                    waiting.append(kept.take(np.arange(kept.count)))
                elif kept.count:
                    self._require_few(run, kept)
                    self.metrics.matches += kept.count
                    collected.add(kept.mapped(rows))
        if waiting:
            for kept in choose(waiting, run.groups.offsets, run.ended):
                self.metrics.matches += kept.count
                collected.add(kept.mapped(rows))
        run.clear_ended()

    def _forget(self, watermark: int) -> None:
        working = self._working
        horizon = self._horizon(watermark)
        if self._cells is not None and self._windowed:
            oldest = int(working.ts[self._cells.first.min()]) - 1
            horizon = oldest if horizon is None else min(horizon, oldest)
        before = len(working)
        working.forget(horizon)
        gone = before - len(working)
        if self._cells is not None and self._windowed:
            self._cells = replace(self._cells, first=self._cells.first - gone)
        self._lives = [lives.shifted(gone) for lives in self._lives]

    def _horizon(self, watermark: int) -> int | None:
        """With negation that looks ahead all events of a window matter; under NON-OVERLAP those of matches that may yet be
        chosen, which end within it.
        """
        if not self._live.looks_ahead:
            return self._due.horizon(watermark, self._earliest)
        window = self._live.bound.window
        assert window is not None
        return watermark - (2 if self._due.non_overlap else 1) * window

    # Negation that looks ahead

    def _look_ahead(self, run: Pass, live: LivePass, collected: _Collected, watermark: int | None) -> None:
        """Finds the matches that the new events complete, and how long each one lives that is alive."""
        rows = run.events.by_place(np.arange(len(self._working), dtype=np.int64))
        self._find_lives(run, live, rows)
        if self._due.non_overlap:
            self._choose_alive(run, live, collected, rows, watermark)
            return
        for index, lives in enumerate(self._lives):
            if not lives.matches.count:
                continue
            for view in live.views:
                spans = live.spans(lives.matches, view)
                collected.put(replace(spans, death=np.minimum(spans.death, _ended(live, lives, view))))
            if watermark is not None:
                alive = (lives.end == len(self._working)) & live.unexpired(lives.matches.first, watermark)
                self._lives[index] = lives.select(alive)

    def _find_lives(self, run: Pass, live: LivePass, rows: Array) -> None:
        """Adds the matches that new events complete; those that are ended before they begin are no matches."""
        working, indexes = self._working, self._indexes()
        for index in range(len(self._plan.branches)):
            blocks = [self._lives[index].matches]
            for matches in run.matches(index, working.kept) if working.pending else ():
                kept = run.negated(index, matches)
                self._require_few(run, kept)
                self.allowance.hold(kept.nbytes, "matches that a later event may end")
                blocks.append(kept.mapped(rows))
                self.metrics.matches += kept.count
            found = joined(blocks)
            end = np.full(found.count, len(working), np.int64)
            for negative in indexes[index] if found.count else ():
                np.minimum(end, negative.earliest(self._live.bound, found), out=end)
            lives = Lives(found, end)
            self._lives[index] = lives.select(_ended(live, lives, TRIGGERS) > live.axis.of_row.take(found.last))

    def _indexes(self) -> list[list[NegativeIndex]]:
        """Per branch the events that its components which look ahead forbid."""
        working, plan = self._working, self._live
        codes = None
        if plan.partition:
            codes, _ = combined_codes([without_nulls(working.column(name)) for name in plan.partition])
        rank, order = self._rank(), np.arange(len(working), dtype=np.int64)
        found = []
        for branch, negation, bits in zip(plan.bound.branches, plan.ahead, plan.ahead_bits, strict=True):
            names = [event.variable for event in branch.positives]
            components = negation.components if negation else ()
            shared = ("key_index", plan.bound.window, working, rank, codes, order)
            rows = [working.rows_with(bit) for bit in bits]
            found.append([NegativeIndex(item, names, own, *shared) for item, own in zip(components, rows, strict=True)])
        return found

    def _choose_alive(self, run: Pass, live: LivePass, collected: _Collected, rows: Array, watermark: int | None) -> None:
        """NON-OVERLAP over matches that may die: what is chosen changes with every death."""
        places = np.empty_like(rows)
        places[rows] = np.arange(rows.size)
        placed = [lives.matches.mapped(places) for lives in self._lives]
        birth = [live.axis.of_row.take(lives.matches.last) for lives in self._lives]
        for view in live.views:
            death = [_ended(live, lives, view) for lives in self._lives]
            for matches, start, stop in in_epochs(placed, birth, death, run.groups.offsets):
                spans = live.spans(matches.mapped(rows), view)
                spans = replace(spans, birth=np.maximum(spans.birth, start), death=np.minimum(spans.death, stop))
                collected.put(spans.take(np.flatnonzero(spans.birth < spans.death)))
        if watermark is not None:
            self._settle(run, placed, places, watermark)

    def _settle(self, run: Pass, placed: Sequence[Matches], places: Array, watermark: int) -> None:
        """Chooses among the matches that no event to come can end, nor any that ends before them: it drops them, and the
        matches that overlap the chosen ones.
        """
        window = self._live.bound.window
        assert window is not None
        spared = [lives.end == len(self._working) for lives in self._lives]
        certain = [self._working.ts.take(lives.matches.last) + window <= watermark for lives in self._lives]
        final = [block.select(alive & sure) for block, alive, sure in zip(placed, spared, certain, strict=True)]
        for _ in choose(final, run.groups.offsets, run.ended):
            pass  # `run.ended` is what is wanted
        overlapped = run.ended.take(np.searchsorted(run.groups.offsets, places, side="right") - 1) >= places
        run.clear_ended()
        self._lives = [
            lives.select(alive & ~sure & ~overlapped.take(lives.matches.first))
            for lives, alive, sure in zip(self._lives, spared, certain, strict=True)
        ]


def _ended(live: LivePass, lives: Lives, view: int) -> Array:
    """The positions at which events end matches."""
    return np.append(live.axis.ends[view], NEVER).take(lives.end)


class _Collected:
    """The spans of a pass as they are found."""

    def __init__(self, live: LivePass, measures: Measures, allowance: Allowance) -> None:
        self._live = live
        self._allowance = allowance
        self._measures = measures
        self._spans = [live.kept_spans()]
        self._count = 0

    def add(self, matches: Matches) -> None:
        """Matches, given by rows, that live until they expire."""
        self.put(self._live.spans(matches))

    def put(self, spans: Spans) -> None:
        self._spans.append(spans)
        self._count += spans.birth.size
        self._allowance.require(sum(one.nbytes for one in self._spans), "matches by the time that they count")
        if self._count > MANY:
            self._spans = [Spans.joined(self._spans).folded(self._measures.kinds)]
            self._count = 0

    def spans(self) -> Spans:
        return Spans.joined(self._spans)
