"""From a bound query to a plan. One mechanism so far: the SASE sequence plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kleene.pattern.bound import BoundQuery
from kleene.plan.options import SequenceOptions, sequence_options
from kleene.plan.sequence import SequencePlan, plan_sequence


def make_plan(bound: BoundQuery, plan: SequenceOptions | Mapping[str, Any] | str | None = None) -> SequencePlan:
    """The plan of a query; `plan` forces choices (see `kleene.plan.options`)."""
    return plan_sequence(bound, sequence_options(plan))
