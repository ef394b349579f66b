"""What an expression means on the events bound so far: three-valued logic, Kleene elements, attributes that a type lacks.

A `Condition` is one top-level conjunct with its quantifiers made explicit: a conjunct that reads `a[i]` (or `a[i-1]`,
`a[..i-1]`) must hold for every i > 1, one that reads plain `a[].x` for every element. An atomic predicate (anything that is
not AND, OR, NOT) that reads an attribute which the type of the bound event is declared without is true by definition (SASE
section 2.2.2). NOT is pushed to the atoms first, so the negation of such a predicate is true as well.

Plain and slow on purpose: the tree is walked for every evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product

from kleene.common.errors import DataError
from kleene.pattern import predicates as p
from kleene.pattern.bound import BoundQuery
from kleene.pattern.kinds import kind_of
from kleene.testing import functions
from kleene.testing.functions import Value, plain

Bindings = Mapping[str, int | tuple[int, ...]]
"""Variable to the position of its event; for a Kleene variable the positions of its elements, in order."""

RUNNING = (p.Element.CURRENT, p.Element.PREVIOUS, p.Element.SO_FAR)
"""Elements that exist while the Kleene variable is still growing, from the second element on."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Where an expression is evaluated: the events, their types, what is bound, and the elements that quantifiers stand on."""

    bound: BoundQuery
    events: Sequence[Mapping[str, Value]]
    types: Sequence[str | None]
    bindings: Bindings
    current: Mapping[str, int] = field(default_factory=dict)
    """For `a[i]`: the index (from 0) of the current element of each running variable."""
    each: Mapping[str, int] = field(default_factory=dict)
    """For plain `a[].x`: the index of the element under test."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A top-level conjunct, its variables and the quantifiers over their elements."""

    expression: p.Expression
    variables: frozenset[str]
    running: tuple[str, ...]
    """Variables read at `a[i]`, `a[i-1]` or `a[..i-1]`: the condition holds for every i > 1."""
    each: tuple[str, ...]
    """Variables read as plain `a[].x`: the condition holds for every element."""
    whole: frozenset[str]
    """Variables of which the complete array is read: `a[a.LEN]`, `a.LEN`, `a[]`, `f(a[].x)`; decided on proceed."""


def condition(bound: BoundQuery, expression: p.Expression) -> Condition:
    """A conjunct with its quantifiers. `a.x` of a Kleene variable is read as `a[].x`."""
    kleene = {event.variable for event in bound.components if event.is_kleene}
    running: dict[str, None] = {}
    each: dict[str, None] = {}
    whole: set[str] = set()
    for node in p.walk(expression):
        if isinstance(node, p.Attribute | p.Aggregate) and node.element in RUNNING:
            running[node.variable] = None
        elif isinstance(node, p.Attribute) and node.variable in kleene and node.element in (p.Element.EACH, p.Element.SINGLE):
            each[node.variable] = None
            whole.add(node.variable)
        elif isinstance(node, p.Length | p.Aggregate) or (isinstance(node, p.Attribute) and node.element is p.Element.LAST):
            whole.add(node.variable)
    return Condition(expression, p.variables(expression), tuple(running), tuple(each), frozenset(whole))


def holds(item: Condition, frame: Frame) -> bool:
    """Whether a condition is true for every element its quantifiers range over; unknown is not true. An error is raised only
    if it is true for all the others.
    """
    later = [range(1, len(_elements(frame, variable))) for variable in item.running]
    every = [range(len(_elements(frame, variable))) for variable in item.each]
    return all_hold(partial(_holds_for, item, frame, choice) for choice in product(*later, *every))


def _holds_for(item: Condition, frame: Frame, choice: tuple[int, ...]) -> bool:
    """Whether a condition is true for a choice of elements, those of the running variables first."""
    current = dict(zip(item.running, choice, strict=False))
    each = dict(zip(item.each, choice[len(item.running) :], strict=True))
    return truth(item.expression, replace(frame, current=current, each=each)) is True


