"""A stream goes on from its checkpoint with other queries, buckets or columns than before, or says why it cannot."""

from __future__ import annotations

import json
import shutil
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException

import kleene
from kleene.common.errors import StateError
from kleene.runtime.spark.stream import operator as spark_streaming
from kleene.runtime.spark.stream.operator import BucketProcessor
from kleene.runtime.stream.state import FORMAT, MAGIC

pytestmark = [pytest.mark.spark, pytest.mark.since(4, 1)]

QUERIES = {
    "pairs": "PATTERN SEQ(A a, B b) WHERE [k] WITHIN 1 hour RETURN a.n AS first, b.n AS last",
    "other": "PATTERN SEQ(C c, D d) WITHIN 1 hour RETURN c.n AS first, d.n AS last",
}
"""Two that spread their events differently: over two buckets, and over one."""
SCHEMA = "n int, at timestamp, type string, k int, y int"
BEFORE = [(1, 0, "A", 1), (2, 1, "C", 1), (3, 10, "A", 2)]
"""Number, second, type, key. When the stream is stopped its watermark is at second 10, and event 3 waits."""
AFTER = [(4, 20, "B", 1), (5, 20, "B", 2), (6, 30, "D", 2), (7, 100, "X", 1)]
GOES_ON = {"pairs": [(1, 4), (3, 5)], "other": [(2, 6)]}


