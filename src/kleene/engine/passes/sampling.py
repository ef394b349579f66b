"""How often conditions hold among tuples of events in scope of each other: of one partition, inside the window, in order.

Tuples begin with events of the rarest variable and are extended by one variable at a time: the candidates in scope of a tuple
are a range, and tuples are drawn evenly from all pairs of a tuple and a candidate. Which events are candidates, which of them
are in scope, and for how many tuples a condition holds, is asked of a source of events: `WorkingRows` here, the events of a
lazy pass in `kleene.engine.lazy.sample`. A Kleene variable is one event here; so what reads several of its elements is not
measured, and neither is a condition of which no tuple is found.

Cost: some 0.1 ms a condition to draw tuples; about 1 ms to evaluate it on columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from functools import reduce
from operator import or_
from typing import Any, Protocol

import numpy as np

from kleene.common.arrays import Array
from kleene.common.errors import DataError
from kleene.engine.events.grouping import combined_codes, without_nulls
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.matches.match_values import Gather, MatchEvaluator, MatchRows
from kleene.engine.matches.matches import Matches
from kleene.pattern.bound import BoundQuery
from kleene.pattern.conditions import condition_of
from kleene.pattern.predicates import Aggregate, Expression, Length, walk
from kleene.pattern.text import expression_text

FEWEST = 32
"""With fewer tuples in scope, others are looked at."""

LOOKED_AT = 1 << 15
"""How many rows of a working set are looked at, in stretches of consecutive rows."""

STRETCHES = 8

Tuples = Mapping[str, Array]
"""Of each variable the event of each tuple, in the numbers of the source."""


class Scope(IntEnum):
    """Which candidates extend a tuple: those of its partition that lie in its window and in order, or more."""

    IN_SCOPE = 0
    ANY_TIME = 1
    """Also those outside the window."""
    ANYWHERE = 2


class Source(Protocol):
    """Events that tuples are drawn from; the candidates of a variable have numbers from 0 on."""

    random: np.random.Generator
    tries: Sequence[tuple[Scope, int]]
    """What is looked at until there are enough tuples: a scope, and how many times as many events of the first variable."""

    def count(self, variable: str) -> int:
        """How many candidates a variable has."""

    def candidates(self, variable: str, numbers: Array) -> Array:
        """The events of some candidates."""

    def ranges(self, tuples: Tuples, variable: str, scope: Scope) -> tuple[Array, Array]:
        """The numbers `[begin, end)` of the candidates in scope of each tuple."""

    def rows(self, events: Array) -> Array:
        """The rows of some events."""


def selectivity(source: Source, variables: Iterable[str], held: Callable[[Tuples], int | None], pairs: int) -> float | None:
    """The share of the tuples in scope for which a condition between some variables holds, by about `pairs` of them.

    `held` tells for how many of some tuples it holds. None if it cannot be said, or if there are no tuples.
    """
    first, *others = sorted(variables, key=lambda name: (source.count(name), name))
    tuples: Tuples = {}
    for scope, times in source.tries:
        tuples = {first: source.candidates(first, drawn(source.random, source.count(first), times * pairs))}
        for variable in others:
            tuples = _extended(source, tuples, variable, scope, pairs)
        if _size(tuples) >= FEWEST:
            break
    found = held(tuples) if _size(tuples) else None
    return None if found is None else share(found, _size(tuples))


def _extended(source: Source, tuples: Tuples, variable: str, scope: Scope, pairs: int) -> Tuples:
    """Tuples with a candidate each, drawn from all pairs of a tuple and a candidate in its scope."""
    begin, end = source.ranges(tuples, variable, scope)
    counts = np.maximum(end - begin, 0)
    ends = np.cumsum(counts)
    numbers = drawn(source.random, int(ends[-1]) if ends.size else 0, pairs)
    which = np.searchsorted(ends, numbers, side="right")
    chosen = source.candidates(variable, begin.take(which) + numbers - (ends - counts).take(which))
    extended = {name: events.take(which) for name, events in tuples.items()}
    distinct = np.ones(chosen.size, bool)
    for events in extended.values():
        distinct &= events != chosen
    return {name: events[distinct] for name, events in (*extended.items(), (variable, chosen))}


def _size(tuples: Tuples) -> int:
    return int(next(iter(tuples.values())).size)


def selectivity_on_columns(
    source: Source, bound: BoundQuery, gather: Gather, condition: Expression, pairs: int
) -> float | None:
    """The selectivity of any condition that one event for each variable decides."""
    kleene = frozenset(event.variable for event in bound.components if event.is_kleene)
    parts = condition_of(condition, kleene)
    several = any(len(parts.kinds(variable)) > 1 for variable in kleene)
    if not parts.variables or parts.running or several or any(isinstance(node, Length | Aggregate) for node in walk(condition)):
        return None

    def held(tuples: Tuples) -> int | None:
        found = holds(bound, gather, condition, {name: source.rows(events) for name, events in tuples.items()})
        return None if found is None else int(found.sum())

    return selectivity(source, parts.variables, held, pairs)


def holds(bound: BoundQuery, gather: Gather, condition: Expression, rows: Mapping[str, Array]) -> Array | None:
    """For which tuples of rows a condition holds, Kleene variables with one element; None if it fails on one."""
    kleene = {event.variable for event in bound.components if event.is_kleene}
    any_row = next(iter(rows.values()))
    matches = Matches(
        any_row.size,
        {name: own for name, own in rows.items() if name not in kleene},
        {name: (np.arange(own.size + 1), own) for name, own in rows.items() if name in kleene},
        any_row,
        any_row,
    )
    try:
        return MatchEvaluator(bound, gather, MatchRows(matches)).holds(condition)
    except DataError:  # of tuples that no plan need ever look at
        return None


def drawn(random: np.random.Generator, count: int, most: int) -> Array:
    """At most `most` of the numbers below `count`, in order: one at random of each of as many equal parts."""
    if count <= most:
        return np.arange(count)
    numbers = (np.arange(most) + random.random(most)) * (count / most)
    return np.minimum(numbers.astype(np.int64), count - 1)


def share(held: int, count: int) -> float:
    """The share of `held` among `count`, never 0, which a sample cannot tell.

    >>> share(0, 99), share(1, 1)
    (0.005, 0.75)
    """
    return min(1.0, (held + 0.5) / (count + 1))


def stretches(rows: int, most: int, count: int = STRETCHES) -> Array:
    """At most `most` of the rows, in `count` stretches that are spread evenly.

    >>> stretches(100, 6, 2)
    array([ 0,  1,  2, 97, 98, 99])
    """
    if rows <= most:
        return np.arange(rows)
    length = most // count
    begins = np.arange(count) * (rows - length) // (count - 1)
    return (begins[:, None] + np.arange(length)).ravel()


class WorkingRows:
    """The rows of a working set that some positive variable can bind, as a source of tuples.

    An event is a row, numbered from 0 in stream order among those that are looked at. Candidates are in order of partition and
    row, as numbers `code * rows + row`: those in scope are a range. Where hardly any tuple is in scope, the window is
    disregarded, then partition and order too.

    Cost: codes and a sort of the rows that are looked at, where there is a partition.
    """

    tries: Sequence[tuple[Scope, int]] = tuple((scope, 1) for scope in Scope)

    def __init__(
        self,
        bound: BoundQuery,
        bits: Mapping[str, int],
        partition: Sequence[str],
        working: WorkingSet,
        most: int | None = LOOKED_AT,
        seed: int = 0,
        masks: Array | None = None,
    ) -> None:
        """`most` bounds the rows that are looked at; `masks` are those of the working set unless others are given."""
        self._bound = bound
        self._working = working
        self.random = np.random.default_rng(seed)
        masks = working.masks if masks is None else masks
        some = reduce(or_, (1 << bit for bit in bits.values()), 0)
        rows = stretches(len(working), len(working) if most is None else most)
        looked = rows.size
        rows = rows[(masks.take(rows) & some) != 0]
        self.events = round(rows.size * len(working) / looked) if looked else 0
        """About how many rows some positive variable can bind."""
        self._rows = rows
        self._ts = working.ts.take(rows)
        masks = masks.take(rows)
        self._codes, self._by_key = np.zeros(rows.size, np.int64), np.arange(rows.size)
        if partition and rows.size:
            self._codes, count = combined_codes([without_nulls(working.gather(name, rows)) for name in partition])
            # A stable sort of small integers takes linear time.
            order = np.argsort(self._codes.astype(np.uint16) if count <= 1 << 16 else self._codes, kind="stable")
            self._by_key = self._codes.take(order) * rows.size + order
            masks = masks.take(order)
        self._candidates = {name: self._by_key[(masks & (1 << bit)) != 0] for name, bit in bits.items()}
        names = [[event.variable for event in branch.positives] for branch in bound.branches]
        self._order = {(own[i], own[j]) for own, branch in zip(names, bound.branches, strict=True) for i, j in branch.order}
        """The pairs of variables of which the first precedes the second."""

    def same_partition(self, anchors: int) -> float:
        """The probability that two rows within a window are of one partition."""
        if not self._codes.any():
            return 1.0
        size = self._rows.size
        rows = drawn(self.random, size, anchors)
        low, high = self._within(rows)
        if int((high - low - 1).sum()) == 0:
            low, high = np.zeros_like(rows), np.full_like(rows, size)
        base = self._codes.take(rows) * size
        same = np.searchsorted(self._by_key, base + high) - np.searchsorted(self._by_key, base + low) - 1
        return share(int(same.sum()), int((high - low - 1).sum()))

    def selectivities(self, conditions: Iterable[Expression], pairs: int) -> dict[str, float]:
        """The selectivity of each condition, by its text, if it could be measured."""
        measured = {expression_text(condition): self.selectivity(condition, pairs) for condition in conditions}
        return {text: found for text, found in measured.items() if found is not None}

    def selectivity(self, condition: Expression, pairs: int) -> float | None:
        """The selectivity of a condition; None if it cannot be measured."""
        return selectivity_on_columns(self, self._bound, self._working.gather, condition, pairs)

    def count(self, variable: str) -> int:
        return int(self._candidates[variable].size)

    def candidates(self, variable: str, numbers: Array) -> Array:
        chosen: Array = self._candidates[variable].take(numbers) % self._rows.size
        return chosen

    def rows(self, events: Array) -> Array:
        chosen: Array = self._rows.take(events)
        return chosen

    def ranges(self, tuples: Tuples, variable: str, scope: Scope) -> tuple[Array, Array]:
        candidates, (first, *_) = self._candidates[variable], tuples.values()
        low, high = np.zeros(first.size, np.int64), np.full(first.size, self._rows.size)
        if scope is Scope.ANYWHERE:
            return low, np.full(first.size, candidates.size)
        for name, rows in tuples.items():
            if scope is Scope.IN_SCOPE:
                begin, end = self._within(rows)
                low, high = np.maximum(low, begin), np.minimum(high, end)
            if (name, variable) in self._order:
                low = np.maximum(low, self._beside(rows, "right"))
            if (variable, name) in self._order:
                high = np.minimum(high, self._beside(rows, "left"))
        base = self._codes.take(first) * self._rows.size
        return np.searchsorted(candidates, base + low), np.searchsorted(candidates, base + high)

    def _within(self, rows: Array) -> tuple[Array, Array]:
        """The rows `[low, high)` less than a window away from each row. A window of events is none here."""
        window = self._bound.window
        if window is None:
            return np.zeros(rows.size, np.int64), np.full(rows.size, self._rows.size)
        ts = self._ts.take(rows)
        return np.searchsorted(self._ts, ts - window, side="right"), np.searchsorted(self._ts, ts + window)

    def _beside(self, rows: Array, side: Any) -> Array:
        """The first row after each row, or the end of those before it; rows of equal time are beside each other."""
        if self._bound.schema.order_by:
            return rows + 1 if side == "right" else rows
        beside: Array = np.searchsorted(self._ts, self._ts.take(rows), side=side)
        return beside
