"""Units of time in words, and durations as text: exact, in microseconds, never through floats."""

from __future__ import annotations

import datetime as dt
import re
from fractions import Fraction

from kleene.pattern.policies import Unit, Window

_SPELLINGS: dict[Unit, tuple[str, ...]] = {
    Unit.MICROSECONDS: ("microseconds", "microsecond", "us", "µs", "μs"),
    Unit.MILLISECONDS: ("milliseconds", "millisecond", "millis", "ms"),
    Unit.SECONDS: ("seconds", "second", "secs", "sec", "s"),
    Unit.MINUTES: ("minutes", "minute", "mins", "min", "m"),
    Unit.HOURS: ("hours", "hour", "hrs", "hr", "h"),
    Unit.DAYS: ("days", "day", "d"),
    Unit.WEEKS: ("weeks", "week", "w"),
    Unit.EVENTS: ("events", "event"),
}
UNIT_WORDS: dict[str, Unit] = {word: unit for unit, words in _SPELLINGS.items() for word in words}
LONG_UNIT_WORDS: tuple[str, ...] = tuple(unit.word for unit in _SPELLINGS)
"""Unit words for hints."""

_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([^\W\d]+)\s*")
_MICROSECOND = dt.timedelta(microseconds=1)
_FALLING = (Unit.DAYS, Unit.HOURS, Unit.MINUTES, Unit.SECONDS, Unit.MILLISECONDS, Unit.MICROSECONDS)


def unit_of(word: str) -> Unit | None:
    """The unit that a word names, in any case; None if it names none.

    >>> unit_of("Hrs")
    <Unit.HOURS: ('hours', 3600000000)>
    """
    return UNIT_WORDS.get(word) or UNIT_WORDS.get(word.casefold())


def microseconds_of(duration: dt.timedelta) -> int:
    """A duration in whole microseconds, exactly.

    >>> microseconds_of(dt.timedelta(seconds=2))
    2000000
    """
    return duration // _MICROSECOND


def window_of(microseconds: Fraction) -> Window:
    """A window of a length in microseconds, in the largest unit that divides it; weeks are written as days.

    >>> window_of(Fraction(90 * 60 * 10**6))
    Window(amount=90, unit=<Unit.MINUTES: ('minutes', 60000000)>)
    """
    if microseconds.denominator != 1:
        return Window(microseconds, Unit.MICROSECONDS)
    amount, unit = _whole_units(int(microseconds))
    return Window(amount, unit)


def duration_of(amount: int | Fraction, unit: Unit) -> dt.timedelta:
    """The duration of an amount of a unit; ValueError if it is finer than a microsecond or too long.

    >>> duration_of(Fraction(3, 2), Unit.HOURS)
    datetime.timedelta(seconds=5400)
    """
    if unit.microseconds is None:
        raise ValueError(f"'{unit.word}' is not a unit of time")
    total = Fraction(amount) * unit.microseconds
    if total.denominator != 1:
        raise ValueError("durations have a precision of one microsecond")
    try:
        return dt.timedelta(microseconds=int(total))
    except OverflowError:
        raise ValueError("the duration is too long") from None


def timedelta_of(given: str | dt.timedelta) -> dt.timedelta:
    """A duration given by a user, as text or as a timedelta; ValueError if it is invalid or negative.

    >>> timedelta_of("90 min")
    datetime.timedelta(seconds=5400)
    """
    if not isinstance(given, dt.timedelta):
        found = _AMOUNT.fullmatch(str(given))
        unit = unit_of(found[2]) if found else None
        if found is None or unit is None:
            raise ValueError("it is not a number with a unit of time")
        given = duration_of(Fraction(found[1]), unit)
    if given < dt.timedelta(0):
        raise ValueError("it is negative")
    return given


def duration_text(duration: dt.timedelta) -> str:
    """A duration as the language writes it.

    >>> duration_text(dt.timedelta(hours=36))
    '36 hours'
    """
    amount, unit = _whole_units(microseconds_of(duration))
    return f"{amount} {unit.word}"


def _whole_units(microseconds: int) -> tuple[int, Unit]:
    if microseconds == 0:
        return 0, Unit.SECONDS
    for unit in _FALLING:
        if unit.microseconds and microseconds % unit.microseconds == 0:
            return microseconds // unit.microseconds, unit
    raise AssertionError("one microsecond divides every duration")
