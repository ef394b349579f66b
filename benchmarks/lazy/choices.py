"""Random workloads: what the plan chooses by itself against everything that can be forced.

Contenders that take several times as long as the fastest, in a first run, are not run again: they cannot be the best choice.
The others are timed in some rounds, and then the plan's own choice and the fastest of them in many more
(`benchmarks.lazy.contenders.finals`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

from benchmarks.harness import Contender, Disagreement, Experiment, Measurement, Point, measure
from benchmarks.lazy.contenders import AUTO, EAGER, TREES, Plan, finals, kleene, loss
from benchmarks.lazy.streams import Scale
from benchmarks.lazy.workloads import AFFORDABLE, Workload, random_of, workload
from benchmarks.machine import freed_memory_kept, one_arrow_thread
from kleene.plan.options import LazyOptions

ROUNDS = 3
HOPELESS = 2.0
"""How many times as long as the fastest is too long."""
ALL_ORDERS = 4
"""Up to so many components all orders are tried."""
SAMPLED_ORDERS = 8
PLANNERS = ("greedy", "dynamic", "iterative")


def random_workloads(scale: Scale) -> Experiment:
    with one_arrow_thread(), freed_memory_kept():
        points = tuple(_told(_point(workload(number, scale)), scale.workloads) for number in range(scale.workloads))
    return Experiment(
        "random200",
        f"{scale.workloads} random workloads: the plan's own choice against every forced one",
        axis="workload",
        headline="within 1.2 times the time of the best forced choice",
        clock="cpu",
        points=points,
    )


def _told(point: Point, workloads: int) -> Point:
    """Says how far the experiment is: 200 workloads take over half an hour."""
    done = int(point.parameters["workload"]) + 1
    print(f"  {done} of {workloads} workloads: auto / best forced choice {loss(point):.2f}", file=sys.stderr, flush=True)
    return point


def plans(one: Workload) -> dict[str, Plan]:
    """What is compared: the mechanisms that apply and all orders, or some, as far as they can be afforded."""
    written = one.variables
    found: dict[str, Plan] = {AUTO: None, "tree": TREES["tree"]}
    if one.work(_by_rate(one)) <= AFFORDABLE:
        found["tree, counts"] = TREES["tree, counts"]
    if one.work(written) <= AFFORDABLE:
        found |= EAGER
    if one.operator == "SEQ" and one.work(written[::-1]) <= AFFORDABLE:
        found["sequence"] = {"mechanism": "sequence"}
    if len(written) > ALL_ORDERS:
        found |= {f"chain by {planner}": {"mechanism": "chain", "planner": planner} for planner in PLANNERS}
    return {**found, **_chains(one)}


def _chains(one: Workload) -> dict[str, Plan]:
    """Chains in given orders, as the automatic plan would run them: without counting instances that wait."""
    orders = ["".join(order) for order in permutations(one.variables)]
    affordable = [order for order in orders if one.work(order) <= AFFORDABLE]
    if len(one.variables) > ALL_ORDERS:
        affordable = random_of(one.number, 2).permutation(affordable)[:SAMPLED_ORDERS].tolist()
    return {f"chain {order}": LazyOptions(order=tuple(order)) for order in affordable}


def _by_rate(one: Workload) -> str:
    """The variables, rare ones first."""
    return "".join(sorted(one.variables, key=lambda name: one.rates[one.variables.index(name)]))


def _point(one: Workload) -> Point:
    query, table = one.query(), one.table()
    contenders = [kleene(name, query, table, plan) for name, plan in plans(one).items()]
    parameters = {
        "workload": one.number,
        "operator": one.operator,
        "components": len(one.variables),
        "keyed": "yes" if one.keys > 1 else "no",
        "window": one.window,
        "conditions": len(one.conditions),
    }
    return race(contenders, one.events, parameters)


def race(contenders: Sequence[Contender], events: int, parameters: dict[str, float | str]) -> Point:
    """Times those contenders that may be the fastest, and auto; of the others it keeps the time of their only run."""
    for contender in contenders:
        if contender.name in (AUTO, "tree", "sequence"):
            contender.run()  # what is compiled for a query is compiled by these
    seen = {contender.name: _once(contender, events) for contender in contenders}
    if len({item.matches for item in seen.values()}) > 1:
        raise Disagreement(f"at {parameters}: { ({name: item.matches for name, item in seen.items()}) }")
    fastest = min(item.cpu[0] for item in seen.values())
    hopeful = [one for one in contenders if one.name == AUTO or seen[one.name].cpu[0] <= HOPELESS * fastest]
    timed = measure(hopeful, events=events, parameters=parameters, baseline=AUTO, repeats=ROUNDS)
    timed = finals(hopeful, timed)
    rest = [item for name, item in seen.items() if name not in {one.name for one in hopeful}]
    # What a run got beyond what was kept from others says nothing.
    found = (replace(item, memory=None) for item in (*timed.measurements, *rest))
    return Point(parameters, AUTO, tuple(found))


def _once(contender: Contender, events: int) -> Measurement:
    wall, cpu = time.perf_counter(), time.process_time()
    found = contender.run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Measurement(contender.name, events, found.matches, (wall,), (cpu,), dict(found.work))
