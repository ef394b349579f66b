"""Conditions and expressions from Python: terms made by operators, `var`, `param`, `call`, `same` and the aggregates.

A condition is data: it has no truth value, so `and`, `or`, `not` and chained comparisons raise; write `&`, `|`, `~`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from kleene.common.errors import BindingError, Problem
from kleene.pattern import predicates as p
from kleene.pattern.naming import COUNT_OF_MATCHES
from kleene.pattern.parameters import literal_of
from kleene.pattern.text import expression_text

Binary = Callable[[Any, Any], "Term"]


def _operator(kind: type[p.Comparison | p.Arithmetic], sign: str) -> Binary:
    return lambda left, right: Term(kind(sign, expression_of(left), expression_of(right)))


def _joined(join: Callable[[list[p.Expression]], p.Expression | None]) -> Binary:
    def joined(left: object, right: object) -> Term:
        term = join([expression_of(left), expression_of(right)])
        assert term is not None
        return Term(term)

    return joined


def _both_ways(operator: Binary) -> tuple[Binary, Binary]:
    """An operator, and the same with its operands exchanged."""
    return operator, lambda right, left: operator(left, right)


class Term:
    """An expression under construction; operators make larger ones."""

    __slots__ = ("expression",)
    expression: p.Expression

    def __init__(self, expression: p.Expression) -> None:
        object.__setattr__(self, "expression", expression)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("expressions are immutable")

    def __repr__(self) -> str:
        return expression_text(self.expression)

    def __bool__(self) -> bool:
        raise TypeError(
            "a condition has no truth value here: write & for AND, | for OR, ~ for NOT (with parentheses around comparisons), "
            "and split chained comparisons"
        )

    __hash__ = object.__hash__

    __eq__ = _operator(p.Comparison, "=")  # type: ignore[assignment]
    __ne__ = _operator(p.Comparison, "!=")  # type: ignore[assignment]
    __lt__ = _operator(p.Comparison, "<")
    __le__ = _operator(p.Comparison, "<=")
    __gt__ = _operator(p.Comparison, ">")
    __ge__ = _operator(p.Comparison, ">=")
    __add__, __radd__ = _both_ways(_operator(p.Arithmetic, "+"))
    __sub__, __rsub__ = _both_ways(_operator(p.Arithmetic, "-"))
    __mul__, __rmul__ = _both_ways(_operator(p.Arithmetic, "*"))
    __truediv__, __rtruediv__ = _both_ways(_operator(p.Arithmetic, "/"))
    __mod__, __rmod__ = _both_ways(_operator(p.Arithmetic, "%"))
    __and__, __rand__ = _both_ways(_joined(p.conjunction))
    __or__, __ror__ = _both_ways(_joined(p.disjunction))

    def __neg__(self) -> Term:
        return Term(p.Negate(self.expression))

    def __abs__(self) -> Term:
        return Term(p.Call("abs", (self.expression,)))

    def __invert__(self) -> Term:
        return Term(p.Not(self.expression))

    def isin(self, items: Iterable[object] | Term) -> Term:
        """Membership in a list of values, or in a parameter: `a.ticker.isin(param("finance"))`."""
        if isinstance(items, Term):
            if not isinstance(items.expression, p.Name):
                raise TypeError("isin takes a list of values, or param('name')")
            return Term(p.In(self.expression, items.expression))
        if isinstance(items, str):
            raise TypeError("isin takes a list of values, not one string")
        return Term(p.In(self.expression, tuple(expression_of(item) for item in items)))

    def between(self, low: object, high: object) -> Term:
        """`x BETWEEN low AND high`, both ends included."""
        return Term(p.Between(self.expression, expression_of(low), expression_of(high)))

    def like(self, pattern: object) -> Term:
        """`x LIKE pattern`: `%` is any run of characters, `_` one."""
        return Term(p.Like(self.expression, expression_of(pattern)))

    def is_null(self) -> Term:
        """`x IS NULL`; its opposite is `~x.is_null()`."""
        return Term(p.IsNull(self.expression))


class _NotAValue(ABC):
    """A reference to events, whose attributes can be compared. Python would silently evaluate `a.first == 3` to False."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> NoReturn:
        raise self._misuse()

    def __ne__(self, other: object) -> NoReturn:
        raise self._misuse()

    def __bool__(self) -> NoReturn:
        raise self._misuse()

    def _misuse(self) -> TypeError:
        return TypeError(f"{self!r} is not a value: compare one of its attributes, such as .price or ['odd name']")

    @abstractmethod
    def __getitem__(self, name: str) -> Term:
        """An attribute."""

    def __getattr__(self, name: str) -> Term:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]


@dataclass(frozen=True, slots=True, eq=False)
class _Elements(_NotAValue):
    """Some elements of a variable: `a.first`, `a.so_far`, ...; attributes of it are terms."""

    _variable: str
    _element: p.Element

    def __getitem__(self, name: str) -> Term:
        return Term(p.Attribute(self._variable, name, self._element))

    def __repr__(self) -> str:
        return expression_text(p.Attribute(self._variable, "x", self._element))[:-2]


