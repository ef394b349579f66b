"""Statistics of events, estimated on the events themselves: rates are counted, the rest is measured on a few tuples.

The selectivity of a condition is measured on tuples in scope: of one partition, inside the window, in the order of the pattern.
They begin with events of its rarest variable and are extended by one variable at a time: the candidates in scope of a tuple are
a range of rows, and tuples are drawn evenly from all pairs of a tuple and a candidate. Where hardly any tuple is in scope, the
window is disregarded, then partition and order too. A Kleene variable is one event here; so what reads several of its elements
is not measured, and neither is a condition of which no tuple is found.

Cost: bit counts over all rows; then about 1 ms for a condition, and with a partition codes and a sort of at most `LOOKED_AT`
rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import pyarrow as pa

from kleene.common.arrays import Array
from kleene.common.columns import take, time_values
from kleene.common.errors import DataError
from kleene.engine.events.grouping import combined_codes, without_nulls
from kleene.engine.events.scan import Scan
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.expressions.failing import Noticed
from kleene.engine.matcher import BadRows, Metrics
from kleene.engine.matches.match_values import MatchEvaluator, MatchRows
from kleene.engine.matches.matches import Matches
from kleene.pattern.bound import BoundQuery
from kleene.pattern.conditions import condition_of
from kleene.pattern.operators import Event
from kleene.pattern.predicates import Aggregate, Attribute, Expression, Length, walk
from kleene.pattern.predicates import variables as variables_of
from kleene.pattern.text import expression_text
from kleene.plan.analysis.keys import key_attributes
from kleene.plan.order.statistics import Statistics, ticks_per_unit

Scanned = Sequence[tuple[Event, tuple[Expression, ...]]]
"""What the scan tests of each event: (component, predicates) per bit of a row's mask."""

PAIRS = 1024
"""How many tuples decide about a condition."""

FEWEST = 32
"""With fewer tuples in scope, others are looked at."""

LOOKED_AT = 1 << 15
"""How many rows are looked at to measure, in stretches of consecutive rows; rates are counted on all."""

STRETCHES = 8

SAMPLED_ROWS = 200_000
"""How many rows of a table are read at most."""

SLICES = 16
"""A sample has at least this many slices, unless the table is shorter, and fewer than twice as many."""


def observe(
    bound: BoundQuery,
    variables: Mapping[str, int],
    conditions: Sequence[Expression],
    partition: Sequence[str],
    working: WorkingSet,
    *,
    span: float | None = None,
    rows: int = LOOKED_AT,
    pairs: int = PAIRS,
    seed: int = 0,
    counts: Mapping[str, int] | None = None,
) -> Statistics:
    """The statistics of a working set.

    `variables` gives the bit of each positive variable in a row's mask. `span` is how much time (under `WITHIN n EVENTS`, how
    many events) the rows stand for, in the unit of the rates, where they are not consecutive. `counts` are how many rows each
    variable can bind, if that is known.
    """
    masks = working.masks
    if counts is None:
        counts = {variable: int(np.count_nonzero(masks & (1 << bit))) for variable, bit in variables.items()}
    if span is None:
        span = span_of(bound, working)
    measured = Scopes(bound, variables, partition, working, rows, seed)
    return Statistics(
        {variable: count / span for variable, count in counts.items()} if span else {},
        measured.selectivities(conditions, pairs),
        measured.same_partition(pairs),
        span,
        measured.events,
    )


def span_of(bound: BoundQuery, working: WorkingSet) -> float:
    """How much time (under `WITHIN n EVENTS`, how many events) a working set stands for, in the unit of the rates."""
    if bound.count_window is not None or len(working) == 0:
        return float(len(working))
    ts = working.ts
    return time_span(bound, int(ts[0]), int(ts[-1]), len(working))


def time_span(bound: BoundQuery, first: int, last: int, rows: int) -> float:
    """How much time rows between two times stand for, in the unit of the rates: as many gaps as rows. Rows of one instant are
    taken to fill a window.
    """
    ticks = ticks_per_unit(bound.schema)
    if last > first:
        return (last - first) / ticks * rows / (rows - 1)
    return (bound.window or ticks) / ticks


def bits_of(scanned: Scanned) -> dict[str, int]:
    """The bit of each positive variable in a row's mask."""
    return {event.variable: bit for bit, (event, _) in enumerate(scanned) if not event.negated}


