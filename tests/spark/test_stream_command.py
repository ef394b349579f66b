"""`kleene stream` for real: the matches of a batch, a restart that goes on, an interrupt, errors of workers, changing rules."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import kleene
from kleene.interfaces.cli import main

pytestmark = [pytest.mark.spark, pytest.mark.since(4, 1)]

QUERY = "PATTERN SEQ(A a, B b) WHERE [id] AND a.x < b.x WITHIN 1 minute RETURN a.id AS id, a.ts AS first, b.ts AS last"
ROLES = ["--time", "ts", "--type", "type"]
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("type", pa.string()), ("id", pa.int64()), ("x", pa.float64())])
BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def rows(count: int) -> list[tuple[Any, ...]]:
    """Events that come up to 20 seconds late, and one far behind them that moves the watermark."""
    rng = random.Random(7)
    events = [(BEGIN + dt.timedelta(seconds=n), rng.choice("ABC"), rng.randrange(9), rng.random()) for n in range(count)]
    arrived = sorted(events, key=lambda event: event[0] + dt.timedelta(seconds=rng.randint(0, 20)))
    return [*arrived, (BEGIN + dt.timedelta(days=1), "C", 0, 0.0)]


def table(events: list[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*events, strict=True)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


def command(folder: Path, *arguments: str, cores: int = 2) -> list[str]:
    program = [sys.executable, "-m", "kleene.interfaces.cli", "stream", *arguments]
    return [*program, "--checkpoint", str(folder / "state"), "--master", f"local[{cores}]"]


@pytest.mark.long
def test_matches_are_those_of_a_batch_across_a_restart_with_more_cores(tmp_path: Path) -> None:
    arriving = tmp_path / "events"
    arriving.mkdir()
    (tmp_path / "rise.sase").write_text(QUERY)
    events = rows(300)
    pq.write_table(table(events[:170]), arriving / "0.parquet")
    given = [str(tmp_path / "rise.sase"), "--events", str(arriving), *ROLES, "--watermark", "30 seconds", "--once", "--watch"]
    given += ["-o", str(tmp_path / "found"), "--late", str(tmp_path / "late")]
    first = subprocess.run(command(tmp_path, *given), capture_output=True, text=True, check=False, timeout=300)
    assert first.returncode == 0, first.stderr
    assert first.stderr.startswith("batch 0: 170 rows in "), first.stderr
    assert f"the checkpoint is in {tmp_path}/state; the same command resumes from there" in first.stderr
    before = ds.dataset(tmp_path / "found").to_table().num_rows

    pq.write_table(table(events[170:]), arriving / "1.parquet")
    second = subprocess.run(command(tmp_path, *given, cores=3), capture_output=True, text=True, check=False, timeout=300)
    assert second.returncode == 0, second.stderr
    assert second.stdout == ""
    found = ds.dataset(tmp_path / "found").to_table().column("match_id").to_pylist()
    expected = kleene.query(QUERY, name="rise").match(table(events), time="ts", type="type").column("match_id").to_pylist()
    assert sorted(found) == sorted(expected)
    assert 0 < before < len(found)
    assert f"{len(found) - before:,} matches" in second.stderr
    assert not (tmp_path / "late").exists()


def test_an_interrupt_lets_the_micro_batch_end(tmp_path: Path) -> None:
    query = "PATTERN SEQ(Tick a, Tick b) WHERE b.value = a.value + 1 WITHIN 5 seconds RETURN a.value AS value"
    given = ["-q", query, "--events", "rate:20", "--time", "timestamp", "--watermark", "1 second"]
    printed, said = tmp_path / "printed", tmp_path / "said"
    with (
        printed.open("w") as out,
        said.open("w") as err,
        subprocess.Popen(command(tmp_path, *given), stdout=out, stderr=err) as it,
    ):
        try:
            while it.poll() is None and not printed.stat().st_size:
                time.sleep(0.1)
            it.send_signal(signal.SIGINT)
            assert it.wait(timeout=300) == 0, said.read_text()
        finally:
            it.kill()
    values = [json.loads(line)["value"] for line in printed.read_text().splitlines()]
    assert sorted(values) == list(range(len(values)))
    assert f"the checkpoint is in {tmp_path}/state; the same command resumes from there" in said.read_text()
    assert f"{len(values):,} match" in said.read_text()


# In one session, which is started once.


def in_process(folder: Path, *arguments: str) -> int:
    return main(["stream", *arguments, "--checkpoint", str(folder / "state"), "--once"])


@pytest.fixture
def numbered(tmp_path: Path) -> Path:
    folder = tmp_path / "numbered"
    folder.mkdir()
    (folder / "1.csv").write_text("ts,type,id\n1,A,7\n2,B,\n3,B,7\n60000,C,7\n")
    return folder


def test_an_error_of_a_worker_is_shown_as_our_own(
    spark: Any, tmp_path: Path, numbered: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["-q", "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 5", "--events", str(numbered), *ROLES, "--watermark", "1"]
    assert in_process(tmp_path, *given, "--bad-rows", "error") == 1
    assert "\nerror: key attribute 'id' is NULL: {'ts': 2, 'type': 'B', 'id': None}\n  hint:" in capsys.readouterr().err


def test_several_queries_late_events_and_bad_rows(
    spark: Any, tmp_path: Path, numbered: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "pairs.sase").write_text("PATTERN SEQ(A a, B b) WHERE [id] WITHIN 5 RETURN a.id AS id")
    (tmp_path / "queries" / "ends.sase").write_text("PATTERN B b WHERE [id] RETURN b.ts AS at")
    (numbered / "2.csv").write_text("ts,type,id\n2,A,7\n")
    os.utime(numbered / "1.csv", (1, 1))
    given = [str(tmp_path / "queries"), "--events", f"csv:{numbered}", "--option", "maxFilesPerTrigger=1"]
    folders = ["-o", str(tmp_path / "found"), "--late", str(tmp_path / "late"), "--bad-rows-to", str(tmp_path / "bad")]
    assert in_process(tmp_path, *given, *ROLES, "--watermark", "1", *folders, "--format", "ndjson") == 0
    assert "5 rows, 2 matches, 1 late, 1 bad row" in capsys.readouterr().err
    assert [row["id"] for row in lines_in(tmp_path / "found" / "pairs")] == [7]
    assert [row["at"] for row in lines_in(tmp_path / "found" / "ends")] == [3]
    assert lines_in(tmp_path / "late") == [{"ts": 2, "type": "A", "id": 7}]
    assert [row["reason"] for row in lines_in(tmp_path / "bad")] == ["key attribute 'id' is NULL"]


def lines_in(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in sorted(folder.rglob("*.json")) for line in file.read_text().splitlines()]


def test_a_source_without_its_connector(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["-q", "PATTERN A a", "--events", "kafka:localhost:9/readings", "--columns", "ts:int,type:string"]
    assert in_process(tmp_path, *given, *ROLES, "--watermark", "1") == 1
    assert "hint: --packages org.apache.spark:spark-sql-kafka" in capsys.readouterr().err


def test_rules_that_are_read_while_it_runs(
    spark: Any, tmp_path: Path, numbered: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "pairs.sase").write_text("PATTERN SEQ(A a, B b) WITHIN 5 RETURN a.id AS id")
    (rules / "wrong.sase").write_text("PATTERN SEQ(A a, B b) WHERE z.id = 1")
    given = [str(rules), "--reload", "--events", str(numbered), *ROLES, "--watermark", "1"]
    assert in_process(tmp_path, *given) == 0
    captured = capsys.readouterr()
    found = [json.loads(line) for line in captured.out.splitlines()]
    assert {(row["query"], row["query_version"], row["match_end"]) for row in found} == {("pairs", 1, 2), ("pairs", 1, 3)}
    assert "warning: 'wrong' is not running: unknown variable 'z'" in captured.err
    assert "\n  pairs: 2 matches\n" in captured.err
