"""The oracle of AGG against A-Seq itself: counters per start event, written from sections 3.1 to 3.4 in the plainest Python.

The oracle enumerates matches and aggregates them; the counters never see a match. What they have in common is the stream:
order, keys, and conditions on single events.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pytest

from kleene.common.errors import DataError
from kleene.language.parser import parse
from kleene.pattern.bound import BoundQuery
from kleene.pattern.normalize import Branch
from kleene.pattern.operators import Event
from kleene.pattern.policies import MatchAggregate, Output, Strategy
from kleene.pattern.predicates import variables
from kleene.testing.case_routes import canonical
from kleene.testing.evaluate import Frame, attribute
from kleene.testing.oracle import aggregates
from kleene.testing.oracle_stream import Stream, make_stream
from support.random_aggregate import AggregateExample, aggregate_examples

Row = dict[str, Any]


@dataclass(slots=True)
class Counters:
    """The prefixes that begin with one start event: how many there are, and every item's values, by their length."""

    start: int
    partition: tuple[Any, ...]
    counts: list[int]
    values: list[list[list[Any]]]
    """By item and length: the value in each prefix (a list of values has everything that a sum, or an extreme, can ask for)."""


class StartMarking:
    """Section 3.2: counters for each live start event, for a query with one branch whose conditions look at single events."""

    def __init__(self, bound: BoundQuery, events: list[Row]) -> None:
        self.bound, self.events = bound, events
        self.stream: Stream = make_stream(bound, events)
        (self.branch,) = bound.branches
        self.items = bound.query.aggregates
        self.live: list[Counters] = []

    def rows(self) -> list[Row]:
        found = []
        ordered = self.stream.sorted_positions
        for _, together in groupby(ordered, key=lambda p: self.stream.order[p]):
            positions = list(together)
            self._expire(self.stream.instants[positions[0]])
            self._take_in(positions)
            found += [self._row(p) for p in positions if self._binds(self.branch.positives[-1], p)]
        return found

    def _expire(self, now: int) -> None:
        window = self.bound.window
        if window is not None:
            self.live = [own for own in self.live if self.stream.instants[own.start] > now - window]

    def _binds(self, event: Event, p: int) -> bool:
        if self.stream.types[p] not in event.types:
            return False
        own = [item for item in self.stream.conditions if item.variables == {event.variable}]
        return all(self.stream.holds(item, {event.variable: p}) for item in own)

    def _take_in(self, positions: list[int]) -> None:
        """All events of an instant extend what there was before it (Lemma 1), then negative ones clear that (Lemma 6)."""
        for own in self.live:
            self._extend(own, [p for p in positions if self.stream.keys[p] == own.partition])
        size = len(self.branch.positives)
        for p in positions:
            if self._binds(self.branch.positives[0], p):
                begun = Counters(
                    p, self.stream.keys[p], [1] + [0] * (size - 1), [[[] for _ in range(size)] for _ in self.items]
                )
                for number, item in enumerate(self.items):
                    if item.variable == self.branch.positives[0].variable:
                        begun.values[number][0].append(self._value(item, p))
                self.live.append(begun)

    def _extend(self, own: Counters, positions: list[int]) -> None:
        counts, values = list(own.counts), [list(map(list, item)) for item in own.values]
        for length, event in enumerate(self.branch.positives):
            if self._is_cleared(length, positions):
                own.counts[length] = 0
                for item in own.values:
                    item[length] = []
            for p in positions if length else ():
                if not self._binds(event, p):
                    continue
                own.counts[length] += counts[length - 1]
                for number, item in enumerate(self.items):
                    is_own = item.variable == event.variable
                    own.values[number][length] += (
                        [self._value(item, p)] * counts[length - 1] if is_own else values[number][length - 1]
                    )

    def _is_cleared(self, length: int, positions: list[int]) -> bool:
        negatives = [item.event for item in self.branch.negatives if max(item.after) == length]
        return any(self._binds(event, p) for event in negatives for p in positions)

    def _value(self, item: MatchAggregate, p: int) -> Any:
        assert item.attribute is not None
        return attribute(Frame(self.bound, self.events, self.stream.types, {}), p, item.attribute)

    def _row(self, p: int) -> Row:
        by_name = dict(zip(self.stream.attributes, self.stream.keys[p], strict=True))
        group = {name: by_name[name] for name in self.bound.query.group_by}
        places = [self.stream.attributes.index(name) for name in group]
        own = [item for item in self.live if all(item.partition[i] == self.stream.keys[p][i] for i in places)]
        found = {}
        for number, item in enumerate(self.items):
            values = [value for counters in own for value in counters.values[number][-1] if value is not None]
            found[item.alias] = sum(counters.counts[-1] for counters in own) if item.attribute is None else folded(item, values)
        return {**group, "at": self.events[p][self.bound.schema.time], **found}


def folded(item: MatchAggregate, values: list[Any]) -> Any:
    if not values:
        return None
    if item.function in ("min", "max"):
        return {"min": min, "max": max}[item.function](values)
    return math.fsum(values) if item.function == "sum" else math.fsum(values) / len(values)


def is_counted_here(example: AggregateExample, bound: BoundQuery) -> bool:
    """Whether the query is one that the counters above answer."""
    query = bound.query
    plain = query.strategy is Strategy.SKIP_TILL_ANY_MATCH and query.output is Output.ALL and bound.count_window is None
    plain = plain and len(bound.branches) == 1 and _is_plain(bound.branches[0])
    alone = all(len(variables(item)) == 1 for item in bound.conjuncts) and not any(test.value for test in bound.equivalences)
    exact = all(item.attribute != "z" for item in query.aggregates)
    shown = query.having is None and not query.emit_on_change and example.schema_kwargs["types"] is None
    return plain and alone and exact and shown


def _is_plain(branch: Branch) -> bool:
    follows = all(negative.after and not negative.anywhere for negative in branch.negatives)
    return branch.is_sequence and follows and not any(event.is_kleene for event in branch.positives)


def compared() -> Iterator[tuple[AggregateExample, list[Row], list[Row]]]:
    for example in aggregate_examples(7, 2_000):
        bound = example.bound()
        if is_counted_here(example, bound):
            names = bound.query.group_by
            try:
                found = aggregates(bound, example.events)
            except DataError:
                continue  # a sum beyond 64 bits
            rows = [{**dict(zip(names, row.group, strict=True)), "at": row.at, **row.values} for row in found]
            yield example, rows, StartMarking(bound, example.events).rows()


@pytest.mark.slow
def test_counters_per_start_event_give_what_the_oracle_enumerates() -> None:
    pairs = with_values = negated = 0
    for example, rows, counted in compared():
        assert list(map(canonical, counted)) == list(map(canonical, rows)), example
        pairs += 1
        with_values += any(value not in (0, None) for row in rows for name, value in row.items() if name != "at")
        negated += bool(example.bound().branches[0].negatives)
    assert pairs > 400
    assert with_values > 250
    assert negated > 150


def test_a_row_with_a_null_group_is_in_no_group() -> None:
    example = AggregateExample(
        parse("PATTERN SEQ(A a, B b) GROUP BY k AGG COUNT"),
        {"time": "ts", "type": "type", "types": None},
        [{"ts": ts, "type": kind, "k": k} for ts, (kind, k) in enumerate((("A", None), ("A", 1), ("B", None), ("B", 1)))],
    )
    assert [(row.group, row.at, dict(row.values)) for row in aggregates(example.bound(), example.events)] == [
        ((1,), 3, {"count": 1})
    ]
