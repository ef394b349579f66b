"""Patterns, expressions and queries as text of the language, with as few parentheses as it needs.

Invariant: parsing the text gives the same data again. One pass over the tree; the depth of recursion is the depth of the tree,
which `kleene.pattern.limits.MAX_DEPTH` bounds for every query that passed the parser or the validator.
"""

from __future__ import annotations

import datetime as dt
import re
from fractions import Fraction

from kleene.pattern import predicates as p
from kleene.pattern.durations import duration_text
from kleene.pattern.moments import FineMoment, Moment
from kleene.pattern.naming import COUNT_OF_MATCHES, aggregate_alias, return_alias
from kleene.pattern.operators import (
    KLEENE_PLUS,
    OPTIONAL,
    Conjunction,
    Disjunction,
    Event,
    Pattern,
    Quantifier,
    Sequence,
    events,
    parts_of,
)
from kleene.pattern.policies import LogicalQuery, MatchAggregate, Output, ReturnItem, Strategy, Window

KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        "PATTERN EVENT SEQ AND OR ANY KL NOT WHERE WITHIN GROUP BY AGG HAVING EMIT ON CHANGE OUTPUT RETURN INTO AS "
        "IN BETWEEN LIKE IS NULL TRUE FALSE TIMESTAMP",
    )
)
"""Keywords. Most may still be names where the grammar expects no keyword; printed, they are always quoted."""

_NAME = re.compile(r"[^\W\d]\w*\Z")
_HYPHENATED = re.compile(r"[^\W\d]\w*(?:-\w+)*\Z")

_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _UNARY, _PRIMARY = range(8)
_PRECEDENCE: dict[type[p.Expression], int] = {
    p.Or: _OR,
    p.And: _AND,
    p.Not: _NOT,
    p.Comparison: _COMPARISON,
    p.In: _COMPARISON,
    p.Between: _COMPARISON,
    p.Like: _COMPARISON,
    p.IsNull: _COMPARISON,
    p.Negate: _UNARY,
}


def name_text(name: str) -> str:
    """A name, in backticks where the bare word would not be read as a name.

    >>> name_text("price"), name_text("odd name"), name_text("where")
    ('price', '`odd name`', '`where`')
    """
    return name if _NAME.match(name) and name.upper() not in KEYWORDS else quoted(name)


def type_text(name: str) -> str:
    """An event type, whose bare name may be hyphenated.

    >>> type_text("SHELF-READING"), type_text("shelf reading")
    ('SHELF-READING', '`shelf reading`')
    """
    return name if _HYPHENATED.match(name) and name.upper() not in KEYWORDS else quoted(name)


