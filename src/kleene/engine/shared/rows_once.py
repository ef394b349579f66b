"""One scan for queries that are matched one by one: which rows of a batch matter to each of them.

Each query takes the rows that pass one of its tests. A query of whose tests no row passes any costs next to nothing, and the
types and constants of all are looked up once. Where rows are bad or a condition fails, every query scans for itself: what is
bad, and what fails, is each query's own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from kleene.common.arrays import Array
from kleene.common.errors import KleeneError
from kleene.engine.expressions.failing import Noticed
from kleene.engine.matcher import BadRows, Metrics
from kleene.engine.shared.leaf_scan import LeafScan
from kleene.plan.contract import Plan
from kleene.plan.multi.groups import tests_of

Rows = tuple[Array, Array]
"""The rows that matter to a query, and their component masks."""


class RowsOnce:
    """The relevant rows of batches for several plans over the same events."""

    def __init__(self, plans: Sequence[Plan]) -> None:
        self._tests, self._bits = tests_of(plans)
        self._metrics, self._bad, self._noticed = Metrics(), BadRows(), Noticed()
        self._scan = LeafScan(self._tests, "quarantine", self._metrics, self._bad, self._noticed)
        self._found: dict[tuple[int, int, int, int], tuple[Rows | None, pa.Array]] = {}
        """By the number of the batch and the memory of its times, which is kept."""
        self._given = [0] * len(plans)
        """How many batches each plan has asked about."""
        self._sets_of: tuple[Array, list[Array]] | None = None

    def of(self, plan: int, batch: pa.RecordBatch) -> Rows | None:
        """The rows of a batch that matter to a plan; None if it has to find them itself."""
        times = batch.column(self._tests.bound.schema.time)
        memory = times.buffers()[-1]  # None where all are NULL, without a type
        place = (self._given[plan], memory.address if memory else 0, times.offset, len(times))
        self._given[plan] += 1
        if place not in self._found:
            self._found[place] = self._scanned(batch), times
        found, _ = self._found[place]
        if found is None:
            return None
        rows, codes = found
        masks = self._masks(plan)
        if not masks.any():
            return rows[:0], codes[:0]
        own = masks.take(codes)
        kept = own != 0
        return rows[kept], own[kept]

    def _scanned(self, batch: pa.RecordBatch) -> Rows | None:
        bad, self._noticed.fresh = self._metrics.bad, False
        try:
            found = self._scan(batch)
        except KleeneError:
            return None  # which query's error it is, is seen there
        self._bad.batches.clear()
        return None if self._noticed.fresh or self._metrics.bad > bad else found

    def _masks(self, plan: int) -> Array:
        """For each set of tests the bits of those of the plan."""
        starts, tests = self._scan.sets()
        if self._sets_of is None or self._sets_of[0] is not tests:
            sets = np.repeat(np.arange(starts.size - 1), np.diff(starts))
            order = np.argsort(tests, kind="stable")
            bounds = np.searchsorted(tests.take(order), np.arange(1, len(self._tests.tests)))
            self._sets_of = tests, np.split(sets.take(order), bounds)
        masks = np.zeros(starts.size - 1, np.int64)
        for bit, test in enumerate(self._bits[plan]):
            masks[self._sets_of[1][test]] |= 1 << bit
        return masks
