"""What a cluster must answer as one process does, a packed environment, and a Spark master with two workers on this machine."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import kleene
from support.spark import ZONE

RUN = Path(__file__).with_name("cluster_run.py")
ROLES: dict[str, Any] = {"time": "ts", "type": "type"}

QUERIES = {
    "keyed": "PATTERN SEQ(A a, !(D d), B b) WHERE [k] AND a.x < b.x WITHIN 40",
    "unkeyed": "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 12",
    "kleene": "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_next_match(a, b[], c) { [k] AND b[i].x > a.x } WITHIN 30",
    "aggregate": "PATTERN SEQ(A a, B b) WITHIN 30 GROUP BY k AGG COUNT, SUM(b.x) AS total",
    "unkeyed aggregate": "PATTERN SEQ(A a, B b, C c) WITHIN 20 AGG COUNT, MAX(c.x) AS most",
}
WORKLOAD = {
    "two": "PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x WITHIN 20",
    "three": "PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.x < b.x WITHIN 20",
    "counted": "PATTERN SEQ(A a, D d) WHERE [k] WITHIN 20 AGG COUNT",
}
HELD = {
    "keyed": "PATTERN SEQ(A a, B b) WHERE [k] AND a.x < Held(b.x) WITHIN 40",
    "unkeyed": "PATTERN SEQ(A a, B b) WHERE a.x < Held(b.x) WITHIN 8",
}
"""Queries that call a function, which a test may let wait."""

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.session.timeZone": ZONE,
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
}


def events(count: int = 4_000, seed: int = 3) -> pa.Table:
    """Events of four types and twenty keys, one at a time."""
    rng = random.Random(seed)
    return pa.table(
        {
            "ts": pa.array(range(count), pa.int64()),
            "type": rng.choices("ABCD", k=count),
            "k": pa.array(rng.choices(range(20), k=count), pa.int64()),
            "x": pa.array(rng.choices(range(100), k=count), pa.int64()),
        }
    )


Rows = list[list[Any]]


def answers(source: Any) -> dict[str, Rows]:
    """The rows of all queries over a table or a DataFrame, in an order of their own."""
    found = {name: _rows(kleene.query(text).match(source, **ROLES)) for name, text in QUERIES.items()}
    matches = kleene.workload(WORKLOAD).match(source, **ROLES)
    return found | {f"workload {name}": _rows(matches[name]) for name in WORKLOAD}


def held_answer(name: str, source: Any, held: Callable[[pa.Array], pa.Array]) -> Rows:
    """The same of a query that calls a function."""
    function = kleene.function("Held", returns="integer")(held)
    return _rows(kleene.query(HELD[name], functions=[function]).match(source, **ROLES))


def _rows(matches: Any) -> Rows:
    table = matches if isinstance(matches, pa.Table) else matches.toArrow()
    return sorted(json.loads(json.dumps([list(row.values()) for row in table.to_pylist()])), key=repr)


# --- a packed environment -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Packed:
    """An archive that `kleene pack` made."""

    path: Path

    @property
    def kernels(self) -> list[str]:
        """The files of compiled kernels in it, as an executor lists them."""
        with tarfile.open(self.path) as archive:
            names = [name.split("/", 2) for name in archive.getnames()]
        return sorted(name[2] for name in names if name[0] == "kernels")


def pack(folder: Path, *options: str, **variables: str) -> Packed:
    """Runs the queries once, which compiles their filters, and packs this environment."""
    path = folder / "kleene.tar.gz"
    environment = {**os.environ, **variables}
    for command in ([str(RUN), "--embedded"], ["-m", "kleene.interfaces.cli", "pack", str(path), *options]):
        done = subprocess.run(
            [sys.executable, *command], env=environment, capture_output=True, text=True, timeout=900, check=False
        )
        assert done.returncode == 0, done.stderr[-5000:]
    return Packed(path)


# --- drivers --------------------------------------------------------------------------------------------------------------


def spark_home() -> Path:
    """The Spark that pyspark brings."""
    import pyspark

    return Path(pyspark.__file__).parent


def own_spark_home(folder: Path) -> Path:
    """The same Spark in another folder, in which `local-cluster` leaves what executors unpack."""
    folder.mkdir()
    for item in spark_home().iterdir():
        (folder / item.name).symlink_to(item)
    return folder


def environment(**variables: str) -> dict[str, str]:
    """The variables of a process of Spark: this machine's without what would choose another Spark, Python or cache."""
    chosen = (
        "SPARK_REMOTE",
        "SPARK_CONNECT_MODE_ENABLED",
        "PYSPARK_PYTHON",
        "PYSPARK_DRIVER_PYTHON",
        "PYTHONPATH",
        "KLEENE_CACHE_DIR",
    )
    kept = {name: value for name, value in os.environ.items() if name not in chosen}
    return kept | {"SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": "127.0.0.1"} | variables


def drive(folder: Path, arguments: list[str], *, submit: Mapping[str, str] | None = None, **variables: str) -> dict[str, Any]:
    """Runs `cluster_run.py`, by itself or through spark-submit with some settings, and returns its report."""
    report = folder / "report.json"
    command = [sys.executable, str(RUN), "--report", str(report), *arguments]
    if submit is not None:
        settings = [word for name, value in submit.items() for word in ("--conf", f"{name}={value}")]
        command = [str(spark_home() / "bin" / "spark-submit"), *settings, *command[1:]]
    done = subprocess.run(
        command, env=environment(**variables), cwd=folder, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    found: dict[str, Any] = json.loads(report.read_text())
    return found


# --- a master and its workers ---------------------------------------------------------------------------------------------


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """A Spark master with two workers of a core each, as processes of this machine; the master's address."""
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    worker = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g"]
    with daemon(folder / "master.log", master):
        wait_for_port(port)
        with (
            daemon(folder / "worker1.log", [*worker, "--webui-port", "0", "--work-dir", str(folder / "work1"), address]),
            daemon(folder / "worker2.log", [*worker, "--webui-port", "0", "--work-dir", str(folder / "work2"), address]),
        ):
            yield address


@contextmanager
def daemon(log: Path, command: list[str], program: str = "spark-class", **variables: str) -> Iterator[None]:
    """A process of Spark while the block runs."""
    with log.open("wb") as out:
        running = subprocess.Popen(
            [str(spark_home() / "bin" / program), *command],
            stdout=out,
            stderr=out,
            env=environment(**variables),
            cwd=log.parent,
        )
    try:
        yield
        assert running.poll() is None, log.read_text()[-5000:]
    finally:
        running.terminate()
        running.wait(60)


@contextmanager
def connect_server(folder: Path, master: str, settings: Mapping[str, str], **variables: str) -> Iterator[str]:
    """A Spark Connect server whose executors are those of a master; its address."""
    port = free_port()
    own = {
        "spark.master": master,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    given = [word for name, value in (SETTINGS | own | settings).items() for word in ("--conf", f"{name}={value}")]
    command = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", *given]
    with daemon(folder / "connect.log", command, "spark-submit", **variables):
        wait_for_port(port, 120)
        yield f"sc://127.0.0.1:{port}"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for_port(port: int, seconds: float = 60) -> None:
    """Until somebody listens."""
    for _ in range(int(seconds * 10)):
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"nobody listens at port {port}")
