"""What can be wrong with a query before any events are seen."""

import pytest

from kleene.common.errors import BindingError
from kleene.language.parser import parse
from kleene.pattern.builder import event, seq, var
from kleene.pattern.operators import Sequence
from kleene.pattern.policies import LogicalQuery
from kleene.pattern.predicates import Literal, Not
from kleene.pattern.validate import validate

FINE = [
    "EVENT SHELF-READING WHERE category = 'food'",
    "PATTERN SEQ(A a, !(B b), C c) WHERE [id] AND (b.x > a.x OR b.y = 1)",
    "PATTERN SEQ(A a, !(B b)) WITHIN 1 hour",
    "PATTERN SEQ(!(B b), A a) WITHIN 5 EVENTS",
    "PATTERN AND(A a, B b, !(C c)) WITHIN 1 hour",
    "PATTERN SEQ(A+ a[], B b) WHERE a[1].x = 1 AND a[i].x > a[i-1].x AND avg(a[..i-1].x) < a[i].x",
    "PATTERN SEQ(A+ a[], B b) WHERE a[].y = b.y AND a.LEN > 2 AND last(a.x) > 3",
    "PATTERN SEQ(A+ a[], B b) RETURN a[1].x, a[a.LEN].x AS y, avg(a[].x), a.LEN, b.x INTO T",
    "PATTERN SEQ(A a, B? b) WHERE b.x = a.x",
    "PATTERN SEQ(A a, B b) GROUP BY ip AGG COUNT, SUM(a.x) HAVING COUNT > 3 EMIT ON CHANGE WITHIN 1 s",
    "PATTERN SEQ(A a, B b) WHERE a.ticker = MSFT WITHIN T",
    "PATTERN SEQ(A a, B* b[], C c)",
]


@pytest.mark.parametrize("text", FINE)
def test_valid_queries(text: str) -> None:
    validate(parse(text))


WRONG = {
    "PATTERN SEQ(A, A)": "variable 'A' is used twice",
    "PATTERN SEQ(A a, OR(B b, C a))": "variable 'a' is used twice",
    "PATTERN SEQ(A match_id, B b)": "variable name 'match_id' is reserved",
    "PATTERN SEQ(A alpha, B b) WHERE alhpa.x = 1": "did you mean 'alpha'?",
    "PATTERN SEQ(A a, B b) WHERE a[i].x = 1": "a[i].x reads 'a' as an array, but it holds one event",
    "PATTERN SEQ(A a, B b) WHERE sum(a.x) = 1": "reads 'a' as an array, but it holds one event",
    "PATTERN SEQ(A a, B b) WHERE a.LEN = 1": "for an attribute of that name write a.`LEN`",
    "PATTERN SEQ(A+ a[], B b) WHERE a.x = 1": "'a' holds several events: which one's 'x'?",
    "PATTERN SEQ(A+ a[], B b) WHERE a[..i-1].x = 1": "a[..i-1].x stands outside an aggregate",
    "PATTERN SEQ(A+ a[], B b) WHERE a[i].x > a[].x": "a[] and a[i] in one condition",
    "PATTERN SEQ(A+ a[], B+ b[]) WHERE a[i].x > b[i].x": "i can run over one variable only",
    "PATTERN SEQ(A a, !(B+ b), C c)": "a negative component cannot be repeated or optional",
    "PATTERN SEQ(A a, !(B b), C c) RETURN b.x": "RETURN names the negative component 'b'",
    "PATTERN SEQ(A a, !(B b), C c) AGG SUM(b.x)": "AGG names the negative component 'b'",
    "PATTERN SEQ(A a, !(B b), !(C c), D d) WHERE b.x = c.x": "names the negative components 'b' and 'c'",
    "PATTERN SEQ(A a, !(B b), !(C c), D d) WHERE b.x = 1 OR c.x = 1": "at most one negative component",
    "PATTERN SEQ(A a, B b) WITHIN 0 hours": "WITHIN must be positive",
    "PATTERN SEQ(A a, B b) WITHIN -1 hours": "WITHIN must be positive",
    "PATTERN SEQ(A a, B b) WITHIN 1.5 events": "a window of events is a whole number",
    "PATTERN SEQ(A a, !(B b))": "unbounded negated end",
    "PATTERN SEQ(!(B b), A a)": "unbounded negated start",
    "PATTERN AND(A a, !(B b))": "unbounded negation under AND",
    "PATTERN AND(A a, B b) WHERE strict_contiguity {}": "AND needs the strategy skip_till_any_match, not strict_contiguity",
    "PATTERN !(A a) WITHIN 1 s": "needs a positive component",
    "PATTERN A* a[] WITHIN 1 s": "needs a positive component in every alternative",
    "PATTERN SEQ(A{3,2} a[], B b)": "repetition {3,2} has its bounds in the wrong order",
    "PATTERN SEQ(A{0} a[], B b)": "a repetition needs at least one event",
    "PATTERN SEQ(A a, B b) RETURN a.x AS y, b.x AS y": "RETURN has 2 columns named 'y'",
    "PATTERN SEQ(A a, B b) RETURN a.x AS query": "RETURN column 'query' is reserved",
    "PATTERN SEQ(A+ a[], B b) RETURN a[i].x": "there is no current element of a whole match",
    "PATTERN SEQ(A a, B b) AGG COUNT RETURN a.x": "AGG and RETURN cannot both be given",
    "PATTERN SEQ(A a, B b) HAVING count > 3": "HAVING needs AGG",
    "PATTERN SEQ(A a, B b) GROUP BY x": "GROUP BY needs AGG",
    "PATTERN SEQ(A a, B b) GROUP BY at AGG COUNT": "GROUP BY cannot be by a column named 'at'",
    "PATTERN SEQ(A a, B b) EMIT ON CHANGE": "EMIT ON CHANGE needs AGG",
    "PATTERN SEQ(A a, B b) AGG COUNT HAVING a.x > 3": "HAVING reads the variable 'a'",
    "PATTERN SEQ(A a, B b) AGG COUNT HAVING SUM(a.x) > 3": "HAVING reads an aggregate that AGG does not compute",
    "PATTERN SEQ(A a, B b) AGG COUNT, SUM(a.x) AS count": "2 columns named 'count'",
    "PATTERN SEQ(A a, B b) WHERE a.x > 1 OR [id]": "the equivalence test [id] stands inside another condition",
    "PATTERN SEQ(A a, B b) WHERE skip_till_next_match(a, z) { [id] }": "unknown variable 'z' after skip_till_next_match",
}


