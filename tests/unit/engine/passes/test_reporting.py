"""When matches are certain, and how long events are kept for them: a watermark W, a window of 10."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kleene.common.schema import schema_of_arrow
from kleene.engine.matches.matches import Matches
from kleene.engine.passes.reporting import Due
from kleene.language.parser import parse
from kleene.pattern.bind import bind
from kleene.plan.optimizer import make_plan

SCHEMA = schema_of_arrow(pa.schema([("ts", pa.int64()), ("type", pa.string())]), time="ts", type="type")
PLAIN = "PATTERN SEQ(A a, B b) WITHIN 10"
NEGATED_END = "PATTERN SEQ(A a, B b, !(N n)) WITHIN 10"
NEGATED_START = "PATTERN SEQ(!(N n), A a, B b) WITHIN 10"
NEGATED_ENDS = "PATTERN SEQ(!(N n), A a, B b, !(M m)) WITHIN 10"
INSIDE = "PATTERN SEQ(A a, !(N n), B b) WITHIN 10"
UNBOUNDED = "PATTERN SEQ(A a, B b)"
APART = " OUTPUT NON-OVERLAP"


def due(text: str) -> Due:
    return Due.of(make_plan(bind(parse(text), SCHEMA)))


@pytest.mark.parametrize(
    ("text", "window", "postponed", "negated_start", "non_overlap"),
    [
        (PLAIN, 10, False, False, False),
        (INSIDE, 10, False, False, False),
        (NEGATED_END, 10, True, False, False),
        (NEGATED_START, 10, False, True, False),
        (NEGATED_ENDS, 10, True, True, False),
        (PLAIN + APART, 10, False, False, True),
        (UNBOUNDED, None, False, False, False),
    ],
)
def test_what_a_plan_says(text: str, window: int | None, postponed: bool, negated_start: bool, non_overlap: bool) -> None:
    assert due(text) == Due(window, postponed, negated_start, non_overlap)


@pytest.mark.parametrize(
    ("text", "earliest", "horizon"),
    [
        (PLAIN, 20, 90),  # a match that ends after 100 begins after 90
        (PLAIN, 95, 94),  # nor does any begin before 95
        (PLAIN, None, 99),  # none has begun
        (PLAIN, 120, 99),  # an event at the watermark may still come
        (UNBOUNDED, 20, 19),
        (UNBOUNDED, None, 99),
        (NEGATED_END, 95, 90),  # what begins at 91 may be forbidden until 101
        (NEGATED_START, 95, 90),  # what ends at 101 may be forbidden from 91 on
        (NEGATED_ENDS, 95, 80),  # what begins at 91 is due at 101, and may be forbidden from a window before on
        (NEGATED_END + APART, 95, 80),
        (NEGATED_START + APART, 95, 90),
    ],
)
def test_events_up_to_the_horizon_are_forgotten(text: str, earliest: int | None, horizon: int) -> None:
    assert due(text).horizon(100, earliest) == horizon


TIMES = np.array([0, 4, 5, 9])
MATCHES = Matches.of_sequences(["a", "b"], np.array([[0, 1, 1], [1, 2, 3]]))
"""From 0 to 4, from 4 to 5 and from 4 to 9: their windows pass at 10, 14 and 14."""


def reported(text: str, watermark: int | None, before: int | None) -> list[tuple[int, int]]:
    """The matches, as the times of their first and last events."""
    found = due(text).by(watermark, before, MATCHES, TIMES)
    return list(zip(TIMES[found.first].tolist(), TIMES[found.last].tolist(), strict=True))


def test_a_match_whose_end_is_not_negated_is_due_at_once() -> None:
    assert due(PLAIN).by(0, None, MATCHES, TIMES) is MATCHES


def test_one_with_a_negated_end_is_due_when_its_window_has_passed_and_only_once() -> None:
    assert reported(NEGATED_END, 9, None) == []
    assert reported(NEGATED_END, 10, 9) == [(0, 4)]
    assert reported(NEGATED_END, 13, 10) == []
    assert reported(NEGATED_END, 14, 10) == [(4, 5), (4, 9)]


def test_at_the_end_of_time_all_are_due_that_have_not_been_reported() -> None:
    assert reported(NEGATED_END, None, None) == [(0, 4), (4, 5), (4, 9)]
    assert reported(NEGATED_END, None, 10) == [(4, 5), (4, 9)]


def test_under_non_overlap_a_window_after_the_last_event() -> None:
    assert reported(NEGATED_END + APART, 14, None) == [(0, 4)]
    assert reported(NEGATED_END + APART, 15, 14) == [(4, 5)]
    assert reported(NEGATED_END + APART, 19, 15) == [(4, 9)]
