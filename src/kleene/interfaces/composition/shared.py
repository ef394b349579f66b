"""The plans by which queries of a workload may be matched together, and how they are explained.

Aggregates with the same window and partitions are counted in one pass, what they have in common once
(`kleene.plan.counting.shared_counters`). Patterns under skip_till_any_match with the same partitions follow one plan
(`kleene.plan.multi`). Each query's result is its own, whatever is shared. What is matched together in the end is decided in
`kleene.runtime.units`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kleene.common.errors import BindingError, KleeneError, PlanningError, Problem
from kleene.interfaces.inputs import is_spark_frame
from kleene.interfaces.options import Options
from kleene.pattern.policies import Strategy

if TYPE_CHECKING:
    import pyarrow as pa

    from kleene.interfaces.query import Query
    from kleene.plan.contract import Plan
    from kleene.plan.distribution.passes import Passes
    from kleene.plan.multi.cost import SharedStatistics
    from kleene.plan.multi.groups import PatternGroup
    from kleene.plan.multi.nodes import SharedPlan
    from kleene.plan.multi.search import MultiOptions, Progress
    from kleene.plan.patterns import LazyPlan
    from kleene.runtime.units import PlannedQuery


MOST_NAMED = 3
"""Queries that an error names."""


@contextmanager
def naming(*names: str) -> Iterator[None]:
    """Lets errors say which query of the workload they are about, or among which it is."""
    shown = ", ".join(f"'{name}'" for name in names[:MOST_NAMED])
    who = f"query {shown}" if len(names) == 1 else f"queries {shown}"
    who += f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    try:
        yield
    except KleeneError as error:
        problems = [
            item if any(f"'{name}'" in item.message for name in names) else replace(item, message=f"{who}: {item.message}")
            for item in error.problems
        ]
        raise type(error)(problems, error.text).with_traceback(error.__traceback__) from error.__cause__


def multi_options_of(options: Options) -> tuple[Options, MultiOptions | None]:
    """What is said of the plan of single queries, and of how they are planned together; None if they are not."""
    from kleene.plan.multi.search import MultiOptions, multi_options

    if options.columns:
        message = "the option columns is for the matches of one query"
        raise BindingError(Problem(message, hint="select the columns from the matches of each query"))
    if isinstance(options.plan, Mapping) and options.plan.get("mechanism") == "multi":
        return replace(options, plan=None), multi_options({k: v for k, v in options.plan.items() if k != "mechanism"})
    return options, MultiOptions() if options.plan is None else None


def planned_query(
    item: Query, events: pa.Schema, options: Options, multi: MultiOptions | None = None, version: int = 1
) -> PlannedQuery:
    """A query with its plans, and a key that tells it and what its results depend on from any other."""
    from kleene.runtime.units import PlannedQuery

    plan = item.plan_for(events, options)
    read = (options.time, options.type, options.partition_by, options.order_by, options.ties, options.output)
    declared = None if options.schema is None else sorted((name, sorted(own)) for name, own in options.schema.items())
    params = sorted((options.params or {}).items())
    described = (item.name, version, str(item), read, declared, params, repr(options.limits))
    digest = hashlib.sha256(repr(described).encode()).hexdigest()[:16]
    return PlannedQuery(item.name, plan, shared_plan(item, plan, options, multi), version, f"{item.name}#{version}#{digest}")


def shared_plan(item: Query, plan: Plan, options: Options, multi: MultiOptions | None) -> LazyPlan | None:
    """The plan of a query with a plan of its own by which its matches may be found together with those of others; None of any
    other query.
    """
    logical = item.logical
    if multi is None or logical.aggregates or logical.into is not None or options.stats is not None:
        return None
    if plan.limits.policy != "error" or logical.strategy is not Strategy.SKIP_TILL_ANY_MATCH or options.output != "verbose":
        return None
    from kleene.plan.multi.groups import is_shareable
    from kleene.plan.optimizer import plan_matches
    from kleene.plan.options import LazyOptions

    shared = plan_matches(plan.bound, LazyOptions(), ties=options.ties, limits=plan.limits)
    return shared if is_shareable(shared) else None


# --- explanations -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SharedExplanation:
    """How the queries of a workload would be answered: shared plans, and the queries that are in none."""

    plans: tuple[SharedPlan, ...]
    keys: tuple[tuple[str, ...], ...]
    """For each plan what divides its events."""
    alone: tuple[str, ...]
    passes: tuple[tuple[tuple[str, ...], Passes], ...] = ()
    """On Spark: (the composite types that are read, the passes), for all queries that read the same events."""

    def __str__(self) -> str:
        from kleene.explain.shared_plans import explain_passes, explain_shared

        parts = [explain_passes(passes, read) for read, passes in self.passes]
        for plan, keys in zip(self.plans, self.keys, strict=True):
            divided = f"by {', '.join(keys)}" if keys else "not divided"
            parts.append(
                f"shared plan of {len({root.clause.query for root in plan.roots})} queries, {divided}\n{explain_shared(plan)}"
            )
        if self.alone:
            parts.append(f"not in a shared plan: {', '.join(self.alone)}")
        return "\n\n".join(part.rstrip("\n") for part in parts)

    def _repr_html_(self) -> str:
        from kleene.explain.notebook import plan_html
        from kleene.explain.shared_drawing import shared_svg

        return plan_html(str(self), *map(shared_svg, self.plans))

    def svg(self) -> str:
        """The shared plan as a picture; of several the one of most queries."""
        from kleene.explain.shared_drawing import shared_svg

        if not self.plans:
            raise PlanningError(Problem("no two queries of the workload can share a plan: there is nothing to draw"))
        return shared_svg(max(self.plans, key=lambda plan: len(plan.roots)))


def explained(
    plans: Mapping[str, LazyPlan],
    alone: tuple[str, ...],
    events: Any,
    multi: MultiOptions,
    progress: Callable[[Progress], None] | None,
) -> SharedExplanation:
    """The shared plans of some queries for events: a table, a DataFrame, or no more than a schema."""
    from kleene.plan.multi.groups import grouped
    from kleene.plan.multi.search import plan_shared

    groups = tuple(grouped(plans))
    found = [plan_shared(group.leaves, group.clauses, _statistics(group, events), multi, progress) for group in groups]
    shared = {name for group in groups for name in group.plans}
    rest = tuple(name for name in plans if name not in shared)
    return SharedExplanation(tuple(found), tuple(group.first.partition for group in groups), (*rest, *alone))


def _statistics(group: PatternGroup, events: Any) -> SharedStatistics:
    import pyarrow as pa

    from kleene.plan.multi.cost import SharedStatistics

    if isinstance(events, pa.Schema):
        return SharedStatistics((1.0,) * len(group.leaves))
    if is_spark_frame(events):
        from kleene.runtime.spark.workloads import sampled_statistics

        return sampled_statistics(group, events)
    from kleene.runtime.statistics import table_statistics

    return table_statistics(group, events)
