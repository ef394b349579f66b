"""Timestamps as constants ("moments"): exact to the nanosecond, or refused, never truncated.

A moment is a naive UTC datetime. Python's has microseconds; a finer one is a `FineMoment`. A value finer than nanoseconds, or
outside the range of a datetime, is a ValueError that says so.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import total_ordering
from typing import Any

EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - moments are naive, in UTC
_MICROSECOND = dt.timedelta(microseconds=1)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9, "ps": 10**12, "fs": 10**15, "as": 10**18}
_SECONDS = {"m": 60, "h": 3_600, "D": 86_400, "W": 7 * 86_400}
_FRACTION = re.compile(r"[.,](\d+)")

_OUT_OF_RANGE = "is out of range: timestamps lie in the years 1 to 9999, in UTC"
_FINER = "is finer than a nanosecond"
_FINE_RANGE = "is finer than a microsecond, and outside the range of nanoseconds, 1677 to 2262"


@total_ordering
@dataclass(frozen=True, slots=True)
class FineMoment:
    """A moment between two microseconds, naive and in UTC: `nanosecond` (1 to 999) after `microsecond`.

    >>> FineMoment(dt.datetime(2026, 1, 1), 5) > dt.datetime(2026, 1, 1)
    True
    """

    microsecond: dt.datetime
    nanosecond: int

    def __post_init__(self) -> None:
        assert 0 < self.nanosecond < 1_000
        if not -(2**63) <= nanoseconds_of(self) < 2**63:
            raise ValueError(f"'{self}' {_FINE_RANGE}")

    def __str__(self) -> str:
        return f"{self.microsecond.isoformat(sep=' ', timespec='microseconds')}{self.nanosecond:03d}"

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, FineMoment | dt.datetime):
            return NotImplemented
        return nanoseconds_of(self) < nanoseconds_of(other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FineMoment | dt.datetime):
            return NotImplemented
        return nanoseconds_of(self) == nanoseconds_of(other)

    def __hash__(self) -> int:
        return hash((self.microsecond, self.nanosecond))


Moment = dt.datetime | FineMoment


def nanoseconds_of(value: Moment | dt.timedelta) -> int:
    """A naive moment (since 1970) or a duration in nanoseconds; pandas' values are more precise than Python's.

    >>> nanoseconds_of(FineMoment(dt.datetime(1970, 1, 1), 5))
    5
    """
    if isinstance(value, FineMoment):
        return nanoseconds_of(value.microsecond) + value.nanosecond
    if isinstance(value, dt.timedelta):
        # Its own fields: those of pandas divide by another rule.
        microseconds = (value.days * 86_400 + value.seconds) * 10**6 + value.microseconds
        return microseconds * 1_000 + int(getattr(value, "nanoseconds", 0))
    whole = value.toordinal() - EPOCH.toordinal()
    seconds = (whole * 24 + value.hour) * 3_600 + value.minute * 60 + value.second
    return (seconds * 10**6 + value.microsecond) * 1_000 + int(getattr(value, "nanosecond", 0))


def moment_at(amount: int, unit: str) -> Moment:
    """The moment that is an amount of a unit ("D", "h", "s", "ms", "us", "ns", ...) after 1970.

    >>> moment_at(1_000_001, "ns")
    FineMoment(microsecond=datetime.datetime(1970, 1, 1, 0, 0, 0, 1000), nanosecond=1)
    """
    nanoseconds = _nanoseconds(amount, unit)
    if nanoseconds is None:
        raise ValueError(f"{amount} {unit} since 1970 {_FINER}")
    microseconds, rest = divmod(nanoseconds, 1_000)
    try:
        moment = EPOCH + dt.timedelta(microseconds=microseconds)
    except OverflowError:
        raise ValueError(f"{amount} {unit} since 1970 {_OUT_OF_RANGE}") from None
    return FineMoment(moment, rest) if rest else moment


def length_of(unit: str) -> Fraction:
    """Nanoseconds per unit of NumPy or Arrow.

    >>> length_of("us")
    Fraction(1000, 1)
    """
    return Fraction(_SECONDS[unit] * 10**9) if unit in _SECONDS else Fraction(10**9, _PER_SECOND[unit])


def _nanoseconds(amount: int, unit: str) -> int | None:
    found = amount * length_of(unit)
    return int(found) if found.denominator == 1 else None


def moment_of_text(text: str) -> Moment:
    """The moment of an ISO 8601 text; without a zone it is UTC.

    >>> print(moment_of_text("2026-01-01T01:00:00.123456789+01:00"))
    2026-01-01 00:00:00.123456789
    """
    text = text.strip()
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a timestamp") from None
    fine = [digits for digits in _FRACTION.findall(text) if digits[6:].strip("0")]
    if fine and (len(_FRACTION.findall(text)) > 1 or fine[0][9:].strip("0") or _is_fine_zone(moment)):
        raise ValueError(f"'{text}' {_FINER}")
    rest = int(fine[0][6:9].ljust(3, "0")) if fine else 0
    return _with_rest(in_utc(moment), rest)


def _is_fine_zone(moment: dt.datetime) -> bool:
    """Whether a moment's zone has a fraction of a second: then the digits belong to the zone."""
    offset = moment.utcoffset()
    return offset is not None and offset.microseconds != 0


