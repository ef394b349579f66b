"""The scan of a group finds, for each row, the tests that pass on it by themselves."""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import KleeneError
from kleene.engine.expressions.failing import Noticed
from kleene.engine.matcher import BadRows, Metrics
from kleene.engine.shared.leaf_scan import LeafScan
from kleene.plan.multi.groups import PatternGroup, grouped
from support import scan_pairs


def group_of(queries: dict[str, str], events: pa.Schema, types: dict[str, frozenset[str]] | None) -> PatternGroup | None:
    """The queries as a group; None if they are not one."""
    options = {"time": "ts", "type": "type", "plan": {"mechanism": "lazy"}, "schema": types}
    plans = {name: kleene.query(text, name=name).explain(events, **options).plan for name, text in queries.items()}
    return next(grouped(plans), None)


@pytest.mark.parametrize("seed", range(4))
def test_each_row_has_the_tests_that_pass_on_it(seed: int) -> None:
    seen: Counter[str] = Counter()
    for number in range(30):
        rng = Random(f"{seed}:{number}")
        batch, kinds = scan_pairs.events(rng, rng.choice([0, 1, 7, 40]))
        queries = {f"q{number}": scan_pairs.pattern(kinds, rng, 4) for number in range(rng.randrange(2, 30))}
        try:
            group = group_of(queries, batch.schema, scan_pairs.declared(kinds, rng))
            if group is None:
                continue
            wanted: dict[int, set[int]] = {row: set() for row in range(batch.num_rows)}
            failing: set[int] = set()
            for test, item in enumerate(group.tests):
                passed, failed = scan_pairs.passing(group.bound, item.event.types, item.predicates, batch)
                for row in passed:
                    wanted[row].add(test)
                failing.update(failed)
        except KleeneError as error:
            seen[type(error).__name__] += 1
            continue
        noticed = Noticed()
        scan = LeafScan(group.tested, "drop", Metrics(), BadRows(), noticed)
        rows, codes = scan(batch)
        starts, tests = scan.sets()
        found = {
            row: set(tests[starts[code] : starts[code + 1]].tolist()) for row, code in zip(rows.tolist(), codes, strict=True)
        }
        kept = {row: own for row, own in wanted.items() if own or row in failing}
        assert found == kept, (seed, number, queries)
        assert (noticed.until is None) == (not failing), (seed, number, queries)
        assert scan.counts(codes).tolist() == [sum(test in own for own in kept.values()) for test in range(len(group.tests))]
        seen["compared"] += 1
        seen["failing"] += bool(failing)
    assert seen["compared"] > 15, seen


def test_rows_that_pass_no_test_are_left_out_and_errors_are_noticed() -> None:
    events = pa.record_batch({"ts": [1, 2, 3], "type": ["A"] * 3, "x": [1, 2**63 - 1, 5]})
    queries = {"one": "PATTERN SEQ(A a) WHERE a.x + 1 > 5", "other": "PATTERN SEQ(A a) WHERE a.x + 1 > 5 AND a.x = 5"}
    group = group_of(queries, events.schema, None)
    assert group is not None
    noticed = Noticed()
    rows, codes = LeafScan(group.tested, "drop", Metrics(), BadRows(), noticed)(events)
    assert rows.tolist() == [1, 2]
    assert codes[0] == 0
    assert noticed.until == 2
