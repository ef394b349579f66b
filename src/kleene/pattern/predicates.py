"""Conditions and expressions as data: frozen trees that are compared, hashed, printed, pushed down and compiled.

Nothing here evaluates anything. `span` is the position of a node in the query text; comparisons ignore it, so a parsed and a
built query with the same meaning are equal.

Logic is three-valued (SQL): a comparison with a NULL operand is unknown, and an unknown predicate does not hold.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

from kleene.common.errors import Span
from kleene.pattern.moments import Moment
from kleene.pattern.registered import Function


class Element(enum.Enum):
    """Which element of a variable an attribute reference reads (SASE+ section 2)."""

    SINGLE = "a.x"
    """The event of a variable that is not Kleene."""
    FIRST = "a[1].x"
    CURRENT = "a[i].x"
    """Any element after the first, at the moment it is taken."""
    PREVIOUS = "a[i-1].x"
    SO_FAR = "a[..i-1].x"
    """All elements taken before the current one; only inside an aggregate."""
    LAST = "a[a.LEN].x"
    EACH = "a[].x"
    """Inside an aggregate: all elements. Outside: the condition must hold for every element."""


class AggregateFunction(enum.Enum):
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    FIRST = "first"
    LAST = "last"
    STDDEV = "stddev"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """Base of all nodes."""

    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """A constant: int, float, str, bool, None, a moment or timedelta (naive datetimes are UTC)."""

    value: int | float | str | bool | Moment | dt.timedelta | None

    def __eq__(self, other: object) -> bool:
        # 1, 1.0 and True are equal in Python but are different constants of the language.
        if not isinstance(other, Literal) or type(self.value) is not type(other.value):
            return False
        return self.value == other.value or (self.value != self.value and other.value != other.value)  # NaN is one constant

    def __hash__(self) -> int:
        return hash((type(self.value), self.value if self.value == self.value else None))


@dataclass(frozen=True, slots=True)
class Name(Expression):
    """A bare name: an attribute if the pattern has one component, else a parameter."""

    name: str


@dataclass(frozen=True, slots=True)
class Attribute(Expression):
    """An attribute of the event(s) bound to a variable."""

    variable: str
    name: str
    element: Element = Element.SINGLE


@dataclass(frozen=True, slots=True)
class Length(Expression):
    """`a.LEN`: the number of events of a Kleene variable."""

    variable: str


@dataclass(frozen=True, slots=True)
class Aggregate(Expression):
    """`avg(a[..i-1].price)`, `sum(a[].x)`, `count(a[])` (argument `name` is then None)."""

    function: AggregateFunction
    variable: str
    name: str | None
    element: Element
    """SO_FAR or EACH."""


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """A scalar or registered function, its name in lower case."""

    function: str
    arguments: tuple[Expression, ...]
    registered: Function | None = field(default=None, repr=False)
    """In a bound query, the user function of that name; None for a built-in one."""


@dataclass(frozen=True, slots=True)
class Arithmetic(Expression):
    """`+ - * / %`; `/` is true division, `%` the remainder with the sign of the dividend; by zero is NULL."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Negate(Expression):
    """Unary minus."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Comparison(Expression):
    """`= != < <= > >=`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class In(Expression):
    """`x IN (1, 2)`, or `x IN name` with a parameter that holds the list."""

    operand: Expression
    items: tuple[Expression, ...] | Name


@dataclass(frozen=True, slots=True)
class Between(Expression):
    """`x BETWEEN low AND high`, both ends included."""

    operand: Expression
    low: Expression
    high: Expression


@dataclass(frozen=True, slots=True)
class Like(Expression):
    """`x LIKE 'a%_'`: `%` any run of characters, `_` one character, backslash escapes."""

    operand: Expression
    pattern: Expression


@dataclass(frozen=True, slots=True)
class IsNull(Expression):
    operand: Expression


@dataclass(frozen=True, slots=True)
class Not(Expression):
    operand: Expression


@dataclass(frozen=True, slots=True)
class Fails(Expression):
    """Whether evaluating a condition leaves 64 bits; never unknown, and not expressible in a query.

    See `kleene.pattern.faults`.
    """

    operand: Expression


