"""What AGG items need of counters: the weights of events, the slots that add them up, and the columns that slots become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.columns import view
from kleene.common.errors import DataError, Problem
from kleene.engine.counting.kernels.counting import CAP, FLOAT_TOTAL, LARGEST, NONE, TOTAL
from kleene.engine.counting.kernels.tables import Weights
from kleene.engine.counting.program import Slot, Wanted, mask_of
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.expressions.vectorized import of_types, widen
from kleene.engine.matches.aggregate_output import (
    WIDE,
    average_column,
    total_column,
    value_type,
    wide_average_column,
    wide_total_column,
)
from kleene.engine.matches.order_codes import OrderCodes, order_codes
from kleene.pattern.bound import BoundQuery
from kleene.pattern.policies import MatchAggregate
from kleene.plan.counting.counters import CounterPlan

POSITIVE, NEGATIVE, KNOWN, FLOAT, GREATEST, LEAST, DIGITS = range(7)
"""What of an attribute is carried: the part of its value above zero, the part below, whether it has one, a float, codes; from
DIGITS on the digits of the first part, then those of the second, the last digit first.
"""

DIGIT_BITS, PLACES = 16, 4

_KINDS = {POSITIVE: TOTAL, NEGATIVE: TOTAL, KNOWN: TOTAL, FLOAT: FLOAT_TOTAL, GREATEST: LARGEST, LEAST: LARGEST}
_KINDS |= dict.fromkeys(range(DIGITS, DIGITS + 2 * PLACES), TOTAL)


@dataclass(frozen=True, slots=True)
class Traits:
    """What the values of an attribute are like, which decides what has to be carried."""

    floating: bool
    negative: bool
    missing: bool


class Attributes:
    """The attributes of the current events that aggregates read."""

    def __init__(self, bound: BoundQuery, working: WorkingSet, rows: int) -> None:
        self._bound = bound
        self._working = working
        self._rows = rows
        self._columns: dict[str, pa.Array] = {}
        self._codes: dict[tuple[str, int], OrderCodes] = {}

    def column(self, name: str) -> pa.Array:
        """An attribute, NULL where the event's type is declared without it."""
        if name not in self._columns:
            column = widen(self._working.column(name).slice(0, self._rows))
            lacking = [kind for kind in self._bound.schema.types or () if self._bound.lacks(kind, name)]
            if lacking and self._bound.schema.type is not None:
                kinds = self._working.column(self._bound.schema.type).slice(0, self._rows)
                column = pc.if_else(of_types(kinds, lacking), pa.scalar(None, column.type), column)
            self._columns[name] = column
        return self._columns[name]

    def traits(self, name: str, *, cautious: bool) -> Traits:
        """The traits of an attribute; with `cautious` those of any events, not only of these."""
        column = self.column(name)
        floating = pa.types.is_floating(column.type)
        if cautious:
            return Traits(floating, True, True)
        numbers = not floating and len(column) and pa.types.is_integer(column.type)
        low = pc.min(column).as_py() if numbers else None
        return Traits(floating, not numbers or (low is not None and low < 0), column.null_count > 0)

    def codes(self, name: str, what: int) -> OrderCodes:
        if (name, what) not in self._codes:
            self._codes[name, what] = order_codes(self.column(name), descending=what == LEAST)
        return self._codes[name, what]

    def weights(self, name: str, what: int) -> Array:
        """What is carried of an attribute, for every event."""
        column = self.column(name)
        if what in (GREATEST, LEAST):
            return self.codes(name, what).codes
        if what == KNOWN:
            return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.int64)
        if what == FLOAT:
            return np.asarray(pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False), np.float64)
        if pa.types.is_null(column.type):
            return np.zeros(self._rows, np.int64)
        values = view(pc.fill_null(column.cast(pa.int64()), 0))
        if what >= DIGITS:
            below, place = divmod(what - DIGITS, PLACES)
            part = np.where((values < 0) == bool(below), np.abs(values).view(np.uint64), 0)  # also that of the smallest
            return np.asarray(part >> (DIGIT_BITS * place) & (1 << DIGIT_BITS) - 1, np.int64)
        part = np.maximum(values if what == POSITIVE else -values, 0)
        return np.where(values == NONE, CAP, part) if what == NEGATIVE else part  # that of the smallest does not fit


