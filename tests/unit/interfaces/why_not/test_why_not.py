"""Why a query does not match: each kind of constraint is named, and only that one; ranges, bounds, and how it is shown."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import BindingError, DataError
from kleene.interfaces import event_range
from kleene.interfaces.cli import main
from kleene.interfaces.why_not import misses as why_not_misses
from kleene.interfaces.why_not import why_not as inquiry
from kleene.interfaces.why_not.report import Count, WhyNot

SHOPLIFTING = "PATTERN SEQ(Shelf a, !(Register b), Exit c) WHERE [item] WITHIN 12 hours RETURN a.item AS item, a.ts AS picked"
READINGS = """ts,type,item
2026-03-02 09:00:00,Shelf,razor
2026-03-02 09:01:00,Shelf,milk
2026-03-02 09:02:00,Shelf,soap
2026-03-02 09:10:00,Register,milk
2026-03-02 09:12:00,Exit,milk
2026-03-02 09:15:00,Exit,razor
2026-03-02 21:00:00,Shelf,bread
2026-03-02 21:02:00,Exit,soap
"""


SCHEMA = {"A": ["x"], "N": ["id"], "B": ["id"], "C": ["id"], "D": ["x"]}


def events(text: str, **columns: list[Any]) -> pa.Table:
    """Events from labels: `a1 b3` are of types A and B at times 1 and 3; columns have a value for each."""
    labels = text.split()
    return pa.table({"ts": [int(label[1:]) for label in labels], "type": [label[0].upper() for label in labels], **columns})


def ask(text: str, table: pa.Table, **options: Any) -> WhyNot:
    return kleene.query(text).why_not(table, **{"time": "ts", "type": "type", **options})


def causes(report: WhyNot) -> list[tuple[str, str, int]]:
    return [(" and ".join(cause.kinds), cause.text, cause.count.number) for cause in report.causes]


def only_reason(report: WhyNot) -> str:
    """The reason of the only near miss of the only cause."""
    ((found,),) = (cause.nearest for cause in report.causes)
    (reason,) = found.reasons
    return reason


# --- a shop -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, pa.Table, Path]:
    folder = tmp_path_factory.mktemp("shop")
    for name, text in (("shoplifting.sase", SHOPLIFTING), ("readings.csv", READINGS)):
        (folder / name).write_text(text, encoding="utf-8")
    query = kleene.query(SHOPLIFTING, name="shoplifting")
    return query, kleene.open_events(str(folder / "readings.csv")).read_all(), folder


def test_the_milk_was_paid_for(shop: Any) -> None:
    query, readings, _ = shop
    report = query.why_not(readings, time="ts", type="type", key={"item": "milk"})
    assert causes(report) == [("negation", "!(Register b)", 1)]
    assert only_reason(report) == "Register b at 2026-03-02 09:10:00 must not occur there"
    assert report.matches == Count(0)
    assert [step.matches.number for step in report.progress[0]] == [1, 0]


def test_the_soap_left_when_the_window_ended(shop: Any) -> None:
    query, readings, _ = shop
    report = query.why_not(readings, time="ts", type="type", key="soap")
    assert causes(report) == [("window", "WITHIN 12 hours", 1)]
    assert only_reason(report) == "spans 12:00:00, exactly the window, which is open at its end"
    assert report.causes[0].nearest[0].amounts == (dt.timedelta(0),)


def test_the_bread_never_left(shop: Any) -> None:
    query, readings, _ = shop
    report = query.why_not(readings, time="ts", type="type", key=["bread"])
    assert report.causes == ()
    assert [(item.variable, item.events) for item in report.components] == [("a", 1), ("b", 0), ("c", 0)]
    reached, waiting = report.progress[0]
    assert (reached.part, reached.matches.number) == ("Shelf a", 1)
    assert reached.latest is not None
    assert reached.latest.events["a"][0]["item"] == "bread"
    assert (waiting.part, waiting.demands, waiting.window) == ("!(Register b), Exit c", ("[item]",), "12 hours")
    assert "no event for Exit c" in str(report)


def test_the_razor_was_stolen_and_others_came_near(shop: Any) -> None:
    query, readings, _ = shop
    report = query.why_not(readings, time="ts", type="type")
    assert report.is_matched
    assert report.matches == Count(1)
    assert causes(report) == [
        ("negation", "!(Register b)", 1),
        ("window", "WITHIN 12 hours", 1),
        ("key", "[item]", 5),
    ]
    assert "what stopped others" in str(report)


# --- each kind of constraint, and only it -----------------------------------------------------------------------------


def test_a_condition() -> None:
    report = ask("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 9", events("a1 b2", x=[7, 5]))
    assert causes(report) == [("condition", "a.x < b.x", 1)]
    assert only_reason(report) == "7 < 5 is false, short by 2"
    assert report.causes[0].nearest[0].amounts == (2,)


def test_the_nearest_misses_come_first_and_the_others_are_counted() -> None:
    table = events("a1 b2 b3 b4 b5", x=[7, 1, 6, 7, 3])
    report = ask("PATTERN SEQ(A a, B b) WHERE a.x < b.x", table, nearest=3)
    (cause,) = report.causes
    assert cause.count == Count(4)
    assert [found.amounts[0] for found in cause.nearest] == [0, 1, 4]
    assert [found.events["b"][0]["ts"] for found in cause.nearest] == [4, 3, 5]
    assert cause.nearest[0].reasons == ("7 < 7 is false",)


@pytest.mark.parametrize(
    ("condition", "x", "reason"),
    [
        ("a.x < b.x", [1, None], "1 < NULL is unknown"),
        ("a.x = b.x", [3, 5], "3 = 5 is false, off by 2"),
        ("a.x != b.x", [3, 3], "3 != 3 is false"),
        ("a.x + 1 > b.x * 2", [3, 5], "4 > 10 is false, short by 6"),
        ("a.x BETWEEN 5 AND b.x", [3, 9], "a.x = 3, b.x = 9"),
        ("b.x IN (1, 2)", [1, 9], "b.x = 9"),
        ("NOT a.x < b.x", [1, 9], "a.x = 1, b.x = 9"),
    ],
)
def test_the_values_of_a_condition(condition: str, x: list[Any], reason: str) -> None:
    report = ask(f"PATTERN SEQ(A a, B b) WHERE {condition}", events("a1 b2", x=pa.array(x, pa.int64())))
    assert [kind for kind, _, _ in causes(report)] == ["condition"]
    assert only_reason(report) == reason


def test_a_condition_on_text_and_on_times() -> None:
    start = dt.datetime(2026, 3, 2, 9, tzinfo=dt.UTC)
    times = [start, start + dt.timedelta(seconds=30)]
    table = pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "type": ["A", "B"], "s": ["x'y", "z"]})
    assert only_reason(ask("PATTERN SEQ(A a, B b) WHERE a.s = b.s", table)) == "'x''y' = 'z' is false"
    report = ask("PATTERN SEQ(A a, B b) WHERE b.ts - a.ts > 1 minute", table)
    assert only_reason(report) == "0:00:30 > 0:01:00 is false, short by 0:00:30"


def test_a_condition_on_elements_names_the_first_that_fails() -> None:
    query = "PATTERN SEQ(A{3} a[], B b) WHERE a[i].x > a[i-1].x"
    report = ask(query, events("a1 a2 a3 b4", x=[1, 5, 2, 0]))
    assert causes(report) == [("condition", "a[i].x > a[i-1].x", 1), ("repetition", "A{3} a[]", 5)]
    assert report.causes[0].nearest[0].reasons == ("2 > 5 is false, short by 3 (at a[3])",)


def test_the_element_that_fails_may_be_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(why_not_misses, "CHOICES", 4)
    table = events(" ".join([*(f"a{at}" for at in range(1, 11)), "b20"]), x=[5, 5, 5, 5, 5, 5, 1, 5, 5, 0, 0])
    report = ask("PATTERN SEQ(A{10} a[], B b) WHERE a[].x > b.x + 1 WITHIN 30", table)
    assert report.causes[0].nearest[0].reasons == ("1 > 1 is false (at a[7])",)


def test_a_condition_with_a_function_of_the_users() -> None:
    query = kleene.query(
        "PATTERN SEQ(A a, B b) WHERE twice(a.x) < b.x", functions={"twice": lambda x: pa.compute.multiply(x, 2.0)}
    )
    report = query.why_not(events("a1 b2", x=[3.0, 5.0]), time="ts", type="type")
    assert only_reason(report) == "6 < 5 is false, short by 1"


def test_an_equivalence_test() -> None:
    report = ask("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 9", events("a1 b2", k=[1, 2]))
    assert causes(report) == [("key", "[k]", 1)]
    assert only_reason(report) == "a.k = 1; b.k = 2"


def test_an_equivalence_test_that_fixes_a_value() -> None:
    report = ask("PATTERN SEQ(A a, B b) WHERE [k = 1]", events("a1 b2", k=[2, 2]))
    assert causes(report) == [("key", "[k = 1]", 1)]
    assert ask("PATTERN SEQ(A a, B b) WHERE [k = 2]", events("a1 b2", k=[2, 2])).is_matched


def test_a_negative_component_agrees_with_the_value_that_a_test_fixes() -> None:
    """Events of A and D have no key, so the N of another key than 2 forbids nothing, and that of 2 does."""
    query = "PATTERN AND(A a, !(N n), D d) WHERE [id = 2] WITHIN 5"
    found = []
    for key in (1, 2):
        table = events("a1 n4 d7", x=[1, 1, 1], id=pa.array([None, key, None], pa.int64()))
        found.append([kind for kind, _, _ in causes(ask(query, table, schema=SCHEMA))])
    assert found == [["window"], ["negation and window"]]


def test_a_condition_that_is_written_twice_is_one_cause() -> None:
    report = ask("PATTERN SEQ(A a, B b) WHERE a.x < b.x AND a.x < b.x", events("a1 b2", x=[7, 5]))
    assert causes(report) == [("condition", "a.x < b.x", 1)]


def test_partition_by_is_an_equivalence_test() -> None:
    report = ask("PATTERN SEQ(A a, B b)", events("a1 b2", k=[1, 2]), partition_by="k")
    assert causes(report) == [("key", "[k]", 1)]


def test_without_an_equivalence_test_negation_still_agrees_with_all() -> None:
    """The N has the key of a match: it does not keep the others from being near."""
    table = events("a1 n2 b3 b4", k=[1, 1, 1, 2])
    report = ask("PATTERN SEQ(A a, !(N n), B b) WHERE [k]", table)
    assert causes(report) == [("negation", "!(N n)", 1), ("key", "[k]", 1)]


def test_a_window() -> None:
    report = ask("PATTERN SEQ(A a, B b) WITHIN 5", events("a1 b8 b9"), nearest=1)
    assert causes(report) == [("window", "WITHIN 5", 2)]
    assert only_reason(report) == "spans 7, longer than the window by 2"


def test_a_window_given_as_a_parameter() -> None:
    report = ask("PATTERN SEQ(A a, B b) WHERE b.x > low WITHIN T", events("a1 b8", x=[1, 1]), params={"T": 5, "low": 0})
    assert causes(report) == [("window", "WITHIN T", 1)]


def test_a_window_of_events() -> None:
    report = ask("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 3 EVENTS", events("a1 c2 c3 c4 b5", k=[1, 1, 2, 1, 1]))
    assert causes(report) == [("window", "WITHIN 3 events", 1)]
    assert only_reason(report) == "spans 4 events, 1 too many"


def test_negation_in_the_middle_with_a_condition() -> None:
    query = "PATTERN SEQ(A a, !(N n), B b) WHERE n.x > a.x"
    report = ask(query, events("a1 n2 n3 b4", x=[5, 1, 9, 0]))
    assert causes(report) == [("negation", "!(N n)", 1)]
    assert only_reason(report) == "N n at 3 must not occur there"


@pytest.mark.parametrize(
    ("pattern", "labels"),
    [("SEQ(!(N n), A a, B b)", "n1 a2 b3"), ("SEQ(A a, B b, !(N n))", "a1 b2 n3"), ("AND(A a, !(N n), B b)", "a1 b2 n4")],
)
def test_negation_that_the_window_bounds(pattern: str, labels: str) -> None:
    report = ask(f"PATTERN {pattern} WITHIN 5", events(labels))
    assert causes(report) == [("negation", "!(N n)", 1)]


def test_a_longer_combination_without_its_window_is_still_forbidden_under_and() -> None:
    """6 is longer than the window; the N lies in the part of it that negation under AND looks at."""
    assert causes(ask("PATTERN AND(A a, !(N n), B b) WITHIN 5", events("a1 b7"))) == [("window", "WITHIN 5", 1)]
    report = ask("PATTERN AND(A a, !(N n), B b) WITHIN 5", events("a1 n4 b7"))
    assert causes(report) == [("negation and window", "!(N n) and WITHIN 5", 1)]


def test_the_order() -> None:
    report = ask("PATTERN SEQ(A a, B b) WITHIN 9", events("b1 a4"))
    assert causes(report) == [("order", "SEQ(A a, B b)", 1)]
    assert only_reason(report) == "b is before a, by 3"


def test_events_at_the_same_time_are_not_in_order() -> None:
    report = ask("PATTERN SEQ(A a, B b) WITHIN 9", events("a4 b4"))
    assert only_reason(report) == "b is at the time of a, not after it"


def test_too_few_repetitions() -> None:
    report = ask("PATTERN SEQ(A{3,} a[], B b) WITHIN 9", events("a1 a2 b3"), nearest=1)
    assert causes(report) == [("repetition", "A{3,} a[]", 3)]
    assert only_reason(report) == "a has 2 events, 1 too few"


@pytest.mark.parametrize(
    ("strategy", "labels", "reason"),
    [
        ("strict_contiguity", "a1 c2 d3 b4", "2 events lie in between"),
        ("partition_contiguity", "a1 c2 b4", "1 event lies in between"),
        ("skip_till_next_match", "a1 c2 a3 b4 c5", None),
    ],
)
def test_a_strategy(strategy: str, labels: str, reason: str | None) -> None:
    query = f"PATTERN SEQ(A a, B b) WHERE {strategy}(a, b) {{ }}"
    report = ask(query, events(labels))
    if reason is None:  # the next one is the only one
        assert report.is_matched
        return
    assert causes(report) == [("strategy", strategy, 1)]
    assert only_reason(report) == reason


def test_a_strategy_that_selects_other_events() -> None:
    query = "PATTERN SEQ(A a, B b, !(C c)) WHERE skip_till_next_match(a, b) { } WITHIN 5"
    report = ask(query, events("a1 b2 c3 b4"))
    assert ("strategy", "skip_till_next_match", 1) in causes(report)
    assert ("negation", "!(C c)", 1) in causes(report)
    (strategy,) = (cause for cause in report.causes if cause.kinds == ("strategy",))
    assert strategy.nearest[0].reasons == ("the strategy selects other events",)
    assert strategy.nearest[0].events["b"][0]["ts"] == 4


def test_overlap() -> None:
    report = ask("PATTERN SEQ(A x, A y) OUTPUT NON-OVERLAP", events("a1 a2 a3"))
    assert report.matches == Count(1)
    (cause,) = (cause for cause in report.causes if cause.kinds == ("overlap",))
    assert cause.count == Count(2)


def test_having() -> None:
    query = "PATTERN SEQ(A a, B b) WHERE [k] AGG COUNT, SUM(b.x) AS total GROUP BY k HAVING total > 10 AND count >= 1 WITHIN 9"
    report = ask(query, events("a1 b2 b3 a4 b5", k=[1, 1, 1, 2, 2], x=[0, 4, 5, 0, 3]))
    assert report.rows == Count(0)
    assert report.matches == Count(3)
    assert not report.is_matched
    having = report.causes[0]
    assert (having.kinds, having.text, having.count) == (("having",), "total > 10", Count(3))
    assert [found.amounts for found in having.nearest] == [(1,), (6,), (7,)]
    assert having.nearest[0].reasons == ("9 > 10 is false, short by 1",)
    assert having.nearest[0].row == {"k": 1, "at": 3, "count": 2, "total": 9}


def test_an_aggregate_without_matches_is_explained_by_its_pattern() -> None:
    report = ask("PATTERN SEQ(A a, B b) AGG COUNT HAVING count > 0 WITHIN 3", events("a1 b9"))
    assert [kind for kind, _, _ in causes(report)] == ["having", "window"]


def test_two_constraints_at_once() -> None:
    report = ask("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 5", events("a1 b9", x=[7, 5]))
    assert causes(report) == [("condition and window", "a.x < b.x and WITHIN 5", 1)]
    assert report.causes[0].nearest[0].reasons == ("7 < 5 is false, short by 2", "spans 8, longer than the window by 3")
    assert "two constraints at once, none alone" in str(report)


def test_more_than_two_constraints_at_once_are_said_to_be_so() -> None:
    query = "PATTERN SEQ(A a, B b) WHERE a.x < b.x AND a.x < 3 AND b.x > 6"
    report = ask(query, events("a1 b2", x=[7, 5]))
    assert report.causes == ()
    assert [item.passing for item in report.components] == [0, 0]
    three = "PATTERN SEQ(A a, B b) WHERE a.x < b.x AND a.x + b.x < 3 AND a.x * b.x > 100"
    assert "no combination of events breaks one constraint only, or two" in str(ask(three, events("a1 b2", x=[7, 5])))


def test_keys_that_are_null_agree_with_nothing() -> None:
    """Not with one another, and not with events of a type without the key."""
    keys = pa.array([None, None, None], pa.int64())
    report = ask("PATTERN SEQ(A a, B b, C c) WHERE [id]", events("a1 b2 c3", x=[1, 1, 1], id=keys), schema=SCHEMA)
    assert causes(report) == [("key", "[id]", 1)]
    assert only_reason(report) == "a.id = NULL; b.id = NULL; c.id = NULL"
    table = events("a1 n2 b3", x=[1, 1, 1], id=pa.array([None, None, 7], pa.int64()))
    assert ask("PATTERN SEQ(A a, !(N n), B b) WHERE [id]", table, schema=SCHEMA).is_matched
    table = events("a1 n4 d7", x=[1, 1, 1], id=keys)
    report = ask("PATTERN AND(A a, !(N n), D d) WHERE [id] WITHIN 5", table, schema=SCHEMA)
    assert causes(report) == [("window", "WITHIN 5", 1)]


def test_events_whose_order_is_nan_tie() -> None:
    report = ask("PATTERN SEQ(A a, B b) WITHIN 9", events("a4 b4", x=[float("nan")] * 2), order_by="x")
    assert only_reason(report) == "b is at the time of a, not after it"


# --- how far it got ---------------------------------------------------------------------------------------------------


def test_how_far_it_got() -> None:
    query = "PATTERN SEQ(A a, B b, C c, D d) WHERE a.x < b.x AND c.x > 5 WITHIN 20"
    report = ask(query, events("a1 b2 a3 b4 c5 c6", x=[1, 2, 3, 9, 1, 2]))
    (steps,) = report.progress
    assert [(step.text, step.matches.number) for step in steps] == [
        ("A a", 2),
        ("SEQ(A a, B b)", 3),
        ("SEQ(A a, B b, C c)", 0),
    ]
    assert steps[-1].demands == ("c.x > 5",)
    assert steps[1].latest is not None
    assert steps[1].latest.events["b"][0]["ts"] == 4
    assert [(item.events, item.passing) for item in report.components] == [(2, 2), (2, 2), (2, 0), (0, 0)]


def test_each_alternative_of_or_has_its_own_progress() -> None:
    report = ask("PATTERN OR(SEQ(A a, B b), SEQ(C c, D d)) WITHIN 5", events("a1 c2"))
    assert [[step.matches.number for step in steps] for steps in report.progress] == [[1, 0], [1, 0]]
    assert [steps[-1].part for steps in report.progress] == ["B b", "D d"]


def test_parts_of_and_come_as_they_are_written() -> None:
    report = ask("PATTERN AND(B b, !(N n), A a, C c) WITHIN 5", events("a1 b2"))
    assert [step.text for step in report.progress[0]] == ["B b", "AND(B b, A a)", "AND(B b, A a, C c)"]
    assert [step.matches.number for step in report.progress[0]] == [1, 1, 0]


def test_an_optional_beginning_has_no_step_of_its_own() -> None:
    report = ask("PATTERN SEQ(A? a, B b, C c)", events("b1"))
    assert "no event for C c" in str(report)
    assert "no event for A? a" not in str(report)
    assert [step.text for step in report.progress[0]] == ["SEQ(A? a, B b)", "SEQ(A? a, B b, C c)"]


def test_no_events_at_all() -> None:
    nothing = events("a1", k=[1]).slice(0, 0)
    report = ask("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 5", nothing)
    assert (report.events, report.matches, report.causes) == (0, Count(0), ())
    assert "0 events" in str(report)


# --- which events -----------------------------------------------------------------------------------------------------


def test_keys_by_name_and_by_value() -> None:
    table = events("a1 b2 b3", k=[1, 1, 2], j=["x", "x", "y"])
    query = "PATTERN SEQ(A a, B b, C c) WHERE [k] AND [j]"
    for key in ({"k": 1, "j": "x"}, (1, "x"), [1, "x"], {"k": "1"}):
        report = ask(query, table, key=key)
        assert report.events == 2, key
        assert "k=1" in report.scope


def test_a_time_range_includes_both_of_its_ends() -> None:
    table = events("a1 b2 a3 b4")
    assert str(ask("PATTERN A a", table, since=2, until=3)).splitlines()[1] == "  2 events since 2 until 3, from 2 to 3"
    assert ask("PATTERN A a", table, since="2", until="3").events == 2
    start = dt.datetime(2026, 3, 2, 9, tzinfo=dt.UTC)
    moments = [start + dt.timedelta(minutes=minute) for minute in range(4)]
    for kind in (pa.timestamp("us"), pa.timestamp("ns", "Europe/Berlin"), pa.timestamp("s"), pa.timestamp("ms", "UTC")):
        timed = pa.table({"ts": pa.array(moments, pa.timestamp("us", "UTC")).cast(kind), "type": ["A"] * 4})
        for since in ("2026-03-02 09:01:00", "2026-03-02T10:01:00+01:00", moments[1], moments[1].replace(tzinfo=None)):
            assert ask("PATTERN A a", timed, since=since, until=moments[2]).events == 2, (kind, since)
    days = pa.table({"ts": pa.array([dt.date(2026, 3, day) for day in (1, 2, 3)]), "type": ["A"] * 3})
    assert ask("PATTERN A a", days, since=dt.date(2026, 3, 2)).events == 2
    assert ask("PATTERN A a", days, until="2026-03-02").events == 2


def test_events_may_come_unsorted_as_batches_and_as_categories() -> None:
    table = events("b3 a1 b2", k=["x", "y", "y"])
    encoded = table.set_column(2, "k", table.column("k").dictionary_encode())
    report = ask("PATTERN SEQ(A a, B b, C c) WHERE [k]", encoded, key="y")
    assert [step.matches.number for step in report.progress[0]] == [1, 1, 0]
    reader = pa.RecordBatchReader.from_batches(table.schema, iter(table.take([1, 2, 0]).to_batches(max_chunksize=1)))
    assert ask("PATTERN SEQ(A a, B b, C c) WHERE [k]", reader, key="y").events == 2


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"key": {"kk": 1}}, ["key column 'kk'", "did you mean 'k'?"]),
        ({"key": {"k": "one"}}, ["the key k='one'", "int64"]),
        ({"key": (1, 2)}, ["2 values", "[k]", "key={'item': 'razor'}"]),
        ({"key": {"k": None}}, ["NULL"]),
        ({"since": "yesterday"}, ["since cannot be 'yesterday'", "a number"]),
        ({"since": 2.5}, ["since cannot be 2.5", "a number"]),
        ({"nearest": 0}, ["nearest cannot be 0"]),
        ({"plan": "basic"}, ["does not take the option 'plan'", "'params'"]),
    ],
)
def test_what_is_wrong_with_a_question_is_said(options: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(BindingError) as raised:
        ask("PATTERN SEQ(A a, B b) WHERE [k]", events("a1 b2", k=[1, 1]), **options)
    for part in parts:
        assert part in str(raised.value)


def test_too_many_events_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_range, "MOST_EVENTS", 3)
    table = events("a1 a2 a3 a4 b5", k=[1, 1, 1, 1, 2])
    with pytest.raises(DataError, match="more than 3 events of k=1 to ask about"):
        ask("PATTERN SEQ(A a, B b) WHERE [k]", table, key=1)
    assert ask("PATTERN SEQ(A a, B b) WHERE [k]", table, key=2).events == 1


def test_bad_rows() -> None:
    table = pa.table({"ts": [1, None, 3], "type": ["A", "A", "B"], "k": [1, 1, 1]})
    with pytest.raises(DataError):
        ask("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 1", table)
    report = ask("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 1", table, bad_rows="drop")
    assert (report.bad_rows, report.events) == (1, 2)
    assert causes(report) == [("window", "WITHIN 1", 1)]


def test_a_row_of_another_type_without_a_time_is_not_there() -> None:
    table = pa.table({"ts": [1, 2, None], "type": ["A", "B", "Z"], "x": [7, 5, 0]})
    report = ask("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 8", table)
    assert causes(report) == [("condition", "a.x < b.x", 1)]
    assert (report.events, report.bad_rows, report.untried) == (2, 0, ())
    assert [step.matches.number for step in report.progress[0]] == [1, 0]


def test_events_may_have_a_column_without_a_name() -> None:
    table = pa.table({"": [0, 1, 2], "ts": [1, None, 3], "type": ["A", "A", "B"]})
    with pytest.raises(DataError, match=r"time column 'ts' is NULL: {'': 1, 'ts': None, 'type': 'A'}"):
        ask("PATTERN SEQ(A a, B b) WITHIN 1", table)
    assert ask("PATTERN SEQ(A a, B b) WITHIN 1", table, bad_rows="drop").bad_rows == 1
    with pytest.raises(DataError, match=r"is NULL: {'ts': None, 'type': 'A'}"):
        ask("PATTERN SEQ(A a, B b) WITHIN 1", table.drop_columns([""]))


def test_what_cannot_be_asked_is_said() -> None:
    """Without its key the events of the query tie, and skip_till_next_match needs a total order."""
    query = "PATTERN SEQ(A a, B b) WHERE skip_till_next_match(a, b) { [k] }"
    report = ask(query, events("a1 a1 b2", k=[1, 2, 3]))
    assert [text for text, _ in report.untried] == ["[k]"]
    assert "not settled without [k]: two events tie" in str(report)


def test_a_query_that_is_not_supported_is_refused() -> None:
    with pytest.raises(kleene.PlanningError, match="not supported yet"):
        ask("PATTERN SEQ(A a, !(B b)) WITHIN 5 EVENTS", events("a1"))


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_of_too_many_near_misses_some_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inquiry, "MOST_KEPT", 50)
    monkeypatch.setattr(inquiry, "BLOCK", 16)
    report = ask(
        "PATTERN SEQ(A a, B b) WITHIN 5", events(" ".join([f"a{at}" for at in range(20)] + [f"b{at}" for at in range(50, 70)]))
    )
    (cause,) = (cause for cause in report.causes if cause.kinds == ("window",))
    assert not cause.count.exact
    assert 50 <= cause.count.number < 400
    assert "WITHIN 5 (window): at least " in str(report)


def test_where_there_are_too_many_combinations_the_newest_events_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inquiry, "WORK", 30)
    table = events(" ".join(f"{'ab'[at % 2]}{at}" for at in range(40)), x=[9 - at % 2 for at in range(40)])
    report = ask("PATTERN SEQ(A a, B b) WHERE a.x < b.x", table)
    cause = report.causes[0]
    assert (cause.kinds, cause.count.exact) == (("condition",), False)
    assert all(found.events["a"][0]["ts"] >= 20 for found in cause.nearest)


def test_too_much_without_a_window_is_asked_again_with_a_wider_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inquiry, "WORK", 400)
    table = events(" ".join(f"{'a' if at % 10 == 0 else 'b' if at % 10 == 6 else 'c'}{at}" for at in range(400)))
    report = ask("PATTERN SEQ(A a, B b) WITHIN 6", table)
    (cause,) = (cause for cause in report.causes if cause.kinds == ("window",))
    assert cause.count == Count(40, exact=False)
    assert cause.nearest[0].amounts == (0,)


OLD = [f"{'ab'[at % 2]}{at}" for at in range(40)]
NEAR_ONLY_OLD = {name: [5, 4 if name == "x" else 6] + [9 - at % 2 for at in range(2, 40)] for name in "xyz"}


def test_a_bounded_search_that_finds_nothing_does_not_say_that_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest two events break one condition only, all others three."""
    monkeypatch.setattr(inquiry, "WORK", 30)
    report = ask(
        "PATTERN SEQ(A a, B b) WHERE a.x < b.x AND a.y < b.y AND a.z < b.z WITHIN 2", events(" ".join(OLD), **NEAR_ONLY_OLD)
    )
    assert causes(report) == []
    assert "nothing" not in str(report)
    assert "not settled without a.x < b.x: too many combinations; none of those looked at is near" in str(report)
    two = ask("PATTERN SEQ(A a, B b) WHERE a.x < b.x AND a.y < b.y WITHIN 2", events(" ".join(OLD), **NEAR_ONLY_OLD))
    assert [cause.kinds for cause in two.causes] == [("condition", "condition")]
    assert "what stopped it: two constraints at once\n" in str(two)


