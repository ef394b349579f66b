"""Kleene as a contender: whole runs of one query by a forced mechanism and order, or as the plan comes (auto)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import pyarrow as pa

from benchmarks.harness import Contender, Measurement, Outcome, Point, measure
from kleene import Query
from kleene.plan.options import LazyOptions

WORK = ("evaluations", "visits", "instances", "peak_instances", "peak_buffered")

Plan = dict[str, Any] | LazyOptions | None

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


FINALISTS = 3
"""How many of the forced choices are timed again beside auto."""
FINAL_ROUNDS = 10
DOUBTFUL = 1.1
"""If auto seems to take so many times as long as the best, all of them have FINAL_ROUNDS more, up to MOST_FINALS times."""
MOST_FINALS = 5

PAPER: dict[str, Plan] = {**EAGER, **chains("abc"), **TREES}
"""What the paper compares."""
ALL: dict[str, Plan] = {**PAPER, "sequence": {"mechanism": "sequence"}, AUTO: None}


def kleene(name: str, query: Query, table: pa.Table, plan: Plan) -> Contender:
    """A run of the query over a table in memory."""

    def run() -> Outcome:
        # A query of its own each time: one that ran before has kept its plan, but no plan that was forced.
        done = Query(query.logical).run(table, time="ts", type="type", plan=plan)
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


def finals(contenders: Sequence[Contender], point: Point) -> Point:
    """Times auto, the baseline and the fastest of the forced contenders again, and adds these rounds to theirs.

    Runs of some milliseconds differ from round to round by more than good choices do from each other. Of many contenders in a
    few rounds the fastest is partly the luckiest; of a few in many rounds the shortest time of each is what it takes.
    """
    fastest = {AUTO, *(item.name for item in sorted(forced(point), key=shortest)[:FINALISTS])}
    names = fastest | {point.baseline}
    for _ in range(MOST_FINALS):
        chosen = [contender for contender in contenders if contender.name in names]
        again = measure(
            chosen, events=point[AUTO].events, parameters=point.parameters, baseline=AUTO, repeats=FINAL_ROUNDS, warm_up=1
        )
        added = {item.name: item for item in again.measurements}
        timed = (
            replace(item, wall=item.wall + added[item.name].wall, cpu=item.cpu + added[item.name].cpu)
            if item.name in added
            else item
            for item in point.measurements
        )
        point = replace(point, measurements=tuple(timed))
        if loss(point) <= DOUBTFUL:
            break
        names = fastest
    return point


def shortest(item: Measurement) -> float:
    """The CPU seconds of the best round."""
    return min(item.cpu)


def loss(point: Point, name: str = AUTO) -> float:
    """The time of a contender over that of the best forced one, each the best of its rounds."""
    return shortest(point[name]) / min(map(shortest, forced(point)))


def noise(point: Point) -> float:
    """Auto's time over itself: the best of its odd rounds and of its even ones, the longer over the shorter."""
    halves = [min(point[AUTO].cpu[first::2], default=shortest(point[AUTO])) for first in (0, 1)]
    return max(halves) / min(halves)
