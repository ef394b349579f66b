"""Kleene as a contender: whole runs of one plan, with every match enumerated or in the compressed form.

The compressed form is the match buffer as it is. `matching` stops even before that is written.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.harness import Contender, Outcome
from kleene import Query
from kleene.engine.automaton.evaluation import AutomatonEvaluation
from kleene.engine.passes.reporting import PatternMatcher
from kleene.interfaces.options import options_of
from kleene.plan.patterns import runs_automata
from kleene.runtime.embedded import batches_of

WORK = ("instances", "visits", "merged", "peak_runs", "buffered")
"""Counted work; what the metrics do not have is left out."""


def kleene(
    name: str, query: Query, table: pa.Table, *, algorithm: str | None = None, output: str = "verbose", warm: bool = False
) -> Contender:
    """A run of the query over a table in memory, by one of the algorithms or by the default.

    `warm`: each timed run follows an untimed one. Beside a JVM that is needed: while it works for seconds, the machine takes
    back memory that this process let lie, and the next run would be timed getting it again (a JVM does not give back its own).

    Its work has `complexity`, the elements of all matches, where matches are enumerated; that, and the number of matches of the
    compressed form, are computed in the first run only.
    """
    options: dict[str, Any] = {"time": "ts", "type": "type", "output": output}
    if algorithm is not None:
        options["plan"] = {"algorithm": algorithm}
    known: list[Outcome] = []

    def run() -> Outcome:
        if warm:
            query.run(table, **options)
        wall, cpu = time.perf_counter(), time.process_time()
        done = query.run(table, **options)
        seconds = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        if not known:
            known.append(_outcome(done, output))
        return replace(known[0], seconds=seconds)

    return Contender(name, run)


class Detecting(PatternMatcher):
    """A matcher that puts every event to its runs and keeps the match buffer, but reports nothing: construction is off.

    `seconds` is the time of that, without reading events and grouping them by partition.
    """

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.seconds = {"wall": 0.0, "cpu": 0.0}

    def _report(self, run: Any, watermark: int | None) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - nothing waits
        wall, cpu = time.perf_counter(), time.process_time()
        for index in range(len(self._plan.branches)):
            for _ in run.detections(index, self._working.kept):
                pass
        self.seconds["wall"] += time.perf_counter() - wall
        self.seconds["cpu"] += time.process_time() - cpu
        return iter(())


def matching(name: str, query: Query, table: pa.Table, *, algorithm: str) -> Contender:
    """Matching by itself. The number of matches is that of the compressed form, computed in the first run only."""
    given: dict[str, Any] = {"time": "ts", "type": "type", "plan": {"algorithm": algorithm}}
    plan = query.plan_for(table.schema, options_of(given))
    assert runs_automata(plan)
    known: list[Outcome] = []

    def run() -> Outcome:
        matcher = Detecting(AutomatonEvaluation(plan), table.schema)
        for batch in batches_of(table):
            for _ in matcher.feed(batch):
                pass
        for _ in matcher.finish():
            pass
        if not known:
            known.append(_outcome(query.run(table, **given, output="compressed"), "compressed"))
        return replace(known[0], seconds=matcher.seconds)

    return Contender(name, run)


def _outcome(done: Any, output: str) -> Outcome:
    work = {key: int(getattr(done.metrics, key)) for key in WORK if hasattr(done.metrics, key)}
    if output == "compressed":
        from kleene import count

        return Outcome(int(count(done.matches)), work)
    return Outcome(done.matches.num_rows, work | {"complexity": complexity_of(done.matches)})


def complexity_of(matches: pa.Table) -> int:
    """The output complexity of section 6.1: the sum of the lengths of all matches.

    A list column holds the elements of a; b is one event.

    >>> complexity_of(pa.table({"prices": [[1, 2], [3]], "at": [4, 5]}))
    5
    """
    lists = [
        name
        for name, kind in zip(matches.schema.names, matches.schema.types, strict=True)
        if pa.types.is_list(kind) or pa.types.is_large_list(kind)
    ]
    elements = sum(pc.sum(pc.list_value_length(matches.column(name))).as_py() or 0 for name in lists)
    return elements + matches.num_rows
