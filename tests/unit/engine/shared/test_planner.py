"""What is observed of the events of a group of queries."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

import kleene
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.expressions.failing import Noticed
from kleene.engine.matcher import BadRows, Metrics
from kleene.engine.shared.leaf_scan import LeafScan
from kleene.engine.shared.planner import _Drawn, observe_shared
from kleene.plan.multi.groups import PatternGroup, grouped

QUERIES = {
    "rising": "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 30",
    "far": "PATTERN SEQ(A a, C c) WHERE a.x + 50 < c.x WITHIN 30",
}


def working() -> tuple[PatternGroup, LeafScan, WorkingSet]:
    random = Random(1)
    table = pa.table(
        {
            "ts": range(4_000),
            "type": [random.choice("ABC") for _ in range(4_000)],
            "x": [random.randrange(100) for _ in range(4_000)],
        }
    )
    plans = {
        name: kleene.query(text, name=name).explain(table.schema, time="ts", type="type", plan={"mechanism": "lazy"}).plan
        for name, text in QUERIES.items()
    }
    (group,) = grouped(plans)
    scan = LeafScan(group.tested, "drop", Metrics(), BadRows(), Noticed())
    found = WorkingSet(group.bound.schema, group.columns)
    for batch in table.select(list(group.columns)).to_batches():
        found.add(batch, *scan(batch))
    return group, scan, found


def test_statistics_are_those_of_all_queries() -> None:
    group, scan, events = working()
    found = observe_shared(group, scan, events)
    assert len(found.rates) == len(group.leaves) == 3
    assert sum(found.rates) == pytest.approx(1.0)
    assert sorted(found.selectivities.values()) == pytest.approx([1 / 8, 1 / 2, 1 / 2], abs=0.08)
    assert found.held.keys() == found.selectivities.keys()


def test_which_tuples_are_drawn_does_not_depend_on_what_is_asked_first() -> None:
    group, scan, events = working()
    one, other = _Drawn(group, scan, events), _Drawn(group, scan, events)
    leaves = range(len(group.leaves))
    ascending = [one._rows_of(leaf) for leaf in leaves]
    descending = [other._rows_of(leaf) for leaf in reversed(leaves)]
    assert all(np.array_equal(*rows) for rows in zip(ascending, reversed(descending), strict=True))
