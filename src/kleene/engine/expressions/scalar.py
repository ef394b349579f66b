"""Scalar operations over whole columns: arithmetic, comparison and the built-in functions of the language.

Operands are Arrow arrays or scalars of the widest type of their kind. NULL in, NULL out, except `coalesce`; a constant NULL
has no type of its own and makes every operation NULL. Value by value these are the operations of `kleene.testing.functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Column = Any

_COMPARISONS = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}

_ARITHMETIC = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}


def compare(operator: str, left: Column, right: Column) -> Column:
    """Three-valued comparison; an integer and a float are compared as floats."""
    if _is_untyped(left) or _is_untyped(right):
        return pa.scalar(None, pa.bool_())
    if _differ_in_unit(left, right):
        left, right = _in_one_unit(left, right)
    return _COMPARISONS[operator](*_as_numbers(left, right))


def _differ_in_unit(left: Column, right: Column) -> bool:
    """Whether one operand counts microseconds and the other nanoseconds."""
    return bool(pa.types.is_temporal(left.type) and left.type != right.type)


def _in_one_unit(left: Column, right: Column) -> tuple[Column, Column]:
    """Times or durations of two units as values that compare as they do: a constant in nanoseconds, where it fits these."""
    if left.type.unit == "ns":
        finer, coarser = _in_one_unit(right, left)
        return coarser, finer
    if isinstance(left, pa.Scalar):
        try:
            return left.cast(right.type), right
        except pa.ArrowInvalid:
            pass  # nanoseconds do not reach it
    # Whole microseconds decide; where they are equal, what is left of the nanoseconds does.
    whole, nanoseconds = pc.cast(left, pa.int64()), pc.cast(right, pa.int64())
    floor = pc.divide(nanoseconds, 1_000)
    rest = pc.subtract(nanoseconds, pc.multiply(floor, 1_000))
    floor = pc.if_else(pc.less(rest, 0), pc.subtract(floor, 1), floor)
    at_once = pc.if_else(pc.equal(rest, 0), 0, -1)
    order = pc.if_else(pc.less(whole, floor), -1, pc.if_else(pc.greater(whole, floor), 1, at_once))
    return order, pa.scalar(0, order.type)


def arithmetic(operator: str, left: Column, right: Column) -> Column:
    """`left operator right`; by zero is NULL."""
    if _is_untyped(left) or _is_untyped(right):
        return pa.scalar(None)
    if operator in "*/" and (pa.types.is_duration(left.type) or pa.types.is_duration(right.type)):
        return _scaled_duration(operator, left, right)
    if operator == "/":
        return pc.divide(_as_float(left), _without_zero(_as_float(right)))
    left, right = _as_numbers(left, right)
    return _remainder(left, right) if operator == "%" else _ARITHMETIC[operator](left, right)


def call(function: str, arguments: Sequence[Column]) -> Column:
    """A built-in function."""
    if function == "coalesce":
        return _coalesce(*arguments)
    if any(_is_untyped(argument) for argument in arguments):
        return pa.scalar(None)
    return _FUNCTIONS[function](*arguments)


def as_boolean(value: Column) -> Column:
    """A condition; a constant NULL is an unknown one."""
    return pc.cast(value, pa.bool_()) if _is_untyped(value) else value


def _is_untyped(value: Column) -> bool:
    return bool(pa.types.is_null(value.type))


def _as_float(value: Column) -> Column:
    return pc.cast(value, pa.float64(), safe=False)


def _as_numbers(left: Column, right: Column) -> tuple[Column, Column]:
    """Brings an integer and a float to float; everything else as it is."""
    if pa.types.is_integer(left.type) and pa.types.is_floating(right.type):
        return _as_float(left), right
    if pa.types.is_floating(left.type) and pa.types.is_integer(right.type):
        return left, _as_float(right)
    return left, right


def _without_zero(divisor: Column) -> Column:
    return pc.if_else(pc.equal(divisor, 0), pa.scalar(None, divisor.type), divisor)


def _scaled_duration(operator: str, left: Column, right: Column) -> Column:
    """A duration times or divided by a number, to the nearest of its unit (ties to even); the ratio of two durations."""
    if operator == "/" and pa.types.is_duration(right.type):
        unit = pa.duration("ns" if "ns" in (left.type.unit, right.type.unit) else "us")
        return arithmetic("/", _count(pc.cast(left, unit)), _count(pc.cast(right, unit)))
    if pa.types.is_duration(right.type):
        left, right = right, left
    scaled = arithmetic(operator, _count(left), right)
    if not pa.types.is_integer(scaled.type):
        scaled = pc.cast(pc.round(scaled, round_mode="half_to_even"), pa.int64())
    return pc.cast(scaled, left.type)


def _count(duration: Column) -> Column:
    """A duration as the number of its units."""
    return pc.cast(duration, pa.int64())


def _remainder(left: Column, right: Column) -> Column:
    """The remainder with the sign of the dividend; NULL where an operand is NULL or the divisor zero."""
    if _divides_integers(left, right):
        return _integer_remainder(left.to_numpy(), right.as_py())
    right = _without_zero(right)
    known = pc.and_(pc.is_valid(left), pc.is_valid(right))
    one = pa.scalar(1, right.type) if right.type == pa.int64() else pa.scalar(1.0)
    dividend = pc.fill_null(left, pa.scalar(0, left.type))
    divisor = pc.fill_null(right, one)
    if isinstance(dividend, pa.Scalar) and isinstance(divisor, pa.Scalar):
        value: Column = pa.scalar(np.fmod(dividend.as_py(), divisor.as_py()).item(), left.type)
    else:
        with np.errstate(invalid="ignore"):
            value = pa.array(np.fmod(_numpy(dividend), _numpy(divisor)))
    return pc.if_else(known, value, pa.scalar(None, left.type))


def _integer_remainder(dividend: Any, divisor: int) -> Column:
    """NumPy divides by one number several times faster than it finds the remainders of pairs."""
    remainder = dividend - dividend // divisor * divisor
    negative = dividend < 0
    if negative.any():
        np.subtract(remainder, divisor, out=remainder, where=negative & (remainder != 0))
    return pa.array(remainder)


def _divides_integers(left: Column, right: Column) -> bool:
    """Whether a column of integers without NULLs is divided by a positive constant."""
    if not isinstance(right, pa.Scalar) or not isinstance(left, pa.Array) or left.null_count:
        return False
    return bool(left.type == pa.int64() and right.type == pa.int64() and right.is_valid and right.as_py() > 0)


def _numpy(value: Column) -> Any:
    return value.as_py() if isinstance(value, pa.Scalar) else value.to_numpy(zero_copy_only=False)


def _null_where(condition: Column, value: Column) -> Column:
    return pc.if_else(condition, pa.scalar(None, value.type), value)


def _rounded(function: Callable[[Column], Column]) -> Callable[[Column], Column]:
    return lambda value: value if pa.types.is_integer(value.type) else function(value)


def _sqrt(value: Column) -> Column:
    value = _as_float(value)
    return pc.sqrt(_null_where(pc.less(value, 0.0), value))


def _ln(value: Column) -> Column:
    value = _as_float(value)
    return pc.ln(_null_where(pc.less_equal(value, 0.0), value))


def _absolute(value: Column) -> Column:
    if pa.types.is_duration(value.type):
        return pc.cast(pc.abs_checked(_count(value)), value.type)
    return pc.abs_checked(value)


def _substring(text: Column, start: Column, length: Column | None = None) -> Column:
    """Start and length are constants (checked when the query is bound)."""
    begin = start.as_py() - 1
    stop = None if length is None else max(0, begin + max(0, length.as_py()))
    return pc.utf8_slice_codeunits(text, max(0, begin), stop)


def _extreme(operator: str) -> Callable[..., Column]:
    def function(*values: Column) -> Column:
        result = values[0]
        for value in values[1:]:
            result, value = _as_numbers(result, value)
            keep = compare(operator, result, value)
            if pa.types.is_floating(result.type):
                keep = pc.or_kleene(keep, pc.is_nan(result))  # NaN wins on either side
            result = pc.if_else(keep, result, value)
        return result

    return function


def _coalesce(*values: Column) -> Column:
    typed = [value for value in values if not _is_untyped(value)]
    if not typed:
        return pa.scalar(None)
    if any(pa.types.is_floating(value.type) for value in typed):
        typed = [_as_float(value) for value in typed]
    return pc.coalesce(*typed)


_FUNCTIONS: dict[str, Callable[..., Column]] = {
    "abs": _absolute,
    "floor": _rounded(pc.floor),
    "ceil": _rounded(pc.ceil),
    "sqrt": _sqrt,
    "ln": _ln,
    "exp": lambda value: pc.exp(_as_float(value)),
    "power": lambda base, exponent: pc.power(_as_float(base), _as_float(exponent)),
    "lower": pc.utf8_lower,
    "upper": pc.utf8_upper,
    "length": lambda value: pc.cast(pc.utf8_length(value), pa.int64()),
    "trim": lambda value: pc.utf8_trim(value, " "),
    "substr": _substring,
    "concat": lambda *values: pc.binary_join_element_wise(*values, ""),
    "least": _extreme("<"),
    "greatest": _extreme(">"),
    "year": pc.year,
    "month": pc.month,
    "day": pc.day,
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
}
