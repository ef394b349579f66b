"""The alternatives of a lazy plan for the current events, and the estimated cost of each.

The alternatives of a branch: as written (eager), the order of each planner, the tree, and for plain sequences active instance
stacks. Any gives the same matches; the cheapest is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from itertools import combinations
from math import expm1
from operator import or_
from typing import TYPE_CHECKING

from kleene.plan.lazy.lazy import LazyBranch
from kleene.plan.order.cost import EVALUATION, PARTIAL, PROBE, Model, chain, steps, subsets
from kleene.plan.order.orders import PLANNERS
from kleene.plan.order.statistics import Statistics, window_in_units

if TYPE_CHECKING:
    from kleene.plan.patterns import LazyPlan

LISTED = 1.0
"""Nanoseconds per relevant event and component to list candidates."""
TABLED = 7.0
"""Nanoseconds per relevant event to make tables of scopes."""
COUNTED = 1.0
"""Nanoseconds more for each of the components."""
SEARCHED = 110.0
"""Nanoseconds to search for the scope of a partial match, beside looking it up."""
PUSHED = 30.0
"""Nanoseconds to push an event on its stack, or to begin construction with it."""
VISITED = 3.0
"""Nanoseconds to visit an event on a stack."""
FILTERED = 40.0
"""Nanoseconds to have the visited events of one stack decided by conditions."""
FUNCTION = 150.0
"""Nanoseconds that a condition takes which is decided on blocks of partial matches, beside EVALUATION."""
WORTH_SHARING = 8
"""Saved evaluations per partial match from which candidates are decided together."""
SHARED = 5.0
"""Nanoseconds that a partial match then takes to find those in its scope."""
BETTER = 0.97
"""Another order must cost less than this share of the one that is best by the sets of components bound."""
MOST_SWAPPED = 8
"""Components of which all pairs are tried, and each at the front: two milliseconds."""
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
        ranged=sum(1 << number for number, item in enumerate(asked) if item.ranged),
        prices=tuple(0.0 if item.compiled else FUNCTION for item in asked),
    )


def alternatives(plan: LazyPlan, branch: LazyBranch, statistics: Statistics) -> list[Alternative]:
    """All ways to evaluate a branch, the cheapest first."""
    model = model_of(plan, branch, statistics)
    found = [_chained(model, "eager", tuple(range(len(branch.components))))]
    known = {found[0].order}
    for name in PLANNERS:
        order = order_of(model, name)
        if order not in known:
            known.add(order)
            found.append(_chained(model, f"chain ({name})", order))
    best = min(found, key=lambda item: item.nanoseconds)
    assert best.order is not None
    found.append(_tree(model, best.order))
    if plan.stacks:
        found.append(stacks(model))
    return sorted(found, key=lambda item: item.nanoseconds)


@lru_cache(maxsize=64)
def best_chain(model: Model, planner: str) -> Alternative:
    """The chain in the order that a planner finds, as far as sets of components decide: what `order_of` adds takes longer."""
    order = PLANNERS[planner](model)
    return _chained(model, "chain", order)


def cost_of(model: Model, order: Sequence[int]) -> float:
    """Nanoseconds per unit of time of a chain."""
    events, components = sum(model.rates), len(order)
    partials = sum(step.partial_matches for step in steps(model, order)[:-1])
    scopes = LISTED * components * events + min(SEARCHED * partials, _tables(events, components))
    return chain(model, order).nanoseconds + scopes - _saved(model, order)


def _saved(model: Model, order: Sequence[int]) -> float:
    """Nanoseconds per unit of time that a chain saves by deciding candidates together for partial matches which follow each
    other and have the events in common that the conditions read.

    Ten b around each a, of which all suit it, and 75 c around both, a hundred around a alone, with which they are compared:

    >>> model = Model((1, 5, 50), frozenset(), ((0b011, 1.0), (0b101, 0.01)), window=1)
    >>> round((_saved(model, (0, 1, 2)) + SHARED * 10) / EVALUATION)
    655
    >>> _saved(model, (1, 0, 2))
    0.0
    """
    known, bound, saved = subsets(model), 0, 0.0
    prices = model.prices or (0.0,) * len(model.conditions)
    compiled = [mask for (mask, _), price in zip(model.conditions, prices, strict=True) if not price]
    for depth, component in enumerate(order):
        both = bound | 1 << component
        asked = [mask for mask in compiled if mask >> component & 1 and not mask & ~both]
        asked += [mask for mask, _, between in model.implied if mask >> component & 1 and not mask & ~both and between & ~both]
        read = reduce(or_, asked, 0) & ~(1 << component)
        common = 0
        for earlier in order[:depth]:
            if not read & ~common:
                break
            common |= 1 << earlier
        if common and common != bound and not known.looks_up(bound, component):
            partial_matches = known.partial_matches(bound)
            evaluations = known.extend(bound, component).evaluations
            fewer = evaluations - _decided_together(
                known.partial_matches(common), partial_matches, known.extend(common, component).evaluations, evaluations
            )
            if fewer > WORTH_SHARING * partial_matches:
                saved += EVALUATION * fewer - SHARED * partial_matches
        bound = both
    return saved


def _decided_together(groups: float, members: float, widest: float, apart: float) -> float:
    """How many candidates are evaluated if those of the members of a group are decided together.

    `widest` would be if all groups had very many members, `apart` if each member were alone. Members come by chance, so some
    groups have none. The first of k that lie anywhere leaves k / (k + 1) of the way to the furthest: the more members, the
    wider the scope of all of them.

    >>> round(_decided_together(100, 1e6, 500, 2.5e6)), round(_decided_together(100, 1, 500, 2.5), 1)
    (500, 2.5)
    """
    inhabited = -expm1(-members / groups) * groups if groups else 0.0
    if not inhabited:
        return 0.0
    alone, all_of_many = apart / members, widest / groups
    return inhabited * (all_of_many - (all_of_many - alone) * 2 / (members / inhabited + 1))


def order_of(model: Model, planner: str) -> tuple[int, ...]:
    """The order in which a chain binds by a planner; what is to be the cheapest is so by all that is known."""
    order = PLANNERS[planner](model)
    return settled(model, order) if planner == "dynamic" else order


def settled(model: Model, order: tuple[int, ...]) -> tuple[int, ...]:
    """An order that is best as far as costs depend on the sets of components bound, after changes that make it cheaper by all
    that is known; with very many components as it is.
    """
    if len(order) > MOST_SWAPPED:
        return order
    cost = cost_of(model, order)
    for change in _changes(len(order)):
        changed = tuple([order[place] for place in change])
        found = cost_of(model, changed)
        if found < BETTER * cost:
            order, cost = changed, found
    return order


@lru_cache(maxsize=MOST_SWAPPED)
def _changes(count: int) -> list[list[int]]:
    """Swaps of two components, and one brought to the front: more partial matches have in common what is bound first.

    >>> _changes(3)
    [[1, 0, 2], [2, 1, 0], [0, 2, 1], [2, 0, 1]]
    """
    places = list(range(count))
    swaps = []
    for one, other in combinations(places, 2):
        swaps.append(places.copy())
        swaps[-1][one], swaps[-1][other] = other, one
    return [*swaps, *([place, *places[:place], *places[place + 1 :]] for place in places[2:])]


def worth_tables(partials: float, events: float, components: int) -> bool:
    """Whether enough partial matches look for further events to make tables of scopes for all events."""
    return SEARCHED * partials > _tables(events, components)


def _tables(events: float, components: int) -> float:
    """Nanoseconds to make tables of scopes."""
    return (TABLED + COUNTED * components) * events


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
    """Active instance stacks, which bind the last component first and go back from there.

    What is not compiled is decided on finished sequences there.
    """
    order = tuple(reversed(range(len(model.rates))))
    priced = [item for item in zip(model.conditions, model.prices, strict=True) if item[1]]
    compiled = replace(model, conditions=tuple(item for item in model.conditions if item not in [one for one, _ in priced]))
    compiled = replace(compiled, prices=(), implied=(), ranged=0)
    made = steps(compiled, order)
    sequences = made[-1].partial_matches
    cost = PUSHED * sum(model.rates) + (PARTIAL + PROBE * model.negatives + sum(price for _, price in priced)) * sequences
    bound = 0
    for step, before in zip(made[1:], made, strict=False):
        bound |= 1 << before.component
        reach = bound | 1 << step.component
        decided = any(mask >> step.component & 1 and not mask & ~reach for mask, _ in compiled.conditions)
        cost += VISITED * step.evaluations + (FILTERED * before.partial_matches if decided else 0.0)
    evaluations, partial_matches = sum(step.evaluations for step in made), sum(step.partial_matches for step in made)
    return Alternative("active instance stacks", None, evaluations, partial_matches, cost)
