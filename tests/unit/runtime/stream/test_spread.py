"""A stream that goes on with other keys than its checkpoint has is refused before it loses anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row

import kleene
from kleene.common.errors import StateError
from kleene.common.schema import schema_of_arrow
from kleene.interfaces.composition.shared import planned_query
from kleene.interfaces.options import options_of
from kleene.runtime.spark.stream.operator import BucketProcessor
from kleene.runtime.spark.stream.packing import _pack
from kleene.runtime.stream.plan import EVENTS, LABELS, Distribution, StreamPlan, groups_for
from kleene.runtime.stream.spread import GROUP, SPREAD, Spread
from kleene.runtime.stream.state import Header, encode_events
from kleene.runtime.stream.times import Clock
from kleene.runtime.units import QuerySet

SCHEMA = pa.schema([("ts", pa.int64()), ("type", pa.string()), ("k", pa.int64()), ("x", pa.int64())])
CLOCK = Clock(None)
K, KX, NONE = "WHERE [k]", "WHERE [k] AND [x]", ""


def plan_of(buckets: int = 2, **wheres: str) -> StreamPlan:
    """A stream of some queries."""
    options = options_of({"time": "ts", "type": "type"})
    spread: dict[tuple[str, ...], list[Any]] = {}
    for name, where in wheres.items():
        item = kleene.query(f"PATTERN SEQ(A a, B b) {where} WITHIN 9", name=name)
        planned = planned_query(item, SCHEMA, options)
        spread.setdefault(planned.plan.keys, []).append(planned)
    over = []
    for keys, queries in spread.items():
        over.append(Distribution(keys, QuerySet(tuple(queries)), groups_for(keys, buckets if keys else 1)))
    return StreamPlan(schema_of_arrow(SCHEMA, time="ts", type="type"), SCHEMA, SCHEMA, tuple(over), "drop", 1_000)


class State:
    """The state of all groups, as Spark keeps it: what is not committed is gone."""

    def __init__(self) -> None:
        self.kept: dict[tuple[Any, ...], Any] = {}
        self.timers: set[tuple[int, int]] = set()

    def micro_batch(self, plan: StreamPlan, rows: Mapping[int, list[Row]], reached: int | None = None) -> list[Row]:
        """Gives groups their packets, then calls those whose timer is due."""
        watermark = 0 if reached is None else CLOCK.told(reached)
        before = dict(self.kept), set(self.timers)
        processor, left, handle = BucketProcessor(plan, CLOCK), [], Handle(self)
        processor.init(handle)
        try:
            for group, packets in rows.items():
                handle.group = group
                left += processor.handleInputRows((group,), iter(packets), Timers(watermark))
            for group, at in sorted(self.timers):
                if at <= watermark:
                    handle.group = group
                    self.timers.discard((group, at))
                    left += processor.handleExpiredTimer((group,), Timers(watermark), None)
        except BaseException:
            self.kept, self.timers = before
            raise
        return left


class Timers:
    def __init__(self, watermark: int) -> None:
        self._watermark = watermark

    def getCurrentWatermarkInMs(self) -> int:  # noqa: N802
        return self._watermark

    def getCurrentProcessingTimeInMs(self) -> int:  # noqa: N802
        return self._watermark


class Handle:
    def __init__(self, state: State) -> None:
        self.state, self.group = state, 0

    def getValueState(self, name: str, _: str) -> Value:  # noqa: N802
        return Value(self, name)

    getMapState = lambda self, name, *_: Entries(self, name)  # noqa: E731

    def registerTimer(self, at: int) -> None:  # noqa: N802
        self.state.timers.add((self.group, at))

    def deleteTimer(self, at: int) -> None:  # noqa: N802
        self.state.timers.discard((self.group, at))


class Value:
    def __init__(self, handle: Handle, name: str) -> None:
        self._handle, self._name = handle, name

    def _key(self, *further: Any) -> tuple[Any, ...]:
        return (self._handle.group, self._name, *further)

    def _keys(self) -> Iterator[tuple[Any, ...]]:
        return iter([key for key in self._handle.state.kept if key[:2] == self._key()])

    def exists(self) -> bool:
        return any(True for _ in self._keys())

    def get(self) -> Any:
        return self._handle.state.kept.get(self._key())

    def update(self, value: Any) -> None:
        self._handle.state.kept[self._key()] = value

    def clear(self) -> None:
        for key in self._keys():
            del self._handle.state.kept[key]


class Entries(Value):
    def getValue(self, number: Any) -> Any:  # noqa: N802
        return self._handle.state.kept.get(self._key(number))

    def updateValue(self, number: Any, value: Any) -> None:  # noqa: N802
        self._handle.state.kept[self._key(number)] = value

    def removeKey(self, number: Any) -> None:  # noqa: N802
        del self._handle.state.kept[self._key(number)]


def packet(kind: str, blob: bytes | None = None, rows: int | None = None) -> Row:
    values = {"kind": kind, "blob": blob, "rows": rows}
    return Row(**{name: values.get(name) for name in LABELS.names})


def packets(plan: StreamPlan, *events: tuple[int, str]) -> dict[int, list[Row]]:
    """Events of one key, to one bucket of each distribution; and what every task sends."""
    table = pa.table({"ts": [at for at, _ in events], "type": [kind for _, kind in events], "k": [1] * len(events)})
    table = table.append_column("x", table.column("k"))
    found = {GROUP: [packet(SPREAD)]}
    if events:
        blob = encode_events(table.to_batches()[0])
        found |= {item.groups[0]: [packet(EVENTS, blob, len(events))] for item in plan.distributions}
    return found


def begun(**wheres: str) -> State:
    """A stream with an event that waits."""
    state, plan = State(), plan_of(**wheres)
    state.micro_batch(plan, packets(plan, (5, "A")))
    return state


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [(K, KX, "k, this stream by k, x"), (KX, K, "k, x, this stream by k"), (K, NONE, "k, this stream by nothing")],
)
@pytest.mark.parametrize("others", [{}, {"stays": "WHERE [x]"}])
def test_a_changed_key_is_refused_in_the_first_micro_batch(before: str, now: str, told: str, others: dict[str, str]) -> None:
    state = begun(q=before, **others)
    kept = dict(state.kept)
    plan = plan_of(q=now, **others)
    with pytest.raises(StateError, match=f"of query 'q' is spread by {told}\n.*new checkpoint folder"):
        state.micro_batch(plan, packets(plan, (6, "B")))
    assert state.kept == kept


def test_what_waited_is_matched_when_the_key_is_as_it_was() -> None:
    """After a refusal, too."""
    state = begun(q=K)
    changed, plan = plan_of(q=KX), plan_of(q=K)
    with pytest.raises(StateError):
        state.micro_batch(changed, packets(changed, (6, "B")))
    left = state.micro_batch(plan, packets(plan, (6, "B")))
    left += state.micro_batch(plan, packets(plan), 20)
    assert sum(row["rows"] or 0 for row in left if row["kind"] == "matches") == 1


def test_a_changed_key_is_refused_where_nothing_arrives() -> None:
    """The first thing that happens may be a timer; and in the state of earlier versions nothing says how it was spread."""
    state = begun(q=K)
    del state.kept[GROUP, "header"]
    with pytest.raises(StateError, match="is spread by k, this stream by k, x"):
        state.micro_batch(plan_of(q=KX), {}, 20)


def test_a_query_with_another_name_and_another_key_is_refused_if_nothing_stays() -> None:
    state, plan = begun(q=K), plan_of(other=KX)
    with pytest.raises(StateError, match="the checkpoint's state is spread by k, this stream by k, x"):
        state.micro_batch(plan, packets(plan, (6, "B")))


def test_another_number_of_buckets_is_refused_whichever_groups_they_have() -> None:
    state, plan = begun(q=K), plan_of(3, q=K)
    with pytest.raises(StateError, match=r"spread over 2 buckets, this stream over 3\n.*give buckets=2"):
        state.micro_batch(plan, {GROUP: [packet(SPREAD)]})


def test_keys_that_come_back_are_refused() -> None:
    """Their buckets have not seen what has come since."""
    state = begun(q=K, stays=NONE)
    for plan in (plan_of(stays=NONE), plan_of(stays=NONE)):
        state.micro_batch(plan, packets(plan, (6, "B")))
    again = plan_of(q=K, stays=NONE)
    with pytest.raises(StateError, match="state by k is not up to date"):
        state.micro_batch(again, packets(again, (7, "B")))


# --- what goes on -----------------------------------------------------------------------------------------------------


def test_queries_are_added_and_removed_with_their_keys() -> None:
    state = begun(q=K)
    for plan in (plan_of(q=K, new=KX), plan_of(q=K, new=KX, more=NONE), plan_of(new=KX), plan_of(new=KX, another=KX)):
        for _ in range(3):
            state.micro_batch(plan, packets(plan, (6, "B")))
    state.micro_batch(plan, {}, 100)
    groups = {group for group, *_ in state.kept}
    assert groups == {GROUP, *groups_for(("k", "x"), 2)[:1]}, "what is gone is let go of"


def test_state_of_earlier_versions_goes_on_and_is_known_then() -> None:
    state = begun(q=K)
    del state.kept[GROUP, "header"]
    plan = plan_of(q=K)
    state.micro_batch(plan, packets(plan, (6, "B")))
    assert Spread.decode(state.kept[GROUP, "header"][0]) == Spread.of(plan)


def test_it_is_read_as_it_was_written_or_refused() -> None:
    known = Spread({"a": ("k",), "b": ()}, {("k",): 2, (): 1}, frozenset({("x",)}))
    blob = known.encode()
    assert Spread.decode(blob) == known
    for other in (blob[:-1], blob.replace(b'"k"', b'"x"'), blob[:6] + b"\1\0" + blob[24:], Header(("k",), 1, "n").encode()):
        with pytest.raises(StateError):
            Spread.decode(other)


def test_every_task_sends_a_packet() -> None:
    """Also one without events."""
    sent = [row for batch in _pack(plan_of(q=K), (), None)(iter([])) for row in batch.to_pylist()]
    assert [(row["group"], row["kind"]) for row in sent] == [(GROUP, SPREAD)]
