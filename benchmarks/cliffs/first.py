"""Lines about the first use: an empty cache, and queries that are new. Each contender is a process of its own."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.cliffs.line import Goal, Line, Scale, compared
from benchmarks.harness import Contender, Outcome, Point

NEW = 200
"""Queries that one process asks."""
SHAPES = {
    "SEQ": "PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x WITHIN 50",
    "AND": "PATTERN AND(A a, B b) WHERE a.x < b.x WITHIN 50",
    "Kleene": "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_next_match(a, b[], c) { [k] AND b[i].x > a.x } WITHIN 50",
}
GOALS = {"SEQ": 2.0, "AND": 4.0, "Kleene": 6.0}
"""Seconds."""

_PROGRAM = """
import sys, time
import numpy as np, pyarrow as pa, kleene

random = np.random.default_rng(5)
columns = {name: random.integers(0, 10, 500) for name in ("k", "x")}
events = pa.table({"ts": np.arange(500), "type": pa.array(list("ABCDE" * 100)), **columns})
queries = [text for text in sys.argv[2:] if text]
kleene.query("PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x WITHIN 50").match(events, time="ts", type="type") \
    if sys.argv[1] == "warm" else None
wall, cpu = time.perf_counter(), time.process_time()
matches = sum(kleene.query(text).match(events, time="ts", type="type").num_rows for text in queries)
print(matches, time.perf_counter() - wall, time.process_time() - cpu)
"""


def process(name: str, cache: Path, texts: Sequence[str], scale: Scale, *, inside: bool = False) -> Contender:
    """A process that asks queries; it is timed from outside, or `inside` once it has answered another query."""
    kernels = {} if scale.compiled else {"KLEENE_KERNELS": "python"}

    def run() -> Outcome:
        command = [sys.executable, "-c", _PROGRAM, "warm" if inside else "cold", *texts]
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(command, env={**os.environ, "KLEENE_CACHE_DIR": str(cache), **kernels}, check=True, capture_output=True)
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


def new_texts(seed: int) -> list[str]:
    """Queries of ten shapes with constants that no other seed has."""
    tests = ("a.x + b.x < {}", "a.x < b.x + {}", "a.x * 2 > b.x - {}", "a.x <> b.x - {}", "a.x + {} > b.x")
    shapes = [f"WHERE {key}{test}" for key in ("", "[k] AND ") for test in tests]
    return [
        f"PATTERN SEQ(A a, B b) {shapes[place % len(shapes)].format(1_000 * seed + place)} WITHIN 50" for place in range(NEW)
    ]


def queries(scale: Scale) -> Iterator[Point]:
    """Many queries in one process: all of them new, or all the same one."""
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        cache.mkdir(mode=0o700)
        seeds = iter(range(1, 1_000))

        def fresh() -> Outcome:
            found = process("new queries", cache, new_texts(next(seeds)), scale, inside=True).run()
            return Outcome(None, {"matches": found.matches or 0}, found.seconds)

        same = process("the same query", cache, [new_texts(0)[0]] * NEW, scale, inside=True)
        yield compared(f"{NEW} queries", [same, Contender("new queries", fresh)], NEW, scale, "the same query")


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
        remark="Ten shapes with new constants, after one query that loads the kernels; the same query as often is the baseline.",
    ),
)
