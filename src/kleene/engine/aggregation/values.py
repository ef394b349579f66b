"""What AGG items need of the events: fields that add up over matches, and the columns that sums of them become.

Each event has a row of fields (see `kleene.engine.aggregation.kernels`); a match contributes the rows of its events, each for
the items of its own variable. NULL contributes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.columns import view
from kleene.engine.aggregation import kernels
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.expressions.vectorized import of_types, widen
from kleene.engine.matches.aggregate_output import (
    aggregate_type,
    average_column,
    total_column,
    wide_average_column,
    wide_total_column,
)
from kleene.engine.matches.matches import Matches
from kleene.engine.matches.order_codes import NO_CODE, OrderCodes, order_codes
from kleene.pattern.bound import BoundQuery
from kleene.pattern.policies import MatchAggregate

MATCHES = 0
"""The field that counts matches."""

NONE = -1


@dataclass(frozen=True, slots=True)
class Measure:
    """What is added up of one attribute of one variable: the fields of it, NONE for what no item asks for."""

    variable: str
    attribute: str
    begin: int
    end: int
    """Its integer fields; the first says how many values there are."""
    float_begin: int
    float_end: int
    high: int
    least: int
    greatest: int


class Measures:
    """The fields of a query's aggregates."""

    def __init__(self, bound: BoundQuery, events: pa.Schema) -> None:
        self.bound = bound
        kinds, floats = [kernels.TOTAL], 0
        self._types = {item.alias: aggregate_type(item, events) for item in bound.query.aggregates}
        asked: dict[tuple[str, str], set[str]] = {}
        for item in bound.query.aggregates:
            if item.variable is not None and item.attribute is not None:
                asked.setdefault((item.variable, item.attribute), set()).add(item.function)
        self.measures: list[Measure] = []
        for (variable, name), functions in asked.items():
            begin, high, pair = len(kinds), NONE, floats
            kinds.append(kernels.TOTAL)
            if functions & {"sum", "avg"}:
                if pa.types.is_floating(events.field(name).type):
                    floats += 2
                else:
                    high = len(kinds)
                    kinds += [kernels.HIGH, kernels.LOW]
            extremes = {}
            for function in sorted(functions & {"min", "max"}):
                extremes[function] = len(kinds)
                kinds.append(kernels.LARGEST)
            least, greatest = extremes.get("min", NONE), extremes.get("max", NONE)
            self.measures.append(Measure(variable, name, begin, len(kinds), pair, floats, high, least, greatest))
        self.kinds = np.array(kinds, np.int64)
        self.floats = floats

    def nothing(self, count: int) -> tuple[Array, Array]:
        """Rows that add nothing."""
        ints = np.zeros((count, self.kinds.size), np.int64)
        ints[:, self.kinds == kernels.LARGEST] = NO_CODE
        return ints, np.zeros((count, self.floats), np.float64)

    def extremes(self) -> list[tuple[int, str, bool]]:
        """(field, attribute, whether smaller values have larger codes) of MIN and MAX."""
        found = [(one.least, one.attribute, True) for one in self.measures if one.least != NONE]
        return found + [(one.greatest, one.attribute, False) for one in self.measures if one.greatest != NONE]

    def columns(self, ints: Array, floats: Array, codes: Mapping[int, OrderCodes]) -> dict[str, pa.Array]:
        """The column of each item from rows of sums."""
        by_attribute = {(one.variable, one.attribute): one for one in self.measures}
        found = {}
        for item in self.bound.query.aggregates:
            if item.variable is None or item.attribute is None:
                found[item.alias] = pa.array(ints[:, MATCHES])
            else:
                found[item.alias] = self._column(item, by_attribute[item.variable, item.attribute], ints, floats, codes)
        return found

    def _column(
        self, item: MatchAggregate, measure: Measure, ints: Array, floats: Array, codes: Mapping[int, OrderCodes]
    ) -> pa.Array:
        known, kind = ints[:, measure.begin], self._types[item.alias]
        if item.function == "count":
            return pa.array(known)
        if pa.types.is_null(kind):
            return pa.nulls(known.size)
        if item.function in ("min", "max"):
            field = measure.least if item.function == "min" else measure.greatest
            return extreme_values(codes[field], ints[:, field])
        column = total_column if item.function == "sum" else average_column
        if measure.high == NONE:
            return column(floats[:, measure.float_begin] + floats[:, measure.float_begin + 1], known, kind)
        high, low = ints[:, measure.high], ints[:, measure.high + 1]
        fits = (high >= -(1 << 31)) & (high < 1 << 31)
        if fits.all():
            return column((high << kernels.LOW_BITS) + low, known, kind)
        totals = [(upper << kernels.LOW_BITS) + lower for upper, lower in zip(high.tolist(), low.tolist(), strict=True)]
        return (wide_total_column if item.function == "sum" else wide_average_column)(totals, known, kind)