def read_columns(
    bound: BoundQuery, scanned: Scanned, conditions: Iterable[Expression], partition: Iterable[str]
) -> tuple[str, ...]:
    """The columns that statistics need, in the order of the input."""
    schema = bound.schema
    needed = {schema.time, *schema.order_by, *partition, *key_attributes(bound)} | ({schema.type} if schema.type else set())
    for expression in (*conditions, *(item for _, own in scanned for item in own)):
        needed.update(node.name for node in walk(expression) if isinstance(node, Attribute | Aggregate) and node.name)
    return tuple(name for name in schema.columns if name in needed)


def scan_of(bound: BoundQuery, scanned: Scanned, metrics: Metrics) -> Scan:
    """The scan of statistics: bad rows are passed over, for they are the match's to judge."""
    events, own = [event for event, _ in scanned], [items for _, items in scanned]
    return Scan(bound, events, own, key_attributes(bound), "drop", metrics, BadRows(), noticed=Noticed())


@dataclass(frozen=True, slots=True)
class _Scope:
    """Which tuples are looked at."""

    keyed: bool
    windowed: bool
    ordered: bool


SCOPES = (_Scope(True, True, True), _Scope(True, False, True), _Scope(False, False, False))
"""From what the condition will be asked of to what may stand for it."""


