"""What systems of the suite are asked, and whether their answers are the same.

A system finds as many matches as Kleene, and a digest of the first and last events of all of them is the same; where only
counts are asked for, counts are compared. Systems bring their own clocks: comparing is not timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

import kleene as library
from benchmarks.aseq.contenders import total
from benchmarks.harness import Contender, Disagreement, Outcome, Point
from benchmarks.peers.streams import Workload

KLEENE = "kleene"
FACTOR = 1_000_003
"""Of the digest; that of Peer.java."""

TRIES = 4
HOPELESS = 20
"""How many times too long is too long to try again."""

Make = Callable[[int], Contender]
"""A contender over the first events of a stream."""


def digest(first: np.ndarray, last: np.ndarray) -> int:
    """A sum over matches that tells which events they begin and end with, in 64 bits as Java adds them.

    >>> digest(np.array([1, 2]), np.array([5, 6])) == 3 * FACTOR + 11 + 17
    True
    """
    with np.errstate(over="ignore"):
        first, last = first.astype(np.int64), last.astype(np.int64)
        return int(np.sum(first * FACTOR + last + first * last, dtype=np.int64))


def wrapped(value: int) -> int:
    """A number of any size in 64 bits, as sums of others' arithmetic come out.

    >>> wrapped(2**63 + 1) == 1 - 2**63
    True
    """
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def answer_of(rows: Sequence[pa.Table], counted: bool) -> Outcome:
    """What tables of matches, or of counts, say."""
    if counted:
        return Outcome(sum(total(table.group_by("attr1").aggregate([("count", "max")])) for table in rows))
    sums = [digest(table.column("t1").to_numpy(), table.column("t3").to_numpy()) for table in rows]
    return Outcome(sum(table.num_rows for table in rows), {"digest": wrapped(sum(sums))})


def timed(name: str, answer: Callable[[], Sequence[pa.Table]], *, counted: bool) -> Contender:
    """A contender whose answer is tables."""
    return looked_at(name, answer, lambda rows: answer_of(rows, counted))


def looked_at(name: str, answer: Callable[[], Sequence[pa.Table]], said: Callable[[Sequence[pa.Table]], Outcome]) -> Contender:
    """A contender whose tables are looked at the first time only, outside its time."""
    known: list[Outcome] = []

    def run() -> Outcome:
        wall, cpu = time.perf_counter(), time.process_time()
        rows = answer()
        seconds = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        if not known:
            known.append(said(rows))
        return replace(known[0], seconds=seconds)

    return Contender(name, run)


def kleene(workload: Workload, table: pa.Table) -> Contender:
    """Kleene in this process, on one core; a workload of several queries as one."""
    queries = workload.queries()
    options: dict[str, Any] = dict(workload.options)
    if len(queries) == 1:
        (query,) = queries.values()
        return timed(KLEENE, lambda: [query.match(table, **options)], counted=workload.counted)
    together = library.workload(queries)
    return timed(KLEENE, lambda: list(together.match(table, **options).values()), counted=workload.counted)


def longest(makers: Mapping[str, Make], fewest: int, most: int, seconds: float) -> int:
    """Runs contenders over more and more events until one takes so long: as many as all can bear."""
    events = min(fewest, most)
    while True:
        taken = max(_quickest(make(events), seconds) for make in makers.values())
        if taken > seconds or events == most:
            return events
        # Some are quadratic, or worse: the nearer to the end, the smaller the step.
        events = min(most, round(events * (1.5 if taken > seconds / 10 else 4)))


def _quickest(contender: Contender, seconds: float) -> float:
    """How long a run takes. One that takes too long is tried again: a JVM that is cold must not decide on the length."""
    taken = float("inf")
    for _ in range(TRIES):
        begun = time.perf_counter()
        own = contender.run().seconds
        taken = min(taken, time.perf_counter() - begun if own is None else own["wall"])
        if taken <= seconds or taken > HOPELESS * seconds:
            break
    return taken


def require_same_matches(point: Point) -> None:
    """That all contenders that have a digest have the same one."""
    digests = {item.name: item.work["digest"] for item in point.measurements if "digest" in item.work}
    if len(set(digests.values())) > 1:
        raise Disagreement(f"at {dict(point.parameters)}: as many matches, but others: {digests}")
