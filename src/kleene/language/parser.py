"""Text to query: `parse` runs the scanner and lark's LALR automaton side by side, then assembles the clauses.

The automaton keeps its own stack, so no text can exhaust Python's; trees deeper than MAX_DEPTH are refused afterwards, because
everything downstream may recurse over them. The grammar is loaded at the first call. Cost: linear in the number of tokens.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from kleene.common.errors import Problem, QuerySyntaxError, Span
from kleene.pattern.limits import BESIDE_EVENTS, MAX_DEPTH, MAX_TEXT, too_deep
from kleene.pattern.naming import COUNT_OF_MATCHES, aggregate_alias, resolve_having, return_alias
from kleene.pattern.operators import Pattern, events
from kleene.pattern.policies import LogicalQuery, MatchAggregate, Output, ReturnItem, Strategy
from kleene.pattern.predicates import Call, Expression, children, walk

_EXAMPLE = "write for example PATTERN SEQ(A a, B b) WHERE a.id = b.id WITHIN 1 hour"


def parse(text: str, *, name: str = "query") -> LogicalQuery:
    """The query of a text; QuerySyntaxError, with position and hint, if it is not valid.

    >>> query = parse("PATTERN SEQ(Shelf a, !(Register b), Exit c) WHERE [tag_id] WITHIN 12 hours")
    >>> query.within
    Window(amount=12, unit=<Unit.HOURS: ('hours', 3600000000)>)
    >>> parse("PATERN A a")
    Traceback (most recent call last):
    kleene.common.errors.QuerySyntaxError: expected PATTERN or EVENT, found 'PATERN' at line 1, column 1
      PATERN A a
      ^^^^^^
      hint: did you mean 'PATTERN'?
    """
    if not isinstance(text, str):
        raise QuerySyntaxError(Problem(f"a query is text, not {type(text).__name__}", hint=_EXAMPLE))
    if len(text) > MAX_TEXT:
        message = f"query '{name}' has {len(text):,} characters; the limit is {MAX_TEXT:,}"
        raise QuerySyntaxError(Problem(message, hint=BESIDE_EVENTS))
    if not text.strip():
        raise QuerySyntaxError(Problem("the query is empty", hint=_EXAMPLE))
    try:
        return _assemble(*_run(text), text, name)
    except QuerySyntaxError as error:
        if error.text is not None:
            raise
        raise QuerySyntaxError(error.problems, text) from None


@cache
def _grammar() -> Any:
    from lark import Lark
    from lark.lexer import Lexer

    from kleene.language.actions import Actions

    class Unused(Lexer):
        """Tokens come from our own scanner."""

        __future_interface__ = 2

        def __init__(self, conf: object) -> None:
            pass

        def lex(self, lexer_state: object, parser_state: object) -> Any:  # noqa: ARG002 - lark's signature
            return iter(())

    text = files("kleene.language").joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(text, parser="lalr", lexer=Unused, transformer=Actions(), maybe_placeholders=True)


def _run(text: str) -> tuple[Pattern, list[Any]]:
    from lark import UnexpectedToken

    from kleene.language.expectations import explain
    from kleene.language.scanner import Scanner

    scanner = Scanner(text)
    machine = _grammar().parse_interactive()
    previous = token = None
    try:
        while (token := scanner.next(machine.choices())) is not None:
            machine.feed_token(token)
            previous = token
        scanner.finish()
        result: tuple[Pattern, list[Any]] = machine.feed_eof()
        return result
    except UnexpectedToken:
        raise explain(scanner, machine.accepts(), token, previous) from None


def _assemble(pattern: Pattern, clauses: list[Any], text: str, name: str) -> LogicalQuery:
    given: dict[str, Any] = {}
    for clause in clauses:
        if clause.word in given:
            raise QuerySyntaxError(Problem(f"{clause.word} is given twice", clause.span, "write each clause once"))
        given[clause.word] = clause.value
    strategy, variables, where = given.get("WHERE", (Strategy.SKIP_TILL_ANY_MATCH, (), None))
    items, into = given.get("RETURN", ((), None))
    aggregates = tuple(_aggregate(item, pattern) for item in given.get("AGG", ()))
    having = given.get("HAVING")
    for expression in (where, having, *(expression for expression, _ in items)):
        _check(expression, in_having=expression is having)
    if having is not None:
        having = resolve_having(having, aggregates, given.get("GROUP BY", ()))
    returns = (ReturnItem(item, alias or return_alias(item, place)) for place, (item, alias) in enumerate(items, 1))
    return LogicalQuery(
        pattern=pattern,
        where=where,
        strategy=strategy,
        strategy_variables=variables,
        within=given.get("WITHIN"),
        group_by=given.get("GROUP BY", ()),
        aggregates=aggregates,
        having=having,
        emit_on_change=given.get("EMIT", False),
        returns=tuple(returns),
        into=into,
        output=given.get("OUTPUT", Output.ALL),
        name=name,
        text=text,
    )


def _aggregate(item: Any, pattern: Pattern) -> MatchAggregate:
    variable = item.variable
    if item.attribute is not None and variable is None:
        components = [event.variable for event in events(pattern)]
        if len(components) > 1:
            hint = f"write {item.function.upper()}({components[-1]}.{item.attribute})"
            raise QuerySyntaxError(Problem(f"'{item.attribute}' of which component?", item.span, hint))
        variable = components[0]
    alias = item.alias or aggregate_alias(item.function, variable, item.attribute)
    return MatchAggregate(item.function, variable, item.attribute, alias)


def _check(expression: Expression | None, *, in_having: bool) -> None:
    """Refuses trees that are too deep to recurse over, and misplaced constructs that the grammar cannot forbid."""
    from kleene.language.actions import Array

    if expression is None:
        return
    deep = too_deep(expression, children)
    if deep is not None:
        hint = "split it; lists of AND and OR may be of any length"
        first_character = None if deep.span is None else Span(deep.span.start, deep.span.start + 1)
        raise QuerySyntaxError(Problem(f"expression nested deeper than {MAX_DEPTH}", first_character, hint))
    for node in walk(expression):
        if isinstance(node, Array):
            hint = f"write {node.variable}[].attribute, or count({node.variable}[])"
            raise QuerySyntaxError(Problem(f"'{node.variable}' is used without an attribute", node.span, hint))
        if isinstance(node, Call) and node.function == COUNT_OF_MATCHES and not in_having:
            raise QuerySyntaxError(Problem("COUNT(*) is only allowed in AGG and HAVING", node.span, "write count(a[])"))
