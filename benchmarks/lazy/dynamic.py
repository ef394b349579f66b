"""Figure 10: evaluations over a stream whose rarest type is switched again and again, counted in steps.

A matcher is fed a step at a time and makes one pass for each, so a count is that of the step's events. A pass goes over the
events of the last window again, to find what the new events complete: a step is many windows long, so that this counts little.
A plan that adapts can do so at every step, and within it.
"""

from __future__ import annotations

import time
from itertools import pairwise

import pyarrow as pa

from benchmarks.harness import Disagreement, Experiment, Measurement, Point
from benchmarks.lazy.contenders import AUTO, PAPER, Plan
from benchmarks.lazy.streams import TYPES, Scale, phase_query, phase_shares, phases
from kleene import Query
from kleene.interfaces.options import options_of

COUNTED = ("evaluations", "visits", "instances")


def figure_10(scale: Scale) -> Experiment:
    table, query = phases(scale), phase_query()
    plans: dict[str, Plan] = {**PAPER, AUTO: None}
    for name, plan in plans.items():
        steps(name, query, table.slice(0, 2 * scale.step), plan, scale.step)  # what is compiled is compiled here
    counted = {name: steps(name, query, table, plan, scale.step) for name, plan in plans.items()}
    points = tuple(_point(number, scale, [of[number] for of in counted.values()]) for number in range(len(counted["eager"])))
    return Experiment(
        "figure10",
        f"Evaluations while the rarest type changes, per {scale.step:,} events",
        axis="events",
        series="rarest",
        headline="in every phase another chain is the best, by up to two orders of magnitude; the tree is the best throughout",
        clock="cpu",
        points=points,
    )


def steps(name: str, query: Query, table: pa.Table, plan: Plan, step: int) -> list[Measurement]:
    """What a matcher counts and finds at each step."""
    options = options_of({"time": "ts", "type": "type", "plan": plan})
    matcher = query.matcher(table.schema, options, run_rows=step)
    batches = table.combine_chunks().to_batches(max_chunksize=step)
    states = [_state(matcher, 0)]
    for batch in batches:
        found = sum(rows.num_rows for _, rows in matcher.feed(batch))
        if batch is batches[-1]:
            found += sum(rows.num_rows for _, rows in matcher.finish())
        states.append(_state(matcher, found))
    return [
        Measurement(
            name,
            batch.num_rows,
            after["matches"],
            (after["wall"] - before["wall"],),
            (max(after["cpu"] - before["cpu"], 1e-9),),
            {key: after[key] - before[key] for key in COUNTED},
        )
        for batch, (before, after) in zip(batches, pairwise(states), strict=True)
    ]


def _state(matcher, found: int) -> dict[str, float]:
    counted = {key: getattr(matcher.metrics, key) for key in COUNTED}
    return {"matches": found, "wall": time.perf_counter(), "cpu": time.process_time(), **counted}


def _point(number: int, scale: Scale, measurements: list[Measurement]) -> Point:
    at = number * scale.step
    shares = phase_shares(at // scale.phase)
    parameters = {"events": at + scale.step, "phase": at // scale.phase + 1, "rarest": TYPES[shares.index(min(shares))].lower()}
    if len({item.matches for item in measurements}) > 1:
        raise Disagreement(f"at {parameters}: { ({item.name: item.matches for item in measurements}) }")
    return Point(parameters, "eager", tuple(measurements))
