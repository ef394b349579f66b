"""What the language says, construct by construct, and what it answers to mistakes."""

# ruff: noqa: RUF001

import datetime as dt
import subprocess
import sys
from fractions import Fraction

import pytest

from kleene.common.errors import BindingError, QuerySyntaxError
from kleene.language.parser import parse
from kleene.pattern.operators import KLEENE_PLUS, OPTIONAL, Conjunction, Disjunction, Event, Quantifier, Sequence
from kleene.pattern.policies import MatchAggregate, Output, ReturnItem, Strategy, Unit, Window
from kleene.pattern.predicates import (
    Aggregate,
    AggregateFunction,
    And,
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
    Or,
)
from kleene.pattern.validate import validate
from support.work import calls_of

A = Event(("A",), "a")
X = Attribute("a", "x")


def where(condition: str) -> object:
    return parse(f"PATTERN A a WHERE {condition}").where


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("A a", A),
        ("(A a)", A),
        ("SHELF-READING", Event(("SHELF-READING",), "SHELF-READING")),
        ("`shelf reading` a", Event(("shelf reading",), "a")),
        ('"shelf ""x""" a', Event(('shelf "x"',), "a")),
        ("(A a, B b)", Sequence((A, Event(("B",), "b")))),
        ("seq(A a, B b)", Sequence((A, Event(("B",), "b")))),
        ("AND(A a, OR(B, C))", Conjunction((A, Disjunction((Event(("B",), "B"), Event(("C",), "C")))))),
        ("ANY(A, B-C) x", Event(("A", "B-C"), "x")),
        ("ANY(A, B)", Event(("A", "B"), "A_B")),
        ("ANY(A, B)+ x[]", Event(("A", "B"), "x", KLEENE_PLUS)),
        ("A+ a[]", Event(("A",), "a", KLEENE_PLUS)),
        ("A+ a", Event(("A",), "a", KLEENE_PLUS)),
        ("A+", Event(("A",), "A", KLEENE_PLUS)),
        ("KL(A a)", Event(("A",), "a", KLEENE_PLUS)),
        ("KL(A a[])", Event(("A",), "a", KLEENE_PLUS)),
        ("A* a[]", Event(("A",), "a", Quantifier(0, None))),
        ("A? a", Event(("A",), "a", OPTIONAL)),
        ("A{0,1} a[]", Event(("A",), "a", Quantifier(0, 1))),
        ("A{2,5} a[]", Event(("A",), "a", Quantifier(2, 5))),
        ("A{3} a[]", Event(("A",), "a", Quantifier(3, 3))),
        ("A{2,} a[]", Event(("A",), "a", Quantifier(2, None))),
    ],
)
def test_patterns(text: str, pattern: object) -> None:
    assert parse(f"PATTERN {text}").pattern == pattern
    assert parse(f"event {text}").pattern == pattern


