"""The oracle against answers worked out by hand, and against an even plainer enumeration without any pruning."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kleene.common.errors import DataError
from kleene.common.schema import schema_of_arrow
from kleene.language.parser import parse
from kleene.pattern.bind import bind
from kleene.pattern.bound import BoundQuery
from kleene.pattern.operators import Event
from kleene.pattern.operators import Sequence as Seq
from kleene.pattern.policies import LogicalQuery, Strategy
from kleene.testing import functions
from kleene.testing.cases import Case, parse_cases
from kleene.testing.evaluate import Frame, condition, holds
from kleene.testing.oracle import Match, aggregates, matches, returns
from support.strategies import Example, full_examples


def case_of(query: str, events: str, options: str = "") -> Case:
    rows = "".join(f"  {row.strip()}\n" for row in events.split(";"))
    lines = "".join(f"  {line.strip()}\n" for line in options.split(";") if line.strip())
    text = f"case unit\nevents\n{rows}options\n{lines}query\n  {query}\ncount 0\n"
    (case,) = parse_cases(text, Path("unit.case"))
    return case


def bound_of(case: Case) -> tuple[BoundQuery, list[dict[str, Any]]]:
    table, options = case.table(), case.options
    schema = schema_of_arrow(
        table.schema, time=options.time, type=options.type, order_by=options.order_by, types=options.schema
    )
    return bind(parse(case.query_text), schema, params=options.params), table.to_pylist()


def found(query: str, events: str, options: str = "", ties: Any = "error") -> list[str]:
    """The matches as text: `a=a1 b=b2`, a Kleene variable as `b=[b2,b3]`."""
    case = case_of(query, events, options)
    bound, rows = bound_of(case)

    def label(at: int | tuple[int, ...]) -> str:
        return f"[{','.join(label(p) for p in at)}]" if isinstance(at, tuple) else str(rows[at]["event"])

    return [" ".join(f"{name}={label(at)}" for name, at in match.bindings) for match in matches(bound, rows, ties=ties)]


# --- order, window, ties ----------------------------------------------------------------------------------------------


def test_output_is_ordered_by_the_last_event_and_then_by_bindings() -> None:
    assert found("PATTERN SEQ(A a, B b)", "a1; a2; b3; b4") == ["a=a1 b=b3", "a=a2 b=b3", "a=a1 b=b4", "a=a2 b=b4"]


def test_positions_refer_to_the_given_list_whatever_its_order() -> None:
    bound, rows = bound_of(case_of("PATTERN SEQ(A a, B b)", "b2; a1"))
    assert matches(bound, rows) == [Match((("a", 1), ("b", 0)))]


def test_window_is_strict_to_the_microsecond() -> None:
    query = "PATTERN SEQ(A a, B b) WITHIN 1 second"
    inside = "| type | ts |; | A | 2026-01-01T00:00:00 |; | B | 2026-01-01T00:00:00.999999 |; | B | 2026-01-01T00:00:01 |"
    assert found(query, inside) == ["a=e1 b=e2"]


def test_naive_and_aware_timestamps_are_the_same_instants() -> None:
    schema = schema_of_arrow(pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("type", pa.string())]), time="ts", type="type")
    bound = bind(parse("PATTERN SEQ(A a, B b) WITHIN 2 hours"), schema)
    cet = dt.timezone(dt.timedelta(hours=1))
    naive = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC).replace(tzinfo=None)
    aware = dt.datetime(2026, 1, 1, 14, tzinfo=cet)  # 13:00 UTC
    assert matches(bound, [{"ts": naive, "type": "A"}, {"ts": aware, "type": "B"}]) == [Match((("a", 0), ("b", 1)))]


def test_null_timestamp_is_a_data_error() -> None:
    bound, rows = bound_of(case_of("PATTERN A a", "a1; a2"))
    rows[0]["ts"] = None
    with pytest.raises(DataError, match="timestamp"):
        matches(bound, rows)


def test_integer_type_column_compares_as_text() -> None:
    schema = schema_of_arrow(pa.schema([("ts", pa.int64()), ("kind", pa.int64())]), time="ts", type="kind")
    bound = bind(LogicalQuery(pattern=Seq((Event(("1",), "a"), Event(("2",), "b")))), schema)
    assert matches(bound, [{"ts": 1, "kind": 1}, {"ts": 2, "kind": 2}]) == [Match((("a", 0), ("b", 1)))]


def test_null_in_order_by_comes_first() -> None:
    assert found("PATTERN SEQ(A a, B b)", "b1 seq=1; a1 seq=NULL", "order_by seq") == ["a=a1 b=b1"]


@pytest.mark.parametrize("strategy", ["skip_till_next_match", "partition_contiguity", "strict_contiguity"])
def test_ties_in_a_partition_are_an_error_that_names_the_remedy(strategy: str) -> None:
    query = f"PATTERN SEQ(A a, B b) WHERE {strategy}(a, b) {{ [k] }}"
    with pytest.raises(DataError) as raised:
        found(query, "a1 k=7; b1 k=7")
    for part in ("k=7", "timestamp 1", "order_by", 'ties="arrival"'):
        assert part in str(raised.value)
    assert found(query, "a1 k=7; b1 k=7", ties="arrival") == ["a=a1 b=b1"]
    assert found(query, "a1 k=7 seq=1; b1 k=7 seq=2", "order_by seq") == ["a=a1 b=b1"]


def test_ties_across_partitions_matter_only_to_strict_contiguity() -> None:
    assert found("PATTERN SEQ(A a, B b) WHERE skip_till_next_match(a, b) { [k] }", "a1 k=1; c1 k=2; b2 k=1") == ["a=a1 b=b2"]
    with pytest.raises(DataError):
        found("PATTERN SEQ(A a, B b) WHERE strict_contiguity(a, b) { [k] }", "a1 k=1; c1 k=2; b2 k=1")


@pytest.mark.parametrize(
    ("query", "events"),
    [
        ("SEQ(A a, B b) WITHIN 2 EVENTS", "a1; b1"),
        ("SEQ(A a, B b) WITHIN 2 EVENTS", "a1; c2; c2b"),
        ("SEQ(A a, B b) WHERE skip_till_next_match(a, b) { } WITHIN 2 EVENTS", "a1; c2; c2b"),
        ("SEQ(A a, B b) WHERE partition_contiguity(a, b) { }", "a1; c2; c2b"),
    ],
)
def test_every_event_matters_to_contiguity_and_to_count_windows(query: str, events: str) -> None:
    with pytest.raises(DataError, match="the whole stream"):
        found(f"PATTERN {query}", events)


@pytest.mark.parametrize(
    ("condition", "tied", "refused"),
    [
        ("", "a2; c2", False),  # no component binds a C
        ("", "n2; c2", False),  # and a negative component binds nothing
        ("", "a2; n2", False),
        ("", "a2; b2", True),
        ("", "a2; a2b", True),
        ("b.x > 3", "a2; b2 x=3", False),
        ("b.x > 3", "a2; b2 x=4", True),
        ("b.x > 3 OR b.y = 1", "a2; b2 x=3 y=1", True),
        ("b.x > a[1].x", "a2 x=9; b2 x=3", True),  # a condition on two events does not tell
        ("a[1].x > 3", "b2; a2 x=3", True),  # but a later element it can be
        ("a[1].x > 3 AND a[i].x > 3", "b2; a2 x=3", False),
        ("a[1].x > 3 AND a[i].x > 2", "b2; a2 x=3", True),
        ("a[1].x > 3 AND a[i].x > a[1].x", "b2; a2 x=3", True),
        ("a[1].x > 3 AND a[i].x > a.LEN + 9", "b2; a2 x=3", True),
    ],
)
def test_ties_are_refused_only_between_events_that_can_be_bound(condition: str, tied: str, refused: bool) -> None:
    events = f"a1 x=5 y=0; {tied}; b3 x=7 y=0"
    pattern = "PATTERN SEQ(A+ a[], !(N n), B b)"
    any_match = f"{pattern} WHERE {condition}" if condition else pattern
    found(any_match, events)  # there simultaneous events are in no order, and need none
    next_match = f"{pattern} WHERE skip_till_next_match(a[], b) {{ {condition} }}"
    for query in (next_match, f"{any_match} OUTPUT NON-OVERLAP"):
        if refused:
            with pytest.raises(DataError, match="tie at timestamp 2"):
                found(query, events)
        else:
            found(query, events)
        found(query, events, ties="arrival")


def test_a_condition_on_every_element_tells_only_under_any_match() -> None:
    """Under skip_till_next_match it is decided on proceed: a run may take the element, and is then blocked."""
    events = "a1 x=5; b2 x=0; a2 x=3; b3 x=7"
    assert found("PATTERN SEQ(A+ a[], B b) WHERE a[].x > 3 OUTPUT NON-OVERLAP", events) == ["a=[a1] b=b2"]
    with pytest.raises(DataError, match="tie at timestamp 2"):
        found("PATTERN SEQ(A+ a[], B b) WHERE skip_till_next_match(a[], b) { a[].x > 3 }", events)


def test_tied_events_that_do_not_matter_change_nothing() -> None:
    query = "PATTERN SEQ(A+ a[], B b) WHERE skip_till_next_match(a[], b) { a[1].x > 1 AND a[i].x > 1 }"
    assert found(query, "a1 x=2; a2 x=2; a2b x=1; c2 x=0; b3 x=0") == ["a=[a1,a2] b=b3", "a=[a2] b=b3"]


def test_non_overlap_orders_what_arrives_together() -> None:
    query = "PATTERN SEQ(A a, B b) OUTPUT NON-OVERLAP"
    with pytest.raises(DataError, match="the whole stream"):
        found(query, "a1; b1; b2")
    assert found(query, "a1; b1; b2", ties="arrival") == ["a=a1 b=b1"]
    assert found(query, "a1 seq=1; b1 seq=2; b2 seq=1", "order_by seq") == ["a=a1 b=b1"]


# --- negation ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "kept"), [(0, True), (1, False), (4, False), (5, True)])
def test_negated_start_is_open_at_both_ends(n: int, kept: bool) -> None:
    assert bool(found("PATTERN SEQ(!(N n), B b, C c) WITHIN 10", f"n{n}; b5; c10")) is kept


@pytest.mark.parametrize(("n", "kept"), [(5, True), (6, False), (9, False), (10, True)])
def test_negated_end_is_open_at_both_ends(n: int, kept: bool) -> None:
    assert bool(found("PATTERN SEQ(A a, B b, !(N n)) WITHIN 10", f"a0; b5; n{n}")) is kept


@pytest.mark.parametrize(("n", "kept"), [(1, True), (2, False), (3, False), (4, True)])
def test_negated_middle_is_open_at_both_ends(n: int, kept: bool) -> None:
    assert bool(found("PATTERN SEQ(A a, !(N n), B b)", f"a1; n{n}; b4")) is kept


@pytest.mark.parametrize(("n", "kept"), [(7, True), (8, False), (11, False), (14, False), (15, True)])
def test_negation_under_and_covers_the_window_of_the_match(n: int, kept: bool) -> None:
    # a10 b12, T = 5: (7, 15)
    assert bool(found("PATTERN AND(A a, B b, !(N n)) WITHIN 5", f"a10; b12; n{n}")) is kept


def test_negation_beside_a_conjunction_starts_after_all_and_ends_before_any() -> None:
    query = "PATTERN SEQ(AND(A a, B b), !(N n), AND(C c, D d))"
    assert found(query, "a1; n2; b3; c4; n5; d6") == ["a=a1 b=b3 c=c4 d=d6"]
    assert found(query, "a1; b2; n3; c4; d6") == []


def test_an_event_that_the_match_binds_is_no_occurrence_and_any_other_is() -> None:
    assert found("PATTERN AND(A a, !(A n)) WITHIN 5", "a1") == ["a=a1"]
    assert found("PATTERN AND(A a, !(A n)) WITHIN 5", "a1; a3") == []


def test_distinct_components_bind_distinct_events() -> None:
    assert found("PATTERN AND(A a, A b)", "a1; a2") == ["a=a1 b=a2", "a=a2 b=a1"]


# --- Kleene and strategies --------------------------------------------------------------------------------------------


def test_simultaneous_events_are_not_in_one_array() -> None:
    assert found("PATTERN A+ a[]", "a1; a1b; a2") == ["a=[a1]", "a=[a1b]", "a=[a1,a2]", "a=[a1b,a2]", "a=[a2]"]


def test_kleene_in_the_middle_under_any() -> None:
    assert found("PATTERN SEQ(A a, B+ b[], C c)", "a1; b2; b3; c4") == [
        "a=a1 b=[b2] c=c4",
        "a=a1 b=[b2,b3] c=c4",
        "a=a1 b=[b3] c=c4",
    ]


def test_running_aggregates_read_what_was_selected() -> None:
    query = "PATTERN A+ a[] WHERE a[i].x > sum(a[..i-1].x)"
    assert found(query, "a1 x=1; a2 x=2; a3 x=3") == ["a=[a1]", "a=[a1,a2]", "a=[a2]", "a=[a1,a3]", "a=[a2,a3]", "a=[a3]"]


def test_next_match_takes_the_first_relevant_event() -> None:
    query = "PATTERN SEQ(A a, B b, C c) WHERE skip_till_next_match(a, b, c) { a.x < b.x }"
    assert found(query, "a1 x=5; b2 x=1; b3 x=9; b4 x=9; c5 x=0; c6 x=0") == ["a=a1 b=b3 c=c5"]


def test_take_and_proceed_split_a_run() -> None:
    query = "PATTERN SEQ(A+ a[], A b) WHERE strict_contiguity(a[], b) { }"
    assert found(query, "a1; a2; a3") == ["a=[a1] b=a2", "a=[a1,a2] b=a3", "a=[a2] b=a3"]


def test_repetition_bounds_under_next_match() -> None:
    query = "PATTERN SEQ(A{2,3} a[], B b) WHERE skip_till_next_match(a[], b) { }"
    assert found(query, "a1; b2; a3; a4; a5; b6") == ["a=[a1,a3,a4] b=b6", "a=[a3,a4,a5] b=b6", "a=[a4,a5] b=b6"]


def test_a_condition_on_a_variable_of_another_branch_is_not_checked() -> None:
    assert found("PATTERN OR(A a, B b) WHERE a.x > 1 AND b.x > 5", "a1 x=2; b2 x=2; b3 x=9") == ["a=a1", "b=b3"]
    assert found("PATTERN SEQ(A a, B? b, C c) WHERE b.x > a.x", "a1 x=5; b2 x=1; c3") == ["a=a1 c=c3"]


def test_non_overlap_prefers_the_latest_start_and_fewer_events() -> None:
    assert found("PATTERN SEQ(A a, B b) OUTPUT NON-OVERLAP", "a1; a2; b3; b4; a5; b6") == ["a=a2 b=b3", "a=a5 b=b6"]
    assert found("PATTERN SEQ(A+ a[], B b) OUTPUT NON-OVERLAP", "a1; a2; b3") == ["a=[a2] b=b3"]
    keyed = "PATTERN SEQ(A a, B b) WHERE [k] OUTPUT NON-OVERLAP"
    assert found(keyed, "a1 k=1; a2 k=2; b3 k=1; b4 k=2") == ["a=a1 b=b3", "a=a2 b=b4"]


# --- predicates -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("predicate", "holds_for"),
    [
        ("a.x > 1 OR a.y > 1", ["a=a2", "a=a3"]),
        ("a.x > 1 AND a.y > 1", []),
        ("NOT (a.x > 1 AND a.y > 1)", ["a=a1"]),
        ("a.x IN (1, NULL)", ["a=a1"]),
        ("NOT (a.x IN (1, NULL))", []),
        ("a.x BETWEEN 1 AND a.y", ["a=a1"]),
        ("a.x IS NULL OR a.y IS NULL", ["a=a2", "a=a3"]),
        ("coalesce(a.x, 0) = 0", ["a=a3"]),
        ("concat('p', a.s) = 'pq'", ["a=a2"]),
        ("length(a.s) = 1", ["a=a2"]),
    ],
)
def test_three_valued_logic(predicate: str, holds_for: list[str]) -> None:
    assert found(f"PATTERN A a WHERE {predicate}", "a1 x=1 y=1 s=NULL; a2 x=5 y=NULL s='q'; a3 x=NULL y=5 s='qq'") == holds_for


def test_a_predicate_on_an_attribute_the_type_lacks_holds_and_so_does_its_negation() -> None:
    options = "columns x=int y=int; schema A: x; schema B: y; schema C: y"
    assert found("PATTERN SEQ(ANY(A, B) p, C c) WHERE p.x > 5", "a1 x=1; b2 y=1; c3 y=1", options) == ["c=c3 p=b2"]
    assert found("PATTERN SEQ(ANY(A, B) p, C c) WHERE NOT (p.x > 5)", "a1 x=1; b2 y=1; c3 y=1", options) == [
        "c=c3 p=a1",
        "c=c3 p=b2",
    ]


def test_null_never_agrees_in_an_equivalence_test() -> None:
    assert found("PATTERN SEQ(A a, B b) WHERE [k]", "a1 k=NULL; a2 k=1; b3 k=NULL; b4 k=1") == ["a=a2 b=b4"]


def test_a_null_key_agrees_with_nothing_not_even_alone() -> None:
    assert found("PATTERN A a WHERE [k]", "a1 k=NULL; a2 k=1") == ["a=a2"]
    options = "columns k=int x=int; schema A: k; schema B: x"
    assert found("PATTERN SEQ(B b, A a) WHERE [k]", "b1 x=1; a2 k=NULL; a3 k=1", options) == ["a=a3 b=b1"]


def test_arithmetic() -> None:
    assert functions.arithmetic("/", 1, 2) == 0.5
    assert functions.arithmetic("/", 1, 0) is None
    assert functions.arithmetic("%", -7, 3) == -1
    assert functions.arithmetic("%", 7, -3) == 1
    assert functions.arithmetic("%", -7.5, 2) == -1.5
    assert math.isnan(functions.arithmetic("%", math.inf, 2.0))
    with pytest.raises(DataError, match="overflow"):
        functions.arithmetic("*", 2**62, 2)
    assert functions.arithmetic("*", 2.0**62, 2) == 2.0**63


def test_functions() -> None:
    assert functions.call("substr", ["abcdef", 2, 3]) == "bcd"
    assert functions.call("substr", ["abc", 0, 2]) == "a"
    assert functions.call("sqrt", [-1]) is None
    assert functions.call("ln", [0]) is None
    assert functions.call("floor", [-1.5]) == -2.0
    assert functions.call("least", [3, None]) is None
    assert functions.call("greatest", [3, 2.5]) == 3.0
    assert functions.call("hour", [dt.datetime(2026, 1, 1, 5, tzinfo=dt.UTC)]) == 5
    assert functions.call("exp", [1e9]) == math.inf
    assert functions.like("100%", r"%\%") is True
    assert functions.like("a\nb", "a_b") is True


def test_returns_gives_null_for_another_branch() -> None:
    bound, rows = bound_of(case_of("PATTERN OR(A a, B b) RETURN a.x AS ax, b.x AS bx", "a1 x=2; b2 x=3"))
    assert [returns(bound, rows, match) for match in matches(bound, rows)] == [{"ax": 2, "bx": None}, {"ax": None, "bx": 3}]


# --- aggregates -------------------------------------------------------------------------------------------------------


def rows_of(query: str, events: str) -> list[tuple[Any, ...]]:
    bound, events_of = bound_of(case_of(query, events))
    return [(*row.group, row.at, *row.values.values()) for row in aggregates(bound, events_of)]


def test_aseq_example_1() -> None:
    events = "a1; b2; c3; c4; b6"
    assert rows_of("PATTERN SEQ(A a, B b, C c) AGG COUNT WITHIN 5", events) == [(3, 1), (4, 2)]
    assert rows_of("PATTERN SEQ(A a, B b, C c) AGG COUNT WITHIN 5 EMIT ON CHANGE", events) == [(3, 1), (4, 2), (6, 0)]


def test_empty_aggregates_and_nulls() -> None:
    query = "PATTERN SEQ(A a, B b) AGG COUNT, SUM(a.x) AS s, AVG(a.x) AS m"
    assert rows_of(query, "b0; a1 x=NULL; b2; a3 x=4; b4") == [(0, 0, None, None), (2, 1, None, None), (4, 3, 4, 4.0)]


def test_triggers_satisfy_the_predicates_on_their_component_alone() -> None:
    assert rows_of("PATTERN SEQ(A a, B b) WHERE b.x > 1 AGG COUNT", "a1 x=0; b2 x=0; b3 x=5") == [(3, 1)]


def test_expiry_rows_per_group() -> None:
    query = "PATTERN SEQ(A a, B b) GROUP BY k AGG COUNT WITHIN 5 EMIT ON CHANGE"
    assert rows_of(query, "a1 k=1; a2 k=2; b3 k=1; b6 k=2") == [(1, 3, 1), (1, 6, 0), (2, 6, 1), (2, 7, 0)]


def test_expiry_at_the_instant_of_a_trigger_is_shown_by_its_row() -> None:
    assert rows_of("PATTERN SEQ(A a, B b) AGG COUNT WITHIN 5 EMIT ON CHANGE", "a1; b3; b6") == [(3, 1), (6, 0)]


def test_a_negated_end_counts_until_the_negative_event_is_seen() -> None:
    query = "PATTERN SEQ(A a, B b, !(N n)) AGG COUNT WITHIN 10"
    assert rows_of(query, "a1; b2; n3; a4; b5") == [(2, 1), (5, 2)]  # then (a1, b5) and (a4, b5)


# --- against a plainer enumeration ------------------------------------------------------------------------------------


def unpruned(example: Example) -> set[tuple[tuple[str, tuple[int, ...]], ...]]:
    """All assignments of SEQ/AND branches without negation, filtered at the very end."""
    bound, events = example.bound(), example.events
    order = [(row["ts"], *(row[name] for name in bound.schema.order_by)) for row in events]
    types = [row["type"] for row in events]
    found_: set[tuple[tuple[str, tuple[int, ...]], ...]] = set()
    for branch in bound.branches:
        choices = []
        for event in branch.positives:
            own = sorted((p for p, kind in enumerate(types) if kind in event.types), key=lambda p: order[p])
            low, high = (event.quantifier.low, event.quantifier.high or 9) if event.is_kleene and event.quantifier else (1, 1)
            choices.append([c for size in range(max(1, low), high + 1) for c in combinations(own, size)])
        names = {event.variable for event in branch.positives}
        for chosen in product(*choices):
            used = [p for elements in chosen for p in elements]
            if len(set(used)) < len(used):
                continue
            if any(order[chosen[i][-1]] >= order[chosen[j][0]] for i, j in branch.order):
                continue
            if bound.window is not None:
                span = max(events[p]["ts"] for p in used) - min(events[p]["ts"] for p in used)
                if (span if isinstance(span, int) else span // dt.timedelta(microseconds=1)) >= bound.window:
                    continue
            if any(len({events[p][t.name] for p in used}) > 1 for t in bound.equivalences):
                continue
            if any(t.value is not None and events[used[0]][t.name] != t.value.value for t in bound.equivalences):  # type: ignore[union-attr]
                continue
            bindings: dict[str, int | tuple[int, ...]] = {
                e.variable: c if e.is_kleene else c[0] for e, c in zip(branch.positives, chosen, strict=True)
            }
            frame = Frame(bound, events, types, bindings)
            conditions = [condition(bound, item) for item in bound.conjuncts]
            if all(holds(item, frame) for item in conditions if item.variables <= names):
                found_.add(tuple(sorted((e.variable, c) for e, c in zip(branch.positives, chosen, strict=True))))
    return found_


def _canonical(found_: list[Match]) -> set[tuple[tuple[str, tuple[int, ...]], ...]]:
    return {tuple((name, at if isinstance(at, tuple) else (at,)) for name, at in match.bindings) for match in found_}


def test_pruning_changes_nothing() -> None:
    compared = nonempty = 0
    for example in full_examples(5, 600):
        query, kwargs = example.query, example.schema_kwargs
        plain = query.strategy is Strategy.SKIP_TILL_ANY_MATCH and query.output.value == "all" and not query.aggregates
        bound = example.bound()
        if not plain or kwargs["types"] or bound.count_window or any(branch.negatives for branch in bound.branches):
            continue
        mine = matches(bound, example.events)
        assert _canonical(mine) == unpruned(example), query
        compared, nonempty = compared + 1, nonempty + bool(mine)
    assert compared > 80
    assert nonempty > 40


def test_every_accepting_run_is_an_assignment() -> None:
    compared = 0
    for example in full_examples(6, 400):
        if example.query.strategy is Strategy.SKIP_TILL_ANY_MATCH or example.query.output.value != "all":
            continue
        runs = matches(example.bound(), example.events)
        anything = replace(example.query, strategy=Strategy.SKIP_TILL_ANY_MATCH)
        assert set(runs) <= set(matches(replace(example, query=anything).bound(), example.events)), example.query
        compared += bool(runs)
    assert compared > 80
