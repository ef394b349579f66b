"""Groups of queries in execution: what the random workloads of `tests/property` do not come to."""

from __future__ import annotations

import threading
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kleene
from kleene.common.errors import DataError
from kleene.engine.shared import leaf_scan
from kleene.engine.shared import planner as multitree_choice
from kleene.engine.shared import shared_pass as multitree_pass
from kleene.engine.shared.matcher import SharedMatcher
from kleene.engine.shared.planner import Planner
from kleene.plan.multi.cost import Estimates
from kleene.plan.multi.groups import PatternGroup, grouped
from kleene.plan.multi.nodes import SharedPlan
from kleene.plan.multi.search import MultiOptions, plan_shared
from kleene.runtime.embedded import match_batches

ROLES: dict[str, Any] = {"time": "ts", "type": "type"}


def events(kinds: str, seed: int = 1, **columns: list[Any]) -> pa.Table:
    random = Random(seed)
    rows = len(kinds)
    values = {"x": [random.randrange(20) for _ in range(rows)], **columns}
    return pa.table({"ts": list(range(rows)), "type": list(kinds), **values})


def drawn(letters: str, rows: int, seed: int = 1) -> str:
    random = Random(seed)
    return "".join(random.choice(letters) for _ in range(rows))


def group_of(queries: dict[str, str], table: pa.Table, **options: Any) -> PatternGroup:
    plans = {
        name: kleene.query(text, name=name).explain(table.schema, plan={"mechanism": "lazy"}, **ROLES, **options).plan
        for name, text in queries.items()
    }
    (group,) = grouped(plans)  # type: ignore[arg-type]
    assert set(group.plans) == set(queries)
    return group


def ids(found: dict[str, list[int]], queries: dict[str, str], table: pa.Table) -> None:
    for name, text in queries.items():
        wanted = kleene.query(text, name=name).match(table, **ROLES)["match_id"].to_pylist()
        assert wanted, f"'{name}' compares nothing"
        assert sorted(found[name]) == sorted(wanted), name


def fed(matcher: SharedMatcher, table: pa.Table, rows: int) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for query, matches in match_batches(matcher, table.to_batches(max_chunksize=rows)):
        found.setdefault([*matcher._group.plans][query], []).extend(matches["match_id"].to_pylist())
    return found


BUSHY = {
    "one": "PATTERN SEQ(A a, B b, C c, D d) WHERE a.x < b.x AND c.x < d.x WITHIN 25",
    "two": "PATTERN SEQ(C c, D d, E e) WHERE c.x < d.x WITHIN 30",
    "three": "PATTERN SEQ(A a, B b, E e) WHERE a.x < b.x WITHIN 20",
}


def test_relations_that_take_too_much_memory_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    table = events(drawn("ABCDE", 300))
    group = group_of(BUSHY, table)
    options = MultiOptions(search="sharing")
    planner = Planner(group, options)
    matcher = SharedMatcher(group, planner, table.schema)
    ids(fed(matcher, table, 300), BUSHY, table)
    assert matcher.plan is not None
    assert matcher.plan.kind == "multitree"
    assert planner.plans == 1

    monkeypatch.setattr(multitree_pass, "MOST_KEPT", 100)
    matcher = SharedMatcher(group, planner, table.schema)
    ids(fed(matcher, table, 300), BUSHY, table)
    assert matcher.plan.kind == "tree"
    assert planner.plans == 2