def test_events_that_meet_conditions_are_all_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inquiry, "MOST_KEPT", 50)
    monkeypatch.setattr(inquiry, "BLOCK", 16)
    table = events(" ".join(f"a{at}" for at in range(201)), x=[1] * 200 + [0])
    assert [item.passing for item in ask("PATTERN SEQ(A a, B b) WHERE a.x > 0", table).components] == [200, 0]


def test_a_window_of_events_bounds_the_combinations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inquiry, "WORK", 10_000)
    table = events(" ".join(f"{'abc'[at % 3]}{at}" for at in range(180)), x=[9] * 180)
    report = ask("PATTERN SEQ(A a, B b, C c) WHERE a.x < c.x WITHIN 3 EVENTS", table)
    assert report.causes[0].count == Count(60)


def test_exponentially_many_combinations_end() -> None:
    """Sixty events under skip_till_any_match: 2^58 combinations without the condition."""
    table = events(" ".join(["a0", *(f"b{at}" for at in range(1, 59)), "c60"]), x=[1] * 60)
    report = ask("PATTERN SEQ(A a, B+ b[], C c) WHERE a.x > c.x", table)
    (cause,) = report.causes
    assert cause.kinds == ("condition",)
    assert not cause.count.exact
    assert cause.count.number > 1_000


