"""What an order of binding costs: expected evaluations and partial matches per unit of time.

A branch is evaluated by binding its components one after another. For every partial match a step looks at all candidates of
the next component in scope (inside the window, on the right side of the events bound so far) and evaluates the conditions that
become decidable. With events that arrive evenly and independently (a Poisson stream per component) the tuples of one event for
each of k components that lie within a window W, in order and in one partition number

    r_1 ... r_k * (p W)^(k-1) * L / (k-1)!

per unit of time: the earliest event lies anywhere, the others in the window after it, and L of their k! sequences respect the
order (its linear extensions; p is the probability that two events are of one partition). Conditions thin the tuples out
independently of each other. This is the cost W^k * r_1 ... r_k * sel of the multi-pattern paper (section 3.3) per unit of time
instead of per window, without the tuples that are out of scope.

A Kleene component binds any non-empty subsequence of its c = r p W candidates in a window, 2^c - 1 instead of c of them: its
rate counts (2^c - 1) / c times, and never less than once. Where neighbours narrow the scope to a share s of the window this is
too much (2^(s c) - 1 < s (2^c - 1)), so Kleene components are bound late rather than early. Negative components are probed
once for each complete match, whatever the order.

Where a condition that leaves a range of values satisfies few of very many candidates in scope, these are looked up by value
(`kleene.engine.lazy.look_up`): only those in the range are evaluated.

Invariant: what a step costs depends on the set of components bound and on the next one, never on the order in which the set was
bound. Every number is finite: products stop at LARGEST, exponents at LARGEST_EXPONENT.
Cost: microseconds for each new set, remembered by `Subsets`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb, factorial, prod

EVALUATION = 1.5
"""Nanoseconds to evaluate the conditions of a step on one candidate."""
PARTIAL = 12.0
"""Nanoseconds to keep one partial match."""
SCOPE = 40.0
"""Nanoseconds to look up the candidates in scope of one partial match."""
LOOK_UP = 150.0
"""Nanoseconds to look up by value the candidates of one partial match..."""
RANKED = 60.0
"""...and to order a candidate for that."""
WORTH_RANGING = 128
"""The fewest candidates in scope that are looked up by value, where..."""
FEW_OF = 5
"""...at most one in 2 to this power of them satisfies the condition."""
PROBE = 25.0
"""Nanoseconds to look for the events of one negative component around one complete match."""

LARGEST = 1e150
"""Rates, windows and numbers of tuples are cut off here: the product of two is still a number."""
LARGEST_EXPONENT = 60.0
"""A Kleene component has at most 2 to this power subsequences to choose from."""


@dataclass(frozen=True, slots=True)
class Model:
    """What a planner knows of a branch: numbers only. Sets of components are bit masks."""

    rates: tuple[float, ...]
    """Events per unit of time that each component can bind by itself, of all partitions."""
    precedes: frozenset[tuple[int, int]]
    """(i, j): component i precedes component j; transitively closed."""
    conditions: tuple[tuple[int, float], ...]
    """The components that a condition reads, and the share of tuples in scope that satisfy it."""
    window: float
    """The length of the window in the unit of time of the rates."""
    same_partition: float = 1.0
    """The probability that two events are of one partition."""
    kleene: int = 0
    """The Kleene components."""
    negatives: int = 0
    """How many negative components are probed for each complete match."""
    implied: tuple[tuple[int, float, int], ...] = ()
    """Comparisons that conditions imply: the components read, the share that satisfies them, and the components between. They
    are asked, and thin tuples out, until the latter are bound.
    """
    ranged: int = 0
    """The conditions, a bit each, that leave a range of values to the candidates of a component."""
    prices: tuple[float, ...] = ()
    """What each condition costs beside EVALUATION, in nanoseconds; nothing if empty."""

    def __post_init__(self) -> None:
        assert self.rates, "a branch has a component"
        assert all(rate >= 0 for rate in self.rates), self.rates
        assert all(mask >> len(self.rates) == 0 and 0 <= share <= 1 for mask, share in self.conditions), self.conditions
        assert self.window >= 0, self.window
        assert 0 <= self.same_partition <= 1, self.same_partition


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an order costs per unit of time: evaluations and partial matches of all steps, complete matches included."""

    evaluations: float
    partial_matches: float
    nanoseconds: float


@dataclass(frozen=True, slots=True)
class Step:
    """What binding one more component costs per unit of time; `partial_matches` are those that hold after it."""

    component: int
    evaluations: float
    partial_matches: float
    nanoseconds: float


