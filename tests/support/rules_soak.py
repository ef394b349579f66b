"""A stream of rules on Spark whose rules change and fail, and whose processes are killed; what came of it.

Steps are taken one by one: the rules of a step are written, when a micro-batch has them, a file of events, and when the
watermark has followed it, the next rules. So it is known which rules see which events, and a bucket without Spark and without
the hostile rules must give the good rules' rows. Kills come in the first third; then the memory of the workers is looked at,
which nothing sets back any more.

Run as a script it soaks, and prints a report as JSON:

    python tests/support/rules_soak.py --steps 50 --changes 200
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import kleene
from kleene.runtime.rules.files import PAUSED_SUFFIX
from kleene.runtime.stream.bucket import MATCHES, Bucket
from support.fault_events import DELAY, FINE, NO_GOOD, SCHEMA, Feed
from support.fault_kills import DRIVER, WORKER, Victim, descendants, is_worker
from support.fault_soak import PATIENCE, latest
from support.rule_buckets import Book, rules_plan
from support.rule_course import HOSTILE, Course, RuleSet, named, rule_sets
from support.rule_soak_driver import RuleJob
from support.stream_runs import MemoryStore

KILLS = (WORKER, DRIVER, WORKER, WORKER, DRIVER)
ROWS = 150
"""In each file, about."""

GIVEN_BACK = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""Lets processes give freed memory back at once, so that what is measured is memory in use."""


@dataclass(slots=True)
class Report:
    """What happened, and what came of it."""

    seconds: float = 0
    steps: int = 0
    changes: int = 0
    kills: list[str] = field(default_factory=list)
    drivers: int = 0
    batches: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    """By sink; of matches those of good rules, in all, and those of rules that never change."""
    told: list[str] = field(default_factory=list)
    """The kinds of hostile rules that problems name."""
    untold: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """What should not be."""
    memory: list[float] = field(default_factory=list)
    """Megabytes of the largest worker, step by step, after the kills."""
    compiled: list[int] = field(default_factory=list)
    """How many compiled kernels and filters are kept, at the same times."""
    state: list[int] = field(default_factory=list)
    """Rows in the logs of all buckets, by micro-batch."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What micro-batches that are committed have come to."""

    files: int = 0
    """How many files they have taken."""
    rules: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """Those of the last one: their texts, and whether they are paused."""
    watermark: int = -1
    """During the last one, in milliseconds."""