# --- how it is shown --------------------------------------------------------------------------------------------------


def test_what_comes_from_events_is_escaped_in_html() -> None:
    table = events("a1 b2", k=["<script>alert(1)</script>", "&"])
    shown = ask("PATTERN SEQ(A a, B b) WHERE [k]", table)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown


def test_times_are_shown_in_utc_whatever_the_zone_of_their_column() -> None:
    moments = pa.array(
        [dt.datetime(2026, 3, 2, 9, minute, tzinfo=dt.UTC) for minute in (0, 1, 2)], pa.timestamp("us", "Asia/Tokyo")
    )
    text = str(ask("PATTERN SEQ(A a, !(N n), B b) WHERE a.ts < b.ts", pa.table({"ts": moments, "type": ["A", "N", "B"]})))
    assert "from 2026-03-02 09:00:00 to 2026-03-02 09:02:00" in text
    assert "a  A  2026-03-02 09:00:00" in text
    assert "N n at 2026-03-02 09:01:00" in text
    assert " 18:0" not in text


def test_nanoseconds_are_shown_as_microseconds() -> None:
    """Python has no type for them, and pandas need not be there."""
    times = pa.array([1_001, 2_001, 3_001], pa.int64()).cast(pa.timestamp("ns"))
    table = pa.table({"ts": times, "type": ["A", "N", "B"], "at": times, "k": times})
    report = ask("PATTERN SEQ(A a, !(N n), B b) WHERE a.at > b.at AND [k]", table, nearest=1)
    assert type(report.first) is dt.datetime
    assert not report.untried
    report = ask("PATTERN SEQ(A a, B b) WHERE a.at > b.at", table)
    assert type(report.causes[0].nearest[0].events["a"][0]["at"]) is dt.datetime
    reason = "1970-01-01 00:00:00.000001 > 1970-01-01 00:00:00.000003 is false, short by 0:00:00.000002"
    assert report.causes[0].nearest[0].reasons == (reason,)
    assert only_reason(ask("PATTERN SEQ(A a, !(N n), B b)", table)) == "N n at 1970-01-01 00:00:00.000002 must not occur there"
    assert ask("PATTERN SEQ(A a, B b) WHERE [k]", table).causes[0].nearest[0].reasons[0].count("00:00:00.00000") == 2
    having = ask("PATTERN SEQ(A a, B b) AGG COUNT, MAX(b.at) AS latest HAVING count > 5 WITHIN 1 second", table)
    assert type(having.causes[0].nearest[0].row["latest"]) is dt.datetime


