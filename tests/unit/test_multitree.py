"""Groups of queries in execution: what the random workloads of `tests/property` do not come to."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import DataError
from kleene.engine import multitree_pass
from kleene.engine.multitree import SharedMatcher
from kleene.engine.multitree_choice import Planner
from kleene.plan.multi.search import MultiOptions
from kleene.plan.pattern_groups import PatternGroup, grouped

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
        name: kleene.query(text, name=name).explain(table.schema, plan={"mechanism": "lazy"}, **ROLES, **options)
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
    for batch in table.to_batches(max_chunksize=rows):
        for name, matches in matcher.feed(batch):
            found.setdefault(name, []).extend(matches["match_id"].to_pylist())
    for name, matches in matcher.finish():
        found.setdefault(name, []).extend(matches["match_id"].to_pylist())
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


def test_the_plan_changes_with_the_events() -> None:
    early, late = drawn("AABBBBBBBBCDDDDDDDDE", 2000, 1), drawn("AABCCCCCCCDEEEEEEE", 2000, 2)
    table = events(early + late)
    group = group_of(BUSHY, table)
    planner = Planner(group, MultiOptions(search="none"))
    matcher = SharedMatcher(group, planner, table.schema, run_rows=500)
    found: dict[str, list[int]] = {}
    followed = set()
    for batch in table.to_batches(max_chunksize=500):
        for name, matches in matcher.feed(batch):
            found.setdefault(name, []).extend(matches["match_id"].to_pylist())
        planner.wait()  # so that the next pass finds what this one has searched for
        assert matcher.plan is not None or not followed
        followed |= set() if matcher.plan is None else {matcher.plan.nodes}
    for name, matches in matcher.finish():
        found.setdefault(name, []).extend(matches["match_id"].to_pylist())
    ids(found, BUSHY, table)
    assert planner.plans > 1
    assert len(followed) > 1

    steady = Planner(group, MultiOptions(search="none", adaptive=False))
    ids(fed(SharedMatcher(group, steady, table.schema, run_rows=500), table, 500), BUSHY, table)
    assert steady.plans == 1


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
    with pytest.raises(DataError, match="query 'ab': 1 bad row"):
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
    assert "by themselves: next, apart, rising" in str(shown)
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
