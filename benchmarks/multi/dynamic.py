"""Figure 13: streams whose rates are reshuffled again and again, by a plan that stays and by one that is made anew.

The static plan is made for the rates at the beginning. The adaptive one begins with the same plan, watches rates and
selectivities, and searches again beside the passes when they have changed; its clock includes all of that.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.harness import Experiment, Point
from benchmarks.multi.contenders import ANNEALING, COMPARED, SAMPLE, group_of, measured, shared, statistics_of
from benchmarks.multi.paper import SHORT
from benchmarks.multi.streams import DATASETS, Scale, reshuffled, stream
from benchmarks.multi.workloads import Spec, workload
from kleene.plan.multi.search import plan_shared

EVERY = (5_000, 10_000, 20_000, 50_000)
"""Events between two reshufflings."""
AFFECTED = 5
"""Types that change places, as in the paper."""
RUN_ROWS = 2_000
"""Events per pass."""
SEARCH_SECONDS = 0.2
"""The limit of a search while events are waiting."""
STATIC = "static"
ADAPTIVE = "adaptive"


def figure_13(scale: Scale) -> Experiment:
    return Experiment(
        "figure13",
        f"Rates that are reshuffled: {AFFECTED} types at a time",
        axis="reshufflings",
        series="dataset",
        headline="the adaptive plan at least 10 times the static one",
        clock="cpu",
        points=tuple(_point(dataset, every, scale) for dataset in DATASETS for every in scale.along(EVERY)),
    )


def _point(dataset: str, every: int, scale: Scale) -> Point:
    before = stream(dataset, SAMPLE)
    group = group_of(workload(Spec(dataset, scale.default_patterns, window=SHORT, drawn_for=SHORT)).queries(), before.schema)
    options = replace(COMPARED[ANNEALING], seconds=scale.search_seconds)
    plan = plan_shared(group.leaves, group.clauses, statistics_of(group, before), options)
    table = reshuffled(stream(dataset, scale.changing), dataset, every, AFFECTED)
    quick = replace(options, seconds=min(SEARCH_SECONDS, scale.search_seconds))
    contenders = [
        shared(name, group, plan, table, options=replace(quick, adaptive=name == ADAPTIVE), run_rows=RUN_ROWS)
        for name in (STATIC, ADAPTIVE)
    ]
    return measured(contenders, table, {"reshufflings": 100_000 / every, "dataset": dataset}, STATIC, scale)