def _with_rest(moment: dt.datetime, rest: int) -> Moment:
    return FineMoment(moment, rest) if rest else moment


def in_utc(moment: dt.datetime) -> dt.datetime:
    """A datetime as a naive one in UTC."""
    if moment.tzinfo is None:
        return moment
    try:
        return moment.astimezone(dt.UTC).replace(tzinfo=None)
    except OverflowError:
        raise ValueError(f"'{moment.isoformat(sep=' ')}' {_OUT_OF_RANGE}") from None


def moment_of_datetime(value: dt.datetime) -> Moment:
    """A datetime, pandas' own included, as a moment."""
    rest = int(getattr(value, "nanosecond", 0))
    plain = dt.datetime(  # a subclass becomes the plain constant
        value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond, value.tzinfo,
        fold=value.fold,
    )  # fmt: skip
    return _with_rest(in_utc(plain), rest)


def duration_in(amount: int, unit: str) -> dt.timedelta:
    """The duration of an amount of a unit; ValueError if it is finer than a microsecond or too long."""
    nanoseconds = _nanoseconds(amount, unit)
    if nanoseconds is None or nanoseconds % 1_000:
        raise ValueError(f"{amount} {unit}: durations have a precision of one microsecond")
    try:
        return dt.timedelta(microseconds=nanoseconds // 1_000)
    except OverflowError:
        raise ValueError(f"{amount} {unit}: the duration is too long") from None


def exact_microseconds(value: object) -> Fraction | None:
    """A duration of Python, NumPy, pandas or Arrow in microseconds, exactly; None for other values.

    >>> exact_microseconds(dt.timedelta(seconds=1))
    Fraction(1000000, 1)
    """
    if isinstance(value, dt.timedelta):
        return Fraction(nanoseconds_of(value), 1_000)
    try:
        counted = counted_time(value)
    except ValueError:
        return None
    if counted is None or counted[0] != "duration" or counted[1] is None:
        return None
    return counted[1] * length_of(counted[2]) / 1_000


def counted_time(value: Any) -> tuple[str, int | None, str] | None:
    """A scalar of NumPy or Arrow that counts units of time, as ("moment" or "duration", count, unit); None for any other value.

    A count of None is NULL.
    """
    kind = str(getattr(value, "dtype", None) or getattr(value, "type", ""))
    if kind == "datetime64":
        return "moment", None, "s"  # NaT without a unit
    found = re.match(r"(datetime64|timestamp|timedelta64|duration)\[(\d*)([a-zA-Z]+)", kind)
    if found is None or getattr(value, "ndim", 0) != 0 or isinstance(value, type):
        return None
    what = "moment" if found[1] in ("datetime64", "timestamp") else "duration"
    if hasattr(value, "as_py"):
        return what, (value.value if value.is_valid else None), found[3]
    if str(value) == "NaT":
        return what, None, found[3]
    if found[3] in ("Y", "M"):  # of no fixed length
        if what == "duration":
            raise ValueError(f"{value} have no fixed length")
        return what, int(value.astype("datetime64[D]").astype("int64")), "D"
    return what, int(value.astype("int64")) * int(found[2] or 1), found[3]
