"""The plan of a query under skip_till_any_match: any order of binding events gives the same matches (lazy evaluation).

`plan_lazy` sorts what the query asks for: what single events decide, what decides between events, what the partition decides.
In which order components are bound is left to the run, unless the user has said so: an order is chosen for the current events,
and again when they change. Sequences have one more alternative, active instance stacks.

It answers every pattern under skip_till_any_match: SEQ, AND, OR, nested, with Kleene plus, negation and windows of both kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from kleene.common.errors import PlanningError, Problem, nearest
from kleene.pattern.bound import BoundQuery
from kleene.pattern.conditions import Condition, condition_of
from kleene.pattern.normalize import Branch
from kleene.pattern.operators import Event
from kleene.pattern.policies import Output, Strategy
from kleene.pattern.predicates import Attribute, Expression, IsNull, Not, variables
from kleene.pattern.text import expression_text
from kleene.plan.analysis.compilable import element_compilable
from kleene.plan.analysis.implied import implied_comparisons
from kleene.plan.analysis.keys import Partitioned, equality_of, key_attributes, positive_components
from kleene.plan.contract import Transformation
from kleene.plan.limits import DEFAULT_LIMITS, Limits
from kleene.plan.operators import (
    MOST_BITS,
    Negation,
    fixed_values,
    kleene_variables,
    partial_agreements,
    partition_attributes,
    plan_columns,
    plan_negation,
    reach_of,
    require_supported,
)
from kleene.plan.options import LazyOptions, SequenceOptions
from kleene.plan.order.statistics import Statistics
from kleene.plan.sequence import SequencePlan, is_plain_sequence, plan_sequence


@dataclass(frozen=True, slots=True)
class LazyCondition:
    """A condition between events (or between elements of a Kleene variable)."""

    condition: Condition
    compiled: bool
    """Whether a filter can decide it on single events."""
    via: frozenset[str] = frozenset()
    """Of a comparison that others imply: the variables between. Once they are bound it is not asked."""

    text: str = field(init=False, compare=False)
    """By which statistics know it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", expression_text(self.condition.expression))

    def is_asked(self, variable: str, have: AbstractSet[str]) -> bool:
        """Whether it is decided when a variable is bound, with which the variables `have` are."""
        read = self.condition.variables
        return variable in read and read <= have and not (self.via and self.via <= have)


@dataclass(frozen=True, slots=True)
class LazyBranch:
    """One alternative of the pattern."""

    components: tuple[Event, ...]
    """Positive components in order of appearance."""
    precedes: frozenset[tuple[int, int]]
    """Pairs (i, j): component i precedes component j."""
    conditions: tuple[LazyCondition, ...]
    negation: Negation | None

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(event.variable for event in self.components)

    @property
    def singles(self) -> tuple[int, ...]:
        """The components that bind one event."""
        return tuple(index for index, event in enumerate(self.components) if not event.is_kleene)


@dataclass(frozen=True, slots=True)
class LazyPlan(Partitioned):
    """What decides a match, and what is known for choosing the order of binding."""

    bound: BoundQuery
    options: LazyOptions
    branches: tuple[LazyBranch, ...]
    partition: tuple[str, ...]
    """Attributes that divide the events."""
    tests: tuple[str, ...]
    """Further attributes on which the events of a match must agree."""
    all_rows: bool
    """Whether events that no component can bind matter: to positions in a window of events."""
    total_order: bool
    """Whether two events of a partition may not tie."""
    transformation: Transformation
    columns: tuple[str, ...]
    """The columns that the plan reads, in the order of the input."""
    ties: str
    statistics: Statistics | None
    """What is known of the events beforehand."""
    stacks: bool
    """Whether active instance stacks are an alternative: the query is a plain sequence, and the user leaves the choice."""
    limits: Limits = DEFAULT_LIMITS

    output = "verbose"

    @property
    def reach(self) -> int:
        return reach_of(self.bound, (branch.negation for branch in self.branches))

    @property
    def scanned(self) -> tuple[tuple[Event, tuple[Expression, ...]], ...]:
        """What the scan tests of each event: (component, predicates) per bit of a row's mask, negative components last."""
        return tuple(_scanned(self))

    @property
    def conditions(self) -> tuple[Expression, ...]:
        """The conditions between events of all branches."""
        found = (item.condition.expression for branch in self.branches for item in branch.conditions)
        return tuple(dict.fromkeys(found))

    def sequence(self) -> SequencePlan:
        """The same query over active instance stacks."""
        return plan_sequence(self.bound, SequenceOptions(), self.limits)

    def order_of(self, branch: LazyBranch) -> tuple[int, ...] | None:
        """The order of binding that the user asks for: in a chain, that of the options; of an eager automaton, as written."""
        if self.options.evaluation == "eager":
            return tuple(range(len(branch.components)))
        if self.options.order is None:
            return None
        places = {variable: place for place, variable in enumerate(self.options.order)}
        return tuple(sorted(range(len(branch.components)), key=lambda index: places[branch.components[index].variable]))


