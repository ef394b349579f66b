"""The kind of every expression, and which kinds are compatible: numbers with numbers, text with text, times with durations.

One walk, bottom-up. An expression that does not fit is reported once: its kind then counts as NULL, which is compatible with
everything.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from kleene.common.errors import BindingError, Problem, nearest
from kleene.common.schema import EventSchema, Kind
from kleene.pattern import predicates as p
from kleene.pattern.functions import FUNCTIONS, Builtin, common_kind
from kleene.pattern.limits import MAX_LIKE
from kleene.pattern.moments import FineMoment
from kleene.pattern.naming import COUNT_OF_MATCHES
from kleene.pattern.registered import Function
from kleene.pattern.text import expression_text

_LITERAL_KINDS: dict[type, Kind] = {
    bool: Kind.BOOLEAN,
    int: Kind.INTEGER,
    float: Kind.FLOAT,
    str: Kind.STRING,
    dt.datetime: Kind.TIMESTAMP,
    FineMoment: Kind.TIMESTAMP,
    dt.timedelta: Kind.DURATION,
    type(None): Kind.NULL,
}
_NUMERIC = (Kind.INTEGER, Kind.FLOAT)
_UNORDERED = (Kind.BOOLEAN, Kind.OTHER)
_OPAQUE = "lists, structs and the like can be returned, and passed to your own functions: functions={...}"


def kind_of(expression: p.Expression, schema: EventSchema, names: Mapping[str, Kind] | None = None) -> Kind:
    """The kind of a bound expression over events of a schema; `names` gives kinds to bare names (aggregates in HAVING).

    >>> schema = EventSchema({"ts": Kind.TIMESTAMP, "price": Kind.INTEGER}, time="ts")
    >>> kind_of(p.Arithmetic("/", p.Attribute("a", "price"), p.Literal(2)), schema)
    <Kind.FLOAT: 'float'>
    """
    checker = KindChecker(schema, names or {})
    kind = checker.kind(expression)
    if checker.problems:
        raise BindingError(checker.problems)
    return kind


@dataclass
class KindChecker:
    """Walks expressions and collects problems."""

    schema: EventSchema
    names: Mapping[str, Kind] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    functions: Sequence[str] = ()
    """The names of registered functions, for hints."""

    def condition(self, expression: p.Expression) -> None:
        """Checks an expression that must be true or false."""
        kind = self.kind(expression)
        if kind not in (Kind.BOOLEAN, Kind.NULL):
            hint = _OPAQUE if kind is Kind.OTHER else "compare it with something"
            self._report(f"{_shown(expression)} is {a_kind(kind)}, not a condition", expression, hint)

    def kind(self, expression: p.Expression) -> Kind:
        """The kind of an expression; NULL if it has a problem."""
        match expression:
            case p.Literal(value):
                return self._literal(expression, value)
            case p.Name(name):
                return self.names.get(name, Kind.NULL)
            case p.Attribute(_, name, _):
                return self.schema.columns.get(name, Kind.NULL)
            case p.Length():
                return Kind.INTEGER
            case p.Aggregate():
                return self._aggregate(expression)
            case p.Call():
                return self._call(expression)
            case p.Arithmetic():
                return self._arithmetic(expression)
            case p.Negate(operand):
                kind = self.kind(operand)
                if kind.is_number or kind in (Kind.DURATION, Kind.NULL):
                    return kind
                hint = _OPAQUE if kind is Kind.OTHER else None
                return self._report(f"{_shown(operand)} is {a_kind(kind)} and cannot be negated", expression, hint)
        self._check_truth(expression)
        return Kind.BOOLEAN

    def _check_truth(self, expression: p.Expression) -> None:
        """Checks the operands of an expression that is true or false."""
        match expression:
            case p.And(operands) | p.Or(operands):
                for operand in operands:
                    self.condition(operand)
            case p.Not(operand):
                self.condition(operand)
            case p.Comparison(operator, left, right):
                self._comparable(expression, (left, right), ordered=operator not in ("=", "!="))
            case p.Between(operand, low, high):
                self._comparable(expression, (operand, low, high), ordered=True)
            case p.In(operand, tuple() as items):
                self._comparable(expression, (operand, *items), ordered=False)
            case p.Like(operand, pattern):
                self._like(expression, (operand, pattern))
            case p.IsNull(operand):
                self.kind(operand)
            case p.Equivalence(name, value) if value is not None:
                self._comparable(expression, (p.Attribute("", name), value), ordered=False)

    def _report(self, message: str, expression: p.Expression, hint: str | None = None) -> Kind:
        self.problems.append(Problem(message, expression.span, hint))
        return Kind.NULL

    def _literal(self, expression: p.Literal, value: object) -> Kind:
        if type(value) is int and not -(2**63) <= value < 2**63:
            return self._report("the number does not fit into 64 bits", expression, "write it as a float, with a decimal point")
        return _LITERAL_KINDS.get(type(value), Kind.OTHER)

    def _aggregate(self, expression: p.Aggregate) -> Kind:
        function = expression.function
        if function is p.AggregateFunction.COUNT:
            return Kind.INTEGER
        assert expression.name is not None
        kind = self.schema.columns.get(expression.name, Kind.NULL)
        result = aggregate_kind(function.value, kind)
        if result is None:
            return self._report(f"{function.value} cannot be taken of '{expression.name}', which is {a_kind(kind)}", expression)
        return result

    def _call(self, expression: p.Call) -> Kind:
        name, kinds = expression.function, [self.kind(argument) for argument in expression.arguments]
        if name == COUNT_OF_MATCHES:
            return Kind.INTEGER
        function = expression.registered or FUNCTIONS.get(name)
        if function is None:
            near = nearest(name, [*FUNCTIONS, *self.functions])
            hint = f"if it is your own Python function, pass it with the query: functions={{'{name}': ...}}"
            if near and near.startswith("did you mean"):
                hint = f"{near} Otherwise, {hint}"
            return self._report(f"unknown function '{name}'", expression, hint)
        if len(kinds) < function.low or (function.high is not None and len(kinds) > function.high):
            return self._report(f"{name} takes {function.arity}, found {len(kinds)}", expression)
        if isinstance(function, Function):
            return function.returns
        return self._builtin(expression, function, kinds)

    def _builtin(self, expression: p.Call, function: Builtin, kinds: Sequence[Kind]) -> Kind:
        name = expression.function
        if function.varying is not None:
            for argument in expression.arguments[function.varying :]:
                if not isinstance(argument, p.Literal):
                    return self._report(f"{name} takes a constant here, found {_shown(argument)}", argument)
        result = function.rule(kinds)
        if isinstance(result, Kind):
            return result
        found = ", ".join(kind.value for kind in kinds)
        hint = _OPAQUE if Kind.OTHER in kinds else None
        return self._report(f"{name} takes {result}, found {found}", expression, hint)

    def _arithmetic(self, expression: p.Arithmetic) -> Kind:
        left, right = self.kind(expression.left), self.kind(expression.right)
        result = arithmetic_kind(expression.operator, left, right)
        if result is not None:
            return result
        hint = _OPAQUE if Kind.OTHER in (left, right) else None
        if Kind.STRING in (left, right) and expression.operator == "+":
            hint = "to join strings use concat(x, y)"
        elif {left, right} <= {Kind.TIMESTAMP, *_NUMERIC}:
            hint = "write a duration, such as 5 minutes"
        message = f"cannot compute {left.value} {expression.operator} {right.value} in {_shown(expression)}"
        return self._report(message, expression, hint)

    def _comparable(self, expression: p.Expression, operands: Sequence[p.Expression], *, ordered: bool) -> None:
        kinds = [self.kind(operand) for operand in operands]
        common = common_kind(kinds)
        if common is not None and not (ordered and common in _UNORDERED) and Kind.OTHER not in kinds:
            return
        shown = ", ".join(f"{_shown(operand)} is {a_kind(kind)}" for operand, kind in zip(operands, kinds, strict=True))
        if Kind.OTHER in kinds:
            self._report(f"lists, structs and the like cannot be compared: {shown}", expression, _OPAQUE)
        elif common is None:
            # The first may be NULL, which is of every kind.
            pairs = combinations(range(len(kinds)), 2)
            one, other = next(pair for pair in pairs if common_kind([kinds[place] for place in pair]) is None)
            left, right = _shown(operands[one]), _shown(operands[other])
            message = f"cannot compare {left}, {a_kind(kinds[one])}, with {right}, {a_kind(kinds[other])}"
            self._report(message, expression, _comparison_hint(kinds[one], kinds[other]))
        elif ordered and common in _UNORDERED:
            self._report(f"booleans have no order: {shown}", expression, "compare with = or !=")

    def _like(self, expression: p.Expression, operands: Sequence[p.Expression]) -> None:
        if not isinstance(operands[1], p.Literal):
            hint = "write it as text: LIKE 'abc%'"
            self._report(f"the pattern of LIKE is a constant, found {_shown(operands[1])}", operands[1], hint)
            return
        if isinstance(operands[1].value, str) and len(operands[1].value) > MAX_LIKE:
            message = f"the pattern of LIKE has {len(operands[1].value):,} characters; the limit is {MAX_LIKE:,}"
            self._report(message, operands[1], "shorten it, or compare with a precomputed column")
        for operand in operands:
            kind = self.kind(operand)
            if kind not in (Kind.STRING, Kind.NULL):
                self._report(f"LIKE compares strings, but {_shown(operand)} is {a_kind(kind)}", expression)


def a_kind(kind: Kind) -> str:
    """A kind with its article.

    >>> a_kind(Kind.INTEGER), a_kind(Kind.STRING)
    ('an integer', 'a string')
    """
    if kind is Kind.OTHER:
        return "of another kind"
    return f"an {kind.value}" if kind is Kind.INTEGER else f"a {kind.value}"


def aggregate_kind(function: str, kind: Kind) -> Kind | None:
    """The kind of an aggregate over values of a kind; None if it is not defined for it.

    >>> aggregate_kind("avg", Kind.INTEGER), aggregate_kind("sum", Kind.STRING)
    (<Kind.FLOAT: 'float'>, None)
    """
    if function == "count":
        return Kind.INTEGER
    if function in ("first", "last") or kind is Kind.NULL:
        return kind
    if function in ("min", "max"):
        return None if kind in _UNORDERED else kind
    if function == "stddev":
        return Kind.FLOAT if kind.is_number else None
    if kind is Kind.DURATION:
        return Kind.DURATION
    if not kind.is_number:
        return None
    return Kind.FLOAT if function == "avg" else kind


def arithmetic_kind(operator: str, left: Kind, right: Kind) -> Kind | None:
    """The kind of `left operator right`; None if the kinds are incompatible.

    >>> arithmetic_kind("-", Kind.TIMESTAMP, Kind.TIMESTAMP), arithmetic_kind("+", Kind.STRING, Kind.STRING)
    (<Kind.DURATION: 'duration'>, None)
    """
    if Kind.NULL in (left, right):
        other = right if left is Kind.NULL else left
        return None if other in (Kind.STRING, Kind.BOOLEAN, Kind.OTHER) else Kind.NULL
    if left.is_number and right.is_number:
        return Kind.FLOAT if operator == "/" or Kind.FLOAT in (left, right) else Kind.INTEGER
    return _TIME_ARITHMETIC.get((operator, left, right))


_TIME_ARITHMETIC: dict[tuple[str, Kind, Kind], Kind] = {
    ("-", Kind.TIMESTAMP, Kind.TIMESTAMP): Kind.DURATION,
    ("+", Kind.TIMESTAMP, Kind.DURATION): Kind.TIMESTAMP,
    ("-", Kind.TIMESTAMP, Kind.DURATION): Kind.TIMESTAMP,
    ("+", Kind.DURATION, Kind.TIMESTAMP): Kind.TIMESTAMP,
    ("+", Kind.DURATION, Kind.DURATION): Kind.DURATION,
    ("-", Kind.DURATION, Kind.DURATION): Kind.DURATION,
    ("/", Kind.DURATION, Kind.DURATION): Kind.FLOAT,
    **{("*", Kind.DURATION, number): Kind.DURATION for number in _NUMERIC},
    **{("*", number, Kind.DURATION): Kind.DURATION for number in _NUMERIC},
    **{("/", Kind.DURATION, number): Kind.DURATION for number in _NUMERIC},
}


def _shown(expression: p.Expression) -> str:
    if isinstance(expression, p.Attribute) and not expression.variable:
        return f"[{expression.name}]"
    text = expression_text(expression)
    return text if len(text) <= 60 else text[:57] + "..."


def _comparison_hint(left: Kind, right: Kind) -> str | None:
    kinds = {left, right}
    if Kind.STRING in kinds and kinds & set(_NUMERIC):
        return "write both as numbers or both as text, or convert the column"
    if kinds & set(_NUMERIC) and Kind.DURATION in kinds:
        return "write a duration, such as 5 minutes"
    if kinds & set(_NUMERIC) and Kind.TIMESTAMP in kinds:
        return "write a timestamp, such as '2024-01-31 10:00:00'"
    return None
