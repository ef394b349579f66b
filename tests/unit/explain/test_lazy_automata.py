"""The automata of lazy evaluation: those of the paper edge by edge, their scopes, and partial orders."""

from __future__ import annotations

from itertools import permutations

import pyarrow as pa
import pytest

from kleene.common.schema import schema_of_arrow
from kleene.explain.automata import EdgeKind, StateGraph
from kleene.explain.lazy_automata import chain_graph, eager_graph, scope_of, tree_graph, tree_size
from kleene.language.parser import parse
from kleene.pattern.bind import bind
from kleene.pattern.bound import BoundQuery
from support.strategies import saseplus_examples

FIGURE_1 = """
    PATTERN SEQ(E a, E b, E c)
    WHERE (a.ticker = 'MSFT') AND (b.ticker = 'GOOG') AND (c.ticker = 'AAPL') AND (a.price < b.price) AND (b.price < c.price)
    WITHIN 4 hours
"""
QUOTES = pa.schema([("ts", pa.timestamp("us")), ("ticker", pa.string()), ("price", pa.float64())])
EVENTS = pa.schema([("ts", pa.int64()), ("type", pa.string()), ("k", pa.int64()), ("x", pa.int64())])


def bound_to(schema: pa.Schema, text: str, **roles: object) -> BoundQuery:
    return bind(parse(text), schema_of_arrow(schema, **{"time": "ts", **roles}))  # type: ignore[arg-type]


def figure_1() -> BoundQuery:
    return bound_to(QUOTES, FIGURE_1)


def chain(text: str, order: str, **roles: object) -> StateGraph:
    bound = bound_to(EVENTS, text, **{"type": "type", **roles})
    return chain_graph(bound, bound.branches[0], order.split())


def scopes(graph: StateGraph) -> list[str]:
    return [f"{edge.names[0]} {edge.scope}" for edge in graph.takes]


def asked(graph: StateGraph) -> dict[str, str]:
    """What each take edge asks, by the component it takes."""
    return {edge.names[0]: " AND ".join(edge.parts()) for edge in graph.takes}


# The query of Figure 1.


def test_the_eager_automaton_is_figure_2() -> None:
    bound = figure_1()
    assert str(eager_graph(bound, bound.branches[0])) == (
        "states q1 q2 q3 F\n"
        "q1 ignore(a, b, c) q1: TRUE\n"
        "q1 take(a) q2: a.ticker = 'MSFT'\n"
        "q2 ignore(a, b, c) q2: now - a.ts < 4 hours\n"
        "q2 take(b) q3: b.ticker = 'GOOG' AND a.price < b.price AND b.ts - a.ts < 4 hours\n"
        "q3 ignore(a, b, c) q3: now - a.ts < 4 hours\n"
        "q3 take(c) F: c.ticker = 'AAPL' AND b.price < c.price AND c.ts - a.ts < 4 hours"
    )


def test_the_chain_automaton_is_figure_5() -> None:
    bound = figure_1()
    assert str(chain_graph(bound, bound.branches[0], "cba")) == (
        "states q1 q2 q3 F\n"
        "q1 store(a, b) q1: TRUE\n"
        "q1 take(c) q2 (start, finish): c.ticker = 'AAPL'\n"
        "q2 ignore(c) q2: TRUE\n"
        "q2 store(a) q2: TRUE\n"
        "q2 take(b) q3 (start, c): b.ticker = 'GOOG' AND b.price < c.price AND c.ts - b.ts < 4 hours\n"
        "q3 ignore(b, c) q3: TRUE\n"
        "q3 take(a) F (start, b): a.ticker = 'MSFT' AND a.price < b.price AND c.ts - a.ts < 4 hours"
    )


