"""A bucket of a stream of rules without Spark, as the stateful operator has it: micro-batches, restarts and replays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pyarrow as pa

from kleene.common.schema import schema_of_arrow
from kleene.interfaces.composition.shared import multi_options_of
from kleene.interfaces.functions import functions_of
from kleene.interfaces.options import options_of
from kleene.interfaces.rules import RuleCompiler
from kleene.interfaces.streams import failing_of
from kleene.runtime.rules.snapshot import Rules, Seen, rules_after
from kleene.runtime.stream.bucket import MATCHES, PROBLEM, BucketPlan, Labelled
from kleene.runtime.stream.plan import Distribution, StreamPlan
from kleene.runtime.units import QuerySet
from support.stream_runs import Drive, Step, Way

OPTIONS = {"time": "ts", "type": "type"}


def rules_plan(events: pa.Schema, functions: Mapping[str, Any] | None = None, **options: Any) -> BucketPlan:
    """The one bucket of a stream of rules."""
    given, multi = multi_options_of(options_of({**OPTIONS, **options}))
    described = schema_of_arrow(events, time=given.time, type=given.type, order_by=given.order_by)
    compile = RuleCompiler(events, given, multi, functions_of(functions))
    over = (Distribution(given.partition_by, QuerySet((), multi), (0,)),)
    failing = failing_of(given, "suspend")
    stream = StreamPlan(described, events, events, over, "quarantine", given.max_events, compile=compile, **failing)
    return stream.bucket_plans()[0]


class Book:
    """Rules as they change, as snapshots."""

    def __init__(self) -> None:
        self._rules = Rules()

    def write(self, texts: Mapping[str, str], paused: Sequence[str] = ()) -> str:
        """The snapshot after these are all the rules that there are."""
        self._rules = rules_after(self._rules, Seen({name: (text, name in paused) for name, text in texts.items()}))
        return json.dumps(self._rules.as_dict())


def driven(plan: BucketPlan, events: pa.Table, steps: Sequence[Step], seed: int | None = None) -> list[tuple[int, Labelled]]:
    """What leaves, with the number of the step; with a seed the bucket is restarted and micro-batches are replayed."""
    way = Way(Random(seed), 0.0, 0.0) if seed is None else Way(Random(seed), 0.4, 0.4)
    return Drive(plan, events, way).run(steps)


def rows_of(left: Sequence[tuple[int, Labelled]], names: Sequence[str] = ()) -> list[str]:
    """The matches of some rules, or all, to compare."""
    items = [(step, item) for step, item in left if item.kind == MATCHES and (not names or item.query in names)]
    return sorted(f"{step} {item.query} {item.version} {row}" for step, item in items for row in item.rows.to_pylist())


def problems_of(left: Sequence[tuple[int, Labelled]]) -> list[tuple[int, str, int, str]]:
    """The problems: step, rule, version, text."""
    rows = [(step, row) for step, item in left if item.kind == PROBLEM for row in item.rows.to_pylist()]
    return [(step, row["query"], row["query_version"], row["problem"]) for step, row in rows]