@pytest.mark.parametrize("text", ["!(B b)", "!B b", "~(B b)", "~B b", "NOT(B b)", "NOT B b", "¬(B b)", "! ((B b))"])
def test_negation(text: str) -> None:
    assert parse(f"PATTERN SEQ(A a, {text}, A c)").pattern == Sequence(
        (A, Event(("B",), "b", negated=True), Event(("A",), "c"))
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.x = 1", Comparison("=", X, Literal(1))),
        ("a.x == 1", Comparison("=", X, Literal(1))),
        ("a.x <> 1", Comparison("!=", X, Literal(1))),
        ("a.x ≠ 1.5", Comparison("!=", X, Literal(1.5))),
        ("a.x ≥ 1", Comparison(">=", X, Literal(1))),
        ("a.x ≤ -1", Comparison("<=", X, Literal(-1))),
        ("a.x = -(1)", Comparison("=", X, Negate(Literal(1)))),
        ("a.x = - -1", Comparison("=", X, Negate(Literal(-1)))),
        ("a.x = ‘food’", Comparison("=", X, Literal("food"))),
        ("a.x = “food”", Comparison("=", X, Literal("food"))),
        ("a.x = 'it''s'", Comparison("=", X, Literal("it's"))),
        ("a.`odd name` = true", Comparison("=", Attribute("a", "odd name"), Literal(True))),
        ("a.from = NULL", Comparison("=", Attribute("a", "from"), Literal(None))),
        ("a.x < 80%*a.y", Comparison("<", X, Arithmetic("*", Literal(0.8), Attribute("a", "y")))),
        (
            "a.x < 80% AND a.y < 5%",
            And((Comparison("<", X, Literal(0.8)), Comparison("<", Attribute("a", "y"), Literal(0.05)))),
        ),
        ("a.x %500==0", Comparison("=", Arithmetic("%", X, Literal(500)), Literal(0))),
        ("1000 % 3 = 1", Comparison("=", Arithmetic("%", Literal(1000), Literal(3)), Literal(1))),
        ("1000%a.x = 1", Comparison("=", Arithmetic("%", Literal(1000), X), Literal(1))),
        ("a.x - 1 - 2 = 0", Comparison("=", Arithmetic("-", Arithmetic("-", X, Literal(1)), Literal(2)), Literal(0))),
        ("a.x IN (1, 2)", In(X, (Literal(1), Literal(2)))),
        ("a.x ∈ Hi-Tech", In(X, Name("Hi-Tech"))),
        ("a.x ∉ (1)", Not(In(X, (Literal(1),)))),
        ("a.x NOT IN list", Not(In(X, Name("list")))),
        ("a.x BETWEEN 1 AND 2 AND a.x = 1", And((Between(X, Literal(1), Literal(2)), Comparison("=", X, Literal(1))))),
        ("a.x NOT BETWEEN 1 AND 2", Not(Between(X, Literal(1), Literal(2)))),
        ("a.x LIKE 'a%'", Like(X, Literal("a%"))),
        ("a.x NOT LIKE 'a%'", Not(Like(X, Literal("a%")))),
        ("a.x IS NULL", IsNull(X)),
        ("a.x IS NOT NULL", Not(IsNull(X))),
        ("NOT a.x = 1", Not(Comparison("=", X, Literal(1)))),
        ("!(a.x = 1)", Not(Comparison("=", X, Literal(1)))),
        ("p ∧ q ∨ r", Or((And((Name("p"), Name("q"))), Name("r")))),
        ("p && q || r", Or((And((Name("p"), Name("q"))), Name("r")))),
        ("(p and q) and r", And((Name("p"), Name("q"), Name("r")))),
        ("[id]", Equivalence("id")),
        ("[id, name]", And((Equivalence("id"), Equivalence("name")))),
        ("[id='1'] and [n=3]", And((Equivalence("id", Literal("1")), Equivalence("n", Literal(3))))),
        ("[within]", Equivalence("within")),
        ("a[1].x = 1", Comparison("=", Attribute("a", "x", Element.FIRST), Literal(1))),
        ("a[i].x > a[i-1].x", Comparison(">", Attribute("a", "x", Element.CURRENT), Attribute("a", "x", Element.PREVIOUS))),
        ("a[a.LEN].x = a.len", Comparison("=", Attribute("a", "x", Element.LAST), Length("a"))),
        ("a.`len` = 1", Comparison("=", Attribute("a", "len"), Literal(1))),
        ("a[].x = 1", Comparison("=", Attribute("a", "x", Element.EACH), Literal(1))),
        ("avg(a[..i-1].x) = 1", Comparison("=", Aggregate(AggregateFunction.AVG, "a", "x", Element.SO_FAR), Literal(1))),
        ("last(a.x) = 1", Comparison("=", Aggregate(AggregateFunction.LAST, "a", "x", Element.EACH), Literal(1))),
        ("count(a[..i-1]) = 1", Comparison("=", Aggregate(AggregateFunction.COUNT, "a", None, Element.SO_FAR), Literal(1))),
        ("Corr(a.x, 2) > T", Comparison(">", Call("corr", (X, Literal(2))), Name("T"))),
        ("a.x > 5 minutes", Comparison(">", X, Literal(dt.timedelta(minutes=5)))),
        ("a.x > TIMESTAMP '2024-01-01 10:00:00'", Comparison(">", X, Literal(dt.datetime(2024, 1, 1, 10)))),  # noqa: DTZ001
        ("a.x > TIMESTAMP '2024-01-01T10:00+02:00'", Comparison(">", X, Literal(dt.datetime(2024, 1, 1, 8)))),  # noqa: DTZ001
        ("timestamp = 3", Comparison("=", Name("timestamp"), Literal(3))),
        (
            "group = 3 AND output > 2",
            And((Comparison("=", Name("group"), Literal(3)), Comparison(">", Name("output"), Literal(2)))),
        ),
    ],
)
def test_conditions(text: str, expected: object) -> None:
    assert where(text) == expected


