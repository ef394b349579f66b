"""What joins of partial matches cost, for trees of one clause and for nodes that many clauses share.

A node joins the partial matches of its children. Tuples in scope and partial matches per unit of the clock are those of
`kleene.plan.cost`, and so are the nanoseconds: one side is gone through, the one with fewer partial matches, and for each of
them the other side is looked up; every tuple in scope of which each side satisfies its own conditions is evaluated; what
satisfies the conditions between the sides is kept. Leaves are lists of events and cost the same in every plan: nothing.

Invariant: the cost of a node depends on its sub-pattern, its children's sub-patterns and its window, never on the clause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from kleene.pattern.predicates import Expression
from kleene.plan.cost import EVALUATION, LARGEST, PARTIAL, SCOPE, Model, Subsets
from kleene.plan.multi.clauses import Clause, Condition, ordered
from kleene.plan.statistics import UNKNOWN_SELECTIVITY

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


def join_cost(left: Estimate, right: Estimate, both: Estimate) -> float:
    """Nanoseconds per unit of the clock to join two sides.

    >>> side = Estimate(10.0, 1.0, 10.0)
    >>> join_cost(side, side, Estimate(100.0, 0.5, 50.0)) == 10 * SCOPE + 100 * EVALUATION + 50 * PARTIAL
    True
    """
    evaluated = both.tuples * (left.share * right.share)
    return SCOPE * min(left.partial_matches, right.partial_matches) + EVALUATION * evaluated + PARTIAL * both.partial_matches


class Estimates:
    """The sets of positions of a clause, as bit masks, each estimated once."""

    __slots__ = ("_conditions", "_known", "_subsets", "length", "size")

    def __init__(self, clause: Clause, statistics: SharedStatistics) -> None:
        self.size = len(clause.leaves)
        self.length = statistics.length(clause.window)
        self._conditions = tuple(
            (sum(1 << position for position in item.components), statistics.selectivity(item, clause.leaves))
            for item in clause.conditions
        )
        rates = tuple(statistics.rates[leaf] for leaf in clause.leaves)
        self._subsets = Subsets(Model(rates, clause.precedes, (), self.length, statistics.same_partition))
        self._known: dict[int, Estimate] = {}

    def of(self, mask: int) -> Estimate:
        """What is expected of a set."""
        found = self._known.get(mask)
        if found is None:
            tuples = self._subsets.tuples(mask)
            share = prod(share for read, share in self._conditions if not read & ~mask)
            found = self._known[mask] = Estimate(tuples, share, tuples * share)
        return found

    def join(self, left: int, right: int) -> float:
        """Nanoseconds per unit of the clock to join two sets."""
        return join_cost(self.of(left), self.of(right), self.of(left | right))


def scaled(estimate: Estimate, size: int, ratio: float) -> Estimate:
    """The estimate of a node of a size in a window `ratio` times as long.

    >>> scaled(Estimate(6.0, 0.5, 3.0), 3, 2.0)
    Estimate(tuples=24.0, share=0.5, partial_matches=12.0)
    """
    if size == 1 or ratio == 1.0:
        return estimate
    try:
        tuples = min(estimate.tuples * ratio ** (size - 1), LARGEST)
    except OverflowError:
        tuples = LARGEST if estimate.tuples else 0.0
    return Estimate(tuples, estimate.share, tuples * estimate.share)
