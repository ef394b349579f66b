"""From a bound query to a plan: which mechanism answers it.

Under skip_till_any_match events may be bound in any order: a lazy plan finds the best one while it runs, and for plain
sequences may also choose active instance stacks. Kleene closure in sequence and the other strategies are answered by automata.
AGG is answered by counters, without building a match, wherever that is possible; else by one of these mechanisms and an
aggregation of its matches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kleene.common.errors import PlanningError, Problem
from kleene.pattern.bound import BoundQuery
from kleene.pattern.policies import Output, Strategy
from kleene.pattern.predicates import variables
from kleene.plan.aggregation import MatchedPlan, plan_matched
from kleene.plan.analysis.compilable import require_compilable, run_compilable
from kleene.plan.analysis.keys import positive_components
from kleene.plan.automaton.nfa import NfaPlan, plan_nfa
from kleene.plan.counting.counters import CounterPlan, obstacles, plan_counters
from kleene.plan.lazy.lazy import LazyPlan, plan_lazy
from kleene.plan.limits import Limits, limits_of
from kleene.plan.options import AggregateOptions, LazyOptions, NfaOptions, PlanOptions, SequenceOptions, plan_options
from kleene.plan.order.statistics import Statistics
from kleene.plan.sequence import SequencePlan, plan_sequence

MatchPlan = SequencePlan | NfaPlan | LazyPlan
"""Plans that find matches."""

Plan = MatchPlan | CounterPlan | MatchedPlan


def make_plan(
    bound: BoundQuery,
    plan: PlanOptions | Mapping[str, Any] | str | None = None,
    *,
    ties: str = "error",
    output: str = "verbose",
    limits: Limits | Mapping[str, Any] | None = None,
    statistics: Statistics | Mapping[str, Any] | None = None,
) -> Plan:
    """The plan of a query; `plan` forces choices (see `kleene.plan.options`), `statistics` is what is known of the events."""
    options = plan_options(plan)
    if bound.query.aggregates:
        return _aggregate_plan(bound, options, ties=ties, output=output, limits=limits, statistics=statistics)
    if isinstance(options, AggregateOptions):
        message = "the plan is one for aggregates, and the query has no AGG"
        raise PlanningError(Problem(message, hint="leave the plan open, or add for example AGG COUNT"))
    return _match_plan(bound, options, ties=ties, output=output, limits=limits, statistics=statistics)


def _aggregate_plan(bound: BoundQuery, options: PlanOptions | None, *, output: str, limits: Any, **further: Any) -> Plan:
    """Counters where they answer the query; else, or where a mechanism that finds matches is asked for, its matches."""
    if output != "verbose":
        message = f"AGG has a row for each trigger, which cannot be given as {output} output"
        raise PlanningError(Problem(message, hint="leave output out"))
    reasons = obstacles(bound)
    chosen = options if isinstance(options, AggregateOptions) else AggregateOptions("auto" if options is None else "matches")
    if chosen.mechanism == "counters" and reasons:
        problems = [Problem(f"the aggregate cannot be pushed down: {reason}", hint=_UNPUSHED) for reason in reasons]
        raise PlanningError(problems, bound.query.text)
    if chosen.mechanism != "matches" and not reasons:
        return plan_counters(bound, chosen, limits_of(limits))
    asked = None if isinstance(options, AggregateOptions) else options
    return plan_matched(
        bound,
        lambda plain: _match_plan(plain, asked, output="verbose", limits=limits, **further),
        reasons or ("the plan asks for matches",),
    )


_UNPUSHED = "leave the plan open: its matches are then built and aggregated"


def _match_plan(
    bound: BoundQuery,
    options: PlanOptions | None,
    *,
    ties: str,
    output: str,
    limits: Limits | Mapping[str, Any] | None,
    statistics: Statistics | Mapping[str, Any] | None,
) -> MatchPlan:
    bounds = limits_of(limits)
    require_compilable(bound, bounds)
    if options is None:
        options = LazyOptions() if output == "verbose" and _best_lazily(bound, bounds) else NfaOptions()
    if isinstance(options, NfaOptions):
        return plan_nfa(bound, options, ties=ties, output=output, limits=bounds)
    if output != "verbose":
        message = f"only automata have a match buffer to give as {output} output"
        raise PlanningError(Problem(message, hint="leave the plan open, or choose plan={'mechanism': 'nfa'}"))
    if bounds.policy != "error":
        message = f"the policy '{bounds.policy}' drops runs of automata, but this plan finds matches without runs"
        hint = "leave the policy out: at a limit the query stops; or choose plan={'mechanism': 'nfa'} (not for AND)"
        raise PlanningError(Problem(message, hint=hint))
    if isinstance(options, LazyOptions):
        return plan_lazy(bound, options, ties=ties, limits=bounds, statistics=statistics)
    assert isinstance(options, SequenceOptions)
    return plan_sequence(bound, options, bounds)


def _best_lazily(bound: BoundQuery, limits: Limits) -> bool:
    """Whether a lazy plan is the one to choose: for AND, and for functions of several events, there is no other; an automaton
    shares what Kleene components have in common, drops overlapping runs, and can sample at a limit.
    """
    if bound.query.strategy is not Strategy.SKIP_TILL_ANY_MATCH:
        return False
    if any(not branch.is_sequence for branch in bound.branches):
        return True
    positive = {event.variable for event in positive_components(bound)}
    between = [conjunct for conjunct in bound.conjuncts if variables(conjunct) <= positive]
    if not all(run_compilable(conjunct, bound.schema) for conjunct in between):
        return True
    kleene = any(event.is_kleene for event in bound.components)
    return not kleene and bound.query.output is Output.ALL and limits.policy == "error"
