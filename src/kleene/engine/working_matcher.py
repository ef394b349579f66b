"""What matchers that keep recent events have in common: the scan, the working set, and when a pass over it is due.

A pass waits until as many new rows have come as are kept, so the work of going over kept rows again is at most doubled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from kleene.engine.matcher import BadRows, Metrics
from kleene.engine.scan import Scan
from kleene.engine.working_set import WorkingSet
from kleene.pattern.bound import BoundQuery
from kleene.pattern.operators import Event
from kleene.pattern.predicates import Expression
from kleene.plan.keys import key_attributes

Array = np.ndarray[Any, Any]

BLOCK = 1 << 17
"""How many matches, or detecting events, are handed on at a time."""

RUN_ROWS = 1 << 18
"""How many relevant rows are worth a pass."""


class ScannedPlan(Protocol):
    """What taking events in needs of a plan."""

    @property
    def bound(self) -> BoundQuery: ...
    @property
    def scanned(self) -> tuple[tuple[Event, tuple[Expression, ...]], ...]:
        """What is tested of each event: (component, predicates) per bit of a row's mask."""

    @property
    def all_rows(self) -> bool:
        """Whether events that no component can bind matter."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the events that are read."""


class WorkingMatcher(ABC):
    """The part of a matcher that takes events in; see `kleene.engine.matcher.Matcher`."""

    def __init__(self, plan: ScannedPlan, bad_rows: str, run_rows: int, block: int) -> None:
        self.metrics = Metrics()
        self.bad_rows = BadRows()
        self._run_rows = run_rows
        self._block = block
        self._scan = Scan(
            plan.bound,
            [event for event, _ in plan.scanned],
            [predicates for _, predicates in plan.scanned],
            key_attributes(plan.bound),
            bad_rows,
            self.metrics,
            self.bad_rows,
            keep_irrelevant=plan.all_rows,
        )
        self._working = WorkingSet(plan.bound.schema, plan.columns)

    def feed(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Takes the next events in stream order; yields matches that are certain by now."""
        rows, masks = self._relevant(batch)
        if rows.size:
            self._working.add(batch, rows, masks)
            if self._working.pending < max(self._run_rows, self._working.kept):
                self._working.compact()
                return
            yield from self._run(self._working.latest)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The stream has ended: yields what is left."""
        yield from self._run(None)

    def _relevant(self, batch: pa.RecordBatch) -> tuple[Array, Array]:
        """The rows of a batch that matter, and their component masks."""
        return self._scan(batch)

    @abstractmethod
    def _run(self, watermark: int | None) -> Iterator[pa.RecordBatch]:
        """Reports what the events up to the watermark (None: the end of time) make certain."""
