"""A bucket of a stream: the events of some keys, in any order, to the matches of all queries, watermark by watermark.

Events wait in the log until the watermark has passed them; then they are given to the matchers in stream order, so that nothing
depends on the order of arrival. An event that comes when the watermark has passed it is late, and handed on as such.

What is kept is the log of recent events and, in the header, how far each unit has come (`kleene.runtime.stream_state`). A
bucket that goes on in the same process remembers its matchers; in another one they are made anew from the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from kleene.common.columns import time_values
from kleene.common.errors import LimitError, Problem, StateError
from kleene.common.schema import EventSchema
from kleene.engine.working_matcher import WorkingMatcher
from kleene.runtime.arrow import in_stream_order
from kleene.runtime.stream_state import Header, Segment, Store, UnitState, damaged, decode_events, encode_events
from kleene.runtime.stream_units import QuerySet, Unit

Array = np.ndarray[Any, Any]

MATCHES, LATE, BAD, PROBLEM = "matches", "late", "bad", "problem"
"""The kinds of what comes out of a stream."""

FEW_MERGED, MOST_MERGED = 1 << 10, 1 << 18
"""Segments of the log with few rows are always merged, with many never."""

MOST_WRITTEN = 1 << 20
"""Rows of one segment: what a state store takes at once is bounded."""

PART = 8
"""Segments between them are merged while they are less than this part of the log: what can go, goes soon."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """Rows that leave the stream."""

    kind: str
    query: str
    version: int
    rows: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Compiled:
    """The queries of some rules, and what is wrong with rules that are not among them."""

    queries: QuerySet
    problems: tuple[tuple[str, int, str], ...] = ()
    """(query, version, what is wrong)."""


@dataclass(frozen=True, slots=True)
class BucketPlan:
    """What all buckets of one distribution have in common."""

    schema: EventSchema
    events: pa.Schema
    """Of the events, as they are kept."""
    queries: QuerySet
    buckets: int
    """Over so many buckets events are spread..."""
    keys: tuple[str, ...] = ()
    """...by these attributes."""
    delivers_late: bool = True
    compile: Callable[[str], Compiled] | None = None
    """The queries of rules, where they can change."""
    max_events: int = 50_000_000
    """That a bucket may keep."""
    lag: int = 0
    """How far behind the watermark this bucket stays: events made by other queries come that much later."""

    def require_spread(self, known: Header) -> None:
        """That what is known was spread like this."""
        if known.keys != self.keys:
            before, now = (", ".join(keys) or "nothing" for keys in (known.keys, self.keys))
            message = f"the checkpoint's state is spread by {before}, this stream by {now}"
            hint = "the queries test other attributes for equality now: begin with a new checkpoint folder"
            raise StateError(Problem(message, hint=hint))
        if known.buckets != self.buckets:
            message = f"the checkpoint's state is spread over {known.buckets} buckets, this stream over {self.buckets}"
            raise StateError(Problem(message, hint=f"give buckets={known.buckets}, or begin with a new checkpoint folder"))


@dataclass(frozen=True, slots=True)
class _Running:
    """A unit in execution."""

    unit: Unit
    born: int | None
    matcher: WorkingMatcher


class Bucket:
    """One bucket, with its matchers."""

    def __init__(self, plan: BucketPlan, store: Store) -> None:
        """Goes on from what is in the store."""
        self._plan = plan
        blob = store.header()
        self.header = Header(plan.keys, plan.buckets, "") if blob is None else Header.decode(blob)
        plan.require_spread(self.header)
        self.late = 0
        self._waiting: list[pa.Table] = []
        self._running: list[_Running] = []
        self._restore(store)

    # Coming and going

    def is_current(self, store: Store) -> bool:
        """Whether this is what was written last."""
        blob = store.header()
        return blob is not None and Header.decode(blob).nonce == self.header.nonce

    def _restore(self, store: Store) -> None:
        header = self.header
        queries = self._plan.queries if header.rules is None else self._compile(header.rules).queries
        self._run(store, queries, [])
        if header.segments:
            log = self._read_log(store)
            waiting = log.slice(self._released(log))
            self._waiting = [waiting] if waiting.num_rows else []

    def _run(self, store: Store, queries: QuerySet, running: Sequence[_Running]) -> None:
        """Has these queries run, those that ran before where they are. New ones see only what comes from the watermark on."""
        known = {key: state for state in self.header.units for key in state.keys}
        now = self.header.watermark
        born = {item.key: known[item.key].born if item.key in known else now for item in queries.queries}
        ran = {item.unit.keys: item for item in running}
        log: pa.Table | None = None
        self._running = []
        for unit in queries.units(born):
            if unit.keys in ran:
                self._running.append(replace(ran[unit.keys], unit=unit))
                continue
            matcher = unit.matcher(self._plan.events)
            key = next(iter(unit.keys))
            if now is not None and key not in known:
                matcher.restore([], now, now - 1, {})
            elif now is not None:
                log = self._read_log(store) if log is None else log
                state = known[key]
                _require_kind(unit, state)
                first = 0 if state.horizon is None else int(np.searchsorted(self._times(log), state.horizon, side="right"))
                recent = log.slice(first, self._released(log) - first).combine_chunks()
                matcher.restore(recent.to_batches(), now, state.horizon, state.state)
            self._running.append(_Running(unit, born[key], matcher))

    def _read_log(self, store: Store) -> pa.Table:
        """The events of the log in stream order."""
        segments = [self._read(store, item) for item in self.header.segments] or [self._plan.events.empty_table()]
        return in_stream_order(pa.concat_tables(segments), self._plan.schema)

    def _released(self, log: pa.Table) -> int:
        """How many events of the log have been given to the matchers."""
        return 0 if self.header.watermark is None else int(np.searchsorted(self._times(log), self.header.watermark))

    def _read(self, store: Store, segment: Segment) -> pa.Table:
        blob = store.segment(segment.number)
        if len(blob) != segment.size:
            raise damaged(f"{len(blob)} bytes of events, not {segment.size}")
        table = decode_events(blob)
        missing = [name for name in self._plan.events.names if name not in table.schema.names]
        if missing:
            message = f"events in the checkpoint were kept without {', '.join(repr(name) for name in missing)}"
            hint = "the queries that wrote them did not read it: begin with a new checkpoint folder, or without that query"
            raise StateError(Problem(message, hint=hint))
        return table.select(self._plan.events.names)

    def _times(self, events: pa.Table) -> Array:
        schema = self._plan.schema
        column = events.column(schema.time)
        return time_values(column.combine_chunks() if column.num_chunks != 1 else column.chunk(0), schema.time_unit)

    # A micro-batch

    def process(
        self,
        store: Store,
        arrived: Sequence[pa.Table],
        watermark: int | None,
        rules: str | None = None,
        made: Sequence[pa.Table] = (),
    ) -> Iterator[Labelled]:
        """Takes events in, and gives what is certain by the watermark; then everything is in the store.

        Events that other queries have `made` of those before the watermark are not late. New rules are in force for events
        from the watermark on.
        """
        before = self.header.watermark
        if before is not None:
            reached = before + self._plan.lag
            watermark = reached if watermark is None else max(reached, watermark)
        punctual, late = self._sorted_out(arrived, watermark)
        if late is not None and self._plan.delivers_late:
            self.late += late.num_rows
            yield from (Labelled(LATE, "", 0, batch) for batch in late.combine_chunks().to_batches())
        self._take_in(store, [*punctual, *made])
        if watermark is not None:
            watermark -= self._plan.lag
        if watermark is not None and watermark != before:
            yield from self._release(watermark)
            self.header = replace(self.header, watermark=watermark)
        if rules is not None and rules != self.header.rules:
            yield from self._change(store, rules)
        self._prune(store)
        self._require_room()
        self._save(store)

    def _sorted_out(self, arrived: Sequence[pa.Table], watermark: int | None) -> tuple[list[pa.Table], pa.Table | None]:
        """The events that are in time, and those that are late."""
        if not arrived:
            return [], None
        events = in_stream_order(pa.concat_tables(arrived), self._plan.schema)
        late = 0 if watermark is None else int(np.searchsorted(self._times(events), watermark))
        return [events.slice(late)], events.slice(0, late) if late else None

    def _take_in(self, store: Store, tables: Sequence[pa.Table]) -> None:
        """Lets events wait, and writes them to the log."""
        kept = [table.select(self._plan.events.names) for table in tables if table.num_rows]
        if kept:
            events = in_stream_order(pa.concat_tables(kept), self._plan.schema).combine_chunks()
            self._waiting.append(events)
            for begin in range(0, events.num_rows, MOST_WRITTEN):
                self._log(store, events.slice(begin, MOST_WRITTEN))

    def _release(self, watermark: int) -> Iterator[Labelled]:
        """Gives the events before the watermark to the matchers, in stream order."""
        if self._waiting:
            waiting = in_stream_order(pa.concat_tables(self._waiting), self._plan.schema)
            cut = int(np.searchsorted(self._times(waiting), watermark))
            released = waiting.slice(0, cut).combine_chunks()
            self._waiting = [waiting.slice(cut).combine_chunks()] if cut < waiting.num_rows else []
            for batch in released.to_batches():
                for item in self._running:
                    yield from _labelled(item.unit, item.matcher.feed(batch))
        for item in self._running:
            yield from _labelled(item.unit, item.matcher.advance(watermark))

    def _change(self, store: Store, rules: str) -> Iterator[Labelled]:
        """From here on other rules hold; queries that stay go on."""
        compiled = self._compile(rules)
        known = () if self.header.rules is None else self._compile(self.header.rules).problems
        self.header = replace(self.header, rules=rules, units=self._states())
        self._run(store, compiled.queries, self._running)
        for query, version, text in compiled.problems:
            if not self._plan.delivers_late or (query, version, text) in known:
                continue
            row = {"query": [query], "query_version": pa.array([version], pa.int32()), "problem": [text]}
            yield Labelled(PROBLEM, query, version, pa.record_batch(row))

    def _compile(self, rules: str) -> Compiled:
        assert self._plan.compile is not None
        return self._plan.compile(rules)

    # The log

    def _log(self, store: Store, events: pa.Table) -> None:
        """Writes a segment; the last ones are merged while they are about as long, so that there are not many."""
        segments = list(self.header.segments)
        number = segments[-1].number + 1 if segments else 0
        total = sum(segment.rows for segment in segments) + events.num_rows
        most = min(max(FEW_MERGED, total // PART), MOST_MERGED)
        while segments and segments[-1].rows <= 2 * events.num_rows and segments[-1].rows + events.num_rows <= most:
            merged = segments.pop()
            events = pa.concat_tables([self._read(store, merged), events])
            store.drop_segment(merged.number)
            number = merged.number
        blob = encode_events(events.combine_chunks().to_batches()[0])
        store.put_segment(number, blob)
        segments.append(Segment(number, int(self._times(events).max()), events.num_rows, len(blob)))
        self.header = replace(self.header, segments=tuple(segments))

    def _prune(self, store: Store) -> None:
        """Lets go of segments that no unit needs, and no event of which is waiting."""
        watermark = self.header.watermark
        if watermark is None:
            return
        horizons = [item.matcher.horizon for item in self._running]
        known = [item for item in horizons if item is not None]
        if len(known) < len(horizons):
            return
        horizon = min([watermark - 1, *known])
        kept = []
        for segment in self.header.segments:
            if segment.last > horizon:
                kept.append(segment)
            else:
                store.drop_segment(segment.number)
        self.header = replace(self.header, segments=tuple(kept))

    def _require_room(self) -> None:
        count, most = sum(segment.rows for segment in self.header.segments), self._plan.max_events
        if count > most:
            message = f"a bucket of the stream would keep {count:,} events, of which {self.waiting:,} wait for the watermark"
            hint = (
                "the checkpoint is as it was before this micro-batch: spread the keys over more buckets (and begin anew), "
                f"shorten the window or the watermark's delay, or give max_events of more than {most:,}"
            )
            raise LimitError(Problem(message, hint=hint))

    def _save(self, store: Store) -> None:
        self.header = replace(self.header, nonce=uuid4().hex, units=self._states(), timer=self._due())
        store.put_header(self.header.encode())

    def _states(self) -> tuple[UnitState, ...]:
        return tuple(
            UnitState(item.unit.keys, item.born, item.matcher.horizon, item.matcher.snapshot(), item.unit.kind)
            for item in self._running
        )

    def _due(self) -> int | None:
        """The next watermark at which something is to be done though no event comes."""
        watermark = self.header.watermark
        found = [int(self._times(table).min()) + 1 for table in self._waiting]
        if watermark is not None:
            found += [due for item in self._running if (due := item.matcher.due(watermark)) is not None]
            found += [gone for gone in self._gone() if gone > watermark]
        return min(found) + self._plan.lag if found else None

    def _gone(self) -> Iterator[int]:
        """The watermark at which nothing is left in the log, unless something lasts."""
        if self.header.segments:
            memory = max((item.matcher.memory for item in self._running), default=0)
            yield max(item.last for item in self.header.segments) + memory + 1

    # What is held

    @property
    def waiting(self) -> int:
        """How many events wait for the watermark."""
        return sum(table.num_rows for table in self._waiting)

    def runs(self) -> int:
        """The most runs that were alive at a time in one partition since the last call."""
        found = max((item.matcher.metrics.peak_runs for item in self._running), default=0)
        for item in self._running:
            item.matcher.metrics.peak_runs = 0
        return found

    @property
    def kept(self) -> int:
        """How many events the matchers hold."""
        return sum(item.matcher.kept for item in self._running)


def _require_kind(unit: Unit, known: UnitState) -> None:
    if unit.kind != known.kind:
        name = unit.queries[0].name
        message = f"the checkpoint has the state of {known.kind} for query '{name}', and its plan goes on from {unit.kind}"
        raise StateError(
            Problem(message, hint=f"give plan={{'mechanism': '{known.kind}'}}, or begin with a new checkpoint folder")
        )


def _labelled(unit: Unit, found: Iterator[Any]) -> Iterator[Labelled]:
    for query, rows in map(unit.labelled, found):
        if rows.num_rows:
            yield Labelled(MATCHES, query.name, query.version, rows)
