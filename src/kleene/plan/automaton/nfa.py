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
from kleene.pattern.predicates import Attribute, Expression, IsNull, Not
from kleene.plan.analysis.compilable import run_compilable
from kleene.plan.analysis.keys import Partitioned, equality_of, key_attributes
from kleene.plan.automaton.automaton import Automaton, compile_automaton
from kleene.plan.contract import Transformation
from kleene.plan.limits import Limits
from kleene.plan.operators import (
    MOST_BITS,
    Negation,
    partition_attributes,
    plan_columns,
    plan_negation,
    reach_of,
    require_supported,
)
from kleene.plan.options import NfaOptions


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
class NfaPlan(Partitioned):
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
    def reach(self) -> int:
        return reach_of(self.bound, (branch.negation for branch in self.branches))

    @property
    def scanned(self) -> tuple[tuple[Event, tuple[Expression, ...]], ...]:
        """What the scan tests of each event: (component, predicates) per bit of a row's mask. A Kleene component has two bits,
        for its first element and for further ones. Negative components come last.
        """
        return tuple(_scanned(self))


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
    # Dropping at a limit, and compressed output, concern single runs.
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