def test_chained_comparisons_are_conjunctions() -> None:
    assert where("1 < a.x = b.x AND p") == And(
        (Comparison("<", Literal(1), X), Comparison("=", X, Attribute("b", "x")), Name("p"))
    )


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("12 hours", Window(12, Unit.HOURS)),
        ("10s", Window(10, Unit.SECONDS)),
        ("1hour", Window(1, Unit.HOURS)),
        ("500 ms", Window(500, Unit.MILLISECONDS)),
        ("10000", Window(10000, Unit.NUMBER)),
        ("100 EVENTS", Window(100, Unit.EVENTS)),
        ("T", Window("T", Unit.NUMBER)),
        ("h", Window("h", Unit.NUMBER)),
        ("T hours", Window("T", Unit.HOURS)),
        ("1.5 hours", Window(Fraction(3, 2), Unit.HOURS)),
        ("2.0 hours", Window(2, Unit.HOURS)),
        ("1/3 hours", Window(Fraction(1, 3), Unit.HOURS)),
        ("-1 s", Window(-1, Unit.SECONDS)),
    ],
)
def test_windows(text: str, window: Window) -> None:
    assert parse(f"PATTERN A a WITHIN {text}").within == window
    assert parse(f"PATTERN A a [WITHIN <{text}>] OUTPUT ALL;").within == window


def test_strategies() -> None:
    query = parse("PATTERN SEQ(A+ a[], B b) WHERE skip_till_next_match(a[], b) { a[1].x = 1 }")
    assert query.strategy is Strategy.SKIP_TILL_NEXT_MATCH
    assert query.strategy_variables == ("a", "b")
    assert query.where == Comparison("=", Attribute("a", "x", Element.FIRST), Literal(1))
    query = parse("PATTERN A a WHERE PARTITION-CONTIGUITY {}")
    assert query.strategy is Strategy.PARTITION_CONTIGUITY
    assert query.where is None
    # A function call of the same form is a condition.
    assert where("strict_contiguity(a, b)") == Call("strict_contiguity", (Name("a"), Name("b")))


def test_aggregation_clauses() -> None:
    query = parse(
        "PATTERN SEQ(A a, B b) GROUP BY ip, host AGG COUNT, COUNT(*) AS n, SUM(a.x) AS total, MAX(b.y) "
        "HAVING COUNT > 5 AND sum(a.x) < 3 AND COUNT(*) > 2 EMIT ON CHANGE WITHIN 1 s"
    )
    assert query.group_by == ("ip", "host")
    assert query.aggregates == (
        MatchAggregate("count", None, None, "count"),
        MatchAggregate("count", None, None, "n"),
        MatchAggregate("sum", "a", "x", "total"),
        MatchAggregate("max", "b", "y", "max_b_y"),
    )
    assert query.having == And(
        (
            Comparison(">", Name("count"), Literal(5)),
            Comparison("<", Name("total"), Literal(3)),
            Comparison(">", Name("count"), Literal(2)),
        )
    )
    assert query.emit_on_change


def test_return_output_and_order_of_clauses() -> None:
    query = parse(
        "PATTERN A a RETURN a.x, a.x+1 AS from, abs(a.x), a.x*2 INTO BIG-TRADE OUTPUT NON-OVERLAP WITHIN 1 s WHERE a.x > 0"
    )
    assert query.returns == (
        ReturnItem(X, "a_x"),
        ReturnItem(Arithmetic("+", X, Literal(1)), "from"),
        ReturnItem(Call("abs", (X,)), "abs"),
        ReturnItem(Arithmetic("*", X, Literal(2)), "column_4"),
    )
    assert query.into == "BIG-TRADE"
    assert query.output is Output.NON_OVERLAP
    assert parse("PATTERN A a OUTPUT non_overlap").output is Output.NON_OVERLAP


