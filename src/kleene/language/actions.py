"""From grammar to data: one method per rule of `grammar.lark`, called bottom-up while parsing, without recursion.

Actions hold no state. Errors that the grammar cannot express (a negated SEQ, an unknown unit) are raised here as
QuerySyntaxError with their position.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NoReturn

from lark import Token, Transformer

from kleene.common.errors import Problem, QuerySyntaxError, Span, nearest
from kleene.language.scanner import is_quoted, span_of
from kleene.pattern import predicates as p
from kleene.pattern.durations import LONG_UNIT_WORDS, duration_of, unit_of
from kleene.pattern.moments import moment_of_text
from kleene.pattern.naming import COUNT_OF_MATCHES, MATCH_FUNCTIONS, policy_of
from kleene.pattern.operators import KLEENE_PLUS, OPTIONAL, Conjunction, Disjunction, Event, Pattern, Quantifier, Sequence
from kleene.pattern.policies import Output, Strategy, Unit, Window

Node = Token | Pattern | p.Expression
_AGGREGATES = {function.value: function for function in p.AggregateFunction}
MAX_DIGITS = 400
_INDEX_HINT = "write a[1], a[i], a[i-1], a[..i-1], a[a.LEN] or a[]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Array(p.Expression):
    """`a[]` or `a[..i-1]` without an attribute: only an argument of count."""

    variable: str
    element: p.Element


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause: its keyword, its content, and its span."""

    word: str
    value: Any
    span: Span


@dataclass(frozen=True, slots=True)
class AggregateItem:
    """An item of AGG before defaults are filled in."""

    function: str
    variable: str | None
    attribute: str | None
    alias: str | None
    span: Span


def fail(message: str, where: Node | Span | None, hint: str | None = None) -> NoReturn:
    """Raises a syntax error at a position; the parser adds the text."""
    raise QuerySyntaxError(Problem(message, where if isinstance(where, Span) or where is None else _span(where), hint))


def _span(*nodes: Node) -> Span:
    spans = [span_of(node) if isinstance(node, Token) else node.span for node in nodes]
    known = [span for span in spans if span is not None]
    return Span(known[0].start, known[-1].end)


def _present(children: Items[Any]) -> list[Any]:
    return [child for child in children if child is not None]


def _number_of(token: Token) -> int | float:
    if len(token) > MAX_DIGITS:
        fail(f"the number has more than {MAX_DIGITS} digits", token)
    return int(token) if token.isdigit() else float(token)


def _integer_of(token: Token) -> int:
    value = _number_of(token)
    if not isinstance(value, int):
        fail(f"expected a whole number, found {token}", token)
    return value


def _fraction_of(token: Token) -> int | Fraction:
    if isinstance(_number_of(token), int):
        return _integer_of(token)
    # Beyond these exponents the exact fraction would be a very large object.
    exponent = token.lower().partition("e")[2].lstrip("+-") or "0"
    if len(exponent) > 3 or int(exponent) > 300:
        fail("the number is out of range", token)
    value = Fraction(str(token))
    return int(value) if value.denominator == 1 else value


def _unit_of(token: Token) -> Unit:
    unit = unit_of(token)
    if unit is None:
        fail(f"unknown unit '{token}'", token, nearest(token, LONG_UNIT_WORDS))
    return unit


def _event(
    types: list[Token], quantifier: tuple[Quantifier, Token] | None, variable: tuple[Token, bool] | None, span: Span
) -> Event:
    names = tuple(str(token) for token in types if token.type == "HNAME")
    return Event(names, str(variable[0]) if variable else "_".join(names), quantifier[0] if quantifier else None, span=span)