def test_the_plan_changes_with_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multitree_choice, "SHARE", 1e6)
    monkeypatch.setattr(multitree_choice, "expected_seconds", lambda _: 60.0)  # however short the passes are
    early, late = drawn("AABBBBBBBBCDDDDDDDDE", 2000, 1), drawn("AABCCCCCCCDEEEEEEE", 2000, 2)
    table = events(early + late)
    group = group_of(BUSHY, table)
    planner = Planner(group, MultiOptions(search="none"))
    matcher = SharedMatcher(group, planner, table.schema, run_rows=500)
    found: dict[str, list[int]] = {}
    followed = set()
    for batch in table.to_batches(max_chunksize=500):
        for query, matches in matcher.feed(batch):
            found.setdefault([*matcher._group.plans][query], []).extend(matches["match_id"].to_pylist())
        planner.wait()  # so that the next pass finds what this one has searched for
        assert matcher.plan is not None or not followed
        followed |= set() if matcher.plan is None else {matcher.plan.nodes}
    for query, matches in matcher.finish():
        found.setdefault([*matcher._group.plans][query], []).extend(matches["match_id"].to_pylist())
    ids(found, BUSHY, table)
    assert planner.plans > 1
    assert len(followed) > 1

    monkeypatch.setattr(multitree_choice, "expected_seconds", lambda _: 0.0)
    busy = Planner(group, MultiOptions(search="none"))
    ids(fed(SharedMatcher(group, busy, table.schema, run_rows=500), table, 500), BUSHY, table)
    assert busy.plans == 1, "nothing is gained by another"
    steady = Planner(group, MultiOptions(search="none", adaptive=False))
    ids(fed(SharedMatcher(group, steady, table.schema, run_rows=500), table, 500), BUSHY, table)
    assert steady.plans == 1


def test_a_plan_is_followed_again_when_events_are_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[SharedPlan] = []
    monkeypatch.setattr(multitree_choice, "SHARE", 0.0)  # rates only: selectivities of few events differ by chance
    monkeypatch.setattr(multitree_choice, "expected_seconds", lambda _: 60.0)

    def noted(*given: Any, **named: Any) -> SharedPlan:
        made.append(plan_shared(*given, **named))
        return made[-1]

    monkeypatch.setattr(multitree_choice, "plan_shared", noted)
    one, other = drawn("AABBBBBBBBCDDDDDDDDE", 1000, 1), drawn("AABCCCCCCCDEEEEEEE", 1000, 2)
    table = events(one + other + one + other)
    group = group_of(BUSHY, table)
    planner = Planner(group, MultiOptions(search="none"))
    found = fed(SharedMatcher(group, planner, table.schema, run_rows=1000), table, 1000)
    ids(found, BUSHY, table)
    assert planner.plans == 4
    assert len(made) == 2, "each kind of events has a plan, made once"


def test_conditions_are_seen_to_hold_together() -> None:
    """Of numbers x three are ascending in a sixth of all cases, not in a quarter."""
    queries = {
        "three": "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 30",
        "same": "PATTERN SEQ(A a, A b, A c) WHERE a.x < b.x AND b.x < c.x WITHIN 30",
        "called": "PATTERN SEQ(A a, B b, C c) WHERE abs(a.x) < b.x AND b.x < c.x WITHIN 30",
    }
    random = Random(3)
    table = events(drawn("ABC", 4000), x=[random.random() for _ in range(4000)])
    group = group_of(queries, table)
    matcher = SharedMatcher(group, Planner(group, MultiOptions(search="none")), table.schema)
    ids(fed(matcher, table, 4000), queries, table)
    assert matcher.plan is not None
    shares = {clause.query: Estimates(clause, matcher.plan.statistics).of(0b111).share for clause in group.clauses}
    assert shares["three"] == pytest.approx(1 / 6, abs=0.03)
    # What two events of one leaf satisfy is not known, nor what calls functions.
    assert [shares["same"], shares["called"]] == pytest.approx([1 / 4] * 2, abs=0.04)


def test_a_value_that_no_pair_asks_for_need_not_be_computable() -> None:
    queries = {
        "one": "PATTERN SEQ(A a, B b) WHERE a.x * 1000000000000 < b.x WITHIN 3",
        "two": "PATTERN SEQ(A a, B b, C c) WHERE a.x * 1000000000000 < b.x WITHIN 3",
    }
    large = 1 << 62
    table = events("AABCCCCCA", x=[0, 0, 5, 1, 1, 1, 1, 1, large])
    ids(
        {name: found["match_id"].to_pylist() for name, found in kleene.workload(queries).match(table, **ROLES).items()},
        queries,
        table,
    )
    asked = events("AABC", x=[0, large, 5, 1])
    with pytest.raises(DataError, match="overflow"):
        kleene.workload(queries).match(asked, **ROLES)