def test_the_chain_of_section_4() -> None:
    bound = figure_1()
    assert str(chain_graph(bound, bound.branches[0], "bca")) == (
        "states q1 q2 q3 F\n"
        "q1 store(a, c) q1: TRUE\n"
        "q1 take(b) q2 (start, finish): b.ticker = 'GOOG'\n"
        "q2 ignore(b) q2: TRUE\n"
        "q2 store(a) q2: TRUE\n"
        "q2 take(c) q3 (b, finish): c.ticker = 'AAPL' AND b.price < c.price AND c.ts - b.ts < 4 hours\n"
        "q3 ignore(b, c) q3: TRUE\n"
        "q3 take(a) F (start, b): a.ticker = 'MSFT' AND a.price < b.price AND c.ts - a.ts < 4 hours"
    )


def test_the_tree_automaton_is_figure_6() -> None:
    bound = figure_1()
    graph = tree_graph(bound, bound.branches[0])
    assert graph.states == ("q0", "q1", "q2", "q3", "q12", "q13", "q21", "q23", "q31", "q32", "F")
    assert graph.omitted == 0
    # The states and the edges in bold there: the path of c, b, a.
    assert [str(edge) for edge in graph.edges if edge.source in ("q0", "q3", "q32")] == [
        "q0 store(a) q0: NOT nonempty(a, b, c) OR NOT most_selective(a)",
        "q0 store(b) q0: NOT nonempty(a, b, c) OR NOT most_selective(b)",
        "q0 store(c) q0: NOT nonempty(a, b, c) OR NOT most_selective(c)",
        "q0 take(a) q1 (start, finish): nonempty(a, b, c) AND most_selective(a) AND a.ticker = 'MSFT'",
        "q0 take(b) q2 (start, finish): nonempty(a, b, c) AND most_selective(b) AND b.ticker = 'GOOG'",
        "q0 take(c) q3 (start, finish): nonempty(a, b, c) AND most_selective(c) AND c.ticker = 'AAPL'",
        "q3 ignore(c) q3: TRUE",
        "q3 store(a) q3: NOT nonempty(a, b) OR NOT most_selective(a)",
        "q3 store(b) q3: NOT nonempty(a, b) OR NOT most_selective(b)",
        "q3 take(a) q31 (start, c): nonempty(a, b) AND most_selective(a) AND a.ticker = 'MSFT' AND c.ts - a.ts < 4 hours",
        (
            "q3 take(b) q32 (start, c): nonempty(a, b) AND most_selective(b) AND b.ticker = 'GOOG' AND b.price < c.price "
            "AND c.ts - b.ts < 4 hours"
        ),
        "q32 ignore(b, c) q32: TRUE",
        "q32 store(a) q32: NOT nonempty(a)",
        "q32 take(a) F (start, b): nonempty(a) AND a.ticker = 'MSFT' AND a.price < b.price AND c.ts - a.ts < 4 hours",
    ]
    # All take edges of the other states.
    assert [str(edge) for edge in graph.takes if edge.source in ("q1", "q2", "q12", "q13", "q21", "q23", "q31")] == [
        (
            "q1 take(b) q12 (a, finish): nonempty(b, c) AND most_selective(b) AND b.ticker = 'GOOG' AND a.price < b.price "
            "AND b.ts - a.ts < 4 hours"
        ),
        "q1 take(c) q13 (a, finish): nonempty(b, c) AND most_selective(c) AND c.ticker = 'AAPL' AND c.ts - a.ts < 4 hours",
        (
            "q2 take(a) q21 (start, b): nonempty(a, c) AND most_selective(a) AND a.ticker = 'MSFT' AND a.price < b.price "
            "AND b.ts - a.ts < 4 hours"
        ),
        (
            "q2 take(c) q23 (b, finish): nonempty(a, c) AND most_selective(c) AND c.ticker = 'AAPL' AND b.price < c.price "
            "AND c.ts - b.ts < 4 hours"
        ),
        "q12 take(c) F (b, finish): nonempty(c) AND c.ticker = 'AAPL' AND b.price < c.price AND c.ts - a.ts < 4 hours",
        "q13 take(b) F (a, c): nonempty(b) AND b.ticker = 'GOOG' AND a.price < b.price AND b.price < c.price",
        "q21 take(c) F (b, finish): nonempty(c) AND c.ticker = 'AAPL' AND b.price < c.price AND c.ts - a.ts < 4 hours",
        "q23 take(a) F (start, b): nonempty(a) AND a.ticker = 'MSFT' AND a.price < b.price AND c.ts - a.ts < 4 hours",
        "q31 take(b) F (a, c): nonempty(b) AND b.ticker = 'GOOG' AND a.price < b.price AND b.price < c.price",
    ]


