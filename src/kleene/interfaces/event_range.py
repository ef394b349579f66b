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
from kleene.pattern.bound import BoundQuery
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
        self._since = None if since is None else _moment("since", since, self._time)
        self._until = None if until is None else _moment("until", until, self._time)

    @property
    def words(self) -> str:
        """The range in words, after "events"; empty if it is everything."""
        keys = ", ".join(f"{name}={_text(value)}" for name, value in self.keys.items())
        times = [f"{word} {given}" for word, given in zip(("since", "until"), self._given, strict=True) if given is not None]
        return " ".join([*([f"of {keys}"] if keys else []), *times])

    def of_batches(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
        """The events in the range, in the order they come."""
        kept, count = [], 0
        for batch in batches:
            kept.append(batch.filter(self._mask(batch)) if self.keys or self._given != (None, None) else batch)
            count += kept[-1].num_rows
            if count > MOST_EVENTS:
                raise _too_many(self)
        return pa.Table.from_batches(kept, schema)

    def of_spark(self, frame: Any) -> pa.Table:
        """The events of a DataFrame in the range: one job, and no more rows than may be asked about."""
        from pyspark.sql import functions as f

        from kleene.runtime.spark_batch import worker_interpreter
        from kleene.runtime.spark_push_down import quoted

        for name, value in self.keys.items():
            frame = frame.where(f.col(quoted(name)) == f.lit(value.as_py()))
        time = f.col(quoted(self._time.name))
        for moment, after in ((self._since, True), (self._until, False)):
            if moment is not None:
                own, limit = (time, f.lit(moment.as_py())) if pa.types.is_integer(moment.type) else _moments(time, moment)
                frame = frame.where(own >= limit if after else own <= limit)
        with worker_interpreter(frame):
            table = frame.limit(MOST_EVENTS + 1).toArrow()
        return self.of_batches(iter(table.to_batches()), table.schema)

    def _mask(self, batch: pa.RecordBatch) -> pa.Array:
        mask: Any = pa.repeat(True, batch.num_rows)
        for name, value in self.keys.items():
            mask = pc.and_(mask, pc.fill_null(pc.equal(decoded(batch.column(name)), value), False))
        time = _comparable(decoded(batch.column(self._time.name)))
        if self._since is not None:
            mask = pc.and_(mask, pc.fill_null(pc.greater_equal(time, self._since), False))
        if self._until is not None:
            mask = pc.and_(mask, pc.fill_null(pc.less_equal(time, self._until), False))
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


def _moment(option: str, value: Any, time: pa.Field) -> pa.Scalar:
    """A bound of the time range as a value that the time column can be compared with."""
    kind = _plain_type(time.type)
    try:
        if pa.types.is_integer(kind):
            return _scalar(value, kind)
        moment = dt.datetime.fromisoformat(value.strip()) if isinstance(value, str) else value
        if isinstance(moment, dt.date) and not isinstance(moment, dt.datetime):
            moment = dt.datetime.combine(moment, dt.time())
        moment = _utc(moment)
        zone = getattr(kind, "tz", None)
        unit = kind.unit if pa.types.is_timestamp(kind) and kind.unit == "ns" else "us"
        return pa.scalar(moment if zone else moment.replace(tzinfo=None), pa.timestamp(unit, zone))
    except (pa.ArrowException, AttributeError, TypeError, ValueError, OverflowError) as error:
        wanted = "a number" if pa.types.is_integer(kind) else "a time, as '2026-03-02 09:00:00'"
        raise BindingError(Problem(f"{option} cannot be {value!r}", hint=f"give {wanted}")) from error


def _utc(moment: dt.datetime) -> dt.datetime:
    return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)


def _moments(time: Any, moment: pa.Scalar) -> tuple[Any, Any]:
    """A time column of a DataFrame, and a moment to compare it with, whatever the zone of the session."""
    from pyspark.sql import functions as f

    kind = "timestamp" if moment.type.tz else "timestamp_ntz"
    return time.cast(kind), f.lit(str(moment.cast(pa.timestamp("us", moment.type.tz)).as_py())).cast(kind)


def _comparable(time: pa.Array) -> pa.Array:
    """A time column in a unit that a moment can be written in exactly: a date as its midnight."""
    if pa.types.is_date(time.type):
        return time.cast(pa.timestamp("us"))
    if pa.types.is_timestamp(time.type) and time.type.unit in ("s", "ms"):
        return time.cast(pa.timestamp("us", time.type.tz))
    return time


def _plain_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _text(value: pa.Scalar) -> str:
    return value_text(showable(pa.repeat(value, 1))[0].as_py())


def _too_many(given: Range) -> DataError:
    message = f"more than {MOST_EVENTS:,} events{' ' + given.words if given.words else ''} to ask about"
    return DataError(Problem(message, hint="ask about fewer: give a key, or a shorter time with since and until"))