def quoted(name: str) -> str:
    """A name in backticks, as the language and Spark read it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def _attribute_name(name: str) -> str:
    return name if _NAME.match(name) and name.upper() != "LEN" else quoted(name)


def pattern_text(pattern: Pattern) -> str:
    """A pattern as text.

    >>> pattern_text(Sequence((Event(("A",), "a", KLEENE_PLUS), Event(("B", "C"), "x", negated=True))))
    'SEQ(A+ a[], !(ANY(B, C) x))'
    """
    if isinstance(pattern, Event):
        return _event_text(pattern)
    words: dict[type[Pattern], str] = {Sequence: "SEQ", Conjunction: "AND", Disjunction: "OR"}
    return f"{words[type(pattern)]}({', '.join(map(pattern_text, parts_of(pattern)))})"


def _event_text(event: Event) -> str:
    several = len(event.types) != 1
    types = f"ANY({', '.join(map(type_text, event.types))})" if several else type_text(event.types[0])
    text = types + quantifier_text(event.quantifier)
    if event.variable != "_".join(event.types):
        text += " " + name_text(event.variable) + ("[]" if event.is_kleene else "")
    if not event.negated:
        return text
    return f"!({text})" if " " in text else f"!{text}"


def quantifier_text(quantifier: Quantifier | None) -> str:
    """The suffix of a repeated component.

    >>> quantifier_text(Quantifier(2, 5)), quantifier_text(Quantifier(3, 3)), quantifier_text(Quantifier(0, None))
    ('{2,5}', '{3}', '*')
    """
    if quantifier is None:
        return ""
    short = {KLEENE_PLUS: "+", OPTIONAL: "?", Quantifier(0, None): "*"}.get(quantifier)
    if short is not None:
        return short
    if quantifier.high == quantifier.low:
        return f"{{{quantifier.low}}}"
    return f"{{{quantifier.low},{'' if quantifier.high is None else quantifier.high}}}"


def expression_text(expression: p.Expression) -> str:
    """An expression as text.

    >>> expression_text(p.Or((p.And((p.Name("x"), p.Name("y"))), p.Not(p.Name("z")))))
    'x AND y OR NOT z'
    >>> expression_text(p.Arithmetic("*", p.Arithmetic("+", p.Name("x"), p.Literal(1)), p.Literal(-2)))
    '(x + 1) * -2'
    """
    match expression:
        case p.Literal(value):
            return _literal_text(value)
        case p.Name(name):
            return name_text(name)
        case p.Attribute(variable, name, element):
            return f"{_element_text(variable, element)}.{_attribute_name(name)}"
        case p.Length(variable):
            return f"{name_text(variable)}.LEN"
        case p.Aggregate(function, variable, None, element):
            return f"{function.value}({_element_text(variable, element)})"
        case p.Aggregate(function, variable, str() as name, element):
            return f"{function.value}({_element_text(variable, element)}.{_attribute_name(name)})"
        case p.Call(function, arguments):
            shown = ", ".join(map(expression_text, arguments))
            return "COUNT(*)" if function == COUNT_OF_MATCHES else f"{name_text(function)}({shown})"
        case p.Equivalence(name, None):
            return f"[{name_text(name)}]"
        case p.Equivalence(name, p.Literal() | p.Name() as value):
            return f"[{name_text(name)} = {expression_text(value)}]"
    return _operator_text(expression)


def _operator_text(expression: p.Expression) -> str:
    match expression:
        case p.And(operands):
            return " AND ".join(_wrapped(operand, _NOT) for operand in operands)
        case p.Or(operands):
            return " OR ".join(_wrapped(operand, _AND) for operand in operands)
        case p.Not(operand):
            return f"NOT {_wrapped(operand, _NOT)}"
        case p.Negate(operand):
            return "-" + (f"({expression_text(operand)})" if _is_number(operand) else _wrapped(operand, _PRIMARY))
        case p.Comparison(operator, left, right):
            return f"{_wrapped(left, _SUM)} {operator} {_wrapped(right, _SUM)}"
        case p.Arithmetic(operator, left, right):
            own = _precedence(expression)
            return f"{_wrapped(left, own)} {operator} {_wrapped(right, own + 1)}"
        case p.In(operand, p.Name() as items):
            return f"{_wrapped(operand, _SUM)} IN {type_text(items.name)}"
        case p.In(operand, tuple() as items):
            return f"{_wrapped(operand, _SUM)} IN ({', '.join(map(expression_text, items))})"
        case p.Between(operand, low, high):
            return f"{_wrapped(operand, _SUM)} BETWEEN {_wrapped(low, _SUM)} AND {_wrapped(high, _SUM)}"
        case p.Like(operand, pattern):
            return f"{_wrapped(operand, _SUM)} LIKE {_wrapped(pattern, _SUM)}"
        case p.IsNull(operand):
            return f"{_wrapped(operand, _SUM)} IS NULL"
        case p.Fails(operand):
            return f"FAILS({expression_text(operand)})"
    raise AssertionError(f"no text for {type(expression).__name__}")


def _precedence(expression: p.Expression) -> int:
    if isinstance(expression, p.Arithmetic):
        return _SUM if expression.operator in "+-" else _PRODUCT
    if isinstance(expression, p.Literal) and expression_text(expression).startswith("-"):
        return _UNARY
    return _PRECEDENCE.get(type(expression), _PRIMARY)


def _wrapped(expression: p.Expression, least: int) -> str:
    text = expression_text(expression)
    return text if _precedence(expression) >= least else f"({text})"


def _is_number(expression: p.Expression) -> bool:
    if not isinstance(expression, p.Literal) or isinstance(expression.value, bool):
        return False
    return isinstance(expression.value, int | float | dt.timedelta)


def _element_text(variable: str, element: p.Element) -> str:
    name = name_text(variable)
    if element is p.Element.SINGLE:
        return name
    index = {
        p.Element.FIRST: "1",
        p.Element.CURRENT: "i",
        p.Element.PREVIOUS: "i-1",
        p.Element.SO_FAR: "..i-1",
        p.Element.EACH: "",
    }
    return f"{name}[{index[element] if element is not p.Element.LAST else name + '.LEN'}]"


def _literal_text(value: float | str | bool | Moment | dt.timedelta | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, FineMoment):
        return f"TIMESTAMP '{value}'"
    if isinstance(value, dt.timedelta):
        return duration_text(value)
    # A decimal beyond the range of floats reads back as infinity.
    return repr(value).replace("inf", "1e999")


def value_text(value: object) -> str:
    """A value of an event as reports show it, moments in UTC.

    >>> value_text("a'b"), value_text(None), value_text(dt.timedelta(hours=12, seconds=1)), value_text(0.1 + 0.2)
    ("'a''b'", 'NULL', '12:00:01', '0.3')
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, dt.datetime):
        moment = value if value.tzinfo is None else value.astimezone(dt.UTC)
        return moment.replace(tzinfo=None).isoformat(" ", "auto")
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def query_text(query: LogicalQuery) -> str:
    """A query as text, one clause per line, in the canonical order."""
    lines = [f"PATTERN {pattern_text(query.pattern)}", _where_text(query)]
    if query.group_by:
        lines.append(f"GROUP BY {', '.join(map(name_text, query.group_by))}")
    if query.aggregates:
        lines.append(f"AGG {', '.join(map(_aggregate_text, query.aggregates))}")
    if query.having is not None:
        lines.append(f"HAVING {expression_text(query.having)}")
    if query.emit_on_change:
        lines.append("EMIT ON CHANGE")
    if query.within is not None:
        lines.append(f"WITHIN {window_text(query.within)}")
    if query.output is Output.NON_OVERLAP:
        lines.append("OUTPUT NON-OVERLAP")
    if query.returns:
        items = ", ".join(_return_text(item, position) for position, item in enumerate(query.returns, 1))
        lines.append(f"RETURN {items}" + (f" INTO {type_text(query.into)}" if query.into is not None else ""))
    return "\n".join(filter(None, lines))


