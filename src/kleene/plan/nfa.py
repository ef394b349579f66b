"""The SASE+ plan of a query: an NFA^b per branch over partitioned events, negation on its matches, transformation.

It answers what the sequence plan does not: Kleene plus and repetition, optional components and OR, the strategies other than
skip_till_any_match, windows in events, NON-OVERLAP, compressed output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kleene.common.errors import PlanningError, Problem
from kleene.pattern.bound import BoundQuery
from kleene.pattern.normalize import Branch
from kleene.pattern.operators import Event
from kleene.pattern.policies import Output, Strategy
from kleene.pattern.predicates import Attribute, Expression, IsNull, Not, variables
from kleene.plan.automaton import Automaton, compile_automaton, fixed_values
from kleene.plan.compilable import run_compilable
from kleene.plan.keys import Partitioned, equality_of, equated_attributes, key_attributes, positive_components
from kleene.plan.limits import Limits
from kleene.plan.notebook import Shown
from kleene.plan.options import NfaOptions
from kleene.plan.sequence import Negation, Transformation, negative_component, plan_columns

MOST_BITS = 62
"""How many tests of single events fit into a row's mask."""


@dataclass(frozen=True, slots=True)
class BranchPlan:
    """One alternative of the pattern."""

    automaton: Automaton
    negation: Negation | None
    merges: bool
    """Whether equivalent runs are merged: not where a condition looks back at the elements of an earlier variable."""
    queued: bool
    """Whether runs that wait for a component are all equivalent, so that a queue is all there is to keep of them."""


@dataclass(frozen=True, slots=True)
class NfaPlan(Partitioned, Shown):
    """How the runs of a query are kept, and what they read."""

    bound: BoundQuery
    options: NfaOptions
    branches: tuple[BranchPlan, ...]
    partition: tuple[str, ...]
    """Attributes that divide the events: runs of different partitions never meet."""
    tests: tuple[str, ...]
    """Further attributes on which the events of a run must agree."""
    all_rows: bool
    """Whether events that no component can bind matter: to contiguity, and to positions in a window of events."""
    total_order: bool
    """Whether two events of a partition may not tie."""
    transformation: Transformation
    columns: tuple[str, ...]
    """The columns that the plan reads, in the order of the input."""
    ties: str
    output: str
    """`verbose` or `compressed`."""
    limits: Limits

    @property
    def scanned(self) -> tuple[tuple[Event, tuple[Expression, ...]], ...]:
        """What the scan tests of each event: (component, predicates) per bit of a row's mask. A Kleene component has two bits,
        for its first element and for further ones. Negative components come last.
        """
        return tuple(_scanned(self))

    def __str__(self) -> str:
        from kleene.plan.explain import explain

        return explain(self)

    def svg(self, *, optimized: bool = True) -> str:
        """The automata as a picture, an SVG document; see `kleene.plan.drawing`."""
        from kleene.plan.drawing import svg

        return svg(self, optimized=optimized)


def plan_nfa(
    bound: BoundQuery, options: NfaOptions, *, ties: str = "error", output: str = "verbose", limits: Limits | None = None
) -> NfaPlan:
    """The SASE+ plan of a bound query."""
    if any(not branch.is_sequence for branch in bound.branches):
        hint = "leave the plan open: AND is evaluated lazily, with every match enumerated"
        message = "an automaton takes events in the order of the stream: it does not evaluate AND"
        raise PlanningError(Problem(message, bound.query.pattern.span, hint), bound.query.text)
    require_supported(bound, output)
    strategy = bound.query.strategy
    contiguous = strategy in (Strategy.PARTITION_CONTIGUITY, Strategy.STRICT_CONTIGUITY)
    all_rows = contiguous or bound.count_window is not None
    partition = partition_attributes(bound, all_rows)
    decided = frozenset(
        conjunct for conjunct in bound.conjuncts if (found := equality_of(conjunct)) is not None and found[0] in partition
    )
    tests = tuple(test.name for test in bound.equivalences if test.value is None and test.name not in partition)
    # What is let go of at a limit, and compressed output, are about single runs.
    all_alike = output == "verbose" and not tests and (limits or Limits()).policy == "error"
    branches = tuple(_branch(bound, branch, partition, decided, options, all_alike) for branch in bound.branches)
    transformation = Transformation(tuple((item.alias, item.expression) for item in bound.query.returns))
    total = all_rows or strategy is Strategy.SKIP_TILL_NEXT_MATCH or bound.query.output is Output.NON_OVERLAP
    plan = NfaPlan(
        bound,
        options,
        branches,
        partition,
        tests,
        all_rows,
        total,
        transformation,
        plan_columns(bound, transformation),
        ties,
        output,
        limits or Limits(),
    )
    if len(plan.scanned) > MOST_BITS:
        message = f"the pattern has {len(plan.scanned)} components, counting Kleene components twice; {MOST_BITS} are supported"
        raise PlanningError(Problem(message, bound.query.pattern.span, "split the query into several"), bound.query.text)
    return plan


def require_supported(bound: BoundQuery, output: str) -> None:
    """Refuses, with reasons, what is not evaluated yet."""
    query = bound.query
    missing: list[Problem] = []

    def note(condition: bool, what: str, span: Any = None) -> None:
        if condition:
            missing.append(Problem(what, span))

    ends = any(not item.after or not item.before for branch in bound.branches for item in branch.negatives)
    note(bound.count_window is not None and ends, "not supported yet: a negated start or end under a window in events")
    note(output == "compressed" and bool(query.returns), "compressed output keeps the events of the matches: leave RETURN out")
    lacking = any(
        bound.lacks(kind, test.name) for kind in bound.schema.types or () for test in bound.equivalences if test.value is None
    )
    note(lacking and bound.count_window is not None, "not supported yet: a window in events where a type lacks a key attribute")
    note(lacking and query.output is Output.NON_OVERLAP, "not supported yet: NON-OVERLAP where a type lacks a key attribute")
    if missing:
        raise PlanningError(missing, query.text)


