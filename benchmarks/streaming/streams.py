"""Events and queries of the streaming experiments: Parquet files, which micro-batches take in the order they were written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import kleene
from benchmarks import suite
from kleene.common.arrays import Array

SEED = 2006
TYPES = tuple("ABCDEFGHIJKLMNOPQRST")
NAMED = TYPES[:3]
"""The types that the query names."""
FILES = 2
"""So many files are a micro-batch, one for each core."""
SCHEMA = pa.schema([("ts", pa.int64()), ("type", pa.string()), ("key", pa.int32())])
COLUMNS = "ts long, type string, key int"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale(suite.Scale):
    """How big a run is."""

    batch: int
    """Events of a micro-batch."""
    batches: int
    per_key: int
    """Events for the operator with a state per key, which takes so much longer."""
    soak_batch: int
    soak_batches: int
    seconds: int
    """That events come for, at each point of the latency experiment."""
    cases: tuple[int, ...] = (0, 1, 2, 3)
    """Of the throughput experiment, by place."""


SCALES = {
    "full": Scale(
        name="full", batch=500_000, batches=4, per_key=100_000, soak_batch=250_000, soak_batches=40, seconds=12, repeats=3
    ),
    "quick": Scale(
        name="quick",
        batch=200_000,
        batches=2,
        per_key=20_000,
        soak_batch=100_000,
        soak_batches=12,
        seconds=8,
        repeats=1,
        thin=True,
        cases=(0,),
    ),
    "tiny": Scale(
        name="tiny", batch=5_000, batches=2, per_key=1_000, soak_batch=2_000, soak_batches=4, seconds=4, repeats=1, thin=True
    ),
}


def sequence_query(window: int | str, returned: str = "a.ts AS t1, b.ts AS t2, c.ts AS t3") -> kleene.Query:
    """Three steps with a key.

    >>> print(sequence_query(1_000, "c.ts AS t"))
    PATTERN SEQ(A a, B b, C c)
    WHERE [key]
    WITHIN 1000
    RETURN c.ts AS t
    """
    return kleene.query(f"PATTERN SEQ(A a, B b, C c) WHERE [key] WITHIN {window} RETURN {returned}", name="abc")


def table(first: int, keys: Array, types: tuple[str, ...], rng: np.random.Generator) -> pa.Table:
    """Events with these keys and types at random; time is the event number."""
    kinds = pa.DictionaryArray.from_arrays(rng.integers(0, len(types), keys.size, np.int32), pa.array(types))
    times = np.arange(first, first + keys.size, dtype=np.int64)
    return pa.table([pa.array(times), kinds.cast(pa.string()), pa.array(keys, pa.int32())], schema=SCHEMA)


def closing(after: int) -> pa.Table:
    """An event that no query reads, so late that the watermark passes all others."""
    return pa.table([[10 * after], ["Z"], [0]], schema=SCHEMA)


def uniform(batches: int, batch: int, keys: int, types: tuple[str, ...]) -> Iterable[pa.Table]:
    """Micro-batches with keys at random."""
    rng = np.random.default_rng(SEED)
    for number in range(batches):
        yield table(number * batch, rng.integers(0, keys, batch, np.int32), types, rng)


@dataclass(frozen=True, slots=True)
class Files:
    """Files of events in a folder: those of the first micro-batch, and those of the rest of the stream."""

    folder: Path

    @staticmethod
    def write(batches: Iterable[pa.Table], folder: Path) -> Files:
        """Each file has a time of its own, which is the order in which Spark takes them."""
        number = 0
        for place, batch in enumerate(batches):
            part = folder / ("rest" if place else "first")
            part.mkdir(parents=True, exist_ok=True)
            size = -(-batch.num_rows // FILES)
            for begin in range(0, batch.num_rows, size):
                path = part / f"{number:06}.parquet"
                pq.write_table(batch.slice(begin, size), path)
                os.utime(path, (number, number))
                number += 1
        return Files(folder)

    def begin(self, folder: Path) -> Callable[[], object]:
        """Puts the first files under `stream` in a folder; returns what puts the others there, all at once."""
        shutil.copytree(self.folder / "first", folder / "stream" / "first", copy_function=os.link)
        shutil.copytree(self.folder / "rest", folder / "rest", copy_function=os.link)
        return partial((folder / "rest").rename, folder / "stream" / "rest")
