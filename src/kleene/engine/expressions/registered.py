"""Calls of user functions: whole columns in, and their results are checked before anything is computed with them.

Cost: that of the function, once per block of rows; it is never called on no rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.errors import DataError, Problem, error_text
from kleene.common.schema import Kind, kind_of_arrow
from kleene.pattern.registered import Function

_TYPES = {Kind.INTEGER: pa.int64(), Kind.FLOAT: pa.float64(), Kind.BOOLEAN: pa.bool_(), Kind.STRING: pa.string()}


def call_registered(function: Function, arguments: Sequence[pa.Array], count: int) -> pa.Array:
    """The values of a function for `count` rows, of the widest type of the kind that it declares."""
    if count == 0:
        return pa.array([], _TYPES[function.returns])
    try:
        result = function(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit, too, would end the process of all queries
        raise DataError(f"the function '{function.name}' failed: {error_text(error)}") from error
    values = _as_array(result)
    if not isinstance(values, pa.Array):
        raise _wrong(function, _shown(result), count)
    if len(values) != count:
        raise _wrong(function, f"{len(values):,} values", count)
    return _typed(function, values)


def _as_array(result: Any) -> Any:
    """A result as an Arrow array where it can be one."""
    if isinstance(result, pa.ChunkedArray):
        return result.combine_chunks()
    if isinstance(result, np.ndarray) and result.ndim == 1:
        try:
            return pa.array(result)
        except (pa.ArrowException, TypeError):
            return result
    return result


def _typed(function: Function, values: pa.Array) -> pa.Array:
    kind, wanted = kind_of_arrow(values.type), _TYPES[function.returns]
    if values.type == wanted:
        return values
    if kind not in (function.returns, Kind.NULL) and not (kind is Kind.INTEGER and function.returns is Kind.FLOAT):
        raise _wrong(function, f"values of type {values.type}")
    try:
        # An integer becomes the nearest float, as in arithmetic.
        return pc.cast(values, wanted, safe=function.returns is not Kind.FLOAT)
    except pa.ArrowInvalid as error:
        raise _wrong(function, f"values that do not fit into {wanted}: {error}") from error


def _shown(result: Any) -> str:
    if isinstance(result, np.ndarray):
        return f"a NumPy array of type {result.dtype} and shape {result.shape}"
    return f"a value of type {type(result).__module__}.{type(result).__qualname__}"


def _wrong(function: Function, found: str, count: int | None = None) -> DataError:
    """What was returned is not what was asked for: `count` values, or (None) values of another kind."""
    kind = function.returns.value
    hint = f"it is declared to return {kind} values: change it, or declare it with kleene.function(returns=...)"
    if count is not None:
        hint = f"it must return an Arrow or NumPy array with one {kind} for each of the {count:,} rows"
    return DataError(Problem(f"the function '{function.name}' returned {found}", hint=hint))
