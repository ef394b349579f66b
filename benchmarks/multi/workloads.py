"""Random workloads as in section 6.1: sequences and conjunctions over random types, half of their size in conditions.

A condition compares what two types report. Which types are compared, and in which direction, is fixed for a workload: two
patterns that have the same two types ask the same of them, if anything. One in five patterns has a negative or a Kleene
component beside, of a rare type (a conjunction in a window of events a Kleene one). A pattern that would have very many matches
is drawn again: matches cost the same in every plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import factorial, prod

import numpy as np

import kleene
from benchmarks.multi.streams import ATTRIBUTES, COUNTED, SEED, TYPES, WINDOW, options
from kleene.generators import updates

SELECTIVITIES = (0.003, 0.92)
SAMPLES = 1 << 15
"""Of what all types report, to see how often conditions hold together."""
OFTEN = 0.15
"""The share of conditions that hold for most pairs."""
EXTRA = 0.2
"""The share of patterns with a negative or a Kleene component."""
MATCHES = 0.02
"""Matches per event that a pattern may be expected to have."""
MOST_DRAWS = 500
VARIABLES = "abcdefghij"


@dataclass(frozen=True, slots=True)
class Spec:
    """What a workload is made from."""

    dataset: str
    patterns: int = 100
    size: int = 5
    window: int = WINDOW
    """Milliseconds; with `counted` events."""
    counted: bool = False
    types: int = TYPES
    difference: float = 1.0
    """How far the rates of a pattern's types may be apart, relative to the farthest (appendix D)."""
    drawn_for: int = WINDOW
    """The window, in milliseconds, in which patterns have few matches."""
    number: int = 0

    @property
    def clause(self) -> str:
        return f"WITHIN {self.window} EVENTS" if self.counted else f"WITHIN {self.window} milliseconds"