def all_hold(asked: Iterable[Callable[[], bool]]) -> bool:
    """Whether all conditions hold; an error of one is raised only if the others do."""
    error: DataError | None = None
    for ask in asked:
        try:
            if not ask():
                return False
        except DataError as found:
            error = error or found
    if error is not None:
        raise error
    return True


def truth(expression: p.Expression, frame: Frame, *, negated: bool = False) -> bool | None:
    """The three-valued truth of a condition; unknown is None. An error in an operand of AND (OR) is raised only if no other one
    is false or unknown (true).

    `negated` asks for the truth of NOT, which is pushed to the atoms: one that reads what a type lacks holds negated, too.
    """
    if isinstance(expression, p.And | p.Or):
        every = isinstance(expression, p.And) != negated
        return _decided([partial(truth, operand, frame, negated=negated) for operand in expression.operands], every=every)
    if isinstance(expression, p.Not):
        return truth(expression.operand, frame, negated=not negated)
    if _reads_lacking(expression, frame):
        return True
    result = value(expression, frame)
    return None if result is None else bool(result) != negated


def _decided(operands: Sequence[Callable[[], bool | None]], *, every: bool) -> bool | None:
    """AND (every) or OR of operands, some of which may fail."""
    found: list[bool | None] = []
    error: DataError | None = None
    for operand in operands:
        try:
            found.append(operand())
        except DataError as raised:
            error = error or raised
    hidden = (False in found or None in found) if every else True in found
    if error is not None and not hidden:
        raise error
    return _combined(found, every=every)


def _combined(found: Sequence[bool | None], *, every: bool) -> bool | None:
    """AND (every) or OR of truths: one that decides, else unknown if one is."""
    if (not every) in found:
        return not every
    return None if None in found else every


def _reads_lacking(expression: p.Expression, frame: Frame) -> bool:
    """Whether an atomic predicate reads an attribute that the type of an event it reads is declared without."""
    if frame.bound.schema.types is None:
        return False
    for node in p.walk(expression):
        if not isinstance(node, p.Attribute | p.Aggregate) or node.name is None:
            continue
        if any(_lacks(frame, position, node.name) for position in _positions(node, frame)):
            return True
    return False


def _lacks(frame: Frame, position: int, name: str) -> bool:
    event_type = frame.types[position]
    return event_type is not None and frame.bound.lacks(event_type, name)


def _elements(frame: Frame, variable: str) -> tuple[int, ...]:
    """The positions bound to a variable; none if its branch is not the matched one."""
    found = frame.bindings.get(variable, ())
    return found if isinstance(found, tuple) else (found,)


def _positions(node: p.Attribute | p.Aggregate, frame: Frame) -> tuple[int, ...]:
    """The events that a reference reads, in order."""
    elements = _elements(frame, node.variable)
    i = frame.current.get(node.variable, len(elements))
    read = {
        p.Element.FIRST: elements[:1],
        p.Element.LAST: elements[-1:],
        p.Element.CURRENT: elements[i : i + 1],
        p.Element.PREVIOUS: elements[i - 1 : i],
        p.Element.SO_FAR: elements[:i],
    }
    if node.element in read:
        return read[node.element]
    if isinstance(node, p.Attribute) and node.variable in frame.each:
        index = frame.each[node.variable]
        return elements[index : index + 1]
    return elements


def attribute(frame: Frame, position: int, name: str) -> Value:
    """An attribute of one event: NULL where it has none."""
    return None if _lacks(frame, position, name) else plain(frame.events[position].get(name))


