"""Binding: names, kinds and windows against a schema."""

import datetime as dt

import numpy as np
import pytest

from kleene.common.errors import BindingError
from kleene.common.schema import EventSchema, Kind
from kleene.language.parser import parse
from kleene.pattern.bind import bind, kind_of, parameters_of
from kleene.pattern.bound import BoundQuery
from kleene.pattern.predicates import (
    And,
    Arithmetic,
    Attribute,
    Comparison,
    Element,
    Equivalence,
    Expression,
    In,
    Literal,
    Name,
    walk,
)

COLUMNS = {
    "ts": Kind.TIMESTAMP,
    "type": Kind.STRING,
    "id": Kind.INTEGER,
    "price": Kind.FLOAT,
    "name": Kind.STRING,
    "ok": Kind.BOOLEAN,
    "tags": Kind.OTHER,
    "took": Kind.DURATION,
}
SCHEMA = EventSchema(COLUMNS, "ts", "type")
NANOSECONDS = EventSchema(COLUMNS, "ts", "type", time_unit="ns")
INTEGERS = EventSchema({"ts": Kind.INTEGER, "type": Kind.INTEGER, "id": Kind.INTEGER}, "ts", "type", time_unit=None)
DECLARED = EventSchema(COLUMNS, "ts", "type", types={"A": frozenset({"id", "price"}), "B": frozenset({"id", "name"})})
UNTYPED = EventSchema(COLUMNS, "ts")


def bound(text: str, schema: EventSchema = SCHEMA, **options: object) -> BoundQuery:
    return bind(parse(text), schema, **options)  # type: ignore[arg-type]


def problems(text: str, schema: EventSchema = SCHEMA, **options: object) -> str:
    with pytest.raises(BindingError) as caught:
        bound(text, schema, **options)
    return str(caught.value)


def conjunct(condition: str, **params: object) -> Expression:
    return bound(f"PATTERN SEQ(A a, B b) WHERE {condition}", params=params).conjuncts[0]


def test_bare_names_are_attributes_of_the_only_component() -> None:
    query = bound("EVENT A WHERE price > limit AND name = 'x' RETURN price", params={"limit": 3})
    assert query.conjuncts[0] == Comparison(">", Attribute("A", "price"), Literal(3))
    assert query.query.returns[0].expression == Attribute("A", "price")
    kleene = bound("EVENT A+ a[] WHERE price > 3")
    assert kleene.conjuncts[0] == Comparison(">", Attribute("a", "price", Element.EACH), Literal(3))


def test_bare_names_are_parameters_in_larger_patterns() -> None:
    assert conjunct("a.name = MSFT", MSFT="MSFT") == Comparison("=", Attribute("a", "name"), Literal("MSFT"))
    assert conjunct("a.price = p", p=np.float64(1.5)) == Comparison("=", Attribute("a", "price"), Literal(1.5))
    assert conjunct("a.name IN L", L=["x", "y"]) == In(Attribute("a", "name"), (Literal("x"), Literal("y")))
    assert conjunct("a.name IN L", L={"y", "x"}) == conjunct("a.name IN ('x', 'y')")
    assert problems("PATTERN SEQ(A a, B b) WHERE a.name = MSFT") == (
        "unknown name 'MSFT' at line 1, column 38\n"
        "  PATTERN SEQ(A a, B b) WHERE a.name = MSFT\n"
        "                                       ^^^^\n"
        "  hint: if it is text, quote it: 'MSFT'; if it is a parameter, pass params={'MSFT': ...}"
    )
    assert "pass a list" in problems("PATTERN SEQ(A a, B b) WHERE a.name IN L", params={"L": "x"})
    assert "a list can stand only after IN" in problems("PATTERN SEQ(A a, B b) WHERE a.name = L", params={"L": ["x"]})


def test_no_name_is_left_but_the_columns_of_having() -> None:
    query = bound(
        "PATTERN SEQ(A a, B b) WHERE a.price > p AND [id = k] GROUP BY name AGG COUNT HAVING COUNT > n AND name = 'x' WITHIN w",
        params={"p": 1, "k": 2, "n": 3, "w": dt.timedelta(seconds=1)},
    )
    assert query.query.where is not None
    assert not any(isinstance(node, Name) for node in walk(query.query.where))
    assert query.equivalences == (Equivalence("name"), Equivalence("id", Literal(2)))  # what is grouped by divides the stream
    assert query.query.having == And((Comparison(">", Name("count"), Literal(3)), Comparison("=", Name("name"), Literal("x"))))
    assert query.window == 1_000_000


def test_text_compared_with_a_timestamp_is_a_timestamp() -> None:
    moment = Literal(dt.datetime(2024, 1, 1))  # noqa: DTZ001
    assert conjunct("a.ts > '2024-01-01'") == Comparison(">", Attribute("a", "ts"), moment)
    assert conjunct("'2024-01-01T01:00:00+01:00' < a.ts") == Comparison("<", moment, Attribute("a", "ts"))
    assert conjunct("a.ts IN ('2024-01-01')") == In(Attribute("a", "ts"), (moment,))
    assert conjunct("a.ts + 5 minutes BETWEEN '2024-01-01' AND p", p="2024-01-02") is not None
    assert "'never' is not a timestamp" in problems("EVENT A WHERE ts = 'never'")


