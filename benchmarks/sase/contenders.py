"""Kleene as a contender: whole runs, and runs that stop after construction."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa

from benchmarks.harness import Contender, Outcome
from kleene import Query
from kleene.interfaces.options import options_of
from kleene.runtime.embedded import run_embedded

WORK = ("relevant", "instances", "visits", "sequences", "matches")


def kleene(name: str, query: Query, table: pa.Table, *, plan: dict[str, Any] | None = None, discard: bool = False) -> Contender:
    """A run of the query over a table in memory; with `discard` matches are found but not written.

    Kleene has no COUNT yet, so `discard` stands for it: every match is constructed, none becomes a row.
    """
    options = options_of({"time": "ts", "type": "type", "plan": plan})
    schema = query.plan_for(table.schema, options).bound.schema

    def run() -> Outcome:
        matcher = query.matcher(table.schema, options)
        if discard:
            discard_matches(matcher)
        done = run_embedded(matcher, table, schema)
        counted = dataclasses.asdict(done.metrics)
        return Outcome(done.metrics.matches, {key: counted[key] for key in WORK})

    return Contender(name, run)


class _Discard:
    """A match writer that writes nothing."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._empty = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)

    def write(self, *_: object) -> pa.RecordBatch:
        return self._empty


def discard_matches(matcher: Any) -> None:
    """Lets a matcher find matches without writing any."""
    # The one place that reaches into the engine: there is no other way yet to construct without writing.
    assert hasattr(matcher, "_writer"), "the sequence matcher's writer was renamed: adapt benchmarks/sase/contenders.py"
    matcher._writer = _Discard(matcher.output_schemas[0])  # noqa: SLF001