@pytest.mark.parametrize("text", WRONG)
def test_invalid_queries(text: str) -> None:
    with pytest.raises(BindingError) as caught:
        validate(parse(text))
    assert WRONG[text] in str(caught.value)


def test_all_problems_come_together() -> None:
    with pytest.raises(BindingError) as caught:
        validate(parse("PATTERN SEQ(A+ a[], !(B b))\nWHERE a.x = c.x"))
    assert str(caught.value) == (
        "unbounded negated end: nothing says how long 'b' must not occur at line 1, column 21\n"
        "  PATTERN SEQ(A+ a[], !(B b))\n"
        "                      ^^^^^^\n"
        "  hint: add a WITHIN clause\n"
        "\n"
        "'a' holds several events: which one's 'x'? at line 2, column 7\n"
        "  WHERE a.x = c.x\n"
        "        ^^^\n"
        "  hint: write a[1].x, a[i].x, a[a.LEN].x or avg(a[].x)\n"
        "\n"
        "unknown variable 'c' at line 2, column 13\n"
        "  WHERE a.x = c.x\n"
        "              ^^^\n"
        "  hint: known: 'a', 'b'"
    )


def test_what_only_the_builder_can_say() -> None:
    with pytest.raises(BindingError, match="INTO needs RETURN"):
        validate(event("A", "a").into("T").build())
    with pytest.raises(BindingError, match="need at least one part"):
        validate(LogicalQuery(pattern=Sequence(())))
    deep = Literal(True)
    for _ in range(2_000):
        deep = Not(deep)  # type: ignore[assignment]
    with pytest.raises(BindingError, match="nested deeper than 100"):
        validate(LogicalQuery(pattern=event("A").query.pattern, where=deep))


def test_too_many_components() -> None:
    query = seq(*(event("A", f"a{i}") for i in range(5_000))).where(var("a1").x == 1).build()
    with pytest.raises(BindingError, match="5000 components; at most 60"):
        validate(query)