@pytest.mark.parametrize(
    ("text", "schema", "params", "window", "count"),
    [
        ("2 seconds", SCHEMA, {}, 2_000_000, None),
        ("2 seconds", NANOSECONDS, {}, 2_000_000_000, None),
        ("1.5 us", SCHEMA, {}, 2, None),
        ("1/3 s", SCHEMA, {}, 333_334, None),
        ("10", INTEGERS, {}, 10, None),
        ("T", INTEGERS, {"T": 10}, 10, None),
        ("T", SCHEMA, {"T": dt.timedelta(hours=1)}, 3_600_000_000, None),
        ("T hours", SCHEMA, {"T": 1.5}, 5_400_000_000, None),
        ("100 events", SCHEMA, {}, None, 100),
        ("100 events", INTEGERS, {}, None, 100),
        ("T events", INTEGERS, {"T": 7}, None, 7),
    ],
)
def test_windows(text: str, schema: EventSchema, params: dict[str, object], window: int | None, count: int | None) -> None:
    query = bound(f"PATTERN SEQ(A a, A b) WITHIN {text}", schema, params=params)
    assert (query.window, query.count_window) == (window, count)


WRONG_WINDOWS = [
    ("10", SCHEMA, {}, "give a unit, such as WITHIN 10 seconds"),
    ("10 s", INTEGERS, {}, "give a plain number, such as WITHIN 1000"),
    ("T", SCHEMA, {}, "unknown window parameter 'T'"),
    ("T", SCHEMA, {"T": 5}, "give a unit"),
    ("T s", SCHEMA, {"T": dt.timedelta(1)}, "is a duration already"),
    ("T s", SCHEMA, {"T": 0}, "WITHIN must be positive"),
    ("T s", SCHEMA, {"T": "x"}, "is a str, not a number or a duration"),
    ("T", INTEGERS, {"T": dt.timedelta(1)}, "cannot be compared with a duration"),
    ("999999999999999999999 weeks", SCHEMA, {}, "longer than times can be apart"),
]


@pytest.mark.parametrize(("text", "schema", "params", "message"), WRONG_WINDOWS)
def test_wrong_windows(text: str, schema: EventSchema, params: dict[str, object], message: str) -> None:
    assert message in problems(f"PATTERN SEQ(A a, B b) WITHIN {text}", schema, params=params)


def test_equivalences() -> None:
    query = bound("PATTERN SEQ(A a, B b) WHERE [id=3] AND a.price > 1 AND [name] AND [id]", partition_by=["ok", "id"])
    assert query.equivalences == (Equivalence("ok"), Equivalence("id", Literal(3)), Equivalence("name"))
    assert len(query.conjuncts) == 1
    assert "unknown attribute 'idd'" in problems("PATTERN SEQ(A a, B b) WHERE [idd]")
    assert "unknown attribute 'nam' in partition_by" in problems("PATTERN SEQ(A a, B b)", partition_by=["nam"])
    assert "two different values" in problems("PATTERN SEQ(A a, B b) WHERE [id=3] AND [id=4]")
    assert "cannot be compared" in problems("PATTERN SEQ(A a, B b) WHERE [tags]")
    assert "cannot compare [id], an integer, with 'x', a string" in problems("PATTERN SEQ(A a, B b) WHERE [id='x']")
    # A declared type without the attribute is no error: the test holds for it.
    assert bound("PATTERN SEQ(A a, B b) WHERE [name]", DECLARED).lacks("A", "name")


def test_declared_types() -> None:
    assert bound("PATTERN ANY(A, B) x WHERE x.name = 'y'", DECLARED)
    assert "unknown attribute 'name' of 'a' (A)" in problems("PATTERN SEQ(A a, B b) WHERE a.name = 'x'", DECLARED)
    message = problems("PATTERN SEQ(A a, BB b) WHERE b.anything = 1", DECLARED)
    assert "unknown event type 'BB'" in message
    assert "did you mean 'B'?" in message
    assert "unknown attribute" not in message


def test_no_type_column() -> None:
    assert bound("PATTERN SEQ(Stock a, Stock b)", UNTYPED)
    assert "no type column was given" in problems("PATTERN SEQ(A a, B b)", UNTYPED)


