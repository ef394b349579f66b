"""Values given with a query, as constants of the language."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from kleene.common.errors import Problem, Span
from kleene.pattern.predicates import Expression, Literal


def literal_of(value: object) -> Literal | None:
    """A Python (or NumPy scalar) value as a constant, None if it is not one; moments in other zones become UTC.

    >>> literal_of(3), literal_of([3])
    (Literal(value=3), None)
    """
    if hasattr(value, "item") and not isinstance(value, type) and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, dt.datetime):
        return Literal(value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None))
    if isinstance(value, dt.date):
        return Literal(dt.datetime.combine(value, dt.time()))
    if value is None or isinstance(value, bool | dt.timedelta):
        return Literal(value)
    # Subclasses (NumPy's float64, enums of strings) become the plain constant.
    for kind in (int, float, str):
        if isinstance(value, kind):
            return Literal(kind(value))
    return None


def parameter_value(name: str, value: object, span: Span | None, problems: list[Problem]) -> Literal:
    """The constant that a parameter stands for."""
    literal = literal_of(value)
    if literal is None:
        hint = (
            "a list can stand only after IN" if _is_list(value) else "give a number, a string, a boolean, a time or a duration"
        )
        problems.append(Problem(f"parameter '{name}' is a {type(value).__name__}, not one value", span, hint))
        return Literal(None, span=span)
    return Literal(literal.value, span=span)


def parameter_list(name: str, value: object, span: Span | None, problems: list[Problem]) -> tuple[Expression, ...]:
    """The constants of a parameter that stands after IN; a set is put in order, so that the same query is the same data."""
    if not _is_list(value):
        message = f"parameter '{name}' stands after IN, but is a {type(value).__name__}"
        problems.append(Problem(message, span, f"pass a list: params={{'{name}': [...]}}"))
        return ()
    assert isinstance(value, Iterable)
    items = sorted(value, key=repr) if isinstance(value, set | frozenset) else list(value)
    return tuple(parameter_value(name, item, span, problems) for item in items)


def _is_list(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | dict)
