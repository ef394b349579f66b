"""Events within a window and around each other, by their places: partition by partition (segments), in stream order in each.

Tables (`bounds`, filled by `prepare`) say by place what an event allows the others to be, at some 10 ns an event; where there
are none, the same is found by searching.
"""

from __future__ import annotations

from kleene.common.arrays import Array
from kleene.engine.kernels import inlined, kernel

AFTER, BEFORE, LOW, HIGH = range(4)
"""Rows of `bounds`, places of the same segment: the first that follows an event, the first that is simultaneous with it, the
first in its window, the end of its window.
"""


BOUNDS = 4


@kernel
def prepare(offsets: Array, clock: Array, rank: Array, window: int, bounds: Array) -> None:
    """Fills `bounds` for all places: worth it where most events will be bound."""
    for segment in range(offsets.size - 1):
        begin, end = offsets[segment], offsets[segment + 1]
        low = begin
        for place in range(begin, end):
            while clock[place] - clock[low] >= window:
                bounds[HIGH, low] = place
                low += 1
            bounds[LOW, place] = low
            same = place > begin and rank[place - 1] == rank[place]
            bounds[BEFORE, place] = bounds[BEFORE, place - 1] if same else place
        for place in range(low, end):
            bounds[HIGH, place] = end
        for place in range(end - 1, begin - 1, -1):
            same = place + 1 < end and rank[place + 1] == rank[place]
            bounds[AFTER, place] = bounds[AFTER, place + 1] if same else place + 1


@inlined
def first_in_window(place: int, begin: int, clock: Array, window: int, bounds: Array) -> int:
    if bounds.shape[1]:
        return int(bounds[LOW, place])
    low = place
    step = 1
    while low - step >= begin and clock[place] - clock[low - step] < window:
        low -= step
        step *= 2
    while step:
        if low - step >= begin and clock[place] - clock[low - step] < window:
            low -= step
        step //= 2
    return low


@inlined
def end_of_window(place: int, end: int, clock: Array, window: int, bounds: Array) -> int:
    if bounds.shape[1]:
        return int(bounds[HIGH, place])
    high = place
    step = 1
    while high + step < end and clock[high + step] - clock[place] < window:
        high += step
        step *= 2
    while step:
        if high + step < end and clock[high + step] - clock[place] < window:
            high += step
        step //= 2
    return high + 1


@inlined
def first_after(place: int, end: int, rank: Array, bounds: Array) -> int:
    if bounds.shape[1]:
        return int(bounds[AFTER, place])
    following = place + 1
    while following < end and rank[following] == rank[place]:
        following += 1
    return following


@inlined
def end_before(place: int, begin: int, rank: Array, bounds: Array) -> int:
    if bounds.shape[1]:
        return int(bounds[BEFORE, place])
    first = place
    while first > begin and rank[first - 1] == rank[place]:
        first -= 1
    return first


@kernel
def ask(offsets: Array, order: Array, first_row: int, last_row: int, asked: Array) -> None:
    """Asks for the matches that end with one of the rows from `first_row` to before `last_row`.

    `asked[:, segment]` are the first place of a segment that a match may end with, and the end of those.
    """
    for segment in range(offsets.size - 1):
        begin, end = offsets[segment], offsets[segment + 1]
        for side in range(2):
            row = last_row if side else first_row
            low = begin
            high = end
            while low < high:
                middle = (low + high) >> 1
                if order[middle] < row:
                    low = middle + 1
                else:
                    high = middle
            asked[side, segment] = low


@kernel
def number_segments(offsets: Array, segments: Array) -> None:
    """Writes the segment of each place."""
    for segment in range(offsets.size - 1):
        for place in range(offsets[segment], offsets[segment + 1]):
            segments[place] = segment


@kernel
def widest(ts: Array, window: int) -> int:
    """The most events in one window."""
    low = 0
    most = 0
    for row in range(ts.size):
        while ts[row] - ts[low] >= window:
            low += 1
        most = max(most, row - low + 1)
    return most


@kernel
def is_wider(offsets: Array, clock: Array, window: int, most: int) -> bool:
    """Whether some window has more than `most` events of one segment."""
    for segment in range(offsets.size - 1):
        wider = False
        for place in range(offsets[segment], offsets[segment + 1] - most):
            wider |= clock[place + most] - clock[place] < window
        if wider:
            return True
    return False
