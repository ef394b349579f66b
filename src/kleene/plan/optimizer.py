"""From a bound query to a plan: which mechanism answers it.

The sequence plan keeps nothing but recent events and is the best for plain sequences under skip_till_any_match; everything
else is answered by automata.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kleene.common.errors import PlanningError, Problem
from kleene.pattern.bound import BoundQuery
from kleene.plan.limits import Limits, limits_of
from kleene.plan.nfa import NfaPlan, plan_nfa
from kleene.plan.options import NfaOptions, PlanOptions, SequenceOptions, plan_options
from kleene.plan.sequence import SequencePlan, is_plain_sequence, plan_sequence

Plan = SequencePlan | NfaPlan


def make_plan(
    bound: BoundQuery,
    plan: PlanOptions | Mapping[str, Any] | str | None = None,
    *,
    ties: str = "error",
    output: str = "verbose",
    limits: Limits | Mapping[str, Any] | None = None,
) -> Plan:
    """The plan of a query; `plan` forces choices (see `kleene.plan.options`)."""
    options, bounds = plan_options(plan), limits_of(limits)
    if options is None:
        options = SequenceOptions() if is_plain_sequence(bound) and output == "verbose" else NfaOptions()
    if isinstance(options, NfaOptions):
        return plan_nfa(bound, options, ties=ties, output=output, limits=bounds)
    if output != "verbose":
        message = f"a sequence plan has no match buffer to give as {output} output"
        raise PlanningError(Problem(message, hint="leave the plan open, or choose plan={'mechanism': 'nfa'}"))
    return plan_sequence(bound, options)