def test_comments_and_decoration() -> None:
    text = "PATTERN <SEQ(A a, -- first\n B b)> // then\n WHERE <a.x > 3 AND a.y<b.y> /* here */ [AGG <COUNT>] [WITHIN 10s]"
    query = parse(text, name="decorated")
    assert query == parse("PATTERN SEQ(A a, B b) WHERE a.x > 3 AND a.y < b.y AGG COUNT WITHIN 10 seconds")
    assert (query.name, query.text) == ("decorated", text)


def test_spans_point_into_the_text() -> None:
    text = "PATTERN SEQ(A a, !(B b)) WHERE a.x = 1 AND avg(a[].y) > 2"
    query = parse(text)
    assert isinstance(query.where, And)
    shown = [text[part.span.start : part.span.end] for part in query.where.operands if part.span]
    assert shown == ["a.x = 1", "avg(a[].y) > 2"]
    assert isinstance(query.pattern, Sequence)
    assert [text[part.span.start : part.span.end] for part in query.pattern.parts if part.span] == ["A a", "!(B b)"]


ERRORS = {
    "PATERN A a": """\
expected PATTERN or EVENT, found 'PATERN' at line 1, column 1
  PATERN A a
  ^^^^^^
  hint: did you mean 'PATTERN'?""",
    "PATTERN SEQ(A a, B b WHERE a.x = 1": """\
'(' is not closed at line 1, column 12
  PATTERN SEQ(A a, B b WHERE a.x = 1
             ^
  hint: expected ')' before 'WHERE'""",
    "PATTERN A a\nWITHIN 3 hourz": """\
unknown unit 'hourz' at line 2, column 10
  WITHIN 3 hourz
           ^^^^^
  hint: did you mean 'hours'?""",
    "PATTERN A a WHERE a.x = 'foo": """\
the string is not closed at line 1, column 25
  PATTERN A a WHERE a.x = 'foo
                          ^
  hint: close it with '""",
    "PATTERN A a /* why": """\
the comment is not closed at line 1, column 13
  PATTERN A a /* why
              ^^
  hint: close it with */""",
    "PATTERN A a WHERE a.x = WITHIN 5 hours": """\
expected a value or condition, found 'WITHIN' at line 1, column 25
  PATTERN A a WHERE a.x = WITHIN 5 hours
                          ^^^^^^""",
    "EVENT A WHER x = 1": """\
expected a clause (WHERE, WITHIN, RETURN, ...), found 'x' at line 1, column 14
  EVENT A WHER x = 1
               ^
  hint: 'WHER' was read as a name; did you mean 'WHERE'?""",
    "PATTERN A a WITIN 5 s": """\
expected a clause (WHERE, WITHIN, RETURN, ...), found 'WITIN' at line 1, column 13
  PATTERN A a WITIN 5 s
              ^^^^^
  hint: did you mean 'WITHIN'?""",
    "PATTERN A a WHERE skip_til_next_match(a) { a.x = 1 }": """\
unknown selection strategy 'skip_til_next_match' at line 1, column 19
  PATTERN A a WHERE skip_til_next_match(a) { a.x = 1 }
                    ^^^^^^^^^^^^^^^^^^^
  hint: did you mean 'skip_till_next_match'?""",
    "PATTERN !(SEQ(A a, B b))": """\
negation applies to one component, not to SEQ, AND or OR at line 1, column 9
  PATTERN !(SEQ(A a, B b))
          ^^^^^^^^^^^^^^^^
  hint: negate each component on its own: SEQ(A a, !(B b), !(C c), D d)""",
    "PATTERN A a+": """\
expected a clause (WHERE, WITHIN, RETURN, ...), found '+' at line 1, column 12
  PATTERN A a+
             ^
  hint: repetition follows the type: write T+ a[]""",
    "PATTERN A a WHERE a.x > 3 ^ a.y < 2": """\
unexpected character '^' at line 1, column 27
  PATTERN A a WHERE a.x > 3 ^ a.y < 2
                            ^
  hint: write AND (or ∧)""",
    "PATTERN A a WHERE a.x = 1 WHERE a.y = 2": """\
WHERE is given twice at line 1, column 27
  PATTERN A a WHERE a.x = 1 WHERE a.y = 2
                            ^^^^^
  hint: write each clause once""",
    "PATTERN A a WHERE a.x = 1)": """\
')' closes nothing at line 1, column 26
  PATTERN A a WHERE a.x = 1)
                           ^""",
    "PATTERN A a WHERE a.x ==": """\
expected a value or condition, found the end of the query at line 1, column 25
  PATTERN A a WHERE a.x ==
                          ^""",
    "PATTERN A a[] WHERE a[1].x = 1": """\
'a[]' is an array, but the component binds one event at line 1, column 11
  PATTERN A a[] WHERE a[1].x = 1
            ^
  hint: write 'a', or T+ a[]""",
    "PATTERN A+ a[] WHERE a[2].x = 1": """\
an element cannot be picked by the number 2 at line 1, column 24
  PATTERN A+ a[] WHERE a[2].x = 1
                         ^
  hint: write a[1], a[i], a[i-1], a[..i-1], a[a.LEN] or a[]""",
    "PATTERN SEQ(A a, B b) WHERE max(a.x, b.x) > 1": """\
max takes one argument, found 2 at line 1, column 29
  PATTERN SEQ(A a, B b) WHERE max(a.x, b.x) > 1
                              ^^^^^^^^^^^^^
  hint: to compare several values use greatest(x, y)""",
    "PATTERN A a AGG SUMM(a.x)": """\
unknown aggregate 'SUMM' at line 1, column 17
  PATTERN A a AGG SUMM(a.x)
                  ^^^^
  hint: did you mean 'SUM'?""",
}


