"""Conditions on single events, put together so that what several tests have in common is evaluated once.

A test is a component with the conditions on its event alone. Conditions that compare one operand (a column, or what is computed
of an event) with constants are a *part*. It tells the classes of the operand's values apart, and which tests pass for each of
them (`constants.py`). Every other condition is a part of its own, and is judged on each row. Equal conditions are one,
whichever tests have them.

The meaning is that of judging every condition on every row of its tests. That is also what happens where a part cannot tell: a
value leaves 64 bits, or a dictionary is longer than there are rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from kleene.common.arrays import Array
from kleene.common.columns import row_numbers, select
from kleene.common.errors import DataError
from kleene.engine.events.constants import Teller, Told, is_text, is_told, teller
from kleene.engine.expressions.vectorized import Evaluator, lacking_types
from kleene.pattern import predicates as p
from kleene.pattern.bound import BoundQuery

WORTH_ENCODING = 4
"""Number of conditions on texts from which on evaluating each on the different texts pays."""


MOST_TOGETHER = 1 << 10
"""Most conditions of a part: each is evaluated on values on both sides of the constants of all."""


@dataclass(slots=True)
class EventCondition:
    """A condition on one event, and the tests that have it."""

    bound: BoundQuery
    predicate: p.Expression
    place: int
    """Its place among all conditions."""
    tests: list[int] = field(default_factory=list)

    attributes: list[p.Attribute] = field(init=False)
    """What it reads."""
    calls_functions: bool = field(init=False)
    """Whether it calls functions of the user."""
    lacking: dict[str, tuple[str, ...]] = field(init=False)
    """The attributes that some types of the component are declared without, with these."""

    def __post_init__(self) -> None:
        nodes = [node for node in p.walk(self.predicate) if isinstance(node, p.Attribute | p.Call)]
        self.attributes = [node for node in nodes if isinstance(node, p.Attribute)]
        self.calls_functions = any(isinstance(node, p.Call) and node.registered is not None for node in nodes)
        lacking = {node.name: tuple(lacking_types(self.bound, node)) for node in self.attributes}
        self.lacking = {name: types for name, types in lacking.items() if types}

    @property
    def variable(self) -> str:
        """The component whose event it is on in one of the tests."""
        return self.attributes[0].variable if self.attributes else ""

    @property
    def identity(self) -> object:
        """What conditions have in common that hold for the same events."""
        if self.calls_functions:
            return self.predicate  # functions are not called on events that another condition has ruled out
        return _of_events(self.predicate, ""), tuple(sorted(self.lacking.items()))

    def judged(self, batch: pa.RecordBatch, rows: Array) -> tuple[Array, Array | None]:
        """For which rows the condition holds, and for which it fails (None: for none)."""
        return self._over(lambda name: select(batch.column(name), rows), rows.size).judged(self.predicate)

    def computed(self, operand: p.Expression, batch: pa.RecordBatch, rows: Array) -> tuple[pa.Array, Array | None]:
        """The values of an operand of no variable for the rows, and for which it fails (None: for none)."""
        evaluator = self._over(lambda name: select(batch.column(name), rows), rows.size)
        return evaluator.computed(_of_events(operand, self.variable))

    def of_values(self, operand: p.Expression, values: pa.Array) -> Array | None:
        """For which values of its operand the condition holds; None if it fails for some."""
        predicate = self.predicate
        if not isinstance(operand, p.Attribute):
            own, some = _of_events(operand, self.variable), self.attributes[0]
            predicate = _replaced(predicate, lambda node: some if _of_events(node, self.variable) == own else None)
        held, failed = self._over(lambda _: values, len(values)).judged(predicate)
        return held if failed is None or not failed.any() else None

    def _over(self, column: Callable[[str], pa.Array], count: int) -> Evaluator:
        return Evaluator(self.bound, lambda _, name: column(name), count)


@dataclass(slots=True)
class Part:
    """Conditions on one operand, or one by itself."""

    conditions: list[EventCondition]
    operand: p.Expression | None = None
    """What all conditions compare with constants, of no variable; None for one condition by itself."""
    tests: Array = field(init=False)
    """Those that have some of the conditions."""
    _teller: Teller | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.tests = np.unique([test for item in self.conditions for test in item.tests])

    @property
    def on_column(self) -> bool:
        """Whether conditions compare a column, which need not be computed."""
        return isinstance(self.operand, p.Attribute)

    def prepare(self, kind: pa.DataType, constants: Iterable[object]) -> None:
        """Finds out which tests pass for which values of the operand."""
        self._teller = teller(kind, constants, self._judge)

    def tell(self, batch: pa.RecordBatch, rows: Array) -> Told | None:
        """The class of each row, and which tests pass for each class, as [tests, classes]; None if each is to be judged."""
        if self._teller is None or self.operand is None:
            return None
        if isinstance(self.operand, p.Attribute):
            return self._teller(batch.column(self.operand.name), rows)
        values, failed = self.conditions[0].computed(self.operand, batch, rows)
        return None if failed is not None else self._teller(values, row_numbers(rows.size))

    def _judge(self, values: pa.Array) -> Array | None:
        """Which tests pass for some values of the operand; None if a condition fails for one of them."""
        assert self.operand is not None
        passing = np.ones((self.tests.size, len(values)), bool)
        for item in self.conditions:
            try:
                held = item.of_values(self.operand, values)
            except DataError:  # judging the events tells whether it is an error
                return None
            if held is None:
                return None
            passing[np.searchsorted(self.tests, item.tests)] &= held
        return passing


def parts_of(bound: BoundQuery, tests: Sequence[Iterable[p.Expression]], events: pa.Schema) -> list[Part]:
    """The parts of some tests of events with an Arrow schema: of columns, of what is computed, and the rest as it comes."""
    conditions: dict[object, EventCondition] = {}
    for number, predicates in enumerate(tests):
        for predicate in predicates:
            item = EventCondition(bound, predicate, len(conditions))
            item = conditions.setdefault(item.identity, item)
            if number not in item.tests[-1:]:
                item.tests.append(number)
    groups: dict[tuple[p.Expression, pa.DataType], list[tuple[EventCondition, list[object]]]] = {}
    alone: list[Part] = []
    for item in conditions.values():
        found = _compared(item, events)
        if found is None:
            alone.append(Part([item]))
        else:
            groups.setdefault(found[:2], []).append((item, found[2]))
    parts = []
    for (operand, kind), members in groups.items():
        encoded = pa.types.is_dictionary(kind) and kind != _type_of(members[0][0], operand, events)
        if encoded and len(members) < WORTH_ENCODING:
            alone += [Part([item]) for item, _ in members]
            continue
        for some in (members[begin : begin + MOST_TOGETHER] for begin in range(0, len(members), MOST_TOGETHER)):
            parts.append(Part([item for item, _ in some], operand))
            parts[-1].prepare(kind, [value for _, constants in some for value in constants])
    parts.sort(key=lambda part: not part.on_column)
    return parts + alone


def in_order(conditions: Iterable[EventCondition]) -> list[EventCondition]:
    """Conditions that are judged on each event: what one rules out, those after it are not asked about."""
    return sorted(conditions, key=lambda item: item.place)


Compared = tuple[p.Expression, pa.DataType, list[object]]
"""An operand, the type of its values, and the constants that it is compared with."""


def _compared(item: EventCondition, events: pa.Schema) -> Compared | None:
    """What a condition compares with constants, if that is one operand, and its values can be told apart by them."""
    names = {node.name for node in item.attributes}
    if not names or item.calls_functions or item.lacking:
        return None
    own = p.Attribute("", next(iter(names)))
    column = events.field(own.name).type
    if len(names) == 1 and pa.types.is_dictionary(column):
        return own, column, []
    atoms = list(_atoms(item.predicate))
    operands = {_of_events(atom.operand, "") for atom in atoms if atom.operand is not None}
    if len(operands) == 1 and all(atom.known for atom in atoms):
        operand = operands.pop()
        kind = _type_of(item, operand, events)
        if is_told(kind, ordered=any(atom.ordered for atom in atoms)):
            return operand, kind, [value for atom in atoms for value in atom.constants]
    if len(names) == 1 and is_text(column):
        return own, pa.dictionary(pa.int32(), column), []
    return None


@dataclass(frozen=True, slots=True)
class _Atom:
    """A comparison of an operand (None: of constants only) with constants; or another condition, not `known`."""

    operand: p.Expression | None = None
    constants: tuple[object, ...] = ()
    ordered: bool = False
    known: bool = True


def _atoms(node: p.Expression) -> Iterator[_Atom]:
    """What AND, OR and NOT combine."""
    match node:
        case p.And() | p.Or() | p.Not():
            for child in p.children(node):
                yield from _atoms(child)
        case p.Literal():
            yield _Atom()
        case p.Attribute():
            yield _Atom(node)
        case p.IsNull(operand):
            yield _Atom(operand)
        case p.Comparison(operator, operand, p.Literal(value)) | p.Comparison(operator, p.Literal(value), operand):
            yield _Atom(operand, (value,), ordered=operator not in ("=", "!="))
        case p.Between(operand, p.Literal(low), p.Literal(high)):
            yield _Atom(operand, (low, high), ordered=True)
        case p.In(operand, tuple() as items) if all(isinstance(item, p.Literal) for item in items):
            yield _Atom(operand, tuple(item.value for item in items if isinstance(item, p.Literal)))
        case _:
            yield _Atom(known=False)


def _type_of(item: EventCondition, operand: p.Expression, events: pa.Schema) -> pa.DataType:
    if isinstance(operand, p.Attribute):
        return events.field(operand.name).type
    nothing = pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in events.types], events.names)
    return item.computed(operand, nothing, row_numbers(0))[0].type


def _of_events(expression: p.Expression, variable: str) -> p.Expression:
    """An expression over the events of a variable, whichever elements they are."""
    return _replaced(expression, lambda node: p.Attribute(variable, node.name) if isinstance(node, p.Attribute) else None)


def _replaced(node: p.Expression, rule: Callable[[p.Expression], p.Expression | None]) -> p.Expression:
    """An expression with parts replaced where the rule gives others; constants, of which there may be many, stay."""
    if isinstance(node, p.Literal):
        return node
    new = rule(node)
    if new is not None:
        return new
    if isinstance(node, p.In):
        return replace(node, operand=_replaced(node.operand, rule))
    changes: dict[str, Any] = {}
    for name in node.__dataclass_fields__:
        value = getattr(node, name)
        if isinstance(value, p.Expression):
            changes[name] = _replaced(value, rule)
        elif isinstance(value, tuple):
            changes[name] = tuple(_replaced(item, rule) if isinstance(item, p.Expression) else item for item in value)
    return replace(node, **changes)
