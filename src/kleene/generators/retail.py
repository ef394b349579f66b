"""A day of RFID readings in a store (SASE'06 section 2), with planted incidents and the exact matches they must give.

Most items are bought, or rest on their shelf and are read there again and again. A few are stolen, misplaced, or nearly so
(`kleene.generators.retail_stories`). `truth` lists, for each of the paper's two queries, every match of the day; there are no
others.

The day is generated in slots of ten minutes: readings of a story beyond the slot in which it starts wait for theirs. Memory
holds a slot's readings and the waiting ones, not the day's.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kleene.generators.blocks import DEFAULT_BATCH_ROWS, microseconds, random_of, rebatch
from kleene.generators.retail_stories import (
    COUNTER,
    ELSEWHERE,
    EVENT_TYPES,
    EXIT,
    HOUR,
    MINUTE,
    MISPLACED,
    NEAR_MISSES,
    PURCHASES,
    SHELF,
    SHOPLIFTING,
    STORIES,
    Pairs,
    Story,
)

_COMMON = ("seq", "ts", "type", "id", "reader", "category", "manufacturer_id")
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "SHELF-READING": (*_COMMON, "shelf_id"),
    "COUNTER-READING": _COMMON,
    "EXIT-READING": _COMMON,
}
"""The attributes of each event type, for `schema=`. The misplaced-inventory query needs it: a counter reading has no shelf."""

CATEGORIES = ("food", "drinks", "clothing", "toys", "books", "garden", "tools", "music")
MANUFACTURERS = 50
COUNTERS, EXITS = 8, 4
SLOT = 10 * MINUTE
CUSTOMERS_PER_HOUR = (1, 2, 2, 3, 4, 5, 7, 6, 4, 4, 5, 7, 9, 8, 5, 3, 1)
"""How busy the store is in each hour from opening on; its length is the opening time."""
_SLOTS = len(CUSTOMERS_PER_HOUR) * HOUR // SLOT
_SHARE_BOUGHT = 0.6
_READINGS_AT_REST = 12

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetailOptions:
    """Size of the day and number of planted incidents (an incident gives one match or two)."""

    events: int = 100_000
    seed: int = 0
    shoplifting: int = 24
    misplaced: int = 18
    near_misses: int = 50
    shelves: int = 40
    string_ids: bool = True
    """Tags as text ("tag-00000042"), or as plain integers."""
    opening: dt.datetime = dt.datetime(2006, 6, 27, 6, tzinfo=dt.UTC)
    batch_size: int = DEFAULT_BATCH_ROWS

    def __post_init__(self) -> None:
        if min(self.seed, self.shoplifting, self.misplaced, self.near_misses) < 0:
            raise ValueError("seed and the numbers of incidents must not be negative")
        if not 2 <= self.shelves <= 10_000:
            raise ValueError(f"shelves must be between 2 and 10000, not {self.shelves}")
        planted = sum(count * len(story.readings) for story, count in _planted(self))
        if self.events < planted:
            raise ValueError(f"events must be at least {planted} to hold the planted incidents, not {self.events}")


@dataclass(frozen=True, slots=True)
class Day:
    """A store's day: its events and, per query, the matches that must be found."""

    events: pa.Table
    shoplifting: pa.Table
    misplaced: pa.Table


@dataclass(frozen=True, slots=True)
class Truth:
    """The expected matches of the two queries."""

    shoplifting: pa.Table
    """Columns id, x_ts (shelf), z_ts (exit), story."""
    misplaced: pa.Table
    """Columns id, x_ts (first shelf), y_ts (second shelf), story."""


@dataclass(frozen=True, slots=True)
class _Cast:
    """The number of items in each story, their ids, and the readings left for items at rest."""

    counts: tuple[int, ...]
    firsts: tuple[int, ...]
    at_rest: int
    """Readings of items at rest."""
    items: int
    multiplier: int
    """Coprime to `items`: turns an item's number into its tag, so that tags do not tell stories."""

    def tags(self, numbers: Integers) -> Integers:
        return numbers * self.multiplier % self.items


class _Readings(NamedTuple):
    """Columns of readings; `shelf` is 0 where there is none."""

    ts: Integers
    type: Integers
    tag: Integers
    shelf: Integers
    reader: Integers

    def take(self, rows: Integers | slice) -> _Readings:
        return _Readings(*(column[rows] for column in self))


def schema(options: RetailOptions) -> pa.Schema:
    """The columns of the readings."""
    return pa.schema(
        [
            ("seq", pa.int64()),
            ("ts", pa.timestamp("us", tz="UTC")),
            ("type", pa.dictionary(pa.int8(), pa.string())),
            ("id", _id_type(options)),
            ("shelf_id", pa.int32()),
            ("reader", pa.dictionary(pa.int16(), pa.string())),
            ("category", pa.dictionary(pa.int8(), pa.string())),
            ("manufacturer_id", pa.int32()),
        ]
    )