def chain(model: Model, order: Sequence[int]) -> Estimate:
    """The cost of binding in an order; the order of appearance is the eager one.

    A hundred a, a hundred b and a single c in a window, of which one b suits c (section 4 of the lazy-NFA paper):

    >>> model = Model((100, 100, 1), frozenset({(0, 1), (0, 2), (1, 2)}), ((0b011, 1.0), (0b110, 0.01)), window=1)
    >>> chain(model, (0, 1, 2)).evaluations, chain(model, (2, 1, 0)).evaluations
    (15100.0, 151.0)
    """
    found = steps(model, order)
    probes = PROBE * model.negatives * found[-1].partial_matches
    return Estimate(
        sum(step.evaluations for step in found),
        sum(step.partial_matches for step in found),
        sum(step.nanoseconds for step in found) + probes,
    )


def steps(model: Model, order: Sequence[int]) -> tuple[Step, ...]:
    """The cost of each step of an order of all components.

    >>> model = Model((10, 1), frozenset({(0, 1)}), ((0b11, 0.5),), window=2)
    >>> [(step.evaluations, step.partial_matches) for step in steps(model, (1, 0))]
    [(1.0, 1.0), (20.0, 10.0)]
    """
    assert sorted(order) == list(range(len(model.rates))), order
    known, bound, found = subsets(model), 0, []
    for component in order:
        found.append(known.extend(bound, component))
        bound |= 1 << component
    return tuple(found)


@lru_cache(maxsize=8)
def subsets(model: Model) -> Subsets:
    """The sets of components of a model; the same object while the model is in use."""
    return Subsets(model)


@lru_cache(maxsize=64)
def partial_order(count: int, precedes: frozenset[tuple[int, int]]) -> PartialOrder:
    """The order of the components; the same object for all models of a branch, for extensions take time to count."""
    return PartialOrder(count, precedes)


class PartialOrder:
    """The order of the components of a branch: of each those after it and those on either side of it, as sets; and the linear
    extensions of sets, each counted once.
    """

    __slots__ = ("_extensions", "_incomparable", "after", "comparable")

    def __init__(self, count: int, precedes: frozenset[tuple[int, int]]) -> None:
        components = range(count)
        self.after = [sum(1 << j for j in components if (i, j) in precedes) for i in components]
        assert all(self.after[j] & ~self.after[i] == 0 for i, j in precedes), "the order is transitively closed"
        before = [sum(1 << i for i in components if (i, j) in precedes) for j in components]
        everything = (1 << count) - 1
        self.comparable = [self.after[i] | before[i] for i in components]
        assert not any(self.comparable[i] >> i & 1 for i in components), "nothing precedes itself"
        self._incomparable = [everything & ~self.comparable[i] for i in components]
        self._extensions = {0: 1}

    def extensions(self, mask: int) -> int:
        """The linear extensions of the order on a set.

        A set whose parts are ordered one after another, or not at all, is counted part by part. SEQ and AND make no other
        sets, so that this takes polynomial time; any other order is counted by the component that comes last.

        >>> PartialOrder(3, frozenset({(0, 2), (1, 2)})).extensions(0b111)
        2
        """
        found = self._extensions.get(mask)
        if found is None:
            found = self._extensions[mask] = self._count(mask)
        return found

    def _count(self, mask: int) -> int:
        part = _connected(self.comparable, mask)
        if part != mask:
            interleaved = comb(mask.bit_count(), part.bit_count())
            return interleaved * self.extensions(part) * self.extensions(mask ^ part)
        part = _connected(self._incomparable, mask)
        if part != mask:
            return self.extensions(part) * self.extensions(mask ^ part)
        last = (i for i in range(mask.bit_length()) if mask >> i & 1 and not self.after[i] & mask)
        return sum(self.extensions(mask ^ 1 << i) for i in last)


