"""Scalar operations of the language on plain Python values: arithmetic, comparison, LIKE and functions.

Every operation is NULL (None) when an operand is NULL, except `coalesce`. Integers are 64-bit: a result beyond that is a
DataError, never a silent wrap. Timestamps are naive UTC datetimes here (`plain` makes them so).
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from kleene.common.errors import DataError
from kleene.common.schema import Kind
from kleene.pattern.registered import Function

Value = Any
"""None, bool, int, float, str, naive UTC datetime, timedelta, or an opaque value that is only carried."""

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


def plain(value: Value) -> Value:
    """A value as the language sees it: dates and aware datetimes become naive UTC datetimes.

    >>> plain(dt.date(2026, 1, 2))
    datetime.datetime(2026, 1, 2, 0, 0)
    """
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo is not None else value
    if isinstance(value, dt.date):
        return dt.datetime.combine(value, dt.time())
    return value


def _is_int(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def checked(value: Value) -> Value:
    """A value, if it fits."""
    if _is_int(value) and not INT64_MIN <= value <= INT64_MAX:
        raise DataError("integer overflow: the result does not fit 64 bits")
    return value


def arithmetic(symbol: str, left: Value, right: Value) -> Value:
    """`left symbol right`.

    >>> arithmetic("/", 7, 2), arithmetic("%", -7, 2), arithmetic("%", 1, 0)
    (3.5, -1, None)
    """
    if left is None or right is None:
        return None
    if symbol in ("/", "%") and not right:
        return None
    if isinstance(left, float) != isinstance(right, float) and _number(left) and _number(right):
        left, right = float(left), float(right)
    if symbol == "+":
        return checked(left + right)
    if symbol == "-":
        return checked(left - right)
    if symbol == "*":
        return checked(left * right)
    if symbol == "/":
        return float(left) / float(right) if _number(left) and _number(right) else left / right
    assert symbol == "%", symbol
    if isinstance(left, float):
        return math.fmod(left, right) if math.isfinite(left) and not math.isnan(right) else math.nan
    return int(math.copysign(1, left)) * (abs(left) % abs(right))


def negate(value: Value) -> Value:
    return None if value is None else checked(-value)


def _number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


COMPARISONS: dict[str, Callable[[Value, Value], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compare(symbol: str, left: Value, right: Value) -> bool | None:
    """Three-valued comparison; an integer compared with a float is converted to float; NaN follows IEEE 754.

    >>> compare("=", 2**53 + 1, float(2**53)), compare("<", None, 1), compare("!=", math.nan, math.nan)
    (True, None, True)
    """
    if left is None or right is None:
        return None
    if isinstance(left, float) != isinstance(right, float) and _number(left) and _number(right):
        left, right = float(left), float(right)
    return bool(COMPARISONS[symbol](left, right))


@lru_cache(maxsize=256)
def _like_expression(pattern: str) -> re.Pattern[str]:
    parts, index = [], 0
    while index < len(pattern):
        character = pattern[index]
        if character == "\\" and index + 1 < len(pattern):
            index += 1
            parts.append(re.escape(pattern[index]))
        elif character == "%":
            parts.append(".*")
        elif character == "_":
            parts.append(".")
        else:
            parts.append(re.escape(character))
        index += 1
    return re.compile("".join(parts), re.DOTALL)


def like(value: Value, pattern: Value) -> bool | None:
    r"""SQL LIKE: `%` any run of characters, `_` one character, backslash makes the next character literal.

    >>> like("a_c", "a\\_%"), like("abc", "a\\_%")
    (True, False)
    """
    if value is None or pattern is None:
        return None
    return _like_expression(pattern).fullmatch(value) is not None


def _sqrt(x: Value) -> Value:
    return None if x < 0 else math.sqrt(x)


def _ln(x: Value) -> Value:
    return None if x <= 0 else math.log(x)


def _exp(x: Value) -> Value:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _power(x: Value, y: Value) -> Value:
    """IEEE 754 pow: NaN for a negative base with a fractional exponent, infinity on overflow and for 0 to a negative."""
    x, y = float(x), float(y)
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and y % 2 == 1 else math.inf
    except ValueError:
        return math.inf if x == 0 else math.nan


def _whole(rounding: Callable[[float], int]) -> Callable[[Value], Value]:
    """`floor` and `ceil` keep the kind of their argument; NaN and infinities stay."""

    def round_it(x: Value) -> Value:
        return x if _is_int(x) or not math.isfinite(x) else float(rounding(x))

    return round_it


def _substr(text: str, start: int, length: int | None = None) -> str:
    """The characters at positions `start`, `start + 1`, ... (from 1) that exist; `length` counts from `start`."""
    end = len(text) + 1 if length is None else start + max(0, length)
    return text[max(1, start) - 1 : max(1, end) - 1]


def _extreme(better: Callable[..., Value]) -> Callable[..., Value]:
    def pick(*values: Value) -> Value:
        if any(isinstance(value, float) for value in values) and all(_number(value) for value in values):
            values = tuple(float(value) for value in values)
            if any(math.isnan(value) for value in values):
                return math.nan
        return better(values)

    return pick


def _each_character(convert: Callable[[str], str], text: str) -> str:
    """Case is changed character by character, so the length stays: where Python gives several, the simple mapping holds."""
    simple = {"ß": "\u1e9e", "\u0130": "i"}
    return "".join(new if len(new := convert(old)) == 1 else simple.get(old, old) for old in text)


def _concat(*values: Value) -> str:
    return "".join(str(value) for value in values)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "abs": lambda x: checked(abs(x)),
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "sqrt": _sqrt,
    "ln": _ln,
    "exp": _exp,
    "power": _power,
    "lower": lambda text: _each_character(str.lower, text),
    "upper": lambda text: _each_character(str.upper, text),
    "length": len,
    "trim": lambda s: s.strip(" "),
    "substr": _substr,
    "concat": _concat,
    "least": _extreme(min),
    "greatest": _extreme(max),
    "year": lambda t: t.year,
    "month": lambda t: t.month,
    "day": lambda t: t.day,
    "hour": lambda t: t.hour,
    "minute": lambda t: t.minute,
    "second": lambda t: t.second,
}


_ARROW = {
    Kind.INTEGER: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.TIMESTAMP: pa.timestamp("us", "UTC"),
    Kind.DURATION: pa.duration("us"),
}


def call_registered(function: Function, arguments: Sequence[Value], kinds: Sequence[Kind]) -> Value:
    """A user function, called on arrays of one row; lists and the like have the type that Arrow infers."""
    rows = [pa.array([value], _ARROW.get(kind)) for value, kind in zip(arguments, kinds, strict=True)]
    try:
        result = function(*rows)
    except Exception as error:
        raise DataError(f"the function '{function.name}' failed: {type(error).__name__}: {error}") from error
    (value,) = pa.array(result).to_pylist() if isinstance(result, np.ndarray) else result.to_pylist()
    return float(value) if function.returns is Kind.FLOAT and value is not None else value


def call(name: str, arguments: Sequence[Value]) -> Value:
    """A built-in function: NULL if any argument is NULL, but `coalesce` gives the first that is not.

    >>> call("coalesce", [None, 2]), call("concat", ["a", None]), call("substr", ["abc", 2])
    (2, None, 'bc')
    """
    if name == "coalesce":
        return next((value for value in arguments if value is not None), None)
    if any(value is None for value in arguments):
        return None
    if name not in FUNCTIONS:
        raise DataError(f"the oracle does not know the function '{name}'")
    return FUNCTIONS[name](*arguments)
