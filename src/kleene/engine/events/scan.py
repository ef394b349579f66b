"""The bottom of every plan: which rows matter, to which components, and which rows are bad.

Type tests go through a table from type code to component mask, so their cost does not grow with the number of types. Conditions
on single events are put together by what they read (`conditions.py`), so that those which compare one column with constants
cost what one of them does; all others are evaluated only on rows of their component's types.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.columns import row_numbers, select, unchecked_times, view
from kleene.common.errors import DataError
from kleene.engine.events.conditions import EventCondition, Part, in_order, parts_of
from kleene.engine.events.constants import text_buffers, text_table
from kleene.engine.events.kernels.constants import select_by_text
from kleene.engine.expressions.failing import Noticed, condition_overflow
from kleene.engine.expressions.vectorized import as_text, lacking_types, widen
from kleene.engine.kernels.rows import ABOVE, BELOW, EQUAL, keep_where, select_by_type
from kleene.engine.matcher import BadRows, Metrics
from kleene.pattern.bound import BoundQuery
from kleene.pattern.operators import Event
from kleene.pattern.predicates import Arithmetic, Attribute, Comparison, Expression, Literal

UNDECLARED = -1
"""The mask of a type that is NULL or that a declared schema does not list."""

FEW = 8
"""Number of comparisons of one column with integers up to which asking each of them costs less than looking for its class."""


class Scan:
    """Finds the relevant rows of a batch for a list of components."""

    def __init__(
        self,
        bound: BoundQuery,
        components: Sequence[Event],
        predicates: Sequence[Sequence[Expression]],
        keys: Sequence[str],
        bad_rows: str,
        metrics: Metrics,
        quarantine: BadRows,
        *,
        keep_irrelevant: bool = False,
        noticed: Noticed | None = None,
    ) -> None:
        """Events of which a predicate leaves 64 bits stay, without its component, if somebody is `noticed` of them."""
        self._bound = bound
        self._components = components
        self._predicates = predicates
        self._keys = keys
        self._policy = bad_rows
        self._metrics = metrics
        self._quarantine = quarantine
        self._keep_irrelevant = keep_irrelevant
        self._noticed = noticed
        declared = bound.schema.types
        self._names = sorted({name for event in components for name in event.types} | set(declared or ()))
        """The types that matter; any other has the mask `_other`."""
        self._masks = np.array([self._type_mask(name) for name in self._names], np.int64)
        self._other = 0 if declared is None else UNDECLARED
        self._texts = text_table(self._names)
        self._parts: tuple[pa.Schema, list[_BitPart]] | None = None
        """What the conditions come to for events of a schema."""

    def __call__(self, batch: pa.RecordBatch) -> tuple[Array, Array]:
        """(rows, component masks) of the relevant rows, in order; bad rows are rejected, set aside or dropped."""
        before = self._metrics.events
        self._metrics.events += batch.num_rows
        rows, masks = self._by_type(batch)
        bad = self._bad(batch, rows, masks)
        aside = rows[:0]
        if bad is not None:
            self._report(batch, rows, bad, before)
            aside, rows, masks = rows[bad != ""], rows[bad == ""], masks[bad == ""]
        if any(self._predicates):
            failed = self._by_predicates(batch, rows, masks)
            kept = masks != 0
            if failed is not None:
                kept |= failed
                self._note(batch, rows[failed])
            if not kept.all():
                rows, masks = rows[kept], masks[kept]
        self._metrics.relevant += rows.size
        if self._keep_irrelevant:
            return self._with_irrelevant(batch, rows, masks, aside)
        return rows, masks

    def given(self, batch: pa.RecordBatch, rows: Array, masks: Array) -> tuple[Array, Array]:
        """What it would find in a batch without bad rows of which the relevant ones are known."""
        self._metrics.events += batch.num_rows
        self._metrics.relevant += rows.size
        return self._with_irrelevant(batch, rows, masks, rows[:0]) if self._keep_irrelevant else (rows, masks)

    def _with_irrelevant(self, batch: pa.RecordBatch, rows: Array, masks: Array, aside: Array) -> tuple[Array, Array]:
        """All rows with a time but those set aside: the runtime stack has a cell for every event of the stream."""
        if rows.size == batch.num_rows:
            return rows, masks
        everything = np.zeros(batch.num_rows, np.int64)
        everything[rows] = masks
        timed = np.array(batch.column(self._bound.schema.time).is_valid())
        timed[aside] = False
        places = np.flatnonzero(timed)
        return places, everything[places]

    def _by_type(self, batch: pa.RecordBatch) -> tuple[Array, Array]:
        every = (1 << len(self._components)) - 1
        name = self._bound.schema.type
        if name is None:
            return row_numbers(batch.num_rows), np.full(batch.num_rows, every, np.int64)
        column = batch.column(name)
        if pa.types.is_large_string(column.type):
            column = widen(column)
        if pa.types.is_string(column.type) and column.null_count == 0:
            return self._by_text(column)
        if _is_narrow(column):
            numbers = view(column)
            codes, component_masks = numbers.view(f"u{numbers.itemsize}"), self._number_masks(np.iinfo(numbers.dtype))
        else:
            column = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
            component_masks = self._dictionary_masks(column.dictionary)
            indices = column.indices
            if indices.null_count:
                indices = pc.fill_null(pc.cast(indices, pa.int64()), component_masks.size - 1)
            codes = view(indices)
        everything = bool(component_masks.all())
        rows, masks = np.empty(0 if everything else batch.num_rows, np.int64), np.empty(batch.num_rows, np.int64)
        count = select_by_type(codes, component_masks, rows, masks)
        return row_numbers(count) if everything else rows[:count], masks[:count]

    def _number_masks(self, kind: Any) -> Array:
        """The mask of each type that is an integer of some kind, by its bits."""
        masks = np.full(1 << kind.bits, self._other, np.int64)
        for name, mask in zip(self._names, self._masks.tolist(), strict=True):
            if re.fullmatch("0|-?[1-9][0-9]{0,4}", name) and kind.min <= int(name) <= kind.max:
                masks[int(name) % masks.size] = mask
        return masks

    def _dictionary_masks(self, dictionary: pa.Array) -> Array:
        """The mask of each distinct type; one entry more for NULL."""
        names = as_text(dictionary)
        masks = np.append(self._masks, self._other)  # what is not found is at the end
        found = pc.fill_null(pc.index_in(names, value_set=pa.array(self._names, pa.string())), len(self._names))
        by_type = masks.take(found.to_numpy(zero_copy_only=False))
        if names.null_count:
            by_type[names.is_null().to_numpy(zero_copy_only=False)] = UNDECLARED
        return np.append(by_type, UNDECLARED)

    def _by_text(self, column: pa.Array) -> tuple[Array, Array]:
        rows, masks = np.empty(len(column), np.int64), np.empty(len(column), np.int64)
        with np.errstate(over="ignore"):  # as plain Python
            count = select_by_text(*text_buffers(column), self._texts, self._masks, self._other, rows, masks)
        return rows[:count], masks[:count]

    def _type_mask(self, event_type: str) -> int:
        declared = self._bound.schema.types
        if declared is not None and event_type not in declared:
            return UNDECLARED
        return sum(1 << index for index, event in enumerate(self._components) if event_type in event.types)

    def _by_predicates(self, batch: pa.RecordBatch, rows: Array, masks: Array) -> Array | None:
        """Clears the bits of components whose predicates do not hold, in place; gives where one fails and no other is false."""
        if self._parts is None or self._parts[0] != batch.schema:
            self._parts = batch.schema, [_BitPart(part) for part in parts_of(self._bound, self._predicates, batch.schema)]
        waiting = [part.part.conditions for part in self._parts[1] if not part.narrow(batch, rows, masks)]
        failing: Array | None = None
        for condition in in_order(chain(*waiting)):
            failing = _narrow_by(condition, batch, rows, masks, failing)
        if failing is None:
            return None
        failing &= masks
        if failing.any() and self._noticed is None:
            raise condition_overflow(self._bound.query.name)
        masks ^= failing
        return np.asarray(failing != 0)

    def _note(self, batch: pa.RecordBatch, rows: Array) -> None:
        """Tells of events that stay though a predicate on them left 64 bits."""
        if rows.size and self._noticed is not None:
            schema = self._bound.schema
            times = unchecked_times(select(batch.column(schema.time), rows), schema.time_unit)
            self._noticed.note_time(int(times.max()))

    def _bad(self, batch: pa.RecordBatch, rows: Array, masks: Array) -> Array | None:
        """The reason why each row is bad ("" for good ones), or None when none is."""
        reasons: list[tuple[Array, str]] = []
        undeclared = masks == UNDECLARED if rows.size and int(masks.min()) < 0 else np.zeros(1, bool)
        if undeclared.any():
            reasons.append((undeclared, f"type column '{self._bound.schema.type}' is NULL or holds an undeclared type"))
        time = self._bound.schema.time
        for name in (time, *self._keys):
            column = batch.column(name)
            if column.null_count == 0:
                continue
            null = column.is_null().to_numpy(zero_copy_only=False)[rows] & ~undeclared
            if name != time:
                null &= (masks & self._having(name)) != 0
            if null.any():
                role = "time column" if name == time else "key attribute"
                reasons.append((null, f"{role} '{name}' is NULL"))
        if not reasons:
            return None
        bad = np.full(rows.size, "", dtype=object)
        for where, reason in reversed(reasons):
            bad[where] = reason
        return bad

    def _having(self, attribute: str) -> int:
        """The mask of components whose types have the attribute."""
        return sum(
            1 << index
            for index, event in enumerate(self._components)
            if not any(self._bound.lacks(event_type, attribute) for event_type in event.types)
        )

    def _report(self, batch: pa.RecordBatch, rows: Array, bad: Array, before: int) -> None:
        positions = np.flatnonzero(bad != "")
        self._metrics.bad += positions.size
        if self._policy == "error":
            first = int(rows[positions[0]])
            values = {name: _shown(batch.column(name)[first]) for name in batch.schema.names[:8]}
            raise DataError(
                f"{positions.size:,} bad row(s) in this batch; the first, in time order, is row {before + first:,}: "
                f"{bad[positions[0]]}: {values}\n"
                "  hint: clean the input, or pass bad_rows='quarantine' to set such rows aside, bad_rows='drop' to ignore them"
            )
        if self._policy == "quarantine":
            taken = batch.take(pa.array(rows[positions]))
            reason = pa.array(bad[positions].tolist(), pa.string())
            self._quarantine.batches.append(taken.append_column("reason", reason))


class _BitPart:
    """A part of the conditions of components, which are bits of masks."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self._bits = _bits(part.tests)
        self._table: tuple[Array | None, Array] = None, self._bits
        """What passes, by class, and the bits that this leaves."""
        tests = [_simple_test(condition) for condition in part.conditions]
        self._simple = [test for test in tests if test is not None and len(tests) <= FEW]
        if len(self._simple) < len(tests):
            self._simple = []

    def narrow(self, batch: pa.RecordBatch, rows: Array, masks: Array) -> bool:
        """Clears bits, in place; False if each condition is to be judged."""
        values = _integers(batch, self._simple)
        if values is not None:
            for test in self._simple:
                keep_where(values, rows, test.accepted, test.constant, test.modulus, masks, test.bits)
            return True
        concerned = (masks & self._bits) != 0
        count = int(np.count_nonzero(concerned))
        most = self.part.on_column and 2 * count > rows.size
        positions = row_numbers(rows.size) if most else np.flatnonzero(concerned)
        told = self.part.tell(batch, rows if most else rows.take(positions)) if count else None
        if told is None:
            return count == 0
        if most:
            masks &= self._left(told[1]).take(told[0])
        else:
            masks[positions] &= self._left(told[1]).take(told[0])
        return True

    def _left(self, passing: Array) -> Array:
        """The bits that each class leaves."""
        if self._table[0] is not passing:
            left = np.full(passing.shape[1], ~self._bits, np.int64)
            for test, passed in zip(self.part.tests.tolist(), passing, strict=True):
                left[passed] |= 1 << test
            self._table = passing, left
        return self._table[1]