class Subsets:
    """Sets of components of a model, each estimated once.

    >>> Subsets(Model((3, 5), frozenset(), (), window=2)).tuples(0b11)
    60.0
    """

    __slots__ = (
        "_conditions", "_decided", "_implied", "_known", "_order", "_prices", "_ranged", "_rates", "_reach",
    )  # fmt: skip

    def __init__(self, model: Model) -> None:
        self._reach = min(model.window, LARGEST) * model.same_partition
        self._rates = [_rate(rate, self._reach, model.kleene >> i & 1) for i, rate in enumerate(model.rates)]
        self._order = partial_order(len(model.rates), model.precedes)
        # By the highest component read, so that a set adds what its highest component decides to what the others decide.
        self._implied = model.implied
        self._prices = [(mask, price) for (mask, _), price in zip(model.conditions, model.prices, strict=False) if price]
        few = [item for number, item in enumerate(model.conditions) if (model.ranged >> number) & 1]
        self._ranged = [(mask, share) for mask, share in few if share * (1 << FEW_OF) <= 1]
        self._conditions: list[list[tuple[int, float]]] = [[] for _ in range(len(model.rates) + 1)]
        for mask, share in model.conditions:
            self._conditions[mask.bit_length()].append((mask, share))
        constant = prod(share for _, share in self._conditions[0])
        self._known: dict[int, tuple[float, float, float]] = {0: (1.0, constant, 0.0)}
        self._decided: dict[int, tuple[float, float]] = {}

    def extend(self, bound: int, component: int) -> Step:
        """The cost of binding a component when the set `bound` is bound.

        >>> Subsets(Model((10, 1), frozenset(), (), window=2)).extend(0b10, 0).evaluations
        40.0
        """
        assert not bound >> component & 1, "a component is bound once"
        tuples, decided = self._totals(bound | 1 << component)
        (nanoseconds,) = self.costs(bound, (component,))
        return Step(component, tuples * self._totals(bound)[1], tuples * decided, nanoseconds)

    def costs(self, bound: int, components: Iterable[int]) -> list[float]:
        """The same in time alone, of several components: planners ask that of many sets."""
        before, decided = self._totals(bound)
        scopes, known, found = SCOPE * before * decided, self._decided, []
        for component in components:
            both = bound | 1 << component
            tuples, share = known.get(both) or self._totals(both)
            price = EVALUATION
            for mask, further in self._prices:
                if mask >> component & 1 and not mask & ~both:
                    price += further
            evaluations = price * tuples * decided
            if self._ranged and self.looks_up(bound, component):
                left = min(share for mask, share in self._ranged if mask >> component & 1 and not mask & ~both)
                evaluations = evaluations * left + LOOK_UP * before * decided + RANKED * self._rates[component]
            found.append(evaluations + PARTIAL * tuples * share + scopes)
        return found

    def looks_up(self, bound: int, component: int) -> bool:
        """Whether candidates of a component are looked up by value when the set `bound` is bound.

        >>> models = [Model((1000, 1000), frozenset(), ((0b11, 0.001),), window, ranged=0b1) for window in (1, 0.01)]
        >>> [Subsets(model).looks_up(0b01, 1) for model in models]
        [True, False]
        """
        both = bound | 1 << component
        if not any(mask >> component & 1 and not mask & ~both for mask, _ in self._ranged):
            return False
        return self._totals(both)[0] >= WORTH_RANGING * self._totals(bound)[0]

    def tuples(self, mask: int) -> float:
        """Tuples of one event for each component of a set in scope of each other, per unit of time; none of the empty set."""
        return self._estimated(mask)[2]

    def partial_matches(self, mask: int) -> float:
        """The tuples that satisfy all conditions on the set."""
        tuples, decided = self._totals(mask)
        return tuples * decided

    def _totals(self, mask: int) -> tuple[float, float]:
        """The tuples of a set, and the share of them that satisfies the conditions on it, implied ones included."""
        found = self._decided.get(mask)
        if found is None:
            _, share, tuples = self._estimated(mask)
            for read, implied, between in self._implied:
                if not read & ~mask and between & ~mask:
                    share *= implied
            found = self._decided[mask] = tuples, share
        return found

    def extensions(self, mask: int) -> int:
        """The linear extensions of the order on a set: in how many sequences its events may come."""
        return self._order.extensions(mask)

    def _estimated(self, mask: int) -> tuple[float, float, float]:
        """Of a set: r_1 ... r_k (p W)^(k-1), the share of tuples that satisfies its conditions, and the number of tuples."""
        found = self._known.get(mask)
        if found is not None:
            return found
        highest = mask.bit_length()
        others = mask ^ 1 << highest - 1
        weight, decided, _ = self._estimated(others)
        rate = self._rates[highest - 1]
        weight = min(weight * rate * self._reach, LARGEST) if others else rate
        for read, share in self._conditions[highest]:
            if not read & ~mask:
                decided *= share
        tuples = min(weight * (self.extensions(mask) / factorial(mask.bit_count() - 1)), LARGEST)
        self._known[mask] = weight, decided, tuples
        return weight, decided, tuples


def _rate(rate: float, reach: float, kleene: int) -> float:
    """A rate as it counts: that of a Kleene component once for each subsequence instead of each candidate.

    >>> _rate(2, 1.5, 0), _rate(2, 1.5, 1), _rate(0.1, 1.5, 1)
    (2, 4.666666666666667, 0.1)
    """
    rate = min(rate, LARGEST)
    candidates = rate * reach
    if not kleene or candidates <= 1:
        return rate
    subsequences: float = 2.0 ** min(candidates, LARGEST_EXPONENT) - 1
    return rate * max(1.0, subsequences / candidates)


def _connected(neighbours: Sequence[int], mask: int) -> int:
    """The components of a set that are connected with its lowest one.

    >>> _connected([0b010, 0b101, 0b010], 0b101)
    1
    """
    reached = ahead = mask & -mask
    while ahead and reached != mask:
        lowest = ahead & -ahead
        found = neighbours[lowest.bit_length() - 1] & mask & ~reached
        reached |= found
        ahead = (ahead ^ lowest) | found
    return reached
