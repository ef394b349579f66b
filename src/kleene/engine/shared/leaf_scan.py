"""The scan of a group of queries: which rows matter, and which tests each of them passes.

There may be hundreds of tests, so a row does not carry a bit for each: it carries the number of the set of tests that it passes
(0: none). Which tests are asked at all is known by the row's type; sets are numbered as they are met.

Cost: rows of a type have one set of tests in the beginning, which is divided by each part of their conditions
(`kleene.engine.events.conditions`). A column that is compared with constants costs some 10 ns a row, however many queries do
so. Rows that pass no test of any query cost nothing any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.columns import row_numbers, select, unchecked_times
from kleene.engine.events.conditions import EventCondition, Part, in_order, parts_of
from kleene.engine.events.constants import named, text_table
from kleene.engine.events.scan import Scan
from kleene.engine.expressions.failing import Noticed
from kleene.engine.expressions.vectorized import as_text
from kleene.engine.matcher import BadRows, Metrics
from kleene.pattern.operators import Event
from kleene.plan.multi.groups import Tests, lacks_keys

FEW_SETS = 1024
"""Number of sets of tests below which renumbering does not pay."""


class PassedTests:
    """Some rows, and the set of tests that each may still pass; rows whose set is empty are no longer among them."""

    def __init__(self, rows: Array, tests: int) -> None:
        self._rows = rows
        self._tests = tests
        self.positions = row_numbers(rows.size)
        """Of those of the rows that are left, among all of them."""
        self.codes = np.zeros(rows.size, np.int64)
        """The set of each row that is left."""
        self._sets = np.packbits(np.ones((1, tests), bool), axis=1)
        """A bit for each test, by set."""
        self._failing: list[tuple[Array, list[int]]] = []
        """Positions where a condition fails, with its tests."""

    def tests(self) -> list[list[int]]:
        """The tests of each set."""
        return [np.flatnonzero(bits).tolist() for bits in np.unpackbits(self._sets, axis=1)]

    def narrow(self, batch: pa.RecordBatch, parts: Iterable[Part]) -> None:
        """Takes tests from rows that do not pass the parts of their conditions."""
        waiting = [part.conditions for part in parts if not self._narrow_by_classes(batch, part)]
        for condition in in_order(chain(*waiting)):
            self._judge(batch, condition)

    def _narrow_by_classes(self, batch: pa.RecordBatch, part: Part) -> bool:
        concerned = self._concerned(part.tests)
        if not concerned.any():
            return True
        at = self._at(concerned)
        told = part.tell(batch, self._rows.take(self.positions.take(at)))
        if told is None:
            return False
        left = np.ones((told[1].shape[1], self._tests), bool)
        left[:, part.tests] = told[1].T
        self._divide(at, told[0], np.packbits(left, axis=1))
        return True

    def _judge(self, batch: pa.RecordBatch, condition: EventCondition) -> None:
        concerned = self._concerned(condition.tests)
        if not concerned.any():
            return
        at = self._at(concerned)
        held, failed = condition.judged(batch, self._rows.take(self.positions.take(at)))
        if failed is not None:
            self._failing.append((self.positions.take(at[failed]), condition.tests))
            held = held | failed
        self._take(at[~held], condition.tests)

    def failed(self) -> list[Array]:
        """The rows that lack a test only because conditions of it fail."""
        found = []
        for positions, tests in self._failing:
            at = np.flatnonzero(np.isin(self.positions, positions))
            at = at[self._concerned(tests).take(self.codes[at])]
            found.append(self._rows.take(self.positions.take(at)))
            self._take(at, tests)
        return found

    def _concerned(self, tests: Array | list[int]) -> Array:
        """The sets that have some of the tests."""
        return np.asarray((self._sets & self._bits(tests)).any(axis=1))

    def _at(self, concerned: Array) -> Array:
        """Where the rows with such sets are."""
        return row_numbers(self.codes.size) if concerned.all() else np.flatnonzero(concerned.take(self.codes))

    def _bits(self, tests: Array | list[int]) -> Array:
        chosen = np.zeros(self._tests, bool)
        chosen[tests] = True
        return np.packbits(chosen)

    def _take(self, at: Array, tests: list[int]) -> None:
        """Takes tests from some rows."""
        if at.size:
            self._divide(at, np.zeros(at.size, np.int64), ~self._bits(tests)[np.newaxis])

    def _divide(self, at: Array, classes: Array, left: Array) -> None:
        """Leaves some rows only such tests as their class does."""
        left = np.concatenate([left, np.full((1, left.shape[1]), 255, np.uint8)])
        if at.size < self.codes.size:
            own, classes = classes, np.full(self.codes.size, len(left) - 1, np.int64)
            classes[at] = own
        pairs, self.codes = _numbered(self.codes * len(left) + classes, len(self._sets) * len(left))
        self._sets = self._sets.take(pairs // len(left), axis=0) & left.take(pairs % len(left), axis=0)
        some = self._sets.any(axis=1)
        if not some.all():
            kept = some.take(self.codes)
            self.positions, self.codes = self.positions[kept], (np.cumsum(some) - 1).take(self.codes[kept])
            self._sets = self._sets[some]


def _numbered(numbers: Array, bound: int) -> tuple[Array, Array]:
    """The different ones of numbers below a bound, and for each number its place among them."""
    if bound > 4 * max(numbers.size, FEW_SETS):
        different, places = np.unique(numbers, return_inverse=True)
        return different, places.ravel()
    there = np.zeros(bound, bool)
    there[numbers] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1).take(numbers)


class LeafScan:
    """Finds the relevant rows of a batch and the set of tests that each passes."""

    def __init__(self, tested: Tests, bad_rows: str, metrics: Metrics, quarantine: BadRows, noticed: Noticed) -> None:
        self._tested = tested
        self._schema = tested.bound.schema
        self._metrics = metrics
        self._noticed = noticed
        self._failed: list[Array] = []
        """Rows of the current batch for which a predicate leaves 64 bits."""
        self._names = sorted({name for test in tested.tests for name in test.event.types})
        components = list(self._classes())
        self._scan = Scan(
            tested.bound,
            components,
            [()] * len(components),
            tested.keys,
            bad_rows,
            metrics,
            quarantine,
            keep_irrelevant=tested.all_rows,
        )
        self._numbers: dict[tuple[int, ...], int] = {(): 0}
        self._sets: tuple[Array, Array] | None = None
        names = self._names if self._schema.type is not None else [None]
        self._asked = [self._tests_of(name) for name in names]
        self._texts = text_table(self._names)
        self._parts: tuple[pa.Schema, list[list[Part]]] | None = None
        """For events of a schema: what the predicates of the tests of each type come to."""

    def _classes(self) -> Iterator[Event]:
        """The types, those together that have the same keys: where a NULL is a bad row."""
        classes: dict[tuple[bool, ...], list[str]] = {}
        for name in self._names:
            classes.setdefault(lacks_keys(self._tested, name), []).append(name)
        for number, names in enumerate(classes.values()):
            yield Event(tuple(names), f"class{number}")

    def _tests_of(self, name: str | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The tests that every event of a type (None: there are no types) passes, and those with predicates."""
        own = [number for number, test in enumerate(self._tested.tests) if name is None or name in test.event.types]
        plain = tuple(number for number in own if not self._tested.tests[number].predicates)
        return plain, tuple(number for number in own if self._tested.tests[number].predicates)

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
        counts = np.zeros(len(self._tested.tests), np.int64)
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
        if not self._tested.all_rows:
            kept = codes != 0
            if failed.size:
                kept |= np.isin(rows, failed)
            rows, codes = rows[kept], codes[kept]
        return rows, codes

    def _coded(self, batch: pa.RecordBatch, rows: Array) -> Array:
        if self._parts is None or self._parts[0] != batch.schema:
            tests = [[self._tested.tests[number].predicates for number in tested] for _, tested in self._asked]
            self._parts = batch.schema, [parts_of(self._tested.bound, own, batch.schema) for own in tests]
        kinds = self._kinds(batch, rows)
        codes = np.zeros(rows.size, np.int64)
        order = np.argsort(kinds, kind="stable")
        bounds = np.searchsorted(kinds, np.arange(len(self._asked) + 1), sorter=order)
        for kind, (plain, tested) in enumerate(self._asked):
            own = order[bounds[kind] : bounds[kind + 1]]
            if own.size:
                codes[own] = self._passed(batch, rows[own], kind) if tested else self._number(plain)
        return codes

    def _kinds(self, batch: pa.RecordBatch, rows: Array) -> Array:
        """The number of each row's type among the names; more for any other."""
        size = len(self._names)
        if self._schema.type is None:
            return np.zeros(rows.size, np.int16)
        column = batch.column(self._schema.type)
        if pa.types.is_dictionary(column.type):
            column = select(column, rows)
            by_type = pc.fill_null(pc.index_in(as_text(column.dictionary), value_set=pa.array(self._names, pa.string())), size)
            indices = pc.fill_null(column.indices.cast(pa.int64()), len(by_type))
            found = np.append(by_type.to_numpy(zero_copy_only=False), size).take(indices.to_numpy(zero_copy_only=False))
        else:
            found = named(as_text(column), rows, self._texts)
        return np.asarray(found, np.int16 if size < 1 << 14 else np.int64)

    def _passed(self, batch: pa.RecordBatch, rows: Array, kind: int) -> Array:
        """The set of tests that each row passes, of rows of one type."""
        assert self._parts is not None
        plain, tested = self._asked[kind]
        passed = PassedTests(rows, len(tested))
        passed.narrow(batch, self._parts[1][kind])
        self._failed += passed.failed()
        codes = np.full(rows.size, self._number(plain), np.int64)
        sets = [self._number(plain + tuple(tested[place] for place in own)) for own in passed.tests()]
        codes[passed.positions] = np.array(sets, np.int64).take(passed.codes)
        return codes

    def _number(self, tests: tuple[int, ...]) -> int:
        if tests not in self._numbers:
            self._numbers[tests] = len(self._numbers)
            self._sets = None
        return self._numbers[tests]
