"""Lines about the first use: an empty cache, and queries that are new. Each contender is a process of its own."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import cycle, islice, product
from pathlib import Path

from benchmarks.cliffs.line import Goal, Line, Scale, compared
from benchmarks.harness import Contender, Outcome, Point

NEW = 200
"""Queries that one process asks."""
COLUMNS = ("x", "y", "z")
WARM = "PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x WITHIN 50"
SHAPES = {
    "SEQ": WARM,
    "AND": "PATTERN AND(A a, B b) WHERE a.x < b.x WITHIN 50",
    "Kleene": "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_next_match(a, b[], c) { [k] AND b[i].x > a.x } WITHIN 50",
}
GOALS = {"SEQ": 2.0, "AND": 4.0, "Kleene": 6.0}
"""Seconds."""

_PROGRAM = """
import sys, time
import numpy as np, pyarrow as pa, kleene

random = np.random.default_rng(5)
columns = {name: random.integers(0, 10, 500) for name in ("k", "x", "z")}
events = pa.table({"ts": np.arange(500), "type": pa.array(list("ABCDE" * 100)), "y": random.random(500), **columns})

def ask(texts):
    return sum(kleene.query(text).match(events, time="ts", type="type").num_rows for text in texts)

before, *texts = sys.argv[1:]
ask(filter(None, [before]))
wall, cpu = time.perf_counter(), time.process_time()
print(ask(texts), time.perf_counter() - wall, time.process_time() - cpu)
"""


def process(name: str, cache: Path, texts: Sequence[str], scale: Scale, *, inside: bool = False) -> Contender:
    """A process that asks queries; it is timed from outside, or `inside` once it has answered another query."""
    kernels = {} if scale.compiled else {"KLEENE_KERNELS": "python"}

    def run() -> Outcome:
        command = [sys.executable, "-c", _PROGRAM, WARM if inside else "", *texts]
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            command, env={**os.environ, "KLEENE_CACHE_DIR": str(cache), **kernels}, check=True, capture_output=True
        )
        wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        matches, *own = done.stdout.split()
        if inside:
            wall, cpu = map(float, own)
        return Outcome(int(matches), {}, {"wall": wall, "cpu": cpu})

    return Contender(name, run)


def emptied(contender: Contender, cache: Path) -> Contender:
    """A contender that has an empty cache folder every time."""

    def run() -> Outcome:
        with tempfile.TemporaryDirectory(dir=cache.parent) as folder:
            Path(folder).rename(cache)
            found = contender.run()
            cache.rename(folder)
        return found

    return Contender(contender.name, run)


def first(scale: Scale) -> Iterator[Point]:
    """A query in a new process: with a cache that is empty, and with one that has all it needs."""
    for shape in [next(iter(SHAPES))] if scale.thin else SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            empty, full = Path(folder) / "empty", Path(folder) / "full"
            full.mkdir(mode=0o700)
            contenders = [
                process("second process", full, [SHAPES[shape]], scale),
                emptied(process(f"{shape}, first use", empty, [SHAPES[shape]], scale), empty),
            ]
            yield compared(shape, contenders, 500, scale, "second process")


def new_texts() -> list[str]:
    """Queries of ninety shapes, each with two or three constants."""
    tests = ("a.{} + b.{} < {}", "a.{} < b.{} + {}", "a.{} * 2 > b.{} - {}", "a.{} <> b.{} - {}", "a.{} >= b.{} * {}")
    shapes = [(key, test, pair) for key in ("", "[k] AND ") for test in tests for pair in product(COLUMNS, repeat=2)]
    chosen = islice(cycle(shapes), NEW)
    return [
        f"PATTERN SEQ(A a, B b) WHERE {key}{test.format(*pair, 3 + place)} WITHIN 50"
        for place, (key, test, pair) in enumerate(chosen)
    ]


def queries(scale: Scale) -> Iterator[Point]:
    """Many queries in one process: all of them new, or all the same one."""
    texts = new_texts()[: NEW if scale.compiled else 10]
    with tempfile.TemporaryDirectory() as folder:
        warm, cache = Path(folder) / "warm", Path(folder) / "cache"
        warm.mkdir(mode=0o700)
        same = process("the same query", warm, [WARM] * len(texts), scale, inside=True)
        fresh = process("new queries", cache, texts, scale, inside=True)

        def new() -> Outcome:
            """What earlier processes compiled for these queries is gone, and what all queries need is there."""
            shutil.rmtree(cache, ignore_errors=True)
            shutil.copytree(warm, cache)
            found = fresh.run()
            return Outcome(None, {"matches": found.matches or 0}, found.seconds)

        yield compared(f"{len(texts)} queries", [same, Contender(fresh.name, new)], len(texts), scale, same.name)


LINES = (
    Line(
        name="first",
        title="The first use, from an empty cache",
        points=first,
        goals=tuple(Goal(contender=f"{shape}, first use", most=most, unit="s") for shape, most in GOALS.items()),
        remark="""\
A process of its own with an empty cache folder, timed from outside, with the start of Python and what is imported. The same
in a second process is the baseline. Times are those of the clock.""",
        clock="wall",
    ),
    Line(
        name="queries",
        title=f"{NEW} new queries in one process",
        points=queries,
        goals=(Goal(contender="new queries", most=5, unit="s"),),
        remark="""\
Ninety shapes with two or three constants each, after one query that loads the kernels. The same query as often is the
baseline.""",
    ),
)