def _where_text(query: LogicalQuery) -> str:
    condition = "" if query.where is None else expression_text(query.where)
    if query.strategy is Strategy.SKIP_TILL_ANY_MATCH and not query.strategy_variables:
        return f"WHERE {condition}" if condition else ""
    arrays = {event.variable for event in events(query.pattern) if event.is_kleene}
    listed = ", ".join(name_text(name) + ("[]" if name in arrays else "") for name in query.strategy_variables)
    head = f"WHERE {query.strategy.value}" + (f"({listed})" if listed else "")
    return f"{head} {{ {condition} }}" if condition else f"{head} {{}}"


def _aggregate_text(item: MatchAggregate) -> str:
    text = item.function.upper()
    if item.attribute is not None:
        owner = "" if item.variable is None else f"{name_text(item.variable)}."
        text += f"({owner}{_attribute_name(item.attribute)})"
    default = aggregate_alias(item.function, item.variable, item.attribute)
    return text if item.alias == default else f"{text} AS {name_text(item.alias)}"


def _return_text(item: ReturnItem, position: int) -> str:
    text = expression_text(item.expression)
    return text if item.alias == return_alias(item.expression, position) else f"{text} AS {name_text(item.alias)}"


def window_text(window: Window) -> str:
    """A window as text, without WITHIN.

    >>> from kleene.pattern.policies import Unit
    >>> window_text(Window(Fraction(3, 2), Unit.HOURS)), window_text(Window("T", Unit.NUMBER))
    ('1.5 hours', 'T')
    """
    amount = name_text(window.amount) if isinstance(window.amount, str) else _amount_text(Fraction(window.amount))
    word = window.unit.word.removesuffix("s") if window.amount == 1 else window.unit.word
    return f"{amount} {word}".rstrip()


def _amount_text(amount: Fraction) -> str:
    for places in range(10):
        scaled = abs(amount) * 10**places
        if scaled.denominator == 1:
            digits = str(int(scaled)).rjust(places + 1, "0")
            whole, decimals = digits[: len(digits) - places], digits[len(digits) - places :]
            return ("-" if amount < 0 else "") + whole + (f".{decimals}" if decimals else "")
    return str(amount)
