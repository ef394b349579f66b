"""Expressions over blocks of matches: elements of Kleene variables, aggregates over them, variables that are absent.

Its meaning is that of `kleene.testing.evaluate`. A condition that reads `a[i]`, `a[i-1]` or `a[..i-1]` holds if it does for
every i > 1, one that reads plain `a[].x` if it does for every element: its rows are repeated, one for each element (each
combination, over several variables), decided together, and a match holds if all of its rows do. An absent variable has NULL
attributes and no elements.

Cost: as `kleene.engine.expressions.vectorized` on the repeated rows; an aggregate is linear in the elements it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.errors import PlanningError, Problem
from kleene.engine.expressions.failing import Noticed
from kleene.engine.expressions.vectorized import Column, Evaluator, lacking_types, of_types, widen
from kleene.engine.matches.element_aggregates import aggregate, count_in
from kleene.engine.matches.matches import Matches
from kleene.pattern import predicates as p
from kleene.pattern.bound import BoundQuery
from kleene.pattern.conditions import condition_of

Gather = Callable[[str, Array], pa.Array]
"""Gives a column at places."""

REPEATED = 1 << 18
"""About how many repeated rows are decided at a time."""

NOTHING = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class MatchRows:
    """The rows that an expression is evaluated on: one per match, unless told otherwise."""

    matches: Matches
    match: Array | None = None
    """The match of each row; None for one row per match."""
    further: Mapping[str, Array] = field(default_factory=dict)
    """Variables that are not in the matches (a negative component's): their place in each row."""
    current: Mapping[str, Array] = field(default_factory=dict)
    """For `a[i]`: the index (from 0) of the current element in each row."""
    each: Mapping[str, Array] = field(default_factory=dict)
    """For plain `a[].x`: the index of the element under test in each row."""

    @property
    def count(self) -> int:
        return self.matches.count if self.match is None else self.match.size

    def is_absent(self, variable: str) -> bool:
        return not (variable in self.matches.singles or variable in self.matches.lists or variable in self.further)

    def lengths(self, variable: str) -> Array:
        """How many elements a variable has in each row; none if it is absent."""
        if variable not in self.matches.lists:
            return np.full(self.count, 0 if self.is_absent(variable) else 1, np.int64)
        starts, ends = self.elements(variable)
        return ends - starts

    def elements(self, variable: str) -> tuple[Array, Array]:
        """Where the elements of a list begin and end in each row."""
        offsets = self.matches.lists[variable][0]
        starts, ends = offsets[:-1], offsets[1:]
        return (starts, ends) if self.match is None else (starts.take(self.match), ends.take(self.match))

    def range_of(self, reference: p.Attribute | p.Aggregate) -> tuple[Array, Array]:
        """Which elements of a list a reference reads in each row."""
        starts, ends = self.elements(reference.variable)
        if reference.element is p.Element.SO_FAR:
            return starts, starts + self.current[reference.variable]
        return starts, ends

    def places(self, reference: p.Attribute) -> Array:
        """The place of the one event that a reference reads in each row."""
        variable, element = reference.variable, reference.element
        if variable in self.further:
            return self.further[variable]
        if variable in self.matches.singles:
            places = self.matches.singles[variable]
            return places if self.match is None else places.take(self.match)
        starts, ends = self.elements(variable)
        flat = self.matches.lists[variable][1]
        if element is p.Element.FIRST:
            return flat.take(starts)
        if element is p.Element.LAST:
            return flat.take(ends - 1)
        if element is p.Element.CURRENT:
            return flat.take(starts + self.current[variable])
        if element is p.Element.PREVIOUS:
            return flat.take(starts + self.current[variable] - 1)
        return flat.take(starts + self.each[variable])

    def reads_list(self, reference: p.Attribute) -> bool:
        """Whether a reference reads all elements of a list at once."""
        whole = reference.element in (p.Element.EACH, p.Element.SINGLE) and reference.variable not in self.each
        return whole and reference.variable in self.matches.lists

    def repeated(self, rows: Array, current: Mapping[str, Array], each: Mapping[str, Array]) -> MatchRows:
        """The given rows, each standing on elements of its lists."""
        match = rows if self.match is None else self.match.take(rows)
        further = {variable: places.take(rows) for variable, places in self.further.items()}
        return replace(self, match=match, further=further, current=current, each=each)


class MatchEvaluator(Evaluator):
    """Evaluates bound expressions over rows of matches."""

    def __init__(
        self,
        bound: BoundQuery,
        gather: Gather,
        rows: MatchRows,
        flat: dict[tuple[str, str], pa.Array] | None = None,
        noticed: Noticed | None = None,
    ) -> None:
        # Not by a method of its own: an object that knows itself is kept, with all events, until garbage is collected.
        super().__init__(bound, lambda variable, name: _column(gather, rows, p.Attribute(variable, name)), rows.count, noticed)
        self._gather = gather
        self._on = rows
        self._kleene = frozenset(event.variable for event in bound.components if event.is_kleene)
        self._flat = {} if flat is None else flat
        """Columns of all elements of a list, by variable and attribute."""

    def holds(self, condition: p.Expression) -> Array:
        """Where the condition is true for every element that it quantifies over (Fails: for one of them)."""
        quantified = condition_of(condition, self._kleene)
        if not quantified.quantified:
            return super().holds(condition)
        for_one = isinstance(condition, p.Fails)
        held = np.full(self._count, not for_one)
        for rows, repeated in self._repeat(quantified.running, quantified.each):
            evaluator = MatchEvaluator(self._bound, self._gather, repeated, self._flat, self._noticed)
            held[rows[Evaluator.holds(evaluator, condition) == for_one]] = for_one
        return held

    def returned(self, expression: p.Expression) -> pa.Array:
        """A RETURN column: an attribute as it is in the events (NULL where the type lacks it), of all elements as a list;
        anything else computed.
        """
        if not isinstance(expression, p.Attribute):
            return self.values(expression)
        on, variable = self._on, expression.variable
        if on.reads_list(expression):
            values = self._elements(expression, self._gather(expression.name, on.matches.lists[variable][1]))
            return as_list(on.matches.lists[variable][0], values)
        values = _column(self._gather, on, expression)
        if not on.is_absent(variable):
            return self._without_lacking(expression, values)
        if variable in self._kleene and expression.element in (p.Element.EACH, p.Element.SINGLE):
            return pa.nulls(on.count, pa.list_(values.type))
        return values

    def lacking(self, reference: p.Attribute | p.Aggregate) -> Column | None:
        return None if self._on.is_absent(reference.variable) else super().lacking(reference)

    # Nodes, as in `Evaluator`.

    def attribute(self, node: p.Attribute) -> Column:
        if self._on.reads_list(node):
            hint = f"write {node.variable}[1], {node.variable}[{node.variable}.LEN] or an aggregate"
            message = f"'{node.name}' of '{node.variable}' is a list: RETURN cannot compute with it"
            raise PlanningError(Problem(message, node.span, hint), self._bound.query.text)
        return self._without_lacking(node, self._widened(_column(self._gather, self._on, node)))

    def length(self, node: p.Length) -> Column:
        if self._on.is_absent(node.variable):
            return pa.scalar(None, pa.int64())
        return pa.array(self._on.lengths(node.variable), pa.int64())

    def aggregate(self, node: p.Aggregate) -> Column:
        absent = self._on.is_absent(node.variable)
        starts, ends = (np.zeros(self._count, np.int64),) * 2 if absent else self._on.range_of(node)
        if node.name is None:
            return pa.scalar(None, pa.int64()) if absent else pa.array(ends - starts, pa.int64())
        return aggregate(node.function, self._flat_values(node), starts, ends, self._failed)

    # Columns.

    def _without_lacking(self, reference: p.Attribute, column: pa.Array) -> pa.Array:
        lacking = self.lacking(reference)
        return column if lacking is None else pc.if_else(lacking, pa.scalar(None, column.type), column)

    def _flat_values(self, reference: p.Aggregate) -> pa.Array:
        """The attribute of all elements of a variable, widened; NULL where an element's type lacks it."""
        assert reference.name is not None
        key = (reference.variable, reference.name)
        if key not in self._flat:
            places = NOTHING if self._on.is_absent(reference.variable) else self._on.matches.lists[reference.variable][1]
            self._flat[key] = self._elements(reference, widen(self._gather(reference.name, places)))
        return self._flat[key]

    def _elements(self, reference: p.Attribute | p.Aggregate, values: pa.Array) -> pa.Array:
        """The values of all elements, NULL where an element's type lacks the attribute."""
        if self._on.is_absent(reference.variable):
            return values
        types = lacking_types(self._bound, reference)
        if not types:
            return values
        return pc.if_else(self._elements_of(reference.variable, types), pa.scalar(None, values.type), values)

    def _elements_of(self, variable: str, types: list[str]) -> pa.Array:
        """Which elements of a list are of one of the types."""
        assert self._bound.schema.type is not None
        return of_types(self._gather(self._bound.schema.type, self._on.matches.lists[variable][1]), types)

    def _is_of(self, reference: p.Attribute | p.Aggregate, types: list[str]) -> Column:
        if isinstance(reference, p.Attribute) and not self._on.reads_list(reference):
            assert self._bound.schema.type is not None
            return of_types(self._gather(self._bound.schema.type, self._on.places(reference)), types)
        found = self._elements_of(reference.variable, types).to_numpy(zero_copy_only=False)
        return pa.array(count_in(found, *self._on.range_of(reference)) > 0)

    def _repeat(self, running: tuple[str, ...], each: tuple[str, ...]) -> Iterator[tuple[Array, MatchRows]]:
        """The rows once for every choice of elements, in pieces; with the number of the row that each comes from."""
        lengths = [self._on.lengths(variable) - 1 for variable in running] + [self._on.lengths(variable) for variable in each]
        sizes = np.prod(np.maximum(lengths, 0), axis=0, dtype=np.int64)
        total = np.cumsum(sizes)
        begin = 0
        while begin < total.size:
            before = int(total[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(total, before + REPEATED, side="right")))
            rows = np.repeat(np.arange(begin, end), sizes[begin:end])
            # Numbers the choices of each row; digit by digit they are the elements of the variables.
            number = np.arange(rows.size) - (total[rows] - sizes[rows] - before)
            digits: list[Array] = []
            for size in reversed(lengths):
                number, digit = np.divmod(number, size[rows])
                digits.append(digit)
            digits.reverse()
            current = {variable: digit + 1 for variable, digit in zip(running, digits, strict=False)}
            tested = dict(zip(each, digits[len(running) :], strict=True))
            yield rows, self._on.repeated(rows, current, tested)
            begin = end


def _column(gather: Gather, rows: MatchRows, reference: p.Attribute) -> pa.Array:
    """The attribute of the one event read in each row, of its own type; NULL where there is none."""
    if rows.is_absent(reference.variable):
        return pa.nulls(rows.count, gather(reference.name, NOTHING).type)
    return gather(reference.name, rows.places(reference))


def as_list(offsets: Array, values: pa.Array) -> pa.Array:
    """A list column of flat values."""
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32, copy=False)), values)
