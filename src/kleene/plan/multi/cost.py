"""What joins of partial matches cost, for trees of one clause and for nodes that many clauses share.

A node joins the partial matches of its children. Tuples in scope and partial matches per unit of the clock are those of
`kleene.plan.order.cost`: one side is gone through, and for each of its partial matches the other side is looked up. Beside a
leaf the other side is gone through, of two leaves the rarer one; every tuple in scope of which each side satisfies its own
conditions is evaluated; what satisfies the conditions between the sides is kept. If neither side is a leaf, the one that is
looked up must first be gone through to put it in order, and all of it that ends close enough is evaluated. Leaves are lists of
events and cost the same in every plan: nothing.

Conditions that read the same event seldom hold independently of each other: a price that is lower than one is not often higher
than another. How often several hold together is seen from tuples that all conditions were evaluated on.

Invariant: the cost of a node depends on its sub-pattern, its children's sub-patterns and its window, never on the clause.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import NamedTuple

from kleene.pattern.predicates import Expression
from kleene.plan.multi.clauses import Clause, Condition, ordered
from kleene.plan.order.cost import LARGEST, PARTIAL, SCOPE, Model, Subsets, partial_order
from kleene.plan.order.statistics import UNKNOWN_SELECTIVITY

EVALUATION = 6.0
"""Nanoseconds to evaluate what a join asks of one candidate; those of a single query are compiled and take half of it."""

DRAWN = 1 << 12
"""Tuples that show which conditions hold together."""
FEWEST = 32
"""With fewer tuples left that satisfy some conditions, another one is taken to be independent of them."""

ConditionKey = tuple[Expression, tuple[int, ...]]
"""A form, and the leaves of what it reads."""


def condition_key(condition: Condition, leaves: Sequence[int]) -> ConditionKey:
    """How a condition is known among statistics; `leaves` are those of the clause's positions, or of the node's slots."""
    return condition.form, ordered(condition.form, tuple(leaves[component] for component in condition.components))


@dataclass(frozen=True, slots=True)
class SharedStatistics:
    """What is known of the events of a workload."""

    rates: tuple[float, ...]
    """Events per unit of the clock, for each leaf."""
    selectivities: Mapping[ConditionKey, float] = field(default_factory=dict)
    """The share of tuples in scope that satisfy a condition."""
    held: Mapping[ConditionKey, int] = field(default_factory=dict)
    """For which of DRAWN tuples a condition holds, a bit each; one tuple has an event for every leaf. Says how often conditions
    hold together, never how often one does by itself. A condition that is not here is independent of all others.
    """
    same_partition: float = 1.0
    """The probability that two events within a window are of one partition."""
    span: float = 0.0
    """How much of the clock was observed; 0 if unknown. Windows reach no further, and without a window everything meets."""

    def selectivity(self, condition: Condition, leaves: Sequence[int]) -> float:
        return self.selectivities.get(condition_key(condition, leaves), UNKNOWN_SELECTIVITY)

    def length(self, window: int | None) -> float:
        """How far events can be apart.

        >>> SharedStatistics((), span=60.0).length(None), SharedStatistics((), span=60.0).length(10)
        (60.0, 10.0)
        """
        if window is None:
            return self.span or 1.0
        return min(float(window), self.span or LARGEST)


class Estimate(NamedTuple):
    """What is expected of a set of components, or of a node."""

    tuples: float
    """Tuples in scope per unit of the clock, whatever the conditions."""
    share: float
    """The share that satisfies the conditions on the set."""
    partial_matches: float
    """The tuples that satisfy them."""
    size: int
    """The number of components."""


def join_cost(left: Estimate, right: Estimate, both: Estimate, reach: float) -> float:
    """Nanoseconds per unit of the clock to join two sides. `reach`, on the clock, says which partial matches of two sides that
    are no leaves are compared.

    >>> leaf, pair, both = Estimate(10.0, 1.0, 10.0, 1), Estimate(25.0, 0.8, 20.0, 2), Estimate(100.0, 0.4, 40.0, 3)
    >>> join_cost(leaf, leaf, pair, 2.0) == 10 * SCOPE + 25 * EVALUATION + 20 * PARTIAL
    True
    >>> join_cost(leaf, pair, both, 2.0) == 20 * SCOPE + 80 * EVALUATION + 40 * PARTIAL
    True
    >>> join_cost(pair, pair, both, 2.0) == 40 * SCOPE + 800 * EVALUATION + 40 * PARTIAL
    True
    """
    if left.size > 1 and right.size > 1:
        looked_up = left.partial_matches + right.partial_matches
        evaluated = min(left.partial_matches * right.partial_matches * reach, LARGEST)
    else:
        looked_up = min(side.partial_matches for side in (left, right) if side.size > 1 or left.size == right.size)
        evaluated = both.tuples * (left.share * right.share)
    return SCOPE * looked_up + EVALUATION * evaluated + PARTIAL * both.partial_matches


class Estimates:
    """The sets of positions of a clause, as bit masks, each estimated once."""

    __slots__ = ("_conditions", "_known", "_order", "_subsets", "length", "near", "size")

    def __init__(self, clause: Clause, statistics: SharedStatistics) -> None:
        self.size = len(clause.leaves)
        self.length = statistics.length(clause.window)
        conditions: list[tuple[int, float, int]] = []
        for item in clause.conditions:
            key = condition_key(item, clause.leaves)
            # A tuple has one event for each leaf.
            single = all(clause.leaves.count(clause.leaves[component]) == 1 for component in item.components)
            held = statistics.held.get(key, 0) if single else 0
            read = sum(1 << component for component in item.components)
            conditions.append((read, statistics.selectivities.get(key, UNKNOWN_SELECTIVITY), held))
        self._conditions = sorted(conditions, key=lambda known: (-known[1], known[2]))  # the same order in all clauses
        rates = tuple(statistics.rates[leaf] for leaf in clause.leaves)
        self._subsets = Subsets(Model(rates, clause.precedes, (), self.length, statistics.same_partition))
        self._known: dict[int, Estimate] = {}
        self.near = self.length * statistics.same_partition
        """How much of the clock a window is to one partition."""
        self._order = partial_order(self.size, clause.precedes)

    def of(self, mask: int) -> Estimate:
        """What is expected of a set."""
        found = self._known.get(mask)
        if found is None:
            tuples = self._subsets.tuples(mask)
            share = _together((share, held) for read, share, held in self._conditions if not read & ~mask)
            found = self._known[mask] = Estimate(tuples, share, tuples * share, mask.bit_count())
        return found

    def join(self, left: int, right: int) -> float:
        """Nanoseconds per unit of the clock to join two sets."""
        near = reach(self.near, bool(self.beside(left) & right))
        return join_cost(self.of(left), self.of(right), self.of(left | right), near)

    def beside(self, mask: int) -> int:
        """The positions that come before or after some of a set."""
        return reduce(or_, (self._order.comparable[position] for position in range(self.size) if mask >> position & 1))


def _together(conditions: Iterable[tuple[float, int]]) -> float:
    """How often conditions hold together, of each of which is known how often it does and for which tuples drawn (0: unknown).

    >>> low, high = (1 << DRAWN // 2) - 1, ((1 << DRAWN // 2) - 1) << DRAWN // 2
    >>> _together([(0.5, low), (0.25, 0)]), _together([(0.5, low), (0.5, low)]), _together([(0.5, low), (0.5, high)]) < 0.001
    (0.125, 0.5, True)
    """
    found, left, count = 1.0, (1 << DRAWN) - 1, DRAWN
    for share, held in conditions:
        oftener = 1.0  # than among all tuples it holds among those left
        if held and count >= FEWEST:
            left &= held
            oftener = max(left.bit_count(), 0.5) / count * DRAWN / held.bit_count()
            count = left.bit_count()
        found *= min(share * oftener, 1.0)
    return found


def reach(length: float, ordered: bool) -> float:
    """How far on the clock partial matches are compared in a window of a length: to one side only if they are `ordered`."""
    return length if ordered else 2 * length


def scaled(estimate: Estimate, ratio: float) -> Estimate:
    """An estimate in a window `ratio` times as long.

    >>> scaled(Estimate(6.0, 0.5, 3.0, 3), 2.0)
    Estimate(tuples=24.0, share=0.5, partial_matches=12.0, size=3)
    """
    if estimate.size == 1 or ratio == 1.0:
        return estimate
    try:
        tuples = min(estimate.tuples * ratio ** (estimate.size - 1), LARGEST)
    except OverflowError:
        tuples = LARGEST if estimate.tuples else 0.0
    return Estimate(tuples, estimate.share, tuples * estimate.share, estimate.size)
