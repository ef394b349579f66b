"""Kleene as a contender: whole runs of one query by a forced mechanism and order, or as the plan comes (auto)."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pyarrow as pa

from benchmarks.harness import Contender, Measurement, Outcome, Point
from kleene import Query

WORK = ("evaluations", "visits", "instances", "peak_instances", "peak_buffered")

Plan = dict[str, Any] | None

AUTO = "auto"
EAGER: dict[str, Plan] = {"eager": {"mechanism": "eager"}}
TREES: dict[str, Plan] = {
    "tree": {"mechanism": "tree"},
    "tree, counts": {"mechanism": "tree", "selectivity": "counts"},
}


def chains(variables: str) -> dict[str, Plan]:
    """A chain for every order of the variables.

    >>> list(chains("abc"))
    ['chain abc', 'chain acb', 'chain bac', 'chain bca', 'chain cab', 'chain cba']
    """
    return {f"chain {''.join(order)}": {"mechanism": "chain", "order": list(order)} for order in permutations(variables)}


PAPER: dict[str, Plan] = {**EAGER, **chains("abc"), **TREES}
"""What the paper compares."""
ALL: dict[str, Plan] = {**PAPER, "sequence": {"mechanism": "sequence"}, AUTO: None}


def kleene(name: str, query: Query, table: pa.Table, plan: Plan) -> Contender:
    """A run of the query over a table in memory."""

    def run() -> Outcome:
        done = query.run(table, time="ts", type="type", plan=plan)
        return Outcome(done.matches.num_rows, {key: int(getattr(done.metrics, key)) for key in WORK})

    return Contender(name, run)


def evaluations(item: Measurement) -> int:
    """Candidates that conditions were evaluated on; active instance stacks count the instances they look at instead."""
    return item.work["evaluations"] + item.work["visits"]


def forced(point: Point) -> list[Measurement]:
    """All contenders but auto."""
    return [item for item in point.measurements if item.name != AUTO]


def best_chain(point: Point) -> Measurement:
    """The chain with the fewest evaluations."""
    return min((item for item in point.measurements if item.name.startswith("chain")), key=evaluations)
