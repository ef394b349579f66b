"""The workloads on Spark: Kleene, self-joins and window functions, from one Parquet file to the noop sink.

Spark SQL's window functions look back only where they are to be cheap, so what comes next is looked for in descending order.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import kleene as library
from benchmarks.harness import Contender, Outcome
from benchmarks.machine import Memory
from benchmarks.peers.contenders import FACTOR, Make, wrapped
from benchmarks.peers.relational import counting_sql
from benchmarks.peers.streams import Workload
from benchmarks.sase.on_spark import cpu_clock, jvm_of

Prepared = tuple[Any, Callable[[], object]]
"""A DataFrame, and what lets go of what Spark keeps of it."""

KLEENE = "kleene on spark"
ROW_GROUP = 500_000
_NEXT = (
    "last(CASE WHEN {when} THEN {value} END, true) "
    "OVER (PARTITION BY attr1 ORDER BY ts DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
)


def parquet(table: pa.Table, path: Path) -> Path:
    """The events with plain string types."""
    path.parent.mkdir(parents=True, exist_ok=True)
    at = table.schema.get_field_index("type")
    pq.write_table(table.set_column(at, "type", table.column("type").cast(pa.string())), path, row_group_size=ROW_GROUP)
    return path


def _bucketed(W: int, kinds: tuple[int, ...] = (0, 1, 2), key: str = "attr1", more: str = "") -> str:
    """The join of three by key and bucket, from the last down."""

    def source(place: int) -> str:
        bucket = f"ts div {W}" if place == 3 else f"explode(array(ts div {W}, ts div {W} + 1))"
        return f"(SELECT *, {bucket} AS g FROM events WHERE type = 'E{kinds[place - 1] + 1}') AS e{place}"

    same = {place: f"e{place}.g = e3.g" + (f" AND e{place}.{key} = e3.{key}" if key else "") for place in (1, 2)}
    return (
        f"SELECT e1.ts AS t1, e3.ts AS t3 FROM {source(3)} "
        f"JOIN {source(2)} ON {same[2]} AND e2.ts < e3.ts AND e2.ts > e3.ts - {W}{' AND e2.x < e3.x' if more else ''} "
        f"JOIN {source(1)} ON {same[1]} AND e1.ts < e2.ts AND e1.ts > e3.ts - {W}{' AND e1.x < e2.x' if more else ''}"
    )


def _next(workload: Workload) -> str:
    last = _NEXT.format(when="type = 'E3'", value="ts")
    middle = _NEXT.format(when="type = 'E2'", value="c")
    kept = f"SELECT *, {last} AS c FROM events WHERE type IN ('E1', 'E2', 'E3')"
    # A middle event without a last one is still the next: its NULL must not be skipped, so it stands as no time at all.
    found = f"SELECT ts AS t1, type, {middle} AS t3 FROM (SELECT ts, type, attr1, coalesce(c, {1 << 62}) AS c FROM ({kept}))"
    return f"SELECT t1, t3 FROM ({found}) WHERE type = 'E1' AND t3 < t1 + {workload.window}"


def _negation(workload: Workload) -> str:
    W = workload.window
    before = "sum(CASE WHEN type = 'E2' THEN 1 ELSE 0 END) OVER (PARTITION BY attr1 ORDER BY ts) AS before"
    counted = f"(SELECT ts, type, attr1, {before} FROM events WHERE type IN ('E1', 'E2', 'E3'))"
    first = f"(SELECT *, explode(array(ts div {W}, ts div {W} + 1)) AS g FROM {counted} WHERE type = 'E1') AS a"
    last = f"(SELECT *, ts div {W} AS g FROM {counted} WHERE type = 'E3') AS c"
    return (
        f"SELECT a.ts AS t1, c.ts AS t3 FROM {last} JOIN {first} ON a.attr1 = c.attr1 AND a.g = c.g AND a.before = c.before "
        f"AND a.ts < c.ts AND a.ts > c.ts - {W}"
    )


def _contiguity(workload: Workload) -> str:
    steps = "SELECT ts, attr1, x, x <= lag(x) OVER (PARTITION BY attr1 ORDER BY ts) AS falls FROM events"
    ends = f"SELECT ts AS t1, x, {_NEXT.format(when='falls', value='ts')} AS t3 FROM ({steps})"
    found = f"SELECT t1, t3 FROM ({ends}) WHERE x % 500 = 0 AND t3 < t1 + {workload.window}"
    return found if workload.divided else found.replace("PARTITION BY attr1 ", "")


FORMULATIONS: dict[str, dict[str, Callable[[Workload], str]]] = {
    "keyed": {"spark sql: self-join": lambda workload: _bucketed(workload.window)},
    "next": {"spark sql: window functions": _next},
    "rare": {"spark sql: self-join": lambda workload: _bucketed(workload.window, key="", more="rising")},
    "contiguity": {"spark sql: window functions": _contiguity},
    "strict": {"spark sql: window functions": _contiguity},
    "negation": {"spark sql: join and window function": _negation},
    "many": {
        "spark sql: self-joins": lambda workload: " UNION ALL ".join(
            _bucketed(workload.window, kinds) for kinds in workload.patterns
        )
    },
    "counting": {"spark sql: window functions": counting_sql},
}


def makers(workload: Workload, path: Path, session: Any) -> dict[str, Make]:
    """Kleene on Spark and Spark SQL, over the first events of a file."""

    def frame(events: int) -> Any:
        return session.read.parquet(str(path)).where(f"ts < {events}")

    def sql(events: int, text: str) -> Any:
        return session.sql(text.replace("FROM events", "FROM {events}"), events=frame(events))

    def kleene(events: int) -> Prepared:
        queries = workload.queries()
        if len(queries) == 1:
            (query,) = queries.values()
            columns = [item.alias for item in query.logical.returns]  # as in SQL, without ids
            return query.match(frame(events), columns=columns, **workload.options), lambda: None
        # What queries of a workload find together is kept after the first action: a run must not read what another has found.
        runs = library.workload(queries).run(frame(events), **workload.options)
        found = [runs[name].matches for name in queries]
        return reduce(lambda one, other: one.union(other), found), lambda: [runs[name].unpersist() for name in queries]

    said = partial(answer_of, counted=workload.counted)
    found: dict[str, Make] = {KLEENE: lambda events: to_nowhere(KLEENE, lambda: kleene(events), session, said)}
    for name, text in FORMULATIONS.get(workload.name, {}).items():
        found[name] = lambda events, name=name, text=text: to_nowhere(
            name, lambda: (sql(events, text(workload)), lambda: None), session, said
        )
    return found


def to_nowhere(name: str, prepare: Callable[[], Prepared], session: Any, said: Callable[[Any], Outcome]) -> Contender:
    """Computes a DataFrame into the noop sink, made anew for each run; what it says is looked at in a job of its own, once."""
    cpu, memory = cpu_clock(session), Memory(jvm_of(session))
    known: list[Outcome] = []

    def run() -> Outcome:
        memory.begin()
        wall, used = time.perf_counter(), cpu()
        frame, release = prepare()  # Kleene looks at a part of the events, in jobs that count
        frame.write.format("noop").mode("overwrite").save()
        seconds = {"wall": time.perf_counter() - wall, "cpu": cpu() - used}
        peak = memory.peak()
        if not known:
            known.append(said(frame))
        release()
        return replace(known[0], seconds=seconds, memory=peak)

    return Contender(name, run)


def answer_of(frame: Any, counted: bool) -> Outcome:
    """What a DataFrame of matches, or of counts, says."""
    if counted:
        return Outcome(int(frame.groupBy("attr1").agg({"count": "max"}).groupBy().sum("max(count)").first()[0] or 0))
    product = f"CAST(({FACTOR} + t3) * CAST(t1 AS DECIMAL(18, 0)) + t3 AS DECIMAL(28, 0))"
    row = frame.selectExpr(f"{product} AS part").selectExpr("count(*) AS n", "sum(part) AS digest").first()
    return Outcome(int(row["n"]), {"digest": wrapped(int(row["digest"] or 0))})
