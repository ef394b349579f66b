"""The scan of a group of queries: which rows matter, and which tests each of them passes.

There may be hundreds of tests, so a row does not carry a bit for each: it carries the number of the set of tests that it passes
(0: none). Which tests are asked at all is known by the row's type; sets are numbered as they are met. A test is evaluated once
on a row, however many queries have it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.columns import select, unchecked_times
from kleene.engine.events.scan import Scan
from kleene.engine.expressions.failing import Noticed
from kleene.engine.expressions.vectorized import Evaluator, as_text
from kleene.engine.matcher import BadRows, Metrics
from kleene.pattern.operators import Event
from kleene.pattern.predicates import Expression
from kleene.plan.analysis.keys import key_attributes
from kleene.plan.multi.groups import PatternGroup, lacks_keys

AT_A_TIME = 30
"""How many tests are told apart at a time."""

FEW_SETS = 1024
"""Number of sets of tests below which renumbering does not pay."""


class LeafScan:
    """Finds the relevant rows of a batch and the set of tests that each passes."""

    def __init__(self, group: PatternGroup, bad_rows: str, metrics: Metrics, quarantine: BadRows, noticed: Noticed) -> None:
        self._group = group
        self._schema = group.bound.schema
        self._metrics = metrics
        self._noticed = noticed
        self._failed: list[Array] = []
        """Rows of the current batch for which a predicate leaves 64 bits."""
        self._names = sorted({name for test in group.tests for name in test.event.types})
        components = list(self._classes())
        self._scan = Scan(
            group.bound,
            components,
            [()] * len(components),
            key_attributes(group.first.bound),
            bad_rows,
            metrics,
            quarantine,
            keep_irrelevant=group.first.all_rows,
        )
        self._numbers: dict[tuple[int, ...], int] = {(): 0}
        self._sets: tuple[Array, Array] | None = None
        names = self._names if self._schema.type is not None else [None]
        self._asked = [self._tests_of(name) for name in names]

    def _classes(self) -> Iterator[Event]:
        """The types, those together that have the same keys: where a NULL is a bad row."""
        classes: dict[tuple[bool, ...], list[str]] = {}
        for name in self._names:
            classes.setdefault(lacks_keys(self._group, name), []).append(name)
        for number, names in enumerate(classes.values()):
            yield Event(tuple(names), f"class{number}")

    def _tests_of(self, name: str | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The tests that every event of a type (None: there are no types) passes, and those with predicates."""
        own = [number for number, test in enumerate(self._group.tests) if name is None or name in test.event.types]
        plain = tuple(number for number in own if not self._group.tests[number].predicates)
        return plain, tuple(number for number in own if self._group.tests[number].predicates)

    def sets(self) -> tuple[Array, Array]:
        """The tests of each set, one after the other: where those of a set begin, and all of them."""
        if self._sets is None:
            lengths = [len(tests) for tests in self._numbers]
            tests = np.array([test for tests in self._numbers for test in tests], np.int64)
            self._sets = np.cumsum([0, *lengths]), tests
        return self._sets

    def counts(self, codes: Array) -> Array:
        """How many of the rows with these sets pass each test."""
        starts, tests = self.sets()
        sizes = np.bincount(codes, minlength=starts.size - 1)
        counts = np.zeros(len(self._group.tests), np.int64)
        np.add.at(counts, tests, np.repeat(sizes, np.diff(starts)))
        return counts

    def forget(self, codes: Array) -> None:
        """Renumbers sets, in place, if hardly any of the known ones are among the codes."""
        if len(self._numbers) < FEW_SETS:
            return
        used = np.unique(codes)
        if len(self._numbers) < FEW_SETS + 2 * used.size:
            return
        known = list(self._numbers)
        kept = np.append(0, used[used > 0])
        self._numbers = {known[code]: number for number, code in enumerate(kept.tolist())}
        self._sets = None
        codes[:] = np.searchsorted(kept, codes)

    def __call__(self, batch: pa.RecordBatch) -> tuple[Array, Array]:
        """(rows, sets of tests) of the relevant rows, in order."""
        relevant = self._metrics.relevant
        rows, _ = self._scan(batch)
        codes = self._coded(batch, rows)
        failed = np.concatenate(self._failed) if self._failed else rows[:0]
        self._failed.clear()
        if failed.size:
            times = unchecked_times(select(batch.column(self._schema.time), failed), self._schema.time_unit)
            self._noticed.note_time(int(times.max()))
        self._metrics.relevant = relevant + int(np.count_nonzero(codes))
        if not self._group.first.all_rows:
            kept = codes != 0
            if failed.size:
                kept |= np.isin(rows, failed)
            rows, codes = rows[kept], codes[kept]
        return rows, codes

    def _coded(self, batch: pa.RecordBatch, rows: Array) -> Array:
        kinds = self._kinds(batch, rows)
        codes = np.zeros(rows.size, np.int64)
        order = np.argsort(kinds, kind="stable")
        bounds = np.searchsorted(kinds, np.arange(len(self._asked) + 1), sorter=order)
        for kind, (plain, tested) in enumerate(self._asked):
            own = order[bounds[kind] : bounds[kind + 1]]
            if own.size:
                codes[own] = self._passed(batch, rows[own], plain, tested) if tested else self._number(plain)
        return codes

    def _kinds(self, batch: pa.RecordBatch, rows: Array) -> Array:
        """The number of each row's type among the names; one more for any other."""
        if self._schema.type is None:
            return np.zeros(rows.size, np.int16)
        column = select(batch.column(self._schema.type), rows)
        names = pa.array(self._names, pa.string())
        if pa.types.is_dictionary(column.type):
            by_type = pc.fill_null(pc.index_in(as_text(column.dictionary), value_set=names), len(self._names))
            indices = pc.fill_null(column.indices.cast(pa.int64()), len(by_type))
            known = np.append(by_type.to_numpy(zero_copy_only=False), len(self._names))
            found = known.take(indices.to_numpy(zero_copy_only=False))
        else:
            found = pc.fill_null(pc.index_in(as_text(column), value_set=names), len(self._names))
            found = found.to_numpy(zero_copy_only=False)
        return np.asarray(found, np.int16 if len(self._names) < 1 << 15 else np.int64)

    def _passed(self, batch: pa.RecordBatch, rows: Array, plain: tuple[int, ...], tested: tuple[int, ...]) -> Array:
        """The set of tests that each row passes, of rows of one type."""
        sets: list[tuple[int, ...]] = [plain]
        codes = np.zeros(rows.size, np.int64)
        for begin in range(0, len(tested), AT_A_TIME):
            some = tested[begin : begin + AT_A_TIME]
            for place, number in enumerate(some):
                codes[self._passing(batch, rows, number)] |= 1 << place + AT_A_TIME
            found, codes = np.unique(codes, return_inverse=True)
            sets = [
                sets[code & (1 << AT_A_TIME) - 1]
                + tuple(number for place, number in enumerate(some) if code >> place + AT_A_TIME & 1)
                for code in found.tolist()
            ]
        return np.array([self._number(tests) for tests in sets], np.int64).take(codes.ravel())

    def _passing(self, batch: pa.RecordBatch, rows: Array, number: int) -> Array:
        """Which of the rows pass a test, as positions."""
        positions = np.arange(rows.size)
        failing = np.zeros(rows.size, bool)
        for predicate in self._group.tests[number].predicates:
            held, failed = self._judged(batch, rows[positions], predicate)
            if failed is not None:
                failing[positions[failed]] = True
                held |= failed
            positions = positions[held]
        if failing.any():
            own = failing[positions]
            self._failed.append(rows[positions[own]])
            positions = positions[~own]
        return positions

    def _judged(self, batch: pa.RecordBatch, rows: Array, predicate: Expression) -> tuple[Array, Array | None]:
        return Evaluator(self._group.bound, lambda _, name: select(batch.column(name), rows), rows.size).judged(predicate)

    def _number(self, tests: tuple[int, ...]) -> int:
        if tests not in self._numbers:
            self._numbers[tests] = len(self._numbers)
            self._sets = None
        return self._numbers[tests]
