"""Which alternatives a lazy plan has for the events at hand, and what each is expected to cost.

The alternatives of a branch: as written (eager), the order of each planner, the tree, and for plain sequences active instance
stacks. Any gives the same matches; the cheapest is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kleene.plan.cost import EVALUATION, PARTIAL, SCOPE, Model, chain, steps
from kleene.plan.lazy import LazyBranch, LazyPlan
from kleene.plan.orders import PLANNERS
from kleene.plan.statistics import Statistics, window_in_units

ROW = 12.0
"""Nanoseconds per relevant event that lazy evaluation takes to prepare scopes and candidates."""
STACK_ROW = 8.0
"""Nanoseconds to push an event on its stack."""
STACK_SCOPE = 8.0
STACK_PARTIAL = 3.0
"""Construction over stacks follows pointers: a scope and a partial match cost less there."""
FUNCTION = 150.0
"""Nanoseconds that a condition takes which is decided on blocks of partial matches, beside EVALUATION."""
CHOICE = 12.0
"""Nanoseconds a tree takes, per partial match and component that is not bound yet, to choose the next."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """A way to evaluate a branch, and what it is expected to cost per unit of time."""

    name: str
    """`eager`, `chain` (with the planner's name), `tree` or `active instance stacks`."""
    order: tuple[int, ...] | None
    """The components in the order of binding; None where the mechanism has its own."""
    evaluations: float
    partial_matches: float
    nanoseconds: float


def model_of(plan: LazyPlan, branch: LazyBranch, statistics: Statistics) -> Model:
    """What the statistics say of a branch, in numbers."""
    index = {variable: place for place, variable in enumerate(branch.variables)}
    window = window_in_units(plan.bound)
    length = statistics.span if window is None else min(window, statistics.span or window)

    def mask(names: frozenset[str]) -> int:
        return sum(1 << index[name] for name in names)

    asked = [item for item in branch.conditions if not item.via]
    return Model(
        rates=tuple(statistics.rate(variable) for variable in branch.variables),
        precedes=branch.precedes,
        conditions=tuple((mask(item.condition.variables), statistics.selectivity(item.text)) for item in asked),
        window=length or 1.0,
        same_partition=statistics.same_partition,
        kleene=sum(1 << place for place, event in enumerate(branch.components) if event.is_kleene),
        negatives=len(branch.negation.components) if branch.negation else 0,
        implied=tuple(
            (mask(item.condition.variables), statistics.selectivity(item.text), mask(item.via))
            for item in branch.conditions
            if item.via
        ),
        prices=tuple(0.0 if item.compiled else FUNCTION for item in asked),
    )


def alternatives(plan: LazyPlan, branch: LazyBranch, statistics: Statistics) -> list[Alternative]:
    """All ways to evaluate a branch, the cheapest first."""
    model = model_of(plan, branch, statistics)
    found = [_chained(model, "eager", tuple(range(len(branch.components))))]
    known = {found[0].order}
    for name, planner in PLANNERS.items():
        order = planner(model)
        if order not in known:
            known.add(order)
            found.append(_chained(model, f"chain ({name})", order))
    best = min(found, key=lambda item: item.nanoseconds)
    assert best.order is not None
    found.append(_tree(model, best.order))
    if plan.sequence is not None:
        found.append(stacks(model))
    return sorted(found, key=lambda item: item.nanoseconds)


def best_chain(model: Model, planner: str) -> Alternative:
    """The chain in the order that a planner finds."""
    order = PLANNERS[planner](model)
    return _chained(model, "chain", order)


def cost_of(model: Model, order: Sequence[int]) -> float:
    """Nanoseconds per unit of time of a chain."""
    return chain(model, order).nanoseconds + ROW * sum(model.rates)


def _chained(model: Model, name: str, order: tuple[int, ...]) -> Alternative:
    estimate = chain(model, order)
    return Alternative(name, order, estimate.evaluations, estimate.partial_matches, cost_of(model, order))


def _tree(model: Model, order: tuple[int, ...]) -> Alternative:
    """The tree, which is expected to go the way of the best chain and to choose at every partial match."""
    estimate = chain(model, order)
    made = steps(model, order)[:-1]
    chosen = sum(CHOICE * (len(order) - depth) * step.partial_matches for depth, step in enumerate(made, 1))
    return Alternative("tree", None, estimate.evaluations, estimate.partial_matches, cost_of(model, order) + chosen)


def stacks(model: Model) -> Alternative:
    """Active instance stacks, which bind the last component first and go back from there."""
    order = tuple(reversed(range(len(model.rates))))
    made = steps(model, order)
    before = (0.0, *(step.partial_matches for step in made[:-1]))
    saved = sum(
        (SCOPE - STACK_SCOPE) * scopes + (PARTIAL - STACK_PARTIAL) * step.partial_matches
        for scopes, step in zip(before, made, strict=True)
    )
    estimate = chain(model, order)
    cost = estimate.nanoseconds - saved + STACK_ROW * sum(model.rates)
    return Alternative("active instance stacks", None, estimate.evaluations, estimate.partial_matches, max(cost, EVALUATION))
