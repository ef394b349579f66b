"""A run over a streaming DataFrame: the DataFrames that come out of it, and one query that writes them all.

Each DataFrame is written by a streaming query of its own, with a state of its own, if it is given to `writeStream`. `write`
takes several of them to their sinks in one query: a micro-batch is computed once and kept until all of it is written.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kleene.common.errors import BindingError, PlanningError, Problem, nearest
from kleene.common.paths import path_segments
from kleene.runtime.spark.frame import worker_interpreter
from kleene.runtime.spark.stream.event_time import clock_of
from kleene.runtime.spark.stream.operator import NEW_RULES, decoded, observed, operated
from kleene.runtime.spark.stream.output_folders import OutputFolders
from kleene.runtime.spark.stream.packing import broadcast, packed
from kleene.runtime.stream.bucket import BAD, LATE, MATCHES, PROBLEM
from kleene.runtime.stream.plan import StreamPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

KINDS = {"late": LATE, "bad_rows": BAD, "problems": PROBLEM}
"""What comes out of a stream beside matches."""

PROBLEMS = pa.schema([("query", pa.string()), ("query_version", pa.int32()), ("problem", pa.string())])

Sink = str | Callable[["DataFrame", int], None]
"""A folder, or a function that is given the rows of a micro-batch and its number."""


@dataclass(frozen=True, slots=True)
class StreamTier:
    """Queries that read the same events: those of the stream, and those made by queries of earlier tiers."""

    frame: DataFrame
    """The events of the stream."""
    narrow: StreamPlan
    """Of the columns that queries read."""
    wide: StreamPlan
    """Of all columns, which late and bad rows are delivered with."""


@dataclass(frozen=True)
class StreamRun:
    """A stream that is matched; nothing happens until one of its DataFrames is written."""

    tiers: tuple[StreamTier, ...]
    schemas: Mapping[str, pa.Schema]
    """The columns of each query's rows."""
    watermark: str | int | None
    rules: DataFrame | None = None
    """The stream of rules, where they can change; matches then have the same columns whatever their query."""
    known: tuple[str, ...] = ()
    """The rules whose matches are counted by name: those that there are when the stream is made."""
    max_ahead: dt.timedelta | None = None
    """Rows further ahead of the clock are set aside."""

    @property
    def matches(self) -> Any:
        """The matches: a DataFrame; of a workload a DataFrame for each query, by name."""
        if len(self.schemas) == 1:
            return self[next(iter(self.schemas))]
        return {name: self[name] for name in self.schemas}

    def __getitem__(self, query: str) -> DataFrame:
        """The matches of a query."""
        if query not in self.schemas:
            raise BindingError(Problem(f"the stream has no query '{query}'", hint=nearest(query, self.schemas)))
        self._require_provider()
        return self._matches(self._labelled(wide=False), query)

    @property
    def late(self) -> DataFrame:
        """The events that came when the watermark had passed them."""
        return self._other("late")

    @property
    def bad_rows(self) -> DataFrame:
        """The rows with a NULL time, key or type, or an undeclared type, with a `reason`."""
        return self._other("bad_rows")

    @property
    def problems(self) -> DataFrame:
        """The problems of rules that do not run."""
        return self._other("problems")

    def _other(self, name: str) -> DataFrame:
        self._require_provider()
        return self._rows(self._labelled(wide=True), name)

    def write(
        self,
        sinks: Mapping[str, Sink],
        *,
        checkpoint: str,
        trigger: Mapping[str, Any] | None = None,
        name: str | None = None,
        format: str = "parquet",
    ) -> StreamingQuery:
        """Starts one query that writes what comes out of the stream, each kind to a sink of its own.

        Args: sinks: By kind (`matches`, or the name of a query; `late`, `bad_rows`, `problems`) a folder, or a function of the
        DataFrame of a micro-batch and its number. `matches` of several queries go to a subfolder for each, named as the query
        (what cannot be part of a path is percent-encoded). A folder gets a subfolder `batch=N` for each micro-batch that has
        rows, which is rewritten if the micro-batch is retried: every row is there once. A function may be called again with the
        same number and rows. A folder belongs to its checkpoint: one that another checkpoint has written to is refused.
        checkpoint: The folder of the checkpoint. trigger: How often, as arguments of `DataStreamWriter.trigger`:
        {"processingTime": "5 seconds"}. name: The query's name. format: Of the files in folders.
        """
        targets = self._targets(sinks)
        wide = bool({"late", "bad_rows"} & {target.name for target in targets})

        def write_batch(labelled: DataFrame, number: int) -> None:
            labelled.persist()
            try:
                present = {(row["kind"], row["query"]) for row in labelled.select("kind", "query").distinct().collect()}
                for target in targets:
                    if target.is_among(present):
                        target.write(target.rows(labelled), number, format)
            finally:
                labelled.unpersist()

        labelled = self._labelled(wide=wide)
        folders = OutputFolders(labelled.sparkSession, [item for item in sinks.values() if isinstance(item, str)], checkpoint)
        folders.require_own()
        writer = labelled.writeStream.outputMode("append").option("checkpointLocation", checkpoint).foreachBatch(write_batch)
        writer = writer if name is None else writer.queryName(name)
        writer = writer if trigger is None else writer.trigger(**trigger)
        with self._provider(), worker_interpreter(labelled):
            query = writer.start()
        try:
            folders.mark(query.id)
        except BaseException:
            query.stop()
            raise
        return query

    def _targets(self, sinks: Mapping[str, Sink]) -> list[_Target]:
        known = [MATCHES, *self.schemas, *KINDS]
        problems = [Problem(f"a stream gives no '{name}'", hint=nearest(name, known)) for name in sinks if name not in known]
        if not sinks:
            problems = [Problem("nothing is written", hint="give a sink: {'matches': folder}")]
        if problems:
            raise BindingError(problems)
        apart = len(self.schemas) > 1 and isinstance(sinks.get(MATCHES), str)
        segments = path_segments(self.schemas) if apart else {}
        found = []
        for name, sink in sinks.items():
            if name in KINDS:
                found.append(_Target(name, KINDS[name], None, sink, partial(self._rows, name=name)))
                continue
            for query in self.schemas if name == MATCHES else (name,):
                own = f"{sink}/{segments[query]}" if name == MATCHES and segments else sink
                label = None if self.rules is not None else query
                found.append(_Target(name, MATCHES, label, own, partial(self._matches, query=query)))
        return found

    def _labelled(self, *, wide: bool) -> DataFrame:
        """The labelled rows of all tiers, observed."""
        labelled: DataFrame | None = None
        for tier in self.tiers:
            plan = tier.wide if wide else tier.narrow
            with worker_interpreter(tier.frame):
                packets = packed(plan, tier.frame, self.watermark, self.max_ahead, labelled)
                if self.rules is not None:
                    packets = packets.unionByName(broadcast(plan, self.rules), allowMissingColumns=True)
                labelled = operated(plan, packets, clock_of(plan.schema, tier.frame))
        assert labelled is not None
        return observed(labelled, list(self.schemas)) if self.rules is None else observed(labelled, self.known, NEW_RULES)

    def _matches(self, labelled: DataFrame, query: str) -> DataFrame:
        return decoded(labelled, self.schemas[query], MATCHES, None if self.rules is not None else query)

    def _rows(self, labelled: DataFrame, name: str) -> DataFrame:
        reason = pa.field("reason", pa.string())
        events = self.tiers[0].wide.events
        schema = {"late": events, "bad_rows": events.append(reason), "problems": PROBLEMS}[name]
        return decoded(labelled, schema, KINDS[name])

    # The state store

    @cached_property
    def _conf(self) -> Any:
        return self.tiers[0].frame.sparkSession.conf

    def _require_provider(self) -> None:
        if self._conf.get(PROVIDER, "") != ROCKSDB:
            message = "Spark keeps the state of this stream in RocksDB only, and the session is set to another store"
            hint = f"spark.conf.set({PROVIDER!r}, {ROCKSDB!r}) before the query is started, or use run(...).write(...)"
            raise PlanningError(Problem(message, hint=hint))

    @contextmanager
    def _provider(self) -> Iterator[None]:
        """The state store that the query needs, for the moment in which it takes its settings over from the session."""
        before = self._conf.get(PROVIDER, None)
        self._conf.set(PROVIDER, ROCKSDB)
        try:
            yield
        finally:
            if before is None:
                self._conf.unset(PROVIDER)
            else:
                self._conf.set(PROVIDER, before)


@dataclass(frozen=True, slots=True)
class _Target:
    """What is written to one sink."""

    name: str
    kind: str
    query: str | None
    """None: of any query."""
    sink: Sink
    rows: Callable[[DataFrame], DataFrame]

    def is_among(self, present: set[tuple[str, str]]) -> bool:
        return any(kind == self.kind and self.query in (None, query) for kind, query in present)

    def write(self, rows: DataFrame, number: int, format: str) -> None:
        if callable(self.sink):
            self.sink(rows, number)
        else:
            rows.write.mode("overwrite").format(format).save(f"{self.sink}/batch={number}")
