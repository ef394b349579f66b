"""Experiment 3 (Figure 10): where a second equivalence test is decided. The fourth plan, `composite`, is not in the paper."""

from __future__ import annotations

from typing import Any

from benchmarks.harness import Experiment, Point, measure
from benchmarks.sase.contenders import kleene
from benchmarks.sase.streams import Scale, affordable, events, selectivity, sequence_query

L = 3
V1_VALUES = (10, 20, 50, 100, 200, 500, 1_000, 10_000)
V2_VALUES = (20, 5)

PLANS: dict[str, dict[str, Any]] = {
    "selection": {"partition": "pais", "equivalence": "selection"},
    "multi_pais": {"partition": "multi_pais"},
    "dynamic": {"partition": "pais", "equivalence": "construction"},
    "composite": {"partition": "composite"},
}


def experiment_3(scale: Scale) -> Experiment:
    return Experiment(
        "3",
        "Three strategies for a second equivalence test, and composite partitions (Figure 10)",
        axis="V1",
        series="V2",
        headline="dynamic filtering best by a wide margin up to V1 = 500, Multi-PAIS below selection",
        clock="cpu",
        points=tuple(_point(V1, V2, scale) for V2 in V2_VALUES for V1 in scale.along(V1_VALUES)),
    )


def _point(V1: int, V2: int, scale: Scale) -> Point:
    # Selection constructs every sequence of the first test.
    table = events(affordable(scale, selectivity(L, V1)), V=(V1, V2))
    query = sequence_query(L, tests=2)
    contenders = [kleene(name, query, table, plan=plan) for name, plan in PLANS.items()]
    return measure(
        contenders,
        events=table.num_rows,
        parameters={"V1": V1, "V2": V2},
        baseline="selection",
        repeats=scale.repeats,
    )