def partition_attributes(bound: BoundQuery, all_rows: bool) -> tuple[str, ...]:
    """The attributes that divide the events. Strict contiguity sees the whole stream; so does a partition that events of a type
    without its attribute belong to, whatever their values are.
    """
    if bound.query.strategy is Strategy.STRICT_CONTIGUITY:
        return ()
    keys = key_attributes(bound)
    if all_rows:
        return tuple(name for name in keys if not any(bound.lacks(kind, name) for kind in bound.schema.types or ()))
    single = len(bound.branches) == 1 and not any(event.quantifier for event in positive_components(bound))
    # NON-OVERLAP chooses per partition of equivalence tests: equalities that are written out do not divide it.
    if not single or bound.query.output is not Output.ALL:
        return keys
    return (*keys, *(name for name in equated_attributes(bound) if _decided_at_once(bound, name)))


def _decided_at_once(bound: BoundQuery, name: str) -> bool:
    """Whether every event is compared with an earlier one when it is bound. Where that waits for a later event, a strategy that
    takes the next event takes it whatever its value is.
    """
    if bound.query.strategy is Strategy.SKIP_TILL_ANY_MATCH:
        return True
    places = {event.variable: place for place, event in enumerate(bound.branches[0].positives)}
    found = [item for conjunct in bound.conjuncts if (item := equality_of(conjunct)) is not None and item[0] == name]
    pairs = [(places[left], places[right]) for _, left, right in found if left in places and right in places]
    return {max(pair) for pair in pairs} == set(range(1, len(places)))


def _branch(
    bound: BoundQuery,
    branch: Branch,
    partition: tuple[str, ...],
    decided: frozenset[Expression],
    options: NfaOptions,
    all_alike: bool,
) -> BranchPlan:
    """`all_alike`: runs are told apart by nothing but conditions."""
    automaton = compile_automaton(bound, branch, decided)
    problems = [
        Problem(
            "a condition inside a Kleene pattern or under this strategy reads several events through a function",
            item.expression.span,
            "compare values of single events: f(a.x) = f(b.x), not f(a.x, b.x)",
        )
        for item in automaton.conditions()
        if not run_compilable(item.expression, bound.schema)
    ]
    if problems:
        raise PlanningError(problems, bound.query.text)
    looks_back = any(set(item.quantified) - {own} or _own(item, own, edge) for own, edge, item in _sites(automaton))
    merges = options.algorithm == "merging" and not looks_back
    queued = (
        all_alike
        and merges
        and bound.query.strategy is Strategy.SKIP_TILL_NEXT_MATCH
        and bound.query.output is Output.ALL
        and len(automaton.components) > 1
        and not any(component.is_kleene for component in automaton.components)
        and not automaton.conditions()
    )
    return BranchPlan(automaton, plan_negation(bound, branch, partition), merges, queued)


def plan_negation(bound: BoundQuery, branch: Branch, partition: tuple[str, ...]) -> Negation | None:
    """The negative components of a branch with what decides them."""
    present = {event.variable for event in branch.positives}
    components = []
    for item in branch.negatives:
        own = item.event.variable
        reading = [conjunct for conjunct in bound.conjuncts if own in variables(conjunct)]
        reading = [conjunct for conjunct in reading if variables(conjunct) <= {own, *present}]
        simple = [conjunct for conjunct in reading if variables(conjunct) == {own}]
        between = [conjunct for conjunct in reading if variables(conjunct) != {own}]
        simple += fixed_values(bound, (item.event,))
        components.append(negative_component(bound, branch, item, simple, between, partition, in_scan=True))
    return Negation(tuple(components), "key_index", bound.window) if components else None


def _sites(automaton: Automaton) -> list[tuple[str, str, Any]]:
    """(variable, edge, condition) of every condition that is decided on runs."""
    return [
        (component.variable, edge, condition)
        for component in automaton.components
        for edge in ("begin", "take", "element", "proceed")
        for condition in getattr(component, edge)
    ]


def _own(condition: Any, variable: str, edge: str) -> bool:
    """Whether a proceed condition quantifies over the elements of its own component."""
    return edge == "proceed" and variable in condition.quantified


def _scanned(plan: NfaPlan) -> list[tuple[Event, tuple[Expression, ...]]]:
    found: dict[tuple[str, str], tuple[Event, tuple[Expression, ...]]] = {}
    known = [Not(IsNull(Attribute("", name))) for name in plan.partition if name not in key_attributes(plan.bound)]
    for branch in plan.branches:
        for component in branch.automaton.components:
            present = tuple(_of(item, component.variable) for item in known)
            found[component.variable, "begin"] = (component.event, (*component.scan_begin, *present))
            if component.is_kleene:
                found[component.variable, "take"] = (component.event, (*component.scan_take, *present))
    for branch in plan.branches:
        for negative in branch.negation.components if branch.negation else ():
            found[negative.event.variable, "negative"] = (negative.event, negative.scan_predicates)
    return list(found.values())


def _of(condition: Not, variable: str) -> Expression:
    assert isinstance(condition.operand, IsNull)
    assert isinstance(condition.operand.operand, Attribute)
    return Not(IsNull(Attribute(variable, condition.operand.operand.name)))
