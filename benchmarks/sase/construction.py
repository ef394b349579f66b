"""Experiments 1 and 2 (Figures 8 and 9): the basic algorithm against active instance stacks, without an equivalence test.

The test's effect on selectivity is simulated by more types (section 5.2), windows are pushed. Each point is measured twice:
with the matches written, and with construction alone, because writing a match costs both algorithms the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.harness import Experiment, Point, measure
from benchmarks.sase.contenders import kleene
from benchmarks.sase.streams import Scale, W, affordable, events, selectivity, sequence_query, simulated_types

L = 3
V1_VALUES = (100, 200, 500, 1_000, 2_000, 5_000, 10_000)
W_VALUES = (10_000, 20_000, 50_000, 100_000)

PLANS = {"basic": {"construction": "runtime_stack"}, "ais": {"construction": "active_instance_stacks"}}


def _points(axis: str, settings: Sequence[tuple[int, int]], scale: Scale) -> tuple[Point, ...]:
    found = []
    for V1, window in settings:
        types = simulated_types(V1, L)
        table = events(affordable(scale, selectivity(L, 1, W=window, types=types)), types=types)
        query = sequence_query(L, W=window, tests=0)
        for output in ("rows", "none"):
            contenders = [kleene(name, query, table, plan=plan, discard=output == "none") for name, plan in PLANS.items()]
            parameters = {axis: V1 if axis == "V1" else window, "output": output, "types": types}
            found.append(
                measure(contenders, events=table.num_rows, parameters=parameters, baseline="basic", repeats=scale.repeats)
            )
    return tuple(found)


def experiment_1(scale: Scale) -> Experiment:
    return Experiment(
        "1",
        "Domain size V1, basic algorithm and active instance stacks (Figure 8)",
        axis="V1",
        series="output",
        headline="AIS x18 at V1 = 100, close to each other at 10,000",
        clock="cpu",
        points=_points("V1", [(V1, W) for V1 in scale.along(V1_VALUES)], scale),
    )


def experiment_2(scale: Scale) -> Experiment:
    return Experiment(
        "2",
        "Window size W, basic algorithm and active instance stacks (Figure 9)",
        axis="W",
        series="output",
        headline="the basic algorithm slows down with W much faster than AIS",
        clock="cpu",
        points=_points("W", [(10_000, window) for window in scale.along(W_VALUES)], scale),
    )