def plan_lazy(
    bound: BoundQuery,
    options: LazyOptions,
    *,
    ties: str = "error",
    limits: Limits | None = None,
    statistics: Statistics | Mapping[str, Any] | None = None,
) -> LazyPlan:
    """The lazy plan of a bound query; `statistics` may be as a user writes them."""
    _require_any_match(bound, options)
    all_rows = bound.count_window is not None
    partition = partition_attributes(bound, all_rows)
    tests = tuple(test.name for test in bound.equivalences if test.value is None and test.name not in partition)
    branches = tuple(_branch(bound, branch, partition) for branch in bound.branches)
    transformation = Transformation(tuple((item.alias, item.expression) for item in bound.query.returns))
    alternative = is_plain_sequence(bound) and options.evaluation == "auto" and options.order is None
    plan = LazyPlan(
        bound,
        options,
        branches,
        partition,
        tests,
        all_rows,
        all_rows or bound.query.output is Output.NON_OVERLAP,
        transformation,
        plan_columns(bound, transformation),
        ties,
        None,
        alternative,
        limits or DEFAULT_LIMITS,
    )
    if len(plan.scanned) > MOST_BITS:
        message = f"the pattern has {len(plan.scanned)} components; {MOST_BITS} are supported"
        raise PlanningError(Problem(message, bound.query.pattern.span, "split the query into several"), bound.query.text)
    if statistics is not None and not isinstance(statistics, Statistics):
        names = [event.variable for event in plan.positives]
        statistics = Statistics.from_mapping(statistics, names, plan.conditions)
    return replace(plan, statistics=statistics)


def _require_any_match(bound: BoundQuery, options: LazyOptions) -> None:
    query = bound.query
    problems = []
    if query.strategy is not Strategy.SKIP_TILL_ANY_MATCH:
        message = f"only skip_till_any_match may bind events in another order than the stream's, not {query.strategy.value}"
        problems.append(Problem(message, hint="leave the plan open, or choose plan={'mechanism': 'nfa'}"))
    names = [event.variable for event in positive_components(bound)]
    if options.order is not None:
        for name in options.order:
            if name not in names:
                problems.append(Problem(f"'{name}' in the plan's order is no positive component", hint=nearest(name, names)))
        missing = [name for name in names if name not in options.order]
        if missing or len(set(options.order)) < len(options.order):
            message = "the plan's order must name every positive component once"
            problems.append(Problem(message, hint=f"the components are {', '.join(names)}"))
    if problems:
        raise PlanningError(problems, query.text)
    require_supported(bound, "verbose")


def _branch(bound: BoundQuery, branch: Branch, partition: tuple[str, ...]) -> LazyBranch:
    present = {event.variable for event in branch.positives}
    kleene = kleene_variables(bound)
    asked = [conjunct for conjunct in bound.conjuncts if variables(conjunct) <= present and not _decided(conjunct, partition)]
    asked = [conjunct for conjunct in asked if not condition_of(conjunct, kleene).is_simple]
    singles = tuple(event for event in branch.positives if not event.is_kleene)
    asked += partial_agreements(bound, singles, partition)
    conditions = [LazyCondition(condition_of(item, kleene), element_compilable(item, bound.schema)) for item in asked]
    conditions += [
        LazyCondition(condition_of(item.expression, kleene), compiled=True, via=item.via)
        for item in implied_comparisons(bound, tuple(asked))
    ]
    return LazyBranch(branch.positives, branch.order, tuple(conditions), plan_negation(bound, branch, partition))


def _decided(conjunct: Expression, partition: tuple[str, ...]) -> bool:
    """Whether the partition decides an equality."""
    equality = equality_of(conjunct)
    return equality is not None and equality[0] in partition


def _scanned(plan: LazyPlan) -> list[tuple[Event, tuple[Expression, ...]]]:
    bound = plan.bound
    kleene = kleene_variables(bound)
    simple = [item for item in (condition_of(conjunct, kleene) for conjunct in bound.conjuncts) if item.is_simple]
    known = [name for name in plan.partition if name not in key_attributes(bound)]
    found: dict[str, tuple[Event, tuple[Expression, ...]]] = {}
    for branch in plan.branches:
        for index, event in enumerate(branch.components):
            own = [item.expression for item in simple if item.variables == {event.variable}]
            own += [item.expression for item in simple if not item.variables and index == 0]
            own += fixed_values(bound, (event,))
            own += [Not(IsNull(Attribute(event.variable, name))) for name in known]
            found[event.variable] = (event, tuple(own))
    for branch in plan.branches:
        for negative in branch.negation.components if branch.negation else ():
            found[negative.event.variable] = (negative.event, negative.scan_predicates)
    return list(found.values())
