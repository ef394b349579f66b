"""Alternatives whose events may be bound in any order: what every pattern under skip_till_any_match has (lazy evaluation).

What single events decide is left to the scan, what the partition decides to the grouping of rows; here are the conditions
between events. In which order components are bound is left to the engine, unless the user has said so: an order is chosen for
the events of a pass, and again when they change. Sequences of single events have one more way, active instance stacks
(`kleene.plan.lazy.stacks`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from kleene.common.errors import PlanningError, Problem, nearest
from kleene.pattern.bound import BoundQuery
from kleene.pattern.conditions import Condition, condition_of
from kleene.pattern.normalize import Branch
from kleene.pattern.operators import Event
from kleene.pattern.policies import Strategy
from kleene.pattern.predicates import Attribute, Expression, IsNull, Not, variables
from kleene.pattern.text import expression_text
from kleene.plan.analysis.compilable import element_compilable
from kleene.plan.analysis.implied import implied_comparisons
from kleene.plan.analysis.keys import equality_of, positive_components
from kleene.plan.analysis.narrowing import narrowings
from kleene.plan.contract import Test
from kleene.plan.operators import Negation, fixed_values, kleene_variables, partial_agreements
from kleene.plan.options import LazyOptions


@dataclass(frozen=True, slots=True)
class LazyCondition:
    """A condition between events (or between elements of a Kleene variable)."""

    condition: Condition
    compiled: bool
    """Whether a filter can decide it on single events."""
    ranged: bool = False
    """Whether it leaves a range of values to an event, by which candidates may be looked up."""
    via: frozenset[str] = frozenset()
    """Of a comparison that others imply: the variables between. Once they are bound it is not asked."""

    text: str = field(init=False, compare=False)
    """Its key in `Statistics.selectivities`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", expression_text(self.condition.expression))

    def is_asked(self, variable: str, have: AbstractSet[str]) -> bool:
        """Whether it is decided when a variable is bound, with which the variables `have` are."""
        read = self.condition.variables
        return variable in read and read <= have and not (self.via and self.via <= have)


@dataclass(frozen=True, slots=True)
class Stacks:
    """What active instance stacks decide of a sequence, and where (SASE, sections 3.1 and 4.2)."""

    algorithm: str
    tests: tuple[str, ...]
    """Attributes on which all events must agree, beside those that divide the events."""
    filters_transitions: bool
    """Whether the tests filter transitions (Multi-PAIS), or construction (dynamic filtering)."""
    predicates: tuple[tuple[Expression, ...], ...]
    """Per component: predicates decided in construction when it is bound (the last component first)."""
    selection: tuple[Expression, ...]
    """Predicates decided on finished sequences."""
    window_in_scan: bool
    window_in_construction: bool
    """Whether the window ends the search; otherwise it is decided on finished sequences."""


@dataclass(frozen=True, slots=True)
class LazyBranch:
    """One alternative of the pattern."""

    components: tuple[Event, ...]
    """Positive components in order of appearance."""
    precedes: frozenset[tuple[int, int]]
    """Pairs (i, j): component i precedes component j."""
    conditions: tuple[LazyCondition, ...]
    negation: Negation | None
    stacks: Stacks | None = None
    """How active instance stacks find its matches, where they may."""

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(event.variable for event in self.components)

    @property
    def singles(self) -> tuple[int, ...]:
        """The components that bind one event."""
        return tuple(index for index, event in enumerate(self.components) if not event.is_kleene)


def require_any_match(bound: BoundQuery, options: LazyOptions) -> None:
    """Refuses other strategies, and an order that does not name every component once."""
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


def lazy_branch(
    bound: BoundQuery, branch: Branch, partition: tuple[str, ...], compared: tuple[str, ...], negation: Negation | None
) -> LazyBranch:
    """An alternative with the conditions that the partition does not decide; `compared` are attributes on which something else
    than a condition has events agree.
    """
    present = {event.variable for event in branch.positives}
    kleene = kleene_variables(bound)
    asked = [conjunct for conjunct in bound.conjuncts if variables(conjunct) <= present and not _decided(conjunct, partition)]
    asked = [conjunct for conjunct in asked if not condition_of(conjunct, kleene).is_simple]
    singles = tuple(event for event in branch.positives if not event.is_kleene)
    asked += partial_agreements(bound, singles, compared)
    conditions = tuple(
        LazyCondition(
            condition_of(item, kleene),
            element_compilable(item, bound.schema),
            any(narrowings(bound, item, variable, moving=True) for variable in variables(item)),
        )
        for item in asked
    )
    return LazyBranch(branch.positives, branch.order, conditions, negation)


def with_implied(bound: BoundQuery, branch: LazyBranch) -> LazyBranch:
    """A branch with the comparisons that its conditions imply: they refuse tuples before the variables between are bound."""
    if len(branch.conditions) < 2:
        return branch
    kleene = kleene_variables(bound)
    implied = tuple(
        LazyCondition(condition_of(item.expression, kleene), compiled=True, via=item.via)
        for item in implied_comparisons(bound, tuple(item.condition.expression for item in branch.conditions))
    )
    return replace(branch, conditions=(*branch.conditions, *implied)) if implied else branch


def _decided(conjunct: Expression, partition: tuple[str, ...]) -> bool:
    """Whether the partition decides an equality."""
    equality = equality_of(conjunct)
    return equality is not None and equality[0] in partition


def tests_of(bound: BoundQuery, branches: Iterable[LazyBranch], known: Sequence[str]) -> list[Test]:
    """What decides single events as positive components, which have values of the `known` attributes."""
    kleene = kleene_variables(bound)
    simple = [item for item in (condition_of(conjunct, kleene) for conjunct in bound.conjuncts) if item.is_simple]
    found: dict[str, Test] = {}
    for branch in branches:
        for index, event in enumerate(branch.components):
            own = [item.expression for item in simple if item.variables == {event.variable}]
            own += [item.expression for item in simple if not item.variables and index == 0]
            own += fixed_values(bound, (event,))
            own += [Not(IsNull(Attribute(event.variable, name))) for name in known]
            found[event.variable] = (event, tuple(own))
    return list(found.values())
