"""A bucket of a stream: the events of some keys, in any order, to the matches of all queries, watermark by watermark.

Events wait in the log until the watermark has passed them; then they are given to the matchers in stream order, so that nothing
depends on the order of arrival. An event that comes when the watermark has passed it is late, and handed on as such.

A query that fails is suspended, where the plan says so (`suspends`): it reports nothing of that micro-batch and of later ones,
and a problem says why. The others report what they would without it: of queries that are matched together, each is then matched
alone, from the state before the micro-batch. Who is suspended is part of the header, so replays and restarts agree.

What is kept is the log of recent events (`kleene.runtime.stream.log`) and, in the header, how far each unit has come
(`kleene.runtime.stream.state`). A bucket that stays in the same process keeps its matchers; in another one they are
rebuilt from the log.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

import numpy as np
import pyarrow as pa

from kleene.common.errors import KleeneError, LimitError, Problem, StateError, damaged, described
from kleene.common.schema import EventSchema
from kleene.engine.matcher import Matcher
from kleene.runtime.stream.budget import Budget, OverBudgetError, Spent
from kleene.runtime.stream.log import EventLog
from kleene.runtime.stream.pieces import Pieces
from kleene.runtime.stream.spread import require_buckets, require_keys
from kleene.runtime.stream.state import Header, Store, Suspended, UnitState, joined, seal_of
from kleene.runtime.units import PlannedQuery, QuerySet, Unit

MATCHES, LATE, BAD, PROBLEM = "matches", "late", "bad", "problem"
"""The kinds of what comes out of a stream."""

MOST_SEARCHED = 1 << 16
"""The event with which a query fails is looked for among at most this many."""

MOST_SHOWN = 100
"""Characters of each of its values that are told."""

SEARCH_SECONDS = 60.0
"""For so long; a single try may take as long as the micro-batch did."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """Rows that leave the stream."""

    kind: str
    query: str
    version: int
    rows: pa.RecordBatch
    everywhere: bool = False
    """Whether all buckets give the same."""


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
    """Number of buckets that events are spread over..."""
    keys: tuple[str, ...] = ()
    """...by these attributes."""
    columns: tuple[str, ...] = ()
    """Of the stream; none if all of them are kept."""
    delivers_late: bool = True
    compile: Callable[[str], Compiled] | None = None
    """The queries of rules, where they can change."""
    max_events: int = 50_000_000
    """That a bucket may keep."""
    lag: int = 0
    """How far behind the watermark this bucket stays: events made by other queries come that much later."""
    suspends: bool = False
    """Whether a query that fails is suspended; else it stops the stream."""
    budget: Budget | None = None
    """Of each query in a micro-batch."""
    shape: Callable[[pa.RecordBatch, int], pa.RecordBatch] | None = None
    """Makes of the rows of a query, and its version, those that leave the bucket."""

    def require_spread(self, known: Header) -> None:
        """That what is known was spread like this."""
        require_keys("", known.keys, self.keys)
        require_buckets(known.buckets, self.buckets)


@dataclass(frozen=True, slots=True)
class _Running:
    """A unit in execution."""

    unit: Unit
    born: int | None
    matcher: Matcher
    state: UnitState
    """After the last watermark..."""
    due: int | None
    """...and the next one at which something is to be done though no event comes."""
    pieces: Pieces
    """What the matcher knows of many things one by one, as far as it is written."""

    def settled(self, watermark: int | None) -> _Running:
        """The same, after the matcher has reached a watermark."""
        unit, matcher = self.unit, self.matcher
        known = {**matcher.snapshot(), **self.pieces.state()}
        state = UnitState(unit.keys, self.born, matcher.horizon, known, unit.plan.kind)
        return replace(self, state=state, due=None if watermark is None else matcher.due(watermark))


class Bucket:
    """One bucket, with its matchers."""

    def __init__(self, plan: BucketPlan, store: Store, group: int = 0) -> None:
        """Resumes from the store of a group."""
        self._plan = plan
        blob = store.header()
        if blob is None and not store.is_empty():
            raise damaged("its header is missing")
        self._seal = b"" if blob is None else seal_of(blob)
        self.header = Header(plan.keys, plan.buckets, "") if blob is None else Header.decode(blob)
        plan.require_spread(self.header)
        if self.header.group not in (None, group):
            raise damaged(f"it is that of bucket {self.header.group}, not of {group}")
        self.header = replace(self.header, group=group)
        self._log = self._opened()
        self._log.adopt(store)
        self.late = 0
        self.spent: list[Spent] = []
        """What units have used in the last micro-batch."""
        self._problems: list[Labelled] = []
        self._waiting: list[pa.Table] = []
        self._running: list[_Running] = []
        self._pieces = {number for unit in self.header.units for number in Pieces.of(unit.state).numbers}
        """The numbers of all pieces in the store."""
        self._restore(store)

    def _opened(self) -> EventLog:
        """The log as the header has it."""
        plan, header = self._plan, self.header
        known = {key for state in header.units for key in state.keys} | {item.key for item in header.suspended}
        read = {name for item in plan.queries.queries if item.key in known for name in item.plan.columns}
        if header.rules is not None:
            read = set(plan.events.names)  # of rules, all columns are kept
        columns, watermark = plan.columns or tuple(plan.events.names), header.watermark
        return EventLog(plan.schema, plan.events, header.segments, columns=columns, read_before=read, watermark=watermark)

    # Coming and going

    def is_current(self, store: Store) -> bool:
        """Whether this is what was written last."""
        blob = store.header()
        return blob is not None and seal_of(blob) == self._seal

    def _restore(self, store: Store) -> None:
        header = self.header
        queries = self._plan.queries if header.rules is None else self._compile(header.rules).queries
        self._run(store, queries, [])
        if header.segments:
            waiting = self._log.divided(store, header.watermark)[1]
            self._waiting = [waiting] if waiting.num_rows else []

    def _run(self, store: Store, queries: QuerySet, running: Sequence[_Running], *, everywhere: bool = False) -> None:
        """Starts matchers for these queries, keeping those that already run. New ones see only events from the watermark on."""
        gone = {item.key for item in self.header.suspended}
        queries = replace(queries, queries=tuple(item for item in queries.queries if item.key not in gone))
        known = {key: state for state in self.header.units for key in state.keys}
        born = {item.key: known[item.key].born if item.key in known else self.header.watermark for item in queries.queries}
        ran = {item.unit.keys: item for item in running}
        units = self._units(queries, born)
        log = self._past(store) if any(unit.keys not in ran and unit.keys & known.keys() for unit in units) else None
        self._running = []
        for unit in units:
            if unit.keys in ran:
                self._running.append(replace(ran[unit.keys], unit=unit))
                continue
            try:
                self._running.append(self._started(store, unit, log))
            except StateError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a query does, others do not suffer
                self._running += self._started_alone(store, unit, log, error, everywhere)

    def _units(self, queries: QuerySet, born: Mapping[str, int | None]) -> list[Unit]:
        try:
            return list(queries.units(born))
        except Exception:
            if not self._plan.suspends:
                raise
            return [item.alone for item in queries.queries]

    def _started(self, store: Store, unit: Unit, log: pa.Table | None) -> _Running:
        """A unit where its queries are by the header: after the last watermark, the events before which are in `log`."""
        known = {key: state for state in self.header.units for key in state.keys}
        now, key = self.header.watermark, next(iter(unit.keys))
        born = known[key].born if key in known else now
        matcher, pieces = unit.matcher(self._plan.events), Pieces()
        if now is not None and not unit.keys <= known.keys():  # all of them start at this watermark
            matcher.restore([], now, now - 1, {})
        elif now is not None:
            assert log is not None
            horizon, state = joined([known[key] for key in unit.keys], unit, now)
            first = 0 if horizon is None else int(np.searchsorted(self._log.times(log), horizon, side="right"))
            pieces = Pieces.of(state)
            known_now = {**pieces.beside(state), **pieces.joined(store)}
            matcher.restore(log.slice(first).combine_chunks().to_batches(), now, horizon, known_now)
        return _Running(unit, born, matcher, UnitState(unit.keys, born, None), None, pieces).settled(now)

    def _started_alone(
        self, store: Store, unit: Unit, log: pa.Table | None, error: Exception, everywhere: bool
    ) -> Iterator[_Running]:
        """The queries of a unit that cannot be started, each by itself; those that cannot be either are suspended."""
        self._require_suspending(unit, error)
        for query in unit.queries:
            try:
                yield self._started(store, query.alone, log)
            except StateError:
                raise
            except Exception as own:  # noqa: BLE001
                # What a query has seen, and the memory that is left, are others in other buckets.
                is_new = not any(query.key in state.keys for state in self.header.units)
                self._suspend(query, own, None, everywhere=everywhere and is_new and not isinstance(own, MemoryError))

    def _past(self, store: Store) -> pa.Table:
        """The events of the log that have been given to the matchers."""
        return self._log.divided(store, self.header.watermark)[0]

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

        Events that other queries have `made` of those before the watermark are not late. New rules apply to events
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
        self.spent = []
        failed = self.header.suspended
        if watermark is not None and watermark != before:
            yield from self._release(store, watermark)
            self.header = replace(self.header, watermark=watermark)
        if rules is not None and rules != self.header.rules:
            yield from self._change(store, rules)
        elif self.header.suspended != failed:
            self._regroup(store)
        if (horizon := self._horizon()) is not None:
            self._log.prune(store, horizon)
        self._require_room(store)
        self._save(store)
        problems, self._problems = self._problems, []
        yield from problems

    def _sorted_out(self, arrived: Sequence[pa.Table], watermark: int | None) -> tuple[list[pa.Table], pa.Table | None]:
        """The events that are in time, and those that are late."""
        if not arrived:
            return [], None
        events = self._log.ordered(arrived)
        late = 0 if watermark is None else int(np.searchsorted(self._log.times(events), watermark))
        return [events.slice(late)], events.slice(0, late) if late else None

    def _take_in(self, store: Store, tables: Sequence[pa.Table]) -> None:
        """Lets events wait, and writes them to the log."""
        kept = [table.select(self._plan.events.names) for table in tables if table.num_rows]
        if kept:
            events = self._log.ordered(kept).combine_chunks()
            self._waiting.append(events)
            self._log.write(store, events)

    def _release(self, store: Store, watermark: int) -> Iterator[Labelled]:
        """Gives the events before the watermark to the matchers, in stream order."""
        released = self._plan.events.empty_table()
        if self._waiting:
            waiting = self._log.ordered(self._waiting)
            cut = int(np.searchsorted(self._log.times(waiting), watermark))
            released = waiting.slice(0, cut).combine_chunks()
            self._waiting = [waiting.slice(cut).combine_chunks()] if cut < waiting.num_rows else []
        running, self._running = self._running, []
        for item in running:
            try:
                found = self._advanced(item, released, watermark)
                yield from list(found) if self._plan.suspends else found
            except StateError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a query does, others do not suffer
                yield from self._advanced_alone(store, item.unit, error, released, watermark)
        self._write_pieces(store)

    def _advanced(self, item: _Running, released: pa.Table, watermark: int) -> Iterator[Labelled]:
        """What a unit makes of events; then it is among those that run."""
        spent = Spent(self._plan.budget, item.unit)
        for batch in released.to_batches():
            yield from self._shaped(spent.rows(item.matcher.feed(batch)))
        yield from self._shaped(spent.rows(item.matcher.advance(watermark)))
        self._running.append(item.settled(watermark))
        self.spent.append(spent)

    def _shaped(self, found: Iterator[tuple[PlannedQuery, pa.RecordBatch]]) -> Iterator[Labelled]:
        shape = self._plan.shape
        for query, rows in found:
            yield Labelled(MATCHES, query.name, query.version, rows if shape is None else shape(rows, query.version))

    def _advanced_alone(
        self, store: Store, unit: Unit, error: Exception, released: pa.Table, watermark: int
    ) -> Iterator[Labelled]:
        """What the queries of a unit that failed make of the events, each by itself, from the state before them."""
        self._require_suspending(unit, error)
        log = self._past(store)
        for query in unit.queries:
            try:
                found = list(self._advanced(self._started(store, query.alone, log), released, watermark))
            except StateError:
                raise
            except Exception as own:  # noqa: BLE001
                self._suspend(query, own, self._failing(store, query.alone, log, own, released))
            else:
                yield from found

    # Queries that fail

    def _require_suspending(self, unit: Unit, error: Exception) -> None:
        """Raises the error, with the names of the queries, where a failure stops the stream."""
        if self._plan.suspends:
            return
        names = ", ".join(f"'{item.name}'" for item in unit.queries)
        if isinstance(error, KleeneError):
            problems = [replace(item, message=f"query {names}: {item.message}") for item in error.problems]
            raise type(error)(problems, error.text) from error
        error.add_note(f"in query {names}")
        raise error

    def _suspend(self, query: PlannedQuery, error: Exception, event: str | None, *, everywhere: bool = False) -> None:
        """From this micro-batch on the query is not matched in this bucket."""
        message = described(error)
        where = "" if event is None else f"\n  at the event {event}"
        into = query.plan.bound.query.into
        where += "" if into is None else f"\n  of its keys here no more events '{into}' are made, for any query that reads them"
        hint = "the others run on; correct it, or remove it: with another text, or paused and resumed, it starts again"
        text = f"'{query.name}' is suspended: {message}{where}\n  hint: {hint}"
        suspended = Suspended(query.key, query.name, query.version, self.header.watermark, text)
        self.header = replace(self.header, suspended=(*self.header.suspended, suspended))
        self._problems.append(_problem(query.name, query.version, text, everywhere))

    def _failing(self, store: Store, unit: Unit, log: pa.Table, error: Exception, released: pa.Table) -> str | None:
        """The first event with which a query fails, found by halving; None if that would take long, or no event does it."""
        if isinstance(error, OverBudgetError | MemoryError) or not 0 < released.num_rows <= MOST_SEARCHED:
            return None
        times, ends = np.unique(self._log.times(released), return_index=True)
        ends = np.append(ends[1:], released.num_rows)

        def fails(place: int) -> bool:
            try:
                item = self._started(store, unit, log)
                for batch in released.slice(0, int(ends[place])).to_batches():
                    deque(self._shaped(Spent(None, unit).rows(item.matcher.feed(batch))), maxlen=0)
                deque(self._shaped(Spent(None, unit).rows(item.matcher.advance(int(times[place]) + 1))), maxlen=0)
            except Exception:  # noqa: BLE001 - that is the question
                return True
            return False

        low, high = 0, times.size - 1
        began = time.monotonic()
        if not fails(high):
            return None
        while low < high:
            if time.monotonic() - began > SEARCH_SECONDS:
                return None
            middle = (low + high) // 2
            low, high = (low, middle) if fails(middle) else (middle + 1, high)
        return self._shown(released.slice(int(ends[low]) - 1, 1))

    def _shown(self, event: pa.Table) -> str | None:
        """An event, by its identity; None if its values cannot be read."""
        schema = self._plan.schema
        names = dict.fromkeys(name for name in (schema.time, schema.type, *self._plan.keys, *schema.order_by) if name)
        try:
            (row,) = event.select([name for name in names if name in event.schema.names]).to_pylist()
        except ValueError:
            return None
        return ", ".join(f"{name} = {str(value)[:MOST_SHOWN]}" for name, value in row.items())

    def _change(self, store: Store, rules: str) -> Iterator[Labelled]:
        """Applies new rules; unchanged queries keep their matchers."""
        compiled = self._compile(rules)
        self._write_pieces(store)
        known = () if self.header.rules is None else self._compile(self.header.rules).problems
        keys = {item.key for item in compiled.queries.queries}
        suspended = tuple(item for item in self.header.suspended if item.key in keys)
        self.header = replace(self.header, rules=rules, units=self._states(), suspended=suspended)
        self._run(store, compiled.queries, self._running, everywhere=True)
        for query, version, text in compiled.problems:
            if self._plan.delivers_late and (query, version, text) not in known:
                yield _problem(query, version, text, everywhere=True)

    def _regroup(self, store: Store) -> None:
        """Has queries matched together again that were not while one of them failed."""
        self._write_pieces(store)
        self.header = replace(self.header, units=self._states())
        rules = self.header.rules
        self._run(store, self._plan.queries if rules is None else self._compile(rules).queries, self._running)

    def _compile(self, rules: str) -> Compiled:
        assert self._plan.compile is not None
        return self._plan.compile(rules)

    # What is written

    def _write_pieces(self, store: Store) -> None:
        """Writes what units know of many things one by one, as far as it changed."""
        for place, item in enumerate(self._running):
            changes = item.matcher.changes()
            if changes is not None:
                self._pieces -= item.pieces.numbers
                item.pieces.write(store, changes, min(self._pieces | item.pieces.numbers, default=0) - 1)
                self._pieces |= item.pieces.numbers
                state = {**item.matcher.snapshot(), **item.pieces.state()}
                self._running[place] = replace(item, state=replace(item.state, state=state))

    def _horizon(self) -> int | None:
        """Events at or before this time matter to nobody; None if all do."""
        horizons = [item.state.horizon for item in self._running]
        known = [item for item in horizons if item is not None]
        watermark = self.header.watermark
        return None if watermark is None or len(known) < len(horizons) else min([watermark - 1, *known])

    def _lasting(self) -> list[PlannedQuery]:
        """The queries without a window for which the earliest events are kept."""
        horizon, watermark = self._horizon(), self.header.watermark
        if watermark is None or horizon == watermark - 1:
            return []
        holding = [item.unit for item in self._running if item.state.horizon in (None, horizon)]
        windows = ((query, query.plan.bound) for unit in holding for query in unit.queries)
        return [query for query, bound in windows if bound.window is None and bound.count_window is None]

    def _growing(self) -> list[PlannedQuery]:
        """The queries without a window for which the earliest events are kept, or else the one with most counters."""
        largest = max(self._running, key=lambda item: item.matcher.known, default=None)
        counting = largest is not None and largest.matcher.known > 0 and self._log.rows <= self._plan.max_events
        return self._lasting() or (list(largest.unit.queries) if largest is not None and counting else [])

    def _require_room(self, store: Store) -> None:
        """That not too much is kept. A query that keeps events or counters for ever does not take the room of others."""
        most = self._plan.max_events
        while self.rows > most and self._plan.suspends and (growing := self._growing()):
            for query in growing:
                message = f"it has no window, and the bucket would keep {self.rows:,} {self._what}"
                hint = f"give it a window, or the stream max_events of more than {most:,}"
                self._suspend(query, LimitError(Problem(message, hint=hint)), None)
            self._regroup(store)
            if (horizon := self._horizon()) is not None:
                self._log.compact(store, horizon)
        count = self.rows
        if count > most:
            message = (
                f"a bucket of the stream would keep {count:,} {self._what}, of which {self.waiting:,} wait for the watermark"
            )
            hint = (
                "the checkpoint is unchanged: spread the keys over more buckets (with a new checkpoint), "
                f"shorten the window or the watermark's delay, or give max_events of more than {most:,}"
            )
            raise LimitError(Problem(message, hint=hint))

    def _save(self, store: Store) -> None:
        self._write_pieces(store)
        used = {number for item in self._running for number in item.pieces.numbers}
        for number in self._pieces - used:
            store.drop_segment(number)
        self._pieces = used
        self.header = replace(
            self.header, nonce=uuid4().hex, segments=self._log.segments, units=self._states(), timer=self._due()
        )
        blob = self.header.encode()
        store.put_header(blob)
        self._seal = seal_of(blob)

    def _states(self) -> tuple[UnitState, ...]:
        return tuple(item.state for item in self._running)

    def _due(self) -> int | None:
        """The next watermark at which something is to be done though no event comes."""
        watermark = self.header.watermark
        found = [int(self._log.times(table).min()) + 1 for table in self._waiting]
        if watermark is not None:
            found += [item.due for item in self._running if item.due is not None]
            if self._log.last is not None:
                empty = self._log.last + max((item.matcher.memory for item in self._running), default=0) + 1
                found += [empty] if empty > watermark else []  # nothing is left in the log then, unless something lasts
        return min(found) + self._plan.lag if found else None

    # What is held

    @property
    def rows(self) -> int:
        """How many events are in the log, and how many counters are kept."""
        return self._log.rows + sum(item.matcher.known for item in self._running)

    @property
    def size(self) -> int:
        """Of events and counters, in bytes."""
        return sum(item.size for item in self._log.segments) + sum(item.pieces.size for item in self._running)

    @property
    def _what(self) -> str:
        """What is kept, in words."""
        return "events and counters" if self.rows > self._log.rows else "events"

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
    def held(self) -> int:
        """How many events and counters are in memory."""
        return self.kept + self.waiting + sum(item.matcher.known for item in self._running)

    @property
    def kept(self) -> int:
        """How many events the matchers hold."""
        return sum(item.matcher.kept for item in self._running)


def _problem(query: str, version: int, text: str, everywhere: bool) -> Labelled:
    row = {"query": [query], "query_version": pa.array([version], pa.int32()), "problem": [text]}
    return Labelled(PROBLEM, query, version, pa.record_batch(row), everywhere)