class SaturatedError(DataError):
    """A count, or a part of a sum, does not fit 64 bits."""


def overflow() -> SaturatedError:
    """A count or sum does not fit."""
    hint = "narrow the window or the conditions, group the counts, or sum floats"
    return SaturatedError(Problem("a count or sum over matches exceeds 64 bits", hint=hint))


def require_stable(plan: CounterPlan, working: WorkingSet, rows: int) -> None:
    """If order codes outlive the current events, that of a value may not depend on the other values."""
    for item in plan.bound.query.aggregates:
        if item.function in ("min", "max") and item.attribute is not None:
            column = working.column(item.attribute).slice(0, rows)
            if not order_codes(column, descending=item.function == "min").stable:
                message = f"{item.function.upper()} of '{item.attribute}': a value is at the limit of 64 bits"
                raise DataError(Problem(message, hint="leave such values out, or give the query a window"))


class WeightColumns:
    """The weight columns of a program, each once."""

    def __init__(self) -> None:
        self._keys: dict[int, dict[tuple[str, int], int]] = {TOTAL: {}, FLOAT_TOTAL: {}}

    def number(self, name: str, what: int) -> int:
        columns = self._keys[FLOAT_TOTAL if what == FLOAT else TOTAL]
        return columns.setdefault((name, what), len(columns))

    def of(self, attributes: Attributes, rows: int) -> Weights:
        """The integer and the float weights, one row for each column."""
        integers, floats = (
            np.empty((len(keys), rows), kind)
            for keys, kind in ((self._keys[TOTAL], np.int64), (self._keys[FLOAT_TOTAL], np.float64))
        )
        for (name, what), number in self._keys[TOTAL].items():
            integers[number] = attributes.weights(name, what)
        for (name, what), number in self._keys[FLOAT_TOTAL].items():
            floats[number] = attributes.weights(name, what)
        return Weights(integers, floats)


@dataclass(frozen=True, slots=True)
class ItemSlots:
    """An AGG item and the slots (by number) that it is computed from; -1 for one that is not needed."""

    item: MatchAggregate
    total: int
    negative: int
    known: int
    digits: tuple[tuple[int, int], ...] = ()
    """In place of the first two: slots, and what one of each counts."""


def wanted_of(
    plan: CounterPlan,
    bits: Sequence[int],
    attributes: Attributes,
    weights: WeightColumns,
    *,
    cautious: bool,
    wide: bool = False,
) -> tuple[Wanted, tuple[ItemSlots, ...]]:
    """What a plan wants of the counters, with its tests at the given bits, and how its items are read from the slots. With
    `wide` sums are counted by digits, so that those fit whose parts do not.
    """
    slots: dict[Slot, int] = {}
    variables = [[position.variable for position in path] for path in plan.paths]

    def slot(item: MatchAggregate, what: int) -> int:
        assert item.attribute is not None
        places = tuple(path.index(item.variable) if item.variable in path else None for path in variables)
        return slots.setdefault(Slot(_KINDS[what], weights.number(item.attribute, what), places), len(slots))

    def count() -> int:
        return slots.setdefault(Slot(TOTAL), len(slots))

    items = []
    for item in plan.bound.query.aggregates:
        if item.attribute is None:
            items.append(ItemSlots(item, count(), -1, -1))
            continue
        traits = attributes.traits(item.attribute, cautious=cautious)
        everywhere = all(item.variable in path for path in variables)
        if item.function in ("min", "max"):
            items.append(ItemSlots(item, slot(item, GREATEST if item.function == "max" else LEAST), -1, -1))
            continue
        known = count() if everywhere and not traits.missing else slot(item, KNOWN)
        if wide and not traits.floating:
            parts = range(2 * PLACES if traits.negative else PLACES)
            digits = tuple(
                (slot(item, DIGITS + part), (-1 if part >= PLACES else 1) << DIGIT_BITS * (part % PLACES)) for part in parts
            )
            items.append(ItemSlots(item, -1, -1, known, digits))
            continue
        total = slot(item, FLOAT if traits.floating else POSITIVE)
        negative = slot(item, NEGATIVE) if traits.negative and not traits.floating else -1
        items.append(ItemSlots(item, total, negative, known))
    paths = tuple(
        tuple((bits[position.bit], tuple(sorted(bits[bit] for bit in position.negatives))) for position in path)
        for path in plan.paths
    )
    asked = set(plan.triggers)
    if not plan.divided or plan.ends_at_expiry:
        # A negative event that ends the matches of one partition changes what the others' triggers, and expiries, see.
        asked.update(plan.last_negatives)
    return Wanted(paths, mask_of(bits[bit] for bit in asked), tuple(slots)), tuple(items)


