"""Stream routes for case files: one bucket, with events out of order, micro-batches, watermarks, restarts and replays."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa

from kleene.common.columns import time_values
from kleene.interfaces.options import options_of
from kleene.interfaces.query import Query
from kleene.plan.options import CHOICES
from kleene.runtime.units import PlannedQuery, QuerySet
from kleene.testing.case_routes import Route
from kleene.testing.cases import Case, Row
from support.engine_routes import given_options, outcome
from support.stream_runs import Drive, Way, bucket_plan, schedule

SEEDS = (1, 2, 3)

PLANS: dict[str, Any] = {
    "basic": "basic",
    "nfa": {"mechanism": "nfa"},
    "lazy": {"mechanism": "lazy"},
    **{f"counters-{window}": {"mechanism": "counters", "window": window} for window in CHOICES["aggregate"]["window"][1:]},
    "matches": {"mechanism": "matches"},
}
"""One for each matcher that is restored in its own way; the embedded routes of these names are for the same cases."""


def stream_routes() -> dict[str, Route]:
    """Streams of several seeds with the plan left open, and one of every plan."""
    routes = {f"stream-{seed}": stream(seed) for seed in SEEDS}
    return routes | {f"stream-{name}": stream(name, plan) for name, plan in PLANS.items()}


def stream(seed: object, plan: Any = None) -> Route:
    """A stream for case files; `plan` forces the plan."""

    def answer(query: Query, case: Case) -> list[Row]:
        table = case.table()
        options = options_of({**given_options(case), "plan": plan})
        made = query.plan_for(table.schema, options)
        schema, rng = made.bound.schema, Random(f"{seed}:{case.where}")
        table = table.filter(pa.compute.is_valid(table.column(schema.time)))
        ts = time_values(table.column(schema.time).combine_chunks(), schema.time_unit)
        windows = () if made.bound.window is None else (made.bound.window,)
        steps = list(schedule(ts, rng, windows=windows, keeps_ties=options.ties == "arrival"))
        bucket = bucket_plan(QuerySet((PlannedQuery(query.name, made, key="key"),)), table.schema, schema)
        found = Drive(bucket, table, Way(rng, timers=rng.random() < 0.5)).run(steps)
        return [row for _, item in found for row in item.rows.to_pylist()]

    return lambda case: outcome(case, answer, plan)
