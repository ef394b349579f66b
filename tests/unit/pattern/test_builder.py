"""The builder makes the same data as the parser, and catches Python habits that would go wrong silently."""

import datetime as dt

import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import BindingError
from kleene.language.parser import parse
from kleene.pattern.builder import (
    Draft,
    all_of,
    any_of,
    avg,
    call,
    count,
    event,
    first,
    last,
    max_,
    min_,
    one_of,
    param,
    same,
    seq,
    stddev,
    sum_,
    var,
)

a, b, c = var("a"), var("b"), var("c")
PAIR = seq(event("A", "a"), event("B", "b"))
RUN = seq(event("A", "a").plus(), event("B", "b"))

CASES: list[tuple[Draft, str]] = [
    (
        seq(event("Shelf", "a"), ~event("Register", "b"), event("Exit", "c")).where(same("tag_id")).within(12, "hours"),
        "PATTERN SEQ(Shelf a, !(Register b), Exit c) WHERE [tag_id] WITHIN 12 hours",
    ),
    (
        RUN.where(same("symbol"), a.first.volume > 1000, a.current.price > avg(a.so_far.price), b.volume < 0.8 * a.last.volume)
        .strategy("skip_till_next_match", "a", "b")
        .within(dt.timedelta(hours=1)),
        """PATTERN SEQ(A+ a[], B b) WHERE skip_till_next_match(a[], b) { [symbol] and a[1].volume > 1000
        and a[i].price > avg(a[..i-1].price) and b.volume < 80%*a[a.LEN].volume } WITHIN 1 hour""",
    ),
    (
        PAIR.where((a.x < b.x) | ~(a["odd name"] == "y") & (a.z != -3)),
        "PATTERN SEQ(A a, B b) WHERE a.x < b.x OR NOT a.`odd name` = 'y' AND a.z != -3",
    ),
    (
        PAIR.where(a.x.isin([1, 2]), b.x.isin(param("L")), a.y.between(1, b.y), b.n.like("a%"), ~b.n.is_null()),
        """PATTERN SEQ(A a, B b)
        WHERE a.x IN (1, 2) AND b.x IN L AND a.y BETWEEN 1 AND b.y AND b.n LIKE 'a%' AND b.n IS NOT NULL""",
    ),
    (
        PAIR.where(abs(a.x - b.x) / 2 >= 1 + a.y % 3, -a.x <= call("least", a.x, 2)).within("T"),
        "PATTERN SEQ(A a, B b) WHERE abs(a.x - b.x) / 2 >= 1 + a.y % 3 AND -a.x <= least(a.x, 2) WITHIN T",
    ),
    (
        PAIR.where(
            b.ts - a.ts > dt.timedelta(minutes=5), a.ts > dt.datetime(2024, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))
        ),
        "PATTERN SEQ(A a, B b) WHERE b.ts - a.ts > 5 minutes AND a.ts > TIMESTAMP '2024-01-01 00:00:00'",
    ),
    (
        RUN.where(a.len > 3, a.each.x > 0, count(a.so_far) < 5, last(a.x) == max_(a.each.x)).where(a.previous.x == 1),
        """PATTERN SEQ(A+ a[], B b)
        WHERE a.LEN > 3 AND a[].x > 0 AND count(a[..i-1]) < 5 AND last(a.x) = max(a[].x) AND a[i-1].x = 1""",
    ),
    (
        all_of(event("A"), one_of(event("B", "b").optional(), any_of("C", "D", name="x").times(2, 5))).within(100, "events"),
        "PATTERN AND(A, OR(B? b, ANY(C, D){2,5} x[])) WITHIN 100 EVENTS",
    ),
    (
        PAIR.group_by("ip").agg(count(), total=sum_(a.x)).having(count() > 5, sum_(a.x) < 9).emit_on_change().within(1.5, "s"),
        """PATTERN SEQ(A a, B b) GROUP BY ip AGG COUNT, SUM(a.x) AS total
        HAVING COUNT > 5 AND total < 9 EMIT ON CHANGE WITHIN 1.5 s""",
    ),
    (
        PAIR.returns(a.x, total=a.x + b.x).into("T").output("non-overlap").within(10000),
        "PATTERN SEQ(A a, B b) RETURN a.x, a.x + b.x AS total INTO T OUTPUT NON-OVERLAP WITHIN 10000",
    ),
    (event("A", "a").times(3), "PATTERN A{3} a[]"),
    (event("A", "a").at_least(2), "PATTERN A{2,} a[]"),
    (event("A", "a").star(), "PATTERN A* a[]"),
    (event("A", "a").times(0, 1), "PATTERN A{0,1} a[]"),
    (RUN, "PATTERN SEQ(KL(A a), B b)"),
    (seq(any_of("A", "C", name="a").plus(), event("B", "b").optional()), "PATTERN SEQ(ANY(A, C)+ a[], B? b)"),
    (RUN.strategy("strict-contiguity"), "PATTERN SEQ(A+ a[], B b) WHERE strict_contiguity { }"),
    (RUN.strategy("skip_till_any_match", "a", "b"), "PATTERN SEQ(A+ a[], B b) WHERE skip_till_any_match(a[], b) { }"),
    (
        RUN.strategy("partition_contiguity").where(
            same("k"), a.current.x > a.previous.x, a.last["odd name"] < 3, a.len % 2 == 0
        ),
        """PATTERN SEQ(A+ a[], B b)
        WHERE partition_contiguity { [k] AND a[i].x > a[i-1].x AND a[a.LEN].`odd name` < 3 AND a.LEN % 2 = 0 }""",
    ),
    (
        RUN.where(first(a.x) == 1, last(a.each.x) == 2, stddev(a.x) > 1, sum_(a.each.x) > 3, avg(a.each.x) > b.x, count(a) > 2),
        """PATTERN SEQ(A+ a[], B b) WHERE first(a.x) = 1 AND last(a[].x) = 2 AND stddev(a[].x) > 1 AND sum(a[].x) > 3
        AND avg(a[].x) > b.x AND count(a[]) > 2""",
    ),
    (
        RUN.where(a.current.x > min_(a.so_far.x), a.current.x < stddev(a.so_far.x), last(a.so_far.x) == first(a.so_far.x)),
        """PATTERN SEQ(A+ a[], B b) WHERE a[i].x > min(a[..i-1].x) AND a[i].x < stddev(a[..i-1].x)
        AND last(a[..i-1].x) = first(a[..i-1].x)""",
    ),
    (
        RUN.returns(a.len, xs=a.each.x, low=a.first.x, high=a.last.x, mean=avg(a.each.x), n=count(a.each)).into("Run-Event"),
        """PATTERN SEQ(A+ a[], B b) RETURN a.LEN, a[].x AS xs, a[1].x AS low, a[a.LEN].x AS high, avg(a[].x) AS mean,
        count(a[]) AS n INTO Run-Event""",
    ),
    (RUN.output("NON-OVERLAP").within("n", "events"), "PATTERN SEQ(A+ a[], B b) OUTPUT NON-OVERLAP WITHIN n EVENTS"),
    (PAIR.where(same("id", value=3), same("x", "y")), "PATTERN SEQ(A a, B b) WHERE [id=3] AND [x, y]"),
]