def test_the_scopes_are_those_of_figure_4() -> None:
    bound = figure_1()
    (branch,) = bound.branches
    assert scopes(chain_graph(bound, branch, "abc")) == ["a (start, finish)", "b (a, finish)", "c (b, finish)"]
    assert scopes(chain_graph(bound, branch, "cab")) == ["c (start, finish)", "a (start, c)", "b (a, c)"]


# Scopes.


def test_a_scope_is_bounded_in_sequence_order_not_in_order_of_binding() -> None:
    """By the formula as it is printed the scope of c would begin at a, which was bound after b."""
    found = scopes(chain("PATTERN SEQ(A a, B b, C c, D d)", "b a d c"))
    assert found == ["b (start, finish)", "a (start, b)", "d (b, finish)", "c (b, d)"]


def test_partial_orders_have_several_bounds() -> None:
    text = "PATTERN SEQ(AND(A a, B b), C c, AND(D d, SEQ(E e, F f)))"
    assert scopes(chain(text, "a b d e f c"))[-1] == "c (max(a, b), min(d, e))"
    assert scopes(chain(text, "c f a e b d")) == [
        "c (start, finish)",
        "f (c, finish)",
        "a (start, c)",
        "e (c, f)",
        "b (start, c)",
        "d (c, finish)",
    ]


def test_a_kleene_component_bounds_a_scope_by_its_first_and_its_last_event() -> None:
    text = "PATTERN SEQ(A a, B+ b[], C c)"
    assert scopes(chain(text, "b c a")) == ["b[] (start, finish)", "c (b[b.LEN], finish)", "a (start, b[1])"]


@pytest.mark.parametrize("order", list(permutations(range(5)))[::7])
def test_a_scope_keeps_to_every_bound_event(order: tuple[int, ...]) -> None:
    """The bounds that a scope leaves out follow from those it names."""
    (branch,) = bound_to(EVENTS, "PATTERN SEQ(AND(A a, SEQ(B b, C c)), AND(D d, E e))", type="type").branches
    names = [event.variable for event in branch.positives]
    for position, component in enumerate(order):
        have = order[:position]
        scope = scope_of(branch.positives, branch.order, have, component)
        for index in have:
            if (index, component) in branch.order:
                assert any(names[index] == name or (index, names.index(name)) in branch.order for name in scope.after)
            if (component, index) in branch.order:
                assert any(names[index] == name or (names.index(name), index) in branch.order for name in scope.before)
        assert set(scope.after) | set(scope.before) <= {names[index] for index in have}


# Conditions.


def test_every_condition_is_on_one_take_edge_whatever_the_order() -> None:
    for example in saseplus_examples(3, 60):
        bound = example.bound()
        for branch in bound.branches:
            names = [event.variable for event in branch.positives]
            expected = {item for item in chain_graph(bound, branch, names).takes for item in item.formula.conjuncts}
            written = [conjunct for conjunct in bound.conjuncts if conjunct in expected]
            for order in list(permutations(names))[:24]:
                placed = [item for edge in chain_graph(bound, branch, order).takes for item in edge.formula.conjuncts]
                assert [placed.count(conjunct) for conjunct in written] == [1] * len(written)


def test_the_window_is_asked_where_a_new_event_may_break_it() -> None:
    text = "PATTERN SEQ(A a, B b, C c, D d) WITHIN 9"
    found = asked(chain(text, "b d a c"))
    assert found == {
        "b": "b.type = 'B'",
        "d": "d.type = 'D' AND d.ts - b.ts < 9",
        "a": "a.type = 'A' AND d.ts - a.ts < 9",
        "c": "c.type = 'C'",
    }
    assert asked(chain("PATTERN AND(A a, SEQ(B b, C c)) WITHIN 9 EVENTS", "c a b"))["a"] == (
        "a.type = 'A' AND max(position(a), position(c)) - min(position(a), position(c)) < 9"
    )
    assert asked(chain("PATTERN SEQ(A+ a[], B b) WITHIN 9", "a b"))["a[]"] == "a[].type = 'A' AND a[a.LEN].ts - a[1].ts < 9"


