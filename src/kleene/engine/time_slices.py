"""Matches in slices of time: one stream that nothing divides, matched by any number of tasks.

Time is cut into contiguous slices. The task of a slice goes on as a stream does after a restart: from the events before it that
a match may still reach back to, which are its *lead*, through its own, up to where the next slice begins. A match is reported
when it is certain: by the event that completes it, or where the end is negated when its window has passed. That is in one
slice, so each match is reported once.

NON-OVERLAP depends on all that came before. There slices give candidates, and one pass over these chooses
(`kleene.engine.matches.candidates`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kleene.common.columns import time_values
from kleene.common.schema import EventSchema
from kleene.engine.build import build_matcher
from kleene.engine.counting.counters import EVER, LONG_AGO
from kleene.engine.counting.slices import Slice
from kleene.engine.matcher import Matcher
from kleene.engine.passes.reporting import PatternMatcher
from kleene.plan.contract import Plan


@dataclass(frozen=True, slots=True)
class Lead:
    """What a slice needs of the events before it: those of so many instants, or so many events."""

    instants: int | None = None
    events: int | None = None


def lead_of(plan: Plan) -> Lead:
    """What slices of a plan need of the events before them."""
    bound = plan.bound
    if bound.count_window is not None:
        return Lead(events=bound.count_window)
    return Lead(instants=plan.reach)


def needs_choice(plan: Plan) -> bool:
    """Whether slices give candidates, among which one more pass chooses."""
    return plan.needs_choice


def time_slices(cuts: Sequence[int], leads: Sequence[int]) -> tuple[Slice, ...]:
    """The slices that begin at some instants, ascending, and one before all; `leads` are the instants from which on each needs
    the events before it.

    >>> [(item.since, item.horizon, item.leading) for item in time_slices([100, 200], [90, 50])][1:]
    [(100, 90, range(0, 1)), (200, 50, range(0, 2))]
    """
    begins = [LONG_AGO, *cuts]
    spans = list(zip(begins, [*begins[1:], EVER], [LONG_AGO, *leads], strict=True))
    found = []
    for number, (since, until, low) in enumerate(spans):
        first = next(i for i, (_, end, _) in enumerate(spans) if end > low)
        found.append(Slice(number, since, until, low, range(first, number), range(0)))
    return tuple(found)


def slice_matcher(plan: Plan, events: pa.Schema, *, bad_rows: str = "error", **tuning: Any) -> Matcher:
    """A matcher for a slice."""
    matcher = build_matcher(plan, events, bad_rows=bad_rows, **tuning)
    if needs_choice(plan):
        assert isinstance(matcher, PatternMatcher)
        matcher.give_candidates(events)
    return matcher


def match_slice(
    plan: Plan, events: pa.Table, part: Slice, columns: Sequence[str] = (), **options: Any
) -> Iterator[pa.RecordBatch]:
    """The matches of a slice, of its lead and its own events in stream order, with the columns that are wanted or with all.

    Candidates have all columns, as those who choose need some of them; `options` are those of `slice_matcher`.
    """
    matcher = slice_matcher(plan, events.schema, **options)
    if columns and not needs_choice(plan):
        matcher.compute_only(columns)
    if part.leading:
        lead, events = divided(events, plan.bound.schema, part.horizon, part.since)
        go_on(plan, matcher, lead.to_batches(), part.horizon, part.since)
    for batch in events.to_batches():
        yield from (rows for _, rows in matcher.feed(batch))
    yield from (rows for _, rows in matcher.advance(part.until))


def divided(events: pa.Table, schema: EventSchema, horizon: int, since: int) -> tuple[pa.Table, pa.Table]:
    """The lead of a slice, from its horizon on, and the events of its own, in stream order."""
    ts = time_values(events.column(schema.time).combine_chunks(), schema.time_unit)
    low, high = np.searchsorted(ts, [horizon, since], side="left").tolist()
    return events.slice(low, high - low).combine_chunks(), events.slice(high)


def go_on(plan: Plan, matcher: Matcher, lead: Iterable[pa.RecordBatch], horizon: int, since: int) -> None:
    """Brings a matcher of a plan (or of several) to where its slice begins."""
    if plan.kind != "matches":
        matcher.restore(lead, since, horizon - 1, {})
        return
    for batch in lead:
        for _ in matcher.feed(batch):
            pass  # rows of earlier slices
    for _ in matcher.advance(since):
        pass
