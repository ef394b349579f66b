"""Event times for Spark's watermark: shifted to be positive.

Spark's watermark is a number of milliseconds that begins at 0, and never moves while all times are before 1970. So Spark
receives the time plus a constant. For timestamps that is 4,000 years, ten cycles of the calendar: what Spark itself reports of
event time is right but for the year. Integers count as milliseconds; those far from zero, such as nanoseconds since 1970, are
passed in steps of 65,536, so that the whole range of a table fits. A watermark is never rounded up.

Checkpoints from before times were moved have a watermark without the constant. Shifted times are never as small, so the
value shows which it is.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

MOVED = 10 * 146_097 * 86_400_000
"""4,000 years in milliseconds."""
UNMOVED = 1_030 * 365 * 86_400_000
"""A watermark of timestamps before this, in the year 2999, is one without the constant."""
EARLIEST = -62_135_596_800_000_000
"""The first timestamp of the year 1, in microseconds."""

NEAR = 1 << 51
"""Integers nearer to zero than this are told exactly..."""
STEP_BITS = 16
"""...and others in steps of two to this power."""
MIDDLE = 3 * NEAR
"""The shifted value of zero."""
FARTHEST = (1 << 63) >> STEP_BITS

LAST_TIMER = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Clock:
    """The event times passed to Spark."""

    unit: str | None
    """"us" or "ns"; None for integers."""
    moves: bool = True
    """Whether by the constant; not where the user gave the DataFrame a watermark of its own."""

    def time_of(self, known: int) -> int | None:
        """The time that Spark's watermark stands for, in the unit of the events' time.

        >>> Clock("us").time_of(MOVED - 1), Clock("us").time_of(1_000), Clock(None).time_of(MIDDLE - 7), Clock(None).time_of(0)
        (-1000, 1000000, -7, None)
        """
        if known <= 0:
            return None
        if self.unit is None:
            return known if known < MIDDLE - NEAR - FARTHEST else _untold(known - MIDDLE)
        return (known - (MOVED if self.moves and known >= UNMOVED else 0)) * self._per_millisecond

    def told(self, due: int) -> int:
        """The first watermark of Spark that is not before a time.

        >>> Clock("us").told(-1_999) - MOVED, Clock("us", moves=False).told(1_001), Clock(None).told(-5) - MIDDLE
        (-1, 2, -5)
        """
        if self.unit is not None:
            return min(-(-due // self._per_millisecond) + (MOVED if self.moves else 0), LAST_TIMER)
        told = _told(due)
        return min(told + MIDDLE + (_untold(told) < due), LAST_TIMER)

    @property
    def _per_millisecond(self) -> int:
        return {"us": 1_000, "ns": 1_000_000}[self.unit or ""]

    def lag(self, time: int, now: int) -> int | None:
        """How far a time is behind the clock, in milliseconds; None of integers, which are not told by a clock."""
        return None if self.unit is None else now - time // self._per_millisecond

    def text(self, time: int) -> str:
        """A time as Spark writes it in a progress; an integer as it is.

        >>> Clock("us").text(-1_500), Clock(None).text(-5)
        ('1969-12-31T23:59:59.998Z', '-5')
        """
        if self.unit is None:
            return str(time)
        milliseconds = time // self._per_millisecond
        try:
            moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=milliseconds)
        except OverflowError:
            return f"{milliseconds} ms"
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _told(time: int) -> int:
    """The shifted value of an integer, minus the middle: rounded down if it is far from zero."""
    if -NEAR <= time < NEAR:
        return time
    return NEAR + ((time - NEAR) >> STEP_BITS) if time > 0 else -NEAR + ((time + NEAR) >> STEP_BITS)


def _untold(told: int) -> int:
    """The least integer with this shifted value."""
    if -NEAR <= told < NEAR:
        return told
    return NEAR + ((told - NEAR) << STEP_BITS) if told > 0 else -NEAR + ((told + NEAR) << STEP_BITS)