def test_metrics_and_bad_rows_are_those_of_each_query() -> None:
    queries = {"ab": "PATTERN SEQ(A a, B b) WHERE [k] WITHIN 5", "cd": "PATTERN SEQ(C c, D d) WHERE [k] WITHIN 5"}
    table = events("ABCDAB", k=[1, 1, 1, 1, None, 1])
    with pytest.warns(UserWarning, match="1 bad rows were set aside"):
        runs = kleene.workload(queries).run(table, bad_rows="quarantine", **ROLES)
    assert [runs[name].metrics.bad for name in queries] == [1, 0]
    assert runs["ab"].bad_rows.column("type").to_pylist() == ["A"]
    assert [runs[name].metrics.matches for name in queries] == [1, 1]
    assert runs["cd"].metrics.events == 6
    with pytest.raises(DataError, match="queries 'ab', 'cd': 1 bad row"):
        kleene.workload(queries).match(table, **ROLES)


def test_what_cannot_be_shared_is_answered_by_itself() -> None:
    table = events(drawn("ABC", 60))
    queries = {
        "any": "PATTERN SEQ(A a, B b) WITHIN 5",
        "next": "PATTERN SEQ(A a, B b) WHERE skip_till_next_match(a, b) { a.x >= 0 } WITHIN 5",
        "apart": "PATTERN SEQ(A a, B b) WITHIN 5 OUTPUT NON-OVERLAP",
        "rising": "PATTERN SEQ(A a, B+ b[]) WHERE b[i].x > b[i-1].x WITHIN 5",
        "again": "PATTERN SEQ(B p, A q) WITHIN 9",
    }
    work = kleene.workload(queries)
    ids({name: found["match_id"].to_pylist() for name, found in work.match(table, **ROLES).items()}, queries, table)
    shown = work.explain_shared(table, **ROLES)
    assert set(shown.alone) == {"next", "apart", "rising"}
    assert "not in a shared plan: next, apart, rising" in str(shown)
    assert {root.clause.query for root in shown.plans[0].roots} == {"any", "again"}
    assert shown.svg().startswith("<svg")


def test_queries_come_and_go() -> None:
    table = events(drawn("ABC", 60))
    first = kleene.workload({"ab": "PATTERN SEQ(A a, B b) WITHIN 5", "bc": "PATTERN SEQ(B b, C c) WITHIN 5"})
    before = first.match(table, **ROLES)
    more = first.with_query("abc", "PATTERN SEQ(A a, B b, C c) WITHIN 5")
    assert list(more.queries) == ["ab", "bc", "abc"]
    after = more.match(table, **ROLES)
    other = more.with_query("ab", "PATTERN SEQ(A a, B b) WITHIN 2").match(table, **ROLES)
    fewer = more.without("ab").match(table, **ROLES)
    for found in (after, other, fewer):
        assert sorted(found["bc"]["match_id"].to_pylist()) == sorted(before["bc"]["match_id"].to_pylist())
    assert other["ab"].num_rows < after["ab"].num_rows
    assert list(fewer) == ["bc", "abc"]
    with pytest.raises(kleene.BindingError, match="no query 'ac'"):
        more.without("ac")
    with pytest.raises(kleene.BindingError, match="at least one query"):
        first.without("ab").without("bc")


def both(queries: dict[str, str], table: pa.Table, **options: Any) -> None:
    """The workload gives each query what it gives alone."""
    given = {"time": "ts", **options}
    found = kleene.workload(queries).match(table, **given)
    for name, text in queries.items():
        wanted = kleene.query(text, name=name).match(table, **given)
        assert wanted.num_rows > 0, f"'{name}' compares nothing"
        assert sorted(found[name]["match_id"].to_pylist()) == sorted(wanted["match_id"].to_pylist()), name


def test_without_a_type_column_all_names_are_those_of_all_events() -> None:
    queries = {"p": "PATTERN SEQ(Stock a, Stock b) WITHIN 2", "q": "PATTERN SEQ(Quote a, Quote b) WHERE a.x < b.x WITHIN 3"}
    both(queries, pa.table({"ts": list(range(6)), "x": [3, 1, 4, 1, 5, 9]}))


