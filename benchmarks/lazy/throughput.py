"""Throughput on one core, beside Flink's Pattern API: SEQ(A a, B b, C c), x rising, within a second.

One event comes every millisecond. One of the three types is rare, in each place of the sequence. x is uniform (ordinary), or
high for A and low for C, so that few events satisfy both conditions (selective).

Flink keeps all partial matches as runs and puts every event to each, so it is given streams that are shorter by far: it is run
over more and more events until a run takes long. Its streams end before a window has passed, which is to its advantage. Its
matches are compared with Kleene's one by one on the stream before the last, and counted on the last.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import kleene
from benchmarks.harness import Contender, Disagreement, Experiment, Outcome, Point, measure
from benchmarks.lazy import contenders
from benchmarks.lazy.contenders import AUTO, Plan
from benchmarks.lazy.streams import SEED, TYPES, Scale
from benchmarks.machine import one_arrow_thread

if TYPE_CHECKING:
    from benchmarks.peers.flink.process import Flink

WINDOW = 1_000
"""Milliseconds, and so events."""
SHARES = (0.01, 0.001)
PREDICATES = ("ordinary", "selective")
PLACES = {"first": 0, "middle": 1, "last": 2}
STEEPNESS = 20
"""Where A is high and C low: x is the 20th root, or power, of a uniform number."""
PLANS: dict[str, Plan] = {AUTO: None, "sequence": {"mechanism": "sequence"}}
ON_LONG = {**PLANS, **contenders.chains("abc")}
ON_SHORT: dict[str, Plan] = {**PLANS, "nfa": {"mechanism": "nfa"}}
"""An automaton keeps all prefixes too: like Flink it is run over the short streams only."""
PROGRAM = "AnyPatterns"
FLINK = "flink"
FLINK_FEWEST = 100
QUERY = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 1 second RETURN a.ts AS a, b.ts AS b, c.ts AS c"


@dataclass(frozen=True, slots=True)
class Case:
    """A stream."""

    predicates: str
    place: str
    share: float

    def shares(self) -> list[float]:
        shares = [(1 - self.share) / 2] * 3
        shares[PLACES[self.place]] = self.share
        return shares

    def matches_per_event(self) -> float:
        """Expected: for every triple in the window the probability that x rises.

        >>> round(Case("ordinary", "last", 0.01).matches_per_event())
        204
        """
        chance = 1 / 6 if self.predicates == "ordinary" else 1 / (STEEPNESS + 1) - 1 / (STEEPNESS + 1 + 1 / STEEPNESS)
        a, b, c = self.shares()
        return a * b * c * WINDOW**2 / 2 * chance

    def table(self, events: int) -> pa.Table:
        """The first events of the stream."""
        random = np.random.default_rng([SEED, PREDICATES.index(self.predicates), PLACES[self.place], round(1 / self.share)])
        draws = random.random((events, 2))
        kinds = np.searchsorted(np.cumsum(self.shares())[:2], draws[:, 0], side="right")
        x = draws[:, 1]
        if self.predicates == "selective":
            x = x ** np.array([1 / STEEPNESS, 1, STEEPNESS])[kinds]
        ts = pa.array(np.arange(events) * 1_000).cast(pa.timestamp("us", tz="UTC"))
        types = pa.DictionaryArray.from_arrays(kinds.astype(np.int8), pa.array(TYPES))
        return pa.table({"ts": ts, "type": types, "x": x})


CASES = tuple(Case(predicates, place, share) for predicates in PREDICATES for share in SHARES for place in PLACES)


def throughput(scale: Scale, flink: Flink | None = None) -> Experiment:
    chosen = CASES[:: len(CASES) - 1] if scale.thin else CASES
    with one_arrow_thread():
        points = [point for case in chosen for point in _points(case, scale, flink)]
    return Experiment(
        "throughput",
        "Three rising events within a second, one type rare, on one core, and Flink's Pattern API",
        axis="rare",
        series="stream",
        headline="orders of magnitude above Flink, which keeps every partial match",
        clock="cpu",
        points=tuple(points),
        notes=() if flink is None else (f"Flink {flink.version}.",),
    )


def _points(case: Case, scale: Scale, flink: Flink | None) -> list[Point]:
    events = int(min(scale.speed_events, scale.speed_matches / case.matches_per_event()))
    table = case.table(events)
    compared = _contenders(ON_LONG, table)
    points = [contenders.finals(compared, _point(case, "long", table, compared, "sequence", scale))]
    if flink is not None:
        table, found = longest(case, flink, scale.flink_seconds)
        points.append(_point(case, "short", table, [found, *_contenders(ON_SHORT, table)], FLINK, scale))
    return points


def _contenders(plans: dict[str, Plan], table: pa.Table) -> list[Contender]:
    query = kleene.query(QUERY)
    return [contenders.kleene(name, query, table, plan) for name, plan in plans.items()]


def _point(case: Case, stream: str, table: pa.Table, compared: list[Contender], baseline: str, scale: Scale) -> Point:
    return measure(
        compared,
        events=table.num_rows,
        parameters={"predicates": case.predicates, "rare": case.place, "share": case.share, "stream": stream},
        baseline=baseline,
        repeats=min(3, scale.repeats),
    )


def longest(case: Case, flink: Flink, seconds: float) -> tuple[pa.Table, Contender]:
    """Runs Flink over longer and longer streams until one takes the seconds given; the stream, and what Flink did with it."""
    with tempfile.TemporaryDirectory() as name:
        for number in count():
            table = case.table(int(FLINK_FEWEST * 1.5**number))
            found = flink.run("rising", _written(table, Path(name)), window=WINDOW, parallelism=1)
            if found["wall"] > seconds or table.num_rows > 20 * WINDOW:
                break
            shorter = table
        if number:
            check_matches(shorter, flink, Path(name))
    outcome = Outcome(int(found["matches"]), {}, {"wall": found["wall"], "cpu": found["cpu"]}, int(found["memory"]))
    return table, Contender(FLINK, lambda: outcome)


def check_matches(table: pa.Table, flink: Flink, folder: Path) -> None:
    """Compares Flink's matches with Kleene's."""
    from benchmarks.peers.flink.process import read_matches

    written = folder / "matches"
    flink.run("rising", _written(table, folder), window=WINDOW, parallelism=1, matches=written)
    found, expected = read_matches(written), kleene_matches(table)
    if found != expected:
        differing = sorted(set(found) ^ set(expected))[:3]
        raise Disagreement(f"Flink has {len(found)} matches, not {len(expected)}; such as {differing}")


def kleene_matches(table: pa.Table) -> list[tuple[int, ...]]:
    """The times of a, b and c in milliseconds, sorted."""
    found = kleene.query(QUERY).match(table, time="ts", type="type")
    return sorted(zip(*(_milliseconds(found.column(name)).tolist() for name in "abc"), strict=True))


def _written(table: pa.Table, folder: Path) -> Path:
    from benchmarks.peers.flink.process import write_events

    kinds = table.column("type").combine_chunks().indices
    plain = pa.table({"ts": _milliseconds(table.column("ts")), "kind": kinds, "x": table.column("x")})
    return write_events(plain, folder / f"events-{table.num_rows}.bin", PROGRAM)


def _milliseconds(times: pa.ChunkedArray) -> np.ndarray:
    return pc.cast(times, pa.int64()).to_numpy() // 1_000
