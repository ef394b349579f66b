"""Shared plans on Spark: one pass for the queries of a key, the embedded answer with the same ids."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import kleene
from kleene.interfaces.composition.shared import multi_options_of
from kleene.plan.multi.groups import grouped
from kleene.runtime.spark.workloads import sampled_plan, sampled_statistics
from support.spark import frame_of
from support.spark_queries import in_order, zone_events

pytestmark = pytest.mark.spark

ROLES: dict[str, Any] = {"time": "ts", "type": "type"}
QUERIES = {
    "rise": "PATTERN SEQ(A a, B b) WHERE [id] AND a.x < b.x WITHIN 20 minutes",
    "rise and c": "PATTERN SEQ(A p, B q, C r) WHERE [id] AND q.x > p.x WITHIN 30 minutes RETURN p.x AS low, q.x - p.x AS rise",
    "no d": "PATTERN SEQ(A a, B b, !(D d)) WHERE [id] AND a.x < b.x WITHIN 10 minutes",
    "many": "PATTERN SEQ(A a, B+ b[], C c) WHERE [id] AND b[].x > a.x WITHIN 12 minutes",
    "both keys": "PATTERN SEQ(A a, C c) WHERE [id] AND [zone] WITHIN 1 hour",
    "both again": "PATTERN AND(A a, C c, D d) WHERE [id] AND [zone] WITHIN 1 hour",
    "no key": "PATTERN SEQ(A a, B b) WHERE a.x > b.x + 15 WITHIN 5 minutes",
    "no key 2": "PATTERN SEQ(A a, B b, C c) WHERE a.x > b.x + 15 WITHIN 4 minutes",
    "next": "PATTERN SEQ(A a, B b) WHERE skip_till_next_match(a, b) { [id] } WITHIN 20 minutes",
    "counted": "PATTERN SEQ(A a, B b) WHERE [id] AGG COUNT WITHIN 20 minutes",
    "events": "PATTERN SEQ(A a, D d) WHERE [id] WITHIN 6 EVENTS",
    "events 2": "PATTERN SEQ(A a, D d, B b) WHERE [id] WITHIN 8 EVENTS",
}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return zone_events()


@pytest.fixture(scope="module")
def frame(spark: Any, table: pa.Table) -> Any:
    return frame_of(spark, table).repartition(3).cache()


@pytest.mark.parametrize("plan", [None, {"mechanism": "multi", "kind": "tree", "search": "tabu", "steps": 50}])
def test_every_query_has_its_own_matches(frame: Any, table: pa.Table, plan: Any) -> None:
    found = kleene.workload(QUERIES).match(frame, plan=plan, **ROLES)
    for name, text in QUERIES.items():
        wanted = kleene.query(text, name=name).match(table, **ROLES)
        assert wanted.num_rows > 0, f"'{name}' compares nothing"
        assert _rows(found[name].toArrow()) == _rows(wanted), name


def _rows(matches: pa.Table) -> list[Any]:
    return in_order(matches.to_pylist()) if "match_id" in matches.column_names else sorted(map(str, matches.to_pylist()))


def test_queries_of_one_key_are_answered_in_one_pass(frame: Any, table: pa.Table) -> None:
    keyed = {name: QUERIES[name] for name in ("rise", "rise and c", "no d", "many")}
    _, options = multi_options_of(kleene.interfaces.options.options_of(dict(ROLES)))
    assert options is not None
    plans = {
        name: kleene.query(text, name=name).explain(table.schema, plan={"mechanism": "lazy"}, **ROLES).plan
        for name, text in keyed.items()
    }
    (group,) = grouped(plans)
    run = kleene.workload(keyed).run(frame, **ROLES)
    kept = run["rise"].kept
    assert kept is not None
    assert all(item.kept is kept for item in run.values())
    assert {row["query"] for row in kept.select("query").collect()} == set(keyed)
    assert kept.storageLevel.useMemory
    plan = sampled_plan(group, sampled_statistics(group, frame), options)
    shared = [node for node, users in zip(plan.nodes, plan.users(), strict=True) if not node.is_leaf and len(users) > 1]
    assert shared, "a rise is looked for once"
    assert run["rise"].matches.count() == kleene.query(keyed["rise"], name="rise").match(table, **ROLES).num_rows
    run["rise"].unpersist()
    assert not kept.storageLevel.useMemory


def test_bad_rows_are_those_of_each_query(spark: Any, table: pa.Table) -> None:
    ids = table["id"].to_pylist()
    ids[5] = None
    holed = table.set_column(2, "id", pa.array(ids, pa.int32()))
    name = holed["type"][5].as_py()
    run = kleene.workload(QUERIES).run(frame_of(spark, holed), bad_rows="quarantine", **ROLES)
    own = kleene.workload(QUERIES).run(holed, bad_rows="quarantine", **ROLES)
    for query, text in QUERIES.items():
        concerned = "[id]" in text and any(mark in text for mark in (f"({name} ", f" {name} ", f" {name}+"))
        assert run[query].bad_rows.count() == own[query].bad_rows.num_rows == int(concerned), query
