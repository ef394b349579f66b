"""Random workloads: a pattern of 3 to 6 components over a stream of its own, with a window that good orders can afford.

Rates spread over three decades. Conditions between two components have selectivities spread over two and a half: a comparison
with a distance, an equality, or in some workloads a chain of plain comparisons, which imply others. Some have a key.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import factorial, prod, sqrt

import numpy as np
import pyarrow as pa

import kleene
from benchmarks.lazy.streams import SEED, Scale, typed

VARIABLES = "abcdef"
WORK_PER_EVENT = 25.0
"""What the best order is expected to take per event, at most: evaluations, a partial match counting as several."""
AFFORDABLE = 250.0
"""What an order may take at most to be tried."""
PARTIAL = 10.0
MATCHES_PER_EVENT = 1.0


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition between two components, on an attribute of its own or one that all share."""

    left: int
    right: int
    selectivity: float
    text: str
    attribute: str
    values: int
    """How many values the attribute has; 0 for numbers between 0 and 1."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A query and its events."""

    number: int
    operator: str
    rates: tuple[float, ...]
    """Events of each component per event of the stream."""
    conditions: tuple[Condition, ...]
    keys: int
    """How many values the key has; 1 without a key."""
    window: int
    events: int

    @property
    def variables(self) -> str:
        return VARIABLES[: len(self.rates)]

    def work(self, order: str) -> float:
        """What to expect of an order of binding, per event."""
        places = [self.variables.index(name) for name in order]
        sets = [sum(1 << place for place in places[:count]) for count in range(len(places) + 1)]
        return sum(self.model.step(bound, reached) for bound, reached in pairwise(sets))

    @property
    def model(self) -> Model:
        return Model(self.rates, self.conditions, self.operator, self.window / self.keys)

    def query(self) -> kleene.Query:
        components = ", ".join(f"{name.upper()} {name}" for name in self.variables)
        conjuncts = [*(["[key]"] if self.keys > 1 else []), *(condition.text for condition in self.conditions)]
        where = f"WHERE {' AND '.join(conjuncts)} " if conjuncts else ""
        returned = ", ".join(f"{name}.ts AS {name}" for name in self.variables)
        return kleene.query(f"PATTERN {self.operator}({components}) {where}WITHIN {self.window} RETURN {returned}")

    def table(self) -> pa.Table:
        random = random_of(self.number, 1)
        irrelevant = max(0.0, 1 - sum(self.rates))
        kinds = random.choice(len(self.rates) + 1, self.events, p=[*self.rates, irrelevant])
        attributes = {
            item.attribute: random.integers(0, item.values, self.events) if item.values else random.random(self.events)
            for item in {item.attribute: item for item in self.conditions}.values()
        }
        if self.keys > 1:
            attributes["key"] = random.integers(0, self.keys, self.events)
        return typed(kinds, attributes, [*self.variables.upper(), "Other"])


def workload(number: int, scale: Scale) -> Workload:
    """The workload of a number; the same at every scale but for the length of its stream.

    >>> from benchmarks.lazy.streams import SCALES
    >>> print(workload(4, SCALES["tiny"]).query())
    PATTERN SEQ(A a, B b, C c, D d)
    WHERE a.x0 + 0.908 < b.x0 AND b.g1 = c.g1
    WITHIN 609
    RETURN a.ts AS a, b.ts AS b, c.ts AS c, d.ts AS d
    """
    random = random_of(number, 0)
    count = int(random.integers(3, 7))
    operator = "AND" if random.random() < 0.35 else "SEQ"
    weights = 10.0 ** -random.uniform(0, 3, count)
    rates = tuple((weights / weights.sum() * random.uniform(0.5, 1)).tolist())
    rising = operator == "SEQ" and random.random() < 0.2
    conditions = _rising(count) if rising else _pairs(random, count)
    keys = int(random.integers(2, 51)) if random.random() < 0.3 else 1
    room = 10.0 ** -random.uniform(0, 0.5)
    window = max(5, int(room * widest_window(rates, conditions, operator, keys)))
    fewest, most = scale.workload_events
    return Workload(number, operator, rates, conditions, keys, window, int(fewest + random.random() * (most - fewest)))


