"""Parameter values as constants of the language."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from kleene.common.errors import Problem, Span
from kleene.common.terminal import is_text
from kleene.pattern.moments import counted_time, duration_in, moment_at, moment_of_datetime, nanoseconds_of
from kleene.pattern.predicates import Expression, Literal


def literal_of(value: object) -> Literal | None:
    """A Python value, or a scalar of NumPy, pandas or Arrow, as a constant; None if it is not one.

    Moments in other zones are converted to UTC. A value that is too fine or out of range is a ValueError.

    >>> literal_of(3), literal_of([3])
    (Literal(value=3), None)
    """
    counted = counted_time(value)
    if counted is not None:
        what, count, unit = counted
        return Literal(None if count is None else moment_at(count, unit) if what == "moment" else duration_in(count, unit))
    if hasattr(value, "as_py") and hasattr(value, "is_valid"):
        value = value.as_py()
    if hasattr(value, "item") and not isinstance(value, type) and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, dt.datetime):
        return Literal(moment_of_datetime(value) if value == value else None)  # NaT is NULL
    if isinstance(value, dt.date):
        return Literal(dt.datetime.combine(value, dt.time()))
    if isinstance(value, dt.timedelta):
        return Literal(duration_in(nanoseconds_of(value), "ns"))
    if value is None or isinstance(value, bool):
        return Literal(value)
    # Subclasses (NumPy's float64, enums of strings) become the plain constant.
    for kind in (int, float, str):
        if isinstance(value, kind):
            if isinstance(value, str) and not is_text(value):
                raise ValueError(f"'{value}' contains a lone surrogate: pass text that can be encoded as UTF-8")
            return Literal(kind(value))
    return None


def parameter_value(name: str, value: object, span: Span | None, problems: list[Problem]) -> Literal:
    """The constant that a parameter stands for."""
    try:
        literal = literal_of(value)
    except ValueError as error:
        problems.append(Problem(f"parameter '{name}': {error}", span))
        return Literal(None, span=span)
    if literal is None:
        hint = (
            "a list is only allowed after IN" if _is_list(value) else "give a number, a string, a boolean, a time or a duration"
        )
        problems.append(Problem(f"parameter '{name}' is a {type(value).__name__}, not one value", span, hint))
        return Literal(None, span=span)
    return Literal(literal.value, span=span)


def parameter_list(name: str, value: object, span: Span | None, problems: list[Problem]) -> tuple[Expression, ...]:
    """The constants of a parameter after IN; a set is sorted, so that the same query is the same data."""
    if not _is_list(value):
        message = f"parameter '{name}' is used after IN, but is a {type(value).__name__}"
        problems.append(Problem(message, span, f"pass a list: params={{'{name}': [...]}}"))
        return ()
    assert isinstance(value, Iterable)
    items = sorted(value, key=repr) if isinstance(value, set | frozenset) else list(value)
    return tuple(parameter_value(name, item, span, problems) for item in items)


def _is_list(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | dict)
