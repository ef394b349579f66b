"""Composite events: the matches of a query with `RETURN ... INTO Type` as events that other queries of a workload read.

Its time is `match_end`, its type the one named, its attributes the RETURN columns (semantics, section 6). Composite events are
added, in stream order, to what the queries that name their type read, and to nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kleene.common.errors import BindingError, DataError, Problem
from kleene.common.schema import Kind, kind_of_arrow
from kleene.interfaces.inputs import is_spark_frame, table_of
from kleene.interfaces.options import Options
from kleene.pattern.text import quoted
from kleene.plan.options import AggregateOptions, plan_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kleene.interfaces.query import Query


@dataclass(frozen=True, slots=True)
class Composite:
    """The events that a query makes."""

    query: str
    event_type: str
    time: str
    type: str
    schema: pa.Schema
    """Of the events: the time, the type, the attributes."""
    matches: Any = None
    """A Table or a DataFrame; None where only plans are made."""

    @property
    def attributes(self) -> list[str]:
        return [name for name in self.schema.names if name not in (self.time, self.type)]


def composite_of(item: Query, base: pa.Schema, matches: pa.Schema, options: Options, rows: Any = None) -> Composite:
    import pyarrow as pa

    into = item.logical.into
    assert into is not None
    assert options.type is not None
    types = base.field(options.type).type
    if pa.types.is_integer(types) and not into.lstrip("-").isdigit():
        raise BindingError(
            Problem(f"it makes events of type '{into}', but the type column '{options.type}' holds {types} values")
        )
    roles = [pa.field(options.time, base.field(options.time).type), pa.field(options.type, types)]
    attributes = [matches.field(column.alias) for column in item.logical.returns]
    return Composite(item.name, into, options.time, options.type, pa.schema([*roles, *attributes]), rows)


def own_options(item: Query, options: Options, read: list[Composite]) -> Options:
    """The options of one query: INTO needs a row per match; a declared schema gains the composite types that are read; of the
    statistics, its own; a plan for aggregates is for queries that have some.
    """
    output = "verbose" if item.logical.into is not None else options.output
    problems = [
        Problem(
            f"the events of type '{composite.event_type}' that query '{composite.query}' makes have no '{name}'",
            hint=f"order_by needs it of every event: add RETURN ... AS {name}",
        )
        for composite in read
        for name in options.order_by
        if name not in composite.schema.names
    ]
    own: dict[str, frozenset[str]] = {}
    for composite in read:
        own[composite.event_type] = own.get(composite.event_type, frozenset()) | frozenset(composite.attributes)
    for name, attributes in own.items():
        if attributes != (options.schema or {}).get(name, attributes):
            message = f"schema declares the type '{name}' with other attributes than the events that queries make have"
            hint = f"leave it out of schema: its attributes are {', '.join(sorted(attributes))}"
            problems.append(Problem(message, hint=hint))
    if problems:
        raise BindingError(problems)
    schema = None if options.schema is None else {**options.schema, **own}
    plan = options.plan if item.logical.aggregates or not isinstance(plan_options(options.plan), AggregateOptions) else None
    return replace(options, output=output, schema=schema, stats=(options.stats or {}).get(item.name), plan=plan)


def common_schema(base: pa.Schema, read: Sequence[Composite]) -> pa.Schema:
    """The columns of events and composite events together; numbers of different widths become the wider one."""
    import pyarrow as pa

    if not read:
        return base
    fields: dict[str, pa.DataType] = {field.name: field.type for field in base}
    problems: list[Problem] = []
    for composite in read:
        for field in composite.schema:
            known = fields.setdefault(field.name, field.type)
            common = _common_type(known, field.type)
            if common is None:
                message = (
                    f"the events of type '{composite.event_type}' that query '{composite.query}' makes have '{field.name}' as "
                    f"{field.type}, others have it as {known}"
                )
                problems.append(Problem(message, hint="name them apart with AS"))
            else:
                fields[field.name] = common
    if problems:
        raise BindingError(problems)
    return pa.schema(list(fields.items()), base.metadata)


def _common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type that holds the values of both, if they are of one kind."""
    import pyarrow as pa

    if left == right:
        return left
    plain = [item.value_type if pa.types.is_dictionary(item) else item for item in (left, right)]
    kinds = [kind_of_arrow(item) for item in plain]
    if kinds[0] is not kinds[1] and Kind.NULL not in kinds and not all(kind.is_number for kind in kinds):
        return None
    try:
        schemas = [pa.schema([pa.field("x", item)]) for item in plain]
        return pa.unify_schemas(schemas, promote_options="permissive").field("x").type
    except pa.ArrowException:
        return None


def held(events: Any) -> Any:
    """A Spark DataFrame as it is, anything else as one table: it is read once for each query."""
    return events if is_spark_frame(events) else table_of(events)


def with_composites(source: Any, base: pa.Schema, read: Sequence[Composite]) -> Any:
    """The events and the composite events; the runtime sorts them."""
    if not read:
        return source
    schema = common_schema(base, read)
    if is_spark_frame(source):
        for composite in read:
            source = cast_frame(source, schema).unionByName(
                cast_frame(_composite_frame(composite), schema), allowMissingColumns=True
            )
        return source
    import pyarrow as pa

    tables = [source, *(_composite_table(composite) for composite in read)]
    return pa.concat_tables([_cast_table(table, schema) for table in tables])


def _composite_table(composite: Composite) -> pa.Table:
    import pyarrow as pa

    matches: pa.Table = composite.matches
    types = composite.schema.field(composite.type).type
    name: Any = int(composite.event_type) if pa.types.is_integer(types) else composite.event_type
    columns = [matches.column("match_end"), pa.array([name] * matches.num_rows, types)]
    columns += [matches.column(attribute) for attribute in composite.attributes]
    return pa.table(columns, schema=composite.schema)


def _cast_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    columns = []
    for field in schema:
        if field.name not in table.schema.names:
            columns.append(pa.nulls(table.num_rows, field.type))
            continue
        column = table.column(field.name)
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowInvalid as error:
            message = (
                f"values of '{field.name}' do not fit into {field.type}, which holds those of composite events too: {error}"
            )
            raise DataError(Problem(message, hint="name the RETURN column apart with AS")) from error
    return pa.table(columns, schema=schema)


def _composite_frame(composite: Composite) -> DataFrame:
    from pyspark.sql import functions as f

    matches: DataFrame = composite.matches
    columns = [matches["match_end"].alias(composite.time), f.lit(composite.event_type).alias(composite.type)]
    columns += [matches[quoted(name)] for name in composite.attributes]
    return matches.select(*columns)


def cast_frame(frame: DataFrame, schema: pa.Schema) -> DataFrame:
    """The frame with those of the schema's columns that it has, in the schema's types."""
    from kleene.runtime.spark.schemas import from_arrow

    wanted = {field.name: field.dataType for field in from_arrow(schema)}
    columns = []
    for field in frame.schema:
        column = frame[quoted(field.name)]
        same = field.dataType == wanted[field.name]
        columns.append(column if same else column.cast(wanted[field.name]).alias(field.name))
    return frame.select(*columns)
