"""Counters: what their programs share, how windows are let go of, and where numbers end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import DataError
from kleene.engine.counting import counters
from kleene.engine.counting import totals as count_totals
from kleene.engine.counting.kernels.counting import TOTAL
from kleene.engine.counting.kernels.trie_counting import MANY
from kleene.engine.counting.program import Slot, Wanted, build_program
from kleene.engine.counting.trie_program import build_trie
from kleene.plan.counting.chopping import Load, best_cuts, common_parts, marking_cost, pieces_of
from kleene.plan.counting.counters import CounterPlan
from kleene.runtime.embedded import rows_of

ROLES = {"time": "ts", "type": "type"}


def path(*bits: int) -> tuple[tuple[int, tuple[int, ...]], ...]:
    return tuple((bit, ()) for bit in bits)


def counted(*paths: tuple[tuple[int, tuple[int, ...]], ...]) -> tuple[Wanted, ...]:
    return tuple(Wanted((steps,), 1 << steps[-1][0], (Slot(TOTAL),)) for steps in paths)


def cells_of(*paths: tuple[tuple[int, tuple[int, ...]], ...]) -> int:
    return int(build_program(counted(*paths), 8, True).initial.size)


def test_common_segments_are_one_cell_wherever_they_are() -> None:
    alone = [cells_of(path(0, 1, 2)), cells_of(path(3, 1, 2)), cells_of(path(1, 2, 4))]
    together = cells_of(path(0, 1, 2), path(3, 1, 2), path(1, 2, 4))
    assert alone == [7, 7, 7]  # six segments, and the cell that is always one
    # Once: 1, 2, 12. Of each alone: 0 01 012, 3 31 312, 4 24 124.
    assert together == 1 + 3 + 9


def test_a_trie_has_common_prefixes_once() -> None:
    trie = build_trie(counted(path(0, 1, 2), path(0, 1, 3), path(0, 1, 2, 4)), 8)
    assert trie is not None
    assert int(trie.forward.ranges[-1]) == 5  # 0, 01, 012, 013, 0124


def test_a_trie_has_common_ends_once() -> None:
    trie = build_trie(counted(path(0, 3, 4), path(1, 3, 4), path(2, 3, 4)), 8)
    assert trie is not None
    assert int(trie.forward.ranges[-1]) == 5  # 34, 4 and what begins each


def test_negation_makes_segments_differ() -> None:
    plain, negated = path(0, 1), ((0, (2,)), (1, ()))
    assert (
        build_program(counted(plain, negated), 3, True).initial.size
        > build_program(counted(plain, plain), 3, True).initial.size
    )


def test_common_parts_are_found_longest_first() -> None:
    assert list(common_parts([path(0, 1, 2), path(3, 1, 2)])) == [path(1, 2)]
    assert next(common_parts([path(0, 1, 2, 4), path(3, 1, 2, 4)])) == path(1, 2, 4)
    assert not list(common_parts([path(0, 1), path(1, 0)]))


def test_a_part_is_chopped_off_where_that_costs_less() -> None:
    paths = [path(first, 6, 7) for first in range(6)]
    rare = Load((1.0,) * 6 + (1.0, 1_000.0), (2_000.0,) * 6 + (1.0, 1_000.0))
    """Few events begin the common part, many of its second type come, and many first events are alive."""
    cuts = best_cuts(paths, rare)
    assert cuts == ((1,),) * 6
    assert pieces_of(paths[0], cuts[0]) == (path(0), path(6, 7))
    assert marking_cost(paths, cuts, rare) < marking_cost(paths, ((),) * 6, rare)


def test_a_part_is_left_where_snapshots_cost_more() -> None:
    paths = [path(first, 6, 7) for first in range(6)]
    even = Load((1_000.0,) * 8, (100.0,) * 8)
    assert best_cuts(paths, even) == ((),) * 6
    assert any(best_cuts(paths, even, forced=True))


def blocks(sizes: list[int]) -> pa.Table:
    """Events of types T0, T1, ... one type after the other."""
    types = np.repeat([f"T{number}" for number in range(len(sizes))], sizes)
    return pa.table({"ts": np.arange(types.size), "type": types})


def product(length: int, within: str = "") -> kleene.Query:
    return kleene.query(f"PATTERN SEQ({', '.join(f'T{i} t{i}' for i in range(length))}) AGG COUNT{within}")


PLANS = ["", " WITHIN 100000"]


@pytest.mark.parametrize("within", PLANS)
@pytest.mark.parametrize("window", ["stacks", "marking", "auto"])
def test_counts_are_exact_up_to_64_bits_and_refused_beyond(within: str, window: str) -> None:
    plan = {"mechanism": "counters", "window": window}
    fits = product(9, within).match(blocks([128] * 8 + [127]), plan=plan, **ROLES)
    assert fits.column("count")[-1].as_py() == 127 * 128**8 == (1 << 63) - (1 << 56)
    with pytest.raises(DataError, match="exceeds 64 bits"):
        product(9, within).match(blocks([128] * 9), plan=plan, **ROLES)


@pytest.mark.parametrize("window", ["stacks", "marking", "auto"])
def test_products_of_front_and_back_are_exact_up_to_64_bits(window: str) -> None:
    """An early start event expires in the middle, so that half of each match is in front and half behind."""
    plan = {"mechanism": "counters", "window": window}

    def counts(last: int) -> list[int]:
        events = blocks([128] * 6 + [127, 128, last])
        early = pa.table({"ts": [-576], "type": ["T0"]})
        rows = product(9, " WITHIN 1153").match(pa.concat_tables([early, events]), plan=plan, **ROLES)
        return rows.column("count").to_pylist()

    most = 128**7 * 127
    assert 9.2e18 < 129 * most < 1 << 63  # more than floats can tell from what does not fit
    assert counts(129) == [most * number for number in range(1, 130)]
    with pytest.raises(DataError, match="exceeds 64 bits"):
        counts(130)


@pytest.mark.parametrize("within", PLANS)
def test_sums_are_refused_beyond_64_bits(within: str) -> None:
    events = pa.table({"ts": [1, 2, 3, 4], "type": ["A", "A", "B", "B"], "x": [1 << 61, 1 << 61, 0, 0]})
    query = kleene.query(f"PATTERN SEQ(A a, B b) AGG SUM(a.x) AS s{within}")
    assert query.match(events.slice(0, 3), **ROLES).column("s").to_pylist() == [1 << 62]
    with pytest.raises(DataError, match="exceeds 64 bits"):
        query.match(events, **ROLES)


def trades(count: int, keys: int) -> pa.Table:
    rng = np.random.default_rng(5)
    types = pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 5, count), pa.int8()), pa.array(list("ABCDE")))
    ts = np.sort(rng.integers(0, count // 2, count))  # half of them simultaneous
    return pa.table({"ts": ts, "type": types, "k": rng.integers(0, keys, count), "x": rng.integers(-9, 9, count)})


QUERIES = [
    "PATTERN SEQ(A a, B b, C c) AGG COUNT WITHIN 40",
    "PATTERN SEQ(A a, !(E n), B b) GROUP BY k AGG COUNT, SUM(a.x) AS s, MAX(b.x) AS m WITHIN 60",
    "PATTERN SEQ(A a, B b) WHERE [k] AGG COUNT, AVG(b.x) AS m WITHIN 60 EMIT ON CHANGE",
    "PATTERN SEQ(A a, B b, C c) WHERE [k] AGG COUNT, MIN(a.x) AS low",
    "PATTERN OR(SEQ(A a, B b), SEQ(C c, D d)) AGG COUNT WITHIN 30",
    "PATTERN SEQ(A a, B b, !(E n)) WHERE [k] AGG COUNT, SUM(b.x) AS s WITHIN 60 EMIT ON CHANGE",
    "PATTERN OR(SEQ(A a, B b, !(E n)), SEQ(C c, !(D d)), SEQ(D e)) AGG COUNT EMIT ON CHANGE WITHIN 5 HAVING COUNT > 1",
]


@pytest.mark.parametrize("text", QUERIES)
def test_windows_and_batches_do_not_change_the_answer(text: str) -> None:
    events, query = trades(3_000, 7), kleene.query(text)
    wanted = query.match(events, plan={"mechanism": "matches"}, **ROLES)
    assert wanted.num_rows > 100
    for window in ("stacks", "marking", "auto"):
        plan = {"mechanism": "counters", "window": window}
        assert query.match(events, plan=plan, **ROLES).equals(wanted)
        given = kleene.interfaces.options.options_of({**ROLES, "plan": plan})
        matcher = query.matcher(events.schema, given, run_rows=100)
        pieces = [rows for batch in events.to_batches(max_chunksize=37) for _, rows in matcher.feed(batch)]
        pieces += rows_of(matcher.finish())
        assert len(pieces) > 5
        assert pa.Table.from_batches(pieces, matcher.output_schemas[0]).equals(wanted)


TOGETHER = {
    "one beginning, an end each": ["SEQ(A a, B b, C c)", "SEQ(A a, B b, D d)", "SEQ(A a, B b, E e, A f)"],
    "a beginning each, one end": ["SEQ(A a, D d, E e)", "SEQ(B a, D d, E e)", "SEQ(C a, D d, E e)"],
    "nothing but the first and the last": ["SEQ(A a, B b, C c)", "SEQ(A a, D d, C c)"],
    "one inside the other": ["SEQ(A a, B b, C c, D d, E e)", "SEQ(C c, D d, E e)", "SEQ(D d, E e)"],
    "one type again and again": ["SEQ(A a, A b, A c)", "SEQ(B a, A b, A c)"],
    "negation, inside and before an end": [
        "SEQ(A a, !(E n), B b, C c)",
        "SEQ(D a, !(E n), B b, C c)",
        "SEQ(D a, B b, !(A n), C c)",
    ],
    "tests that one event passes": [
        "SEQ(A a, B b, C c)",
        "SEQ(A a, B b, C c) WHERE c.x > 0",
        "SEQ(A a, B b, C c) WHERE a.x > 0",
    ],
    "paths of one query": ["OR(SEQ(A a, B b, C c), SEQ(D d, C e))", "SEQ(D d, B b, C c)", "SEQ(A a, B b, D c)"],
    "more than four positions": ["SEQ(A a, B b, C c, D d, E e, A f)", "SEQ(B b, C c, D d, E e, A f)"],
}


@pytest.mark.parametrize("patterns", TOGETHER.values(), ids=TOGETHER)
def test_tries_count_what_segments_do(patterns: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On streams with and without simultaneous events, and with more triggers than values are written at a time."""
    work = kleene.workload({f"q{number}": f"PATTERN {text} AGG COUNT WITHIN 300" for number, text in enumerate(patterns)})
    plan = {"mechanism": "counters", "window": "stacks"}
    events = trades(4_000, 1)
    for stream in (events, events.set_column(0, "ts", pa.array(np.arange(len(events))))):
        with monkeypatch.context() as patched:
            patched.setattr(counters.CounterPass, "_stacks_cost", lambda *_: np.inf)  # so that the trie is the one to take
            found = work.match(stream, plan=plan, **ROLES)
        with monkeypatch.context() as patched:
            patched.setattr(counters, "build_trie", lambda *_: None)
            wanted = work.match(stream, plan=plan, **ROLES)
        assert all(found[name].equals(wanted[name]) for name in wanted)
        assert found["q0"].num_rows > 2 * int(MANY)