def value(expression: p.Expression, frame: Frame) -> Value:
    """The value of an expression; None is NULL (and unknown)."""
    match expression:
        case p.Literal():
            return plain(expression.value)
        case p.Attribute():
            return _attribute_value(expression, frame)
        case p.Length():
            return len(_elements(frame, expression.variable)) if expression.variable in frame.bindings else None
        case p.Aggregate():
            return _aggregate_value(expression, frame)
        case p.Arithmetic(operator, left, right):
            return functions.arithmetic(operator, value(left, frame), value(right, frame))
        case p.Negate(operand):
            return functions.negate(value(operand, frame))
        case p.Comparison(operator, left, right):
            return functions.compare(operator, value(left, frame), value(right, frame))
        case p.In(operand, items):
            assert not isinstance(items, p.Name), "parameters are literals in a bound query"
            left_value = value(operand, frame)
            return _combined([functions.compare("=", left_value, value(item, frame)) for item in items], every=False)
        case p.Between(operand, low, high):
            tested = value(operand, frame)
            bounds = ((">=", low), ("<=", high))
            return _combined([functions.compare(symbol, tested, value(bound, frame)) for symbol, bound in bounds], every=True)
        case p.Like(operand, pattern):
            return functions.like(value(operand, frame), value(pattern, frame))
        case p.IsNull(operand):
            return value(operand, frame) is None
        case p.Call():
            return _call_value(expression, frame)
        case p.And() | p.Or() | p.Not():
            _compute(expression, frame)
            return truth(expression, frame)
    raise AssertionError(f"no meaning for {expression!r} in a bound query")


def _compute(expression: p.Expression, frame: Frame) -> None:
    """Computes all that is in a condition which is a value: inside an atom, and in RETURN, every error counts."""
    if not isinstance(expression, p.And | p.Or | p.Not):
        truth(expression, frame)
        return
    for operand in p.children(expression):
        _compute(operand, frame)


def _call_value(node: p.Call, frame: Frame) -> Value:
    arguments = [value(argument, frame) for argument in node.arguments]
    if node.registered is None:
        return functions.call(node.function, arguments)
    kinds = [kind_of(argument, frame.bound.schema) for argument in node.arguments]
    return functions.call_registered(node.registered, arguments, kinds)


def _attribute_value(node: p.Attribute, frame: Frame) -> Value:
    found = [attribute(frame, position, node.name) for position in _positions(node, frame)]
    whole_array = isinstance(frame.bindings.get(node.variable), tuple) and node.variable not in frame.each
    if whole_array and node.element in (p.Element.EACH, p.Element.SINGLE):
        return found
    return found[0] if found else None


def _aggregate_value(node: p.Aggregate, frame: Frame) -> Value:
    positions = _positions(node, frame)
    if node.name is None:
        return len(positions) if node.variable in frame.bindings else None
    return aggregate(node.function, [attribute(frame, position, node.name) for position in positions])


def aggregate(function: p.AggregateFunction, values: Sequence[Value]) -> Value:
    """An aggregate in order of the elements; NULLs are skipped except by first and last; of nothing it is NULL, a count 0.

    >>> aggregate(p.AggregateFunction.AVG, [1, None, 2]), aggregate(p.AggregateFunction.SUM, [])
    (1.5, None)
    """
    if function is p.AggregateFunction.FIRST:
        return values[0] if values else None
    if function is p.AggregateFunction.LAST:
        return values[-1] if values else None
    known = [item for item in values if item is not None]
    if function is p.AggregateFunction.COUNT:
        return len(known)
    if not known:
        return None
    if function is p.AggregateFunction.MIN:
        return functions.call("least", known)
    if function is p.AggregateFunction.MAX:
        return functions.call("greatest", known)
    if function is p.AggregateFunction.STDDEV:
        return _stddev([float(item) for item in known])
    total = known[0]
    for item in known[1:]:
        total += item
    # Of integers a sum is exact, and an error only if it does not fit itself.
    if function is p.AggregateFunction.SUM:
        return functions.checked(total)
    return functions.arithmetic("/", total, len(known))


def _stddev(known: Sequence[float]) -> float | None:
    """The sample standard deviation (n - 1); NULL of fewer than two values."""
    if len(known) < 2:
        return None
    mean = math.fsum(known) / len(known)
    return math.sqrt(math.fsum((item - mean) ** 2 for item in known) / (len(known) - 1))