@dataclass(frozen=True, slots=True)
class And(Expression):
    """Two or more conjuncts, none of which is itself an `And`."""

    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or(Expression):
    """Two or more alternatives, none of which is itself an `Or`."""

    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Equivalence(Expression):
    """`[attr]`: all components, negative ones included, agree on the attribute. `[attr='v']` also fixes its value."""

    name: str
    value: Literal | Name | None = None


def conjunction(operands: Iterator[Expression] | tuple[Expression, ...] | list[Expression]) -> Expression | None:
    """The flattened AND of the operands; None of none, the operand itself of one.

    >>> conjunction([Literal(True)])
    Literal(value=True)
    """
    return _flat(And, tuple(operands))


def disjunction(operands: Iterator[Expression] | tuple[Expression, ...] | list[Expression]) -> Expression | None:
    """The flattened OR of the operands; None of none, the operand itself of one."""
    return _flat(Or, tuple(operands))


def _flat(kind: type[And | Or], operands: tuple[Expression, ...]) -> Expression | None:
    flat: list[Expression] = []
    for operand in operands:
        flat.extend(operand.operands if isinstance(operand, kind) else (operand,))
    if len(flat) < 2:
        return flat[0] if flat else None
    starts, ends = flat[0].span, flat[-1].span
    return kind(tuple(flat), span=Span(starts.start, ends.end) if starts and ends else None)


def conjuncts(expression: Expression | None) -> tuple[Expression, ...]:
    """The top-level conjuncts of a condition."""
    if expression is None:
        return ()
    return expression.operands if isinstance(expression, And) else (expression,)


def mirrored(comparison: Comparison) -> Comparison:
    """A comparison with its sides exchanged, which says the same."""
    operator = comparison.operator.translate(str.maketrans("<>", "><"))
    return replace(comparison, operator=operator, left=comparison.right, right=comparison.left)


def push_not(expression: Expression) -> Expression:
    """A NOT of AND, OR or NOT, pushed one step towards the atoms (De Morgan); anything else unchanged."""
    if not isinstance(expression, Not):
        return expression
    inner = expression.operand
    if isinstance(inner, Not):
        return push_not(inner.operand)
    if isinstance(inner, And | Or):
        return (Or if isinstance(inner, And) else And)(tuple(Not(operand) for operand in inner.operands))
    return expression


def children(expression: Expression) -> Iterator[Expression]:
    """The direct sub-expressions, left to right."""
    for name in _FIELDS.get(type(expression)) or _field_names(type(expression)):
        value = getattr(expression, name)
        if isinstance(value, Expression):
            yield value
        elif isinstance(value, tuple):
            yield from (item for item in value if isinstance(item, Expression))


_FIELDS: dict[type[Expression], tuple[str, ...]] = {}


def _field_names(kind: type[Expression]) -> tuple[str, ...]:
    _FIELDS[kind] = tuple(spec.name for spec in fields(kind))
    return _FIELDS[kind]


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and all its sub-expressions, parents first, without recursion (trees may be deep)."""
    stack = [expression]
    while stack:
        node = stack.pop()
        yield node
        if type(node) is not Literal:  # of which there may be many
            stack.extend(reversed(list(children(node))))


def transform(expression: Expression, rule: Callable[[Expression], Expression]) -> Expression:
    """Rewrites bottom-up; a node whose children did not change is the same object."""
    if type(expression) is Literal:
        return rule(expression)
    changes: dict[str, Any] = {}
    for name in _FIELDS.get(type(expression)) or _field_names(type(expression)):
        value = getattr(expression, name)
        if isinstance(value, Expression):
            new: Any = transform(value, rule)
        elif isinstance(value, tuple):
            new = tuple(transform(item, rule) if isinstance(item, Expression) else item for item in value)
            if all(a is b for a, b in zip(new, value, strict=True)):
                new = value
        else:
            continue
        if new is not value:
            changes[name] = new
    return rule(replace(expression, **changes) if changes else expression)


def attributes(*expressions: Expression) -> Iterator[str]:
    """The names of the attributes that expressions read, as often as they are read."""
    for node in (node for expression in expressions for node in walk(expression)):
        if isinstance(node, Attribute | Aggregate) and node.name is not None:
            yield node.name


def variables(expression: Expression) -> frozenset[str]:
    """The variables that an expression reads."""
    return frozenset(node.variable for node in walk(expression) if isinstance(node, Attribute | Length | Aggregate))
