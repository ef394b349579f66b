"""AGG by enumeration (semantics section 7): at time t, over all matches completed by t whose first event has not expired.

A row is made at every trigger: an event of a component that nothing follows, if it satisfies the predicates that mention that
component alone (A-Seq section 3.4 discards other instances before counting). EMIT ON CHANGE adds a row at each expiry
`first.ts + T` that changes a value and has no trigger of the same group; time runs on after the last event, as it does for a
negated end.

Readings chosen where the text leaves room:
- GROUP BY attr implies the equivalence test `[attr]`, negative components included (A-Seq section 3.4: groups are partitions).
- Negation that looks ahead (a negated end, negation under AND) counts the negative events seen by t: Lemma 6 resets the full
  count when one arrives. Otherwise such an aggregate would always be empty: the match is certain only when it has expired.
- Over no match COUNT is 0 and the others are NULL; NULL values are skipped; a Kleene variable contributes all its elements.
- Simultaneous triggers each get a row, and each sees the matches of all of them.
- Under a count window a match expires when its first event is n positions back; EMIT ON CHANGE adds no row then.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kleene.pattern import predicates as p
from kleene.pattern.bound import BoundQuery
from kleene.pattern.operators import Event
from kleene.pattern.policies import MatchAggregate
from kleene.testing.evaluate import Condition, Frame, attribute, truth
from kleene.testing.functions import Value, call, checked, plain
from kleene.testing.oracle_branch import Match, extremes
from kleene.testing.oracle_stream import FREE, Key, OrderKey, Stream, Ties, make_stream, merge, merge_all

Group = tuple[Value, ...]
MatchesOf = Callable[[Sequence[Mapping[str, Value]]], list[Match]]


@dataclass(frozen=True, slots=True)
class AggregateRow:
    """One row of `AGG`: the group's values, the instant, and the aggregates by alias."""

    group: Group
    at: Value
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Live:
    """A match with what decides when it counts."""

    match: Match
    group: Group
    first: int
    last: int
    key: Key


def aggregate_rows(
    bound: BoundQuery, events: Sequence[Mapping[str, Value]], ties: Ties, matches_of: MatchesOf
) -> list[AggregateRow]:
    """The rows of an AGG query in order of time, HAVING applied."""
    stream = make_stream(bound, events, ties)
    for position in stream.sorted_positions:
        for event in bound.components:
            if stream.types[position] in event.types and merge(stream.start_key, stream.keys[position]) is not None:
                _passes_alone(stream, event, position)  # an error is that of the event, whatever it could be part of
    found = _live_by_trigger(stream, matches_of)
    rows: list[tuple[tuple[int, int, OrderKey], AggregateRow]] = []
    for trigger, live in found.items():
        group = _group(stream, stream.keys[trigger])
        counted = [item for item in live if item.group == group and _completed(stream, item, trigger)]
        row = AggregateRow(group, events[trigger][bound.schema.time], _values(stream, [item.match for item in counted]))
        rows.append(((stream.instants[trigger], 1, stream.order[trigger]), row))
    if bound.query.emit_on_change and bound.window is not None:
        taken = {(stream.instants[trigger], _group(stream, stream.keys[trigger])) for trigger in found}
        rows.extend(_expiries(stream, matches_of, taken))
    rows.sort(key=lambda item: item[0])
    shown = [row for _, row in rows if _having(stream, row)]
    for row in shown:
        for item in row.values.values():
            checked(item)
    return shown


def _live_by_trigger(stream: Stream, matches_of: MatchesOf) -> dict[int, list[Live]]:
    """For every trigger the matches to choose from: all, or those of the stream up to it when negation looks ahead."""
    triggers = [at for at in stream.sorted_positions if _is_trigger(stream, at)]
    if not _looks_ahead(stream):
        everything = _live(stream, matches_of(stream.events))
        return dict.fromkeys(triggers, everything)
    return {at: _live(stream, _matches_until(stream, stream.order[at], matches_of)) for at in triggers}


def _looks_ahead(stream: Stream) -> bool:
    """Whether negation does."""
    return any(not negative.before for branch in stream.bound.branches for negative in branch.negatives)


def _matches_until(stream: Stream, last: OrderKey, matches_of: MatchesOf) -> list[Match]:
    """The matches of the events up to a place in the stream order, at their positions in the whole list."""
    kept = [at for at in range(len(stream.events)) if stream.order[at][: len(last)] <= last]

    def original(found: int | tuple[int, ...]) -> int | tuple[int, ...]:
        return tuple(kept[q] for q in found) if isinstance(found, tuple) else kept[found]

    found = matches_of([stream.events[at] for at in kept])
    return [Match(tuple((name, original(at)) for name, at in match.bindings)) for match in found]


def _live(stream: Stream, found: Sequence[Match]) -> list[Live]:
    result = []
    for match in found:
        key = merge_all(stream.start_key, (stream.keys[q] for q in match.positions))
        assert key is not None
        result.append(Live(match, _group(stream, key), *extremes(stream, [match.positions]), key))
    return result


def _completed(stream: Stream, item: Live, trigger: int) -> bool:
    """Whether a match counts at a trigger: completed by then, its first event not expired."""
    if stream.order[item.last] > stream.order[trigger]:
        return False
    return stream.within(item.first, trigger, item.key)


