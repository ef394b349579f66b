"""Every case file on every route that it is for; and a test of this test: a broken match must be seen.

Routes are registered in `conftest.py`. No case is for the oracle alone: the engine answers them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from kleene.common.errors import DataError
from kleene.plan.options import CHOICES
from kleene.testing.case_routes import Outcome, differences, routes, run, verify
from kleene.testing.cases import Case, CaseError, Expected, load_all, parse_cases
from support.engine_routes import fits

CASES = Path(__file__).parent / "cases"
ALL = load_all(CASES)


def _name(case: Case, route: str) -> str:
    return f"{case.path.relative_to(CASES).with_suffix('')}:{case.line}-{route}"


def runs(chosen: Iterable[str]) -> Iterator[ParameterSet]:
    """The cases on some routes."""
    for route in chosen:  # cases of one route together: a Spark session starts once
        marks = [pytest.mark.spark] if route.startswith("spark") else []
        for case in ALL:
            if case.runs_on(route) and fits(case, route):
                yield pytest.param(case, route, id=_name(case, route), marks=marks)


def test_case(case: Case, route: str) -> None:
    verify(case, route)


def test_the_engine_answers_every_case() -> None:
    assert [case.where for case in ALL if case.routes == ("oracle",)] == []


def test_every_plan_option_has_a_route() -> None:
    named = {f"embedded-{name}-{value}" for name, values in CHOICES["sequence"].items() for value in values[1:]}
    named |= {f"embedded-nfa-{algorithm}" for algorithm in CHOICES["nfa"]["algorithm"]}
    assert named <= set(routes)
    assert {"embedded", "embedded-basic", "embedded-paper", "embedded-batches-1", "embedded-random-splits", "spark"} <= set(
        routes
    )
    assert {f"embedded-counters-{value}" for value in CHOICES["aggregate"]["window"][1:]} <= set(routes)
    assert {"embedded-counters", "embedded-matches"} <= set(routes)
    assert len(ALL) > 200


def test_counters_answer_all_but_the_cases_that_must_be_matched() -> None:
    """A test of the test: what cannot be pushed down is left out."""
    found = [case for case in ALL if case.expected.aggregates is not None]
    left_out = [case for case in found if not fits(case, "embedded-counters")]
    assert len(found) > 100
    assert left_out == [case for case in found if _is_matched(case)]


def _is_matched(case: Case) -> bool:
    """By what the files hold: a window of events is among the cases of bad rows."""
    in_events = case.path.stem == "bad_rows" and "EVENTS" in case.query_text
    return in_events or case.path.stem == "matched"


def _one(text: str) -> Case:
    (case,) = parse_cases(text, Path("some.case"))
    return case


SMALL = """
case two in order
events
  a1 k=1
  b2 k=1
  b3 k=2
query
  PATTERN SEQ(A a, B b) WHERE [k]
matches
  a=a1 b=b2
"""


def test_a_broken_match_is_seen() -> None:
    case = _one(SMALL)
    right = run(case, routes["oracle"])
    assert differences(case, right) == []
    broken = Outcome(matches=[{"a": "a1", "b": "b3"}])
    assert differences(case, broken) == ["  missing match: a=a1 b=b2", "  unexpected match: a=a1 b=b3"]


def test_matches_compare_as_multisets() -> None:
    case = _one(SMALL)
    twice = Outcome(matches=[{"a": "a1", "b": "b2"}, {"b": "b2", "a": "a1"}])
    assert differences(case, twice) == ["  unexpected match: a=a1 b=b2"]
    assert differences(case, Outcome(matches=[])) == ["  missing match: a=a1 b=b2"]


PLANNED = """
case two patterns
workload
  P1: PATTERN SEQ(A a, B b, C c) WITHIN 10
  P2: PATTERN SEQ(A a, B b, D d) WITHIN 10
graph
  SEQ(A, C): P1 P2
trees tree
  P1: a b c
  P2: a b d
nodes
  SEQ(A, B): P1 within 10
  SEQ(A, B, C): P1 within 10
  SEQ(A, B, D): P2 within 10
costs
  instances 1
"""


def test_a_wrong_plan_is_seen() -> None:
    case = _one(PLANNED)
    assert [route for route in routes if case.runs_on(route)] == ["workload"]
    assert differences(case, run(case, routes["workload"])) == [
        "  missing line of graph: SEQ(A, C): P1 P2",
        "  unexpected line of graph: SEQ(A, B): P1 P2",
        "  missing line of nodes: SEQ(A, B): P1 within 10",
        "  unexpected line of nodes: SEQ(A, B): P1 P2 within 10",
        "  missing line of costs: instances 1",
        "  unexpected line of costs: instances 2110",
    ]


def test_an_error_is_compared_by_class_and_fragments() -> None:
    case = replace(_one(SMALL), expected=Expected(error=("DataError", ("no time",))))
    assert differences(case, Outcome(error=DataError("there is no time"))) == []
    assert differences(case, Outcome(matches=[])) == ["  expected DataError, but the query was answered"]
    assert "missing in the error" in differences(case, Outcome(error=DataError("other")))[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("events\n  a1\n", "some.case:1: expected 'case <title>'"),
        ("case t\nevents\n  1a\nquery\n  P\ncount 1\n", "some.case:3: expected a label"),
        ("case t\nevents\n  a1 x\nquery\n  P\ncount 1\n", "some.case:3: expected name=value, found 'x'"),
        ("case t\nevents\n  a1\nquery\n  P\n", "some.case:1: case 't' expects nothing"),
        ("case t\nevents\n  a1\nquery\n  P\nmatches\n  a=a9\n", "some.case:7: no event is labelled 'a9'"),
        ("case t\nevent\n  a1\n", "some.case:2: unknown block 'event'"),
        ("case t\nevents\n  a1\n  a1\nquery\n  P\ncount 1\n", "two events are labelled 'a1'"),
        ("case t\nevents\n  a1\noptions\n  colour red\nquery\n  P\ncount 1\n", "some.case:5: unknown option"),
        ("case t\nworkload\n  P1: A\n  P1: B\ngraph\n  none\n", "some.case:4: expected 'name: query', each name once"),
        ("case t\nworkload\n  P1: A\n", "some.case:1: case 't' expects nothing"),
        ("case t\nevents\n  a1\nquery\n  P\nmatches\n", "some.case:6: the 'matches' block is empty"),
    ],
)
def test_mistakes_in_case_files_are_located(text: str, message: str) -> None:
    with pytest.raises(CaseError) as raised:
        list(parse_cases(text, Path("some.case")))
    assert message in str(raised.value)


def test_table_form_and_timestamps() -> None:
    case = _one(
        "case t\nevents\n  | type | ts | y |\n  | A | 2026-01-01T00:00:00 | 1 |\n  | B | 2026-01-01T01:00:00 | 2.5 |\n"
        "query\n  PATTERN SEQ(A a, B b)\ncount 1\n"
    )
    assert [row["event"] for row in case.events] == ["e1", "e2"]
    assert {name: str(kind) for name, kind in zip(case.table().column_names, case.table().schema.types, strict=True)} == {
        "event": "string",
        "ts": "timestamp[us, tz=UTC]",
        "type": "string",
        "y": "double",
    }
