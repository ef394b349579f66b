"""Statistics of a DataFrame, in one pass over it.

Before rows reach Python, Spark keeps only those that some component can bind and the columns that conditions read. Each task
then counts and keeps a sample; one task merges what they found, so the driver gets a few thousand rows whatever the size.

Rows drawn one by one would hardly ever lie in one window, let alone in one partition. So the sample is of *neighbourhoods*: the
events of one key in a few windows. Each has a hash, the same in every task. Of each component the rows of the neighbourhoods
with the smallest hashes are kept, and rows at random of one that is too large. Hashes fall into strata that are filled evenly,
so that several neighbourhoods are seen however large they are.

Two sketches (Fast-AGMS) estimate how often events share a partition: the sum of the squares of the sizes of neighbourhoods,
divided by that of the same stretches of time with all keys.

Nothing of the session is changed. Cost: what it takes to read the columns into Python, and some 200 ns a row there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kleene.common.arrays import Array
from kleene.common.columns import TIME_LIMIT, select, take, time_values
from kleene.common.errors import PlanningError, Problem
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.matcher import Metrics
from kleene.engine.passes.observe import PAIRS, bits_of, read_columns, scan_of, time_span
from kleene.engine.passes.sampling import WorkingRows, share
from kleene.pattern.bound import BoundQuery
from kleene.pattern.predicates import Expression
from kleene.pattern.text import quoted
from kleene.plan.contract import Scanned
from kleene.plan.limits import DEFAULT_LIMITS, Limits
from kleene.plan.order.statistics import Statistics
from kleene.runtime.embedded import Batches, in_stream_order
from kleene.runtime.spark.frame import worker_interpreter
from kleene.runtime.spark.push_down import relevant_rows
from kleene.runtime.stream.state import decode_events, encode_events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


NEIGHBOURHOOD = 4
"""How many windows long a neighbourhood is."""

STRATUM_BITS = 4
"""The number of strata as a power of two: the leading bits of a hash."""

KEPT = 2_000
"""How many rows of a component are kept."""

RANDOM_BITS = 16
"""The trailing bits of a mark, which order the rows of a neighbourhood at random."""

SKETCH = 1 << 12
"""How many counters a sketch has: it is right to about 2 %."""

WIRE = "summary binary, sample binary"

MASKS, MARKS = "__kleene_masks", "__kleene_marks"


def collect_spark(
    bound: BoundQuery,
    scanned: Scanned,
    conditions: Sequence[Expression],
    partition: Sequence[str],
    frame: DataFrame,
    *,
    fraction: float | None = None,
    pairs: int = 4 * PAIRS,
    seed: int = 0,
) -> Statistics:
    """The statistics of a DataFrame, or of a random fraction of its rows."""
    if frame.isStreaming:
        hint = "collect them from a batch of such events, and pass them as stats=..."
        raise PlanningError(Problem("statistics cannot be collected from a streaming DataFrame", hint=hint))
    if fraction is not None and not 0 < fraction <= 1:
        raise PlanningError(Problem(f"fraction must be in (0, 1], not {fraction!r}"))
    part = frame if fraction is None else frame.sample(fraction=fraction, seed=seed)
    positives = tuple(item for item in scanned if not item[0].negated)
    task = _Task(bound, positives, read_columns(bound, positives, conditions, partition), bool(partition), seed)
    with worker_interpreter(frame):
        found = task.events(part, partition).mapInArrow(partial(_summarise, task=task), WIRE)
        found = found.repartition(1).mapInArrow(partial(_merge, task=task), WIRE)
    merged = _Summary(task)
    for row in found.collect():
        merged.merge(row["summary"], row["sample"])
    return _statistics(task, merged, conditions, partition, fraction or 1.0, pairs)


@dataclass(frozen=True, slots=True)
class _Task:
    """What a worker has to know."""

    bound: BoundQuery
    scanned: Scanned
    columns: tuple[str, ...]
    keyed: bool
    seed: int
    limits: Limits = DEFAULT_LIMITS

    @property
    def all_rows(self) -> bool:
        """Whether irrelevant rows travel too, to be counted: rates are then per event."""
        return self.bound.count_window is not None

    def events(self, frame: DataFrame, partition: Sequence[str]) -> DataFrame:
        """The rows that matter, with columns named by their place and, last, a hash of their key."""
        events = frame.select(*(quoted(name) for name in self.columns))
        condition = relevant_rows([self], events)
        if condition is not None:
            events = events.where(condition)
        named = [f"{quoted(name)} AS c{place}" for place, name in enumerate(self.columns)]
        key = [f"xxhash64({', '.join(map(quoted, partition))}) AS key"] if self.keyed else []
        return events.selectExpr(*named, *key)


def _summarise(batches: Batches, task: _Task) -> Batches:
    """What one task finds."""
    found = _Summary(task)
    metrics = Metrics()
    scan, random = scan_of(task.bound, task.scanned, metrics), np.random.default_rng(task.seed)
    for batch in batches:
        keys = batch.column(len(task.columns)).to_numpy() if task.keyed else None
        own = pa.RecordBatch.from_arrays(batch.columns[: len(task.columns)], list(task.columns))
        rows, masks = scan(own)
        found.add(own, rows, masks, None if keys is None else keys.take(rows), random)
    found.counts[EVENTS] = metrics.events
    yield found.on_the_wire()


def _merge(batches: Batches, task: _Task) -> Batches:
    """What all tasks have found."""
    found = _Summary(task)
    for batch in batches:
        for summary, sample in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            found.merge(summary, sample)
    yield found.on_the_wire()


EVENTS, RELEVANT, COMPONENTS = 0, 1, 2
"""Places in the counts of a summary: rows read, rows that some component can bind, and then those of each component."""


class _Summary:
    """Counts, times, sketches and a sample of some rows."""

    def __init__(self, task: _Task) -> None:
        self._task = task
        self.sample = _Sample(len(task.scanned))
        self.counts = np.zeros(COMPONENTS + len(task.scanned), np.int64)
        self.times = np.array([np.iinfo(np.int64).max, np.iinfo(np.int64).min])
        """The first and the last time of a relevant row."""
        self.sketches = np.zeros((2, SKETCH if task.keyed else 0), np.int64)
        """Of neighbourhoods, and of stretches of time."""

    def add(self, batch: pa.RecordBatch, rows: Array, masks: Array, keys: Array | None, random: np.random.Generator) -> None:
        """Takes in the relevant rows of a batch; `keys` are hashes of theirs."""
        if rows.size == 0:
            return
        schema = self._task.bound.schema
        ts = time_values(select(batch.column(schema.time), rows), schema.time_unit)
        self.times = np.array([min(int(ts.min()), self.times[0]), max(int(ts.max()), self.times[1])])
        self.counts[RELEVANT] += rows.size
        for bit in range(len(self._task.scanned)):
            self.counts[COMPONENTS + bit] += np.count_nonzero(masks & (1 << bit))
        hashes = self._neighbourhoods(ts, keys, random)
        marks = (hashes >> RANDOM_BITS << RANDOM_BITS) | random.integers(0, 1 << RANDOM_BITS, rows.size, np.uint64)
        self.sample.add(batch, rows, masks, marks)

    def _neighbourhoods(self, ts: Array, keys: Array | None, random: np.random.Generator) -> Array:
        """The hash of each row's neighbourhood, which is counted in the sketches; without key and window a row's own."""
        window = self._task.bound.window
        if keys is None and window is None:
            return random.integers(0, 1 << 64, ts.size, np.uint64)
        stretches = mixed(np.zeros_like(ts) if window is None else ts // min(NEIGHBOURHOOD * window, TIME_LIMIT))
        if keys is None:
            return stretches
        hashes = mixed(keys.view(np.uint64) ^ stretches)
        self.sketches += np.stack((sketch(hashes), sketch(stretches)))
        return hashes

    def merge(self, summary: bytes, sample: bytes) -> None:
        """Takes in what another task found."""
        numbers = np.frombuffer(summary, np.int64)
        counts, times, sketches = np.split(numbers, (self.counts.size, self.counts.size + 2))
        self.counts += counts
        self.times = np.array([min(times[0], self.times[0]), max(times[1], self.times[1])])
        self.sketches += sketches.reshape(2, -1)
        if sample:
            table = decode_events(sample).combine_chunks()
            masks, marks = (table.column(name).to_numpy() for name in (MASKS, MARKS))
            for batch in table.drop_columns([MASKS, MARKS]).to_batches():
                self.sample.add(batch, np.arange(batch.num_rows), masks, marks)

    def on_the_wire(self) -> pa.RecordBatch:
        """The summary as a row of `WIRE`."""
        numbers = np.concatenate((self.counts, self.times, self.sketches.ravel()))
        table = self.sample.table()
        sample = b"" if table is None else encode_events(*table.to_batches())
        return pa.RecordBatch.from_pydict({"summary": [numbers.tobytes()], "sample": [sample]})


class _Sample:
    """Of each component, the rows with the smallest marks of each stratum. A row's mask has the bits of those that keep it."""

    def __init__(self, components: int) -> None:
        self._components = components
        self._pieces: list[tuple[pa.RecordBatch, Array, Array]] = []
        self._waiting = 0
        self._highest = np.full((components, 1 << STRATUM_BITS), np.iinfo(np.uint64).max, np.uint64)
        """The marks up to which rows are kept."""

    def add(self, batch: pa.RecordBatch, rows: Array, masks: Array, marks: Array) -> None:
        """Keeps rows of a batch, for the time being."""
        masks = masks.copy()
        strata = _strata(marks)
        for bit, highest in enumerate(self._highest):
            masks[marks > highest.take(strata)] &= ~(1 << bit)
        kept = np.flatnonzero(masks)
        if kept.size == 0:
            return
        own = rows.take(kept)
        columns = [take(column, own) for column in batch.columns]
        piece = pa.RecordBatch.from_arrays(columns, schema=batch.schema)
        self._pieces.append((piece, masks.take(kept), marks.take(kept)))
        self._waiting += kept.size
        if self._waiting > self._components * KEPT:
            self._thin()

    def table(self) -> pa.Table | None:
        """The rows, with their masks and marks; None if there are none."""
        if not self._pieces:
            return None
        self._thin()
        batch, masks, marks = self._pieces[0]
        table = pa.Table.from_batches([batch])
        return table.append_column(MASKS, pa.array(masks)).append_column(MARKS, pa.array(marks))

    def _thin(self) -> None:
        """Drops the rows that no component keeps any more."""
        batches = pa.Table.from_batches([piece for piece, _, _ in self._pieces]).combine_chunks()
        masks = np.concatenate([piece for _, piece, _ in self._pieces])
        marks = np.concatenate([piece for _, _, piece in self._pieces])
        for bit in range(self._components):
            dropped, self._highest[bit] = beyond(marks, np.flatnonzero(masks & (1 << bit)), self._highest[bit])
            masks[dropped] &= ~(1 << bit)
        kept = np.flatnonzero(masks)
        whole = batches.to_batches()[0]
        batch = pa.RecordBatch.from_arrays([take(column, kept) for column in whole.columns], schema=whole.schema)
        self._pieces = [(batch, masks.take(kept), marks.take(kept))]
        self._waiting = 0


