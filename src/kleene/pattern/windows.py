"""WITHIN in the unit of the time column: exact, because a fraction rounded up excludes the same events (`last - first < T`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from kleene.common.errors import Problem, Span, nearest
from kleene.common.schema import EventSchema, Kind
from kleene.pattern.moments import exact_microseconds
from kleene.pattern.policies import Unit, Window

_LONGEST = 2**62


@dataclass(frozen=True, slots=True)
class BoundWindow:
    """A window's length in the unit of the time column, or in events."""

    time: int | None
    events: int | None


def bind_window(
    window: Window, schema: EventSchema, params: Mapping[str, object], problems: list[Problem], span: Span | None = None
) -> BoundWindow | None:
    """A window in the unit of a schema's time column; None, with a problem added, if it does not fit.

    >>> from kleene.common.schema import Kind
    >>> schema = EventSchema({"ts": Kind.TIMESTAMP}, time="ts")
    >>> bind_window(Window(2, Unit.SECONDS), schema, {}, [])
    BoundWindow(time=2000000, events=None)
    """
    amount, unit = window.amount, window.unit
    given_as_duration = False
    if isinstance(amount, str):
        value = _parameter(amount, params, problems, span)
        if value is None:
            return None
        given, given_as_duration = value
        if given_as_duration and unit is not Unit.NUMBER:
            problems.append(Problem(f"window parameter '{amount}' is a duration already", span, f"remove '{unit.word}'"))
            return None
        amount, unit = given, Unit.MICROSECONDS if given_as_duration else unit
        if amount <= 0:
            problems.append(Problem("WITHIN must be positive", span))
            return None
    problem = _misfit(unit, schema, span, given_as_duration)
    if problem is not None:
        problems.append(problem)
        return None
    if unit is Unit.EVENTS:
        if int(amount) != amount:
            problems.append(Problem("WITHIN n EVENTS needs a whole number", span))
        return BoundWindow(None, int(amount))
    length = math.ceil(amount * _per_unit(unit, schema))
    if length > _LONGEST:
        problems.append(Problem("WITHIN exceeds the largest representable time span", span, "leave the clause out"))
        return None
    return BoundWindow(length, None)


def _parameter(
    name: str, params: Mapping[str, object], problems: list[Problem], span: Span | None
) -> tuple[int | Fraction, bool] | None:
    """The value of a window's parameter, and whether it is a duration: then in microseconds, exactly."""
    if name not in params:
        hint = f"pass params={{'{name}': ...}}"
        near = nearest(name, params) if params else None
        problems.append(Problem(f"unknown window parameter '{name}'", span, f"{near} Otherwise, {hint}" if near else hint))
        return None
    value = params[name]
    duration = exact_microseconds(value)
    if duration is not None:
        return duration, True
    if hasattr(value, "as_py"):
        value = value.as_py()
    if hasattr(value, "item") and not isinstance(value, int | float):
        value = value.item()
    if isinstance(value, int | float | Fraction) and not isinstance(value, bool) and math.isfinite(value):
        return value if isinstance(value, int) else Fraction(value), False
    problems.append(Problem(f"window parameter '{name}' is a {type(value).__name__}, not a number or a duration", span))
    return None


def _misfit(unit: Unit, schema: EventSchema, span: Span | None, given_as_duration: bool) -> Problem | None:
    if unit is Unit.EVENTS or schema.columns[schema.time] is Kind.NULL:
        return None
    if schema.time_unit is None and unit is not Unit.NUMBER:
        what = "a duration" if given_as_duration else f"a window in {unit.word}"
        hint = "give a plain number, such as WITHIN 1000"
        return Problem(f"time column '{schema.time}' holds integers: they cannot be compared with {what}", span, hint)
    if schema.time_unit is not None and unit is Unit.NUMBER:
        hint = "give a unit, such as WITHIN 10 seconds"
        return Problem(f"time column '{schema.time}' holds timestamps: a plain number is not a window", span, hint)
    return None


def _per_unit(unit: Unit, schema: EventSchema) -> int:
    return (unit.microseconds or 1) * (1_000 if schema.time_unit == "ns" and unit.microseconds else 1)
