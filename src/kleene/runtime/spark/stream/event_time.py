"""The time of a streaming DataFrame's events as Spark's watermark has it, and rows whose time is out of bounds.

A row whose time no watermark can hold, or that is too far ahead of the clock, has none for Spark: it is set aside and does not
move the watermark. The clock is the one that Spark reads once for every micro-batch and writes to the checkpoint, so that a
micro-batch that is run again judges alike.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f
from pyspark.sql.types import TimestampType

from kleene.common.columns import TIME_LIMIT
from kleene.common.errors import PlanningError, Problem
from kleene.common.schema import EventSchema
from kleene.pattern.durations import duration_text
from kleene.pattern.text import quoted
from kleene.runtime.stream.times import EARLIEST, MIDDLE, MOVED, NEAR, STEP_BITS, Clock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LATENESS = "__kleene_time"
"""The column with the watermark: NULL where a row has no time that counts."""


def clock_of(schema: EventSchema, frame: DataFrame) -> Clock:
    """The event times passed to Spark; a watermark that the user set is of the time itself."""
    return Clock(schema.time_unit, moves=not _has_watermark(schema, frame))


def _has_watermark(schema: EventSchema, frame: DataFrame) -> bool:
    return frame.schema[schema.time].metadata.get("spark.watermarkDelayMs") is not None


def out_of_bounds(schema: EventSchema, frame: DataFrame, max_ahead: dt.timedelta | None) -> dict[str, Any]:
    """By the reason for which they are set aside, the rows whose time does not count."""
    column = frame[quoted(schema.time)]
    if schema.time_unit is None:
        if max_ahead is not None:
            message = f"max_ahead is measured by the clock, and '{schema.time}' is a column of integers"
            raise PlanningError(Problem(message, hint="leave it out, or make timestamps of the integers"))
        beyond = ~column.between(-TIME_LIMIT, TIME_LIMIT)
        return {f"time column '{schema.time}' is beyond ±2^62, and cannot be ordered safely": beyond}
    if _has_watermark(schema, frame):
        if max_ahead is not None:
            message = f"the events have a watermark on '{schema.time}' already, which moves with every event"
            raise PlanningError(Problem(message, hint="with max_ahead, give the option watermark in place of withWatermark"))
        return {}
    moment = _moment(schema, frame)
    found = {f"time column '{schema.time}' is before the year 1": f.unix_micros(moment) < EARLIEST}
    if max_ahead is not None:
        found[ahead_reason(schema, max_ahead)] = moment > f.current_timestamp() + f.lit(max_ahead)
    return found


def ahead_reason(schema: EventSchema, max_ahead: dt.timedelta) -> str:
    """Why a row is set aside that is too far ahead of the clock."""
    length = duration_text(max_ahead)
    length = length.removesuffix("s") if length.startswith("1 ") else length
    return f"time column '{schema.time}' is more than {length} ahead of the clock"


def _moment(schema: EventSchema, frame: DataFrame) -> Any:
    """The time of an event as a moment; a time without a zone is one in UTC."""
    column = frame[quoted(schema.time)]
    if isinstance(frame.schema[schema.time].dataType, TimestampType):
        return column
    return f.from_utc_timestamp(column.cast("timestamp"), f.current_timezone())


def watermarked(
    schema: EventSchema, frame: DataFrame, watermark: str | int | None, max_ahead: dt.timedelta | None
) -> DataFrame:
    """The events with an additional, shifted time column, which has the watermark; one that the user set stays."""
    time = schema.time
    if _has_watermark(schema, frame):
        if watermark is not None:
            message = f"the events have a watermark on '{time}' already"
            raise PlanningError(Problem(message, hint="leave out the option watermark, or the call of withWatermark"))
        return frame.withColumn(LATENESS, frame[quoted(time)])
    if watermark is None:
        message = "a stream needs to know how late its events may come"
        raise PlanningError(Problem(message, hint="give watermark='10 seconds', or call withWatermark on the events"))
    counted = schema.time_unit is None
    if isinstance(watermark, int) is not counted:
        message = f"watermark is {watermark!r}, but '{time}' is a column of {'integers' if counted else 'timestamps'}"
        raise PlanningError(Problem(message, hint="give a number" if counted else "give a time: watermark='10 seconds'"))
    delay = watermark
    if isinstance(watermark, int):
        if not 0 <= watermark <= TIME_LIMIT:
            raise PlanningError(Problem(f"watermark cannot be {watermark!r}", hint="give a number from 0 to 2^62"))
        # The delay is taken off before the steps in which integers far from zero are told.
        told, delay = _told(frame[quoted(time)].cast("long") - f.lit(watermark).cast("long")), "0 seconds"
    else:
        told = f.timestamp_micros(f.unix_micros(_moment(schema, frame)) + f.lit(1_000 * MOVED))
    for beyond in out_of_bounds(schema, frame, max_ahead).values():
        told = f.when(~beyond, told)
    return frame.withColumn(LATENESS, told).withWatermark(LATENESS, str(delay))


def _told(time: Any) -> Any:
    """Integers as `Clock` tells them."""
    near, middle = f.lit(NEAR), f.lit(MIDDLE)
    after = middle + near + f.shiftright(time - near, STEP_BITS)
    before = middle - near + f.shiftright(time + near, STEP_BITS)
    milliseconds = f.when(time.between(-NEAR, NEAR - 1), time + middle).when(time > 0, after).otherwise(before)
    return f.timestamp_millis(milliseconds)
