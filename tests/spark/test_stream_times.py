"""Times of events in Structured Streaming: before 1970, negative, far from zero, ahead of the clock; old checkpoints."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kleene
from support import stream_checkpoint
from support.spark import frame_of
from support.stream_folder import Folder, in_text

pytestmark = [pytest.mark.spark, pytest.mark.since(4, 1)]

ROLES: dict[str, Any] = {"time": "ts", "type": "type"}
QUERY = kleene.query("PATTERN SEQ(A a, B b, !(C c)) WHERE [id] WITHIN 40 seconds")
COUNTED = kleene.query("PATTERN SEQ(A a, B b, !(C c)) WHERE [id] WITHIN 40")
DATA = Path(__file__).parents[1] / "data"


def rows_of(schema: pa.Schema, times: list[Any]) -> pa.Table:
    """Events of all types and keys at these times."""
    count = len(times)
    columns = [times, ["AABABC"[at * 7 % 6] for at in range(count)], [at // 3 % 2 for at in range(count)]]
    return pa.table([pa.array(column, item.type) for column, item in zip(columns, schema, strict=True)], schema=schema)


def schema_of(time: pa.DataType) -> pa.Schema:
    return pa.schema([("ts", time), ("type", pa.string()), ("id", pa.int32())])


STAMPS, INTEGERS = schema_of(pa.timestamp("us", "UTC")), schema_of(pa.int64())
SECOND = 1_000_000
STEP = 10**9
"""Integers far from zero are told in steps; these are wide enough to see the seconds."""
TIMES = {
    "long before 1970": (STAMPS, [-40 * 365 * 86_400 * SECOND + at * 7 * SECOND for at in range(60)], QUERY, "150 seconds"),
    "around 1970": (STAMPS, [(at - 30) * 7 * SECOND - 1 for at in range(60)], QUERY, "150 seconds"),
    "negative": (INTEGERS, [at * 7 - 400 for at in range(60)], COUNTED, 150),
    "nanoseconds": (
        INTEGERS,
        [1_700_000_000 * STEP + at * 7 * STEP for at in range(60)],
        kleene.query(f"PATTERN SEQ(A a, B b, !(C c)) WHERE [id] WITHIN {40 * STEP}"),
        150 * STEP,
    ),
}


@pytest.mark.parametrize("name", TIMES)
def test_a_stream_has_the_matches_of_the_table_whenever_it_is(spark: Any, tmp_path: Path, name: str) -> None:
    schema, times, query, delay = TIMES[name]
    table = rows_of(schema, times)
    folder = Folder(spark, tmp_path, schema)
    order = [*range(20), *range(22, 40), 21, 20, *range(40, 60)]
    folder.deliver(table.take(pa.array(order[:38])))
    folder.deliver(table.take(pa.array(order[38:])))
    end = times[-1] + 90 * (times[1] - times[0])
    folder.deliver(rows_of(schema, [end]).set_column(1, "type", pa.array(["End"])))
    folder.deliver(rows_of(schema, [times[-1]]))
    folder.run(query.run(folder.frame(), **ROLES, watermark=delay), "matches", "late", "bad_rows")
    assert folder.rows("matches") == in_text(query.match(frame_of(spark, table), **ROLES))
    assert len(folder.rows("matches")) > 5
    assert len(folder.rows("late")) == 1, "an event before the watermark is late, and no other one"
    assert folder.rows("bad_rows") == []
    watermark = folder.metrics[-1]["watermark"]
    if isinstance(delay, int):
        assert 0 <= end - delay - int(watermark) < 1 << 16
    else:
        assert dt.datetime.fromisoformat(watermark).timestamp() == pytest.approx(end / SECOND - 150, abs=1e-3)


def test_integers_beyond_what_a_table_may_have_are_bad_rows(spark: Any, tmp_path: Path) -> None:
    folder = Folder(spark, tmp_path, INTEGERS)
    folder.deliver(rows_of(INTEGERS, [-(2**63), -(2**62) + 1, 5, 6, 2**62, 2**63 - 1]))
    folder.deliver(rows_of(INTEGERS, [2**62 - 1, 7]))
    folder.run(kleene.query("PATTERN A a").run(folder.frame(), **ROLES, watermark=2**62 - 1), "matches", "bad_rows")
    reasons = {row.partition("reason=")[2] for row in folder.rows("bad_rows")}
    assert reasons == {"\"time column 'ts' is beyond ±2^62, and cannot be ordered safely\")"}
    assert len(folder.rows("bad_rows")) == 3
    assert folder.metrics[-1]["late"] == 0


def test_rows_ahead_of_the_clock_do_not_move_the_watermark(spark: Any, tmp_path: Path) -> None:
    """Nor are they matched, whatever their type; a micro-batch that is run again judges by the clock of its first run."""
    schema = STAMPS
    query = kleene.query("PATTERN SEQ(A a, B b) WHERE [id] WITHIN 10 seconds")
    folder = Folder(spark, tmp_path, schema)
    begin = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    ahead = dt.datetime(9999, 12, 31, tzinfo=dt.UTC)

    def deliver(*rows: tuple[dt.datetime, str]) -> None:
        folder.deliver(pa.Table.from_pylist([{"ts": at, "type": kind, "id": 1} for at, kind in rows], schema))

    def run() -> dict[str, Any]:
        made = query.run(folder.frame(), **ROLES, watermark="5 seconds", max_ahead="1 day")
        folder.metrics.clear()
        folder.run(made, "matches", "late", "bad_rows")
        return folder.metrics[-1]

    second = dt.timedelta(seconds=1)
    deliver((begin, "A"), (ahead, "B"), (begin + 60 * second, "End"), (ahead, "Other"))
    deliver((begin + 56 * second, "A"), (dt.datetime(2100, 1, 1, tzinfo=dt.UTC), "B"), (begin + 57 * second, "B"))
    last = run()
    assert (last["bad"], last["ahead"], last["late"]) == (1, 1, 0)
    reason = "reason=\"time column 'ts' is more than 1 day ahead of the clock\")"
    assert folder.rows("bad_rows") == [
        f"Row(ts=datetime.datetime({day}, 0, 0), type='{kind}', id=1, {reason}"
        for day, kind in (("2100, 1, 1", "B"), ("9999, 12, 31", "B"), ("9999, 12, 31", "Other"))
    ]
    assert run_again_at(tmp_path / "checkpoint", dt.datetime(2100, 1, 1, tzinfo=dt.UTC)) == 1
    last = run()
    assert (last["bad"], last["ahead"]) == (0, 0), "the clock of the micro-batch is in the checkpoint"
    deliver((begin + 200 * second, "End"))
    run()
    assert [row.partition(", a=")[0].rpartition("match_start=")[2] for row in folder.rows("matches")] == [
        "datetime.datetime(2024, 1, 1, 0, 0, 56), match_end=datetime.datetime(2024, 1, 1, 0, 0, 57)"
    ]


def run_again_at(checkpoint: Path, clock: dt.datetime) -> int:
    """Makes the last micro-batch one that was not committed, begun at another time; its number."""
    number = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdecimal())
    for path in (checkpoint / "commits" / str(number), *checkpoint.glob(f"*/.{number}.crc")):
        path.unlink()
    path = checkpoint / "offsets" / str(number)
    version, metadata, *sources = path.read_text().split("\n")
    changed = {**json.loads(metadata), "batchTimestampMs": int(clock.timestamp() * 1_000)}
    path.write_text("\n".join([version, json.dumps(changed), *sources]))
    return number


def test_a_checkpoint_from_before_times_were_moved_goes_on(spark: Any, tmp_path: Path) -> None:
    """Its watermark and its timer are without the constant that is added now: the timer rings at once, and is set anew."""
    old = DATA / "checkpoint_v1"
    shutil.copytree(old, tmp_path / "checkpoint")
    described = tmp_path / "checkpoint" / "state" / "0" / "_metadata" / "v2" / "0"
    described.write_text(described.read_text().replace("CHECKPOINT", f"file:{tmp_path / 'checkpoint'}"))
    before = [row for file in stream_checkpoint.BEFORE for row in file]
    later: list[list[Any]] = [[(14, "End", 0, 0)], [(8, "B", 1, 8), (10, "B", 2, 9)], [(60, "End", 0, 0)]]
    for place, rows in enumerate(later[:1]):
        stream_checkpoint.deliver(tmp_path, 10 + place, rows)
    metrics = stream_checkpoint.run(spark, tmp_path)
    assert metrics[0]["late"] == 0
    assert metrics[-1]["watermark"] == "2024-01-01T00:09:00.000Z"
    for place, rows in enumerate(later[1:]):
        stream_checkpoint.deliver(tmp_path, 20 + place, rows)
    stream_checkpoint.run(spark, tmp_path)
    (late,) = spark.read.parquet(str(tmp_path / "late")).collect()
    assert late["x"] == 8
    in_time = [row for row in before + later[1] if row[3] != 8]
    wanted = kleene.query(stream_checkpoint.TEXT).match(stream_checkpoint.table(in_time), **ROLES).column("x").to_pylist()
    found = [row["x"] for row in spark.read.parquet(str(tmp_path / "matches")).select("x").collect()]
    assert sorted(found) == sorted(wanted) == [1, 4, 6, 7]