def _bits(tests: Iterable[int]) -> Any:
    return np.int64(sum(1 << int(test) for test in tests))


def _narrow_by(
    condition: EventCondition, batch: pa.RecordBatch, rows: Array, masks: Array, failing: Array | None
) -> Array | None:
    """Clears the bits of components where a condition does not hold; adds to those where it fails."""
    bits = _bits(condition.tests)
    positions = np.flatnonzero(masks & bits)
    if positions.size == 0:
        return failing
    held, failed = condition.judged(batch, rows.take(positions))
    if failed is not None:
        failing = np.zeros(masks.size, np.int64) if failing is None else failing
        failing[positions[failed]] |= bits
        held = held | failed
    masks[positions[~held]] &= ~bits
    return failing


@dataclass(frozen=True, slots=True)
class _SimpleTest:
    """A comparison of an integer column with a constant, as `keep_where` takes it."""

    column: str
    accepted: int
    constant: int
    modulus: int
    bits: Any


def _simple_test(condition: EventCondition) -> _SimpleTest | None:
    test = integer_test(condition.predicate)
    if test is None or lacking_types(condition.bound, test[0]):
        return None
    return _SimpleTest(test[0].name, *test[1:], _bits(condition.tests))


def _integers(batch: pa.RecordBatch, tests: list[_SimpleTest]) -> Array | None:
    """The integers of a column that tests are asked of; None if its type or a NULL does not let them be."""
    if not tests:
        return None
    column = batch.column(tests[0].column)
    small = pa.types.is_signed_integer(column.type) and column.type.bit_width <= 32
    if column.null_count or not (small or (column.type == pa.int64() and not tests[0].modulus)):
        return None
    return view(column)