class Scopes:
    """The rows of a working set that some positive variable can bind, and which of them lie in scope of others.

    Rows are numbered from 0, in stream order. In `_by_key` they are sorted by partition and then by number, as the number
    `code * rows + row`: the candidates in scope are a range of it.
    """

    def __init__(
        self,
        bound: BoundQuery,
        bits: Mapping[str, int],
        partition: Sequence[str],
        working: WorkingSet,
        most: int | None = LOOKED_AT,
        seed: int = 0,
    ) -> None:
        """`most` bounds the rows that are looked at."""
        self._bound = bound
        self._bits = bits
        self._working = working
        self._random = np.random.default_rng(seed)
        some = reduce(or_, (1 << bit for bit in bits.values()), 0)
        rows = stretches(len(working), len(working) if most is None else most)
        looked = rows.size
        rows = rows[(working.masks.take(rows) & some) != 0]
        self.events = round(rows.size * len(working) / looked) if looked else 0
        """About how many rows some positive variable can bind."""
        self._rows = rows
        self._ts = working.ts.take(rows)
        self._masks = working.masks.take(rows)
        self._codes: Array | None = None
        if partition and rows.size:
            codes, count = combined_codes([without_nulls(working.gather(name, rows)) for name in partition])
            self._codes = codes
            # A stable sort of small integers takes linear time.
            self._by_key_row = np.argsort(codes.astype(np.uint16) if count <= 1 << 16 else codes, kind="stable")
            self._by_key = codes.take(self._by_key_row) * rows.size + self._by_key_row
        self._of: dict[tuple[str, bool], Array] = {}

    def same_partition(self, anchors: int) -> float:
        """The probability that two rows within a window are of one partition."""
        if self._codes is None:
            return 1.0
        size = self._rows.size
        rows = drawn(self._random, size, anchors)
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
        held = self._held(condition, pairs) if self._is_measurable(condition) else None
        return None if held is None else share(int(held.sum()), held.size)

    def _is_measurable(self, condition: Expression) -> bool:
        """Whether one event for each variable decides a condition."""
        kleene = frozenset(event.variable for event in self._bound.components if event.is_kleene)
        if any(isinstance(node, Length | Aggregate) for node in walk(condition)):
            return False
        parts = condition_of(condition, kleene)
        several = any(len(parts.kinds(variable)) > 1 for variable in kleene)
        return bool(parts.variables) and not parts.running and not several and parts.variables <= self._bits.keys()

    def _held(self, condition: Expression, pairs: int) -> Array | None:
        """Where the condition holds among tuples in scope, or among others where these are few; None if it cannot be said."""
        tuples: dict[str, Array] = {}
        for scope in SCOPES:
            tuples = self._tuples(condition, scope, pairs)
            if _size(tuples) >= FEWEST:
                break
        if not _size(tuples):
            return None
        try:
            return self._evaluate(condition, tuples)
        except DataError:  # of tuples that no plan need ever look at
            return None

    def _tuples(self, condition: Expression, scope: _Scope, pairs: int) -> dict[str, Array]:
        """Rows of the condition's variables: tuples in scope, drawn evenly."""
        first, *others = sorted(variables_of(condition), key=lambda name: (self._rows_of(name, keyed=False).size, name))
        order = self._order(frozenset((first, *others)))
        tuples = {first: self._some(self._rows_of(first, keyed=False), pairs)}
        for variable in others:
            low, high = self._range(tuples, variable, scope, order)
            tuples = self._extended(tuples, variable, low, high, scope, pairs)
        return tuples

    def _extended(
        self, tuples: dict[str, Array], variable: str, low: Array, high: Array, scope: _Scope, pairs: int
    ) -> dict[str, Array]:
        """Tuples with a candidate each, drawn from all pairs of a tuple and a row of the variable in `[low, high)`."""
        keyed = scope.keyed and self._codes is not None
        candidates = self._rows_of(variable, keyed=keyed)
        base: Any = 0
        if keyed:
            assert self._codes is not None
            base = self._codes.take(next(iter(tuples.values()))) * self._rows.size
        begin = np.searchsorted(candidates, base + low)
        counts = np.maximum(np.searchsorted(candidates, base + high) - begin, 0)
        ends = np.cumsum(counts)
        numbers = drawn(self._random, int(ends[-1]) if ends.size else 0, pairs)
        which = np.searchsorted(ends, numbers, side="right")
        chosen = candidates.take(begin.take(which) + numbers - (ends - counts).take(which))
        if keyed:
            chosen %= self._rows.size
        extended = {name: rows.take(which) for name, rows in tuples.items()}
        distinct = np.ones(chosen.size, bool)
        for rows in extended.values():
            distinct &= rows != chosen
        return {name: rows[distinct] for name, rows in (*extended.items(), (variable, chosen))}

    def _range(
        self, tuples: Mapping[str, Array], variable: str, scope: _Scope, order: frozenset[tuple[str, str]]
    ) -> tuple[Array, Array]:
        """The rows `[low, high)` that may extend each tuple, as far as time and order go."""
        size = _size(tuples)
        low, high = np.zeros(size, np.int64), np.full(size, self._rows.size)
        for name, rows in tuples.items():
            if scope.windowed:
                begin, end = self._within(rows)
                low, high = np.maximum(low, begin), np.minimum(high, end)
            if scope.ordered and (name, variable) in order:
                low = np.maximum(low, self._beside(rows, "right"))
            if scope.ordered and (variable, name) in order:
                high = np.minimum(high, self._beside(rows, "left"))
        return low, high

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

    def _order(self, names: frozenset[str]) -> frozenset[tuple[str, str]]:
        """The pairs of variables of which the first precedes the second, in a branch that has all of them."""
        for branch in self._bound.branches:
            own = [event.variable for event in branch.positives]
            if names <= set(own):
                return frozenset((own[i], own[j]) for i, j in branch.order)
        return frozenset()

    def _rows_of(self, variable: str, *, keyed: bool) -> Array:
        """The rows that a variable can bind: by number, or as in `_by_key`."""
        if (variable, keyed) not in self._of:
            masks = self._masks.take(self._by_key_row) if keyed else self._masks
            own = np.flatnonzero((masks & (1 << self._bits[variable])) != 0)
            self._of[variable, keyed] = self._by_key.take(own) if keyed else own
        return self._of[variable, keyed]

    def _some(self, rows: Array, most: int) -> Array:
        """At most so many of the rows, in order."""
        return rows if rows.size <= most else rows.take(drawn(self._random, rows.size, most))

    def _evaluate(self, condition: Expression, tuples: Mapping[str, Array]) -> Array:
        """Where the condition holds; Kleene variables have one element."""
        size = _size(tuples)
        kleene = {event.variable for event in self._bound.components if event.is_kleene}
        places = {name: self._rows.take(rows) for name, rows in tuples.items()}
        any_place = next(iter(places.values()))
        matches = Matches(
            size,
            {name: rows for name, rows in places.items() if name not in kleene},
            {name: (np.arange(size + 1), rows) for name, rows in places.items() if name in kleene},
            any_place,
            any_place,
        )
        return MatchEvaluator(self._bound, self._working.gather, MatchRows(matches)).holds(condition)


