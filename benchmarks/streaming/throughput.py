"""The keyed three-step query beside operators that pass the same events through, in the same rounds.

All go from the same Parquet files to the noop sink. Clocks: wall, and CPU of the JVM with its Python workers, both from the
second micro-batch on: a stream is started once.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.harness import Disagreement, Experiment, Point, measure
from benchmarks.streaming.contenders import (
    KLEENE,
    OPTIONS,
    PACKED,
    PER_KEY,
    STATELESS,
    apart,
    packed_pass_through,
    pass_through_per_key,
    start_session,
    to_nowhere,
    without_state,
)
from benchmarks.streaming.streams import NAMED, TYPES, Files, Scale, closing, sequence_query, uniform

FEW, MANY = 1_000, 1_000_000
SHORT = 1_000
"""Events before those whose operator has a state per key are timed."""


@dataclass(frozen=True, slots=True)
class Case:
    """A stream, and a window in which the query finds something."""

    types: tuple[str, ...]
    keys: int
    window: int


CASES = (Case(TYPES, FEW, 20_000), Case(TYPES, MANY, 500_000), Case(NAMED, FEW, 1_000), Case(NAMED, MANY, 500_000))


def throughput(scale: Scale) -> Experiment:
    return Experiment(
        "throughput",
        "Three steps with a key over a stream, beside operators that pass its events through",
        axis="keys",
        series="types",
        headline="at most 1.5 times the CPU time of a pass-through operator, at 1,000 keys and at 1,000,000",
        clock="cpu",
        points=apart(_points, scale),
    )


def _points(scale: Scale) -> tuple[Point, ...]:
    session = start_session()
    found = []
    for case in (CASES[place] for place in scale.cases):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            point = _point(case, scale, session, Path(folder), warm_up=1 if found else 2)
            slow = _per_key(case, scale, session, Path(folder)) if case.types == NAMED else ()
            found.append(replace(point, measurements=(*point.measurements, *slow)))
    session.stop()
    return tuple(found)


def _point(case: Case, scale: Scale, session: Any, folder: Path, warm_up: int) -> Point:
    batches = list(uniform(scale.batches + 1, scale.batch, case.keys, case.types))
    everything = pa.concat_tables(batches)
    files = Files.write([*batches, closing(everything.num_rows)], folder / "all")
    query = sequence_query(case.window)
    found = measure(
        [
            to_nowhere(KLEENE, session, files, lambda stream: query.match(stream, **OPTIONS)),
            to_nowhere(PACKED, session, files, lambda stream: packed_pass_through(query, stream)),
            to_nowhere(STATELESS, session, files, without_state),
        ],
        events=scale.batches * scale.batch,
        parameters={"types": len(case.types), "keys": case.keys, "window": case.window},
        baseline=PACKED,
        repeats=scale.repeats,
        warm_up=warm_up,
    )
    expected = query.match(everything, time="ts", type="type").num_rows
    if found[KLEENE].matches != expected:
        raise Disagreement(f"{found[KLEENE].matches} matches of the stream, {expected} of a table of its events")
    named = pc.sum(pc.is_in(everything["type"], pa.array(NAMED))).as_py()
    require_all(found, named)
    return found


def _per_key(case: Case, scale: Scale, session: Any, folder: Path) -> tuple[Any, ...]:
    """The operator with a state per key, over fewer events."""
    first, rest = uniform(1, SHORT, case.keys, case.types), uniform(1, scale.per_key, case.keys, case.types)
    files = Files.write([*first, *rest], folder / "fewer")
    contender = to_nowhere(PER_KEY, session, files, pass_through_per_key)
    found = measure([contender], events=scale.per_key, parameters={}, baseline=PER_KEY, repeats=1)
    require_all(found, SHORT + scale.per_key)
    return found.measurements


def require_all(point: Point, events: int) -> None:
    """That every contender has seen all events of the query's types, and nothing else."""
    seen = {item.name: item.work["events"] for item in point.measurements}
    if set(seen.values()) != {events}:
        raise Disagreement(f"of {events} events, {seen} were seen")