def _is_trigger(stream: Stream, at: int) -> bool:
    if merge(stream.start_key, stream.keys[at]) is None:
        return False
    for branch in stream.bound.branches:
        followed = {i for i, _ in branch.order}
        last = [event for index, event in enumerate(branch.positives) if index not in followed]
        if any(stream.types[at] in event.types and _passes_alone(stream, event, at) for event in last):
            return True
    return False


def _passes_alone(stream: Stream, event: Event, at: int) -> bool:
    """Whether an event satisfies the predicates on one component alone; of a Kleene component those on every element."""
    bindings: dict[str, int | tuple[int, ...]] = {event.variable: (at,) if event.is_kleene else at}
    alone = (item for item in stream.conditions if item.variables <= {event.variable})
    return stream.all_hold((item for item in alone if not event.is_kleene or _on_each(item)), bindings)


def _on_each(item: Condition) -> bool:
    if any(isinstance(node, p.Length | p.Aggregate) for node in p.walk(item.expression)):
        return False
    nodes = [node for node in p.walk(item.expression) if isinstance(node, p.Attribute)]
    return not item.running and all(node.element in (p.Element.EACH, p.Element.SINGLE) for node in nodes) and bool(item.each)


def _group(stream: Stream, key: Key) -> Group:
    """The group of events with a key; a fixed value is that of every group, also where an event's type lacks the attribute."""
    merged = merge(stream.start_key, key)
    assert merged is not None
    values = dict(zip(stream.attributes, merged, strict=True))
    return tuple(None if values[name] is FREE else values[name] for name in stream.bound.query.group_by)


def _expiries(
    stream: Stream, matches_of: MatchesOf, taken: set[tuple[int, Group]]
) -> Iterator[tuple[tuple[int, int, OrderKey], AggregateRow]]:
    """A row for each group and instant at which expiry alone changes a value."""
    window = stream.bound.window
    assert window is not None
    instants = stream.instants
    looks_ahead = _looks_ahead(stream)
    everything = [] if looks_ahead else _live(stream, matches_of(stream.events))
    for at in sorted({moment + window for moment in instants}):
        found = _live(stream, _matches_until(stream, ((1, at),), matches_of)) if looks_ahead else everything
        expiring = {item.group for item in found if instants[item.first] + window == at}
        for group in sorted(expiring, key=str):
            if (at, group) in taken:
                continue
            own = [item for item in found if item.group == group]
            before = [item.match for item in own if instants[item.last] < at and instants[item.first] + window >= at]
            after = [item.match for item in own if instants[item.last] <= at and instants[item.first] + window > at]
            values = _values(stream, after)
            if _differ(values, _values(stream, before)):
                yield (at, 0, ()), AggregateRow(group, _time_value(stream, found, at), values)


def _differ(left: Mapping[str, Value], right: Mapping[str, Value]) -> bool:
    """Whether some value differs; NaN equals NaN."""
    return any(left[name] != right[name] and not (left[name] != left[name] and right[name] != right[name]) for name in left)


def _time_value(stream: Stream, found: Sequence[Live], at: int) -> Value:
    """An instant in the form of the time column."""
    if stream.bound.schema.time_unit is None:
        return at
    start = found[0].first
    per_microsecond = 1_000 if stream.bound.schema.time_unit == "ns" else 1
    moment = stream.events[start][stream.bound.schema.time]
    if not isinstance(moment, dt.datetime):
        moment = plain(moment)
    return moment + dt.timedelta(microseconds=(at - stream.instants[start]) // per_microsecond)


def _values(stream: Stream, found: Sequence[Match]) -> dict[str, Value]:
    return {item.alias: _value(stream, item, found) for item in stream.bound.query.aggregates}


def _value(stream: Stream, item: MatchAggregate, found: Sequence[Match]) -> Value:
    if item.variable is None or item.attribute is None:
        return len(found)
    frame = Frame(stream.bound, stream.events, stream.types, {})
    values: list[Value] = []
    for match in found:
        at = dict(match.bindings).get(item.variable, ())
        values.extend(attribute(frame, q, item.attribute) for q in (at if isinstance(at, tuple) else (at,)))
    known = [value for value in values if value is not None]
    if item.function == "count":
        return len(known)
    if not known:
        return None
    if item.function in ("min", "max"):
        return call("least" if item.function == "min" else "greatest", known)
    exact = math.fsum(known) if any(isinstance(value, float) for value in known) else sum(known)
    return exact if item.function == "sum" else exact / len(known)


def _having(stream: Stream, row: AggregateRow) -> bool:
    """HAVING over the aliases of the aggregates and the GROUP BY attributes."""
    having = stream.bound.query.having
    if having is None:
        return True
    known = {**dict(zip(stream.bound.query.group_by, row.group, strict=True)), **row.values}

    def fill(node: p.Expression) -> p.Expression:
        if not isinstance(node, p.Name):
            return node
        filled = p.Literal(known[node.name])
        # A sum beyond 64 bits is an error of the atom that reads it.
        return filled if not isinstance(filled.value, int) or -(2**63) <= filled.value < 2**63 else p.Negate(p.Negate(filled))

    return truth(p.transform(having, fill), Frame(stream.bound, stream.events, stream.types, {})) is True
