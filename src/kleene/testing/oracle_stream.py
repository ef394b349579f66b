"""The stream as the oracle sees it: types, instants, the stream order, and the key (partition) of every event.

Stream order is `(ts, order_by...)`, NULLs of `order_by` first and NaN last. Where a total order is needed (every strategy other
than skip_till_any_match, count windows, and NON-OVERLAP) two events of one partition that tie are a DataError if both matter,
unless `ties="arrival"` appends the position in the given list to the order. Every event of the partition matters to contiguity
and to count windows, else those that a positive component can bind. Under skip_till_any_match with neither a count window nor
NON-OVERLAP `ties` changes nothing: tied events are simultaneous.

The key of an event has, for each equivalence attribute, the event's value, or FREE when its type is declared without the
attribute: such an event agrees with every value, and so belongs to every partition. NULL agrees with nothing, so an event with
a NULL key, or with another value than a fixed one (`[attr='v']`), is in no partition of the query.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from kleene.common.errors import DataError, Problem
from kleene.pattern.bound import BoundQuery
from kleene.pattern.policies import Output, Strategy
from kleene.pattern.predicates import Aggregate, Attribute, Comparison, Element, Length, walk
from kleene.pattern.predicates import Literal as Constant
from kleene.testing.evaluate import Bindings, Condition, Frame, all_hold, condition, holds
from kleene.testing.functions import Value, compare, plain

Ties = Literal["error", "arrival"]
OrderKey = tuple[tuple[int, Value], ...]
Key = tuple[Value, ...]

EPOCH = dt.datetime.fromtimestamp(0, dt.UTC).replace(tzinfo=None)


class _Free:
    """The value of an equivalence attribute that the event's type does not have."""

    def __repr__(self) -> str:
        return "FREE"


FREE: Final = _Free()


@dataclass(frozen=True, slots=True)
class Stream:
    """Events with everything the meaning of a query refers to, by position in the given list."""

    bound: BoundQuery
    events: Sequence[Mapping[str, Value]]
    types: tuple[str | None, ...]
    instants: tuple[int, ...]
    """Timestamps as integers in the unit of the time column."""
    order: tuple[OrderKey, ...]
    """`order[p] < order[q]` means that p precedes q in the stream."""
    keys: tuple[Key, ...]
    sorted_positions: tuple[int, ...]
    attributes: tuple[str, ...]
    """The attributes of the equivalence tests, those that GROUP BY implies included."""
    start_key: Key
    """The key before any event is bound: the fixed values of `[attr='v']`, else FREE."""
    conditions: tuple[Condition, ...]

    def holds(self, item: Condition, bindings: Bindings) -> bool:
        return holds(item, Frame(self.bound, self.events, self.types, bindings))

    def all_hold(self, items: Iterable[Condition], bindings: Bindings) -> bool:
        """Whether all conditions hold; an error of one is raised only if the others do."""
        return all_hold(partial(self.holds, item, bindings) for item in items)

    def distance(self, first: int, last: int, key: Key) -> int:
        """`position(last) - position(first)` counted over all events of the partition with this key."""
        return sum(
            1
            for position in self.sorted_positions
            if self.order[first] < self.order[position] <= self.order[last] and merge(key, self.keys[position]) is not None
        )

    def within(self, first: int, last: int, key: Key) -> bool:
        """Whether a match from `first` to `last` fits the window of the query."""
        bound = self.bound
        if bound.window is not None and self.instants[last] - self.instants[first] >= bound.window:
            return False
        return bound.count_window is None or self.distance(first, last, key) < bound.count_window


def merge(left: Key | None, right: Key) -> Key | None:
    """The key of two sets of events together, or None if they do not agree on every equivalence attribute."""
    if left is None:
        return None
    merged: list[Value] = []
    for one, other in zip(left, right, strict=True):
        if one is None or other is None:
            return None
        if one is FREE or other is FREE:
            merged.append(other if one is FREE else one)
        elif compare("=", one, other) is True:
            merged.append(one)
        else:
            return None
    return tuple(merged)


def merge_all(start: Key, keys: Iterable[Key]) -> Key | None:
    """The common key of events, or None if they disagree."""
    merged: Key | None = start
    for key in keys:
        merged = merge(merged, key)
    return merged


def make_stream(bound: BoundQuery, events: Sequence[Mapping[str, Value]], ties: Ties = "error") -> Stream:
    """The stream of some events for a query; raises DataError for a NULL timestamp and for ties where order matters."""
    schema = bound.schema
    instants = tuple(instant(event.get(schema.time), schema.time_unit) for event in events)
    any_match = bound.query.strategy is Strategy.SKIP_TILL_ANY_MATCH
    total = not any_match or bound.count_window is not None or bound.query.output is Output.NON_OVERLAP
    order: list[OrderKey] = []
    for position, event in enumerate(events):
        own: OrderKey = ((1, instants[position]), *(_sortable(event.get(name)) for name in schema.order_by))
        order.append((*own, (1, position)) if total and ties == "arrival" else own)
    fixed = {test.name: test.value for test in bound.equivalences}
    attributes = (*fixed, *(name for name in bound.query.group_by if name not in fixed))
    types = tuple(_type_of(bound, event) for event in events)
    stream = Stream(
        bound,
        events,
        types,
        instants,
        tuple(order),
        tuple(_key_of(bound, attributes, event, own) for event, own in zip(events, types, strict=True)),
        tuple(sorted(range(len(events)), key=lambda position: (order[position], position))),
        attributes,
        tuple(_fixed_value(fixed.get(name)) for name in attributes),
        tuple(condition(bound, conjunct) for conjunct in bound.conjuncts),
    )
    if total and ties == "error":
        _refuse_ties(stream)
    return stream


