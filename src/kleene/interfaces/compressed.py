"""Reading compressed matches: count them, draw a sample, read them one by one, or expand them to verbose output.

`compressed` is what `Query.match(..., output="compressed")` gives, also after a trip through a file: a pyarrow Table or
RecordBatch, anything with the Arrow C stream interface, or a Spark DataFrame. Rows of several queries may be counted together,
but are read apart: match rows have a column for each variable.

Cost: counting reads one column; the others are linear in the matches that they give, not in those that there are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from itertools import accumulate, chain
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.errors import DataError, PlanningError, Problem
from kleene.engine.automaton.compressed import CompressedReader, Variables, require_columns, variables_of
from kleene.interfaces.inputs import is_spark_frame, table_of
from kleene.runtime.embedded import batches_of, event_stream
from kleene.runtime.stream.state import encode_events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS = 1 << 12
"""Rows looked at a time."""

SMALL_BLOCKS = (1, 4, 16, 64, 256)
"""How many matches are read at a time where one is wanted after the other: the first comes at once."""

ROW_KEY = "kleene_row"


def count(compressed: Any) -> int:
    """How many matches there are, exactly; none is enumerated.

    >>> import kleene, pyarrow as pa
    >>> events = pa.table({"ts": range(40), "type": ["A"] * 39 + ["B"]})
    >>> compressed = kleene.query("PATTERN SEQ(A+ a[], B b)").match(events, time="ts", type="type", output="compressed")
    >>> count(compressed)
    549755813887
    """
    if is_spark_frame(compressed):
        from pyspark.sql import functions as f

        _require_batch(compressed)
        total = compressed.agg(f.sum(compressed["match_count"].cast("decimal(38,0)"))).head()[0]
        return int(total or 0)
    stream = _stream(compressed)
    return sum(sum(batch.column("match_count").to_pylist()) for batch in batches_of(stream))


def expand(compressed: Any) -> Any:
    """All matches, as verbose output has them: a pyarrow Table, or of a Spark DataFrame a lazy one.

    The names of the variables are in the rows. On Spark one row is computed to see them, so keep what took long to compute
    (cache or write it) before you expand it; without any row there are no columns for variables.

    >>> import kleene, pyarrow as pa
    >>> events = pa.table({"ts": [1, 2, 3], "type": ["A", "A", "B"]})
    >>> compressed = kleene.query("PATTERN SEQ(A+ a[], B b)").match(events, time="ts", type="type", output="compressed")
    >>> sorted(len(elements) for elements in expand(compressed).column("a").to_pylist())
    [1, 1, 2]
    """
    if is_spark_frame(compressed):
        return _expand_spark(compressed)
    stream = _stream(compressed)
    reader: CompressedReader | None = None
    found: list[pa.RecordBatch] = []
    for batch in batches_of(stream, ROWS):
        reader = reader or _reader(batch)
        if reader is not None:
            found += reader.read(batch)
    schema = (reader or CompressedReader(stream.schema, ())).schema
    return pa.Table.from_batches(found, schema)


def matches(compressed: Any) -> Iterator[dict[str, Any]]:
    """The matches one after the other, as dicts of the columns of verbose output; only those asked for are made.

    >>> import kleene, pyarrow as pa
    >>> events = pa.table({"ts": range(60), "type": ["A"] * 59 + ["B"]})
    >>> compressed = kleene.query("PATTERN SEQ(A+ a[], B b)").match(events, time="ts", type="type", output="compressed")
    >>> next(matches(compressed))["match_end"]
    59
    """
    batches = _spark_rows(compressed) if is_spark_frame(compressed) else batches_of(_stream(compressed), ROWS)
    return _one_by_one(batches)


def _one_by_one(batches: Iterator[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        reader = _reader(batch)
        if reader is not None:
            for block in reader.read(batch, chain(SMALL_BLOCKS, iter(lambda: SMALL_BLOCKS[-1], 0))):
                yield from block.to_pylist()


def sample(compressed: Any, n: int, seed: int = 0) -> pa.Table:
    """A random choice of n different matches (of all, if there are fewer): each set of n is as likely as any other.

    The same seed gives the same sample of the same rows.

    >>> import kleene, pyarrow as pa
    >>> events = pa.table({"ts": range(60), "type": ["A"] * 59 + ["B"]})
    >>> compressed = kleene.query("PATTERN SEQ(A+ a[], B b)").match(events, time="ts", type="type", output="compressed")
    >>> sample(compressed, 5).num_rows
    5
    """
    if n < 0:
        raise DataError(Problem(f"a sample cannot have {n} matches", hint="ask for 0 or more"))
    if is_spark_frame(compressed):
        return _sample_spark(compressed, n, seed)
    table = table_of(_stream(compressed))
    return _picked(table, _drawn(table.column("match_count").to_pylist(), n, seed))


Picks = dict[int, list[int]]
"""The numbers of the matches that were drawn, by row; both ascend."""


def _drawn(counts: list[int], n: int, seed: int) -> Picks:
    """Draws n different numbers below the sum of the counts (Floyd's algorithm), as numbers within rows."""
    ends = list(accumulate(counts))
    total = ends[-1] if ends else 0
    rng = Random(seed)  # noqa: S311 - a sample, not a secret
    chosen: set[int] = set()
    for most in range(max(0, total - n), total):
        number = rng.randrange(most + 1)
        chosen.add(most if number in chosen else number)
    picks: Picks = {}
    for number in sorted(chosen):
        row = bisect_right(ends, number)
        picks.setdefault(row, []).append(number - ends[row] + counts[row])
    return picks


def _picked(table: pa.Table, picks: Picks) -> pa.Table:
    """The matches that were drawn."""
    rows = table.take(pa.array(list(picks), pa.int64()))
    ranks = list(picks.values())
    reader: CompressedReader | None = None
    found: list[pa.RecordBatch] = []
    begin = 0
    for batch in batches_of(rows, ROWS):
        reader = reader or _reader(batch)
        wanted = ranks[begin : begin + batch.num_rows]
        begin += batch.num_rows
        if reader is not None:
            numbers = np.repeat(np.arange(len(wanted)), [len(some) for some in wanted])
            found += reader.pick(batch, numbers, np.array([rank for some in wanted for rank in some], np.int64))
    if reader is None:  # nothing was drawn, but the rows say what the columns are
        reader = _reader_of(table)
    return pa.Table.from_batches(found, reader.schema)


def _stream(compressed: Any) -> pa.Table | pa.RecordBatchReader:
    stream = event_stream(compressed)
    require_columns(stream.schema)
    return stream


def _reader(batch: pa.RecordBatch) -> CompressedReader | None:
    """What reads rows like these; None if there are none."""
    variables = variables_of(batch)
    return None if variables is None else CompressedReader(batch.schema, variables)


def _reader_of(table: pa.Table) -> CompressedReader:
    first = next(iter(table.slice(0, 1).to_batches()), None)
    return (first and _reader(first)) or CompressedReader(table.schema, ())


# --- Spark ------------------------------------------------------------------------------------------------------------


def _require_batch(frame: DataFrame) -> None:
    if frame.isStreaming:
        raise PlanningError("not supported yet: streaming DataFrames")
    missing = [f"'{name}'" for name in ("match_count", "nodes") if name not in frame.columns]
    if missing:
        message = f"these are not compressed matches: {', '.join(missing)} missing among their columns"
        raise DataError(Problem(message, hint="ask for them with match(..., output='compressed')"))


def _expand_spark(frame: DataFrame) -> DataFrame:
    from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

    from kleene.runtime.spark.frame import worker_interpreter

    _require_batch(frame)
    with worker_interpreter(frame):
        rows = frame.select("variables").head(1)
    variables: Variables = tuple((item["name"], item["kleene"]) for item in rows[0]["variables"]) if rows else ()
    event = frame.schema["events"].dataType.elementType  # type: ignore[attr-defined]
    time = frame.schema["match_start"].dataType
    head = {"query": StringType(), "match_id": LongType(), "match_start": time, "match_end": time}
    fields = [StructField(name, kind, False) for name, kind in head.items()]
    fields += [StructField(name, ArrayType(event) if kleene else event) for name, kleene in variables]
    with worker_interpreter(frame):
        return frame.mapInArrow(partial(_expanded, variables=variables), StructType(fields))


def _expanded(batches: Iterator[pa.RecordBatch], variables: Variables) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from CompressedReader(batch.schema, variables).read(batch)


def _spark_rows(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """The rows of a DataFrame one by one, as they come; each travels as bytes, so that its types stay what they are."""
    from kleene.runtime.spark.frame import worker_interpreter

    _require_batch(frame)
    with worker_interpreter(frame):
        rows = frame.mapInArrow(_serialized, "row binary").toLocalIterator()
    for row in rows:
        with pa.ipc.open_stream(row["row"]) as stream:
            yield from stream


def _serialized(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in range(batch.num_rows):
            row = pa.array([encode_events(batch.slice(number, 1))], pa.binary())
            yield pa.RecordBatch.from_arrays([row], ["row"])


def _sample_spark(frame: DataFrame, n: int, seed: int) -> pa.Table:
    """Collects a key and the count of each row, draws, and collects the rows that were drawn from.

    Rows are in the order of their keys, which depend on their contents, so a sample does not depend on partitions.
    """
    from pyspark.sql import functions as f

    from kleene.runtime.spark.frame import worker_interpreter

    _require_batch(frame)
    keyed = frame.withColumn(ROW_KEY, f.xxhash64("query", "match_start", "match_end", "match_count", "hashes", "ends"))
    order = [(ROW_KEY, "ascending"), ("match_count", "ascending")]
    with worker_interpreter(frame):
        known = keyed.select(ROW_KEY, "match_count").toArrow().sort_by(order)
    picks = _drawn(known.column("match_count").to_pylist(), n, seed)
    chosen = known.take(pa.array(list(picks), pa.int64()))
    keys = chosen.column(ROW_KEY).unique()
    with worker_interpreter(frame):
        # Without any, one row still says what the columns are.
        rows = keyed.where(f.col(ROW_KEY).isin(keys.to_pylist())) if picks else keyed.limit(1)
        table = rows.toArrow().sort_by(order)
    # Of the rows with a chosen key, all are here and in the same order: their numbers among them are those of the picks.
    here = pc.indices_nonzero(pc.is_in(known.column(ROW_KEY), value_set=keys)).to_pylist()
    number = {row: position for position, row in enumerate(here)}
    if table.num_rows < len(here):
        raise DataError(Problem("the rows changed while they were sampled", hint="cache or write the DataFrame first"))
    return _picked(table.drop_columns(ROW_KEY), {number[row]: ranks for row, ranks in picks.items()})