def wanted_of_any(plan: CounterPlan, events: pa.Schema) -> tuple[Wanted, tuple[ItemSlots, ...], Attributes]:
    """What a plan wants over any events of a schema, how its items are read, and attributes to read them by."""
    attributes = Attributes(plan.bound, _NoEvents(plan, events), 0)
    return *wanted_of(plan, range(len(plan.scanned)), attributes, WeightColumns(), cautious=True), attributes


class _NoEvents(WorkingSet):
    """Columns without rows."""

    def __init__(self, plan: CounterPlan, events: pa.Schema) -> None:
        super().__init__(plan.bound.schema, plan.columns)
        self._events = events

    def column(self, name: str) -> pa.Array:
        return pa.nulls(0, value_type(self._events.field(name).type))


def value_columns(
    items: Sequence[ItemSlots], schema: pa.Schema, attributes: Attributes, values: Array, floats: Array
) -> dict[str, pa.Array]:
    """The columns of AGG items from the values of slots (rows of `values` and `floats`)."""
    found = {}
    for one in items:
        item, kind = one.item, schema.field(one.item.alias).type
        if item.function in ("min", "max"):
            assert item.attribute is not None
            given = values[one.total]
            read = attributes.codes(item.attribute, GREATEST if item.function == "max" else LEAST).values(given)
            found[item.alias] = pc.if_else(pa.array(given != NONE), read, pa.scalar(None, read.type))
            continue
        if one.digits:
            counted = [(_exact(values[number]).tolist(), each) for number, each in one.digits]
            totals = [
                sum(count * each for count, each in zip(row, (each for _, each in counted), strict=True))
                for row in zip(*(counts for counts, _ in counted), strict=True)
            ]
            column = wide_total_column if item.function == "sum" else wide_average_column
            found[item.alias] = column(totals, _exact(values[one.known]), kind)
            continue
        total = floats[one.total] if _is_float(one, attributes) else _exact(values[one.total])
        if one.negative >= 0:
            total = total - _exact(values[one.negative])
        if item.function == "count":
            found[item.alias] = pa.array(total)
            continue
        make = total_column if item.function == "sum" else average_column
        found[item.alias] = make(total, _exact(values[one.known]), kind)
    return found


def changed(before: Mapping[str, pa.Array], after: Mapping[str, pa.Array]) -> Array:
    """Which rows differ in some column; NULL equals NULL and NaN NaN."""
    found: Any = None
    for name, earlier in before.items():
        column, later = earlier, after[name]
        if column.type != later.type:  # sums that do not fit before, or after
            column, later = column.cast(WIDE), later.cast(WIDE)
        joined = pa.concat_arrays([column, later])  # codes of values compare within one column only
        if _is_plain(column):
            codes = order_codes(joined).codes
        else:
            codes = pc.fill_null(joined.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False)
        differs = codes[: len(column)] != codes[len(column) :]
        found = differs if found is None else found | differs
    return np.asarray(found)


def _is_plain(column: pa.Array) -> bool:
    return bool(pa.types.is_integer(column.type) or pa.types.is_floating(column.type))


def _is_float(one: ItemSlots, attributes: Attributes) -> bool:
    name = one.item.attribute
    return name is not None and pa.types.is_floating(attributes.column(name).type)


def _exact(values: Array) -> Array:
    if values.size and int(values.max()) >= CAP:
        raise overflow()
    return values
