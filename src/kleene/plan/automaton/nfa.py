"""Alternatives as automata: an NFA^b with its negation, and what its runs have in common (SASE+ 2008).

They answer what stacks and lazy evaluation do not: the strategies other than skip_till_any_match, compressed output, and limits
at which runs are dropped; and Kleene plus in sequence at less cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kleene.common.errors import PlanningError, Problem
from kleene.pattern.bound import BoundQuery
from kleene.pattern.normalize import Branch
from kleene.pattern.predicates import Attribute, IsNull, Not
from kleene.plan.analysis.compilable import run_compilable
from kleene.plan.analysis.keys import equality_of
from kleene.plan.automaton.automaton import Automaton, compile_automaton
from kleene.plan.contract import Test
from kleene.plan.operators import Negation


@dataclass(frozen=True, slots=True)
class AutomatonBranch:
    """One alternative of the pattern."""

    automaton: Automaton
    negation: Negation | None
    merges: bool = False
    """Whether equivalent runs are merged: not where a condition looks back at the elements of an earlier variable."""
    queued: bool = False
    """Whether runs that wait for a component are all equivalent, so that a queue is all there is to keep of them."""


def require_sequences(bound: BoundQuery) -> None:
    """Refuses AND."""
    if any(not branch.is_sequence for branch in bound.branches):
        hint = "leave the plan open: AND is evaluated lazily, with every match enumerated"
        message = "an automaton takes events in the order of the stream: it does not evaluate AND"
        raise PlanningError(Problem(message, bound.query.pattern.span, hint), bound.query.text)


def automaton_branch(
    bound: BoundQuery, branch: Branch, partition: tuple[str, ...], negation: Negation | None
) -> AutomatonBranch:
    """The automaton of an alternative; equalities that the partition decides are on no edge."""
    decided = frozenset(
        conjunct for conjunct in bound.conjuncts if (found := equality_of(conjunct)) is not None and found[0] in partition
    )
    automaton = compile_automaton(bound, branch, decided)
    problems = [
        Problem(
            "a condition inside a Kleene pattern or under this strategy reads several events through a function",
            item.expression.span,
            "compare values of single events: f(a.x) = f(b.x), not f(a.x, b.x)",
        )
        for _, _, item in automaton.sites
        if not run_compilable(item.expression, bound.schema)
    ]
    if problems:
        raise PlanningError(problems, bound.query.text)
    return AutomatonBranch(automaton, negation)


def with_merging(branch: AutomatonBranch) -> AutomatonBranch:
    """A branch that merges equivalent runs, unless a condition looks back."""
    return branch if any(branch.automaton.looks_back()) else replace(branch, merges=True)


def with_queue(branch: AutomatonBranch) -> AutomatonBranch:
    """A branch that keeps runs as a queue, where nothing but their partition and their length tells them apart."""
    automaton = branch.automaton
    queued = (
        branch.merges
        and len(automaton.components) > 1
        and not any(component.is_kleene for component in automaton.components)
        and not automaton.sites
    )
    return replace(branch, queued=True) if queued else branch


def tests_of(branches: Iterable[AutomatonBranch], known: Sequence[str]) -> list[Test]:
    """What decides single events as positive components, which have values of the `known` attributes. A Kleene component has
    two tests, for its first element and for further ones.
    """
    found: dict[tuple[str, str], Test] = {}
    for branch in branches:
        for component in branch.automaton.components:
            present = tuple(Not(IsNull(Attribute(component.variable, name))) for name in known)
            found[component.variable, "begin"] = (component.event, (*component.scan_begin, *present))
            if component.is_kleene:
                found[component.variable, "take"] = (component.event, (*component.scan_take, *present))
    return list(found.values())
