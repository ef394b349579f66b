"""The questions in Flink's Pattern API, as far as it can say them."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.harness import Contender, Outcome
from benchmarks.peers import engines, jars
from benchmarks.peers.engines import PARALLELISM, SHARED, Engine
from benchmarks.peers.jvm import Program, write_columns
from benchmarks.peers.streams import COLUMNS
from benchmarks.real.flights import TYPES
from benchmarks.real.questions import Question

ORIGINS = ("EWR", "JFK", "LGA")
UNKNOWN = -(1 << 31)
"""The delay of a flight that never left."""

_PEERS = tuple(engines.HERE / "flink" / f"{name}.java" for name in ("Jobs", "Events"))
ENGINE = Engine(
    "flink",
    jars.FLINK,
    "RealPatterns",
    (SHARED, *_PEERS, Path(__file__).parent / "flink" / "RealPatterns.java"),
    jars.flink_jars,
    {},
)


def write(question: Question, table: pa.Table, path: Path) -> int:
    """Writes the events that have the question's key, as programs read them; how many these are."""
    kinds = pc.index_in(table["type"], pa.array(TYPES)).to_numpy().astype(np.int32)
    origins = pc.index_in(table["origin"], pa.array(ORIGINS)).to_numpy().astype(np.int32)
    columns = {
        "ts": table["ts"],
        "kind": pa.array(4 * kinds + origins),
        "attr1": pa.array(_keys(question, table)),
        "x": pc.cast(pc.fill_null(table["delay"], float(UNKNOWN)), pa.int32()),
        "y": table["id"],
    }
    known = reduce(pc.and_, [pc.is_valid(table[name]) for name in ("type", *question.keys)])
    kept = pa.table(columns).filter(known)
    write_columns(kept, path, COLUMNS)
    return kept.num_rows


def _keys(question: Question, table: pa.Table) -> np.ndarray:
    """A number for each combination of the keys."""
    found = np.zeros(table.num_rows, np.int64)
    for name in question.keys:
        codes = pc.dictionary_encode(table[name].combine_chunks())
        found = found * len(codes.dictionary) + pc.fill_null(codes.indices, 0).to_numpy(zero_copy_only=False)
    return found


def contender(question: Question, program: Program, path: Path, events: int) -> Contender:
    """Flink over the events of a file."""
    keyed, ordered = "keyed" if question.keys else "all", "ordered" if question.ordered else "timed"
    job = f"{keyed}:{ordered}:{','.join(step.text() for step in question.steps)}"

    def run() -> Outcome:
        found = program.ask(job, question.window, PARALLELISM, path.absolute(), events)
        seconds = {clock: float(found[clock]) for clock in ("wall", "cpu")}
        return Outcome(int(found["matches"]), {"digest": int(found["digest"])}, seconds, int(found["memory"]))

    return Contender("flink", run)
