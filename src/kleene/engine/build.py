"""From a plan to the matcher that executes it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kleene.engine.counters import CounterMatcher
from kleene.engine.lazy import LazyMatcher
from kleene.engine.live import live_matcher
from kleene.engine.matcher import Matcher
from kleene.engine.nfa import NfaMatcher
from kleene.engine.sequence import SequenceMatcher
from kleene.plan.aggregate import CounterPlan
from kleene.plan.lazy import LazyPlan
from kleene.plan.matched import MatchedPlan
from kleene.plan.optimizer import Plan
from kleene.plan.sequence import SequencePlan


def build_matcher(plan: Plan, events: pa.Schema, *, bad_rows: str = "error", **tuning: Any) -> Matcher:
    """A matcher of the plan for events with the given Arrow schema."""
    if isinstance(plan, SequencePlan):
        return SequenceMatcher(plan, events, bad_rows=bad_rows, **tuning)
    if isinstance(plan, LazyPlan):
        return LazyMatcher(plan, events, bad_rows=bad_rows, **tuning)
    if isinstance(plan, CounterPlan):
        return CounterMatcher(plan, events, bad_rows=bad_rows, **tuning)
    if isinstance(plan, MatchedPlan):
        return live_matcher(plan, events, bad_rows=bad_rows, **tuning)
    return NfaMatcher(plan, events, bad_rows=bad_rows, **tuning)
