"""What a stream keeps in memory and as its state while keys come and go, after every micro-batch."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.harness import Experiment, Measurement, Point
from benchmarks.machine import descendants
from benchmarks.sase.on_spark import cpu_clock, jvm_of
from benchmarks.streaming.contenders import KLEENE, OBSERVED, OPTIONS, apart, start_session
from benchmarks.streaming.streams import COLUMNS, FILES, NAMED, SEED, Files, Scale, sequence_query, table

ONCE, SILENT = "every key once", "half of the keys go silent"
KEYS = 1_000_000
"""Of the stream in which half of them go silent, after a quarter of its events."""
WINDOW = 100_000
HEAP = "1g"


def memory(scale: Scale) -> Experiment:
    return Experiment(
        "memory",
        "Resident memory and state of a stream whose keys come and go",
        axis="events",
        series="case",
        headline="flat: as much in the last quarter of the stream as in the second",
        clock="cpu",
        points=tuple(point for case in (ONCE, SILENT) for point in apart(_points, case, scale)),
    )


def _batches(case: str, scale: Scale) -> Iterable[pa.Table]:
    rng = np.random.default_rng(SEED)
    size = scale.soak_batch
    for number in range(scale.soak_batches):
        first = number * size
        if case == ONCE:
            keys = np.arange(first, first + size, dtype=np.int32)
        elif 4 * number < scale.soak_batches:
            keys = rng.integers(0, KEYS, size, np.int32)
        else:
            keys = 2 * rng.integers(0, KEYS // 2, size, np.int32)
        yield table(first, keys, NAMED, rng)


def _points(case: str, scale: Scale) -> tuple[Point, ...]:
    session = start_session(memory=HEAP)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        files = Files.write(_batches(case, scale), Path(folder) / "files")
        measurements = _soak(session, files, Path(folder), scale.soak_batch)
    session.stop()
    return tuple(
        Point({"case": case, "events": (number + 1) * scale.soak_batch}, KLEENE, (item,))
        for number, item in enumerate(measurements)
    )


def _soak(session: Any, files: Files, folder: Path, size: int) -> list[Measurement]:
    """Measures a streaming query, micro-batch by micro-batch."""
    jvm, clock = jvm_of(session), cpu_clock(session)
    used, held = [clock()], []

    def sink(rows: Any, number: int) -> None:  # noqa: ARG001
        rows.write.format("noop").mode("overwrite").save()
        used.append(clock())
        held.append({"jvm": resident([jvm]), "python": resident(descendants(jvm))})

    files.begin(folder)()
    stream = session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", FILES).parquet(f"{folder}/stream/*")
    writer = sequence_query(WINDOW).match(stream, **OPTIONS).writeStream.foreachBatch(sink)
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    found = []
    for number, item in enumerate(progress for progress in query.recentProgress if progress.numInputRows):
        metrics = item.observedMetrics[OBSERVED]
        work = {
            **held[number],
            "state_rows": metrics["state_rows"],
            "state_bytes": metrics["state_bytes"],
            "store": item.stateOperators[0].memoryUsedBytes,
        }
        wall, cpu = item.durationMs["triggerExecution"] / 1_000, used[number + 1] - used[number]
        found.append(Measurement(KLEENE, size, metrics["matches"], (wall,), (cpu,), work))
    return found


def resident(processes: Iterable[int]) -> int:
    """Bytes of memory that processes have for themselves, with their part of what they share (Linux)."""
    total = 0
    for process in processes:
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:  # it has ended meanwhile
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total * 1_024
