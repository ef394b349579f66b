"""Histories: the last values of an attribute, as a list in every event, for functions that compare courses and not only values.

The events of a partition are taken in stream order, which must be total there. A history is NULL while there are fewer events
than it has values, and where the time or a partition attribute is NULL (or NaN): such events belong to no partition.

Cost: one sort; in this process also `length` values for each event, on Spark one window over each partition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.columns import decoded, take, whole
from kleene.common.errors import BindingError, DataError, PlanningError, Problem, nearest
from kleene.common.schema import Kind, kind_of_arrow, schema_of_arrow
from kleene.interfaces.inputs import arrow_schema_of, is_spark_frame, table_of
from kleene.pattern.text import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


VALUES = 1 << 20
"""Approximate number of values for which histories are built at a time."""

_REASON = "a history needs them in order"
_HINT = "give order_by=[...], columns that order events of equal time"


def history(
    events: Any,
    column: str,
    length: int,
    *,
    partition_by: str | Sequence[str],
    time: str,
    order_by: str | Sequence[str] = (),
    name: str | None = None,
) -> Any:
    """The events with one column more: a list of the last `length` values of a column in the event's partition, its own last.

    A Spark DataFrame gives a lazy DataFrame; anything else that `match` takes gives a pyarrow Table, its rows in their order.
    The new column is called `name`, or `<column>_history`.

    >>> import pyarrow as pa
    >>> events = pa.table({"ts": [1, 2, 3, 4], "id": [7, 7, 8, 7], "price": [10, 12, 5, 11]})
    >>> history(events, "price", 2, partition_by="id", time="ts")["price_history"].to_pylist()
    [None, [10, 12], None, [12, 11]]
    """
    keys = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    order = (time, *((order_by,) if isinstance(order_by, str) else order_by))
    added = f"{column}_history" if name is None else name
    with_history: Callable[..., Any] = _frame_with_history
    source = events
    if not is_spark_frame(events):
        source, with_history = table_of(events), _table_with_history
    _check(arrow_schema_of(source), column, length, keys, order, added)
    return with_history(source, column, length, keys, order, added)


def _check(schema: pa.Schema, column: str, length: object, keys: tuple[str, ...], order: tuple[str, ...], name: str) -> None:
    problems: list[Problem] = []
    try:
        schema_of_arrow(schema, time=order[0], order_by=order[1:])
    except BindingError as error:
        problems += error.problems
    for role, given in (("", column), *(("partition_by ", key) for key in keys)):
        if given not in schema.names:
            message = f"{role}column '{given}' is not a column of the events"
            problems.append(Problem(message, hint=nearest(given, schema.names)))
        elif role and kind_of_arrow(schema.field(given).type) is Kind.OTHER:
            problems.append(Problem(f"{role}column '{given}' cannot be compared: it holds {schema.field(given).type} values"))
    if not isinstance(length, int) or isinstance(length, bool) or length < 1:
        problems.append(Problem(f"a history has at least one value, not {length!r}"))
    if name in schema.names:
        problems.append(Problem(f"the events have a column '{name}' already", hint="call the history otherwise: name=..."))
    if problems:
        raise BindingError(problems)


# --- in this process --------------------------------------------------------------------------------------------------


def _table_with_history(
    table: pa.Table, column: str, length: int, keys: tuple[str, ...], order: tuple[str, ...], name: str
) -> pa.Table:
    places = [_ranks(table.column(item)) for item in order]
    partition, known = np.zeros(table.num_rows, np.int64), places[0] >= 0
    for key in keys:
        ranks = _ranks(table.column(key), nan=False)
        partition, known = _combined(partition, ranks), known & (ranks >= 0)
    rows = np.flatnonzero(known)
    rows = rows.take(np.lexsort([item.take(rows) for item in (*reversed(places), partition)]))
    starts = partition.take(rows)
    new = np.ones(rows.size, bool)
    new[1:] = starts[1:] != starts[:-1]
    _refuse_ties(table, rows, new, places, keys, order)
    since = np.arange(rows.size)
    ages = since - np.maximum.accumulate(np.where(new, since, 0))
    last = np.full(table.num_rows, -1, np.int64)  # where each event's history ends among the ordered rows
    last[rows[ages >= length - 1]] = since[ages >= length - 1]
    values = decoded(whole(table.column(column)))
    return table.append_column(name, pa.chunked_array(_histories(values, rows, last, length), pa.list_(values.type)))


def _ranks(column: pa.ChunkedArray, *, nan: bool = True) -> Array:
    """Numbers in the order of the values, equal for equal ones; -1 for NULL. NaN comes last, or is as NULL."""
    values = decoded(whole(column))
    if pa.types.is_null(values.type):
        return np.full(len(values), -1, np.int64)
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    if pa.types.is_floating(values.type):
        values = pc.add(values, pa.scalar(0.0, values.type))  # -0.0 + 0.0 is 0.0
    ranks = pc.rank(values, tiebreaker="dense")
    found = np.asarray(ranks.to_numpy(zero_copy_only=False)).astype(np.int64)
    if pa.types.is_floating(values.type):
        found[pc.is_nan(values).fill_null(False).to_numpy(zero_copy_only=False)] = found.size + 1 if nan else -1
    found[values.is_null().to_numpy(zero_copy_only=False)] = -1
    return found


def _combined(left: Array, right: Array) -> Array:
    """One number for each pair of numbers."""
    _, dense = np.unique(left, return_inverse=True)
    return np.asarray(dense.astype(np.int64) * (int(right.max(initial=0)) + 2) + right + 1)


def _refuse_ties(
    table: pa.Table, rows: Array, new: Array, places: list[Array], keys: tuple[str, ...], order: tuple[str, ...]
) -> None:
    tied = ~new[1:]
    for place in places:
        ordered = place.take(rows)
        tied &= ordered[1:] == ordered[:-1]
    if tied.any():
        row = int(rows[np.flatnonzero(tied)[0]])
        shown = ", ".join(f"{key} = {table.column(key)[row]}" for key in keys)
        where = f" in partition {shown}" if keys else ""
        raise DataError(Problem(f"two events tie at time {table.column(order[0])[row]}{where}: {_REASON}", hint=_HINT))


def _histories(values: pa.Array, rows: Array, last: Array, length: int) -> list[pa.Array]:
    """The lists of all rows, in pieces."""
    pieces = []
    back = np.arange(length) - (length - 1)
    step = max(1, VALUES // length)
    for begin in range(0, last.size, step):
        ends = last[begin : begin + step]
        known = ends >= 0
        flat = rows.take((ends[known][:, None] + back).ravel())
        offsets = np.concatenate([[0], np.cumsum(known)]) * length
        lists = pa.array(offsets, pa.int32(), mask=np.append(~known, False))
        pieces.append(pa.ListArray.from_arrays(lists, take(values, flat)))
    return pieces


# --- on Spark ---------------------------------------------------------------------------------------------------------


def _frame_with_history(
    frame: DataFrame, column: str, length: int, keys: tuple[str, ...], order: tuple[str, ...], name: str
) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    from kleene.runtime.spark.push_down import all_of

    if frame.isStreaming:
        raise PlanningError("not supported yet: streaming DataFrames")
    belongs = all_of([_has_value(frame, item) for item in (order[0], *keys)])
    ordered = [frame[quoted(item)] for item in order]
    window = Window.partitionBy(belongs, *(frame[quoted(key)] for key in keys)).orderBy(*ordered)
    # collect_list leaves out NULLs, which a struct around each value keeps.
    collected = f.collect_list(f.struct(frame[quoted(column)].alias("value"))).over(window.rowsBetween(1 - length, 0))
    values = f.transform(collected, lambda item: item["value"])
    place = f.struct(*(item.alias(f"c{number}") for number, item in enumerate(ordered)))
    tied = belongs & place.eqNullSafe(f.lag(place).over(window))
    known = belongs & (f.size(collected) == length)
    return frame.withColumn(name, f.when(tied, f.raise_error(_tie(frame, keys, order))).when(known, values))


def _has_value(frame: DataFrame, name: str) -> Column:
    from pyspark.sql import functions as f

    column = frame[quoted(name)]
    number = frame.schema[name].dataType.typeName() in ("float", "double")
    return column.isNotNull() & ~f.isnan(column) if number else column.isNotNull()


def _tie(frame: DataFrame, keys: tuple[str, ...], order: tuple[str, ...]) -> Column:
    from pyspark.sql import functions as f

    message = [f.lit("two events tie at time "), frame[quoted(order[0])].cast("string")]
    for key in keys:
        message += [f.lit(f"{' in partition ' if key == keys[0] else ', '}{key} = "), frame[quoted(key)].cast("string")]
    return f.concat(*message, f.lit(f": {_REASON}\n  hint: {_HINT}"))