class RulesSoak:
    """Steps, and what is compared in the end."""

    def __init__(self, folder: Path, course: Course, kills: tuple[str, ...] = KILLS) -> None:
        self.job, self.course, self.report = RuleJob(str(folder)), course, Report()
        self.job.at("rules").mkdir(parents=True)
        self.feed = Feed(self.job.at("in"), course.seed, ROWS)
        os.environ["KLEENE_CACHE_DIR"] = str(self.job.at("cache"))
        os.environ.update(GIVEN_BACK)
        self.victim = Victim(self.job.command(), self.job.at("driver.log"))
        self.rng = Random(course.seed)
        self.sets = list(rule_sets(course))
        third = course.steps // 3
        places = sorted(self.rng.sample(range(1, third), len(kills))) if kills else []
        self.kills = dict(zip(places, kills, strict=True))

    def go(self) -> Report:
        began = time.monotonic()
        try:
            self.victim.start()
            old = RuleSet()
            for step, now in enumerate(self.sets):
                self._write(old, now)
                self._until(lambda: self._has(now))  # noqa: B023 - called at once
                before = self._committed().watermark
                self.feed.write()
                if step in self.kills:
                    self._kill(self.kills[step])
                self._until(lambda: self._has_all() and self._committed().watermark > before)  # noqa: B023
                if step > max(self.kills, default=0) + 1:
                    self._measure()
                old = now
            self.feed.end()
            self._until(self._has_all)
            self.job.at("enough").touch()
            while self.victim.code() is None:
                time.sleep(0.1)
            self._conclude()
        finally:
            self.victim.close()
        self.report.seconds = round(time.monotonic() - began, 1)
        return self.report

    # Rules as files

    def _write(self, before: RuleSet, now: RuleSet) -> None:
        """The files of the rules that have changed; each is finished when it has its name. A rule is paused and resumed by
        renaming its file.
        """
        folder, unfinished = self.job.at("rules"), self.job.at("unfinished")
        old, new = _files(before), _files(now)
        for name, content in new.items():
            if name in old and old[name] == content:
                continue
            if content is None:
                (folder / name).unlink(missing_ok=True)
                os.mkfifo(folder / name)
                continue
            other = name.removesuffix(PAUSED_SUFFIX) if name.endswith(PAUSED_SUFFIX) else name + PAUSED_SUFFIX
            if other in old and other not in new:
                (folder / other).rename(folder / name)
                if old.pop(other) == content:
                    continue
            unfinished.write_bytes(content)
            unfinished.rename(folder / name)
        for name in old.keys() - new.keys():
            (folder / name).unlink()

    def _committed(self) -> Committed:
        number = latest(self.job.at("checkpoint", "commits"))
        if number < 0:
            return Committed()
        lines = self.job.at("checkpoint", "offsets", str(number)).read_text().splitlines()
        offsets = [json.loads(line) for line in lines if line.startswith("{")]
        files = max((item["logOffset"] + 1 for item in offsets if "logOffset" in item), default=0)
        (known,) = (item["queries"] for item in offsets if "queries" in item)
        rules = {name: (rule["text"], rule["paused"]) for name, rule in known.items()}
        return Committed(files, rules, offsets[0]["batchWatermarkMs"])

    def _has(self, now: RuleSet) -> bool:
        """Whether a micro-batch that is committed has the rules of a step, but for those that cannot be read."""
        known = self._committed().rules
        good = {name: rule for name, rule in known.items() if name.startswith("good")}
        return good == now.good and known.keys() - good.keys() <= now.bad.keys() and now.texts().items() <= known.items()

    # Waiting and killing

    def _settled(self) -> bool:
        done = latest(self.job.at("checkpoint", "commits"))
        return done >= 0 and done >= latest(self.job.at("checkpoint", "offsets"))

    def _has_all(self) -> bool:
        """Whether the files that there are have been taken."""
        return self._committed().files >= self.feed.files and self._settled()

    def _until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > end or self.victim.code() is not None:
                raise RuntimeError(f"no progress, or no driver: {self.job.at('driver.log').read_text()[-4000:]}")
            time.sleep(0.05)

    def _kill(self, sort: str) -> None:
        """In the middle of the micro-batch that has the new events."""
        self._until(lambda: not self._settled())
        time.sleep(self.rng.uniform(0, 0.5))
        if self.victim.kill(sort, self.rng):
            self.report.kills.append(sort)
        if sort == DRIVER:
            self.victim.start()

    def _measure(self) -> None:
        workers = [item.pid for item in descendants(self.victim.pid) if is_worker(item)]
        self.report.memory.append(max((megabytes(pid) for pid in workers), default=0.0))
        self.report.compiled.append(sum(1 for _ in self.job.at("cache").rglob("*.nbc")))

    # The end

    def _conclude(self) -> None:
        report = self.report
        if self.victim.code() != 0:
            raise RuntimeError(f"the driver ended with {self.victim.code()}: {self.job.at('driver.log').read_text()[-4000:]}")
        report.steps, report.changes, report.drivers = len(self.sets), self.sets[-1].changes, self.victim.starts
        report.batches = latest(self.job.at("checkpoint", "commits")) + 1
        found = self._read("matches")
        good = found.filter(pc.starts_with(found["query"], "good"))
        wanted = self._without_hostile()
        report.wrong += differences(shown(good), shown(wanted))
        settled = self._settled_ids()
        report.wrong += differences(
            sorted(f"{row['query']} {row['match_id']}" for row in good.to_pylist() if row["query"] in settled[0]), settled[1]
        )
        problems = self._read("problems")["query"].to_pylist()
        told, strange = named(problems, self.sets)
        report.told, report.untold = sorted(told), sorted(HOSTILE.keys() - told)
        report.wrong += [f"a problem names {name}" for name in sorted(strange)]
        report.rows = {"good": good.num_rows, "settled": len(settled[1]), "hostile": found.num_rows - good.num_rows}
        report.rows |= {"problems": len(problems), **{name: self._read(name).num_rows for name in ("late", "bad_rows")}}
        with self.job.at("progress.jsonl").open() as file:
            report.state = [json.loads(line)["state_rows"] for line in file]

    def _read(self, sink: str) -> pa.Table:
        files = sorted(self.job.at("out", sink).rglob("*.parquet"))
        return pa.concat_tables([pq.ParquetFile(file).read() for file in files])

    def _watermarks(self) -> Iterator[tuple[int, int | None]]:
        """The file of each step, and the watermark while it is taken, in microseconds."""
        most: int | None = None
        for number in range(self.feed.files):
            yield number, None if most is None else most - DELAY * 1_000
            times = pc.max(self.feed.read(number)["at"]).cast(pa.int64()).as_py()
            most = times if most is None else max(most, times)

    def _without_hostile(self) -> pa.Table:
        """What one bucket gives that has the good rules only, in this process."""
        plan = rules_plan(SCHEMA, time="at", order_by="number", partition_by="k")
        store, book = MemoryStore(), Book()
        bucket, left = Bucket(plan, store), []
        marks = [*self._watermarks(), (self.feed.files, None)]
        for (number, watermark), (_, later) in pairwise(marks):
            if number < len(self.sets):
                good = self.sets[number].good
                rules = book.write(
                    {name: text for name, (text, _) in good.items()}, [name for name, (_, paused) in good.items() if paused]
                )
                left += bucket.process(store, [], watermark, rules)
            events = self.feed.read(number)
            left += bucket.process(store, [events.filter(pc.not_equal(events["fate"], NO_GOOD))], watermark)
            left += bucket.process(store, [], later)
        end = pc.max(self.feed.read(self.feed.files - 1)["at"]).cast(pa.int64()).as_py() - DELAY * 1_000
        left += bucket.process(store, [], end)
        return pa.Table.from_batches([item.rows for item in left if item.kind == MATCHES])

    def _settled_ids(self) -> tuple[set[str], list[str]]:
        """The rules that never change, and the ids of their matches in all events that were in time, as a batch."""
        names = {f"good{number:02}" for number in range(self.course.settled)}
        events = self.feed.events()
        fine = events.filter(pc.is_in(events["fate"], pa.array([FINE])))
        ids = []
        for name in sorted(names):
            text = self.sets[0].good[name][0]
            if "AGG" in text:
                names.discard(name)
                continue
            matches = kleene.query(text, name=name).match(fine, time="at", type="type", order_by="number", partition_by="k")
            ids += [f"{name} {number}" for number in matches["match_id"].to_pylist()]
        return names, sorted(ids)