@pytest.mark.parametrize(("draft", "text"), CASES, ids=[text for _, text in CASES])
def test_built_equals_parsed(draft: Draft, text: str) -> None:
    built = draft.build(name="q")
    assert built == parse(text)
    assert built.name == "q"
    assert built.text is not None
    assert parse(built.text) == built


AGGREGATED = PAIR.agg(count(), total=sum_(a.x), least=min_(b.x), most=max_(b.x), mean=avg(a.x)).within(10)
SHOP = pa.table({"ts": [1, 2, 3, 5, 30], "type": ["A", "A", "B", "B", "B"], "k": [1, 2, 1, 2, 1], "x": [4, 6, 1, 9, 2]})


@pytest.mark.parametrize(
    ("draft", "rows"),
    [
        (
            AGGREGATED,
            [(3, 2, 10, 1, 1, 5.0), (5, 4, 20, 1, 9, 5.0), (30, 0, None, None, None, None)],
        ),
        (
            AGGREGATED.group_by("k"),
            [(1, 3, 1, 4, 1, 1, 4.0), (2, 5, 1, 6, 9, 9, 6.0), (1, 30, 0, None, None, None, None)],
        ),
        (AGGREGATED.group_by("k").having(sum_(a.x) > 4), [(2, 5, 1, 6, 9, 9, 6.0)]),
        (AGGREGATED.where(same("k"), b.x > 1).having(count() < 2, param("total") > 1), [(5, 1, 6, 9, 9, 6.0)]),
        (PAIR.agg(count()).within(10).emit_on_change(), [(3, 2), (5, 4), (11, 2), (12, 0), (30, 0)]),
        (
            PAIR.where(a.x < b.x).agg(pairs=count()).group_by("k").within(10).emit_on_change(),
            [
                (1, 3, 0),
                (2, 5, 1),
                (2, 12, 0),
                (1, 30, 0),
            ],
        ),
    ],
    ids=["all", "group_by", "having", "where", "emit_on_change", "matched"],
)
def test_aggregates_of_built_queries(draft: Draft, rows: list[tuple[object, ...]]) -> None:
    found = kleene.query(draft, name="shop").match(SHOP, time="ts", type="type")
    assert set(found.column("query").to_pylist()) == {"shop"}
    assert [tuple(row.values()) for row in found.drop_columns("query").to_pylist()] == rows


