"""Run as a script: the driver of a test on a cluster. It answers all queries of `support.cluster`, and writes a report as JSON.

The report has the answers, what the executors run on (which Python, which kernels), and with `--kill` which executors were
killed while they matched.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from support import cluster, fault_kills, spark

TASKS = 8


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--embedded", action="store_true", help="only run the queries in this process")
    parser.add_argument("--report", type=Path)
    parser.add_argument("--settings", type=json.loads, default={})
    parser.add_argument("--remote", help="the address of a Spark Connect server")
    parser.add_argument("--artifact", help="an archive to send to that server")
    parser.add_argument("--kill", type=Path, help="kill executors; a folder that all processes see")
    arguments = parser.parse_args()
    if arguments.embedded:
        cluster.answers(cluster.events())
        return 0
    session = _session(arguments)
    frame = spark.frame_of(session, cluster.events())
    report = {"answers": cluster.answers(frame), "executors": executors(session)}
    if arguments.kill:
        report["kills"] = kills(session, frame, arguments.kill)
    arguments.report.write_text(json.dumps(report))
    session.stop()
    return 0


def _session(arguments: argparse.Namespace) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(arguments.remote) if arguments.remote else SparkSession.builder
    session = builder.config(map=arguments.settings).getOrCreate()
    if arguments.artifact:
        session.addArtifacts(f"{arguments.artifact}#environment", archive=True)
        session.conf.set("spark.sql.execution.pyspark.python", "./environment/bin/python")
    return session


# --- what executors run on ------------------------------------------------------------------------------------------------


def executors(session: Any) -> list[dict[str, Any]]:
    """The different places in which tasks run."""

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import kleene
        from kleene.engine.kernels import cache_folder

        for _ in batches:
            time.sleep(0.2)  # so that one executor does not take all tasks
        folder = cache_folder()
        assert folder is not None
        files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.suffix == ".nbc")
        found = {"python": sys.executable, "kleene": str(kleene.__file__), "cache": str(folder), "kernels": files}
        yield pa.RecordBatch.from_pydict({"found": [json.dumps(found)]})

    rows = session.range(0, TASKS, 1, TASKS).mapInArrow(look, "found string").collect()
    return [json.loads(text) for text in sorted({row["found"] for row in rows})]


# --- killing executors ----------------------------------------------------------------------------------------------------


def kills(session: Any, frame: Any, folder: Path) -> dict[str, dict[str, Any]]:
    """What the queries of `HELD` answer, each while an executor is killed that has begun to match."""
    return {name: _killing(name, session, frame, folder / name) for name in cluster.HELD}


def _killing(name: str, session: Any, frame: Any, folder: Path) -> dict[str, Any]:
    begun, ended, hold = folder / "begun", folder / "ended", folder / "hold"
    for each in (begun, ended):
        each.mkdir(parents=True)
    hold.touch()

    def held(x: pa.Array) -> pa.Array:
        (begun / str(os.getpid())).touch()
        while hold.exists():
            time.sleep(0.05)
        (ended / str(os.getpid())).touch()
        return x

    killed: dict[str, Any] = {}
    killer = threading.Thread(target=_kill_one, args=(begun, hold, killed), daemon=True)
    killer.start()
    rows = cluster.held_answer(name, frame, held)
    killer.join()
    return {"rows": rows, "ended": sorted(int(path.name) for path in ended.iterdir()), "lost": _lost(session), **killed}


def _kill_one(begun: Path, hold: Path, killed: dict[str, Any]) -> None:
    """Kills the executor, with its Python workers, of the first task that has begun, and lets the others go on."""
    while not (found := [int(path.name) for path in begun.iterdir()]):
        time.sleep(0.05)
    running = fault_kills.processes()
    executor = running[found[0]]
    while not fault_kills.is_executor(executor):
        executor = running[executor.parent]
    workers = [item.pid for item in fault_kills.descendants(executor.pid) if fault_kills.is_worker(item)]
    for pid in (executor.pid, *workers):
        os.kill(pid, signal.SIGKILL)
    killed.update(worker=found[0], executor=executor.pid, command=executor.command)
    hold.unlink()


def _lost(session: Any) -> int:
    """How many executors Spark has missed so far."""
    listed = session.sparkContext._jsc.sc().statusStore().executorList(False)
    return sum(not listed.apply(number).isActive() for number in range(listed.size()))


if __name__ == "__main__":
    sys.exit(main())
