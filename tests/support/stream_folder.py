"""A folder of files that a stream of Spark reads, and what the stream writes."""

from __future__ import annotations

import datetime as dt
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from support.spark import frame_of

END = dt.datetime(2024, 1, 10, tzinfo=dt.UTC)
"""After all events of the tests."""


class Folder:
    """A folder of files that a stream reads, and what it writes."""

    def __init__(self, spark: Any, path: Path, schema: pa.Schema) -> None:
        self._spark, self.path, self._schema, self._files = spark, path, schema, 0
        self.metrics: list[dict[str, Any]] = []
        """Of all micro-batches of all runs."""
        (path / "in").mkdir()

    def deliver(self, rows: pa.Table) -> None:
        self._files += 1
        waiting = self.path / "file"
        pq.write_table(rows.cast(self._schema), waiting)
        os.utime(waiting, (self._files, self._files))  # Spark reads the oldest first
        waiting.rename(self.path / "in" / f"{self._files:04}.parquet")

    def end(self) -> None:
        """An event that is later than all others, of no type that matters, and what follows from it."""
        last = {field.name: None for field in self._schema} | {"type": "End", "id": 0, "ts": END}
        if pa.types.is_integer(self._schema.field("ts").type):
            last["ts"] = 1 << 40
        self.deliver(pa.Table.from_pylist([last], self._schema))

    def frame(self) -> Any:
        empty = frame_of(self._spark, self._schema.empty_table())
        return self._spark.readStream.schema(empty.schema).option("maxFilesPerTrigger", 1).parquet(str(self.path / "in"))

    def run(self, run: Any, *kinds: str) -> Counter[str]:
        """Lets a stream read what is there, as a query of its own from the checkpoint; the matches that it counted."""
        sinks = {kind: str(self.path / kind) for kind in kinds or ("matches",)}
        query = run.write(sinks, checkpoint=str(self.path / "checkpoint"), trigger={"availableNow": True})
        query.awaitTermination()
        counted: Counter[str] = Counter()
        for progress in query.recentProgress:
            metrics = progress["observedMetrics"]["kleene"].asDict()
            self.metrics.append(metrics)
            counted.update({name: count for name, count in metrics.items() if name.startswith("matches_")})
        return counted

    def rows(self, kind: str) -> list[str]:
        path = self.path / kind
        return in_text(self._spark.read.parquet(str(path)).drop("batch")) if any(path.rglob("*.parquet")) else []


def in_text(frame: Any) -> list[str]:
    return sorted(str(row) for row in frame.collect())
