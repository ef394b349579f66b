"""Lazy evaluation as the paper counts it: evaluations, instances and buffered events; orders that a user may ask for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import PlanningError
from kleene.engine.matcher import Metrics
from kleene.plan.patterns import is_lazy
from kleene.runtime.embedded import rows_of

EXAMPLE_1 = "PATTERN SEQ(A a, B b, C c) WHERE a.p < b.p AND b.p < c.p WITHIN 1000"
EAGER = {"mechanism": "eager"}


def quotes(*prices: tuple[str, int]) -> pa.Table:
    """A price a second."""
    return pa.table({"ts": list(range(len(prices))), "type": [name for name, _ in prices], "p": [price for _, price in prices]})


def run(events: pa.Table, plan: Any, text: str = EXAMPLE_1) -> Any:
    return kleene.query(text).run(events, time="ts", type="type", plan=plan)


def measured(events: pa.Table, plan: Any, text: str = EXAMPLE_1) -> Metrics:
    metrics: Metrics = run(events, plan, text).metrics
    return metrics


def chain(order: Sequence[str]) -> dict[str, Any]:
    return {"mechanism": "chain", "order": list(order)}


# --- section 1: the six events ----------------------------------------------------------------------------------------

SIX = quotes(("A", 3), ("A", 5), ("A", 8), ("B", 7), ("B", 13), ("C", 9))


def test_the_prefixes_of_example_1() -> None:
    """Three a and, after five events, five pairs: all combinations except {a3, b1}."""
    metrics = measured(SIX, EAGER)
    assert metrics.peak_instances == 3 + 5
    assert metrics.evaluations == 3 + 3 * 2 + 5
    assert metrics.instances == 3 + 5 + 2
    assert metrics.matches == 2
    assert metrics.peak_buffered == 6


@pytest.mark.parametrize("order", ["".join(order) for order in permutations("abc")])
def test_every_order_finds_both_matches(order: str) -> None:
    found = run(SIX, chain(order)).matches.sort_by([("match_start", "ascending")])
    assert [(row["a"]["p"], row["b"]["p"], row["c"]["p"]) for row in found.to_pylist()] == [(3, 7, 9), (5, 7, 9)]


# --- section 4: one c after 100 a and 100 b ---------------------------------------------------------------------------


def frequent(a: int = 100, b: int = 100) -> pa.Table:
    """Frequent a and b, then one c; only one b is cheaper than it."""
    return quotes(*(("A", price) for price in range(a)), ("B", 150), *[("B", 300)] * (b - 1), ("C", 200))


def test_the_eager_automaton_pairs_every_a_with_every_b() -> None:
    metrics = measured(frequent(), EAGER)
    assert metrics.evaluations == 100 + 100 * 100 + 10_000
    assert metrics.peak_instances == 100 + 10_000


def test_the_chain_c_b_a_makes_200_evaluations_beside_that_of_c() -> None:
    metrics = measured(frequent(), chain("cba"))
    assert metrics.evaluations == 1 + 100 + 100
    assert metrics.instances == 1 + 1 + 100
    assert metrics.peak_instances == 0, "when c comes, all else has come: no partial match waits"
    assert metrics.peak_buffered == 201


def test_scopes_end_at_bound_events() -> None:
    """Figure 4: with c bound, a is looked for before c; with a bound too, b between them."""
    events = quotes(("B", 2), ("A", 1), ("B", 2), ("A", 1), ("C", 3), ("B", 2), ("A", 1))
    # c; two a before it; b after the first a: one, after the second: none.
    assert measured(events, chain("cab")).evaluations == 1 + 2 + 1
    # two b before c; a before the first: none, before the second: one.
    assert measured(events, chain("cba")).evaluations == 1 + 2 + 1
    # three a; b after each: two, one, none; c after b: one, none for the last b.
    assert measured(events, chain("abc")).evaluations == 3 + 3 + 1


def test_an_implied_comparison_ends_partial_matches_early() -> None:
    """With a.p < c.p, which a.p < b.p and b.p < c.p imply, no b is looked for."""
    events = quotes(*[("A", 9)] * 10, *[("B", 5)] * 10, ("C", 8))
    assert measured(events, chain("cab")).evaluations == 1 + 10
    loose = EXAMPLE_1.replace("b.p < c.p", "b.p + 1 < c.p")
    assert measured(events, chain("cab"), loose).evaluations == 1 + 10 + 10 * 10


# --- section 6: a tree takes the rarest next --------------------------------------------------------------------------


@pytest.mark.parametrize("selectivity", ["counts", "cost"])
def test_a_tree_goes_the_way_of_the_best_chain(selectivity: str) -> None:
    tree = {"mechanism": "tree", "selectivity": selectivity}
    assert measured(frequent(a=110), tree).evaluations == 1 + 100 + 110
    assert measured(frequent(b=110), tree).evaluations == measured(frequent(b=110), chain("cab")).evaluations


def test_a_tree_decides_for_every_partial_match() -> None:
    """After the first c there are two a and four b before it, after the second, in its window, four b and two a."""
    early = [("A", 1)] * 2 + [("B", 2)] * 4 + [("C", 0)]
    late = [("A", 1)] * 4 + [("B", 2)] * 2 + [("C", 0)]
    far = [("X", 0)] * 20
    events = quotes(*early, *far, *late)
    text = EXAMPLE_1.replace("WITHIN 1000", "WITHIN 10")
    # No b is cheaper than its c, and no a: by the implied comparison a partial match ends after two evaluations.
    assert measured(events, {"mechanism": "tree", "selectivity": "counts"}, text).evaluations == 2 + 2 + 2
    assert measured(events, chain("cab"), text).evaluations == 2 + 2 + 4
    assert measured(events, chain("cba"), text).evaluations == 2 + 4 + 2


def test_a_tree_does_nothing_where_a_component_has_no_candidate() -> None:
    events = quotes(*[("B", 2)] * 50, ("C", 3))
    tree = measured(events, {"mechanism": "tree"})
    assert tree.evaluations <= 1
    assert tree.matches == 0


# --- section 7: the measure of runtime --------------------------------------------------------------------------------


def test_evaluations_are_those_of_conditions_on_edges() -> None:
    """A stream that passes all three edges costs three, one that fails at the second costs two.

    The paper gives a=3 b=13 c=9 for the latter. There the second edge holds (3 < 13) and the third does not: three.
    """
    assert measured(quotes(("A", 3), ("B", 7), ("C", 9)), EAGER).evaluations == 3
    assert measured(quotes(("A", 8), ("B", 7), ("C", 9)), EAGER).evaluations == 2
    assert measured(quotes(("A", 3), ("B", 13), ("C", 9)), EAGER).evaluations == 3


def test_work_does_not_depend_on_the_cut_into_batches_but_for_what_is_looked_at_again() -> None:
    """Every match is reported once, and no edge is evaluated less often than in one go."""
    query = kleene.query(EXAMPLE_1)
    options = kleene.interfaces.options.options_of({"time": "ts", "type": "type", "plan": chain("bca")})
    matcher = query.matcher(SIX.schema, options, run_rows=0)
    found = [rows for batch in SIX.to_batches(max_chunksize=1) for _, rows in matcher.feed(batch)]
    found += rows_of(matcher.finish())
    assert sum(rows.num_rows for rows in found) == matcher.metrics.matches == 2
    assert matcher.metrics.evaluations >= measured(SIX, chain("bca")).evaluations


# --- what a user may ask for ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "plan", "parts"),
    [
        (EXAMPLE_1, chain("cbx"), ("'x' in the plan's order is no positive component", "must name every positive component")),
        (EXAMPLE_1, chain("cb"), ("must name every positive component once", "the components are a, b, c")),
        (EXAMPLE_1, chain("cbaa"), ("must name every positive component once",)),
        (EXAMPLE_1, {"mechanism": "chain", "order": "cba"}, ("plan option 'order' cannot be 'cba'", "order=['c', 'a', 'b']")),
        (EXAMPLE_1, {"mechanism": "tree", "order": ["a", "b", "c"]}, ("does not go with 'tree'",)),
        (EXAMPLE_1, {"mechanism": "trees"}, ("unknown mechanism 'trees'", "tree")),
        (EXAMPLE_1, {"planner": "best"}, ("plan option 'planner' cannot be 'best'", "'dynamic'")),
        ("PATTERN SEQ(A a, B b) WHERE skip_till_next_match(a, b) { a.p = b.p }", EAGER, ("only skip_till_any_match",)),
        ("PATTERN AND(A a, B b)", {"mechanism": "nfa"}, ("it does not evaluate AND", "leave the plan open")),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(text: str, plan: Any, parts: Sequence[str]) -> None:
    with pytest.raises(PlanningError) as raised:
        run(SIX, plan, text)
    for part in parts:
        assert part in str(raised.value)


def test_alternatives_take_their_own_variables_in_the_order_given() -> None:
    text = "PATTERN OR(SEQ(A a, B b), AND(B d, C c))"
    plan = kleene.query(text).explain(SIX.schema, time="ts", type="type", plan=chain("cbda")).plan
    assert is_lazy(plan)
    orders = [[branch.variables[index] for index in plan.order_of(branch) or ()] for branch in plan.branches]
    assert orders == [["b", "a"], ["c", "d"]]


def test_what_a_process_remembers_of_a_query_does_not_serve_other_roles_of_columns() -> None:
    """A column by which events are ordered is an attribute of all types, so `a.seq` of an A is compared only then."""
    events = pa.table({"ts": [1, 2, 3, 4], "type": ["A", "C", "B", "B"], "seq": [9] * 4, "x": [5, 5, 5, 10]})
    query = kleene.query("PATTERN SEQ(ANY(A, C) a, B b) WHERE a.seq < b.x")
    declared = {"A": ["x"], "B": ["x"], "C": ["seq", "x"]}
    options: dict[str, Any] = {"time": "ts", "type": "type", "schema": declared, "plan": {"mechanism": "chain"}}
    for further, count in [({"order_by": "seq"}, 2), ({}, 3), ({"order_by": "seq"}, 2)]:
        assert query.match(events, **options, **further).num_rows == count


# --- few events -------------------------------------------------------------------------------------------------------


def test_conditions_that_stacks_leave_open_are_not_decided_on_whole_sequences() -> None:
    """Of the sequences of six in 300 events there are millions; next to none has neighbours that are alike."""
    names = "ABCDEF"
    events = quotes(*((names[place % 6], place * 7_919 % 10_007) for place in range(300)))
    pattern = ", ".join(f"{name} v{place}" for place, name in enumerate(names))
    alike = " AND ".join(f"abs(v{place}.p - v{place + 1}.p) < 100" for place in range(5))
    metrics = measured(events, None, f"PATTERN SEQ({pattern}) WHERE {alike} WITHIN 100")
    assert metrics.sequences == 0
    assert 0 < metrics.evaluations < 100_000