class PatternActions(Transformer[Token, Any]):
    """Rules of patterns."""

    def implicit_sequence(self, children: list[Any]) -> Sequence:
        return Sequence(tuple(children[1:-1]), span=_span(children[0], children[-1]))

    def composite(self, children: list[Any]) -> Pattern:
        word, parts, span = children[0], tuple(children[2:-1]), _span(children[0], children[-1])
        return {"SEQ": Sequence, "AND": Conjunction, "OR": Disjunction}[word.type](parts, span=span)

    def negated(self, children: list[Any]) -> Event:
        sign, item = children
        span = _span(sign, item)
        if not isinstance(item, Event):
            hint = "negate each component on its own: SEQ(A a, !(B b), !(C c), D d)"
            fail("negation applies to one component, not to SEQ, AND or OR", span, hint)
        if item.negated:
            fail("the component is negated twice", span, "remove one of the signs")
        return replace(item, negated=True, span=span)

    def kleene(self, children: list[Any]) -> Event:
        word, _, types, variable, end = children
        return _event(types, (KLEENE_PLUS, end), variable, _span(word, end))

    def event(self, children: list[Any]) -> Event:
        types, quantifier, variable = children
        end = variable[0] if variable else quantifier[1] if quantifier else types[-1]
        if variable and variable[1] and (quantifier is None or quantifier[1].type == "QUESTION"):
            name = variable[0]
            fail(f"'{name}[]' is an array, but the component binds one event", name, f"write '{name}', or T+ {name}[]")
        return _event(types, quantifier, variable, _span(types[0], end))

    def types(self, children: list[Any]) -> list[Token]:
        return children

    def quantifier(self, children: list[Any]) -> tuple[Quantifier, Token]:
        sign = children[0]
        return {"PLUS": KLEENE_PLUS, "STAR": Quantifier(0, None), "QUESTION": OPTIONAL}[sign.type], sign

    def exactly(self, children: list[Any]) -> tuple[Quantifier, Token]:
        count = _integer_of(children[1])
        return Quantifier(count, count), children[-1]

    def at_least(self, children: list[Any]) -> tuple[Quantifier, Token]:
        return Quantifier(_integer_of(children[1]), None), children[-1]

    def from_to(self, children: list[Any]) -> tuple[Quantifier, Token]:
        return Quantifier(_integer_of(children[1]), _integer_of(children[2])), children[-1]

    def variable(self, children: list[Any]) -> tuple[Token, bool]:
        name, mark = children
        return name, mark is not None

    def array_mark(self, _: list[Any]) -> bool:
        return True


class ClauseActions(PatternActions):
    """Rules of clauses."""

    def where(self, children: list[Any]) -> Clause:
        return Clause("WHERE", (Strategy.SKIP_TILL_ANY_MATCH, (), children[1]), span_of(children[0]))

    def where_strategy(self, children: list[Any]) -> Clause:
        word, name, variables, _, condition, _ = children
        strategy = policy_of(Strategy, name)
        if strategy is None:
            fail(f"unknown selection strategy '{name}'", name, nearest(name, [item.value for item in Strategy]))
        return Clause("WHERE", (strategy, variables or (), condition), span_of(word))

    def strategy_variables(self, children: list[Any]) -> tuple[str, ...]:
        return tuple(str(child[0]) for child in _present(children[1:-1]))

    def within_amount(self, children: list[Any]) -> Clause:
        word, sign, number, slash, divisor, unit = children
        amount: int | Fraction = _fraction_of(number)
        if slash is not None:
            if _fraction_of(divisor) == 0:
                fail("the window is divided by zero", divisor)
            amount = Fraction(amount) / _fraction_of(divisor)
            amount = int(amount) if amount.denominator == 1 else amount
        amount = -amount if sign is not None else amount
        return Clause("WITHIN", Window(amount, _unit_of(unit) if unit is not None else Unit.NUMBER), span_of(word))

    def within_parameter(self, children: list[Any]) -> Clause:
        word, name, unit = children
        return Clause("WITHIN", Window(str(name), _unit_of(unit) if unit is not None else Unit.NUMBER), span_of(word))

    def group_by(self, children: list[Any]) -> Clause:
        return Clause("GROUP BY", tuple(str(name) for name in children[2:]), span_of(children[0]))

    def agg(self, children: list[Any]) -> Clause:
        return Clause("AGG", tuple(children[1:]), span_of(children[0]))

    def agg_item(self, children: list[Any]) -> AggregateItem:
        word, argument, _, alias = children
        function = word.lower()
        if function not in MATCH_FUNCTIONS:
            fail(f"unknown aggregate '{word}'", word, nearest(word, [name.upper() for name in MATCH_FUNCTIONS]))
        variable, attribute, end = argument or (None, None, word)
        span = _span(word, end)
        if function == "count" and attribute is not None:
            fail("COUNT counts matches and has no argument", span, "write COUNT or COUNT(*)")
        if function != "count" and attribute is None:
            fail(f"{word.upper()} needs an attribute", span, f"write {word.upper()}(a.price)")
        return AggregateItem(function, variable, attribute, None if alias is None else str(alias), span)

    def agg_argument(self, children: list[Any]) -> tuple[str | None, str | None, Token]:
        names = [str(child) for child in children if isinstance(child, Token) and child.type == "NAME"]
        if len(names) == 2:
            return names[0], names[1], children[-1]
        return None, names[0] if names else None, children[-1]

    def having(self, children: list[Any]) -> Clause:
        return Clause("HAVING", children[1], span_of(children[0]))

    def emit(self, children: list[Any]) -> Clause:
        return Clause("EMIT", True, span_of(children[0]))

    def output(self, children: list[Any]) -> Clause:
        word, output = children[1], policy_of(Output, children[1])
        if output is None:
            fail(f"unknown output '{word}'", word, nearest(word, ["ALL", "NON-OVERLAP"]))
        return Clause("OUTPUT", output, span_of(children[0]))

    def returns(self, children: list[Any]) -> Clause:
        word, *items, _, into = children
        return Clause("RETURN", (tuple(items), None if into is None else str(into)), span_of(word))

    def return_item(self, children: list[Any]) -> tuple[p.Expression, str | None]:
        expression, _, alias = children
        return expression, None if alias is None else str(alias)


