"""The Spark streaming runtime: a streaming DataFrame in, streaming DataFrames of matches, late events and bad rows out.

Before the shuffle, `mapInArrow` packs the rows of each task (`kleene.runtime.spark.stream.packing`); the stateful operator
(`transformWithState`) gets and gives a few rows of bytes, however many events and keys there are. A bucket
(`kleene.runtime.stream.bucket`) puts its events in order and matches them. What comes out are labelled Arrow streams, which
another `mapInArrow` turns into rows. A timer of each bucket stands for the next thing that is due. Nothing of the session is
changed.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from kleene.common.errors import PlanningError, Problem
from kleene.runtime.spark.frame import worker_interpreter
from kleene.runtime.spark.schemas import from_arrow
from kleene.runtime.stream.bucket import MATCHES, Bucket, BucketPlan
from kleene.runtime.stream.plan import EVENTS, LABELLED, LABELS, MADE, METRICS, RULES, StreamPlan
from kleene.runtime.stream.spread import GROUP, Spread
from kleene.runtime.stream.state import Header, decode_events, encode_events
from kleene.runtime.stream.times import Clock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NEW_RULES = "(new rules)"
"""What rules that were not there when the stream began are counted as."""

OLDEST = (4, 1)
"""The Spark whose stateful operators in Python take rows; before, they take pandas DataFrames only."""

REMEMBERED = 1 << 23
"""Number of events and counters, in all buckets together, that a worker process caches between micro-batches."""


class _SparkStore:
    """The state of the current group."""

    def __init__(self, header: Any, log: Any) -> None:
        self._header, self._log = header, log

    def header(self) -> bytes | None:
        found = self._header.get()
        return None if found is None else bytes(found[0])

    def put_header(self, blob: bytes) -> None:
        self._header.update((blob,))

    def is_empty(self) -> bool:
        return not self._header.exists() and not self._log.exists()

    def segment(self, number: int) -> bytes | None:
        found = self._log.getValue((number,))
        return None if found is None else bytes(found[0])

    def put_segment(self, number: int, blob: bytes) -> None:
        self._log.updateValue((number,), (blob,))

    def drop_segment(self, number: int) -> None:
        self._log.removeKey((number,))

    def clear(self) -> None:
        self._header.clear()
        self._log.clear()


class _Remembered:
    """The buckets that this process has worked on last."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[tuple[str, int], Bucket] = OrderedDict()

    def bucket(self, stream: str, group: int, plan: BucketPlan, store: _SparkStore) -> Bucket:
        """The cached bucket, if no other process has changed it since; else rebuilt from its state."""
        bucket = self._buckets.pop((stream, group), None)
        if bucket is None or not bucket.is_current(store):
            bucket = Bucket(plan, store, group)
        return bucket

    def keep(self, stream: str, group: int, bucket: Bucket) -> None:
        """Only when all that it did is in the store: a bucket that failed in the middle is not remembered."""
        self._buckets[stream, group] = bucket
        total = sum(item.held for item in self._buckets.values())
        while total > REMEMBERED and len(self._buckets) > 1:
            _, gone = self._buckets.popitem(last=False)
            total -= gone.held


_remembered = _Remembered()

_settled: set[str] = set()
"""The streams whose spread is what the checkpoint knows."""


class BucketProcessor(StatefulProcessor):
    """Buckets as the state of Spark's operator."""

    def __init__(self, plan: StreamPlan, clock: Clock) -> None:
        self._plan, self._clock = plan, clock

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._store = _SparkStore(
            handle.getValueState("header", "blob binary"), handle.getMapState("log", "number long", "blob binary")
        )
        self._buckets = self._plan.bucket_plans()

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802 - Spark's names
        """Takes in the packets of a bucket."""
        tables: dict[str, list[pa.Table]] = {EVENTS: [], MADE: []}
        rules, counted = None, 0
        if key[0] == GROUP:
            deque(rows, maxlen=0)
            self._require_spread()
            return
        for row in rows:
            if row["kind"] in tables:
                counted += row["rows"] if row["kind"] == EVENTS and self._plan.is_first else 0
                tables[row["kind"]].append(decode_events(row["blob"]))
            elif row["kind"] == RULES:
                rules = bytes(row["blob"]).decode()
            else:
                yield Row(**{name: row[name] for name in LABELS.names})
        yield from self._process(int(key[0]), tables, rules, timerValues, counted)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, ARG002
        """Something is due, and no event has come."""
        group = int(key[0])
        if group in self._buckets:
            yield from self._process(group, {EVENTS: [], MADE: []}, None, timerValues, 0, fired=True)
        else:
            self._let_go()

    def _let_go(self) -> None:
        """Clears the state of queries that are gone, unless it is that of queries which are spread otherwise now."""
        blob = self._store.header()
        assert blob is not None, "a timer without a state"
        known = Header.decode(blob)
        names = {key.rsplit("#", 2)[0] for unit in known.units for key in unit.keys}
        for plan in self._buckets.values():
            still = known.rules is not None or any(item.name in names for item in plan.queries.queries)
            if plan.keys == known.keys or still:
                plan.require_spread(known)
        self._store.clear()

    def _require_spread(self) -> None:
        """Checks that the stream can resume from its state; once per process."""
        if self._plan.name in _settled:
            return
        blob, now = self._store.header(), Spread.of(self._plan)
        if blob is not None:
            known = Spread.decode(blob)
            now = known.followed_by(now)
            if now == known:
                _settled.add(self._plan.name)
                return
        self._store.put_header(now.encode())

    def _process(
        self,
        group: int,
        tables: Mapping[str, Sequence[pa.Table]],
        rules: str | None,
        timers: Any,
        counted: int,
        *,
        fired: bool = False,
    ) -> Iterator[Row]:
        store, plan, clock = self._store, self._plan, self._clock
        bucket = _remembered.bucket(plan.name, group, self._buckets[group], store)
        watermark = clock.time_of(timers.getCurrentWatermarkInMs())
        before, late = bucket.header.timer, bucket.late
        for item in bucket.process(store, tables[EVENTS], watermark, rules, tables[MADE]):
            if not item.everywhere or group == plan.distributions[0].groups[0]:
                yield _row(
                    item.kind, query=item.query, version=item.version, rows=item.rows.num_rows, blob=encode_events(item.rows)
                )
        _remembered.keep(plan.name, group, bucket)
        self._set_timer(before, bucket.header.timer, fired=fired)
        most = max(bucket.spent, key=lambda item: item.share, default=None)
        yield _row(
            METRICS,
            query=None if most is None else most.busiest,
            cpu_ms=round(1_000 * sum(item.seconds for item in bucket.spent)),
            budget=None if most is None or most.budget is None else round(100 * most.share),
            suspended=len(bucket.header.suspended),
            events=counted,
            late=bucket.late - late,
            waiting=bucket.waiting,
            kept=bucket.kept,
            runs=bucket.runs(),
            state_rows=bucket.rows,
            state_bytes=bucket.size,
            watermark=None if watermark is None else clock.text(watermark),
            lag_ms=None if watermark is None else clock.lag(watermark, timers.getCurrentProcessingTimeInMs()),
        )

    def _set_timer(self, before: int | None, due: int | None, *, fired: bool) -> None:
        """Has Spark call the bucket when something is due: the timer that there was may be one that is gone."""
        if before == due and not fired:
            return
        if before is not None and before != due:
            self._handle.deleteTimer(self._clock.told(before))
        if due is not None:
            self._handle.registerTimer(self._clock.told(due))

    def close(self) -> None:
        """Nothing is held that Spark does not know of."""