def test_repr_is_text() -> None:
    assert repr(a.x < 3) == "a.x < 3"
    assert repr(event("A", "a").plus()) == "A+ a[]"
    assert repr(PAIR.where(a.x == 1)) == "PATTERN SEQ(A a, B b)\nWHERE a.x = 1"


@pytest.mark.parametrize(
    "misuse",
    [
        lambda: (a.x < 1) and (b.x > 2),
        lambda: (a.x < 1) or (b.x > 2),
        lambda: not (a.x < 1),
        lambda: a.x < b.x < c.x,
        lambda: bool(a.x),
    ],
)
def test_conditions_have_no_truth_value(misuse) -> None:
    with pytest.raises(TypeError, match="write & for AND"):
        misuse()


@pytest.mark.parametrize(
    "misuse", [lambda: a == 1, lambda: a.first == 1, lambda: b != a, lambda: a.each != 3, lambda: not a, lambda: bool(a.last)]
)
def test_events_are_no_values(misuse) -> None:
    with pytest.raises(TypeError, match="compare one of its attributes"):
        misuse()


def test_mistakes() -> None:
    with pytest.raises(BindingError, match="unknown unit 'hourz'"):
        PAIR.within(1, "hourz")
    with pytest.raises(BindingError, match="unknown selection strategy"):
        PAIR.strategy("skip_til_next_match")
    with pytest.raises(TypeError, match="one component"):
        _ = ~PAIR
    with pytest.raises(TypeError, match="whole query"):
        seq(event("A").where(a.x == 1), event("B"))
    with pytest.raises(TypeError, match="not one string"):
        a.x.isin("abc")
    with pytest.raises(TypeError, match="cannot stand in a condition"):
        a.x == object()  # noqa: B015
    with pytest.raises(TypeError, match=r"elements of a variable"):
        avg(a.current.x)
    with pytest.raises(AttributeError):
        (a.x == 1).expression = None  # type: ignore[assignment]


def test_drafts_are_immutable() -> None:
    before = PAIR.build()
    PAIR.where(a.x == 1).within(3, "s")
    assert PAIR.build() == before
