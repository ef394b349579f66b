"""Which clauses of a query go together, and what AGG, HAVING, GROUP BY and WITHIN may say: checks without events."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from kleene.common.errors import Problem, Span, nearest
from kleene.pattern.naming import COUNT_OF_MATCHES, MATCH_FUNCTIONS
from kleene.pattern.operators import Event
from kleene.pattern.policies import LogicalQuery, MatchAggregate, Unit
from kleene.pattern.predicates import Aggregate, Attribute, Call, Equivalence, Length, walk

_RESERVED_AGGREGATES = ("query", "at")


def clause_span(query: LogicalQuery, word: str) -> Span | None:
    """The span of a clause's keyword, if the text has it exactly once (clauses have no span)."""
    found = list(re.finditer(rf"\b{word}\b", query.text or "", re.IGNORECASE))
    return Span(found[0].start(), found[0].end()) if len(found) == 1 else None


def check_clauses(query: LogicalQuery, components: Mapping[str, Event]) -> Iterator[Problem]:
    """The problems of all clauses except the pattern and its condition."""
    yield from _window_problems(query)
    yield from _strategy_variable_problems(query, components)
    yield from _aggregate_problems(query, components)
    if query.having is not None:
        yield from _having_problems(query)
    if query.into is not None and not query.returns:
        yield Problem("INTO needs RETURN, which defines the attributes of the new events", hint="add RETURN a.x AS x, ...")
    if query.aggregates:
        if query.returns:
            yield Problem(
                "AGG and RETURN cannot both be given", clause_span(query, "RETURN"), "AGG items are the columns already"
            )
        return
    for word, given in (("GROUP BY", query.group_by), ("HAVING", query.having), ("EMIT ON CHANGE", query.emit_on_change)):
        if given:
            yield Problem(f"{word} needs AGG", clause_span(query, word.split()[0]), "add for example AGG COUNT")


def _window_problems(query: LogicalQuery) -> Iterator[Problem]:
    window = query.within
    if window is None or isinstance(window.amount, str):
        return
    if window.amount <= 0:
        yield Problem("WITHIN must be positive", clause_span(query, "WITHIN"))
    elif window.unit is Unit.EVENTS and int(window.amount) != window.amount:
        yield Problem("WITHIN n EVENTS needs a whole number", clause_span(query, "WITHIN"))


def _strategy_variable_problems(query: LogicalQuery, components: Mapping[str, Event]) -> Iterator[Problem]:
    for name in query.strategy_variables:
        if name not in components:
            message = f"unknown variable '{name}' after {query.strategy.value}"
            yield Problem(message, clause_span(query, "WHERE"), nearest(name, components))


def _aggregate_problems(query: LogicalQuery, components: Mapping[str, Event]) -> Iterator[Problem]:
    place = clause_span(query, "AGG")
    for item in query.aggregates:
        yield from _match_aggregate_problems(item, components, place)
        if item.alias in _RESERVED_AGGREGATES:
            yield Problem(f"AGG column '{item.alias}' is reserved", place, "choose another name with AS")
    for name in query.group_by:
        if name in _RESERVED_AGGREGATES:
            hint = f"aggregate rows have their own column '{name}': rename the column of the events"
            yield Problem(f"GROUP BY cannot be by a column named '{name}'", clause_span(query, "GROUP"), hint)
    for name, count in Counter([item.alias for item in query.aggregates] + list(query.group_by)).items():
        if count > 1:
            yield Problem(f"AGG and GROUP BY have {count} columns named '{name}'", place, "name them apart with AS")


def _match_aggregate_problems(item: MatchAggregate, components: Mapping[str, Event], place: Span | None) -> Iterator[Problem]:
    if item.function not in MATCH_FUNCTIONS:
        yield Problem(f"unknown aggregate '{item.function}'", place, nearest(item.function, MATCH_FUNCTIONS))
    elif (item.function == "count") != (item.attribute is None):
        yield Problem(f"{item.function.upper()} has the wrong argument", place, "write COUNT, or SUM(a.price)")
    if item.variable is None:
        return
    event = components.get(item.variable)
    if event is None:
        yield Problem(f"unknown variable '{item.variable}' in AGG", place, nearest(item.variable, components))
    elif event.negated:
        yield Problem(f"AGG names the negative component '{item.variable}'", place, "a negative component binds no event")


def _having_problems(query: LogicalQuery) -> Iterator[Problem]:
    assert query.having is not None
    for node in walk(query.having):
        if isinstance(node, Aggregate) or (isinstance(node, Call) and node.function == COUNT_OF_MATCHES):
            if query.aggregates:
                yield Problem("HAVING reads an aggregate that AGG does not compute", node.span, "add it to AGG")
        elif isinstance(node, Attribute | Length):
            hint = "HAVING filters by aggregates: name them as in AGG; conditions on events belong in WHERE"
            yield Problem(f"HAVING reads the variable '{node.variable}'", node.span, hint)
        elif isinstance(node, Equivalence):
            yield Problem(f"HAVING cannot contain the equivalence test [{node.name}]", node.span, "write it in WHERE")
