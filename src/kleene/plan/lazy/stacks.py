"""Active instance stacks for a plain sequence: what they decide in construction, and what is left to selection (SASE 2006).

Every option gives the same matches; only the work differs.
"""

from __future__ import annotations

from kleene.common.errors import PlanningError, Problem, Span
from kleene.pattern.bound import BoundQuery
from kleene.pattern.operators import Event
from kleene.pattern.policies import Output, Strategy
from kleene.pattern.predicates import Attribute, Comparison, Expression
from kleene.plan.lazy.lazy import LazyBranch, Stacks
from kleene.plan.options import SequenceOptions


def is_plain_sequence(bound: BoundQuery) -> bool:
    """Whether stacks answer the query: single events in sequence, in a window of time, all matches."""
    query = bound.query
    return (
        len(bound.branches) == 1
        and bound.branches[0].is_sequence
        and not any(event.quantifier for event in bound.components)
        and query.strategy is Strategy.SKIP_TILL_ANY_MATCH
        and query.output is Output.ALL
        and bound.count_window is None
    )


def require_plain_sequence(bound: BoundQuery) -> None:
    """Refuses, with reasons, what stacks do not evaluate."""
    query = bound.query
    missing: list[Problem] = []
    hint = "leave the plan open: the planner chooses a mechanism that does"

    def note(condition: bool, what: str, span: Span | None = None) -> None:
        if condition:
            missing.append(Problem(f"a sequence plan does not evaluate {what}", span, hint))

    note(query.strategy is not Strategy.SKIP_TILL_ANY_MATCH, f"the selection strategy {query.strategy.value}")
    for event in bound.components:
        note(event.is_kleene, f"Kleene plus and repetition ('{event.variable}')", event.span)
        note(event.quantifier is not None and not event.is_kleene, f"optional components ('{event.variable}')", event.span)
    optional = any(event.quantifier is not None for event in bound.components)
    note(len(bound.branches) > 1 and not optional, "OR", query.pattern.span)
    note(any(not branch.is_sequence for branch in bound.branches), "AND", query.pattern.span)
    note(bound.count_window is not None, "windows in events (WITHIN n EVENTS)")
    note(query.output is not Output.ALL, f"the output format {query.output.value}")
    if missing:
        raise PlanningError(missing, query.text)


def stacks_of(branch: LazyBranch, options: SequenceOptions, tests: tuple[str, ...], simple: tuple[Expression, ...]) -> Stacks:
    """What stacks decide of a plain sequence: its conditions, `tests` that do not divide the events, and the conditions on
    single events that the scan leaves open.
    """
    multi = options.partition == "multi_pais" and options.construction == "active_instance_stacks"
    compared = multi or options.equivalence == "construction"
    selection = [] if compared and not multi else _agreements(branch.components, tests)
    construction: list[list[Expression]] = [[] for _ in branch.components]
    places = {variable: place for place, variable in enumerate(branch.variables)}
    for item in branch.conditions:
        if item.via:
            continue
        if options.predicates == "construction" and item.compiled:
            first = min(places[variable] for variable in item.condition.variables)  # the last of them to be bound
            construction[first].append(item.condition.expression)
        else:
            selection.append(item.condition.expression)
    return Stacks(
        options.construction,
        tests if compared else (),
        multi and bool(tests),
        tuple(map(tuple, construction)),
        (*selection, *simple),
        options.window_in_scan,
        options.window_in_construction,
    )


def _agreements(positives: tuple[Event, ...], attributes: tuple[str, ...]) -> list[Expression]:
    """Equivalence tests as comparisons with the last component (the first to be bound)."""
    last = positives[-1].variable
    return [
        Comparison("=", Attribute(event.variable, name), Attribute(last, name))
        for name in attributes
        for event in positives[:-1]
    ]
