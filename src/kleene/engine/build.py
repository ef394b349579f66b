"""From a plan to the matcher that executes it, and to the columns of its rows: the only module that knows all mechanisms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from kleene.engine.aggregation.matcher import MatchAggregator
from kleene.engine.audit import audit
from kleene.engine.automaton.compressed import compressed_schema
from kleene.engine.automaton.evaluation import AutomatonEvaluation, CompressedMatcher
from kleene.engine.counting.counters import CounterMatcher
from kleene.engine.counting.summaries import SummarizedMatcher
from kleene.engine.lazy.evaluation import LazyEvaluation
from kleene.engine.matcher import Matcher
from kleene.engine.matches.aggregate_output import aggregate_schema
from kleene.engine.matches.output import match_schema
from kleene.engine.passes.reporting import Evaluation, PatternMatcher
from kleene.engine.passes.working_matcher import WorkingMatcher
from kleene.engine.sequence.stacks import StackEvaluation
from kleene.engine.shared.matcher import SharedMatcher
from kleene.engine.shared.planner import Planner
from kleene.plan.aggregation import MatchThenAggregate
from kleene.plan.contract import Plan
from kleene.plan.counting.counters import CounterPlan
from kleene.plan.counting.shared_counters import alone
from kleene.plan.multi.groups import PatternGroup
from kleene.plan.multi.nodes import SharedPlan
from kleene.plan.multi.search import MultiOptions
from kleene.plan.patterns import LazyPlan, MatchPlan

Audited = TypeVar("Audited", bound=WorkingMatcher)


def output_schema(plan: Plan, events: pa.Schema) -> pa.Schema:
    """The columns of a plan's rows, for events with an Arrow schema: those that its matcher writes."""
    if plan.bound.query.aggregates:
        return aggregate_schema(plan.bound, events)
    return (compressed_schema if plan.output == "compressed" else match_schema)(plan, events)


def _lazily(plan: LazyPlan) -> LazyEvaluation:
    return LazyEvaluation(plan, partial(StackEvaluation, plan))


EVALUATIONS: Mapping[str, Callable[[Any], Evaluation]] = {
    "stacks": StackEvaluation,
    "auto": _lazily,
    "chain": _lazily,
    "tree": _lazily,
    "eager": _lazily,
    "automaton": AutomatonEvaluation,
}
"""How the matches of a plan are found."""


def _pattern_matcher(plan: MatchPlan, events: pa.Schema, **tuning: Any) -> PatternMatcher:
    matcher = PatternMatcher if plan.output == "verbose" else CompressedMatcher
    return _audited(matcher(EVALUATIONS[plan.evaluation](plan), events, **tuning))


def _match_aggregator(plan: MatchThenAggregate, events: pa.Schema, **tuning: Any) -> MatchAggregator:
    return _audited(MatchAggregator(plan, EVALUATIONS[plan.inner.evaluation](plan.inner), events, **tuning))


def _counter_matcher(
    plan: CounterPlan, events: pa.Schema, *, summaries: Iterable[bytes] | None = None, **tuning: Any
) -> CounterMatcher:
    if summaries is not None:  # of earlier slices of time
        return SummarizedMatcher(plan, events, summaries, **tuning)
    return CounterMatcher(alone(plan), events, **tuning)


def _shared_matcher(
    plan: PatternGroup,
    events: pa.Schema,
    *,
    multi: MultiOptions | None = None,
    shared: SharedPlan | None = None,
    **tuning: Any,
) -> SharedMatcher:
    return _audited(SharedMatcher(plan, Planner(plan, multi or MultiOptions(), plan=shared), events, **tuning))


def _audited(matcher: Audited) -> Audited:
    matcher.audit = audit
    return matcher


MATCHERS: Mapping[str, Callable[..., Matcher]] = {
    **dict.fromkeys(EVALUATIONS, _pattern_matcher),
    "aggregation": _match_aggregator,
    "counters": _counter_matcher,
    "shared counters": CounterMatcher,
    "shared": _shared_matcher,
}
"""What executes a plan, by its evaluation."""


def build_matcher(
    plan: Plan,
    events: pa.Schema,
    *,
    bad_rows: str = "error",
    multi: MultiOptions | None = None,
    shared: SharedPlan | None = None,
    **tuning: Any,
) -> Matcher:
    """A matcher of a plan, or of several that are matched together, for events with an Arrow schema.

    `multi` says how patterns are planned together, unless their `shared` plan is made already.
    """
    if plan.evaluation == "shared":
        tuning |= {"multi": multi, "shared": shared}
    return MATCHERS[plan.evaluation](plan, events, bad_rows=bad_rows, **tuning)