def extreme_values(codes: OrderCodes, given: Array) -> pa.Array:
    """The values of codes, NULL where there is none."""
    read = codes.values(given)
    return pc.if_else(pa.array(given != NO_CODE), read, pa.scalar(None, read.type))


class RowValues:
    """The fields of the events of a working set."""

    def __init__(self, measures: Measures, working: WorkingSet, kept: Mapping[int, pa.Array]) -> None:
        """`kept` has, by field, the extremes that are carried over from before, which get codes together with the events'."""
        self._measures = measures
        self.ints, self.floats = measures.nothing(len(working))
        columns = {one.attribute: attribute_column(measures.bound, working, one.attribute) for one in measures.measures}
        for one in measures.measures:
            column = columns[one.attribute]
            self.ints[:, one.begin] = column.is_valid().to_numpy(zero_copy_only=False)
            if one.high != NONE and not pa.types.is_null(column.type):
                values = view(pc.fill_null(column.cast(pa.int64()), 0))
                self.ints[:, one.high] = values >> kernels.LOW_BITS
                self.ints[:, one.high + 1] = values & kernels.LOW_MASK
            if one.float_begin < one.float_end:
                self.floats[:, one.float_begin] = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False)
        self.codes: dict[int, OrderCodes] = {}
        self.kept_codes: dict[int, Array] = {}
        for field, name, descending in measures.extremes():
            column = columns[name]
            together = pa.concat_arrays([column, kept[field].cast(column.type)]) if field in kept else column
            self.codes[field] = order_codes(together, descending=descending)
            self.ints[:, field] = self.codes[field].codes[: len(working)]
            self.kept_codes[field] = self.codes[field].codes[len(working) :]

    def of(self, matches: Matches) -> tuple[Array, Array]:
        """What each match, given by rows, contributes."""
        ints, floats = self._measures.nothing(matches.count)
        ints[:, MATCHES] = 1
        for one in self._measures.measures:
            fields, pairs = slice(one.begin, one.end), slice(one.float_begin, one.float_end)
            if one.variable in matches.singles:
                rows = matches.singles[one.variable]
                ints[:, fields] = self.ints[rows, fields]
                floats[:, pairs] = self.floats[rows, pairs]
            elif one.variable in matches.lists:
                kinds = self._measures.kinds[fields]
                bounds = (one.begin, one.float_begin, one.float_end)
                with np.errstate(all="ignore"):  # floats follow IEEE 754
                    kernels.fold_lists(*matches.lists[one.variable], kinds, *bounds, self.ints, self.floats, ints, floats)
        return ints, floats


def attribute_column(bound: BoundQuery, working: WorkingSet, name: str) -> pa.Array:
    """An attribute of all events as the widest type of its kind, NULL where the event's type is declared without it."""
    column = widen(working.column(name))
    lacking = [kind for kind in bound.schema.types or () if bound.lacks(kind, name)]
    if lacking and bound.schema.type is not None:
        column = pc.if_else(of_types(working.column(bound.schema.type), lacking), pa.scalar(None, column.type), column)
    return column
