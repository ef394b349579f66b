"""What a run held is free when it is over: nothing of the engine waits for the garbage collector, which knows no sizes."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest

import kleene

pytestmark = pytest.mark.slow  # everything is collected, often

EVENTS = 600
STREAM = pa.table(
    {
        "ts": range(EVENTS),
        "type": ["ABCD"[place * 7 % 11 % 4] for place in range(EVENTS)],
        "id": [place % 3 for place in range(EVENTS)],
        "x": [place * 37 % 101 for place in range(EVENTS)],
    }
)
OPTIONS: Mapping[str, Any] = {"time": "ts", "type": "type"}

SEQUENCE = "PATTERN SEQ(A a, B b, C c) WHERE [id] AND a.x < b.x AND a.x + b.x < c.x WITHIN 40"
NEGATION = "PATTERN SEQ(A a, !(B n), C c) WHERE [id] AND n.x > a.x WITHIN 40 RETURN a.x + c.x AS both"
KLEENE = "PATTERN SEQ(A a, D+ d[], C c) WHERE skip_till_next_match(a, d[], c) { d[i].x > avg(d[..i-1].x) } WITHIN 40"
COUNT = "PATTERN SEQ(A a, B b, C c) WITHIN 40 AGG COUNT, SUM(b.x)"
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "chosen": (SEQUENCE, {}),
    "sequence": (SEQUENCE, {"plan": {"mechanism": "sequence"}}),
    "basic": (SEQUENCE, {"plan": "basic"}),
    "eager": (SEQUENCE, {"plan": {"mechanism": "eager"}}),
    "chain": (SEQUENCE, {"plan": {"mechanism": "chain"}}),
    "tree": (SEQUENCE, {"plan": {"mechanism": "tree"}}),
    "negation": (NEGATION, {}),
    "negation by scan": (NEGATION, {"plan": "basic"}),
    "any order": ("PATTERN AND(A a, B b) WHERE a.x < b.x WITHIN 40", {}),
    "merging": (KLEENE, {}),
    "basic runs": (KLEENE, {"plan": {"algorithm": "basic"}}),
    "backtrack": (KLEENE, {"plan": {"algorithm": "backtrack"}}),
    "compressed": (KLEENE, {"output": "compressed"}),
    "next": ("PATTERN SEQ(A a, B b) WHERE skip_till_next_match(a, b) { [id] } WITHIN 40 RETURN a.x, b.x", {}),
    "contiguity": ("PATTERN SEQ(A a, D d) WHERE strict_contiguity(a, d) { } WITHIN 40", {}),
    "counters": (COUNT, {}),
    "marking": (COUNT, {"plan": {"window": "marking"}}),
    "counted matches": (COUNT, {"plan": {"mechanism": "matches"}}),
    "by group": ("PATTERN SEQ(A a, B b) WHERE [id] WITHIN 40 GROUP BY id AGG COUNT, MAX(b.x) HAVING COUNT > 1", {}),
}


def garbage_of(run: Callable[[], object]) -> list[object]:
    """What is left of a run for the garbage collector, of the engine or of Arrow."""
    run()  # whatever is kept for the next run is kept
    gc.collect()
    gc.disable()
    try:
        run()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        return [item for item in gc.garbage if type(item).__module__.startswith(("kleene.engine", "kleene.runtime", "pyarrow"))]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("name", RUNS)
def test_a_run_leaves_nothing_behind(name: str) -> None:
    text, options = RUNS[name]
    query = kleene.query(text, name=name)
    assert query.match(STREAM, **OPTIONS, **options).num_rows > 0
    assert not garbage_of(lambda: query.match(STREAM, **OPTIONS, **options))


@pytest.mark.parametrize("name", ["chosen", "merging", "negation", "counters"])
def test_batches_leave_nothing_behind(name: str) -> None:
    text, options = RUNS[name]
    query = kleene.query(text, name=name)

    def read() -> None:
        batches = pa.RecordBatchReader.from_batches(STREAM.schema, STREAM.to_batches(max_chunksize=50))
        query.match(batches, **OPTIONS, **options)

    assert not garbage_of(read)


@pytest.mark.parametrize("kind", ["multitree", "tree"])
def test_a_workload_leaves_nothing_behind(kind: str) -> None:
    texts = {"first": SEQUENCE, "second": NEGATION, "third": COUNT, "fourth": "PATTERN SEQ(A a, B b, D d) WITHIN 9"}
    together = kleene.workload({name: kleene.query(text, name=name) for name, text in texts.items()})
    assert not garbage_of(lambda: together.match(STREAM, **OPTIONS, plan={"mechanism": "multi", "kind": kind, "seconds": 1}))