@pytest.mark.parametrize("text", ERRORS)
def test_error_texts(text: str) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse(text)
    assert str(caught.value) == ERRORS[text]


@pytest.mark.parametrize("nothing", [None, b"PATTERN A a", 3, "", "  \n"])
def test_what_is_not_a_text(nothing: object) -> None:
    with pytest.raises(QuerySyntaxError, match=r"a query is text, not|the query is empty"):
        parse(nothing)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "condition",
    [
        "(" * 100_000 + "a.x",
        "NOT " * 10_000 + "a.x",
        "1" + " + 1" * 10_000 + " = 2",
        "- " * 10_000 + "1 = 2",
        "f(" * 1_000 + "1",
    ],
)
def test_deep_nesting_is_refused(condition: str) -> None:
    with pytest.raises(QuerySyntaxError, match="expression nested deeper than 100"):
        where(condition)


def test_deep_patterns_are_refused() -> None:
    with pytest.raises(QuerySyntaxError, match="nested deeper than 100"):
        parse("PATTERN " + "SEQ(" * 5_000 + "A a" + ")" * 5_000)


def test_long_lists_are_fine() -> None:
    pattern = parse(f"PATTERN SEQ({', '.join(f'T{i} a{i}' for i in range(10_000))})").pattern
    assert isinstance(pattern, Sequence)
    assert len(pattern.parts) == 10_000
    condition = where(" AND ".join(f"a.x != {i}" for i in range(5_000)))
    assert isinstance(condition, And)
    assert len(condition.operands) == 5_000


def test_importing_the_parser_loads_no_grammar() -> None:
    code = "import sys, kleene.language.parser; sys.exit('lark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_error_of_very_many_problems_is_told_in_linear_time_and_in_short() -> None:
    def told(problems: int) -> pytest.ExceptionInfo[BindingError]:
        with pytest.raises(BindingError) as raised:
            validate(parse(f"PATTERN SEQ(A a, B b) WHERE {' AND '.join(['x.x = 1'] * problems)}"))
        return raised

    assert calls_of(lambda: told(1_000)) < 2.5 * calls_of(lambda: told(500))
    raised = told(10_000)
    assert len(raised.value.problems) == 10_000
    assert len(str(raised.value)) < 10_000
    assert str(raised.value).endswith("... and 9,980 more problems")
