"""From a plan to the matcher that executes it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kleene.engine.aggregation.matcher import LiveMatcher, live_matcher
from kleene.engine.audit import audit
from kleene.engine.automaton.matcher import NfaMatcher
from kleene.engine.counting.counters import CounterMatcher
from kleene.engine.lazy.matcher import LazyMatcher
from kleene.engine.matcher import Matcher
from kleene.engine.sequence.sequence import SequenceMatcher
from kleene.engine.shared.matcher import SharedMatcher
from kleene.engine.shared.planner import Planner
from kleene.plan.aggregation import MatchedPlan
from kleene.plan.counting.counters import CounterPlan
from kleene.plan.lazy.lazy import LazyPlan
from kleene.plan.multi.groups import PatternGroup
from kleene.plan.optimizer import Plan
from kleene.plan.sequence import SequencePlan

Mechanism = SequenceMatcher | LazyMatcher | CounterMatcher | LiveMatcher | NfaMatcher


def build_matcher(plan: Plan, events: pa.Schema, *, bad_rows: str = "error", **tuning: Any) -> Matcher:
    """A matcher of the plan for events with the given Arrow schema."""
    matcher = _of_mechanism(plan, events, bad_rows, tuning)
    matcher.audit = audit
    return matcher


def build_shared_matcher(
    group: PatternGroup, planner: Planner, events: pa.Schema, *, bad_rows: str = "error", **tuning: Any
) -> SharedMatcher:
    """A matcher of patterns that share a plan, which the planner makes."""
    matcher = SharedMatcher(group, planner, events, bad_rows=bad_rows, **tuning)
    matcher.audit = audit
    return matcher


def _of_mechanism(plan: Plan, events: pa.Schema, bad_rows: str, tuning: dict[str, Any]) -> Mechanism:
    if isinstance(plan, SequencePlan):
        return SequenceMatcher(plan, events, bad_rows=bad_rows, **tuning)
    if isinstance(plan, LazyPlan):
        return LazyMatcher(plan, events, bad_rows=bad_rows, **tuning)
    if isinstance(plan, CounterPlan):
        return CounterMatcher(plan, events, bad_rows=bad_rows, **tuning)
    if isinstance(plan, MatchedPlan):
        return live_matcher(plan, events, bad_rows=bad_rows, **tuning)
    return NfaMatcher(plan, events, bad_rows=bad_rows, **tuning)