def drawn(random: np.random.Generator, count: int, most: int) -> Array:
    """At most so many of the numbers below `count`, in order: one at random of each of as many equal parts."""
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


def _size(tuples: Mapping[str, Array]) -> int:
    return int(next(iter(tuples.values())).size)


def stretches(rows: int, most: int, count: int = STRETCHES) -> Array:
    """At most so many of the rows, in so many stretches that are spread evenly.

    >>> stretches(100, 6, 2)
    array([ 0,  1,  2, 97, 98, 99])
    """
    if rows <= most:
        return np.arange(rows)
    length = most // count
    begins = np.arange(count) * (rows - length) // (count - 1)
    return (begins[:, None] + np.arange(length)).ravel()


# Tables and streams


@dataclass(frozen=True, slots=True)
class _Slice:
    """The relevant rows of consecutive rows of a table."""

    batch: pa.RecordBatch
    masks: Array
    rows: int
    """How many rows with a time it had."""
    first: int
    last: int
    end: int
    """How many rows of the table had been read at its end."""


def collect_arrow(
    bound: BoundQuery,
    scanned: Scanned,
    conditions: Sequence[Expression],
    partition: Sequence[str],
    events: pa.Table | pa.RecordBatchReader,
    *,
    rows: int = SAMPLED_ROWS,
    pairs: int = 4 * PAIRS,
    seed: int = 0,
) -> Statistics:
    """The statistics of a table or a stream in stream order, from slices of consecutive rows that are spread evenly over it."""
    columns = read_columns(bound, scanned, conditions, partition)
    metrics = Metrics()
    scan = scan_of(bound, scanned, metrics)
    slices: list[_Slice] = []
    apart, end = 1, 0
    for number, piece in enumerate(_pieces(events, max(1, rows // (2 * SLICES)))):
        end += piece.num_rows
        if number % apart == 0:
            slices.append(_slice(bound, columns, scan, piece, end))
        if len(slices) == 2 * SLICES:
            slices, apart = slices[::2], 2 * apart
    working = WorkingSet(bound.schema, columns)
    for item in slices:
        working.add(item.batch, np.arange(item.batch.num_rows), item.masks)
    span = _sampled_span(bound, [item for item in slices if item.rows], whole=apart == 1)
    return observe(bound, bits_of(scanned), conditions, partition, working, span=span, rows=rows, pairs=pairs, seed=seed)


def _pieces(events: pa.Table | pa.RecordBatchReader, size: int) -> Iterator[pa.Table]:
    """Consecutive rows, `size` at a time, without copying."""
    if isinstance(events, pa.Table):
        for begin in range(0, events.num_rows, size):
            yield events.slice(begin, size)
        return
    waiting: list[pa.RecordBatch] = []
    room = size
    for batch in events:
        begin = 0
        while begin < batch.num_rows:
            waiting.append(batch.slice(begin, room))
            begin += waiting[-1].num_rows
            room -= waiting[-1].num_rows
            if room == 0:
                yield pa.Table.from_batches(waiting)
                waiting, room = [], size
    if waiting:
        yield pa.Table.from_batches(waiting)


def _slice(bound: BoundQuery, columns: Sequence[str], scan: Scan, piece: pa.Table, end: int) -> _Slice:
    """The relevant rows of a piece, copied: the piece may be a small part of a batch."""
    whole = piece.select(list(columns)).combine_chunks().to_batches()[0]
    rows, masks = scan(whole)
    ts = time_values(whole.column(bound.schema.time).drop_null(), bound.schema.time_unit)
    batch = pa.RecordBatch.from_arrays([take(whole.column(name), rows) for name in columns], list(columns))
    return _Slice(batch, masks, ts.size, int(ts[0]) if ts.size else 0, int(ts[-1]) if ts.size else 0, end)


def _sampled_span(bound: BoundQuery, slices: list[_Slice], *, whole: bool) -> float:
    """How much time (how many events) slices stand for: what passes within them, or their part of all where nothing does."""
    rows = sum(item.rows for item in slices)
    if bound.count_window is not None or not slices:
        return float(rows)
    passed, gaps = sum(item.last - item.first for item in slices), sum(item.rows - 1 for item in slices)
    if whole or passed == 0:
        read = rows if whole else slices[-1].end
        return time_span(bound, slices[0].first, slices[-1].last, read) * rows / read
    return passed / ticks_per_unit(bound.schema) * rows / gaps