def batches(options: RetailOptions) -> Iterator[pa.RecordBatch]:
    """The readings in time order, in batches of `options.batch_size` rows.

    >>> sum(batch.num_rows for batch in batches(RetailOptions(events=2_000)))
    2000
    """
    return rebatch(_blocks(options), options.batch_size)


def table(options: RetailOptions) -> pa.Table:
    """All readings as one table."""
    return pa.Table.from_batches(batches(options), schema(options))


def day(options: RetailOptions) -> Day:
    """The readings and the expected matches together."""
    expected = truth(options)
    return Day(table(options), expected.shoplifting, expected.misplaced)


def truth(options: RetailOptions) -> Truth:
    """Every match of the two queries over the day; costs the planted items only.

    >>> truth(RetailOptions(shoplifting=1)).shoplifting["story"].to_pylist()
    ['stolen']
    """
    cast = _cast(options)
    shoplifting = [(story, story.shoplifting) for story in STORIES]
    misplaced = [(story, story.misplaced) for story in STORIES]
    return Truth(_matches(options, cast, shoplifting, "z_ts"), _matches(options, cast, misplaced, "y_ts"))


def _id_type(options: RetailOptions) -> pa.DataType:
    return pa.string() if options.string_ids else pa.int64()


def _planted(options: RetailOptions) -> Iterator[tuple[Story, int]]:
    """The stories other than purchases with the number of items each: an even share, the first ones get the rest."""
    groups = ((SHOPLIFTING, options.shoplifting), (MISPLACED, options.misplaced), (NEAR_MISSES, options.near_misses))
    for stories, count in groups:
        share, rest = divmod(count, len(stories))
        for number, story in enumerate(stories):
            yield story, share + (number < rest)