class Variable(_NotAValue):
    """A variable of the pattern: `a.price` is its attribute, `a["odd name"]` too, `a.first.price` that of an element."""

    __slots__ = ("_variable",)

    def __init__(self, name: str) -> None:
        self._variable = name

    def __getitem__(self, name: str) -> Term:
        return Term(p.Attribute(self._variable, name))

    def __repr__(self) -> str:
        return f"var({self._variable!r})"

    @property
    def first(self) -> _Elements:
        """`a[1]`."""
        return _Elements(self._variable, p.Element.FIRST)

    @property
    def current(self) -> _Elements:
        """`a[i]`."""
        return _Elements(self._variable, p.Element.CURRENT)

    @property
    def previous(self) -> _Elements:
        """`a[i-1]`."""
        return _Elements(self._variable, p.Element.PREVIOUS)

    @property
    def last(self) -> _Elements:
        """`a[a.LEN]`."""
        return _Elements(self._variable, p.Element.LAST)

    @property
    def each(self) -> _Elements:
        """`a[]`."""
        return _Elements(self._variable, p.Element.EACH)

    @property
    def so_far(self) -> _Elements:
        """`a[..i-1]`, inside an aggregate."""
        return _Elements(self._variable, p.Element.SO_FAR)

    @property
    def len(self) -> Term:
        """`a.LEN`."""
        return Term(p.Length(self._variable))


def var(name: str) -> Variable:
    """A variable of the pattern, for conditions.

    >>> a, b = var("a"), var("b")
    >>> (a.price < b.price) & ~a["odd name"].isin(["x", "y"])
    a.price < b.price AND NOT a.`odd name` IN ('x', 'y')
    """
    return Variable(name)


def param(name: str) -> Term:
    """A parameter: a bare name, whose value is given when the query is bound.

    >>> var("a").ticker.isin(param("Finance"))
    a.ticker IN Finance
    """
    return Term(p.Name(name))


def call(function: str, *arguments: object) -> Term:
    """A scalar function of the language.

    >>> call("least", var("a").price, 3)
    least(a.price, 3)
    """
    return Term(p.Call(function.lower(), tuple(expression_of(argument) for argument in arguments)))


def same(*attributes: str, value: object = None) -> Term:
    """The equivalence test `[attr]`: all components agree on the attributes (and have that value).

    >>> same("tag_id"), same("id", value=3)
    ([tag_id], [id = 3])
    """
    fixed = None if value is None else expression_of(value)
    if not attributes:
        raise TypeError("same needs the name of an attribute")
    if fixed is not None and not isinstance(fixed, p.Literal | p.Name):
        raise TypeError("same(..., value=) takes a constant or param('name')")
    term = p.conjunction([p.Equivalence(name, fixed) for name in attributes])
    assert term is not None
    return Term(term)


def expression_of(value: object) -> p.Expression:
    """A term's expression, or a Python value as a constant."""
    if isinstance(value, Term):
        return value.expression
    if isinstance(value, p.Expression):
        return value
    try:
        literal = literal_of(value)
    except ValueError as error:
        raise BindingError(Problem(str(error))) from error
    if literal is None:
        raise TypeError(f"a {type(value).__name__} cannot be in a condition: use numbers, strings, booleans, times or terms")
    return literal


def _aggregate(function: p.AggregateFunction, argument: object) -> Term:
    if isinstance(argument, Term) and isinstance(argument.expression, p.Attribute):
        node = argument.expression
        element = p.Element.EACH if node.element is p.Element.SINGLE else node.element
        if element in (p.Element.EACH, p.Element.SO_FAR):
            return Term(p.Aggregate(function, node.variable, node.name, element))
    raise TypeError(f"{function.value} takes the elements of a variable: a.each.price, a.so_far.price, or a.price in agg(...)")


def count(argument: Variable | _Elements | None = None) -> Term:
    """`count(a.each)`, `count(a.so_far)`; without argument the number of matches, for `agg` and `having`.

    >>> count(var("a").so_far), count()
    (count(a[..i-1]), COUNT(*))
    """
    if argument is None:
        return Term(p.Call(COUNT_OF_MATCHES, ()))
    # Public names on these two would hide attributes of events.
    element = argument._element if isinstance(argument, _Elements) else p.Element.EACH  # noqa: SLF001
    if element not in (p.Element.EACH, p.Element.SO_FAR):
        raise TypeError("count takes a.each or a.so_far")
    return Term(p.Aggregate(p.AggregateFunction.COUNT, argument._variable, None, element))  # noqa: SLF001


def sum_(argument: Term) -> Term:
    """`sum(a[].x)`."""
    return _aggregate(p.AggregateFunction.SUM, argument)


def avg(argument: Term) -> Term:
    """`avg(a[].x)`.

    >>> avg(var("a").so_far.price)
    avg(a[..i-1].price)
    """
    return _aggregate(p.AggregateFunction.AVG, argument)


def min_(argument: Term) -> Term:
    """`min(a[].x)`."""
    return _aggregate(p.AggregateFunction.MIN, argument)


def max_(argument: Term) -> Term:
    """`max(a[].x)`."""
    return _aggregate(p.AggregateFunction.MAX, argument)


def first(argument: Term) -> Term:
    """`first(a[].x)`."""
    return _aggregate(p.AggregateFunction.FIRST, argument)


def last(argument: Term) -> Term:
    """`last(a[].x)`."""
    return _aggregate(p.AggregateFunction.LAST, argument)


def stddev(argument: Term) -> Term:
    """`stddev(a[].x)`."""
    return _aggregate(p.AggregateFunction.STDDEV, argument)