def _files(rules: RuleSet) -> dict[str, bytes | None]:
    found: dict[str, bytes | None] = {
        f"{name}.sase{PAUSED_SUFFIX if paused else ''}": text.encode() for name, (text, paused) in rules.good.items()
    }
    for name, kind in rules.bad.items():
        content = HOSTILE[kind]
        found[f"{name}.sase"] = content.encode() if isinstance(content, str) else content
    return found


def megabytes(pid: int) -> float:
    """What of a process is in memory."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:  # it has just ended
        return 0.0
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


def shown(rows: pa.Table) -> list[str]:
    """The rows to compare; files have times without a zone."""
    event = ("number", "at", "type", "k", "x", "fate")
    found = (
        f"{row['query']} {row['query_version']} {row['match_id']} {row['match_end']} {sorted(row['returned'])} "
        f"{[(item['variable'], *(str(item['event'][name]) for name in event)) for item in row['events']]}"
        for row in rows.to_pylist()
    )
    return sorted(line.replace("+00:00", "") for line in found)


def differences(found: list[str], wanted: list[str]) -> list[str]:
    """The first rows that are missing, or there without need."""
    more, missing = Counter(found) - Counter(wanted), Counter(wanted) - Counter(found)
    return [f"not wanted: {row}" for row in sorted(more)[:5]] + [f"missing: {row}" for row in sorted(missing)[:5]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("steps", 50), ("changes", 200), ("good", 40), ("hostile", 10), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--no-kills", action="store_true")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    course = Course(given.good, given.hostile, given.steps, given.changes, seed=given.seed)
    folder = given.folder or Path(tempfile.mkdtemp())
    report = RulesSoak(folder / "soak", course, () if given.no_kills else KILLS).go()
    print(json.dumps(asdict(report), indent=1))
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
