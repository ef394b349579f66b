"""Partial matches that timed out, as queries of their own.

A partial match of a sequence is a prefix of it. It has timed out when its window has passed and no event has extended it. So it
is a match of the prefix with the next component negated at its end, an ordinary query.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kleene.common.errors import PlanningError, Problem
from kleene.pattern.operators import Event, Sequence
from kleene.pattern.policies import LogicalQuery, Output, Strategy, Unit
from kleene.pattern.predicates import conjunction, conjuncts, variables


def timed_out(query: LogicalQuery) -> Iterator[tuple[str, LogicalQuery]]:
    """For each component except the first, its variable and the query for partial matches that ended before it.

    >>> from kleene.language.parser import parse
    >>> from kleene.pattern.text import query_text
    >>> query = parse("PATTERN SEQ(A a, !(N n), B b, C c) WHERE [id] AND a.x < c.x WITHIN 1 hour")
    >>> for variable, partial in timed_out(query):
    ...     print(variable, query_text(partial).splitlines())
    b ['PATTERN SEQ(A a, !(B b))', 'WHERE [id]', 'WITHIN 1 hour']
    c ['PATTERN SEQ(A a, !(N n), B b, !(C c))', 'WHERE [id] AND a.x < c.x', 'WITHIN 1 hour']
    """
    parts = _parts(query)
    for place, part in enumerate(parts):
        before = parts[:place]
        while before and before[-1].negated:
            before = before[:-1]
        if part.negated or not before:
            continue
        pattern = Sequence((*before, replace(part, negated=True)))
        known = {item.variable for item in (*before, part)}
        where = conjunction(tuple(item for item in conjuncts(query.where) if variables(item) <= known))
        yield part.variable, replace(query, pattern=pattern, where=where, returns=(), into=None, text=None)


def _parts(query: LogicalQuery) -> tuple[Event, ...]:
    problems = []
    pattern = query.pattern
    parts = pattern.parts if isinstance(pattern, Sequence) else ()
    plain = tuple(part for part in parts if isinstance(part, Event) and not part.is_kleene and part.quantifier is None)
    if len(plain) < 2 or len(plain) < len(parts):
        problems.append(Problem("timed_out() needs a SEQ of single events"))
    if query.within is None or query.within.unit is Unit.EVENTS:
        problems.append(Problem("timed_out() needs a window in time: WITHIN"))
    if query.strategy is not Strategy.SKIP_TILL_ANY_MATCH or query.aggregates or query.output is Output.NON_OVERLAP:
        problems.append(Problem("timed_out() needs skip_till_any_match and all matches, without NON-OVERLAP and AGG"))
    if problems:
        raise PlanningError(
            [replace(item, hint="write the missing event as a negated end: SEQ(A a, !(B b))") for item in problems]
        )
    return plain