def counted(spec_window: int) -> int:
    """A window of events that lasts about as long as one of milliseconds.

    >>> counted(WINDOW) == COUNTED
    True
    """
    return COUNTED * spec_window // WINDOW


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern over numbered types, one component each."""

    operator: str
    types: tuple[int, ...]
    conditions: tuple[tuple[int, int], ...]
    """Pairs of places: the first reports less than the second."""
    extra: tuple[str, int, int] | None = None
    """A negative (`!`) or Kleene (`+`) component: its type, and its place among the parts."""

    def text(self, spec: Spec, names: Sequence[str]) -> str:
        """The query.

        >>> found = Pattern("SEQ", (3, 0, 4), ((2, 0),), ("!", 1, 1))
        >>> print(kleene.query(found.text(Spec("stocks"), ["S1", "S2", "S3", "S4", "S5"])))
        PATTERN SEQ(S4 a, !(S2 n), S1 b, S5 c)
        WHERE c.diff < a.diff
        WITHIN 1000 milliseconds
        RETURN a.ts AS first
        """
        parts = [f"{names[kind]} {VARIABLES[place]}" for place, kind in enumerate(self.types)]
        if self.extra is not None:
            sign, kind, place = self.extra
            parts.insert(place, f"!({names[kind]} n)" if sign == "!" else f"{names[kind]}{{1,2}} n[]")
        compared = [
            f"{VARIABLES[less]}.{name} < {VARIABLES[more]}.{name}"
            for less, more in self.conditions
            for name in ATTRIBUTES[spec.dataset]
        ]
        where = f"WHERE {' AND '.join(compared)} " if compared else ""
        return f"PATTERN {self.operator}({', '.join(parts)}) {where}{spec.clause} RETURN a.ts AS first"


@dataclass(frozen=True, slots=True)
class Workload:
    """Patterns over the types of one stream."""

    spec: Spec
    patterns: tuple[Pattern, ...]

    def queries(self) -> dict[str, kleene.Query]:
        names = options(self.spec.dataset, types=self.spec.types).names
        texts = {f"p{number}": pattern.text(self.spec, names) for number, pattern in enumerate(self.patterns)}
        return {name: kleene.query(text, name=name) for name, text in texts.items()}

    def density(self) -> float:
        """The mean share of the other patterns that a pattern has a pair of components in common with."""
        pairs = [set(_pairs(pattern)) for pattern in self.patterns]
        found = [bool(one & other) for one, other in combinations(pairs, 2)]
        return sum(found) / max(1, len(found))


def _pairs(pattern: Pattern) -> list[tuple[str, int, int]]:
    """Two types in an order, or two types; conditions go with the types."""
    pairs = combinations(pattern.types, 2)
    return [(pattern.operator, *(pair if pattern.operator == "SEQ" else sorted(pair))) for pair in pairs]


def workload(spec: Spec) -> Workload:
    """The workload of a specification: the same one each time."""
    draw = _Draw(spec)
    return Workload(spec, tuple(draw.pattern() for _ in range(spec.patterns)))


def _sampled(spec: Spec, levels: np.ndarray) -> np.ndarray:
    """What types report: by attribute, type and sample, in standard deviations."""
    random = np.random.default_rng([SEED, spec.types])
    first, own = random.normal(size=(2, levels.size, SAMPLES))
    both = [first, updates.CORRELATION * first + np.sqrt(1 - updates.CORRELATION**2) * own]
    return levels[:, None] + np.array(both[: len(ATTRIBUTES[spec.dataset])])


class _Draw:
    """Draws patterns one after another, the same ones whatever the window."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._random = np.random.default_rng([SEED, spec.size, spec.types, spec.number])
        stream = options(spec.dataset, types=spec.types)
        self._rates: list[float] = updates.rates(stream).tolist()
        self._values = _sampled(spec, updates.levels(stream))
        # This share of pairs makes half the size in conditions.
        compared = [pair for pair in combinations(range(spec.types), 2) if self._random.random() < 1 / (spec.size - 1)]
        self._less = dict(self._directed(*pair) for pair in compared)

    def _directed(self, one: int, other: int) -> tuple[tuple[int, int], np.ndarray]:
        """Which of two types is to report less, mostly the one that seldom does, as a pattern looks for what is unusual; and
        for which samples it does.
        """
        held = {pair: self._held(*pair) for pair in ((one, other), (other, one))}
        rare, common = sorted(held, key=lambda pair: held[pair].mean())
        often = self._random.random() < OFTEN and held[common].mean() <= SELECTIVITIES[1]
        chosen = common if often else rare
        return chosen, held[chosen]

    def _held(self, less: int, more: int) -> np.ndarray:
        return (self._values[:, less] < self._values[:, more]).all(axis=0)

    def pattern(self) -> Pattern:
        """A pattern with few matches, or of many drawn the one with the fewest."""
        return min(self._candidates(), key=lambda drawn: drawn[0])[1]

    def _candidates(self) -> Iterator[tuple[float, Pattern]]:
        operator = "SEQ" if self._random.random() < 0.5 else "AND"
        extra = ("!" if self._random.random() < 0.5 else "+") if self._random.random() < EXTRA else ""
        if self._spec.counted and operator == "AND":
            extra = extra.replace("!", "+")  # a window of events has no negation under AND
        for _ in range(MOST_DRAWS):
            kinds = self._kinds()
            places = [(one, other) for one in range(len(kinds)) for other in range(len(kinds))]
            drawn = Pattern(operator, kinds, tuple(pair for pair in places if (kinds[pair[0]], kinds[pair[1]]) in self._less))
            drawn = self._with_extra(drawn, extra) if extra else drawn
            matches = self.matches(drawn)
            yield matches, drawn
            if matches <= MATCHES:
                return

    def _kinds(self) -> tuple[int, ...]:
        """Different types whose rates are not too far apart."""
        lowest, span = min(self._rates), max(self._rates) - min(self._rates)
        while True:
            least = lowest + self._random.random() * (1 - self._spec.difference) * span
            most = least + self._spec.difference * span
            near = [kind for kind, rate in enumerate(self._rates) if least <= rate <= most]
            if len(near) >= self._spec.size:
                return tuple(self._random.permutation(near)[: self._spec.size].tolist())

    def matches(self, pattern: Pattern) -> float:
        """Expected matches per event in the window that patterns are drawn for."""
        size, seconds = len(pattern.types), self._spec.drawn_for / 1_000
        held = [self._less[pattern.types[less], pattern.types[more]] for less, more in pattern.conditions]
        share = max(float(np.logical_and.reduce(held).mean()), 0.5 / SAMPLES) if held else 1.0
        ways = size if pattern.operator == "AND" else 1 / factorial(size - 1)
        tuples = prod(self._rates[kind] for kind in pattern.types) * seconds ** (size - 1)
        found = 0.0 if pattern.extra is None or pattern.extra[0] == "!" else self._rates[pattern.extra[1]] * seconds
        lists = found + found**2 / 2 if found else 1.0
        return tuples * ways * share * lists / sum(self._rates)

    def _with_extra(self, pattern: Pattern, sign: str) -> Pattern:
        rare = sorted((kind for kind in range(self._spec.types) if kind not in pattern.types), key=self._rates.__getitem__)
        kind = int(self._random.choice(rare[: self._spec.types // 4]))
        return replace(pattern, extra=(sign, kind, int(self._random.integers(1, len(pattern.types)))))
