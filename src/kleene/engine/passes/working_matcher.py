"""What matchers that keep recent events have in common: the scan, the working set, and when a pass over it is due.

A pass waits until as many new rows have come as are kept, so the work of going over kept rows again is at most doubled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from kleene.common.arrays import Array
from kleene.common.errors import damaged
from kleene.engine.allowance import Allowance
from kleene.engine.events.scan import Scan
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.expressions.failing import Noticed
from kleene.engine.matcher import BadRows, Found, Matcher, Metrics, RowsFound, State
from kleene.engine.passes.restored import integers, require_names
from kleene.pattern.bound import BoundQuery
from kleene.plan.analysis.keys import key_attributes
from kleene.plan.contract import Plan

BLOCK = 1 << 17
"""How many matches, or detecting events, are handed on at a time."""

RUN_ROWS = 1 << 18
"""How many relevant rows are worth a pass."""

RowScan = Callable[[pa.RecordBatch], tuple[Array, Array]]
"""Gives the rows of a batch that matter, in order, and a number for each that says which tests it passes."""


def is_compressible(bound: BoundQuery) -> bool:
    """Whether the matches of a query could be given as a match buffer."""
    return not bound.query.aggregates and all(branch.is_sequence for branch in bound.branches)


Audit = Callable[[Plan, WorkingSet, int | None, int | None], None]
"""`audit(plan, working, reported, watermark)` raises if what a pass noted is an error, see `kleene.engine.audit`."""


class WorkingMatcher(Matcher, ABC):
    """The part of a matcher that takes events in; see `kleene.engine.matcher.Matcher`."""

    audit: Audit | None = None
    """Given by `kleene.engine.build`; the matchers of an audit have none."""

    takes_failing = True
    """Whether events stay of which a condition leaves 64 bits: a match may tell whether that is an error."""

    def __init__(self, plan: Plan, bad_rows: str, run_rows: int, block: int, queries: Sequence[str] | None = None) -> None:
        """`queries` are those that the plan is for, if they are several."""
        self.metrics = Metrics()
        self.allowance = Allowance(queries or (plan.bound.query.name,), plan.limits, compressible=is_compressible(plan.bound))
        self.bad_rows = BadRows()
        self._run_rows = run_rows
        self._block = block
        self.noticed = Noticed()
        """What this matcher knows of values that left 64 bits."""
        self._scan = self._make_scan(plan, bad_rows)
        self._working = WorkingSet(plan.bound.schema, plan.columns, self.noticed)

    def _make_scan(self, plan: Plan, bad_rows: str) -> RowScan:
        """What tells the rows of a batch that matter, with `metrics` and `bad_rows` of this matcher."""
        return Scan(
            plan.bound,
            [event for event, _ in plan.scanned],
            [predicates for _, predicates in plan.scanned],
            key_attributes(plan.bound),
            bad_rows,
            self.metrics,
            self.bad_rows,
            keep_irrelevant=plan.all_rows,
            noticed=self.noticed if self.takes_failing else None,
        )

    def take_rows(self, found: RowsFound) -> None:
        """Before any event: lets the matcher ask for the rows that matter before it looks for them."""
        own = self._scan
        assert isinstance(own, Scan)

        def scan(batch: pa.RecordBatch) -> tuple[Array, Array]:
            known = found(batch)
            return own(batch) if known is None else own.given(batch, *known)

        self._scan = scan

    def feed(self, batch: pa.RecordBatch) -> Iterator[Found]:
        """Takes the next events in stream order; yields rows that are certain by now."""
        rows, masks = self._relevant(batch)
        if rows.size:
            self._working.add(batch, rows, masks)
            if self._working.pending < max(self._run_rows, self._working.kept):
                self._working.compact()
                return
            yield from self._run(self._working.latest)

    def finish(self) -> Iterator[Found]:
        """The stream has ended: yields what is left."""
        yield from self._run(None)

    def advance(self, watermark: int) -> Iterator[Found]:
        """All events before the watermark have come: yields what is certain by now."""
        yield from self._run(watermark)
        self.allowance.begin_run()

    @property
    def horizon(self) -> int | None:
        """Events at or before this time will not matter again."""
        return self._working.horizon

    @property
    def kept(self) -> int:
        """How many events are kept."""
        return len(self._working)

    def due(self, watermark: int) -> int | None:
        """The next watermark at which something happens even if no event comes."""
        ts = self._working.ts
        found: list[int] = []
        for window, eager in self._windows():
            at = int(np.searchsorted(ts, watermark - window))
            if eager and at < ts.size:
                found.append(int(ts[at]) + window + 1)
        return min(found, default=None)

    @property
    def memory(self) -> int:
        """With a window: no event matters longer than this."""
        return 2 * max((window for window, _ in self._windows()), default=0)

    def restore(self, events: Iterable[pa.RecordBatch], watermark: int, horizon: int | None, state: State) -> None:
        """Resumes after `advance(watermark)` of a matcher like this one, given the events after its horizon and its state."""
        for batch in events:
            rows, masks = self._relevant(batch)
            self._working.add(batch, rows, masks)
        self._working.settle(horizon, self._marks(state) if "masks" in state else None)
        self._resume(watermark, state)

    def _marks(self, state: State) -> Array:
        """The marks of the events, some of which have been cleared."""
        marks = integers(state, "masks", len(self._working))
        if (marks & ~self._working.masks).any():
            raise damaged("events are marked for components that they do not fit")
        return marks

    def relevant(self, batch: pa.RecordBatch) -> Array:
        """The rows of a batch that matter: those that have a position, where these are counted."""
        return self._relevant(batch)[0]

    def _windows(self) -> Iterable[tuple[int, bool]]:
        """The windows, and for each whether something is reported when events leave it."""
        return ()

    def _resume(self, watermark: int, state: State) -> None:  # noqa: ARG002 - events may tell all there is to know
        """Takes over what was known at the watermark; refuses columns that it does not know."""
        require_names(state, ())

    def _relevant(self, batch: pa.RecordBatch) -> tuple[Array, Array]:
        """The rows of a batch that matter, and their component masks."""
        return self._scan(batch)

    @abstractmethod
    def _run(self, watermark: int | None) -> Iterator[Found]:
        """Reports what the events before the watermark (None: all of them) make certain."""
