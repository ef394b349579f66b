"""From a plan to the matcher that executes it, and to the columns of its rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
from kleene.engine.sequence.stacks import StackEvaluation
from kleene.engine.shared.matcher import SharedMatcher
from kleene.engine.shared.planner import Planner
from kleene.plan.aggregation import MatchedPlan
from kleene.plan.automaton.nfa import NfaPlan
from kleene.plan.counting.counters import CounterPlan
from kleene.plan.counting.shared_counters import SharedCounters, alone
from kleene.plan.lazy.lazy import LazyPlan
from kleene.plan.multi.groups import PatternGroup
from kleene.plan.multi.nodes import SharedPlan
from kleene.plan.multi.search import MultiOptions
from kleene.plan.optimizer import MatchPlan, Plan


def output_schema(plan: Plan, events: pa.Schema) -> pa.Schema:
    """The columns of a plan's rows, for events with an Arrow schema: those that its matcher writes."""
    if plan.bound.query.aggregates:
        return aggregate_schema(plan.bound, events)
    return (compressed_schema if plan.output == "compressed" else match_schema)(plan, events)


def build_matcher(
    plan: Plan | SharedCounters | PatternGroup,
    events: pa.Schema,
    *,
    bad_rows: str = "error",
    multi: MultiOptions | None = None,
    shared: SharedPlan | None = None,
    summaries: Iterable[bytes] | None = None,
    **tuning: Any,
) -> Matcher:
    """A matcher of a plan, or of several that are matched together, for events with an Arrow schema.

    `multi` says how patterns are planned together, unless their `shared` plan is made already. Counters may begin with
    `summaries` of earlier events.
    """
    if isinstance(plan, CounterPlan):
        if summaries is not None:
            return SummarizedMatcher(plan, events, summaries, bad_rows=bad_rows, **tuning)
        plan = alone(plan)
    if isinstance(plan, SharedCounters):
        return CounterMatcher(plan, events, bad_rows=bad_rows, **tuning)
    matcher: SharedMatcher | MatchAggregator | PatternMatcher
    if isinstance(plan, PatternGroup):
        planner = Planner(plan, multi or MultiOptions(), plan=shared)
        matcher = SharedMatcher(plan, planner, events, bad_rows=bad_rows, **tuning)
    elif isinstance(plan, MatchedPlan):
        matcher = MatchAggregator(plan, evaluation_of(plan.inner), events, bad_rows=bad_rows, **tuning)
    else:
        kind = CompressedMatcher if plan.output == "compressed" else PatternMatcher
        matcher = kind(evaluation_of(plan), events, bad_rows=bad_rows, **tuning)
    matcher.audit = audit
    return matcher


def evaluation_of(plan: MatchPlan) -> Evaluation:
    """How the matches of a plan are found."""
    if isinstance(plan, LazyPlan):
        return LazyEvaluation(plan)
    return AutomatonEvaluation(plan) if isinstance(plan, NfaPlan) else StackEvaluation(plan)
