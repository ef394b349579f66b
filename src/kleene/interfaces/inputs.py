"""Events in any form that users have them in: what they are, and their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def is_spark_frame(events: Any) -> bool:
    """Whether events are a Spark DataFrame, classic or Connect, without importing pyspark."""
    return any(base.__module__.startswith("pyspark.sql") and base.__name__ == "DataFrame" for base in type(events).__mro__)


def table_of(events: Any) -> pa.Table:
    """Events in any form but a Spark DataFrame as one table."""
    import pyarrow as pa

    from kleene.runtime.embedded import event_stream

    stream = event_stream(events)
    return stream if isinstance(stream, pa.Table) else stream.read_all()


def arrow_schema_of(events: Any) -> pa.Schema:
    """The Arrow schema of events in any form, or the schema itself."""
    import pyarrow as pa

    if isinstance(events, pa.Schema):
        from kleene.runtime.encodings import plain_schema

        return plain_schema(events)
    if is_spark_frame(events):
        from kleene.runtime.spark.frame import arrow_schema

        return arrow_schema(events)
    from kleene.runtime.embedded import event_stream

    return event_stream(events).schema
