"""Names: of strategies and outputs, default names of columns in RETURN and AGG, and those of aggregates in HAVING.

The parser, the builder and the printer share these rules, so the three agree on when a name may be left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from kleene.pattern import predicates as p
from kleene.pattern.policies import MatchAggregate, Output, Strategy

COUNT_OF_MATCHES = "count(*)"
"""Function name of the `Call` that stands for COUNT(*) until HAVING is resolved; no user can write this name."""

MATCH_FUNCTIONS = ("count", "sum", "avg", "min", "max")

_ELEMENT_WORDS = {p.Element.FIRST: "first_", p.Element.LAST: "last_", p.Element.PREVIOUS: "previous_"}


Policy = TypeVar("Policy", Strategy, Output)


def policy_of(kind: type[Policy], word: str) -> Policy | None:
    """The strategy or output that a word names, in any case, with hyphens or underscores; None if it names none."""
    return next((item for item in kind if item.value == word.lower().replace("-", "_")), None)


def return_alias(expression: p.Expression, position: int) -> str:
    """The column name of a RETURN item without AS; `position` counts from 1.

    >>> return_alias(p.Attribute("a", "price"), 1), return_alias(p.Length("a"), 2), return_alias(p.Call("abs", ()), 3)
    ('a_price', 'a_len', 'abs')
    """
    if isinstance(expression, p.Attribute):
        return f"{expression.variable}_{_ELEMENT_WORDS.get(expression.element, '')}{expression.name}"
    if isinstance(expression, p.Length):
        return f"{expression.variable}_len"
    if isinstance(expression, p.Aggregate):
        return "_".join(filter(None, (expression.function.value, expression.variable, expression.name)))
    if isinstance(expression, p.Name):
        return expression.name
    if isinstance(expression, p.Call):
        return expression.function
    return f"column_{position}"


def aggregate_alias(function: str, variable: str | None, attribute: str | None) -> str:
    """The column name of an AGG item without AS.

    >>> aggregate_alias("count", None, None), aggregate_alias("sum", "a", "price")
    ('count', 'sum_a_price')
    """
    return "_".join(filter(None, (function, variable, attribute)))


def resolve_having(having: p.Expression, aggregates: Sequence[MatchAggregate], group_by: Sequence[str] = ()) -> p.Expression:
    """HAVING with every spelled-out aggregate replaced by the name of the AGG item that computes it.

    A bare name means a column of exactly that name, else an AGG column of that name in another case (`COUNT`). An aggregate
    that AGG does not compute is kept, for `validate` to report.

        >>> resolve_having(p.Call(COUNT_OF_MATCHES, ()), [MatchAggregate("count", None, None, "n")])
        Name(name='n')
    """
    exact = {item.alias for item in aggregates} | set(group_by)
    by_fold = {item.alias.casefold(): item.alias for item in aggregates}

    def rule(node: p.Expression) -> p.Expression:
        if isinstance(node, p.Name):
            if node.name in exact:
                return node
            return p.Name(by_fold.get(node.name.casefold(), node.name), span=node.span)
        if isinstance(node, p.Call) and node.function == COUNT_OF_MATCHES:
            wanted: tuple[str, str | None, str | None] = ("count", None, None)
        elif isinstance(node, p.Aggregate):
            wanted = (node.function.value, node.variable, node.name)
        else:
            return node
        for item in aggregates:
            if (item.function, item.variable, item.attribute) == wanted:
                return p.Name(item.alias, span=node.span)
        return node

    return p.transform(having, rule)