def beyond(marks: Array, rows: Array, highest: Array, kept: int = KEPT) -> tuple[Array, Array]:
    """The rows to drop, so that `kept` are left, and the marks up to which rows of each stratum are kept from now on.

    Strata are filled evenly: row after row, the smallest marks first.
    """
    if rows.size <= kept:
        return rows[:0], highest
    order = rows.take(np.argsort(marks.take(rows)))
    strata = _strata(marks.take(order))
    begins = np.searchsorted(strata, np.arange(1 << STRATUM_BITS))
    rank = np.arange(order.size) - begins.take(strata)
    dropped = np.argsort(rank, kind="stable")[kept:]
    sizes, lost = (np.bincount(item, minlength=1 << STRATUM_BITS) for item in (strata, strata.take(dropped)))
    cut = np.flatnonzero(lost)
    highest = highest.copy()
    highest[cut] = marks.take(order.take((begins + sizes - lost - 1).take(cut)))
    return order.take(dropped), highest


def _strata(marks: Array) -> Array:
    return (marks >> (64 - STRATUM_BITS)).astype(np.int64)


def mixed(values: Array) -> Array:
    """64-bit hashes of 64-bit numbers (the finalizer of splitmix64).

    >>> mixed(np.array([0, 1])).tolist()
    [0, 6238072747940578789]
    """
    hashes = values.view(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        hashes = np.multiply(hashes ^ (hashes >> shift), factor, dtype=np.uint64)
    return hashes


def sketch(hashes: Array) -> Array:
    """Counters whose sum of squares is, on average, that of the numbers of equal hashes."""
    places = (hashes & (SKETCH - 1)).astype(np.int64)
    signs = 1 - 2 * ((hashes >> 20) & 1).astype(np.int64)
    return np.bincount(places, signs, SKETCH).astype(np.int64)


def same_partition(sketches: Array, events: int) -> float:
    """The probability that two events of one stretch of time are of one partition, from the sketches of both."""
    # As floats: squares of large counters leave 64 bits. An event is no pair with itself.
    together, near = (max(0, round(float(np.square(item.astype(float)).sum())) - events) for item in sketches)
    return share(together, near)


def _statistics(
    task: _Task, found: _Summary, conditions: Sequence[Expression], partition: Sequence[str], fraction: float, pairs: int
) -> Statistics:
    bound, table = task.bound, found.sample.table()
    if table is None:
        return Statistics()
    working = WorkingSet(bound.schema, task.columns)
    ordered = in_stream_order(table, bound.schema).combine_chunks()
    masks = ordered.column(MASKS).to_numpy()
    (batch,) = ordered.select(list(task.columns)).to_batches()
    working.add(batch, np.arange(batch.num_rows), masks)
    events = int(found.counts[RELEVANT])
    bits = bits_of(task.scanned)
    if bound.count_window is not None:
        span, seen = float(found.counts[EVENTS]), 1.0
    else:
        span, seen = time_span(bound, int(found.times[0]), int(found.times[1]), events), fraction
    return Statistics(
        {variable: int(found.counts[COMPONENTS + bit]) / seen / span for variable, bit in bits.items()},
        WorkingRows(bound, bits, partition, working, None, task.seed).selectivities(conditions, pairs),
        same_partition(found.sketches, events) if partition else 1.0,
        span,
        events,
    )
