"""Events of a streaming DataFrame on their way to the stateful operator: packed into Arrow streams, one per bucket of keys.

Spark tells how far event time has come: the watermark is that of the events before they are packed, so its own filter of late
rows never sees them, and the bucket decides what is late.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as f

from kleene.common.arrays import Array
from kleene.common.errors import DataError, Problem
from kleene.pattern.text import quoted
from kleene.runtime.spark.push_down import any_of, bad_row_conditions, of_types, relevant_rows
from kleene.runtime.spark.schemas import from_arrow
from kleene.runtime.spark.stream.event_time import LATENESS, ahead_reason, out_of_bounds, watermarked
from kleene.runtime.stream.bucket import BAD, MATCHES
from kleene.runtime.stream.plan import EVENTS, LABELLED, LABELS, MADE, PACKED, RULES, Distribution, Made, StreamPlan
from kleene.runtime.stream.spread import GROUP, SPREAD
from kleene.runtime.stream.state import encode_events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_PACKETS = pa.schema([pa.field("group", pa.int32()), *LABELS])

FLUSHED = 1 << 17
"""Rows of a task that are packed together."""

BUCKET, REASON, THROUGH = "__kleene_bucket", "__kleene_reason", "__kleene_through"


def packed(
    plan: StreamPlan,
    frame: DataFrame,
    watermark: str | int | None,
    max_ahead: dt.timedelta | None = None,
    earlier: DataFrame | None = None,
) -> DataFrame:
    """The events as rows of bytes, by group; with the labelled rows of the tier before, and events that are made of them."""
    events = watermarked(plan.schema, frame, watermark, max_ahead)
    if earlier is not None:
        events = events.withColumns({name: f.lit(None).cast(kind) for name, kind in _through_columns().items()})
        events = events.unionByName(expanded(plan, earlier), allowMissingColumns=True)
    condition = _relevant(plan, events)
    if condition is not None:
        # A condition on the column of the watermark is not pushed below it, where the watermark would miss the other events.
        events = events.where(condition | events[LATENESS].isNull())
    columns = [events[quoted(name)].alias(f"c{number}") for number, name in enumerate(plan.events.names)]
    buckets = [_bucket(events, item).alias(f"{BUCKET}{number}") for number, item in enumerate(plan.distributions)]
    through = [] if earlier is None else [events[name] for name in _through_columns()]
    untimed = out_of_bounds(plan.schema, events, max_ahead)
    ahead = None if max_ahead is None else ahead_reason(plan.schema, max_ahead)
    events = events.select(*columns, *buckets, _reason(plan, events, untimed).alias(REASON), *through)
    return events.mapInArrow(_pack(plan, tuple(untimed), ahead), PACKED)


def _through_columns() -> dict[str, str]:
    """Columns for labelled rows that go through a tier; an event that was made has only the first one."""
    return {THROUGH + name: kind for name, kind in (item.split() for item in LABELLED.split(", "))}


def expanded(plan: StreamPlan, labelled: DataFrame) -> DataFrame:
    """Labelled rows of the tier before, and the events that are made of its matches."""
    through = pa.schema([pa.field(THROUGH + item.name, item.type) for item in LABELS])
    schema = pa.schema([*plan.events, *through])

    def expand(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            nothing = [pa.nulls(batch.num_rows, item.type) for item in plan.events]
            yield pa.RecordBatch.from_arrays([*nothing, *batch.columns], schema=schema)
            for made in plan.made:
                chosen = pc.and_(pc.equal(batch.column("kind"), MATCHES), pc.equal(batch.column("query"), made.query))
                for blob in batch.column("blob").filter(chosen):
                    for rows in pa.ipc.open_stream(blob.as_buffer()):
                        yield _made(plan, made, rows, schema)

    return labelled.mapInArrow(expand, from_arrow(schema))


def _made(plan: StreamPlan, made: Made, rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Matches as events."""
    columns = []
    for item in schema:
        if item.name == plan.schema.time:
            columns.append(rows.column("match_end").cast(item.type))
        elif item.name == plan.schema.type:
            columns.append(pa.array([made.event_type] * rows.num_rows, item.type))
        elif item.name in made.attributes:
            columns.append(rows.column(item.name).cast(item.type))
        elif item.name == f"{THROUGH}kind":
            columns.append(pa.array([MADE] * rows.num_rows, item.type))
        else:
            columns.append(pa.nulls(rows.num_rows, item.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _plans(plan: StreamPlan) -> list[Any]:
    return [item.plan for distribution in plan.distributions for item in distribution.queries.queries]


def _relevant(plan: StreamPlan, frame: DataFrame) -> Any:
    """The rows that some query may read; None if all have to travel."""
    if plan.compile is not None:
        return None
    wanted = relevant_rows(_plans(plan), frame)
    if wanted is None or not plan.watched:
        return wanted
    return wanted | of_types(plan.schema, frame, plan.watched)


def _reason(plan: StreamPlan, frame: DataFrame, untimed: Mapping[str, Any]) -> Any:
    """Why a row cannot be processed, NULL if it can; first of all that its time is out of bounds."""
    conditions: dict[str, list[Any]] = {}
    for item in _plans(plan):
        for condition, text in bad_row_conditions(item, frame):
            conditions.setdefault(text, []).append(condition)
    if plan.compile is not None:
        conditions = _reasons_of_any_query(plan, frame)
    found: Any = f
    for text, alternatives in {**{text: [condition] for text, condition in untimed.items()}, **conditions}.items():
        found = found.when(any_of(alternatives), f.lit(text))
    return found


def _reasons_of_any_query(plan: StreamPlan, frame: DataFrame) -> dict[str, list[Any]]:
    """Why a row cannot be processed whatever the rules are."""
    schema = plan.schema
    found = {f"time column '{schema.time}' is NULL": [frame[quoted(schema.time)].isNull()]}
    if schema.type is not None:
        kind = frame[quoted(schema.type)]
        undeclared = kind.isNull() if schema.types is None else kind.isNull() | ~kind.cast("string").isin(sorted(schema.types))
        found[f"type column '{schema.type}' is NULL or holds an undeclared type"] = [undeclared]
    for key in plan.distributions[0].keys:
        found[f"key attribute '{key}' is NULL"] = [frame[quoted(key)].isNull()]
    return found


def _bucket(frame: DataFrame, distribution: Distribution) -> Any:
    """The group of the bucket that a row belongs to."""
    count = len(distribution.groups)
    if count == 1:
        return f.lit(distribution.groups[0])
    number = f.pmod(f.hash(*(frame[quoted(name)] for name in distribution.keys)), f.lit(count))
    return f.element_at(f.array(*map(f.lit, distribution.groups)), number + 1)


def _pack(
    plan: StreamPlan, untimed: tuple[str, ...], ahead: str | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            held.append(batch)
            rows += batch.num_rows
            if rows >= FLUSHED:
                yield _Packing(plan, pa.Table.from_batches(held), untimed, ahead).packets()
                held, rows = [], 0
        if rows:
            yield _Packing(plan, pa.Table.from_batches(held), untimed, ahead).packets()
        yield pa.RecordBatch.from_pylist([{"group": GROUP, "kind": SPREAD}], _PACKETS)

    return pack


class _Packing:
    """Some rows on their way into packets."""

    def __init__(self, plan: StreamPlan, rows: pa.Table, untimed: tuple[str, ...] = (), ahead: str | None = None) -> None:
        """`untimed`: the reasons of rows whose time is out of bounds; `ahead`: that of those too far ahead of the clock."""
        self._plan, self._untimed, self._ahead = plan, pa.array(untimed, pa.string()), ahead
        self._rows = rows.combine_chunks()
        self._packets: list[dict[str, Any]] = []
        self._groups: list[int] = []
        self._through: list[pa.Table] = []

    def packets(self) -> pa.RecordBatch:
        """A packet for each group that has rows, one for bad rows, and what goes through."""
        rows, names = self._rows, self._plan.events.names
        made = np.zeros(rows.num_rows, bool)
        if f"{THROUGH}kind" in rows.schema.names:
            kinds = rows.column(f"{THROUGH}kind")
            made = np.array(pc.fill_null(pc.equal(kinds, MADE), False))
            own = np.array(pc.is_null(kinds)) | made
            self._send_through(rows.filter(pa.array(~own)))
            rows, made = rows.filter(pa.array(own)).combine_chunks(), made[own]
        columns = [rows.column(place).cast(item.type) for place, item in enumerate(self._plan.events)]
        events = pa.table(columns, names)
        reasons, time = rows.column(REASON), events.column(self._plan.schema.time)
        bad, timed = np.array(pc.is_valid(reasons)), np.array(pc.is_valid(time))
        if bad.any():
            counts = ~np.array(pc.is_in(reasons, self._untimed))
            timed &= counts
            refused = pa.array(bad if self._plan.is_first else bad & counts)
            self._set_aside(events.append_column("reason", reasons).filter(refused))
        if not timed.all():
            rows, events, made = rows.filter(pa.array(timed)), events.filter(pa.array(timed)), made[timed]
        for number in range(len(self._plan.distributions)):
            groups = rows.column(f"{BUCKET}{number}").to_numpy()
            for kind, chosen in ((EVENTS, ~made), (MADE, made)):
                self._spread(kind, groups[chosen], events if chosen.all() else events.filter(pa.array(chosen)))
        return self._written()

    def _send_through(self, rows: pa.Table) -> None:
        groups = self._plan.distributions[0].groups
        self._groups += [groups[number % len(groups)] for number in range(rows.num_rows)]
        self._through.append(rows.select([THROUGH + item.name for item in LABELS]).rename_columns(LABELS.names))

    def _set_aside(self, refused: pa.Table) -> None:
        if not refused.num_rows:
            return
        if self._plan.bad_rows == "error":
            raise DataError(_bad(refused))
        blob = _blob(refused) if self._plan.bad_rows == "quarantine" else None
        group, count = self._plan.distributions[0].groups[0], refused.num_rows
        ahead = pc.sum(pc.equal(refused.column("reason"), pa.scalar(self._ahead, pa.string()))).as_py()
        self._packets.append({"group": group, "kind": BAD, "rows": count, "blob": blob, "bad": count, "ahead": ahead})

    def _spread(self, kind: str, groups: Array, events: pa.Table) -> None:
        """Events as packets of their groups."""
        order = np.argsort(groups, kind="stable")
        found, begins = np.unique(groups[order], return_index=True)
        spread = events.take(pa.array(order)) if found.size > 1 else events
        sizes = np.diff(np.append(begins, groups.size))
        for group, begin, size in zip(found.tolist(), begins.tolist(), sizes.tolist(), strict=True):
            self._packets.append({"group": group, "kind": kind, "rows": size, "blob": _blob(spread.slice(begin, size))})

    def _written(self) -> pa.RecordBatch:
        own = pa.Table.from_pylist(self._packets, _PACKETS)
        through = [rows.add_column(0, _PACKETS.field(0), pa.array(self._groups, pa.int32())) for rows in self._through]
        packets = pa.concat_tables([own, *(rows.cast(_PACKETS) for rows in through)]).combine_chunks()
        return packets.to_batches()[0] if packets.num_rows else pa.RecordBatch.from_pylist([], _PACKETS)


def _blob(rows: pa.Table) -> bytes:
    return encode_events(rows.combine_chunks().to_batches()[0])


def _bad(refused: pa.Table) -> Problem:
    first = refused.slice(0, 1).to_pylist()[0]
    reason = first.pop("reason")
    hint = 'bad_rows="quarantine" delivers such rows by themselves, bad_rows="drop" only counts them'
    return Problem(f"{reason}: {first}", hint=hint)


def broadcast(plan: StreamPlan, rules: DataFrame) -> DataFrame:
    """Changes of rules as packets for every bucket."""
    groups = [GROUP, *(group for item in plan.distributions for group in item.groups)]
    return rules.select(
        f.explode(f.array(*(f.lit(group) for group in groups))).alias("group"),
        f.lit(RULES).alias("kind"),
        f.lit(0).cast("long").alias("rows"),
        rules["rules"].cast("binary").alias("blob"),
    )
