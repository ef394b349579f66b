"""Shared plans as contenders: a whole workload over a stream in memory.

Rates and selectivities are measured in advance, as the paper does, on the beginning of the stream; every contender is planned
with the same ones. The clock of a contender runs while events are fed: its plan was searched for before, and garbage of the
search collected. The first run compiles and never counts; of a contender that takes long, the second is the only one that does.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

import kleene
from benchmarks.harness import Contender, Disagreement, Outcome, Point, measure
from benchmarks.multi.streams import SEED, Scale, stream
from benchmarks.multi.workloads import Spec, workload
from kleene.engine.passes.working_matcher import RUN_ROWS
from kleene.engine.shared.matcher import SharedMatcher
from kleene.engine.shared.planner import Planner
from kleene.interfaces.options import options_of
from kleene.pattern.predicates import Attribute, Comparison, Expression
from kleene.plan.multi.cost import DRAWN, SharedStatistics, condition_key
from kleene.plan.multi.groups import PatternGroup, grouped
from kleene.plan.multi.nodes import SharedPlan, Tree
from kleene.plan.multi.search import MultiOptions, plan_shared
from kleene.plan.patterns import LazyPlan, is_lazy
from kleene.runtime.embedded import match_batches

WRITTEN = "written"
SHARING = "sharing"
REORDERING = "reordering"
ANNEALING = "annealing"
TABU = "tabu"
PREFIXES = ", prefixes"
BASELINES = {name: MultiOptions(search=name) for name in (WRITTEN, SHARING, REORDERING)}
"""Neither, sharing as much as possible (SH), reordering only (RE)."""
SEARCHES = {name: MultiOptions(search=name) for name in (ANNEALING, TABU)}
COMPARED = {**BASELINES, **SEARCHES}
EVERY_SEARCH = {
    **BASELINES,
    **{
        f"{name}{suffix}": replace(options, **more)
        for name, options in SEARCHES.items()
        for suffix, more in (
            ("", {}),
            (", vertex 4", {"neighbourhood": "vertex", "k": 4}),
            (", vertex 8", {"neighbourhood": "vertex", "k": 8}),
            (PREFIXES, {"kind": "tree"}),
        )
    },
}
"""The searches with every neighbourhood, and with prefixes only."""

STAYING = MultiOptions(adaptive=False)

SAMPLE = 50_000
"""Events that statistics are measured on."""
SAMPLED = 400
"""Events of a type that conditions are measured on."""
LONG_RUN = 2.0
"""Seconds from which on a run is not repeated."""


def group_of(queries: Mapping[str, kleene.Query], schema: pa.Schema) -> PatternGroup:
    """The queries of a workload as one group."""
    options = options_of({"time": "ts", "type": "type", "plan": {"mechanism": "lazy"}})
    plans: dict[str, LazyPlan] = {}
    for name, query in queries.items():
        plan = query.plan_for(schema, options)
        assert is_lazy(plan)
        plans[name] = plan
    (group,) = grouped(plans)
    return group


def statistics_of(group: PatternGroup, table: pa.Table) -> SharedStatistics:
    """The rates of types, and how often comparisons between two types hold."""
    column = table.column("type").combine_chunks()
    codes, names = column.indices.to_numpy(), column.dictionary.to_pylist()
    ts = table.column("ts").cast(pa.int64()).to_numpy()
    span = table.num_rows if group.first.all_rows else int(ts[-1] - ts[0])
    kinds = [names.index(next(iter(leaf.types))) for leaf in group.leaves]
    rows = [np.flatnonzero(codes == kind) for kind in kinds]
    values = {name: table.column(name).to_numpy() for name in table.column_names if name not in ("ts", "type")}
    drawn = [np.random.default_rng([SEED, kind]).choice(own, DRAWN) for kind, own in zip(kinds, rows, strict=True)]
    shares: dict[Any, float] = {}
    held: dict[Any, int] = {}
    for clause in group.clauses:
        for condition in clause.conditions:
            key = condition_key(condition, clause.leaves)
            leaves = [clause.leaves[place] for place in condition.components]
            one, other = _sides(condition.form, [rows[leaf][:SAMPLED] for leaf in leaves], values)
            shares[key] = float((one[:, None] < other).mean())
            one, other = _sides(condition.form, [drawn[leaf] for leaf in leaves], values)
            held[key] = int.from_bytes(np.packbits(one < other).tobytes(), "big")
    return SharedStatistics(tuple(own.size / span for own in rows), shares, held, span=float(span))


def _sides(form: Expression, rows: list[np.ndarray], values: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """What a comparison compares."""
    assert isinstance(form, Comparison)
    assert form.operator == "<"
    sides = []
    for side in (form.left, form.right):
        assert isinstance(side, Attribute)
        sides.append(values[side.name][rows[int(side.variable[1:])]])
    return sides


def shared(
    name: str,
    group: PatternGroup,
    plan: SharedPlan,
    table: pa.Table,
    *,
    options: MultiOptions = STAYING,
    run_rows: int = RUN_ROWS,
) -> Contender:
    """A run of all queries that begins with a plan."""
    known: list[Outcome] = []

    def once(rows: pa.Table) -> Outcome:
        planner = Planner(group, options, plan=plan)
        matcher = SharedMatcher(group, planner, rows.schema, run_rows=run_rows)
        found = [0] * len(group.plans)
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        for query, matches in match_batches(matcher, rows.to_batches(max_chunksize=run_rows)):
            found[query] += matches.num_rows
        seconds = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        planner.wait()
        digest = sum(place * count for place, count in enumerate(found, 1))
        return Outcome(sum(found), {"digest": digest, "plans": planner.plans, **_work(plan)}, seconds)

    def run() -> Outcome:
        if len(known) > 1 and known[-1].seconds is not None and known[-1].seconds["wall"] > LONG_RUN:
            return known[-1]
        known.append(once(table))
        return known[-1]

    return Contender(name, run)


def _work(plan: SharedPlan) -> dict[str, int]:
    inner = [users for node, users in zip(plan.nodes, plan.users(), strict=True) if not node.is_leaf]
    return {
        "nodes": len(inner),
        "shared": sum(len(users) > 1 for users in inner),
        "steps": plan.steps,
        "gain": round(100 * plan.baselines[WRITTEN] / max(plan.cost, 1e-9)),
    }


def affordable(group: PatternGroup, statistics: SharedStatistics, scale: Scale) -> int:
    """As many events as the written plan is expected to be over in its time."""
    cost = plan_shared(group.leaves, group.clauses, statistics, MultiOptions(search=WRITTEN)).cost
    per_event = 1e-9 * cost / sum(statistics.rates)
    fewest, most = scale.events
    return round(min(most, max(fewest, scale.written_seconds / max(per_event, 1e-12))))


def compared(spec: Spec, scale: Scale, plans: Mapping[str, MultiOptions], parameters: Mapping[str, float | str]) -> Point:
    """All plans of a workload over its stream, against the written one."""
    work = workload(spec)
    sample = stream(spec.dataset, SAMPLE, spec.types)
    group = group_of(work.queries(), sample.schema)
    statistics = statistics_of(group, sample)
    table = stream(spec.dataset, affordable(group, statistics, scale), spec.types)
    return raced(plans, group, statistics, table, {**parameters, "dataset": spec.dataset}, scale)


def raced(
    plans: Mapping[str, MultiOptions],
    group: PatternGroup,
    statistics: SharedStatistics,
    table: pa.Table,
    parameters: Mapping[str, float | str],
    scale: Scale,
) -> Point:
    """All plans, searched for in the time that a run has for it, against the written one. What is the same plan is run once:
    two measurements of it differ by more than the choices of two searches do.
    """
    found: dict[str, SharedPlan] = {}
    for name, options in plans.items():
        limited = options if name == WRITTEN else replace(options, seconds=min(options.seconds, scale.search_seconds))
        found[name] = plan_shared(group.leaves, group.clauses, statistics, limited)
    firsts: dict[Any, str] = {}
    for name, plan in found.items():
        firsts.setdefault(_shape(plan), name)
    point = measured([shared(name, group, found[name], table) for name in firsts.values()], table, parameters, WRITTEN, scale)
    timed = ((name, plan, point[firsts[_shape(plan)]]) for name, plan in found.items())
    own = (replace(item, name=name, work={**item.work, **_work(plan)}) for name, plan, item in timed)
    return replace(point, measurements=tuple(own))


def _shape(plan: SharedPlan) -> Any:
    """What is the same of plans that do the same: the trees, whatever the order of children, and how much they share."""

    def shape(tree: Tree) -> Any:
        return tree if isinstance(tree, int) else frozenset(map(shape, tree))

    return len(plan.nodes), tuple(shape(plan.tree(root)) for root in plan.roots)


def measured(
    contenders: list[Contender], table: pa.Table, parameters: Mapping[str, float | str], baseline: str, scale: Scale
) -> Point:
    """Measures contenders that must have as many matches of every query."""
    point = measure(contenders, events=table.num_rows, parameters=parameters, baseline=baseline, repeats=scale.repeats)
    digests = {item.name: item.work["digest"] for item in point.measurements}
    if len(set(digests.values())) > 1:
        raise Disagreement(f"at {dict(point.parameters)}: {digests}")
    return point
