"""The states and edges of automata: the compilation of SASE+ (section 3.2), strategy by strategy and step by step."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from kleene.common.schema import schema_of_arrow
from kleene.explain.automata import EdgeKind, StateGraph, state_graph
from kleene.language.parser import parse
from kleene.pattern.bind import bind
from kleene.pattern.predicates import Comparison, Not
from kleene.plan.automaton.automaton import compile_automaton
from kleene.testing.case_routes import Outcome, differences
from kleene.testing.cases import STAGES, Case, load_all, parse_cases
from support.strategies import saseplus_examples

EVENTS = pa.schema([("ts", pa.int64()), ("type", pa.string()), ("k", pa.int64()), ("x", pa.int64()), ("y", pa.int64())])
CASES = [case for case in load_all(Path(__file__).parents[2] / "cases") if case.expected.automaton is not None]


def graphs(text: str, *, optimized: bool = True, **options: object) -> list[StateGraph]:
    roles = {"time": "ts", "type": "type", **options}
    bound = bind(parse(text), schema_of_arrow(EVENTS, **roles))  # type: ignore[arg-type]
    return [state_graph(bound, branch, optimized=optimized) for branch in bound.branches]


def formulas(text: str, *, optimized: bool = True, **options: object) -> dict[str, str]:
    """`state kind` to the formula of an edge."""
    (graph,) = graphs(text, optimized=optimized, **options)
    return {f"{edge.source} {edge.kind.value}": str(edge.formula) for edge in graph.edges}


def outcome(case: Case) -> Outcome:
    options = case.options
    schema = schema_of_arrow(case.table().schema, time=options.time, type=options.type, order_by=options.order_by)
    bound = bind(parse(case.query_text), schema)
    shown = {
        stage: [
            line for branch in bound.branches for line in state_graph(bound, branch, optimized=stage == "optimized").lines()
        ]
        for stage in STAGES
    }
    return Outcome(matches=list(case.expected.matches or ()), automaton=shown)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.path.stem}:{case.line}")
def test_automata_of_case_files(case: Case) -> None:
    assert differences(case, outcome(case)) == []


def test_a_wrong_formula_is_seen() -> None:
    text = "case t\nevents\n  a1\nquery\n  PATTERN SEQ(A a, B b)\nautomaton optimized\n  states a b F\n  a begin b: TRUE\n"
    (case,) = parse_cases(text, Path("some.case"))
    assert differences(case, outcome(case)) == [
        "  missing line of the automaton: a begin b: TRUE",
        "  unexpected line of the automaton: a begin b: a.type = 'A'",
        "  unexpected line of the automaton: b begin F: b.type = 'B'",
        "  unexpected line of the automaton: b ignore b: TRUE",
    ]


@pytest.mark.parametrize(
    ("strategy", "waiting", "inside"),
    [
        ("skip_till_any_match", "TRUE", "TRUE"),
        (
            "skip_till_next_match",
            "NOT (c.type = 'C' AND c.k = a.k AND c.x > 1)",
            "NOT (b[i].type = 'B' AND b[i].k = a.k AND b[i].x > 0)",
        ),
        ("partition_contiguity", "NOT c.k = a.k", "NOT b[i].k = a.k"),
        ("strict_contiguity", "FALSE", "FALSE"),
    ],
)
def test_ignore_edges_by_strategy(strategy: str, waiting: str, inside: str) -> None:
    query = f"PATTERN SEQ(A a, B+ b[], C c) WHERE {strategy}(a, b[], c) {{ [k] AND b[i].x > 0 AND c.x > 1 }}"
    found = formulas(query, optimized=False)
    assert (found["c ignore"], found["b[i] ignore"]) == (waiting, inside)
    within = formulas(query + " WITHIN 9")
    for edge, name in (("c ignore", "c"), ("b[i] ignore", "b[i]")):
        plain, window = found[edge], f"{name}.ts - a.ts < 9"
        assert within[edge] == {"FALSE": "FALSE", "TRUE": window}.get(plain, f"{plain} AND {window}")


def test_structure_and_order_of_states() -> None:
    (graph,) = graphs("PATTERN SEQ(A+ a[], B b, C+ c[])")
    assert graph.states == ("a[1]", "a[i]", "b", "c[1]", "c[i]", "F")
    assert [(edge.source, edge.kind.value, edge.target) for edge in graph.edges] == [
        ("a[1]", "begin", "a[i]"),
        ("a[i]", "take", "a[i]"),
        ("a[i]", "ignore", "a[i]"),
        ("a[i]", "proceed", "b"),
        ("b", "begin", "c[1]"),
        ("b", "ignore", "b"),
        ("c[1]", "begin", "c[i]"),
        ("c[1]", "ignore", "c[1]"),
        ("c[i]", "take", "c[i]"),
        ("c[i]", "ignore", "c[i]"),
        ("c[i]", "proceed", "F"),
    ]
    assert [edge.peeks for edge in graph.edges if edge.kind is EdgeKind.PROCEED] == ["b", None]


def test_every_alternative_is_an_automaton() -> None:
    assert [graph.states for graph in graphs("PATTERN SEQ(A a, B? b, C c)")] == [("a", "b", "c", "F"), ("a", "c", "F")]


def test_bounds_of_repetition() -> None:
    found = formulas("PATTERN SEQ(A{2,5} a[], B b)", type="type")
    assert found["a[i] take"] == "a[i].type = 'A' AND count(a[..i-1]) < 5"
    assert found["a[i] proceed"] == "a.LEN >= 2 AND b.type = 'B'"


def test_the_window_is_on_the_last_edge_and_then_on_all() -> None:
    query = "PATTERN SEQ(A a, B+ b[]) WITHIN 5"
    basic, optimized = formulas(query, optimized=False), formulas(query)
    assert [edge for edge, text in basic.items() if "< 5" in text] == ["b[i] proceed"]
    assert [edge for edge, text in optimized.items() if "< 5" not in text] == ["a begin"]
    assert basic["b[i] proceed"] == "b[b.LEN].ts - a.ts < 5"
    assert formulas("PATTERN SEQ(A a, B b) WITHIN 5 EVENTS")["b begin"] == "b.type = 'B' AND position(b) - position(a) < 5"


def test_a_condition_on_every_element_is_on_proceed() -> None:
    where = "a[].x > 3 AND a.LEN > 1"
    found = formulas(f"PATTERN SEQ(A+ a[], B b) WHERE skip_till_next_match(a[], b) {{ {where} }}", optimized=False)
    assert found["a[i] proceed"] == where
    # Under skip_till_any_match an element that fails it need not be selected.
    query = f"PATTERN SEQ(A+ a[], B b) WHERE {where}"
    assert formulas(query, optimized=False)["a[i] proceed"] == where
    optimized = formulas(query)
    assert optimized["a[1] begin"] == "a[1].type = 'A' AND a[1].x > 3"
    assert optimized["a[i] take"] == "a[i].type = 'A' AND a[i].x > 3"
    assert optimized["a[i] proceed"] == "a.LEN > 1 AND b.type = 'B'"


def test_types_tests_and_fixed_values() -> None:
    found = formulas(
        "PATTERN SEQ(A a, ANY(B, C) b) WHERE partition_contiguity(a, b) { [k] AND [x = 2] AND (b.y = 1 OR a.y = 1) }"
    )
    assert found["a begin"] == "a.type = 'A' AND a.x = 2"
    assert found["b begin"] == "b.type IN ('B', 'C') AND b.k = a.k AND b.x = 2 AND (b.y = 1 OR a.y = 1)"
    assert found["b ignore"] == "NOT (b.k = a.k AND b.x = 2)"


def test_a_test_is_compared_with_the_first_event_that_surely_has_the_attribute() -> None:
    types = {"A": frozenset({"x"}), "B": frozenset({"k"}), "C": frozenset({"k"}), "D": frozenset({"x"})}
    query = "PATTERN SEQ({} a, B b, C c) WHERE skip_till_next_match(a, b, c) {{ [k] }}"
    without = formulas(query.format("A"), types=types)
    assert (without["b begin"], without["c begin"]) == ("b.type = 'B'", "c.type = 'C' AND c.k = b.k")
    partly = formulas(query.format("ANY(A, C)"), types=types)
    assert (partly["b begin"], partly["c begin"]) == ("b.type = 'B' AND [k]", "c.type = 'C' AND c.k = b.k")


def test_formulas_are_data() -> None:
    (graph,) = graphs("PATTERN SEQ(T a, T b) WHERE skip_till_next_match(a, b) { a.x < b.x } WITHIN 5", type=None)
    begin = graph.edge("b", "begin").formula
    assert isinstance(begin.expression, Comparison)
    assert begin.window is not None
    assert (begin.window.first, begin.window.last, begin.window.length) == ("a", "b", 5)
    assert graph.edge("b", EdgeKind.IGNORE).formula.conjuncts == (Not(begin.expression),)


def test_every_conjunct_of_random_queries_is_on_some_edge() -> None:
    for example in saseplus_examples(5, 150):
        bound = example.bound()
        for branch in bound.branches if all(branch.is_sequence for branch in bound.branches) else ():
            present = {event.variable for event in branch.positives}
            basic = state_graph(bound, branch, optimized=False)
            written = {conjunct for edge in basic.edges for conjunct in edge.formula.conjuncts}
            own = {item.expression for _, _, item in compile_automaton(bound, branch).sites if item.variables <= present}
            assert own <= written
            assert basic.states == state_graph(bound, branch).states
