"""How fast the paper's queries run on one core, beside Flink's Pattern API on the same events.

Before anything is timed, Flink's matches are compared with the oracle's on a short stream and with Kleene's on the timed one,
match by match. What each of Flink's patterns means is said in `peers/flink/StockPatterns.java`.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import kleene
from benchmarks.harness import Contender, Disagreement, Experiment, Outcome, Point, measure
from benchmarks.machine import one_arrow_thread
from benchmarks.saseplus import contenders
from benchmarks.saseplus.streams import LOW_VOLUME, NEXT_RISE, PRICES, SYMBOLS, Scale, events, pattern_query, stream
from kleene.common.schema import schema_of_arrow
from kleene.pattern.bind import bind
from kleene.testing import oracle

if TYPE_CHECKING:
    from benchmarks.peers.flink.process import Flink

PARALLELISM = (1, 2)
ORACLE_EVENTS = 50_000
ORACLE_W = 100


@dataclass(frozen=True, slots=True)
class Case:
    """A query, and Flink's pattern with the same matches."""

    name: str
    query: str
    closing: str
    flink: str | None
    """None where Flink would take too long."""
    longer: bool = False
    """Whether the stream is longer: where matches are few, and where the fixed cost of a run shall not count."""

    def pattern_query(self, W: int, returned: str = "") -> kleene.Query:
        return pattern_query(self.query, W, closing=self.closing, returned=returned)


CASES = (
    Case("p2s3", "p2s3", LOW_VOLUME, "every"),
    Case("p2s3, b is the next rise", "p2s3", NEXT_RISE, "rises"),
    Case("p2s3, longer stream", "p2s3", LOW_VOLUME, None, longer=True),
    Case("p2s2", "p2s2", LOW_VOLUME, "contiguity", longer=True),
)
DIRECT = {"p2s3": "direct"}
"""By case: Flink's word by word translation, where it has other matches."""


def speed(scale: Scale, flink: Flink | None = None, folder: Path | None = None) -> Experiment:
    """With Flink, over files of events in the folder."""
    with one_arrow_thread():
        points = tuple(_point(case, scale, flink, folder) for case in CASES)
    return Experiment(
        "speed",
        "The paper's queries over an Arrow table, one core, and Flink's Pattern API",
        axis="case",
        headline="several times Flink at parallelism 2, with matches enumerated",
        clock="cpu",
        points=points,
        notes=() if flink is None else (f"Flink {flink.version}.",),
    )


def _point(case: Case, scale: Scale, flink: Flink | None, folder: Path | None) -> Point:
    W = scale.width
    table = events(scale.longer) if case.longer else stream(W, scale.windows, scale.complexity)
    plain = case.pattern_query(W)
    warm = flink is not None
    compared = [
        contenders.kleene("kleene: compressed", plain, table, output="compressed", warm=warm),
        contenders.kleene("kleene: prices", case.pattern_query(W, PRICES), table, warm=warm),
        contenders.kleene("kleene: structs", plain, table, warm=warm),
    ]
    if flink is not None and case.flink is not None:
        assert folder is not None
        compared += _flink_contenders(case, W, table, flink, folder)
    return measure(
        compared,
        events=table.num_rows,
        parameters={"case": case.name, "W": W},
        baseline="kleene: structs" if flink is None or case.flink is None else f"flink: {case.flink}, parallelism 1",
        repeats=min(5, scale.repeats),
        warm_up=1 if flink is None else 2,  # the JVM is still compiling during the first
    )


def _flink_contenders(case: Case, W: int, table: pa.Table, flink: Flink, folder: Path) -> list[Contender]:
    from benchmarks.peers.flink.process import write_events

    short = events(ORACLE_EVENTS)
    check_matches(case, ORACLE_W, short, oracle_matches(case.pattern_query(ORACLE_W), short), flink)
    check_matches(case, W, table, kleene_matches(case, W, table), flink)
    path = write_events(table, folder / f"stock-{case.flink}-{table.num_rows}.bin")

    def contender(pattern: str, parallelism: int, *, same: bool) -> Contender:
        def run() -> Outcome:
            found = flink.run(pattern, path, window=SYMBOLS * W, parallelism=parallelism)
            work = {"complexity": int(found["length"])}
            seconds = {"wall": found["wall"], "cpu": found["cpu"]}
            memory = int(found["memory"])
            if same:
                return Outcome(int(found["matches"]), work, seconds, memory)
            return Outcome(None, work | {"matches": int(found["matches"])}, seconds, memory)

        return Contender(f"flink: {pattern}, parallelism {parallelism}", run)

    assert case.flink is not None
    found = [contender(case.flink, parallelism, same=True) for parallelism in PARALLELISM]
    if case.name in DIRECT:
        found.append(contender(DIRECT[case.name], 1, same=False))
    return found


def check_matches(case: Case, W: int, table: pa.Table, expected: list[tuple[int, ...]], flink: Flink) -> None:
    """Compares Flink's matches, at either parallelism, with what is expected: times of a's elements, then that of b, sorted."""
    from benchmarks.peers.flink.process import read_matches, write_events

    with tempfile.TemporaryDirectory() as name:
        path, written = write_events(table, Path(name) / "events"), Path(name) / "matches"
        for parallelism in PARALLELISM:
            flink.run(case.flink, path, window=SYMBOLS * W, parallelism=parallelism, matches=written)
            found = read_matches(written)
            if found != expected:
                differing = sorted(set(found) ^ set(expected))[:3]
                raise Disagreement(f"{case.name}: Flink has {len(found)} matches, not {len(expected)}; such as {differing}")


def oracle_matches(query: kleene.Query, table: pa.Table) -> list[tuple[int, ...]]:
    """The oracle's matches, as `check_matches` wants them."""
    bound = bind(query.logical, schema_of_arrow(table.schema, time="ts", type="type"))
    at = table.column("ts").to_pylist()
    found = [dict(match.bindings) for match in oracle.matches(bound, table.to_pylist())]
    return sorted((*(at[element] for element in match["a"]), at[match["b"]]) for match in found)


def kleene_matches(case: Case, W: int, table: pa.Table) -> list[tuple[int, ...]]:
    """Kleene's matches, as `check_matches` wants them."""
    found = case.pattern_query(W).match(table, time="ts", type="type")
    of_a = [times for chunk in found.column("a").chunks for times in _times(chunk)]
    of_b = pc.struct_field(found.column("b"), "ts").to_pylist()
    return sorted((*times, at) for times, at in zip(of_a, of_b, strict=True))


def _times(elements: pa.ListArray) -> list[list[int]]:
    ends = np.cumsum(pc.list_value_length(elements).to_numpy())[:-1]
    return [part.tolist() for part in np.split(pc.list_flatten(elements).field("ts").to_numpy(), ends)]