class Actions(ClauseActions):
    """Rules of expressions, on top of those of patterns and clauses."""

    def start(self, children: list[Any]) -> tuple[Pattern, list[Clause]]:
        return children[1], [child for child in children[2:] if isinstance(child, Clause)]

    def or_(self, children: list[Any]) -> p.Expression | None:
        return p.disjunction([child for child in children if not isinstance(child, Token)])

    def and_(self, children: list[Any]) -> p.Expression | None:
        return p.conjunction([child for child in children if not isinstance(child, Token)])

    def not_(self, children: list[Any]) -> p.Expression:
        return p.Not(children[1], span=_span(*children))

    def parenthesised(self, children: list[Any]) -> Any:
        return replace(children[1], span=_span(children[0], children[2]))

    def compare(self, children: list[Any]) -> p.Expression | None:
        pairs = zip(children[0::2], children[1::2], children[2::2], strict=False)
        return p.conjunction([p.Comparison(str(sign), left, right, span=_span(left, right)) for left, sign, right in pairs])

    def in_list(self, children: list[Any]) -> p.Expression:
        operand, sign, _, _, *items, end = children
        span = _span(operand, end)
        return _negated(sign, p.In(operand, tuple(_present(items)), span=span))

    def in_name(self, children: list[Any]) -> p.Expression:
        operand, sign, _, name = children
        return _negated(sign, p.In(operand, p.Name(str(name), span=span_of(name)), span=_span(operand, name)))

    def between(self, children: list[Any]) -> p.Expression:
        operand, sign, _, low, _, high = children
        return _negated(sign, p.Between(operand, low, high, span=_span(operand, high)))

    def like(self, children: list[Any]) -> p.Expression:
        operand, sign, _, pattern = children
        return _negated(sign, p.Like(operand, pattern, span=_span(operand, pattern)))

    def is_null(self, children: list[Any]) -> p.Expression:
        operand, _, sign, end = children
        return _negated(sign, p.IsNull(operand, span=_span(operand, end)))

    def arithmetic(self, children: list[Any]) -> p.Expression:
        left, sign, right = children
        return p.Arithmetic(str(sign), left, right, span=_span(left, right))

    def minus(self, children: list[Any]) -> p.Expression:
        return p.Negate(children[1], span=_span(*children))

    def negative(self, children: list[Any]) -> p.Expression:
        return p.Literal(-children[1].value, span=_span(*children))

    def plus(self, children: list[Any]) -> Any:
        return children[1]

    def number(self, children: list[Any]) -> p.Expression:
        return p.Literal(_number_of(children[0]), span=span_of(children[0]))

    def duration(self, children: list[Any]) -> p.Expression:
        number, unit = children
        span = _span(number, unit)
        try:
            return p.Literal(duration_of(_fraction_of(number), _unit_of(unit)), span=span)
        except ValueError as error:
            fail(str(error), span)

    def percent(self, children: list[Any]) -> p.Expression:
        try:
            return p.Literal(float(Fraction(_fraction_of(children[0]), 100)), span=span_of(children[0]))
        except OverflowError:
            fail("the number is out of range", children[0])

    def string(self, children: list[Any]) -> p.Expression:
        return p.Literal(str(children[0]), span=span_of(children[0]))

    def literal(self, children: list[Any]) -> p.Expression:
        return p.Literal({"TRUE": True, "FALSE": False, "NULL": None}[children[0].type], span=span_of(children[0]))

    def timestamp(self, children: list[Any]) -> p.Expression:
        try:
            return p.Literal(moment_of_text(str(children[1])), span=_span(*children))
        except ValueError as error:
            fail(str(error), children[1], "write it as '2024-01-31 10:00:00'")

    def name(self, children: list[Any]) -> p.Expression:
        return p.Name(str(children[0]), span=span_of(children[0]))

    def attribute(self, children: list[Any]) -> p.Expression:
        variable, _, name = children
        span = _span(variable, name)
        if name.upper() == "LEN" and not is_quoted(name):
            return p.Length(str(variable), span=span)
        return p.Attribute(str(variable), str(name), span=span)

    def element(self, children: list[Any]) -> p.Expression:
        variable, _, (element, owner), end, _, name = children
        if owner is not None and owner != variable:
            fail(f"'{variable}[{owner}.LEN]' mixes two variables", owner, f"write {variable}[{variable}.LEN]")
        if name is None:
            return Array(variable=str(variable), element=element, span=_span(variable, end))
        return p.Attribute(str(variable), str(name), element, span=_span(variable, name))

    def call(self, children: list[Any]) -> p.Expression:
        word, _, *arguments, end = children
        arguments, span = _present(arguments), _span(word, end)
        if word.lower() in _AGGREGATES and not is_quoted(word):
            return _aggregate(word, arguments, span)
        return p.Call(word.lower(), tuple(arguments), span=span)

    def count_of_matches(self, children: list[Any]) -> p.Expression:
        span = _span(children[0], children[-1])
        if children[0].lower() != "count":
            fail(f"only COUNT takes '*', not {children[0]}", span)
        return p.Call(COUNT_OF_MATCHES, (), span=span)

    def equivalences(self, children: list[Any]) -> Any:
        return p.conjunction([child for child in children if not isinstance(child, Token)])

    def equivalence(self, children: list[Any]) -> p.Expression:
        name, sign, value = children
        if sign is None:
            return p.Equivalence(str(name), span=span_of(name))
        if sign != "=" or not isinstance(value, p.Literal | p.Name):
            fail("an equivalence test fixes one value", _span(name, value), "write [attribute] or [attribute = 'value']")
        return p.Equivalence(str(name), value, span=_span(name, value))

    def each(self, _: list[Any]) -> tuple[p.Element, None]:
        return p.Element.EACH, None

    def first(self, children: list[Any]) -> tuple[p.Element, None]:
        if children[0] != "1":
            fail(f"elements cannot be indexed by the number {children[0]}", children[0], _INDEX_HINT)
        return p.Element.FIRST, None

    def current(self, children: list[Any]) -> tuple[p.Element, None]:
        _check_index(children[0])
        return p.Element.CURRENT, None

    def previous(self, children: list[Any]) -> tuple[p.Element, None]:
        _check_index(children[0], children[2])
        return p.Element.PREVIOUS, None

    def so_far(self, children: list[Any]) -> tuple[p.Element, None]:
        _check_index(children[1], children[3])
        return p.Element.SO_FAR, None

    def last(self, children: list[Any]) -> tuple[p.Element, Token]:
        if children[2].upper() != "LEN":
            fail(f"unknown index '.{children[2]}'", children[2], _INDEX_HINT)
        return p.Element.LAST, children[0]


