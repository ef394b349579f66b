"""Kleene as a contender: aggregates by a forced mechanism, or as the plan comes (auto).

Contenders of one query must give the same sum of all values of all rows. Where queries differ, contenders must have the same
number of rows, and `require_same` compares the sums of those that answer the same query.

The clock of a single query runs while events are fed: plans and matchers are made before, as the paper's time per window slide
has it. A workload is timed as a whole, since what it shares is planned when it is run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

import kleene
from benchmarks.aseq.streams import pattern_text
from benchmarks.harness import Contender, Disagreement, Outcome, Point
from benchmarks.sase.contenders import discard_matches
from kleene.engine.build import build_matcher
from kleene.interfaces.options import options_of
from kleene.runtime.embedded import Run, run_embedded

Plan = dict[str, Any] | None

AUTO = "auto"
MATCHES = "matches"
CONSTRUCTION = "construction"
MARKING = "marking"
STACKS = "stacks"
PLANS: dict[str, Plan] = {
    MATCHES: {"mechanism": "matches"},
    MARKING: {"mechanism": "counters", "window": "marking"},
    STACKS: {"mechanism": "counters", "window": "stacks"},
    AUTO: None,
}
UNLIMITED = {"matches": 1 << 40, "total": 1 << 60, "partials": 1 << 60}
"""Limits of construction: what makes it slow is what is measured, and it may be billions of matches."""
LONG_RUN = 10.0
"""Seconds from which on a run of construction is not repeated."""


def kleene_query(
    name: str,
    query: kleene.Query,
    table: pa.Table,
    plan: Plan,
    *,
    by_rows: bool = False,
    work: Callable[[Run], Mapping[str, int]] = lambda _: {},
) -> Contender:
    """A run of the query over a table in memory; with `by_rows` contenders only have to have as many rows."""
    made = query.plan_for(table.schema, options_of({"time": "ts", "type": "type", "plan": plan, "limits": _limits(plan)}))
    known: list[Outcome] = []

    def run() -> Outcome:
        matcher = build_matcher(made, table.schema)
        wall, cpu = time.perf_counter(), time.process_time()
        done = run_embedded(matcher, table, made.bound.schema)
        seconds = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        if not known:
            rows, sum_of_values = done.matches.num_rows, total(done.matches)
            counted = {"rows": rows, "total": sum_of_values, **_counted(done), **work(done)}
            known.append(Outcome(rows if by_rows else sum_of_values, counted))
        return replace(known[0], seconds=seconds)

    return Contender(name, run)


def _limits(plan: Plan) -> Mapping[str, int] | None:
    return UNLIMITED if plan == PLANS[MATCHES] else None


def _counted(done: Run) -> dict[str, int]:
    return {"relevant": done.metrics.relevant, "matches": done.metrics.matches}


def kleene_workload(name: str, queries: Mapping[str, kleene.Query], table: pa.Table, plan: Plan) -> Contender:
    """A run of all queries over a table in memory."""
    made = kleene.workload(queries)
    known: list[Outcome] = []

    def run() -> Outcome:
        wall, cpu = time.perf_counter(), time.process_time()
        found = made.match(table, time="ts", type="type", plan=plan, limits=_limits(plan))
        seconds = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        if not known:
            sums = {f"total {query}": total(rows) for query, rows in found.items()}
            known.append(Outcome(sum(sums.values()), {"rows": sum(rows.num_rows for rows in found.values()), **sums}))
        return replace(known[0], seconds=seconds)

    return Contender(name, run)


def construction(name: str, patterns: Sequence[Sequence[str]], window: str, table: pa.Table) -> Contender:
    """Active instance stacks that build all matches of some patterns, which are neither counted nor written.

    No way to construct and then count takes less. A run that takes long is the only one.
    """
    queries = [kleene.query(f"{pattern_text(types)} WITHIN {window} RETURN e1.ts AS first") for types in patterns]
    options = options_of({"time": "ts", "type": "type", "plan": {"mechanism": "sequence"}, "limits": UNLIMITED})
    plans = [query.plan_for(table.schema, options) for query in queries]
    known: list[Outcome] = []

    def run() -> Outcome:
        if known and known[0].seconds is not None and known[0].seconds["wall"] > LONG_RUN:
            return known[0]
        matchers = [build_matcher(plan, table.schema) for plan in plans]
        for matcher in matchers:
            discard_matches(matcher)
        wall, cpu = time.perf_counter(), time.process_time()
        for plan, matcher in zip(plans, matchers, strict=True):
            run_embedded(matcher, table, plan.bound.schema)
        seconds = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        known[:] = [Outcome(None, {"matches": sum(matcher.metrics.matches for matcher in matchers)}, seconds)]
        return known[0]

    return Contender(name, run)


def total(rows: pa.Table) -> int:
    """The sum of all values of the last column, exactly, however large; NULL counts as nothing.

    >>> total(pa.table({"at": [1, 2, 3], "count": [2**62, 2**62, None]})) == 2**63
    True
    """
    values = rows.column(rows.num_columns - 1).drop_null().cast(pa.int64()).to_numpy()
    return (int(np.sum(values >> 32)) << 32) + int(np.sum(values & 0xFFFF_FFFF))


def largest(rows: pa.Table) -> int:
    """The largest value of the last column, 0 if there is none."""
    values = rows.column(rows.num_columns - 1).drop_null().to_numpy()
    return int(values.max()) if values.size else 0


def require_same(point: Point, *names: str, counted: str = "total") -> None:
    """That contenders have the same sums, each `total` of their work, or the same of what else is counted."""
    sums = {name: {key: value for key, value in point[name].work.items() if key.startswith(counted)} for name in names}
    if any(found != sums[names[0]] for found in sums.values()):
        raise Disagreement(f"at {dict(point.parameters)}: {sums}")