def test_integer_types() -> None:
    assert bound("PATTERN SEQ(`1` a, `2` b) WITHIN 5", INTEGERS).branches[0].positives[0].types == ("1",)


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("a.id + 1", Kind.INTEGER),
        ("a.id / 2", Kind.FLOAT),
        ("a.id * a.price", Kind.FLOAT),
        ("a.id % 2", Kind.INTEGER),
        ("b.ts - a.ts", Kind.DURATION),
        ("a.ts + 5 minutes", Kind.TIMESTAMP),
        ("5 minutes + a.ts", Kind.TIMESTAMP),
        ("a.took * 2", Kind.DURATION),
        ("a.took / a.took", Kind.FLOAT),
        ("-a.id", Kind.INTEGER),
        ("a.id = 1 OR a.ok", Kind.BOOLEAN),
        ("floor(a.price)", Kind.FLOAT),
        ("ceil(a.id)", Kind.INTEGER),
        ("sqrt(a.id)", Kind.FLOAT),
        ("length(concat(a.name, 'x'))", Kind.INTEGER),
        ("substr(a.name, 1, 2)", Kind.STRING),
        ("coalesce(a.id, a.price, NULL)", Kind.FLOAT),
        ("greatest(a.ts, b.ts)", Kind.TIMESTAMP),
        ("hour(a.ts)", Kind.INTEGER),
        ("avg(c[].id)", Kind.FLOAT),
        ("sum(c[].id)", Kind.INTEGER),
        ("max(c[].ts)", Kind.TIMESTAMP),
        ("c.LEN + count(c[])", Kind.INTEGER),
        ("NULL", Kind.NULL),
    ],
)
def test_kinds(expression: str, kind: Kind) -> None:
    query = bound(f"PATTERN SEQ(A a, B b, C+ c[]) RETURN {expression} AS x")
    assert kind_of(query.query.returns[0].expression, SCHEMA) is kind


WRONG_KINDS = {
    "a.price = 'x'": "cannot compare a.price, a float, with 'x', a string",
    "a.name > 3": "cannot compare a.name, a string, with 3, an integer",
    "a.ok < b.ok": "booleans have no order",
    "a.tags = b.tags": "cannot be compared",
    "a.name + 'x' = 'yx'": "to join strings use concat(x, y)",
    "a.price": "a.price is a float, not a condition",
    "NOT a.price": "not a condition",
    "a.id = 1 AND (a.name OR a.ok)": "a.name is a string, not a condition",
    "a.ts + 5 > b.ts": "write a duration, such as 5 minutes",
    "b.ts - a.ts > 5": "write a duration, such as 5 minutes",
    "a.ts > 5": "write a timestamp",
    "-a.name = 'x'": "cannot be negated",
    "a.price LIKE 'x'": "LIKE compares strings, but a.price is a float",
    "a.price IN (1, 'x')": "cannot compare a.price, a float, with 'x', a string",
    "a.name BETWEEN 'a' AND 3": "cannot compare",
    "sqt(a.price) > 1": "did you mean 'sqrt'?",
    "corr(a.tags, b.tags) > 0.9": "give it with the query: functions={'corr': ...}",
    "a.tags + 1 > 2": "passed to functions of your own",
    "-a.tags = 2": "passed to functions of your own",
    "a.tags": "passed to functions of your own",
    "length(a.tags) > 2": "passed to functions of your own",
    "power(a.price) > 1": "power takes 2 arguments, found 1",
    "lower(a.price) = 'x'": "lower takes strings, found float",
    "avg(c[].name) = 1": "avg cannot be taken of 'name', which is a string",
    "a.pric > 1": "did you mean 'price'?",
    "a.id = 99999999999999999999": "does not fit into 64 bits",
}


@pytest.mark.parametrize("condition", WRONG_KINDS)
def test_wrong_kinds(condition: str) -> None:
    assert WRONG_KINDS[condition] in problems(f"PATTERN SEQ(A a, B b, C+ c[]) WHERE {condition}")


def test_aggregates() -> None:
    assert bound("PATTERN SEQ(A a, B b) GROUP BY name AGG COUNT, SUM(a.price), MIN(b.ts) HAVING sum_a_price > 1.5")
    message = problems("PATTERN SEQ(A a, B b) GROUP BY nam AGG SUM(a.name), AVG(b.pric) HAVING cnt > 2")
    assert "unknown attribute 'nam' in GROUP BY" in message
    assert "SUM cannot be taken of 'name', which is a string" in message
    assert "unknown attribute 'pric' of 'b' (B)" in message
    assert "unknown name 'cnt'" in message


def test_all_problems_come_together() -> None:
    message = problems("PATTERN SEQ(A a, !(B b))\nWHERE a.pric > 1 AND a.name = 3 AND c.x = X")
    assert message.split(" at line")[0].startswith("unbounded negated end")
    assert message.count("at line") == 5


def test_too_many_components_do_not_exhaust_memory() -> None:
    components = ", ".join(f"A a{i}" for i in range(10_000))
    assert "at most 60 are supported" in problems(f"PATTERN SEQ({components})")


def test_parameters_of() -> None:
    assert parameters_of(parse("PATTERN SEQ(A a, B b) WHERE a.x IN L AND a.y = p WITHIN T RETURN q")) == {"L", "p", "T", "q"}


def test_kind_of_reports() -> None:
    with pytest.raises(BindingError, match="cannot compute string"):
        kind_of(Arithmetic("*", Attribute("a", "name"), Literal(2)), SCHEMA)