def _row(kind: str, **values: Any) -> Row:
    return Row(**{name: kind if name == "kind" else values.get(name) for name in LABELS.names})


def operated(plan: StreamPlan, packets: DataFrame, clock: Clock) -> DataFrame:
    """The labelled rows of all buckets."""
    version = packets.sparkSession.version
    if tuple(map(int, version.split(".")[:2])) < OLDEST:
        needed = ".".join(map(str, OLDEST))
        message = f"streams need Spark {needed} or newer, and this is Spark {version}"
        raise PlanningError(Problem(message, hint=f"pip install 'pyspark>={needed}'; tables are matched by older ones, too"))
    labelled = packets.groupBy("group").transformWithState(BucketProcessor(plan, clock), LABELLED, "append", "eventTime")
    _settle_environment(labelled)
    return labelled


def _settle_environment(labelled: DataFrame) -> None:
    """Lets several queries of one DataFrame start at once.

    Each adds these names to the environment of the operator's function, which they share, while another may be writing it into
    its tasks, which then can't be read (`java.io.OptionalDataException`). Names that are there only get their values.
    """
    plan: Any = getattr(labelled, "_jdf", None)  # a remote session makes a function for each query
    if plan is None:
        return
    from py4j.protocol import Py4JError  # not there where all sessions are remote

    with suppress(Py4JError):  # a Spark whose plans are of another make
        environment = plan.queryExecution().logical().functionExpr().func().envVars()
        for name in ("SPARK_LOCAL_DIRS", "SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE", "SPARK_PYTHON_RUNTIME"):
            environment.putIfAbsent(name, "")


def observed(labelled: DataFrame, queries: Sequence[str], others: str | None = None) -> DataFrame:
    """The same rows, whose sums are in the progress of the streaming query: by query, those of `others` together."""
    counted = f.when(f.col("kind") == MATCHES, f.col("rows"))
    named = {name: f.col("query") == name for name in queries}
    if others is not None:
        named[others] = ~f.col("query").isin(list(queries))
    by_query = [f.coalesce(f.sum(f.when(which, counted)), f.lit(0)).alias(f"matches_{name}") for name, which in named.items()]
    sums = [f.coalesce(f.sum(name), f.lit(0)).alias(name) for name in ("events", "late", "bad", "ahead")]
    gauges = [f.coalesce(f.sum(name), f.lit(0)).alias(name) for name in ("waiting", "kept", "state_rows", "state_bytes")]
    matches = f.coalesce(f.sum(counted), f.lit(0)).alias("matches")
    most = [
        f.coalesce(f.max("runs"), f.lit(0)).alias("runs"),
        f.max("watermark").alias("watermark"),
        f.max("lag_ms").alias("watermark_lag_ms"),
    ]
    most += [f.coalesce(f.max(name), f.lit(0)).alias(name) for name in ("budget", "suspended")]
    spent = [f.coalesce(f.sum("cpu_ms"), f.lit(0)).alias("cpu_ms"), f.max_by("query", "budget").alias("budget_rule")]
    return labelled.observe("kleene", *sums, matches, *gauges, *most, *spent, *by_query)


def decoded(labelled: DataFrame, schema: pa.Schema, kind: str, query: str | None = None) -> DataFrame:
    """The rows of one kind, and of one query, with the columns of a schema."""
    names, chosen = schema.names, labelled.where(labelled["kind"] == kind)
    if query is not None:
        chosen = chosen.where(chosen["query"] == query)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for item in batch.column("blob").drop_null():
                yield from (rows.select(names) for rows in pa.ipc.open_stream(item.as_buffer()))

    with worker_interpreter(chosen):
        return chosen.select("blob").mapInArrow(read, from_arrow(schema))
