"""Schemas between Spark and Arrow, the same on every supported Spark.

Spark 4.2 replaced the argument `timestamp_utc` of pyspark's conversion by `timezone`, and takes an Arrow time without a zone as
`timestamp_ntz`, where older ones made it a moment of the session's zone. Here a moment is always one in UTC, and a time without
a zone stays without one. What else differs is asked for where it is used, by looking whether it is there.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import TYPE_CHECKING, Any

from pyspark.sql.pandas import types

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def to_arrow(schema: StructType) -> pa.Schema:
    """The Arrow schema in which rows with a schema of Spark's are planned: moments are in UTC."""
    return types.to_arrow_schema(schema, **_in_utc())


def from_arrow(schema: pa.Schema) -> StructType:
    """The schema of Spark's for rows with an Arrow schema: a time without a zone is a `timestamp_ntz`."""
    return types.from_arrow_schema(schema, prefer_timestamp_ntz=True)


@cache
def _in_utc() -> dict[str, Any]:
    known = inspect.signature(types.to_arrow_schema).parameters
    return {"timezone": "UTC"} if "timezone" in known else {"timestamp_utc": True}
