"""What a task does for its slice of time: one stream that nothing divides, matched or counted by any number of tasks.

The task of a slice starts as a stream does after a restart: from its lead, the events before the slice that its rows may still
depend on. It goes through its own events, up to where the next slice begins. A row is reported when it is certain: by the event
that completes a match, or where the end is negated when its window has passed. That is in one slice, so each is reported once.

Two hooks, for what no lead tells:

- a *summary before*: counters without a window, or with a long one, start from summaries of earlier slices
  (`kleene.engine.counting.summaries`);
- a *merge after*, one pass over what all tasks give: under NON-OVERLAP slices give candidates, among which it chooses
  (`kleene.engine.matches.candidates`); tasks that count partitions give changes, which it adds up
  (`kleene.engine.counting.partial_totals`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from kleene.common.columns import time_values
from kleene.common.errors import DataError, Problem
from kleene.common.schema import EventSchema
from kleene.engine.build import build_matcher, output_schema
from kleene.engine.counting.partial_totals import ChangeMatcher, added_up, change_schema
from kleene.engine.counting.summaries import summary_of
from kleene.engine.matcher import Matcher
from kleene.engine.matches.candidates import candidate_schema, chosen, order_of
from kleene.engine.passes.reporting import PatternMatcher
from kleene.plan.contract import Plan
from kleene.plan.counting.counters import is_counted
from kleene.plan.distribution.slicing import Slice

NOTHING: Mapping[int, bytes] = {}


# --- a slice ----------------------------------------------------------------------------------------------------------


def slice_matcher(plan: Plan, events: pa.Schema, **tuning: Any) -> Matcher:
    """A matcher for a slice; `tuning` is that of `build_matcher`."""
    matcher = build_matcher(plan, events, **tuning)
    if plan.needs_choice:
        assert isinstance(matcher, PatternMatcher)
        matcher.give_candidates(events)
    return matcher


def match_slice(
    plan: Plan,
    events: pa.Table,
    part: Slice,
    summaries: Mapping[int, bytes] = NOTHING,
    *,
    columns: Sequence[str] = (),
    **tuning: Any,
) -> Iterator[pa.RecordBatch]:
    """The rows of a slice, of its lead and its own events in stream order, with the columns that are wanted or with all.

    Candidates have all columns, as those who choose need some of them. `summaries` are those of other slices, by number.
    """
    if part.closed and events.num_rows:
        message = "the DataFrame has later events than when it was read first"
        raise DataError(Problem(message, hint="match it again, or cache it before"))
    if part.between:
        tuning["summaries"] = [summaries[number] for number in part.between if number in summaries]
    matcher = slice_matcher(plan, events.schema, **tuning)
    wanted = list(columns) if columns and not plan.needs_choice else matcher.output_schemas[0].names
    if not plan.needs_choice:
        matcher.compute_only(wanted)
    lead, own = divided(events, plan.bound.schema, part)
    begin(plan, matcher, lead, part)
    for batch in own.to_batches():
        yield from (rows.select(wanted) for _, rows in matcher.feed(batch))
    yield from (rows.select(wanted) for _, rows in matcher.advance(part.until))


def divided(events: pa.Table, schema: EventSchema, part: Slice) -> tuple[pa.Table, pa.Table]:
    """The lead of a slice and its own events, of events in stream order; rows without a time are of the first slice."""
    if not (part.has_lead or part.between):
        return events.slice(0, 0), events
    ts = time_values(events.column(schema.time).combine_chunks(), schema.time_unit)
    low, high, since = np.searchsorted(ts, [part.low, part.high, part.since]).tolist()
    return events.slice(low, high - low).combine_chunks(), events.slice(since)


def begin(plan: Plan, matcher: Matcher, lead: pa.Table, part: Slice) -> None:
    """Brings a matcher of a plan (or of several) to where its slice begins."""
    if not (part.has_lead or part.between):
        return
    if plan.kind != "matches":
        matcher.restore(lead.to_batches(), part.since, part.low - 1, {})
        return
    for batch in lead.to_batches():
        for _ in matcher.feed(batch):
            pass  # a row of an earlier slice
    for _ in matcher.advance(part.since):
        pass


# --- before and after -------------------------------------------------------------------------------------------------


def summarize_slice(plan: Plan, events: pa.Table, part: Slice) -> bytes | None:
    """The summary of the events of a slice for later ones; None if there are none."""
    assert is_counted(plan)
    own = divided(events, plan.bound.schema, part)[1]
    timed = own.filter(own.column(plan.bound.schema.time).is_valid())
    return summary_of(plan, timed.to_batches())


@dataclass(frozen=True, slots=True)
class Merge:
    """One pass over what all tasks give, sorted."""

    schema: pa.Schema
    """The columns that tasks give."""
    order: tuple[str, ...]
    """What they are sorted by, NULL first."""
    rows: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def choice(plan: Plan, events: pa.Schema, columns: Sequence[str]) -> Merge | None:
    """The merge of a plan's slices, which gives these columns of matches; None where slices just give their rows."""
    if not plan.needs_choice:
        return None
    choose = partial(chosen, schema=plan.bound.schema, partition=plan.partition, columns=columns)
    schema = candidate_schema(output_schema(plan, events), events, plan.partition)
    return Merge(schema, tuple(order_of(plan.partition)), choose)


# --- partitions instead of slices -------------------------------------------------------------------------------------


def count_partitions(plan: Plan, events: Iterator[pa.RecordBatch], **tuning: Any) -> Iterator[pa.RecordBatch]:
    """How the total of the partitions of a task changes, whose events come in stream order."""
    first = next(events, None)
    if first is not None:
        assert is_counted(plan)
        matcher = ChangeMatcher(plan, first.schema, **tuning)
        for batch in chain([first], events):
            yield from (rows for _, rows in matcher.feed(batch))
        yield from (rows for _, rows in matcher.finish())


def totals(plan: Plan, events: pa.Schema) -> Merge:
    """The merge of tasks that count partitions, each change with the number of its `task`."""
    assert is_counted(plan)
    schema = change_schema(plan, events)
    places = [name for name in schema.names if name.startswith("o")]
    return Merge(schema, ("at", "turn", *places), partial(added_up, plan, events))
