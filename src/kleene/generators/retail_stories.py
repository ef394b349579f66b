"""What can happen to an item in the store: short stories of readings, with the matches each one must give.

Every item lives one story, and the queries compare readings of one item only, so the matches of a day are exactly those of its
stories. A story lists readings with the gap since an earlier reading, and for each of the two queries of SASE'06 the pairs
of readings that match:

- shoplifting (section 2.2.1, Q2): a shelf reading x and an exit reading z less than 12 hours later, no counter reading between;
- misplaced inventory (section 2.3): a shelf reading x and a reading y at another shelf less than an hour later, and after y,
  before the hour since x is over, neither a counter reading nor a reading at x's shelf.

Moving an item *back* is itself a move from one shelf to another, so a put-back item goes to the counter within the hour;
otherwise the way back would be a match. Windows are tested to the microsecond: one inside the limit, one on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

SHOPLIFTING_WINDOW = 12 * HOUR
MISPLACED_WINDOW = HOUR

EVENT_TYPES = ("SHELF-READING", "COUNTER-READING", "EXIT-READING")
SHELF, COUNTER, EXIT = range(3)
HOME, ELSEWHERE, NOWHERE = 0, 1, -1
"""Where a shelf reading is: the item's own shelf, or another one, the same in the whole story. Others are at no shelf."""

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """A reading of the item, between `low` and `high` microseconds (both included) after the story's reading number `since`."""

    type: int
    place: int
    since: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Story:
    """Readings in time order (the first starts the story), and which pairs of them match each query."""

    name: str
    readings: tuple[Reading, ...]
    shoplifting: Pairs = ()
    misplaced: Pairs = ()

    @property
    def longest(self) -> int:
        """The most microseconds from the first to the last reading."""
        ends: list[int] = []
        for reading in self.readings:
            ends.append(reading.high + (ends[reading.since] if ends else 0))
        return ends[-1]


def _reading(type: int, place: int, since: int, low: int, high: int | None = None) -> Reading:
    return Reading(type, place, since, low, low if high is None else high)


_shelf, _elsewhere = partial(_reading, SHELF, HOME), partial(_reading, SHELF, ELSEWHERE)
_counter, _exit = partial(_reading, COUNTER, NOWHERE), partial(_reading, EXIT, NOWHERE)

_PICK = _shelf(0, 0)

PURCHASES = (
    Story("bought", (_PICK, _counter(0, 2 * MINUTE, 40 * MINUTE), _exit(1, 20 * SECOND, 5 * MINUTE))),
    Story(
        "read twice, bought",
        (_PICK, _shelf(0, 5 * MINUTE, 3 * HOUR), _counter(1, 2 * MINUTE, 40 * MINUTE), _exit(2, 20 * SECOND, 5 * MINUTE)),
    ),
    Story(
        "carried past another shelf, bought",
        (
            _PICK,
            _elsewhere(0, 1 * MINUTE, 15 * MINUTE),
            _counter(1, 1 * MINUTE, 30 * MINUTE),
            _exit(2, 20 * SECOND, 5 * MINUTE),
        ),
    ),
)

SHOPLIFTING = (
    Story("stolen", (_PICK, _exit(0, 3 * MINUTE, 90 * MINUTE)), shoplifting=((0, 1),)),
    Story(
        "read twice, stolen",
        (_PICK, _shelf(0, 10 * MINUTE, 2 * HOUR), _exit(1, 3 * MINUTE, 90 * MINUTE)),
        shoplifting=((0, 2), (1, 2)),
    ),
    Story(
        "stolen through two exits",
        (_PICK, _exit(0, 3 * MINUTE, 60 * MINUTE), _exit(1, 10 * SECOND, 60 * SECOND)),
        shoplifting=((0, 1), (0, 2)),
    ),
    Story(
        "bought, returned, stolen",
        (
            _PICK,
            _counter(0, 5 * MINUTE, 30 * MINUTE),
            _shelf(1, 10 * MINUTE, 60 * MINUTE),
            _exit(2, 3 * MINUTE, 60 * MINUTE),
        ),
        shoplifting=((2, 3),),
    ),
    Story(
        "hidden at another shelf, stolen",
        (_PICK, _elsewhere(0, MISPLACED_WINDOW, 2 * HOUR), _exit(1, 3 * MINUTE, 60 * MINUTE)),
        shoplifting=((0, 2), (1, 2)),
    ),
    Story("stolen just within the window", (_PICK, _exit(0, SHOPLIFTING_WINDOW - 1)), shoplifting=((0, 1),)),
)

MISPLACED = (
    Story("misplaced", (_PICK, _elsewhere(0, 2 * MINUTE, 50 * MINUTE)), misplaced=((0, 1),)),
    Story(
        "misplaced, read twice there",
        (_PICK, _elsewhere(0, 2 * MINUTE, 20 * MINUTE), _elsewhere(1, 5 * MINUTE, 30 * MINUTE)),
        misplaced=((0, 1), (0, 2)),
    ),
    Story(
        "read twice, misplaced",
        (_PICK, _shelf(0, 5 * MINUTE, 20 * MINUTE), _elsewhere(1, 2 * MINUTE, 30 * MINUTE)),
        misplaced=((0, 2), (1, 2)),
    ),
    Story(
        "misplaced, put back an hour later",
        (
            _PICK,
            _elsewhere(0, 10 * MINUTE, 20 * MINUTE),
            _shelf(0, MISPLACED_WINDOW),
            _counter(2, 2 * MINUTE, 8 * MINUTE),
            _exit(3, 20 * SECOND, 5 * MINUTE),
        ),
        misplaced=((0, 1),),
    ),
    Story(
        "misplaced, bought an hour later",
        (_PICK, _elsewhere(0, 10 * MINUTE, 20 * MINUTE), _counter(0, MISPLACED_WINDOW), _exit(2, 20 * SECOND, 5 * MINUTE)),
        misplaced=((0, 1),),
    ),
    Story("misplaced just within the window", (_PICK, _elsewhere(0, MISPLACED_WINDOW - 1)), misplaced=((0, 1),)),
)

NEAR_MISSES = (
    Story("taken out after the window", (_PICK, _exit(0, SHOPLIFTING_WINDOW))),
    Story("bought just before the exit", (_PICK, _counter(0, 5 * MINUTE, 60 * MINUTE), _exit(1, 1))),
    Story(
        "moved, put back, bought",
        (
            _PICK,
            _elsewhere(0, 2 * MINUTE, 15 * MINUTE),
            _shelf(1, 2 * MINUTE, 15 * MINUTE),
            _counter(2, 2 * MINUTE, 20 * MINUTE),
            _exit(3, 20 * SECOND, 5 * MINUTE),
        ),
    ),
    Story(
        "moved, bought just within the hour",
        (_PICK, _elsewhere(0, 10 * MINUTE, 50 * MINUTE), _counter(0, MISPLACED_WINDOW - 1), _exit(2, 20 * SECOND, 5 * MINUTE)),
    ),
    Story("moved after the window", (_PICK, _elsewhere(0, MISPLACED_WINDOW))),
)

STORIES = (*PURCHASES, *SHOPLIFTING, *MISPLACED, *NEAR_MISSES)
