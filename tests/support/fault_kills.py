"""The processes of a Spark driver, and killing them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

DRIVER, EXECUTOR, WORKER = "driver", "executor", "worker"
SORTS = (DRIVER, EXECUTOR, WORKER)


@dataclass(frozen=True, slots=True)
class Process:
    """As the system shows it."""

    pid: int
    parent: int
    command: str


def processes() -> dict[int, Process]:
    """All processes by id."""
    listed = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,ppid=,command="], capture_output=True, text=True, check=True).stdout
    rows = (line.split(None, 2) for line in listed.splitlines())
    return {int(row[0]): Process(int(row[0]), int(row[1]), row[2]) for row in rows if len(row) == 3}


def descendants(root: int) -> list[Process]:
    """The processes that a process has started, and those that these have, parents first."""
    found = processes()
    children: dict[int, list[Process]] = {}
    for item in found.values():
        children.setdefault(item.parent, []).append(item)

    def below(pid: int) -> Iterator[Process]:
        for item in children.get(pid, ()):
            yield item
            yield from below(item.pid)

    return list(below(root))


def is_worker(item: Process) -> bool:
    """Whether it runs Python functions for Spark."""
    return "pyspark.daemon" in item.command


def is_executor(item: Process) -> bool:
    return "CoarseGrainedExecutorBackend" in item.command


def is_driver_jvm(item: Process) -> bool:
    return "org.apache.spark.deploy.SparkSubmit" in item.command


@dataclass(slots=True)
class Victim:
    """A driver that is killed, as a whole or in part, and started again; its output is appended to a log."""

    command: list[str]
    log: Path
    starts: int = 0
    known: dict[int, Process] = field(default_factory=dict)
    """What may outlive the driver."""
    _running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._running = subprocess.Popen(self.command, stdout=log, stderr=log, start_new_session=True)
        self.starts += 1

    @property
    def pid(self) -> int:
        assert self._running is not None
        return self._running.pid

    def code(self) -> int | None:
        """How the driver ended, None while it runs."""
        return None if self._running is None else self._running.poll()

    def kill(self, sort: str, rng: Random) -> list[int]:
        """SIGKILL for the driver with its JVM, or for one of its executors or workers; which, none if there is none."""
        below = descendants(self.pid)
        self.known |= {item.pid: item for item in below}
        if sort == DRIVER:
            chosen = [self.pid, *(item.pid for item in below if is_driver_jvm(item))]
        else:
            wanted = is_executor if sort == EXECUTOR else is_worker
            among = [item.pid for item in below if wanted(item)]
            chosen = [rng.choice(among)] if among else []
        killed = [pid for pid in chosen if _kill(pid)]
        if sort == DRIVER:
            assert self._running is not None
            self._running.wait()
        return killed

    def close(self) -> None:
        """Ends everything that was started."""
        if self._running is not None and self.code() is None:
            self.kill(DRIVER, Random())
        for _ in range(50):
            now = processes()
            left = [item for item in self.known.values() if item.pid in now and now[item.pid].command == item.command]
            if not left:
                return
            for item in left:
                _kill(item.pid)
            time.sleep(0.1)


def _kill(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False
