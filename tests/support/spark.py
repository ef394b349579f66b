"""One Spark session per process, small and quiet; `spark` tests share it."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pyspark

VERSION = tuple(map(int, pyspark.__version__.split(".")[:2]))
"""Of the Spark that is installed."""

ZONE = os.environ.get("KLEENE_TEST_ZONE", "UTC")
"""The time zone of sessions: none of the answers depends on it, nor on that of the processes (`TZ`)."""

ELSEWHERE = {"KLEENE_TEST_ZONE": "America/St_Johns", "TZ": "Asia/Kolkata"}
"""The environment of a process whose session and clock are in other zones, neither of them whole hours from UTC."""

os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
"""Drivers of seconds or minutes, those of processes that tests start too: thorough compilation would not pay."""

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": ZONE,
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.maxMetadataStringLength": "10000",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "true",
}


@cache
def classic_session() -> Any:
    """The classic session of this process, started on first use."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").appName("kleene tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


@contextmanager
def zone_of(session: Any, name: str) -> Iterator[None]:
    """Another time zone of the session for a while."""
    before = session.conf.get("spark.sql.session.timeZone")
    session.conf.set("spark.sql.session.timeZone", name)
    try:
        yield
    finally:
        session.conf.set("spark.sql.session.timeZone", before)


def frame_of(session: Any, table: Any) -> Any:
    """A table as a DataFrame; times without a zone stay so (by itself Spark would give them the session's)."""
    from kleene.runtime.spark.schemas import from_arrow

    return session.createDataFrame(table, from_arrow(table.schema))


CONNECT_PORT = 15002
"""Where a local Connect server listens, whatever it is told: pyspark's client asks there."""


def connect_session() -> Any:
    """A Connect session with its own server; it cannot live in one process with a classic session.

    Only one process of a machine can have one: others wait until it has ended.
    """
    from pyspark.sql import SparkSession

    _wait_for_the_port()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.remote("local[2]")
    for name in ("spark.ui.enabled", "spark.sql.shuffle.partitions", "spark.sql.session.timeZone"):
        builder = builder.config(name, SETTINGS[name])
    return builder.getOrCreate()


def _wait_for_the_port() -> None:
    """Returns when no other process has a Connect server; the turn is kept until this process ends."""
    turn = os.open(Path(tempfile.gettempdir()) / f"kleene-connect-{os.getuid()}.lock", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(turn, fcntl.LOCK_EX)
    for _ in range(600):
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", CONNECT_PORT)) != 0:
                return
        time.sleep(0.1)  # the server of the process before is about to end