def test_equivalence_tests_compare_with_an_event_that_is_bound() -> None:
    text = "PATTERN SEQ(A a, B{2,4} b[], C c) WHERE [k] AND [x = 1]"
    found = asked(chain(text, "c b a"))
    assert found == {
        "c": "c.type = 'C' AND c.x = 1",
        "b[]": "b[].type = 'B' AND b[].k = c.k AND b[].x = 1 AND b.LEN >= 2 AND b.LEN <= 4",
        "a": "a.type = 'A' AND a.k = c.k AND a.x = 1",
    }
    assert asked(chain(text, "b a c"))["b[]"].startswith("b[].type = 'B' AND [k] AND ")
    types = {"A": frozenset({"x"}), "B": frozenset({"x", "k"}), "C": frozenset({"x", "k"})}
    lacking = asked(chain("PATTERN SEQ(A a, ANY(A, B) b, C c) WHERE [k]", "a b c", types=types))
    assert (lacking["b"], lacking["c"]) == ("b.type IN ('A', 'B')", "c.type = 'C' AND [k]")


def test_unordered_components_of_one_type_bind_distinct_events() -> None:
    found = asked(chain("PATTERN AND(A a, A b, SEQ(A c, B d))", "d b c a"))
    assert found["c"] == "c.type = 'A' AND distinct from b"
    assert found["a"] == "a.type = 'A' AND distinct from b AND distinct from c"
    assert "distinct" not in found["d"]


# Trees.


def test_every_chain_is_a_path_of_the_tree() -> None:
    bound = bound_to(EVENTS, "PATTERN SEQ(AND(A a, B b), C c, D d) WHERE [k] AND a.x < d.x AND b.x < c.x WITHIN 9", type="type")
    (branch,) = bound.branches
    tree = tree_graph(bound, branch)
    assert len(tree.states) == tree_size(branch.positives) == 42
    for order in permutations("abcd"):
        state = "q0"
        for step in chain_graph(bound, branch, order).takes:
            (edge,) = (edge for edge in tree.takes if edge.source == state and edge.names == step.names)
            assert (edge.scope, edge.formula) == (step.scope, step.formula)
            state = edge.target
        assert state == "F"


def test_a_large_tree_is_cut_after_a_layer() -> None:
    bound = bound_to(EVENTS, f"PATTERN SEQ({', '.join(f'A v{number}' for number in range(1, 11))})", type="type")
    (branch,) = bound.branches
    graph = tree_graph(bound, branch)
    assert graph.states == ("q0", *(f"q{number}" for number in range(1, 11)), "F")
    assert str(graph).endswith("\nand 6,235,290 more states")
    assert tree_graph(bound, branch, most=200).states[11:14] == ("q1.2", "q1.3", "q1.4")


def test_kleene_components_are_taken_after_single_ones() -> None:
    bound = bound_to(EVENTS, "PATTERN SEQ(A+ a[], B b, C c)", type="type")
    graph = tree_graph(bound, bound.branches[0])
    assert graph.states == ("q0", "q2", "q3", "q23", "q32", "F")
    assert len(graph.states) == tree_size(bound.branches[0].positives)
    stored = [str(edge) for edge in graph.edges if edge.source == "q0" and edge.kind is EdgeKind.STORE]
    assert stored == [
        "q0 store(a[]) q0: TRUE",
        "q0 store(b) q0: NOT nonempty(a[], b, c) OR NOT most_selective(b)",
        "q0 store(c) q0: NOT nonempty(a[], b, c) OR NOT most_selective(c)",
    ]
    assert [edge.names for edge in graph.takes if edge.target == "F"] == [("a[]",), ("a[]",)]