def _cast(options: RetailOptions) -> _Cast:
    planted = dict(_planted(options))
    free = options.events - sum(count * len(story.readings) for story, count in planted.items())
    bought = int(free * _SHARE_BOUGHT) // sum(len(story.readings) for story in PURCHASES)
    counts = tuple(planted.get(story, bought) for story in STORIES)
    at_rest = options.events - sum(count * len(story.readings) for story, count in zip(STORIES, counts, strict=True))
    firsts = tuple(sum(counts[:number]) for number in range(len(counts)))
    items = sum(counts) + max(1, at_rest // _READINGS_AT_REST)
    multiplier = next(number for number in range(int(items * 0.618) or 1, 2 * items + 2) if math.gcd(number, items) == 1)
    return _Cast(counts, firsts, at_rest, items, multiplier)


def _share(count: int, slot: int, slots: int) -> tuple[int, int]:
    """The range [first, end) of `count` things that falls into `slot`, if they are spread over the first `slots` slots like
    customers.
    """
    per_hour = HOUR // SLOT
    weights = [CUSTOMERS_PER_HOUR[number // per_hour] for number in range(slots)]
    total = sum(weights)
    first, end = count * sum(weights[:slot]), count * sum(weights[: slot + 1])
    return (first + total // 2) // total, (end + total // 2) // total


def _items_of(cast: _Cast, number: int, slot: int) -> Integers:
    """The items whose story (by number) begins in a slot: early enough to end before the store closes."""
    slots = max(1, _SLOTS - -(-STORIES[number].longest // SLOT))
    if slot >= slots:
        return np.empty(0, dtype=np.int64)
    first, end = _share(cast.counts[number], slot, slots)
    return cast.firsts[number] + np.arange(first, end, dtype=np.int64)


def _tell(options: RetailOptions, cast: _Cast, number: int, slot: int) -> _Readings:
    """The readings of one story for the items that begin it in a slot, item by item."""
    story = STORIES[number]
    tags = cast.tags(_items_of(cast, number, slot))
    if not len(tags):
        return _joined([])
    random = random_of(options.seed, slot, number)
    times = np.empty((len(tags), len(story.readings)), dtype=np.int64)
    shelves = np.zeros_like(times)
    readers = np.empty_like(times)
    home = tags % options.shelves
    elsewhere = (home + random.integers(1, options.shelves, len(tags))) % options.shelves
    begin = microseconds(options.opening) + slot * SLOT + random.integers(0, SLOT, len(tags))
    for column, reading in enumerate(story.readings):
        since = begin if column == 0 else times[:, reading.since]
        times[:, column] = since + random.integers(reading.low, reading.high + 1, len(tags))
        place = elsewhere if reading.place == ELSEWHERE else home
        if reading.type == SHELF:
            shelves[:, column] = place + 1
        readers[:, column] = _readers(options, random, reading.type, place)
    types = np.broadcast_to(np.array([reading.type for reading in story.readings], dtype=np.int64), times.shape)
    return _Readings(times.ravel(), types.ravel(), np.repeat(tags, len(story.readings)), shelves.ravel(), readers.ravel())


def _readers(options: RetailOptions, random: np.random.Generator, event_type: int, shelf: Integers) -> Integers:
    if event_type == COUNTER:
        return options.shelves + random.integers(0, COUNTERS, len(shelf))
    if event_type == EXIT:
        return options.shelves + COUNTERS + random.integers(0, EXITS, len(shelf))
    return shelf


def _rest(options: RetailOptions, cast: _Cast, slot: int) -> _Readings:
    """Readings in a slot of items that rest on their shelf all day."""
    first, end = _share(cast.at_rest, slot, _SLOTS)
    random = random_of(options.seed, slot, len(STORIES))
    tags = cast.tags(random.integers(sum(cast.counts), cast.items, end - first))
    ts = microseconds(options.opening) + slot * SLOT + random.integers(0, SLOT, end - first)
    home = tags % options.shelves
    return _Readings(ts, np.full_like(tags, SHELF), tags, home + 1, home)


def _blocks(options: RetailOptions) -> Iterator[pa.RecordBatch]:
    cast = _cast(options)
    waiting = _joined([])
    seq = 0
    for slot in range(_SLOTS):
        told = [_tell(options, cast, number, slot) for number in range(len(STORIES))]
        pool = _joined([waiting, *told, _rest(options, cast, slot)])
        pool = pool.take(np.lexsort((pool.tag, pool.ts)))
        slot_end = microseconds(options.opening) + (slot + 1) * SLOT
        due = len(pool.ts) if slot == _SLOTS - 1 else int(np.searchsorted(pool.ts, slot_end))
        yield _record_batch(options, pool.take(slice(0, due)), seq)
        waiting = pool.take(slice(due, None))
        seq += due


def _joined(parts: list[_Readings]) -> _Readings:
    nothing = [np.empty(0, dtype=np.int64)] * len(_Readings._fields)
    return _Readings(*map(np.concatenate, zip(nothing, *parts, strict=True)))


def _record_batch(options: RetailOptions, rows: _Readings, seq: int) -> pa.RecordBatch:
    readers = [f"shelf-{number}" for number in range(1, options.shelves + 1)]
    readers += [f"counter-{number}" for number in range(1, COUNTERS + 1)]
    readers += [f"exit-{number}" for number in range(1, EXITS + 1)]
    arrays = [
        pa.array(np.arange(seq, seq + len(rows.ts), dtype=np.int64)),
        pa.array(rows.ts).cast(pa.timestamp("us", tz="UTC")),
        pa.DictionaryArray.from_arrays(rows.type.astype(np.int8), list(EVENT_TYPES)),
        _ids(options, rows.tag),
        pa.array(rows.shelf.astype(np.int32), mask=rows.shelf == 0),
        pa.DictionaryArray.from_arrays(rows.reader.astype(np.int16), readers),
        pa.DictionaryArray.from_arrays((rows.tag % len(CATEGORIES)).astype(np.int8), list(CATEGORIES)),
        pa.array((rows.tag // len(CATEGORIES) % MANUFACTURERS + 1).astype(np.int32)),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema(options))


def _ids(options: RetailOptions, tags: Integers) -> pa.Array:
    numbers = pa.array(tags)
    if not options.string_ids:
        return numbers
    return pc.binary_join_element_wise("tag", pc.utf8_lpad(numbers.cast(pa.string()), 8, "0"), "-")


def _matches(options: RetailOptions, cast: _Cast, planted: list[tuple[Story, Pairs]], last: str) -> pa.Table:
    """The rows (id, time of the first event, time of the last event, story) of all planted pairs, in time order."""
    timestamp = pa.timestamp("us", tz="UTC")
    columns = pa.schema([("id", _id_type(options)), ("x_ts", timestamp), (last, timestamp), ("story", pa.string())])
    parts: list[pa.RecordBatch] = []
    for number, (story, pairs) in enumerate(planted):
        for slot in range(_SLOTS if pairs else 0):
            told = _tell(options, cast, number, slot)
            tags = told.tag.reshape(-1, len(story.readings))
            times = told.ts.reshape(-1, len(story.readings))
            for x, y in pairs:
                names = pa.repeat(story.name, len(tags))
                moments = [pa.array(times[:, column]).cast(timestamp) for column in (x, y)]
                parts.append(pa.RecordBatch.from_arrays([_ids(options, tags[:, 0]), *moments, names], schema=columns))
    return pa.Table.from_batches(parts, columns).sort_by([("x_ts", "ascending"), ("id", "ascending"), (last, "ascending")])