def _negated(sign: Token | None, expression: p.Expression) -> p.Expression:
    return expression if sign is None else p.Not(expression, span=expression.span)


def _check_index(name: Token, offset: Token | None = None) -> None:
    if name.lower() != "i":
        fail(f"unknown index '{name}'", name, _INDEX_HINT)
    if offset is not None and offset != "1":
        fail(f"only the element before the current one can be read, not i-{offset}", offset, _INDEX_HINT)


def _aggregate(word: Token, arguments: list[p.Expression], span: Span) -> p.Expression:
    function = _AGGREGATES[word.lower()]
    usage = f"write {function.value}(a[].price) or {function.value}(a[..i-1].price)"
    if len(arguments) != 1:
        if function in (p.AggregateFunction.MIN, p.AggregateFunction.MAX) and arguments:
            usage = f"to compare several values use {'least' if function is p.AggregateFunction.MIN else 'greatest'}(x, y)"
        fail(f"{function.value} takes one argument, found {len(arguments)}", span, usage)
    argument = arguments[0]
    if isinstance(argument, p.Attribute) and argument.element in (p.Element.SINGLE, p.Element.EACH, p.Element.SO_FAR):
        element = p.Element.EACH if argument.element is p.Element.SINGLE else argument.element
        return p.Aggregate(function, argument.variable, argument.name, element, span=span)
    if function is p.AggregateFunction.COUNT:
        if isinstance(argument, Array) and argument.element in (p.Element.EACH, p.Element.SO_FAR):
            return p.Aggregate(function, argument.variable, None, argument.element, span=span)
        if isinstance(argument, p.Name):
            return p.Aggregate(function, argument.name, None, p.Element.EACH, span=span)
        usage = "write count(a[]) or count(a[..i-1])"
    fail(f"{function.value} is an aggregate over the elements of a Kleene variable", argument.span, usage)