CHANGES = {
    "one partition": "PATTERN SEQ(A a, B b) AGG COUNT, AVG(b.x) AS m EMIT ON CHANGE WITHIN {window}",
    "partitions added up": "PATTERN SEQ(A a, B b) WHERE [k] AGG COUNT, MIN(a.x) AS m EMIT ON CHANGE WITHIN {window}",
    "partitions added up at triggers": "PATTERN SEQ(A a, B b) WHERE [k] AGG COUNT WITHIN {window}",
    "groups": "PATTERN SEQ(A a, B b) GROUP BY k AGG COUNT EMIT ON CHANGE WITHIN {window}",
    "negation at the end": "PATTERN SEQ(A a, B b, !(E n)) WHERE [k] AGG COUNT EMIT ON CHANGE WITHIN {window}",
}


@pytest.mark.parametrize("text", CHANGES.values(), ids=CHANGES)
def test_a_pass_has_the_values_of_new_events_and_expiries_only(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many events are kept: what is added up is as much as comes."""
    sizes, kernel = [], count_totals.kernels.add_up

    def measured(stream: Any, span: Any, triggers: Any, expiries: Any, *further: Any) -> None:
        sizes.append(triggers.rows.size + expiries.rows.size)
        kernel(stream, span, triggers, expiries, *further)

    monkeypatch.setattr(count_totals.kernels, "add_up", measured)
    most = []
    for window in (200, 2_000):
        query, events = kleene.query(text.format(window=window)), trades(3 * window, 7)
        matcher = query.matcher(events.schema, kleene.interfaces.options.options_of(ROLES))
        sizes.clear()
        rows = []
        for batch in events.to_batches(max_chunksize=50):
            rows += rows_of([*matcher.feed(batch), *matcher.advance(batch.column("ts")[-1].as_py())])
        rows += rows_of(matcher.finish())
        wanted = query.match(events, plan={"mechanism": "matches"}, **ROLES)
        order = [(name, "ascending") for name in ("at", *query.logical.group_by)]  # expiries of an instant are in no order
        assert pa.Table.from_batches(rows, matcher.output_schemas[0]).sort_by(order).equals(wanted.sort_by(order))
        assert matcher.metrics.matches == wanted.num_rows > 100
        most.append(max(sizes[:-1]))
    assert most[1] < 2 * most[0] < 400


def test_a_negated_end_is_counted_with_expiries() -> None:
    """Only of MIN, MAX and sums of floats no part can be taken back exactly."""
    columns = {"ts": pa.int64(), "type": pa.string(), "x": pa.int64(), "y": pa.float64()}
    for items, counted in (("COUNT, SUM(a.x), AVG(a.x)", True), ("MIN(a.x)", False), ("SUM(a.y)", False)):
        query = kleene.query(f"PATTERN SEQ(A a, !(N n)) AGG {items} EMIT ON CHANGE WITHIN 9")
        plan = query.plan_for(pa.schema(columns), kleene.interfaces.options.options_of(ROLES))
        assert isinstance(plan, CounterPlan) is counted


@pytest.mark.parametrize("window", ["stacks", "marking"])
def test_what_is_counted_does_not_depend_on_how_events_crowd(window: str) -> None:
    """Nearly all events in one partition, and nearly all at one instant: the cheapest way is looked for among what is alive."""
    crowd = pa.table({"ts": [0, *[50] * 3_000, 90], "type": [*"AB" * 1_501], "k": [1, *[0] * 3_000, 1]})
    query = kleene.query("PATTERN SEQ(A a, B b) WHERE [k] AGG COUNT EMIT ON CHANGE WITHIN 20")
    chosen = []
    with pytest.MonkeyPatch.context() as patched:
        for name in ("_count_stacked", "_count_marked"):
            original = getattr(counters.CounterPass, name)
            patched.setattr(counters.CounterPass, name, lambda *a, n=name, f=original: (chosen.append(n), f(*a))[1])
        found = query.match(crowd, **ROLES)
    assert chosen == ["_count_stacked"]
    assert found.equals(query.match(crowd, plan={"mechanism": "counters", "window": window}, **ROLES))


def test_what_is_kept_between_batches_is_a_window() -> None:
    query = kleene.query("PATTERN SEQ(A a, B b) AGG COUNT WITHIN 10")
    matcher = query.matcher(trades(10, 1).schema, kleene.interfaces.options.options_of(ROLES), run_rows=1)
    kept = []
    for batch in trades(5_000, 1).to_batches(max_chunksize=100):
        list(matcher.feed(batch))
        kept.append(len(matcher._working))
    assert max(kept) < 300


def test_without_a_window_counters_are_kept_and_no_events() -> None:
    query = kleene.query("PATTERN SEQ(A a, B b) GROUP BY k AGG COUNT")
    events = trades(5_000, 50)
    matcher = query.matcher(events.schema, kleene.interfaces.options.options_of(ROLES), run_rows=1)
    rows, kept = [], []
    for batch in events.to_batches(max_chunksize=100):
        rows += rows_of(matcher.feed(batch))
        kept.append(len(matcher._working))
    rows += rows_of(matcher.finish())
    assert max(kept) < 150
    assert pa.Table.from_batches(rows).equals(query.match(events, **ROLES))


def test_queries_of_a_workload_are_counted_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = []
    original = counters.CounterPass

    def counting(*args: object) -> counters.CounterPass:
        passes.append(1)
        return original(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(counters, "CounterPass", counting)
    queries = {f"q{last}": f"PATTERN SEQ(A a, B b, {last} c) AGG COUNT WITHIN 40" for last in "CDE"}
    events, work = trades(2_000, 3), kleene.workload(queries)
    shared = work.match(events, **ROLES)
    together, passes[:] = len(passes), []
    alone = work.match(events, plan={"mechanism": "counters", "sharing": "none"}, **ROLES)
    assert (together, len(passes)) == (1, 3)
    assert all(shared[name].equals(alone[name]) for name in queries)
    assert "in one pass with qD, qE" in str(work.explain(events, **ROLES)["qC"])


def test_bad_rows_are_those_of_each_query() -> None:
    events = pa.table({"ts": [1, 2, 3, None], "type": ["A", "B", "C", "C"]})
    work = kleene.workload({"ab": "PATTERN SEQ(A a, B b) AGG COUNT WITHIN 9", "ac": "PATTERN SEQ(A a, C c) AGG COUNT WITHIN 9"})
    with pytest.warns(UserWarning, match="bad rows"):
        runs = work.run(events, bad_rows="quarantine", **ROLES)
    assert [run.bad_rows.num_rows for run in runs.values()] == [0, 1]
    assert [run.matches.num_rows for run in runs.values()] == [1, 1]


def test_a_null_is_bad_where_it_is_a_key_and_only_there() -> None:
    """An equality of all components divides the stream like an equivalence test, but its NULLs are no bad rows."""
    events = pa.table({"ts": [1, 2, 3], "type": ["A", "A", "B"], "x": [None, 1, 1]})
    equal = "PATTERN SEQ(A a, B b) WHERE a.x = b.x AGG COUNT AS n WITHIN 9"
    work = kleene.workload({"equal": equal, "key": "PATTERN SEQ(A a, B b) WHERE [x] AGG COUNT AS n WITHIN 9"})
    with pytest.warns(UserWarning, match="bad rows"):
        runs = work.run(events, bad_rows="quarantine", **ROLES)
    assert [run.bad_rows.num_rows for run in runs.values()] == [0, 1]
    assert [run.matches["n"].to_pylist() for run in runs.values()] == [[1], [1]]
