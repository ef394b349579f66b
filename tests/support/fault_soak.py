"""Streams whose processes are killed: what was killed when, and whether what the sinks have is what the batch gives.

Run as a script, it soaks for as long as asked and prints a report as JSON:

    python tests/support/fault_soak.py --seconds 600 --kills 30 --report soak.json

Files are written as the streams read them, a few ahead. A kill comes at a random moment of a micro-batch that is not committed.
The driver is started anew when it has been killed; when a worker or an executor has been, it has to survive.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import kleene
from kleene.runtime.stream.times import Clock
from support.fault_events import FINE, NO_GOOD, TOO_LATE, Feed
from support.fault_kills import DRIVER, EXECUTOR, SORTS, WORKER, Victim
from support.stream_driver import ALONE, KINDS, OPTIONS, QUERIES, Job

AHEAD = 2
"""So many files wait to be read."""
DEATHS = 2
"""A driver that ends so many times though nobody kills it is started again, to find out what it writes."""
PATIENCE = 300
"""So many seconds without a micro-batch are too many."""


@dataclass(frozen=True, slots=True)
class Course:
    """How a soak goes."""

    master: str = "local-cluster[2,1,1024]"
    seconds: float = 0
    """At least so long..."""
    kills: tuple[str, ...] = (WORKER, EXECUTOR, DRIVER)
    """...and at least these, in this order, then random ones."""
    pause: float = 1.0
    """Between a micro-batch and the next kill, in seconds, about."""
    rows: int = 200
    """In each file, about."""
    seed: int = 1
    names: tuple[str, ...] = tuple(QUERIES)
    """Of the queries, which together read all types of events: a late row that none reads is not delivered."""
    compares: bool = False
    """Whether the batch is run on Spark too."""


@dataclass(frozen=True, slots=True)
class Kill:
    """What was killed."""

    at: float
    """In seconds since the beginning."""
    sort: str
    pids: tuple[int, ...]
    batches: tuple[int, ...]
    """The micro-batches that were being done, one of each streaming query that was doing one."""


@dataclass(slots=True)
class Report:
    """What happened, and what came of it."""

    seconds: float = 0
    kills: list[Kill] = field(default_factory=list)
    drivers: int = 0
    """How often the driver was started."""
    deaths: list[int] = field(default_factory=list)
    """Exit codes of drivers that ended though nobody killed them."""
    batches: int = 0
    files: int = 0
    rows: int = 0
    late: int = 0
    bad: int = 0
    matches: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    """Sinks that have other rows than they should."""


def soak(folder: Path, course: Course) -> Report:
    """Feeds, kills, and compares."""
    run = _Soak(folder, course)
    try:
        run.go()
    finally:
        run.victim.close()
    return run.report


class _Soak:
    def __init__(self, folder: Path, course: Course) -> None:
        self.course, self.report = course, Report()
        self.job = Job(str(folder), course.master, list(course.names), course.compares)
        self.feed = Feed(self.job.at("in"), course.seed, course.rows)
        self.victim = Victim(self.job.command(), self.job.at("driver.log"))
        self.rng = Random(course.seed)
        self.began = time.monotonic()

    def go(self) -> None:
        self.victim.start()
        for sort in self._sorts():
            self._until_committed()
            self._wait(self.rng.uniform(0, 2 * self.course.pause))
            self._until_running()
            self._kill(sort)
        self._until_committed()
        self.feed.end()
        self.job.at("enough").touch()
        while self.victim.code() is None:
            time.sleep(0.2)
        self._conclude()

    def _sorts(self) -> Iterator[str]:
        yield from self.course.kills
        while self.seconds < self.course.seconds:
            yield self.rng.choice(SORTS)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def _log(self) -> str:
        return self.job.at("driver.log").read_text()[-4000:]

    # Waiting, which feeds

    def _step(self) -> None:
        """A moment passes; a driver that has died by itself is noted, and started again."""
        read = min(latest(item / "sources" / "0") + 1 for item in self.job.checkpoints)
        if self.feed.files - read < AHEAD:
            self.feed.write()
        code = self.victim.code()
        if code is not None:
            self.report.deaths.append(code)
            if len(self.report.deaths) > DEATHS:
                raise RuntimeError(f"the driver dies by itself: {self._log()}")
            self.victim.start()
        time.sleep(0.05)

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._step()

    def _until_committed(self) -> None:
        """Until each streaming query has finished a micro-batch."""
        before = self._committed()
        self._until(lambda: all(now > then for now, then in zip(self._committed(), before, strict=True)))

    def _until_running(self) -> None:
        """Until each streaming query does a micro-batch."""
        self._until(lambda: len(self._doing()) == len(self.job.checkpoints))

    def _until(self, holds: Any) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > end:
                raise TimeoutError(f"no micro-batch, or nothing to kill, for {PATIENCE} s: {self._log()}")
            self._step()

    def _committed(self) -> list[int]:
        return [latest(item / "commits") for item in self.job.checkpoints]

    def _doing(self) -> tuple[int, ...]:
        """The micro-batches that are not committed."""
        begun = [latest(item / "offsets") for item in self.job.checkpoints]
        return tuple(number for number, done in zip(begun, self._committed(), strict=True) if number > done)

    # Killing

    def _kill(self, sort: str) -> None:
        pids: list[int] = []
        doing: tuple[int, ...] = ()

        def killed() -> bool:
            nonlocal pids, doing
            doing = self._doing()
            pids = self.victim.kill(sort, self.rng)
            return bool(pids)

        self._until(killed)
        self.report.kills.append(Kill(round(self.seconds, 1), sort, tuple(pids), doing))
        if sort == DRIVER:
            self.victim.start()

    # The end

    def _conclude(self) -> None:
        report, events = self.report, self.feed.events()
        code = self.victim.code()
        if code != 0:
            raise RuntimeError(f"the driver ended with {code}: {self._log()}")
        report.seconds = round(self.seconds, 1)
        report.drivers = self.victim.starts
        report.batches = sum(number + 1 for number in self._committed())
        report.files, report.rows = self.feed.files, events.num_rows
        wanted = self._wanted(events)
        found = {name: self._read("found", name) for name in wanted}
        report.matches = {name: found[name].num_rows for name in (*self.job.names, "alone")}
        report.late, report.bad = (found[kind].num_rows for kind in KINDS)
        report.wrong = [name for name in wanted if shown(found[name]) != shown(wanted[name])]
        if self.job.compares:
            report.wrong += [
                f"batch {name}" for name in self.job.names if shown(self._read("wanted", name)) != shown(wanted[name])
            ]

    def _read(self, kind: str, name: str) -> pa.Table:
        return pq.read_table(self.job.at(kind, f"{name}.parquet"))

    def _wanted(self, events: pa.Table) -> dict[str, pa.Table]:
        """What each sink should have."""
        fate = events.column("fate")
        by_fate = {name: events.filter(pc.equal(fate, name)) for name in (TOO_LATE, NO_GOOD)}
        usable = events.filter(pc.is_in(fate, pa.array([FINE, NO_GOOD])))
        wanted = kleene.workload(self.job.queries).match(usable, bad_rows="drop", **OPTIONS)
        punctual = in_time(self.job.checkpoints[1], self.feed)
        alone = kleene.query(QUERIES[ALONE], name=ALONE).match(punctual, bad_rows="drop", **OPTIONS)
        return wanted | {"alone": alone} | dict(zip(KINDS, by_fate.values(), strict=True))


def latest(folder: Path) -> int:
    """The number of the last entry of a log of a checkpoint, -1 if it has none."""
    if not folder.exists():
        return -1
    return max((int(item.name.split(".")[0]) for item in folder.iterdir() if item.name[0].isdigit()), default=-1)


def in_time(checkpoint: Path, feed: Feed) -> pa.Table:
    """The events that were not late for a streaming query, by the watermarks of its checkpoint.

    If the driver is killed between the commit of Spark's own file sink and that of the checkpoint, the micro-batch is not done
    again but skipped. Its events do not count for the watermark then: the next one has the watermark that it had.
    """
    watermarks: dict[int, int | None] = {}
    for number in range(latest(checkpoint / "offsets") + 1):
        _, settings, offset = (checkpoint / "offsets" / str(number)).read_text().splitlines()
        known = Clock("us").time_of(json.loads(settings)["batchWatermarkMs"])
        watermarks.setdefault(json.loads(offset)["logOffset"], known)
    found = []
    for number in range(feed.files - 1):
        rows, watermark = feed.read(number), watermarks[number]
        times = pc.cast(rows.column("at"), pa.int64())
        found.append(
            rows if watermark is None else rows.filter(pc.or_kleene(pc.is_null(times), pc.greater_equal(times, watermark)))
        )
    return pa.concat_tables(found)


def shown(rows: pa.Table) -> list[str]:
    """The rows to compare, without what bad rows have beside their columns."""
    table = rows.select([name for name in rows.schema.names if name != "reason"])
    return sorted(map(str, table.to_pylist()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--kills", type=int, default=30, help="at least so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path)
    parser.add_argument("--keep", type=Path, help="the folder of the run, which is kept")
    given = parser.parse_args()
    rng = Random(given.seed)
    kills = tuple(rng.choice(SORTS) for _ in range(given.kills))
    folder = given.keep or Path(tempfile.mkdtemp())
    report = soak(folder, Course(seconds=given.seconds, kills=kills, seed=given.seed, compares=True))
    text = json.dumps(asdict(report), indent=1)
    print(text)
    if given.report is not None:
        given.report.write_text(text + "\n")
    if given.keep is None:
        shutil.rmtree(folder)
    return 1 if report.wrong or report.deaths else 0


if __name__ == "__main__":
    sys.exit(main())
