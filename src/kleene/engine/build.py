"""From a plan to the matcher that executes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from kleene.engine.aggregation.matcher import MatchAggregator
from kleene.engine.audit import audit
from kleene.engine.automaton.evaluation import AutomatonEvaluation, CompressedMatcher
from kleene.engine.counting.counters import CounterMatcher
from kleene.engine.counting.summaries import SummarizedMatcher
from kleene.engine.lazy.evaluation import LazyEvaluation
from kleene.engine.matcher import Matcher
from kleene.engine.passes.reporting import Evaluation, PatternMatcher
from kleene.engine.sequence.stacks import StackEvaluation
from kleene.engine.shared.matcher import SharedMatcher
from kleene.engine.shared.planner import Planner
from kleene.plan.aggregation import MatchedPlan
from kleene.plan.automaton.nfa import NfaPlan
from kleene.plan.counting.counters import CounterPlan
from kleene.plan.lazy.lazy import LazyPlan
from kleene.plan.multi.groups import PatternGroup
from kleene.plan.optimizer import MatchPlan, Plan


def build_matcher(
    plan: Plan, events: pa.Schema, *, bad_rows: str = "error", summaries: Iterable[bytes] | None = None, **tuning: Any
) -> Matcher:
    """A matcher of the plan for events with the given Arrow schema; counters may go on from summaries of earlier slices."""
    if isinstance(plan, CounterPlan):
        if summaries is not None:
            return SummarizedMatcher(plan, events, summaries, bad_rows=bad_rows, **tuning)
        return CounterMatcher(plan, events, bad_rows=bad_rows, **tuning)
    matcher: MatchAggregator | PatternMatcher
    if isinstance(plan, MatchedPlan):
        matcher = MatchAggregator(plan, evaluation_of(plan.inner), events, bad_rows=bad_rows, **tuning)
    else:
        kind = CompressedMatcher if isinstance(plan, NfaPlan) and plan.output == "compressed" else PatternMatcher
        matcher = kind(evaluation_of(plan), events, bad_rows=bad_rows, **tuning)
    matcher.audit = audit
    return matcher


def evaluation_of(plan: MatchPlan) -> Evaluation:
    """How the matches of a plan are found."""
    if isinstance(plan, LazyPlan):
        return LazyEvaluation(plan)
    return AutomatonEvaluation(plan) if isinstance(plan, NfaPlan) else StackEvaluation(plan)


def build_shared_matcher(
    group: PatternGroup, planner: Planner, events: pa.Schema, *, bad_rows: str = "error", **tuning: Any
) -> SharedMatcher:
    """A matcher of patterns that share a plan, which the planner makes."""
    matcher = SharedMatcher(group, planner, events, bad_rows=bad_rows, **tuning)
    matcher.audit = audit
    return matcher
