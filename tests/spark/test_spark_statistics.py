"""Statistics of a DataFrame: counts are exact, samples keep neighbourhoods whole, tasks merge to what one would have found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kleene.common.errors import PlanningError
from kleene.common.schema import schema_of_arrow
from kleene.engine.matcher import Metrics
from kleene.engine.passes.observe import collect_arrow, read_columns, scan_of
from kleene.language.parser import parse
from kleene.pattern.bind import bind
from kleene.pattern.bound import BoundQuery
from kleene.pattern.predicates import Expression, variables
from kleene.plan.analysis.keys import key_attributes
from kleene.plan.contract import Scanned
from kleene.plan.order.statistics import Statistics
from kleene.runtime.spark import statistics as sampling
from kleene.runtime.spark.frame import arrow_schema
from kleene.runtime.spark.statistics import collect_spark
from support.spark import connect_session, frame_of

KEYED = "PATTERN SEQ(A a, !(D d), B b, C c) WHERE [k] AND a.x < b.x AND b.y < c.y / 2 AND c.x > 4 WITHIN 60 seconds"


def pieces(text: str, schema: pa.Schema, **roles: Any) -> tuple[BoundQuery, Scanned, list[Expression], tuple[str, ...]]:
    """(bound, scanned, conditions, partition) of a query, as a plan has them."""
    bound = bind(parse(text), schema_of_arrow(schema, **({"time": "ts", "type": "type"} | roles)))
    own = {name: tuple(item for item in bound.conjuncts if variables(item) == {name}) for name in "abcd"}
    scanned = [(event, own[event.variable]) for event in bound.components]
    return bound, scanned, [item for item in bound.conjuncts if len(variables(item)) > 1], key_attributes(bound)


def stream(rows: int, *, keys: int, seconds: float, seed: int = 0) -> pa.Table:
    """Events with integers `x`, uniform `y` and a `price` that walks slowly, on another level for each key."""
    random = np.random.default_rng(seed)
    ts = np.sort(random.integers(0, int(seconds * 1e6), rows))
    k = random.integers(0, keys, rows)
    types = np.array(["A", "B", "C", "D", "other"])[random.choice(5, rows, p=(0.1, 0.2, 0.3, 0.1, 0.3))]
    return pa.table(
        {
            "ts": pa.array(ts).cast(pa.timestamp("us", "UTC")),
            "type": pa.array(types),
            "k": k,
            "x": random.integers(0, 10, rows),
            "y": random.random(rows),
            "price": 100.0 * k + ts / 1e6 + random.random(rows),
        }
    )


# --- samples and sketches ---------------------------------------------------------------------------------------------


def sampled(marks: np.ndarray[Any, Any], parts: int, kept: int) -> list[int]:
    """The rows that are left of one component when parts are thinned one by one, and then together."""
    left: list[Any] = []
    unbounded = np.full(16, np.iinfo(np.uint64).max, np.uint64)
    for part in np.array_split(np.arange(marks.size), parts):
        dropped, _ = sampling.beyond(marks, part, unbounded, kept)
        left.extend(set(part.tolist()) - set(dropped.tolist()))
    rows = np.array(sorted(left))
    dropped, highest = sampling.beyond(marks, rows, unbounded, kept)
    final = sorted(set(rows.tolist()) - set(dropped.tolist()))
    assert (marks[final] <= highest[(marks[final] >> 60).astype(int)]).all()
    assert (marks[dropped] > highest[(marks[dropped] >> 60).astype(int)]).all()
    return final


@pytest.mark.parametrize("strata", [16, 2, 1])
def test_parts_merge_to_the_sample_of_the_whole(strata: int) -> None:
    random = np.random.default_rng(1)
    marks = random.integers(0, 1 << 60, 3_000, np.uint64) | (random.integers(0, strata, 3_000, np.uint64) << 60)
    whole = sampled(marks, 1, 320)
    assert len(whole) == 320
    for parts in (2, 7):
        found = sampled(marks, parts, 320)
        assert Counter((marks[found] >> 60).tolist()) == Counter((marks[whole] >> 60).tolist())
        assert len(set(found) ^ set(whole)) <= 2, "only at the cut, where strata take turns, may another row be kept"


def test_strata_are_filled_evenly() -> None:
    marks = np.arange(1_000, dtype=np.uint64) | (np.repeat([0, 3], [980, 20]).astype(np.uint64) << 60)
    assert Counter((marks[sampled(marks, 1, 100)] >> 60).tolist()) == {0: 80, 3: 20}


def test_hashes_differ_and_spread() -> None:
    hashes = sampling.mixed(np.arange(10_000))
    assert len(set(hashes.tolist())) == 10_000
    assert Counter((hashes >> 60).tolist()).most_common()[0][1] < 800


@pytest.mark.parametrize("keys", [1, 30, 5_000])
def test_sketches_tell_how_often_two_events_share_a_partition(keys: int) -> None:
    random = np.random.default_rng(keys)
    key = random.zipf(1.5, 100_000) % keys
    counts = np.bincount(key)
    exact = float((counts * (counts - 1)).sum()) / (100_000 * 99_999)
    parts = [np.stack((sampling.sketch(sampling.mixed(part)), sampling.sketch(part * 0))) for part in np.array_split(key, 7)]
    assert sampling.same_partition(sum(parts), 100_000) == pytest.approx(exact, rel=0.1)


def summarised(table: pa.Table, text: str, tasks: int) -> Statistics:
    """What `collect_spark` does, with tasks that take every n-th row each, without Spark."""
    bound, scanned, conditions, partition = pieces(text, table.schema)
    scanned = tuple(item for item in scanned if not item[0].negated)
    task = sampling._Task(bound, scanned, read_columns(bound, scanned, conditions, partition), bool(partition), 0)
    merged = sampling._Summary(task)
    for number in range(tasks):
        part = table.take(np.arange(number, table.num_rows, tasks)).select(list(task.columns))
        found, metrics = sampling._Summary(task), Metrics()
        scan, random = scan_of(bound, scanned, metrics), np.random.default_rng(0)
        for batch in part.combine_chunks().to_batches(max_chunksize=997):
            rows, masks = scan(batch)
            keys = batch.column("k").to_numpy().take(rows) if partition else None
            found.add(batch, rows, masks, keys, random)
        found.counts[sampling.EVENTS] = metrics.events
        row = found.on_the_wire().to_pylist()[0]
        merged.merge(row["summary"], row["sample"])
    return sampling._statistics(task, merged, conditions, partition, 1.0, 4096)


@pytest.mark.parametrize("keys", [3, 300])
def test_tasks_together_find_what_a_look_at_the_whole_finds(keys: int) -> None:
    table = stream(60_000, keys=keys, seconds=3_600)
    found = summarised(table, KEYED, 5)
    bound, scanned, conditions, partition = pieces(KEYED, table.schema)
    whole = collect_arrow(bound, scanned, conditions, partition, table, rows=100_000)
    assert found.events == whole.events
    assert found.rates == pytest.approx(whole.rates, rel=0.001)
    assert found.same_partition == pytest.approx(1 / keys, rel=0.1)
    assert found.selectivities == pytest.approx({"a.x < b.x": 0.45, "b.y < c.y / 2": 0.25}, abs=0.06)


@pytest.mark.parametrize("keys", [3, 300])
def test_what_holds_only_nearby_is_measured_nearby(keys: int) -> None:
    """In a window of a key the price moves by 60 at most. Rows drawn one by one would be hours and keys apart."""
    table = stream(60_000, keys=keys, seconds=36_000)
    found = summarised(table, "PATTERN SEQ(A a, B b) WHERE [k] AND b.price > a.price + 100 WITHIN 60 seconds", 4)
    assert found.selectivities["b.price > a.price + 100"] < 0.02
    unkeyed = summarised(table, "PATTERN SEQ(A a, B b) WHERE b.ts - a.ts > 45 seconds WITHIN 60 seconds", 4)
    assert unkeyed.selectivities["b.ts - a.ts > 45 seconds"] == pytest.approx(0.25, abs=0.1)


def test_without_key_and_window_rows_are_drawn_one_by_one() -> None:
    table = stream(60_000, keys=3, seconds=3_600)
    found = summarised(table, "PATTERN SEQ(A a, B b) WHERE a.x < b.x AND a.y < b.y / 2", 3)
    assert found.selectivities == pytest.approx({"a.x < b.x": 0.45, "a.y < b.y / 2": 0.25}, abs=0.05)


# --- on Spark ---------------------------------------------------------------------------------------------------------


def on_spark(text: str, frame: Any, roles: dict[str, Any] | None = None, **options: Any) -> Statistics:
    bound, scanned, conditions, partition = pieces(text, arrow_schema(frame), **roles or {})
    return collect_spark(bound, scanned, conditions, partition, frame, **options)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return stream(40_000, keys=50, seconds=3_600)


@pytest.fixture(scope="module")
def frame(spark: Any, table: pa.Table) -> Any:
    return frame_of(spark, table).repartition(3).cache()


@pytest.mark.spark
def test_counts_are_exact_and_selectivities_near(frame: Any, table: pa.Table) -> None:
    found = on_spark(KEYED, frame)
    types = Counter(
        kind for kind, x in zip(table["type"].to_pylist(), table["x"].to_pylist(), strict=True) if kind != "C" or x > 4
    )
    assert found.events == types["A"] + types["B"] + types["C"]
    assert found.span == pytest.approx(3_600, rel=0.01)
    assert found.rates == pytest.approx({"a": types["A"] / 3_600, "b": types["B"] / 3_600, "c": types["C"] / 3_600}, rel=0.01)
    assert found.same_partition == pytest.approx(0.02, rel=0.1)
    assert found.selectivities == pytest.approx({"a.x < b.x": 0.45, "b.y < c.y / 2": 0.25}, abs=0.06)


@pytest.mark.spark
def test_a_fraction_is_scaled(frame: Any) -> None:
    whole, part = on_spark(KEYED, frame), on_spark(KEYED, frame, fraction=0.25)
    assert part.events == pytest.approx(whole.events / 4, rel=0.05)
    assert part.rates == pytest.approx(whole.rates, rel=0.1)
    assert part.same_partition == pytest.approx(whole.same_partition, rel=0.2)
    for wrong in (0, 1.5, -1):
        with pytest.raises(PlanningError, match="fraction must be in"):
            on_spark(KEYED, frame, fraction=wrong)


@pytest.mark.spark
def test_rates_per_event_count_every_row(frame: Any, table: pa.Table) -> None:
    found = on_spark("PATTERN SEQ(A a, B b) WITHIN 30 EVENTS", frame)
    assert found.span == table.num_rows
    assert found.rates["a"] == table["type"].to_pylist().count("A") / table.num_rows


@pytest.mark.spark
def test_no_events(spark: Any, frame: Any) -> None:
    assert on_spark(KEYED, frame.where("k < 0")) == Statistics()
    assert on_spark(KEYED, spark.createDataFrame([], frame.schema)) == Statistics()


@pytest.mark.spark
def test_awkward_names_and_bad_rows(spark: Any) -> None:
    columns = {
        "a.b": [1, 2, None, 4, 5],
        "type": ["A", "B", "A", None, "B"],
        "od`d": [1, 1, 1, 1, None],
        "__kleene_masks": [1, 2, 3, 4, 5],
    }
    events = frame_of(spark, pa.table(columns))
    text = "PATTERN SEQ(A a, B b) WHERE [`od``d`] AND a.`a.b` < b.`a.b` WITHIN 9"
    assert on_spark(text, events, {"time": "a.b"}).events == 2


@pytest.mark.spark
def test_only_relevant_rows_and_needed_columns_travel(frame: Any) -> None:
    text = "PATTERN SEQ(A a, !(D d), B b) WHERE [k] AND a.x < b.x AND b.x > 7 WITHIN 1 second"
    bound, scanned, conditions, partition = pieces(text, arrow_schema(frame))
    task = sampling._Task(bound, tuple(scanned), read_columns(bound, scanned, conditions, partition), True, 0)
    events = task.events(frame, partition)
    assert events.columns == ["c0", "c1", "c2", "c3", "key"]
    assert {row["c1"] for row in events.select("c1").distinct().collect()} == {"A", "B", "D"}
    assert events.where("c1 = 'B' AND c3 <= 7").count() == 0


@pytest.mark.spark
def test_streams_are_refused(spark: Any) -> None:
    rate = spark.readStream.format("rate").load().selectExpr("timestamp AS ts", "'A' AS type", "value AS x", "1 AS k")
    with pytest.raises(PlanningError, match="cannot be collected from a streaming DataFrame"):
        on_spark("PATTERN SEQ(A a, B b) WITHIN 1 second", rate)


@pytest.mark.spark
def test_the_session_is_as_it_was(spark: Any, frame: Any) -> None:
    def settings() -> tuple[Any, ...]:
        return spark.conf.getAll, spark.sparkContext.pythonExec

    before = settings()
    on_spark(KEYED, frame)
    assert settings() == before


@pytest.mark.spark
def test_connect_gives_what_a_classic_session_gives(frame: Any, table: pa.Table, tmp_path: Path) -> None:
    """In a process of its own: a Connect session cannot live in one with a classic session."""
    hidden = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment["PYSPARK_PYTHON"] = sys.executable
    environment["PYTHONPATH"] = str(Path(__file__).parents[1])
    command = [sys.executable, __file__]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-5_000:]
    found = Statistics.from_json(json.loads(done.stdout[done.stdout.index("{") :]))
    classic = on_spark(KEYED, frame)
    assert (found.rates, found.events, found.same_partition) == (classic.rates, classic.events, classic.same_partition)
    assert found.selectivities == pytest.approx(classic.selectivities, abs=0.06)


if __name__ == "__main__":
    session = connect_session()
    found = on_spark(KEYED, frame_of(session, stream(40_000, keys=50, seconds=3_600)))
    sys.stdout.write(json.dumps(found.to_json()))
    sys.stdout.flush()
    session.stop()
