"""parse(print(q)) == q for every query; no text raises anything but QuerySyntaxError."""

# ruff: noqa: RUF001

import datetime as dt
from fractions import Fraction

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kleene.common.errors import QuerySyntaxError
from kleene.language.parser import parse
from kleene.language.printer import to_text
from kleene.pattern.naming import aggregate_alias, return_alias
from kleene.pattern.operators import OPTIONAL, Conjunction, Disjunction, Event, Quantifier, Sequence
from kleene.pattern.policies import LogicalQuery, MatchAggregate, Output, ReturnItem, Strategy, Unit, Window
from kleene.pattern.predicates import (
    Aggregate,
    AggregateFunction,
    Arithmetic,
    Attribute,
    Between,
    Call,
    Comparison,
    Element,
    Equivalence,
    In,
    IsNull,
    Length,
    Like,
    Literal,
    Name,
    Negate,
    Not,
    conjunction,
    disjunction,
)
from kleene.pattern.text import KEYWORDS

plain_names = st.sampled_from(
    ["a", "b", "c1", "price", "LEN", "len", "i", "x_y", "Größe", "SHELF-READING", "A--B", "of/the*way"]
)
keyword_names = st.sampled_from(sorted(KEYWORDS) + [word.lower() for word in sorted(KEYWORDS)])
odd_names = st.text(min_size=1, max_size=6)
names = plain_names | keyword_names | odd_names

literals = st.builds(
    Literal,
    st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.booleans()
    | st.none()
    | st.datetimes()
    | st.timedeltas(),
)
aggregated = st.sampled_from([Element.EACH, Element.SO_FAR])
functions = st.sampled_from(["abs", "corr", "of", "odd name", "where", "count(x)"])
counts = st.builds(Aggregate, st.just(AggregateFunction.COUNT), names, st.none(), aggregated)
leaves = (
    literals
    | st.builds(Name, names)
    | st.builds(Attribute, names, names, st.sampled_from(Element))
    | st.builds(Length, names)
    | st.builds(Aggregate, st.sampled_from(AggregateFunction), names, names, aggregated)
    | counts
    | st.builds(Equivalence, names, st.none() | literals | st.builds(Name, names))
)


def extend(inner):
    many = st.lists(inner, min_size=2, max_size=3)
    return (
        st.builds(Arithmetic, st.sampled_from("+-*/%"), inner, inner)
        | st.builds(Comparison, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), inner, inner)
        | st.builds(Negate, inner)
        | st.builds(Not, inner)
        | st.builds(conjunction, many)
        | st.builds(disjunction, many)
        | st.builds(In, inner, st.lists(inner, max_size=3).map(tuple) | st.builds(Name, names))
        | st.builds(Between, inner, inner, inner)
        | st.builds(Like, inner, inner)
        | st.builds(IsNull, inner)
        | st.builds(Call, functions, st.lists(inner, max_size=3).map(tuple))
    )


expressions = st.recursive(leaves, extend, max_leaves=12)

small = st.integers(0, 9)
quantifiers = (
    st.none()
    | st.just(OPTIONAL)
    | st.builds(Quantifier, small, st.none())
    | st.tuples(small, small).map(lambda pair: Quantifier(*pair))
)
components = st.builds(Event, st.lists(names, min_size=1, max_size=3).map(tuple), names, quantifiers, st.booleans())
patterns = st.recursive(
    components,
    lambda inner: st.sampled_from([Sequence, Conjunction, Disjunction]).flatmap(
        lambda kind: st.builds(kind, st.lists(inner, min_size=1, max_size=3).map(tuple))
    ),
    max_leaves=6,
)
amounts = st.integers() | st.fractions() | names
windows = st.builds(Window, amounts, st.sampled_from(Unit))


@st.composite
def queries(draw):
    returns, aggregates, having, into = (), (), None, None
    if draw(st.booleans()):
        items = draw(st.lists(st.tuples(expressions, st.none() | names), min_size=1, max_size=3))
        returns = tuple(ReturnItem(item, alias or return_alias(item, place)) for place, (item, alias) in enumerate(items, 1))
        into = draw(st.none() | names)
    if draw(st.booleans()):
        count = st.just(("count", None, None))
        others = st.tuples(st.sampled_from(["sum", "avg", "min", "max"]), names, names)
        items = draw(st.lists(st.tuples(count | others, st.none() | names), min_size=1, max_size=3))
        aggregates = tuple(MatchAggregate(*item, alias or aggregate_alias(*item)) for item, alias in items)
        having = draw(st.none() | st.builds(Comparison, st.just(">"), st.just(Name(aggregates[0].alias)), literals))
    return LogicalQuery(
        pattern=draw(patterns),
        where=draw(st.none() | expressions),
        strategy=draw(st.sampled_from(Strategy)),
        strategy_variables=draw(st.lists(names, max_size=2).map(tuple)),
        within=draw(st.none() | windows),
        group_by=draw(st.lists(names, max_size=2).map(tuple)),
        aggregates=aggregates,
        having=having,
        emit_on_change=draw(st.booleans()),
        returns=returns,
        into=into,
        output=draw(st.sampled_from(Output)),
    )


@settings(max_examples=300, deadline=None)
@given(queries())
def test_a_printed_query_parses_to_itself(query: LogicalQuery) -> None:
    text = to_text(query)
    again = parse(text)
    assert again == query
    assert to_text(again) == text


FRAGMENTS = """
PATTERN EVENT SEQ( AND( OR( ANY( KL( NOT ! ~ ( ) [ ] { } < > <= = != , . .. + - * / % ? ; A a b[] WHERE WITHIN 5 80% 1.5
hours 'x' " ` ' /* */ -- // skip_till_next_match GROUP BY AGG COUNT (*) HAVING EMIT ON CHANGE OUTPUT ALL RETURN INTO AS
IN BETWEEN LIKE IS NULL TRUE TIMESTAMP '2024-01-01' ∧ ∨ ¬ ∈ ∉ ≠ ‘ ’ “ ” [id] a.x a[i].x a[..i-1].x a.LEN sum( count(
"""
fragments = st.sampled_from([*FRAGMENTS.split(), "\n"])


@settings(max_examples=500, deadline=None)
@given(
    st.lists(fragments, max_size=25).map(" ".join)
    | st.text(max_size=60)
    | st.text(max_size=40).map("PATTERN A a WHERE ".__add__)
)
@example("PATTERN A a WHERE a.x = 1e99999999999999")
@example("PATTERN A a WITHIN 1e99999999999999 hours")
@example("PATTERN A a WHERE a.x > 99999999999999999999 weeks")
@example("PATTERN A a WHERE a.x > 0.0000001 seconds")
@example("PATTERN A a WHERE a.x = " + "9" * 10_000)
@example("PATTERN A{99999999999999999999} a[]")
@example("PATTERN A a WHERE a.x > 1e999999999%")
def test_no_text_raises_anything_but_a_syntax_error(text: str) -> None:
    try:
        query = parse(text)
    except QuerySyntaxError:
        return
    assert parse(to_text(query)) == query


def test_durations_and_fractions_are_exact() -> None:
    query = parse("PATTERN A a WHERE a.d > 0.1 seconds WITHIN 0.1 hours")
    assert query.where == Comparison(">", Attribute("a", "d"), Literal(dt.timedelta(milliseconds=100)))
    assert query.within == Window(Fraction(1, 10), Unit.HOURS)
