"""The schema of events: columns and their kinds, the roles some of them play, and the attributes of each type."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kleene.common.errors import BindingError, Problem, nearest
from kleene.common.terminal import is_text

if TYPE_CHECKING:
    import pyarrow as pa


class Kind(enum.Enum):
    """The kind of an attribute's values, as far as the language distinguishes kinds."""

    INTEGER = "integer"
    FLOAT = "float"
    STRING = "string"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"
    DURATION = "duration"
    OTHER = "other"
    """Lists, structs, binary, decimals: can be returned and passed to functions, but not compared."""
    NULL = "null"
    """The literal NULL, which is compatible with every kind."""

    @property
    def is_number(self) -> bool:
        return self in (Kind.INTEGER, Kind.FLOAT)


@dataclass(frozen=True, slots=True)
class EventSchema:
    """The columns of an event table with their roles.

    Column names are matched exactly. `types` declares the attributes of each event type; None when undeclared, and then
    every type has every column as an attribute.
    """

    columns: Mapping[str, Kind]
    time: str
    type: str | None = None
    order_by: tuple[str, ...] = ()
    types: Mapping[str, frozenset[str]] | None = None
    time_unit: str | None = "us"
    """Unit of the time column's values in the engine: "us" or "ns" for timestamps, None for plain integers."""

    def attributes_of(self, event_type: str) -> frozenset[str]:
        """The attributes that events of a type have; time and type columns always belong."""
        if self.types is None:
            return frozenset(self.columns)
        own = self.types.get(event_type, frozenset())
        return own | {self.time, *self.order_by} | ({self.type} if self.type else set())


def kind_of_arrow(data_type: pa.DataType) -> Kind:
    """The kind of an Arrow type."""
    import pyarrow.types as pat

    if pat.is_dictionary(data_type):
        return kind_of_arrow(data_type.value_type)
    if pat.is_boolean(data_type):
        return Kind.BOOLEAN
    if pat.is_integer(data_type):
        return Kind.INTEGER
    if pat.is_floating(data_type):
        return Kind.FLOAT
    if pat.is_string(data_type) or pat.is_large_string(data_type) or pat.is_string_view(data_type):
        return Kind.STRING
    if pat.is_timestamp(data_type) or pat.is_date(data_type):
        return Kind.TIMESTAMP
    if pat.is_duration(data_type):
        return Kind.DURATION
    if pat.is_null(data_type):
        return Kind.NULL
    return Kind.OTHER


def schema_of_arrow(
    arrow: pa.Schema,
    *,
    time: str,
    type: str | None = None,
    order_by: tuple[str, ...] = (),
    types: Mapping[str, frozenset[str]] | None = None,
) -> EventSchema:
    """The event schema of an Arrow schema, with its roles checked; all problems are reported together."""
    import pyarrow.types as pat

    columns = {name: kind_of_arrow(data_type) for name, data_type in zip(arrow.names, arrow.types, strict=True)}
    problems: list[Problem] = []
    duplicated = sorted({name for name in arrow.names if arrow.names.count(name) > 1})
    if duplicated:
        problems.append(Problem(f"column '{duplicated[0]}' occurs more than once", hint="rename or drop one of them"))
    for role, name in (("time", time), ("type", type), *(("order_by", item) for item in order_by)):
        if name is not None and name not in columns:
            problems.append(Problem(f"{role} column '{name}' is not a column of the events", hint=nearest(name, columns)))
    if time in columns and columns[time] not in (Kind.TIMESTAMP, Kind.INTEGER, Kind.NULL):
        hint = "cast it to a timestamp, or to an integer with a plain number as window"
        problems.append(
            Problem(f"time column '{time}' holds {columns[time].value} values, not timestamps or integers", hint=hint)
        )
    if type in columns and columns[type] not in (Kind.STRING, Kind.INTEGER, Kind.NULL):
        problems.append(Problem(f"type column '{type}' holds {columns[type].value} values, not strings or integers"))
    for item in order_by:
        if columns.get(item) is Kind.OTHER:
            problems.append(Problem(f"order_by column '{item}' cannot be ordered: it holds {arrow.field(item).type} values"))
    for event_type, attributes in (types or {}).items():
        if not is_text(event_type):
            problems.append(Problem(f"schema names a type '{event_type}', which contains a lone surrogate"))
        for name in sorted(attributes - set(columns)):
            message = f"schema gives type '{event_type}' the attribute '{name}', which is not a column of the events"
            problems.append(Problem(message, hint=nearest(name, columns)))
    if problems:
        raise BindingError(problems)
    unit = None
    if columns[time] is Kind.TIMESTAMP:
        data_type = arrow.field(time).type
        unit = "ns" if pat.is_timestamp(data_type) and data_type.unit == "ns" else "us"
    return EventSchema(columns, time, type, order_by, types, unit)
