"""From a bound query to a plan: stages in a row, each of which decides one thing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from kleene.common.errors import PlanningError, Problem, nearest
from kleene.pattern.bound import BoundQuery
from kleene.plan import stages
from kleene.plan.contract import Plan
from kleene.plan.draft import Draft
from kleene.plan.limits import DEFAULT_LIMITS, Limits, limits_of
from kleene.plan.options import AggregateOptions, LazyOptions, NfaOptions, PlanOptions, disabled_stages, plan_options
from kleene.plan.order.statistics import Statistics
from kleene.plan.patterns import EvaluationOptions, LazyPlan, NfaPlan
from kleene.plan.verify import verify


@dataclass(frozen=True, slots=True)
class Stage:
    """One decision. Those that are optional only save work: without them the matches are the same."""

    decide: Callable[[Draft], None]
    optional: bool = False

    @property
    def name(self) -> str:
        return self.decide.__name__


STAGES = (
    Stage(stages.count_without_matches, optional=True),  # AGG by counters, where no match has to be built
    Stage(stages.match_before_aggregating),  # any other AGG is a query for its matches first
    Stage(stages.refuse_large_conditions),  # which would take long to compile, everywhere
    Stage(stages.choose_evaluation),  # stacks, an order of binding, or automata
    Stage(stages.refuse_unsupported),  # all that the evaluation cannot answer, in one error
    Stage(stages.set_lookahead_aside),  # under AGG a forbidden event that comes later ends the life of a match
    Stage(stages.divide_events),  # by attributes on which the events of a match agree
    Stage(stages.sort_conditions),  # to the partition, single events, edges or tuples, and negation
    Stage(stages.test_while_scanning),  # what single events decide is a bit of their row
    Stage(stages.construct_on_stacks),  # the ablations of SASE, if they are asked for
    Stage(stages.offer_stacks, optional=True),  # plain sequences may be found either way
    Stage(stages.imply_comparisons, optional=True),  # to refuse tuples before all of their events are bound
    Stage(stages.merge_runs, optional=True),  # equivalent runs as one
    Stage(stages.queue_runs, optional=True),  # runs that are all alike as a queue
    Stage(stages.prune_columns),  # what nothing reads does not travel
    Stage(stages.find_matches),  # the plan, with the aggregation of its matches on top
)
"""How a query becomes a plan."""

VERIFIES = False
"""Whether the draft of a plan is verified after every stage: tests switch it on. It takes twice as long as planning."""

OPTIONAL = tuple(stage.name for stage in STAGES if stage.optional)
"""The stages that plan={"disable": [...]} may name."""


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
    options, disabled = plan_options(plan), disabled_stages(plan)
    if disabled:
        _require_optional(disabled)
    if bound.query.aggregates and output != "verbose":
        message = f"AGG has a row for each trigger, which cannot be given as {output} output"
        raise PlanningError(Problem(message, hint="leave output out"))
    if isinstance(options, AggregateOptions) and not bound.query.aggregates:
        message = "the plan is one for aggregates, and the query has no AGG"
        raise PlanningError(Problem(message, hint="leave the plan open, or add for example AGG COUNT"))
    return _planned(Draft(bound, options, ties, output, limits_of(limits), statistics), STAGES, disabled)


@overload
def plan_matches(bound: BoundQuery, options: LazyOptions, *, ties: str = "error", limits: Limits = ...) -> LazyPlan: ...
@overload
def plan_matches(bound: BoundQuery, options: NfaOptions, *, ties: str = "error", limits: Limits = ...) -> NfaPlan: ...


def plan_matches(bound: BoundQuery, options: EvaluationOptions, *, ties: str = "error", limits: Limits = DEFAULT_LIMITS) -> Any:
    """The plan of the matches of a query by one evaluation, whatever its AGG."""
    draft = Draft(bound, options, ties, "verbose", limits, None)
    return _planned(draft, STAGES[[stage.decide for stage in STAGES].index(stages.choose_evaluation) :])


def _planned(draft: Draft, wanted: Sequence[Stage], disabled: Collection[str] = ()) -> Plan:
    for stage in wanted:
        if disabled and stage.name in disabled:
            continue
        stage.decide(draft)
        if VERIFIES:
            verify(draft)
        if draft.plan is not None:
            return draft.plan
    raise AssertionError("the last stage makes the plan")


def _require_optional(names: Collection[str]) -> None:
    known = {stage.name: stage.optional for stage in STAGES}
    problems = [
        Problem(f"every plan needs the stage '{name}'", hint=f"these can be disabled: {', '.join(OPTIONAL)}")
        if name in known
        else Problem(f"unknown stage '{name}'", hint=nearest(name, OPTIONAL))
        for name in names
        if not known.get(name)
    ]
    if problems:
        raise PlanningError(problems)
