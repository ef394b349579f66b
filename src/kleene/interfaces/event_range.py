"""The events that `why_not` and `explore` are asked about: of a key and a time range, in a table, in batches or a DataFrame.

On Spark the DataFrame is filtered there, and only what is left comes to this process. No more than `MOST_EVENTS` are taken.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.columns import decoded, showable
from kleene.common.errors import BindingError, DataError, Problem, nearest
from kleene.engine.expressions.scalar import compare
from kleene.engine.expressions.vectorized import literal_scalar, widen
from kleene.pattern.bound import BoundQuery
from kleene.pattern.moments import FineMoment, Moment, moment_of_text
from kleene.pattern.parameters import literal_of
from kleene.pattern.predicates import Literal
from kleene.pattern.text import value_text

MOST_EVENTS = 1_000_000
"""How many events may be asked about at a time."""


class Range:
    """A key and a time range of events with a schema, checked."""

    def __init__(self, bound: BoundQuery, events: pa.Schema, key: Any, since: Any, until: Any) -> None:
        self._time = events.field(bound.schema.time)
        self.keys = {name: _value(name, value, events) for name, value in _named(bound, key).items()}
        """The value that events must have in some columns."""
        self._given = (since, until)
        self._since = None if since is None else _bound("since", since, self._time)
        self._until = None if until is None else _bound("until", until, self._time)

    @property
    def words(self) -> str:
        """The range in words, after "events"; empty if it is everything."""
        values = {name: showable(pa.repeat(value, 1))[0].as_py() for name, value in self.keys.items()}
        keys = ", ".join(f"{name}={value_text(value)}" for name, value in values.items())
        times = [f"{word} {given}" for word, given in zip(("since", "until"), self._given, strict=True) if given is not None]
        return " ".join([*([f"of {keys}"] if keys else []), *times])

    def of_batches(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
        """The events in the range, in the order they come."""
        kept, count = [], 0
        for batch in batches:
            kept.append(batch.filter(self._mask(batch)) if self.keys or self._given != (None, None) else batch)
            count += kept[-1].num_rows
            if count > MOST_EVENTS:
                message = f"more than {MOST_EVENTS:,} events{' ' + self.words if self.words else ''} to ask about"
                raise DataError(Problem(message, hint="ask about fewer: give a key, or a shorter time with since and until"))
        return pa.Table.from_batches(kept, schema)

    def of_spark(self, frame: Any) -> pa.Table:
        """The events of a DataFrame in the range: one job, and no more rows than may be asked about."""
        from pyspark.sql import functions as f

        from kleene.pattern.text import quoted
        from kleene.runtime.spark.frame import worker_interpreter

        for name, value in self.keys.items():
            frame = frame.where(f.col(quoted(name)) == f.lit(value.as_py()))
        for bound, lower in ((self._since, True), (self._until, False)):
            if bound is not None:
                limit, kind = _spark_bound(bound, self._time.type, lower=lower)
                own, limit = f.col(quoted(self._time.name)).cast(kind), f.lit(limit).cast(kind)
                frame = frame.where(own >= limit if lower else own <= limit)
        with worker_interpreter(frame):
            table = frame.limit(MOST_EVENTS + 1).toArrow()
        return self.of_batches(iter(table.to_batches()), table.schema)

    def _mask(self, batch: pa.RecordBatch) -> pa.Array:
        mask: Any = pa.repeat(True, batch.num_rows)
        for name, value in self.keys.items():
            mask = pc.and_(mask, pc.fill_null(pc.equal(decoded(batch.column(name)), value), False))
        time = widen(batch.column(self._time.name))
        for bound, operator in ((self._since, ">="), (self._until, "<=")):
            if bound is not None:
                mask = pc.and_(mask, pc.fill_null(compare(operator, time, literal_scalar(bound)), False))
        return mask


def _named(bound: BoundQuery, key: Any) -> Mapping[str, Any]:
    """The columns and values of a key, given as a mapping, or as the value(s) of the query's equivalence tests."""
    if key is None:
        return {}
    if isinstance(key, Mapping):
        return key
    names = [test.name for test in bound.equivalences]
    values = list(key) if isinstance(key, list | tuple) else [key]
    if len(values) != len(names):
        known = f"the query has the equivalence tests {', '.join(f'[{name}]' for name in names)}" if names else None
        hint = "name the columns: key={'item': 'razor'}"
        message = f"the key has {len(values)} values, and {known or 'the query has no equivalence test'}"
        raise BindingError(Problem(message, hint=hint))
    return dict(zip(names, values, strict=True))


def _value(name: str, value: Any, events: pa.Schema) -> pa.Scalar:
    if name not in events.names:
        raise BindingError(Problem(f"key column '{name}' is not a column of the events", hint=nearest(name, events.names)))
    kind = _plain_type(events.field(name).type)
    if value is None:
        raise BindingError(Problem(f"the key '{name}' is NULL", hint="an event without a key is in no match"))
    try:
        return _scalar(value, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        message = f"the key {name}={value!r} is not a value of the column, which holds {kind}"
        raise BindingError(Problem(message, hint="give a value of that type")) from error


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """A value of a type. Text stands for a value of any type, as the command line gives it; a cast does not cut 2.5 to 2."""
    return pa.scalar(value).cast(kind) if isinstance(value, str | float) else pa.scalar(value, kind)


def _bound(option: str, value: Any, time: pa.Field) -> int | Moment:
    """A bound of the time range as a value that the time column can be compared with."""
    kind = _plain_type(time.type)
    try:
        if pa.types.is_integer(kind):
            return int(_scalar(value, kind).as_py())
        literal = Literal(moment_of_text(value)) if isinstance(value, str) else literal_of(value)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _no_bound(option, value, kind, str(error)) from error
    if literal is None or not isinstance(literal.value, dt.datetime | FineMoment):
        raise _no_bound(option, value, kind)
    return literal.value


def _no_bound(option: str, value: Any, kind: pa.DataType, reason: str = "") -> BindingError:
    wanted = "a number" if pa.types.is_integer(kind) else "a time, as '2026-03-02 09:00:00'"
    shown = f": {reason}" if "than a" in reason or "out of range" in reason else ""
    return BindingError(Problem(f"{option} cannot be {value!r}{shown}", hint=f"give {wanted}"))


def _spark_bound(bound: int | Moment, kind: pa.DataType, *, lower: bool) -> tuple[Any, str]:
    """A bound as Spark compares it, and the type of that, whatever the zone of the session.

    Spark's times are microseconds: of a moment between two of them it is the one inside the range.
    """
    if isinstance(bound, int):
        return bound, "long"
    moment = bound.microsecond + dt.timedelta(microseconds=lower) if isinstance(bound, FineMoment) else bound
    return (f"{moment}+00:00", "timestamp") if getattr(kind, "tz", None) else (str(moment), "timestamp_ntz")


def _plain_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
