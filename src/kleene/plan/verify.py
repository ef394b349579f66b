"""What must hold of the draft of a plan after every stage: each conjunct is decided, once, and what is read has a place."""

from __future__ import annotations

from collections.abc import Iterator

from kleene.pattern.conditions import condition_of
from kleene.pattern.normalize import Branch
from kleene.pattern.predicates import Expression, attributes, variables
from kleene.plan.analysis.keys import equality_of
from kleene.plan.automaton.automaton import Automaton
from kleene.plan.automaton.nfa import AutomatonBranch
from kleene.plan.draft import Draft
from kleene.plan.lazy.lazy import LazyBranch, Stacks
from kleene.plan.operators import MOST_BITS, Negation, kleene_variables


def verify(draft: Draft) -> None:
    """Asserts what holds of all that has been decided so far."""
    patterns = draft.bound.branches if draft.branches else ()
    for pattern, branch in zip(patterns, draft.lazy, strict=not draft.automata):
        _verify_lazy(draft, pattern, branch)
    for pattern, automaton in zip(patterns, draft.automata, strict=not draft.lazy):
        _verify_automaton(draft, pattern, automaton)
    for pattern, alternative in zip(patterns, draft.branches, strict=True):
        _verify_negation(draft, pattern, alternative.negation)
    if draft.scanned:
        assert len(draft.scanned) <= MOST_BITS, "tests do not fit into a row's mask"
        events = {event for item in patterns for event in (*item.positives, *(other.event for other in item.negatives))}
        assert {event for event, _ in draft.scanned} == events, "a component has no test"
    missing = set(_read(draft)) - set(draft.columns) if draft.columns else ()
    assert not missing, f"columns are read and do not travel: {missing}"


def _conjuncts(draft: Draft, pattern: Branch) -> Iterator[Expression]:
    """The conjuncts between the positive components of an alternative that its partition does not decide."""
    present = {event.variable for event in pattern.positives}
    for conjunct in draft.bound.conjuncts:
        equality = equality_of(conjunct)
        if variables(conjunct) <= present and (equality is None or equality[0] not in draft.partition):
            yield conjunct


def _verify_lazy(draft: Draft, pattern: Branch, branch: LazyBranch) -> None:
    kleene = kleene_variables(draft.bound)
    asked = [item.condition.expression for item in branch.conditions if not item.via]
    conjuncts = list(_conjuncts(draft, pattern))
    for conjunct in conjuncts:
        written = conjuncts.count(conjunct)
        times = asked.count(conjunct) + written * condition_of(conjunct, kleene).is_simple
        assert times == written, f"a conjunct is written {written} times and decided {times} times"
    if branch.stacks is not None:
        _verify_stacks(branch.stacks, asked)


def _verify_stacks(stacks: Stacks, asked: list[Expression]) -> None:
    decided = [*stacks.selection, *(item for level in stacks.predicates for item in level)]
    assert all(decided.count(item) == asked.count(item) for item in asked), "stacks decide a condition twice, or never"


def _verify_automaton(draft: Draft, pattern: Branch, branch: AutomatonBranch) -> None:
    decided = set(_on_edges(branch.automaton))
    assert all(conjunct in decided for conjunct in _conjuncts(draft, pattern)), "a conjunct is on no edge"
    assert branch.merges or not branch.queued, "runs are queued that are not alike"


def _on_edges(automaton: Automaton) -> Iterator[Expression]:
    for component in automaton.components:
        yield from (*component.scan_begin, *component.scan_take)
    yield from (condition.expression for _, _, condition in automaton.sites)


def _verify_negation(draft: Draft, pattern: Branch, negation: Negation | None) -> None:
    components = negation.components if negation is not None else ()
    assert [item.event for item in components] == [item.event for item in pattern.negatives], "negation is lost"
    for item in components:
        neighbours = {*item.after, *item.before}
        assert neighbours <= set(range(len(pattern.positives))), "an interval is between components that are not there"
        assert not item.keyed or draft.partition, "an index has no key"


def _read(draft: Draft) -> Iterator[str]:
    """The columns that events must bring."""
    schema = draft.bound.schema
    yield from (schema.time, *schema.order_by, *draft.partition, *draft.tests)
    expressions: list[Expression] = (
        [expression for _, expression in draft.transformation.columns] if draft.transformation else []
    )
    expressions += [predicate for _, predicates in draft.scanned for predicate in predicates]
    expressions += draft.bound.conjuncts
    yield from attributes(*expressions)