def test_long_arrays_are_shortened() -> None:
    table = events(" ".join([*(f"a{at}" for at in range(9)), "b30"]))
    text = str(ask("PATTERN SEQ(A{9} a[], B b) WITHIN 9", table))
    assert "a[1]" in text
    assert "a[9]" in text
    assert "a[5]" not in text


def test_the_report_is_data(shop: Any) -> None:
    query, readings, _ = shop
    data = json.loads(json.dumps(query.why_not(readings, time="ts", type="type", key="soap").to_dict(), allow_nan=False))
    assert data["matches"] == {"number": 0, "exact": True}
    (cause,) = data["causes"]
    assert cause["constraints"] == [{"kind": "window", "text": "WITHIN 12 hours"}]
    assert cause["nearest"][0]["amounts"] == [0.0]
    assert cause["nearest"][0]["events"]["c"] == [{"ts": "2026-03-02T21:02:00", "type": "Exit", "item": "soap"}]


def test_the_command(shop: Any, capsys: pytest.CaptureFixture[str]) -> None:
    query, readings, folder = shop
    files = [str(folder / "shoplifting.sase"), str(folder / "readings.csv"), "--time", "ts", "--type", "type"]
    assert main(["why-not", *files, "--key", "item=milk"]) == 0
    assert capsys.readouterr().out == f"{query.why_not(readings, time='ts', type='type', key='milk')}\n"
    assert main(["why-not", *files, "--since", "2026-03-02 09:02:00", "--format", "json", "--nearest", "1"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["events"] == 6
    assert all(len(cause["nearest"]) == 1 for cause in data["causes"])
    assert main(["why-not", *files, "--key", "item"]) == 2
    assert main(["why-not", *files, "--key", "thing=milk"]) == 1
    assert "key column .thing. is not a column of the events" in capsys.readouterr().err.replace("'", ".")
