"""The stream of rules on Spark: what micro-batches see as files change, after a restart, and when a batch is done again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from kleene.common.errors import DataError
from kleene.runtime.rules.snapshot import Rule, Rules, parse_rules
from kleene.runtime.spark.stream.rules import rules_stream

pytestmark = [pytest.mark.spark, pytest.mark.since(4, 1)]

PAIRS = "PATTERN SEQ(A a, B b) WITHIN 5"
LATE = "PATTERN SEQ(A a, C c) WITHIN 9 -- für später"
PATIENCE = 60


class Query:
    """A streaming query that keeps what its micro-batches saw; it may be stopped and started again."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark, self.root = spark, root
        self.rules = root / "rules"
        self.batches: list[tuple[int, list[Rules]]] = []
        self.fails = False
        self._running: Any = None

    def write(self, **texts: str) -> None:
        """Files that are finished when they get their names."""
        self.rules.mkdir(exist_ok=True)
        for name, text in texts.items():
            unfinished = self.root / "unfinished"
            unfinished.write_text(text, encoding="utf-8")
            unfinished.rename(self.rules / f"{name}.sase")

    def start(self, frame: Any = None, **trigger: Any) -> None:
        frame = rules_stream(self.spark, str(self.rules)) if frame is None else frame
        writer = frame.writeStream.foreachBatch(self._keep).option("checkpointLocation", str(self.root / "checkpoint"))
        self._running = writer.trigger(**(trigger or {"processingTime": "50 milliseconds"})).start()

    def stop(self) -> None:
        if self._running is not None:
            self._running.stop()

    def run(self, frame: Any = None) -> list[tuple[int, list[Rules]]]:
        """What the batches of a run see that ends by itself."""
        done = len(self.batches)
        self.start(frame, availableNow=True)
        assert self._running.awaitTermination(PATIENCE)
        return self.batches[done:]

    def after(self, change: Callable[[], Any]) -> Rules:
        """The snapshot of the one micro-batch that follows a change."""
        known = len(self.batches)
        change()
        deadline = time.monotonic() + PATIENCE
        while len(self.batches) == known and time.monotonic() < deadline:
            assert self._running.isActive, self._running.exception()
            time.sleep(0.02)
        self._running.processAllAvailable()
        ((_, (found,)),) = self.batches[known:]
        return found

    def _keep(self, frame: Any, number: int) -> None:
        rows = [row for row in frame.collect() if row.rules is not None]
        found = [parse_rules(row.rules) for row in rows]
        assert [row.version for row in rows] == [rules.version for rules in found]
        self.batches.append((number, found))
        if self.fails:
            raise ValueError("the sink fails")


@pytest.fixture
def query(spark: Any, tmp_path: Path) -> Iterator[Query]:
    made = Query(spark, tmp_path)
    yield made
    made.stop()


def test_rules_are_added_replaced_paused_and_removed(query: Query) -> None:
    query.write(pairs=PAIRS)
    assert query.after(query.start) == Rules(1, {"pairs": Rule(PAIRS)})
    assert query.after(lambda: query.write(late=LATE)) == Rules(2, {"late": Rule(LATE), "pairs": Rule(PAIRS)})
    assert query.after(lambda: query.write(pairs=LATE)).queries["pairs"] == Rule(LATE, 2)
    late = query.rules / "late.sase"
    assert query.after(lambda: late.rename(f"{late}.paused")).queries["late"] == Rule(LATE, 1, paused=True)
    assert query.after((query.rules / "pairs.sase").unlink) == Rules(5, {"late": Rule(LATE, 1, paused=True)}, {"pairs": 2})
    query.stop()
    query.write(pairs=PAIRS)
    expected = {"late": Rule(LATE, 1, paused=True), "pairs": Rule(PAIRS, 3)}
    assert query.after(query.start) == Rules(6, expected), "numbers go on after a restart"
    assert [number for number, _ in query.batches] == list(range(6))


def test_without_a_change_there_is_no_batch(query: Query) -> None:
    query.write(pairs=PAIRS)
    assert len(query.run()) == 1
    assert query.run() == []
    query.write(pairs=f"-- as it was\n{PAIRS}")
    assert query.run() == []
    query.write(late=LATE)
    ((number, (rules,)),) = query.run()
    assert (number, rules.version) == (1, 2)


def test_a_batch_that_is_done_again_sees_what_it_saw(query: Query) -> None:
    query.write(pairs=PAIRS)
    query.run()
    query.write(late=LATE)
    query.fails = True
    with pytest.raises(StreamingQueryException, match="the sink fails"):
        query.run()
    query.fails = False
    query.write(pairs=LATE)
    (query.rules / "late.sase").unlink()
    again, following = query.run()
    assert again == query.batches[1] == (1, [Rules(2, {"late": Rule(LATE), "pairs": Rule(PAIRS)})])
    assert following == (2, [Rules(3, {"pairs": Rule(LATE, 2)}, {"late": 1})])


def test_rules_beside_events(query: Query) -> None:
    events = query.root / "events"
    events.mkdir()
    for number in range(3):
        (events / f"{number}.txt").write_text(f"{number}\n", encoding="utf-8")
    query.write(pairs=PAIRS)
    lines = query.spark.readStream.option("maxFilesPerTrigger", 1).text(str(events))
    frame = lines.selectExpr("-1L AS version", "CAST(NULL AS string) AS rules").union(
        rules_stream(query.spark, str(query.rules))
    )
    first = Rules(1, {"pairs": Rule(PAIRS)})
    assert query.run(frame) == [(0, [first]), (1, []), (2, [])], "the events still come in batches of their own"


def test_a_folder_that_goes_away_does_not_stop_the_stream(query: Query) -> None:
    query.write(pairs=PAIRS)
    before = query.after(query.start)
    gone = query.after(lambda: query.rules.rename(query.root / "elsewhere"))
    assert gone.queries == before.queries
    assert list(gone.problems) == [str(query.rules)]
    back = query.after(lambda: (query.root / "elsewhere").rename(query.rules))
    assert back == Rules(3, before.queries)


def test_a_source_that_does_not_exist_is_refused_at_once(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder"):
        rules_stream(spark, str(tmp_path / "rules"))


def test_a_table_at_a_relative_path(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    (query.root / "rules.csv").write_text(f'name,query,paused\npairs,"{PAIRS}",true\n', encoding="utf-8")
    monkeypatch.chdir(query.root)
    frame = rules_stream(query.spark, "rules.csv")
    assert frame.isStreaming
    assert frame.dtypes == [("version", "bigint"), ("rules", "string")]
    assert query.run(frame) == [(0, [Rules(1, {"pairs": Rule(PAIRS, 1, paused=True)})])]
