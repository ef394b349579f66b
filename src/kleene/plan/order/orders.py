"""In which order to bind the components of a branch: planners from a cost model to an order.

Every order is legal and gives the same matches, Kleene components included. What a step costs depends on the set bound before
it, not on how that set was bound, so the best order of a set is the best order of a subset and one step more: `dynamic` is
exact while it keeps all sets of a size, and a bounded search beyond. `as_written` is the eager NFA of the lazy-NFA paper,
`by_rate` its selectivity order (section 4).

Invariant: an order depends on the model only; among orders of equal cost, planners prefer components as written.
Cost: `dynamic` tries at most MOST_STEPS steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from kleene.plan.order.cost import Model, Subsets, chain, subsets

Planner = Callable[[Model], tuple[int, ...]]

MOST_STEPS = 40_000
"""Most steps that `dynamic` tries. They suffice for all sets of 10 components."""
RESTARTS = 3
"""Random orders that `iterative` starts from, after the greedy one."""
ROUNDS = 50
"""Most moves by which `iterative` improves an order."""
WIDEST_MOVE = 8
"""Most positions that such a move spans."""
ROUNDING = 1e-9
"""Equal sums of costs may differ by this share: no saving."""


def as_written(model: Model) -> tuple[int, ...]:
    """The order of appearance.

    >>> as_written(Model((3, 1, 2), frozenset(), (), window=1))
    (0, 1, 2)
    """
    return tuple(range(len(model.rates)))


def by_rate(model: Model) -> tuple[int, ...]:
    """The rarest component first.

    >>> by_rate(Model((3, 1, 2), frozenset(), (), window=1))
    (1, 2, 0)
    """
    return tuple(sorted(range(len(model.rates)), key=lambda component: model.rates[component]))


def greedy(model: Model) -> tuple[int, ...]:
    """Always the component that adds the least cost.

    >>> greedy(Model((3, 1, 2), frozenset(), ((0b011, 0.1),), window=1))
    (1, 0, 2)
    """
    known, bound, order = subsets(model), 0, []
    rest = list(range(len(model.rates)))
    while rest:
        costs = known.costs(bound, rest)
        best = rest.pop(costs.index(min(costs)))
        order.append(best)
        bound |= 1 << best
    return tuple(order)


def dynamic(model: Model) -> tuple[int, ...]:
    """The best of all orders, found set by set; with many components only the cheapest sets of each size are kept.

    Two frequent components with a selective condition between them are bound before a rarer one that nothing ties to them:

    >>> model = Model((4, 5, 3), frozenset(), ((0b011, 0.01),), window=1)
    >>> dynamic(model), greedy(model)
    ((0, 1, 2), (2, 0, 1))
    """
    known, count = subsets(model), len(model.rates)
    kept = MOST_STEPS // count**2
    best: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    for _ in range(count):
        longer: dict[int, tuple[float, tuple[int, ...]]] = {}
        for bound, (cost, order) in best.items():
            rest = [component for component in range(count) if not bound >> component & 1]
            for component, further in zip(rest, known.costs(bound, rest), strict=True):
                mask, total = bound | 1 << component, cost + further
                other = longer.get(mask)
                if other is None or total <= other[0]:
                    found = (total, (*order, component))
                    longer[mask] = found if other is None else min(found, other)
        best = dict(sorted(longer.items(), key=lambda item: item[1])[:kept])
    ((_, order),) = best.values()
    return order


def iterative(model: Model) -> tuple[int, ...]:
    """The greedy order and a few random ones, each improved by the best swap or cyclic move of three while one helps; the best.

    >>> iterative(Model((4, 5, 3), frozenset(), ((0b011, 0.01),), window=1))
    (0, 1, 2)
    """
    random = np.random.default_rng(0)
    starts = [greedy(model), *(tuple(random.permutation(len(model.rates)).tolist()) for _ in range(RESTARTS))]
    return min((_improved(subsets(model), start) for start in starts), key=lambda order: chain(model, order).nanoseconds)


def _improved(known: Subsets, order: tuple[int, ...]) -> tuple[int, ...]:
    for _ in range(ROUNDS):
        better = _best_move(known, order)
        if better is None:
            break
        order = better
    return order


def _best_move(known: Subsets, order: tuple[int, ...]) -> tuple[int, ...] | None:
    """The order after the move that saves most; None if none saves anything.

    A move changes nothing for the steps before the first and after the last component moved.
    """
    costs = list(_costs(known, 0, order))
    most, best, bound = 0.0, None, 0
    for low, component in enumerate(order):
        for moved in _moves(order[low : low + WIDEST_MOVE]):
            high = low + len(moved)
            now, cost = sum(costs[low:high]), 0.0
            for step in _costs(known, bound, moved):
                cost += step
                if now - cost <= max(most, ROUNDING * now):
                    break
            else:
                most, best = now - cost, (*order[:low], *moved, *order[high:])
        bound |= 1 << component
    return best


def _moves(part: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The part up to the last component moved, after each swap and cyclic move of three that moves the first component.

    >>> list(_moves((0, 1, 2)))
    [(1, 0), (2, 1, 0), (1, 2, 0), (2, 0, 1)]
    """
    first = part[0]
    for high in range(1, len(part)):
        last = part[high]
        yield (last, *part[1:high], first)
        for middle in range(1, high):
            before, after = part[1:middle], part[middle + 1 : high]
            yield (part[middle], *before, last, *after, first)
            yield (last, *before, first, *after, part[middle])


def _costs(known: Subsets, bound: int, order: Sequence[int]) -> Iterator[float]:
    """What the steps cost that bind some components in an order when the set `bound` is bound."""
    for component in order:
        yield known.costs(bound, (component,))[0]
        bound |= 1 << component


PLANNERS: dict[str, Planner] = {
    "written": as_written,
    "rate": by_rate,
    "greedy": greedy,
    "dynamic": dynamic,
    "iterative": iterative,
}