def test_values_of_events_that_are_not_compared_are_not_looked_at() -> None:
    queries = {"p": "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 5", "q": "PATTERN SEQ(A a, C c) WITHIN 5"}
    large = pa.array([1, 2, 2**64 - 1], pa.uint64())
    both(queries, pa.table({"ts": [0, 1, 2], "type": ["A", "B", "C"], "x": large}), type="type")


def test_timestamps_of_different_units_are_compared_apart() -> None:
    far = pa.array([250_000_000_000_000_000, 253_000_000_000_000_000]).cast(pa.timestamp("us"))  # the years 9892 and 9987
    near = pa.array([1, 2], pa.int64()).cast(pa.timestamp("ns"))
    table = pa.table({"ts": [0, 1], "type": ["A", "B"], "x": far, "y": near})
    queries = {"p": "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 5", "q": "PATTERN SEQ(A a, B b) WHERE a.y < b.y WITHIN 5"}
    both(queries, table, type="type")


def kept_after(queries: dict[str, str], table: pa.Table) -> tuple[int, SharedMatcher]:
    group = group_of(queries, table)
    matcher = SharedMatcher(group, Planner(group, MultiOptions(search="none")), table.schema, run_rows=100)
    for batch in table.to_batches(max_chunksize=100):
        list(matcher.feed(batch))
    return matcher._working.kept, matcher


def test_single_events_are_not_kept() -> None:
    table = events(drawn("AB", 2000))
    pairs = "PATTERN SEQ(A a, B b) WITHIN 4"
    kept, _ = kept_after({"alert": "PATTERN A a WHERE a.x > 18", "pairs": pairs}, table)
    assert kept < 10
    plans = {
        name: kleene.query(text, name=name).explain(table.schema, plan={"mechanism": "lazy"}, **ROLES).plan
        for name, text in {"ever": "PATTERN SEQ(A a, B b)", "pairs": pairs, "more": "PATTERN SEQ(B b, A a) WITHIN 9"}.items()
    }
    (group,) = grouped(plans)  # type: ignore[arg-type]
    assert set(group.plans) == {"pairs", "more"}, "a query without a window keeps every event, for itself"


def test_sets_of_tests_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaf_scan, "FEW_SETS", 4)
    random = Random(3)
    columns = {f"x{number}": [random.random() for _ in range(1500)] for number in range(8)}
    table = pa.table({"ts": list(range(1500)), "type": ["A"] * 1500, **columns})
    queries = {
        f"q{number}": f"PATTERN SEQ(A a, A b) WHERE a.x{number} > 0.5 AND b.x{number} > 0.9 WITHIN 3" for number in range(8)
    }
    _, matcher = kept_after(queries, table)
    assert len(matcher._scan.sets()[0]) < 150, "those of a pass, of more than a thousand"
    group = group_of(queries, table)
    found = fed(SharedMatcher(group, Planner(group, MultiOptions(search="none")), table.schema, run_rows=100), table, 100)
    ids(found, queries, table)


def test_a_search_ends_with_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multitree_choice, "SHARE", 1e6)
    monkeypatch.setattr(multitree_choice, "expected_seconds", lambda _: 60.0)
    table = events(drawn("AABBBBBBBBCDDDDDDDDE", 1000, 1) + drawn("AABCCCCCCCDEEEEEEE", 1000, 2))
    group = group_of(BUSHY, table)
    planner = Planner(group, MultiOptions(seconds=600.0))
    monkeypatch.setattr(planner, "_bounded", lambda _: MultiOptions(seconds=0.1 if planner.plans == 0 else 600.0))
    ids(fed(SharedMatcher(group, planner, table.schema, run_rows=500), table, 500), BUSHY, table)
    assert not [thread for thread in threading.enumerate() if thread.name == "kleene-plan"]


def test_functions_go_with_the_workload() -> None:
    table = events(drawn("AB", 30))
    odd = {"odd": lambda x: pc.cast(pc.bit_wise_and(x, 1), pa.float64())}
    work = kleene.workload({"p": "PATTERN SEQ(A a, B b) WHERE odd(a.x) = 1 WITHIN 3"}, functions=odd)
    more = work.with_query("q", "PATTERN SEQ(B b, A a) WHERE odd(b.x) = 1 WITHIN 3")
    assert all(found.num_rows for found in more.match(table, **ROLES).values())
    assert more.without("p").functions == work.functions