class Stream:
    """A stream that is stopped and started again."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark, self.root = spark, root

    def put(self, name: str, events: list[tuple[int, int, str, int]]) -> None:
        rows = ", ".join(f"({n}, timestamp_seconds({1_780_000_000 + at}), '{type}', {k}, {n})" for n, at, type, k in events)
        frame = self.spark.sql(f"SELECT * FROM VALUES {rows} AS t(n, at, type, k, y)")
        frame.coalesce(1).write.parquet(f"{self.root}/in/{name}")

    def run(self, queries: Mapping[str, str] = QUERIES, sinks: tuple[str, ...] = ("matches",), **options: Any) -> None:
        """Takes what there is."""
        events = self.spark.readStream.schema(SCHEMA).parquet(f"{self.root}/in/*")
        options = {"time": "at", "type": "type", "watermark": "0 seconds", "buckets": 2, **options}
        run = kleene.workload(queries).run(events, **options)
        folders = {name: f"{self.root}/out/{name}" for name in sinks}
        query = run.write(folders, checkpoint=f"{self.root}/checkpoint", trigger={"availableNow": True})
        query.awaitTermination()

    def matches(self) -> dict[str, list[tuple[int, int]]]:
        found = {}
        for folder in sorted(Path(self.root, "out", "matches").glob("[!._]*")):
            rows = self.spark.read.parquet(str(folder)).collect()
            found[folder.name] = sorted((row["first"], row["last"]) for row in rows)
        return found


@pytest.fixture(scope="module")
def stopped(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Stream:
    """The stream after its first events."""
    stream = Stream(spark, tmp_path_factory.mktemp("stream"))
    stream.put("before", BEFORE)
    stream.run()
    shutil.copytree(stream.root / "checkpoint", stream.root / "kept")
    return stream


@pytest.fixture
def stream(stopped: Stream) -> Stream:
    """The stream as it was stopped, and the rest of its events."""
    for name in ("checkpoint", "out", "in/after"):
        shutil.rmtree(stopped.root / name, ignore_errors=True)
    shutil.copytree(stopped.root / "kept", stopped.root / "checkpoint")
    stopped.put("after", AFTER)
    return stopped


def test_it_goes_on(stream: Stream) -> None:
    stream.run()
    assert stream.matches() == GOES_ON


def test_a_micro_batch_that_is_done_again_is_written_once(stream: Stream) -> None:
    stream.run()
    commits = stream.root / "checkpoint" / "commits"
    last = max(int(item.name) for item in commits.iterdir() if item.name.isdigit())
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink()
    stream.run()
    assert stream.matches() == GOES_ON
    assert (commits / f"{last}").exists()


def test_queries_in_another_order_go_on(stream: Stream) -> None:
    stream.run(dict(reversed(QUERIES.items())))
    assert stream.matches() == GOES_ON


def test_a_changed_query_sees_events_from_the_watermark_on(stream: Stream) -> None:
    stream.run({**QUERIES, "pairs": QUERIES["pairs"].replace("1 hour", "2 hours")})
    assert stream.matches() == {**GOES_ON, "pairs": [(3, 5)]}


def test_a_query_that_is_gone_is_let_go_of(stream: Stream) -> None:
    stream.run({"pairs": QUERIES["pairs"]})
    (found,) = stream.spark.read.parquet(f"{stream.root}/out/matches").groupBy().count().collect()
    assert found["count"] == len(GOES_ON["pairs"])


def test_a_changed_key_is_refused_and_harms_nothing(stream: Stream) -> None:
    """Its buckets would be others: event 3, which waits, would be in none that is asked."""
    with pytest.raises(PySparkException, match=r"of query 'pairs' is spread by k, this stream by k, y\s+hint:"):
        stream.run({**QUERIES, "pairs": QUERIES["pairs"].replace("[k]", "[k] AND [y]")})
    assert not (stream.root / "out" / "matches" / "pairs").exists()
    stream.run()
    assert stream.matches() == GOES_ON


@pytest.mark.parametrize("marked", [True, False])
def test_the_output_of_another_checkpoint_is_refused(stream: Stream, marked: bool) -> None:
    """Its micro-batches would be counted from 0 again, and overwrite others."""
    stream.run()
    if not marked:
        (stream.root / "out" / "matches" / "_kleene").unlink()
    shutil.rmtree(stream.root / "checkpoint")
    with pytest.raises(StateError, match="has the output of another checkpoint"):
        stream.run()
    assert stream.matches() == GOES_ON


def test_output_without_a_mark_goes_on_with_its_checkpoint(stream: Stream) -> None:
    """As versions before left it; and as it is if the stream is killed before it is marked."""
    stream.run()
    mark = stream.root / "out" / "matches" / "_kleene"
    for _ in range(2):
        mark.unlink()
        stream.run()
        assert json.loads(mark.read_text())["checkpoint"] == str(stream.root / "checkpoint")
    assert stream.matches() == GOES_ON


def test_another_number_of_buckets_is_refused_and_harms_nothing(stream: Stream) -> None:
    with pytest.raises(PySparkException, match=r"spread over 2 buckets, this stream over 3\s+hint: give buckets=2"):
        stream.run(buckets=3)
    stream.run()
    assert stream.matches() == GOES_ON


def test_the_number_of_shuffle_partitions_does_not_matter(stream: Stream) -> None:
    with setting(stream.spark, "spark.sql.shuffle.partitions", "3"):
        stream.run()
    assert stream.matches() == GOES_ON


def test_a_column_that_was_not_kept_is_refused(stream: Stream) -> None:
    queries = {**QUERIES, "pairs": QUERIES["pairs"].replace("[k]", "[k] AND a.y < b.y")}
    with pytest.raises(PySparkException, match="the events in the checkpoint have no column 'y'"):
        stream.run(queries)


def test_state_of_a_later_format_is_refused(stream: Stream) -> None:
    with newer_format():
        stream.run()
    stream.put("more", [(8, 200, "B", 1)])
    message = rf"the checkpoint's state has format {FORMAT + 1}, this version of Kleene reads .*{FORMAT}"
    try:
        with pytest.raises(PySparkException, match=message):
            stream.run()
    finally:
        shutil.rmtree(stream.root / "in" / "more")


@contextmanager
def setting(spark: Any, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


# --- a later version of the library -----------------------------------------------------------------------------------


class NewerStore:
    """Writes headers in the next format; reads them, too."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def header(self) -> bytes | None:
        blob = self._store.header()
        return None if blob is None else numbered(blob, FORMAT)

    def put_header(self, blob: bytes) -> None:
        self._store.put_header(numbered(blob, FORMAT + 1))


class NewerProcessor(BucketProcessor):
    def init(self, handle: Any) -> None:
        super().init(handle)
        self._store = NewerStore(self._store)  # type: ignore[assignment]


def numbered(blob: bytes, number: int) -> bytes:
    begin = len(MAGIC)
    return blob[:begin] + struct.pack("<H", number) + blob[begin + 2 :]


@contextmanager
def newer_format() -> Iterator[None]:
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    try:
        with patch.object(spark_streaming, "BucketProcessor", NewerProcessor):
            yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)
