"""The state of a bucket as a version of the library wrote it, in a folder: read by the tests of all later versions.

Run as a script, it writes the state as this version does, once for each format:

    python tests/support/fault_state.py tests/data/state_v1

`stream.json` has the queries, the events before and after, and what was reported before; `header.bin` and `segment-N.bin` are
what was in the store then.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow as pa

import kleene
from kleene.common.schema import schema_of_arrow
from kleene.interfaces.composition.shared import planned_query
from kleene.interfaces.options import options_of
from kleene.runtime.stream.bucket import Bucket, BucketPlan, Labelled
from kleene.runtime.units import QuerySet
from support.stream_runs import END, MemoryStore, bucket_plan

QUERIES = {
    "absent": "PATTERN SEQ(A a, B b, !(C c)) WHERE [k] WITHIN 8",
    "apart": "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_next_match(a, b[], c) { b[i].x > b[i-1].x } "
    "OUTPUT NON-OVERLAP WITHIN 12",
    "ever": "PATTERN SEQ(A a, B b) WHERE [k] AGG COUNT, SUM(b.x) GROUP BY k",
    "alive": "PATTERN SEQ(A a, B b) WHERE a.x < b.x AGG COUNT EMIT ON CHANGE WITHIN 6",
}
"""One for each kind of state: events only, their marks, counters, matches that are alive."""
OPTIONS = {"time": "ts", "type": "type"}
SCHEMA = pa.schema([("ts", pa.int64()), ("type", pa.string()), ("k", pa.int64()), ("x", pa.int64())])
EVENTS = [[at, "ABBCABDB"[at % 8], at % 3, at * 7 % 10] for at in range(1, 41)]
ARRIVED, WATERMARK = 24, 20
"""So many events have come, and those before this time were released."""


@dataclass(frozen=True, slots=True)
class SavedStream:
    """A stream that was stopped."""

    queries: dict[str, str]
    before: list[list[Any]]
    """Events that had come."""
    after: list[list[Any]]
    """Those that had not."""
    watermark: int
    reported: list[str]
    """What had been reported."""
    store: MemoryStore

    @staticmethod
    def read(folder: Path) -> SavedStream:
        described = json.loads((folder / "stream.json").read_text())
        segments = {int(item.stem.split("-")[1]): item.read_bytes() for item in folder.glob("segment-*.bin")}
        return SavedStream(**described, store=MemoryStore((folder / "header.bin").read_bytes(), segments))

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        names = ("queries", "before", "after", "watermark", "reported")
        (folder / "stream.json").write_text(json.dumps({name: getattr(self, name) for name in names}, indent=1) + "\n")
        assert self.store.blob is not None
        (folder / "header.bin").write_bytes(self.store.blob)
        for number, blob in self.store.segments.items():
            (folder / f"segment-{number}.bin").write_bytes(blob)

    def rest(self) -> list[str]:
        """What this version reports when it goes on."""
        store = self.store.copy()
        return run(Bucket(plan_of(self.queries), store), store, self.after, END)

    def wanted(self) -> list[str]:
        """What this version finds in all events, as a batch."""
        events = table(self.before + self.after)
        found = {name: kleene.query(text, name=name).match(events, **OPTIONS) for name, text in self.queries.items()}
        return [f"{name} {row}" for name, rows in found.items() for row in rows.to_pylist()]


def stopped() -> SavedStream:
    """A stream as this version leaves it."""
    store, before = MemoryStore(), EVENTS[:ARRIVED]
    bucket = Bucket(plan_of(QUERIES), store)
    reported = [*run(bucket, store, before, None), *run(bucket, store, [], WATERMARK)]
    return SavedStream(QUERIES, before, EVENTS[ARRIVED:], WATERMARK, reported, store)


def plan_of(queries: dict[str, str], **further: Any) -> BucketPlan:
    options = options_of({**OPTIONS, **further})
    made = [kleene.query(text, name=name) for name, text in queries.items()]
    planned = tuple(planned_query(item, SCHEMA, options) for item in made)
    return bucket_plan(QuerySet(planned), SCHEMA, schema_of_arrow(SCHEMA, **OPTIONS))


def run(bucket: Bucket, store: MemoryStore, rows: list[list[Any]], watermark: int | None) -> list[str]:
    """A micro-batch, and what is reported in it."""
    left: list[Labelled] = list(bucket.process(store, [table(rows)] if rows else [], None))
    left += bucket.process(store, [], watermark)
    return [f"{item.query} {row}" for item in left for row in item.rows.to_pylist()]


def table(rows: list[list[Any]]) -> pa.Table:
    return pa.table([pa.array(column, item.type) for column, item in zip(zip(*rows, strict=True), SCHEMA, strict=True)], SCHEMA)


if __name__ == "__main__":
    stopped().write(Path(sys.argv[1]))
