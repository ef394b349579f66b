"""What Spark is told of times, and what its watermark says of them."""

from __future__ import annotations

import datetime as dt
from random import Random

import pytest

import kleene
from kleene.common.columns import TIME_LIMIT
from kleene.interfaces.options import options_of
from kleene.runtime.stream.times import MOVED, NEAR, UNMOVED, Clock

LARGEST = ((1 << 63) - 1) // 1_000
"""Milliseconds that Spark can hold as a timestamp."""
RANDOM = Random(11)
INTEGERS = [
    *(
        sign * at + by
        for at in (0, NEAR, TIME_LIMIT - 2, 1_700_000_000_000_000_000)
        for by in (-2, -1, 0, 1, 2)
        for sign in (-1, 1)
    ),
    *(RANDOM.randint(-TIME_LIMIT, TIME_LIMIT) >> RANDOM.randint(0, 60) for _ in range(2_000)),
]


def test_no_integer_is_told_as_what_spark_cannot_hold_and_none_changes_its_place() -> None:
    """The first watermark that is not before an integer is not; the one before it is."""
    clock = Clock(None)
    told = [clock.told(at) for at in sorted(INTEGERS)]
    assert told == sorted(told)
    for at, known in zip(sorted(INTEGERS), told, strict=True):
        assert 0 < known <= LARGEST
        after, before = clock.time_of(known), clock.time_of(known - 1)
        assert after is not None
        assert before is not None
        assert before < at <= after
        if abs(at) < NEAR:
            assert after == at
        assert after - at < 1 << 16


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_timestamps_are_told_as_milliseconds_four_thousand_years_later(unit: str) -> None:
    clock, own = Clock(unit), Clock(unit, moves=False)
    factor = {"us": 1_000, "ns": 1_000_000}[unit]
    assert int((dt.datetime(6000, 3, 2) - dt.datetime(2000, 3, 2)).total_seconds() * 1_000) == MOVED  # noqa: DTZ001
    for at in (-62_135_596_800_000, -1, 0, 1, 1_700_000_000_000, 253_402_300_799_999):
        assert clock.told(at * factor) == at + MOVED
        assert clock.told(at * factor - 1) == at + MOVED
        assert clock.told(at * factor + 1) == at + MOVED + 1
        assert clock.time_of(at + MOVED) == at * factor
        assert own.told(at * factor) == at
        assert own.time_of(at) == (at * factor if at > 0 else None)


@pytest.mark.parametrize(("unit", "factor"), [("us", 1_000), (None, 1)])
def test_a_watermark_from_before_times_were_moved_stands_for_itself(unit: str | None, factor: int) -> None:
    """Also that of a stream whose delay is longer than all of its time."""
    clock = Clock(unit)
    assert clock.time_of(0) is None
    for known in (1, 1_700_000_000_000, UNMOVED - 1):
        assert clock.time_of(known) == known * factor


def test_watermarks_are_shown_as_times() -> None:
    assert Clock("us").text(1_704_067_200_000_000) == "2024-01-01T00:00:00.000Z"
    assert Clock("us").text(1 << 61) == f"{(1 << 61) // 1_000} ms"
    assert Clock(None).text(-7) == "-7"
    assert Clock("us").lag(5_000_000, 7_000) == 2_000
    assert Clock(None).lag(5, 7_000) is None


@pytest.mark.parametrize("given", ["1 day", "24 hours", "86400 s", dt.timedelta(days=1)])
def test_max_ahead_is_a_length_of_time(given: str | dt.timedelta) -> None:
    assert options_of({"time": "ts", "max_ahead": given}).max_ahead == dt.timedelta(days=1)


@pytest.mark.parametrize("given", ["a day", "5", "5 events", "-1 day", "1 day; drop", dt.timedelta(seconds=-1), 5])
def test_what_is_no_length_of_time_is_refused(given: object) -> None:
    with pytest.raises(kleene.BindingError, match=r"max_ahead cannot be .*\n.*max_ahead='1 day'"):
        options_of({"time": "ts", "max_ahead": given})