def instant(value: Value, unit: str | None) -> int:
    """A timestamp as an integer in the unit of the time column ("us", "ns", or None for plain integers)."""
    if value is None:
        raise DataError(Problem("an event has no timestamp (NULL)", hint='drop it, or use bad_rows="drop"'))
    if unit is None:
        assert isinstance(value, int), value
        return value
    microseconds = (plain(value) - EPOCH) // dt.timedelta(microseconds=1)
    return int(microseconds) * 1_000 + int(getattr(value, "nanosecond", 0)) if unit == "ns" else int(microseconds)


def _sortable(value: Value) -> tuple[int, Value]:
    """A sort key for one order_by value: NULL first, NaN last."""
    value = plain(value)
    if value is None:
        return (0, 0)
    return (2, 0) if isinstance(value, float) and math.isnan(value) else (1, value)


def _type_of(bound: BoundQuery, event: Mapping[str, Value]) -> str | None:
    if bound.schema.type is None:
        return bound.components[0].types[0]
    found = event.get(bound.schema.type)
    return None if found is None else str(found)


def _key_of(bound: BoundQuery, attributes: Sequence[str], event: Mapping[str, Value], event_type: str | None) -> Key:
    return tuple(
        FREE if event_type is not None and bound.lacks(event_type, name) else plain(event.get(name)) for name in attributes
    )


def _fixed_value(value: object) -> Value:
    if value is None:
        return FREE
    assert isinstance(value, Constant), "parameters are literals in a bound query"
    return plain(value.value)


def _refuse_ties(stream: Stream) -> None:
    """Strict contiguity counts every event of the stream, so there the whole stream is one partition (SASE+ section 2).

    NON-OVERLAP chooses among the matches of a partition of equivalence tests: written-out equalities do not part its events.
    """
    strategy = stream.bound.query.strategy
    whole = strategy is Strategy.STRICT_CONTIGUITY
    all_matter = whole or strategy is Strategy.PARTITION_CONTIGUITY or stream.bound.count_window is not None
    tied: dict[OrderKey, list[int]] = {}
    for position in stream.sorted_positions:
        earlier = tied.setdefault(stream.order[position], [])
        for other in earlier:
            if not whole and merge_all(stream.start_key, (stream.keys[other], stream.keys[position])) is None:
                continue
            if not all_matter and stream.bound.query.output is Output.ALL and _parted(stream, other, position):
                continue
            if all_matter or (_bindable(stream, other) and _bindable(stream, position)):
                raise DataError(_tie(stream, other, position))
        earlier.append(position)


def _parted(stream: Stream, one: int, other: int) -> bool:
    """Whether written-out equalities part two events as an equivalence test would: `a.x = b.x AND b.x = c.x`, where every
    component is compared with an earlier one. (With `a.x = c.x AND b.x = c.x` the next event is taken for b whatever its x.)
    """
    positives = [event for event in stream.bound.components if not event.negated]
    if len(positives) < 2 or len(stream.bound.branches) > 1 or any(event.quantifier for event in positives):
        return False
    places = {event.variable: place for place, event in enumerate(positives)}
    compared: dict[str, set[int]] = {}
    for item in stream.conditions:
        equality = item.expression
        if not isinstance(equality, Comparison) or equality.operator != "=":
            continue
        left, right = equality.left, equality.right
        if not isinstance(left, Attribute) or not isinstance(right, Attribute) or left.name != right.name:
            continue
        if left.variable != right.variable and {left.variable, right.variable} <= places.keys():
            compared.setdefault(left.name, set()).add(max(places[left.variable], places[right.variable]))
    for name, later in compared.items():
        if later == set(range(1, len(positives))) and not any(
            stream.bound.lacks(kind, name) for event in positives for kind in event.types
        ):
            values = plain(stream.events[one].get(name)), plain(stream.events[other].get(name))
            if None in values or compare("=", *values) is not True:
                return True
    return False


def _bindable(stream: Stream, position: int) -> bool:
    """Whether some positive component can bind the event, by its type and by the conditions that read it alone."""
    for event in stream.bound.components:
        if event.negated or stream.types[position] not in event.types:
            continue
        ways: dict[Element, int | tuple[int, ...]] = {Element.SINGLE: position}
        if event.is_kleene:
            ways = {Element.FIRST: (position,), Element.CURRENT: (position, position)}
        for element, elements in ways.items():
            reads = (element, Element.EACH) if stream.bound.query.strategy is Strategy.SKIP_TILL_ANY_MATCH else (element,)
            alone = (item for item in stream.conditions if any(_reads_only(item, event.variable, one) for one in reads))
            try:
                if all_hold(partial(stream.holds, item, {event.variable: elements}) for item in alone):
                    return True
            except DataError:
                continue  # if that is an error, it is not that of a tie
    return False


def _reads_only(item: Condition, variable: str, element: Element) -> bool:
    nodes = [node for node in walk(item.expression) if isinstance(node, Attribute | Length | Aggregate)]
    return item.variables == {variable} and all(isinstance(node, Attribute) and node.element is element for node in nodes)


def _tie(stream: Stream, one: int, other: int) -> Problem:
    names = ", ".join(f"{name}={stream.events[one].get(name)!r}" for name in stream.attributes) or "the whole stream"
    time = stream.events[one][stream.bound.schema.time]
    message = (
        f"two events tie at timestamp {time} in partition {names}, but the query needs a total order (rows {one}, {other})"
    )
    return Problem(message, hint='give order_by=[...], or ties="arrival" to accept the order in which rows are delivered')