ACCEPTED = {"=": EQUAL, "!=": BELOW | ABOVE, "<": BELOW, "<=": BELOW | EQUAL, ">": ABOVE, ">=": ABOVE | EQUAL}


def integer_test(predicate: Expression) -> tuple[Attribute, int, int, int] | None:
    """`x < 150` and `x % 500 = 0` as (attribute, accepted outcomes, constant, modulus or 0); None for any other predicate.

    >>> integer_test(Comparison("<", Attribute("b", "volume"), Literal(150)))[1:]
    (1, 150, 0)
    """
    if not isinstance(predicate, Comparison) or not _is_small(predicate.right):
        return None
    tested, modulus = predicate.left, 0
    if isinstance(tested, Arithmetic) and tested.operator == "%" and _is_small(tested.right):
        tested, modulus = tested.left, tested.right.value  # type: ignore[attr-defined]
        if modulus <= 0:
            return None
    if not isinstance(tested, Attribute):
        return None
    return tested, ACCEPTED[predicate.operator], predicate.right.value, modulus  # type: ignore[attr-defined]


def _is_narrow(column: pa.Array) -> bool:
    """Whether a table has a place for every integer that a column may hold, and is no longer than the column."""
    bits = column.type.bit_width if pa.types.is_integer(column.type) and column.null_count == 0 else 64
    return bits <= 16 and len(column) >= 1 << bits


def _is_small(node: Expression) -> bool:
    return isinstance(node, Literal) and type(node.value) is int and abs(node.value) < 1 << 31


def _shown(value: pa.Scalar) -> object:
    """A value for a message; nanoseconds have no Python type of their own."""
    return str(value.cast(pa.string())) if pa.types.is_timestamp(value.type) and value.is_valid else value.as_py()