@dataclass(frozen=True, slots=True)
class Model:
    """Expected tuples per event if events are independent. Sets of components are bit masks."""

    rates: tuple[float, ...]
    conditions: tuple[Condition, ...]
    operator: str
    window: float
    """The events of one key in the window."""

    def tuples(self, mask: int, satisfied: int) -> float:
        """Tuples of a set's events in the window and in order that satisfy the conditions within another set.

        >>> round(Model((0.1, 0.1), (), "SEQ", 50.0).tuples(0b11, 0b11), 6)
        0.5
        """
        count = mask.bit_count()
        orders = count if self.operator == "AND" else 1 / factorial(count - 1)
        rates = prod(rate for place, rate in enumerate(self.rates) if (mask >> place) & 1)
        shares = prod(item.selectivity for item in self.conditions if (satisfied >> item.left) & (satisfied >> item.right) & 1)
        return rates * self.window ** (count - 1) * orders * shares

    def step(self, bound: int, reached: int) -> float:
        """The work of binding one component more."""
        return self.tuples(reached, bound) + PARTIAL * self.tuples(reached, reached)

    def best(self) -> float:
        """The work of the best order.

        >>> round(Model((0.1, 0.1), (), "SEQ", 50.0).best(), 6)
        6.6
        """
        least = {0: 0.0}
        for mask in range(1, 1 << len(self.rates)):
            before = [mask & ~(1 << place) for place in range(len(self.rates)) if (mask >> place) & 1]
            least[mask] = min(least[rest] + self.step(rest, mask) for rest in before)
        return least[(1 << len(self.rates)) - 1]


def widest_window(rates: tuple[float, ...], conditions: tuple[Condition, ...], operator: str, keys: int) -> float:
    """The widest window, at most 10,000 events, in which neither the work of the best order nor the matches are too many."""
    everything = (1 << len(rates)) - 1
    low, high = 1.0, 10_000.0
    for _ in range(20):
        middle = sqrt(low * high)
        model = Model(rates, conditions, operator, middle / keys)
        affordable = model.best() <= WORK_PER_EVENT and model.tuples(everything, everything) <= MATCHES_PER_EVENT
        low, high = (middle, high) if affordable else (low, middle)
    return low


def _rising(count: int) -> tuple[Condition, ...]:
    """a.x < b.x AND b.x < c.x ..., counted as independent."""
    names = VARIABLES[:count]
    return tuple(
        Condition(place, place + 1, 0.5, f"{names[place]}.x < {names[place + 1]}.x", "x", 0) for place in range(count - 1)
    )


def _pairs(random: np.random.Generator, count: int) -> tuple[Condition, ...]:
    """Neighbours mostly have a condition between them, others seldom."""
    found: list[Condition] = []
    for left in range(count):
        for right in range(left + 1, count):
            if random.random() < (0.75 if right == left + 1 else 0.2):
                found.append(_condition(random, left, right, len(found)))
    return tuple(found)


def _condition(random: np.random.Generator, left: int, right: int, number: int) -> Condition:
    one, other = VARIABLES[left], VARIABLES[right]
    selectivity = float(10.0 ** -random.uniform(0.05, 2.5))
    if random.random() < 0.25:
        values = max(2, round(1 / selectivity))
        return Condition(left, right, 1 / values, f"{one}.g{number} = {other}.g{number}", f"g{number}", values)
    distance = round(1 - sqrt(2 * min(selectivity, 1 - selectivity)), 4)
    compared = f"{one}.x{number} + {distance} < {other}.x{number}"
    if selectivity > 0.5:
        compared = f"{one}.x{number} < {other}.x{number} + {distance}"
    return Condition(left, right, selectivity, compared, f"x{number}", 0)


def random_of(number: int, part: int) -> np.random.Generator:
    """The random numbers of a part of a workload."""
    return np.random.default_rng([SEED, 200, number, part])
