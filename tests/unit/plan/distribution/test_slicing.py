"""Where time is cut for counters: each slice has what its instants need, and few events go to several."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import kleene
from kleene.interfaces.options import options_of
from kleene.plan.contract import Plan
from kleene.plan.distribution.slicing import Slice, summarized_slices

EVENTS = pa.schema({"ts": pa.int64(), "type": pa.string()})


def plan_of(text: str) -> Plan:
    return kleene.query(text).plan_for(EVENTS, options_of({"time": "ts", "type": "type"}))


def slices_of(plan: Plan, first: int, last: int, cuts: Sequence[int]) -> tuple[Slice, ...]:
    return summarized_slices(cuts, first, last, plan.window, on_change=plan.bound.query.emit_on_change)


def summarized(slices: Sequence[Slice]) -> bool:
    return any(part.between for part in slices)


@pytest.mark.parametrize("on_change", [False, True], ids=["triggers", "change"])
def test_a_slice_has_what_its_instants_need(on_change: bool) -> None:
    """By the definition: what expires while a slice lasts leads, what outlives it is summarized, what is gone is not needed."""
    rng = Random(5)
    for _ in range(300):
        window, last = rng.randint(1, 50), rng.randint(1, 60)
        plan = plan_of(f"PATTERN SEQ(A a, B b) WITHIN {window} AGG COUNT{' EMIT ON CHANGE' if on_change else ''}")
        slices = slices_of(plan, 0, last, tuple(rng.randint(0, last) for _ in range(rng.randint(0, 9))))
        for part in slices:
            instants = range(max(part.since, -1), min(part.until, last + window + 2))
            for start in () if part.closed else range(part.since):
                needed = [now for now in instants if (start + window >= now if on_change else start + window > now)]
                expires = any(start + window <= now for now in instants)
                place = next(item.number for item in slices if item.since <= start < item.until)
                leads = part.low <= start < part.high
                assert (place in part.between) <= (bool(needed) and not expires)
                assert leads or place in part.between or not needed


def test_slices_cover_all_of_time_and_share_few_events() -> None:
    rng = Random(6)
    for _ in range(200):
        cuts = tuple(rng.randint(0, 1000) for _ in range(rng.randint(1, 40)))
        window = rng.randint(1, 1500)
        slices = slices_of(plan_of(f"PATTERN SEQ(A a, B b) WITHIN {window} AGG COUNT EMIT ON CHANGE"), 0, 1000, cuts)
        assert [part.until for part in slices[:-1]] == [part.since for part in slices[1:]]
        assert (slices[0].since, slices[-1].until) == (np.iinfo(np.int64).min, np.iinfo(np.int64).max)
        assert sum(one.since < part.high and one.until > part.low for part in slices for one in slices) <= 2 * len(slices)


def test_without_a_window_everything_before_is_summarized() -> None:
    slices = slices_of(plan_of("PATTERN SEQ(A a, B b) AGG COUNT"), 0, 9, (3, 7, 7))
    assert [(part.has_lead, part.between) for part in slices] == [(False, range(i)) for i in range(3)]


def test_a_short_window_needs_no_summary() -> None:
    slices = slices_of(plan_of("PATTERN SEQ(A a, B b) WITHIN 5 AGG COUNT"), 0, 99, (25, 50, 75))
    assert not summarized(slices)
    assert slices[3] == Slice(3, 50, 75, 46, 50, range(3, 3))
