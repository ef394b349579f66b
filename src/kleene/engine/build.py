"""From a plan to the matcher that executes it: the only module that knows all mechanisms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from kleene.engine.aggregation.matcher import MatchAggregator
from kleene.engine.audit import audit
from kleene.engine.automaton.evaluation import AutomatonEvaluation, CompressedMatcher
from kleene.engine.counting.counters import CounterMatcher
from kleene.engine.lazy.evaluation import LazyEvaluation
from kleene.engine.matcher import Matcher
from kleene.engine.passes.reporting import Evaluation, PatternMatcher
from kleene.engine.sequence.stacks import StackEvaluation
from kleene.engine.shared.matcher import SharedMatcher
from kleene.engine.shared.planner import Planner
from kleene.plan.aggregation import MatchThenAggregate
from kleene.plan.contract import Plan
from kleene.plan.multi.groups import PatternGroup
from kleene.plan.patterns import Alternative, LazyPlan, MatchOptions, PatternPlan


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


def _pattern_matcher(plan: PatternPlan[MatchOptions, Alternative], events: pa.Schema, **tuning: Any) -> PatternMatcher:
    matcher = PatternMatcher if plan.output == "verbose" else CompressedMatcher
    return matcher(EVALUATIONS[plan.evaluation](plan), events, **tuning)


def _match_aggregator(plan: MatchThenAggregate, events: pa.Schema, **tuning: Any) -> MatchAggregator:
    return MatchAggregator(plan, EVALUATIONS[plan.inner.evaluation](plan.inner), events, **tuning)


MATCHERS: Mapping[str, Callable[..., Any]] = {
    "patterns": _pattern_matcher,
    "matches": _match_aggregator,
    "counters": CounterMatcher,
}
"""The matcher of each kind of plan."""


def build_matcher(plan: Plan, events: pa.Schema, *, bad_rows: str = "error", **tuning: Any) -> Matcher:
    """A matcher of the plan for events with the given Arrow schema."""
    matcher = MATCHERS[plan.kind](plan, events, bad_rows=bad_rows, **tuning)
    matcher.audit = audit
    found: Matcher = matcher
    return found


def build_shared_matcher(
    group: PatternGroup, planner: Planner, events: pa.Schema, *, bad_rows: str = "error", **tuning: Any
) -> SharedMatcher:
    """A matcher of patterns that share a plan, which the planner makes."""
    matcher = SharedMatcher(group, planner, events, bad_rows=bad_rows, **tuning)
    matcher.audit = audit
    return matcher
