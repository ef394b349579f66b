"""What is wanted of a query of a stream: the oracle's answer for the events that it saw, up to the watermark at which it ended.

The answer has the ids of a batch run. A row is certain when the watermark has passed its time: the end of the match, the time
of an aggregate's row, or, where negation looks past the end, the end of the window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

import kleene
from kleene.common.arrays import Array
from kleene.common.columns import time_values
from kleene.common.errors import DataError
from kleene.interfaces.options import options_of
from kleene.pattern.policies import Output
from kleene.plan.multi.groups import is_shareable
from kleene.plan.patterns import LazyPlan, is_lazy
from kleene.runtime.units import PlannedQuery
from kleene.testing import oracle
from kleene.testing.oracle_stream import instant
from support import aggregate_pairs, nfa_pairs
from support.nfa_pairs import bare, call_options
from support.strategies import Example

Row = dict[str, Any]

NEVER = -(1 << 62)
"""A watermark by which nothing is certain."""


class Question:
    """A query over some events, and its plan in a stream."""

    kind = "matches"

    def __init__(self, name: str, example: Example, table: pa.Table, *, plan: Any = None, shares: bool = False, **options: Any):
        self.name = name
        self.example = example
        self._table = table
        self._options = {**call_options(example), **options}
        self.query = kleene.query(example.query, name=name)
        self.plan = self.query.plan_for(table.schema, options_of({**self._options, "plan": plan}))
        self._shared = self._shared_plan() if shares else None
        self.bound = self.plan.bound
        self.unit = self.bound.schema.time_unit
        self.window = self.bound.window
        self.non_overlap = example.query.output is Output.NON_OVERLAP
        looks_ahead = any(not item.before for branch in self.bound.branches for item in branch.negatives)
        self.postponed = looks_ahead and not example.query.aggregates
        """Whether matches wait for their window to pass."""

    def _shared_plan(self) -> LazyPlan | None:
        plan = self.query.plan_for(self._table.schema, options_of({**self._options, "plan": {"mechanism": "lazy"}}))
        return plan if is_lazy(plan) and is_shareable(plan) else None

    def asked(self, version: int = 1) -> PlannedQuery:
        """The query as a stream has it."""
        return PlannedQuery(self.name, self.plan, self._shared, version, f"{self.name}@{version}")

    def is_certain(self, times: Array, watermark: int | None) -> Array:
        """Which rows with the given times are certain by a watermark."""
        if watermark is None:
            return np.zeros(times.size, bool)
        return times <= watermark if self.postponed else times < watermark

    def times(self, rows: pa.Table) -> Array:
        """When each row is certain: as soon as the watermark has passed this time."""
        start, end = (_times(rows.column(name), self.unit) for name in ("match_start", "match_end"))
        return self._due(start, end)

    def _due(self, start: Array, end: Array) -> Array:
        if not self.postponed:
            return end
        assert self.window is not None
        return (end if self.non_overlap else start) + self.window

    def read(self, rows: pa.RecordBatch) -> pa.Table:
        """What left the stream, as verbose rows."""
        return pa.Table.from_batches([rows])

    def batch(self, rows: Sequence[int]) -> pa.Table:
        """What a batch run gives for some of the events."""
        verbose = {**self._options, "output": "verbose"}
        return self.query.match(self._table.take(pa.array(rows, pa.int64())), **verbose)

    def differences(self, rows: Sequence[int], until: int | None, found: pa.Table | None) -> list[str]:
        """How what left the stream differs from what is wanted of the given events, certain by a watermark (None: of all)."""
        batch = self.batch(rows)
        batch = batch if until is None else batch.filter(pa.array(self.is_certain(self.times(batch), until)))
        return self._compared(rows, until, batch, batch.slice(0, 0) if found is None else found)

    def _compared(self, rows: Sequence[int], until: int | None, batch: pa.Table, found: pa.Table) -> list[str]:
        wanted = self.wanted(rows)
        if until is not None and wanted:
            ts = _times(self._table.column(self.bound.schema.time), self.unit)
            spans = np.array([(min(own), max(own)) for own in (ts[list(match.positions)].tolist() for match in wanted)])
            held = self.is_certain(self._due(spans[:, 0], spans[:, 1]), until).tolist()
            wanted = [match for match, certain in zip(wanted, held, strict=True) if certain]
        comparison = nfa_pairs.Comparison(self.example, wanted)
        comparison.add("batch", batch.to_pylist())
        comparison.add("stream", found.to_pylist())
        return comparison.report

    def wanted(self, rows: Sequence[int]) -> list[oracle.Match]:
        """The oracle's matches of some of the events, which are given by their places among all."""

        def original(at: int | tuple[int, ...]) -> int | tuple[int, ...]:
            return tuple(rows[place] for place in at) if isinstance(at, tuple) else rows[at]

        ties = self._options.get("ties", "error")
        found = oracle.matches(self.bound, [self.example.events[row] for row in rows], ties=ties)
        return [oracle.Match(tuple((name, original(at)) for name, at in match.bindings)) for match in found]

    def is_refused(self) -> bool:
        """Whether the oracle refuses the events, because some tie."""
        try:
            self.wanted(range(len(self.example.events)))
        except DataError:
            return True
        return False


def _times(column: pa.ChunkedArray, unit: str | None) -> Array:
    return time_values(column.combine_chunks(), unit)


class Shown(Question):
    """Matches that show their events: the query without RETURN."""

    def __init__(self, name: str, example: Example, table: pa.Table, **options: Any) -> None:
        super().__init__(name, bare(example), table, **options)


class Compressed(Shown):
    """The same in compressed form."""

    kind = "compressed matches"

    def __init__(self, name: str, example: Example, table: pa.Table, **options: Any) -> None:
        super().__init__(name, example, table, output="compressed", **options)

    def read(self, rows: pa.RecordBatch) -> pa.Table:
        found: pa.Table = kleene.expand(pa.Table.from_batches([rows]))
        return found


class Returned(Question):
    """RETURN rows, which are those of the batch run."""

    kind = "RETURN rows"

    def _compared(self, rows: Sequence[int], until: int | None, batch: pa.Table, found: pa.Table) -> list[str]:  # noqa: ARG002
        wanted, own = (Counter(map(str, table.to_pylist())) for table in (batch, found))
        return [] if wanted == own else [f"RETURN gives {own - wanted}, expected {wanted - own}"]


class Aggregated(Question):
    """Rows of AGG."""

    kind = "rows of AGG"

    def times(self, rows: pa.Table) -> Array:
        return _times(rows.column("at"), self.unit)

    def _compared(self, rows: Sequence[int], until: int | None, batch: pa.Table, found: pa.Table) -> list[str]:  # noqa: ARG002
        query, events = self.example.query, [self.example.events[row] for row in rows]
        in_total_order = False
        if self._options.get("ties") == "arrival":
            wanted = aggregate_pairs.wanted_rows(query, self.wanted(rows))
        else:
            pair = aggregate_pairs.Pair(replace(self.example, events=events))  # type: ignore[arg-type]
            wanted, in_total_order = pair.wanted, pair.in_total_order
        wanted = [row for row in wanted if until is None or instant(row["at"], self.unit) < until]
        return aggregate_pairs.differences(query, wanted, found.to_pylist(), in_total_order)

    def wanted(self, rows: Sequence[int]) -> list[Any]:
        ties = self._options.get("ties", "error")
        return list(oracle.aggregates(self.bound, [self.example.events[row] for row in rows], ties=ties))
