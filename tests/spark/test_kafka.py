"""Kafka end to end, against a real broker: events in disorder in, matches out, over a driver that is killed.

The connector's jars must be there when the JVM starts, so a driver of its own (`support/kafka_stream.py`) does the work.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyarrow import parquet

from support import kafka_stream
from support.kafka_broker import Broker, running_broker
from support.kafka_jars import RegistryOutOfReachError, connector
from support.kafka_stream import Job

pytestmark = [pytest.mark.spark, pytest.mark.since(4, 1)]

EVENTS = 2400
BEFORE = 1600
"""How many of them are there before the driver is killed."""
PATIENCE = 900
"""Seconds after which a driver is taken to be stuck."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    try:
        with running_broker(tmp_path_factory.mktemp("broker")) as running:
            yield running
    except RegistryOutOfReachError as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="module")
def report(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the sinks have after a driver was killed in the middle and another one finished."""
    folder = tmp_path_factory.mktemp("kafka")
    job = Job(broker.address, _connector_jars(), "events", "matches", str(folder))
    broker.create_topic(job.events, partitions=3)
    broker.create_topic(job.matches, partitions=2)
    records = kafka_stream.records(EVENTS)
    broker.produce(job.events, records[:BEFORE])
    _kill_in_a_batch(job, folder)
    broker.produce(job.events, records[BEFORE:])
    done = _driver(job, "finish", folder)
    out, _ = done.communicate(timeout=PATIENCE)
    assert done.returncode == 0, _error(folder / "finish.log")
    found: dict[str, Any] = json.loads(out[out.index("{") :])
    return found


def _connector_jars() -> str:
    try:
        known = connector()
    except RegistryOutOfReachError as problem:
        pytest.skip(str(problem))
    if known.version != pyspark.__version__:
        warnings.warn(f"no connector for Spark {pyspark.__version__} in the registry; used: {known.packages}", stacklevel=1)
    return ",".join(str(jar) for jar in known.jars)


def _driver(job: Job, mode: str, folder: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    with (folder / f"{mode}.log").open("w") as log:
        return subprocess.Popen(
            job.command(mode),
            env=environment,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )


def _kill_in_a_batch(job: Job, folder: Path) -> None:
    """Kills Python and the JVM at once, when both queries have done micro-batches and one is in the middle of another."""
    driver = _driver(job, "run", folder)
    checkpoints = [job.checkpoint(sink) for sink in ("topic", "files")]
    try:
        end = time.monotonic() + PATIENCE
        while not _in_a_batch(checkpoints):
            assert driver.poll() is None, _error(folder / "run.log")
            assert time.monotonic() < end, f"no micro-batch after {PATIENCE} seconds"
            time.sleep(0.01)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    assert all(_taken(checkpoint) < BEFORE for checkpoint in checkpoints), "the driver was done before it was killed"
    assert _rows(job.files) > 0, "the driver was killed before it had written a match"


def _error(log: Path) -> str:
    """The first exception in a log, which says more than the plan that it ends with."""
    text = log.read_text()
    return text[max(text.find("Exception") - 300, 0) :][:5000]


def _in_a_batch(checkpoints: list[Path]) -> bool:
    planned = [len(_numbers(checkpoint / "offsets")) for checkpoint in checkpoints]
    done = [len(_numbers(checkpoint / "commits")) for checkpoint in checkpoints]
    return min(done) >= 4 and sum(planned) > sum(done)


def _numbers(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.glob("*") if path.name.isdigit())


def _taken(checkpoint: Path) -> int:
    """How many events the micro-batches that are done have read."""
    last = _numbers(checkpoint / "commits")[-1]
    offsets = json.loads((checkpoint / "offsets" / str(last)).read_text().splitlines()[-1])
    return sum(offsets["events"].values())


def _rows(files: Path) -> int:
    """How many rows the files have that the sink has committed."""
    logs = [log.read_text().splitlines()[1:] for log in (files / "_spark_metadata").glob("[0-9]*")]
    paths = [json.loads(line)["path"].removeprefix("file://") for lines in logs for line in lines]
    return sum(parquet.read_metadata(path).num_rows for path in paths)


def test_all_events_are_in_the_topic_and_some_match(report: dict[str, Any]) -> None:
    assert report["events"] == EVENTS
    assert len(report["batch"]) > 50


def test_files_have_the_matches_of_the_batch_exactly_once(report: dict[str, Any]) -> None:
    assert sorted(report["files"]) == sorted(report["batch"])


def test_the_topic_has_the_matches_of_the_batch_with_equal_rows_for_equal_ids(report: dict[str, Any]) -> None:
    written = {(identity, value) for identity, value in report["topic"]}
    assert sorted(written) == sorted((identity, value) for identity, value in report["batch"])
