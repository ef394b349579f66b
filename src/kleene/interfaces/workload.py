"""Workloads: named queries over the same events, whose `RETURN ... INTO Type` events other queries of the workload can read.

A match of a query with INTO is a composite event: its time is `match_end`, its type the one named, its attributes the RETURN
columns (semantics, section 6). Composite events are added, in stream order, to what the queries that name their type read, and
to nothing else: every query's matches are what they would be alone over its events.

Queries that make events come before those that read them, so the events are held as one table; on Spark everything stays lazy.
Queries that can be are answered together (`kleene.interfaces.shared_runs`), the others one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

from kleene.common.errors import BindingError, DataError, Problem, nearest
from kleene.interfaces.api import Options, Query, arrow_schema_of, is_spark_frame, options_of, query
from kleene.interfaces.functions import functions_of
from kleene.interfaces.shared_runs import (
    SharedExplanation,
    beside,
    counter_plan,
    explained,
    multi_options_of,
    naming,
    run_together,
    shared_plan,
)
from kleene.interfaces.streams import is_streaming, run_stream
from kleene.interfaces.workload_sources import named_queries
from kleene.pattern.operators import events as components
from kleene.pattern.policies import LogicalQuery
from kleene.pattern.registered import Function

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kleene.plan.aggregate import CounterPlan
    from kleene.plan.lazy import LazyPlan
    from kleene.plan.multi.search import Progress
    from kleene.plan.optimizer import Plan


@dataclass(frozen=True, slots=True)
class Workload:
    """Queries by name; made by `kleene.workload`.

    >>> import pyarrow as pa
    >>> events = pa.table({"ts": [1, 2, 3, 4], "type": ["Low", "Low", "Fix", "Low"], "pump": [7, 7, 7, 7]})
    >>> pumps = workload({
    ...     "failing": "PATTERN SEQ(Low a, Low b) WHERE [pump] WITHIN 2 RETURN b.pump AS pump INTO Failing",
    ...     "repaired": "PATTERN SEQ(Failing f, Fix x) WHERE [pump] WITHIN 10",
    ... })
    >>> found = pumps.match(events, time="ts", type="type")
    >>> {name: matches.num_rows for name, matches in found.items()}
    {'failing': 1, 'repaired': 1}
    """

    queries: Mapping[str, Query]
    functions: tuple[Function, ...] = ()
    """Those that all queries may call."""

    def __post_init__(self) -> None:
        _ = self.order  # raises on a cycle

    def __getitem__(self, name: str) -> Query:
        if name not in self.queries:
            raise BindingError(Problem(f"the workload has no query '{name}'", hint=nearest(name, self.queries)))
        return self.queries[name]

    def producers(self, name: str) -> tuple[str, ...]:
        """The queries whose composite events a query reads."""
        read = {kind for event in components(self[name].logical.pattern) for kind in event.types}
        return tuple(other for other, item in self.queries.items() if item.logical.into in read)

    @property
    def order(self) -> tuple[str, ...]:
        """The names, producers before the queries that read them."""
        try:
            return tuple(TopologicalSorter({name: self.producers(name) for name in self.queries}).static_order())
        except CycleError as error:
            raise _cycle(error.args[1]) from None

    def match(self, events: Any, **options: Any) -> dict[str, Any]:
        """The matches of every query, by its name; see `Query.match` for the options, which hold for all queries.

        Only `stats` are those of one query: they are given by its name, as {"pairs": {"rates": {"a": 20}}}.
        Matches are pyarrow Tables, or lazy DataFrames of a Spark DataFrame. A RecordBatchReader is read into a table first.
        Queries with INTO always have a row per match, whatever `output` says: their matches are events.
        """
        if is_streaming(events):
            return {name: run[name] for run in (self.run(events, **options),) for name in self.queries}
        return {name: run.matches for name, run in self.run(events, **options).items()}

    def run(self, events: Any, **options: Any) -> Any:
        """Like `match`, but gives whole runs by name, see `Query.run`; of a stream one run, see `kleene.StreamRun`."""
        given, multi = multi_options_of(options_of(options))
        self._require_composable(given)
        self._require_statistics_by_name(given.stats)
        if is_streaming(events):
            return run_stream(self.queries, events, options_of(options))
        source = _held(events)
        base = arrow_schema_of(source)
        made: dict[str, _Composite] = {}
        runs: dict[str, Any] = {}
        together: dict[tuple[str, ...], dict[str, CounterPlan | LazyPlan]] = {}
        for name in self.order:
            with self._naming(name):
                item, producers = self.queries[name], self.producers(name)
                read = [made[other] for other in producers]
                own = _own_options(item, given, read)
                plan = shared_plan(item, _common_schema(base, read), own, multi)
                if is_spark_frame(source) and item.logical.aggregates:
                    plan = None
                if plan is not None:
                    together.setdefault(producers, {})[name] = plan
                    continue
                run = item.run_for(_with_composites(source, base, read), own)
                if item.logical.into is not None:
                    made[name] = _composite(item, base, arrow_schema_of(run.matches), given, run.matches)
                runs[name] = run
        for producers, plans in together.items():
            read = [made[name] for name in producers]
            with self._naming(next(iter(plans))):
                own_events = _with_composites(source, base, read)
            runs.update(run_together(plans, own_events, given, multi))
            for name in plans.keys() - runs.keys():
                with self._naming(name):
                    runs[name] = self.queries[name].run_for(own_events, _own_options(self.queries[name], given, read))
        return {name: runs[name] for name in self.queries}

    def explain(self, events: Any, **options: Any) -> dict[str, Plan]:
        """The plan of every query; of the events, which may be an Arrow schema, only the columns are read."""
        given = options_of(options)
        self._require_composable(given)
        self._require_statistics_by_name(given.stats)
        base = arrow_schema_of(events)
        made: dict[str, _Composite] = {}
        plans: dict[str, Plan] = {}
        counted: dict[tuple[str, ...], dict[str, CounterPlan]] = {}
        for name in self.order:
            with self._naming(name):
                item, producers = self.queries[name], self.producers(name)
                read = [made[other] for other in producers]
                schema = _common_schema(base, read)
                own = _own_options(item, given, read)
                plan = None if is_spark_frame(events) else counter_plan(item, schema, own)
                if plan is not None:
                    counted.setdefault(producers, {})[name] = plan
                plans[name] = plan or item.plan_for(schema, own)
                if item.logical.into is not None:
                    from kleene.engine.build import build_matcher

                    made[name] = _composite(item, base, build_matcher(plans[name], schema).output_schema, given)
        for own_plans in counted.values():
            plans.update(beside(own_plans))
        return {name: plans[name] for name in self.queries}

    def explain_shared(
        self, events: Any, *, progress: Callable[[Progress], None] | None = None, **options: Any
    ) -> SharedExplanation:
        """How the queries would be answered together, and what that costs beside other plans; print it, or draw it with `svg`.

        The plan is made for a sample of the events; of an Arrow schema only the columns are read, and all rates are the same.
        `progress` is called while a plan is searched for.
        """
        import pyarrow as pa

        from kleene.plan.lazy import LazyPlan
        from kleene.plan.multi.search import MultiOptions

        given, multi = multi_options_of(options_of(options))
        self._require_composable(given)
        self._require_statistics_by_name(given.stats)
        held = events if isinstance(events, pa.Schema) else _held(events)
        base = arrow_schema_of(held)
        plans: dict[str, LazyPlan] = {}
        alone: list[str] = []
        for name, item in self.queries.items():
            with self._naming(name):
                plan = None
                if not self.producers(name) and not item.logical.aggregates:
                    plan = shared_plan(item, base, _own_options(item, given, []), multi)
                if isinstance(plan, LazyPlan):
                    plans[name] = plan
                else:
                    alone.append(name)
        return explained(plans, tuple(alone), held, multi or MultiOptions(), progress)

    def with_query(self, name: str, source: Any) -> Workload:
        """The workload with one more query, or with another one under a name that it has. The others' results stay theirs.

        >>> pairs = workload({"ab": "PATTERN SEQ(A a, B b)"})
        >>> list(pairs.with_query("bc", "PATTERN SEQ(B b, C c)").queries)
        ['ab', 'bc']
        """
        return replace(self, queries={**self.queries, **workload({name: source}, functions=self.functions).queries})

    def without(self, name: str) -> Workload:
        """The workload without a query. The others' results stay theirs."""
        _ = self[name]  # raises if there is none
        others = {other: item for other, item in self.queries.items() if other != name}
        return workload(others, functions=self.functions)

    def _naming(self, name: str) -> AbstractContextManager[None]:
        return naming(name) if len(self.queries) > 1 else nullcontext()

    def _require_composable(self, options: Options) -> None:
        """That the matches of all queries with INTO can be events among the others."""
        problems: list[Problem] = []
        roles = {options.time: "time", options.type: "type"}
        for name, item in self.queries.items():
            into = item.logical.into
            if into is None:
                continue
            if options.type is None:
                message = f"query '{name}' makes events of type '{into}', but no type column was given"
                problems.append(Problem(message, hint="pass type=..., the column that tells the types apart"))
            for column in item.logical.returns:
                if column.alias in roles:
                    role = roles[column.alias]
                    hint = f"the {role} of a composite event is {'match_end' if role == 'time' else 'its INTO type'}: rename it"
                    message = f"query '{name}' returns '{column.alias}' into '{into}', but that is the {role} column"
                    problems.append(Problem(message, hint=hint))
        if problems:
            raise BindingError(problems)

    def _require_statistics_by_name(self, given: Any) -> None:
        if not isinstance(given, Mapping | None):
            raise BindingError(Problem("statistics are those of one query", hint="give them by its name: stats={'name': ...}"))
        problems = [
            Problem(f"statistics are given for '{name}', which is no query of the workload", hint=nearest(name, self.queries))
            for name in given or ()
            if name not in self.queries
        ]
        if problems:
            raise BindingError(problems)


def workload(
    queries: Any,
    *,
    functions: Mapping[str, Callable[..., Any]] | Iterable[Function] | None = None,
) -> Workload:
    """A workload of named queries: a mapping from names to queries (text, `Query`, or from the builder), a list of `Query`, the
    path of a folder of `.sase` files, or a table with the columns `name` and `query`.

    All of them may call `functions`, see `kleene.query`; one that brings a function of its own under the same name keeps that.

    >>> workload([query("PATTERN SEQ(A a, B b)", name="pairs")]).queries.keys()
    dict_keys(['pairs'])
    """
    shared = functions_of(functions)
    named = named_queries(queries, shared)
    if named is not None:
        given: list[tuple[Any, Any]] = list(named)
    elif isinstance(queries, Mapping):
        given = list(queries.items())
    elif isinstance(queries, list | tuple):
        given = [(_name_of(item), item) for item in queries]
    else:
        message = f"a workload is made of queries by name, of a folder or of a table, not of a {type(queries).__name__}"
        raise BindingError(Problem(message, hint="write workload({'name': query, ...}) or workload('folder')"))
    if not given:
        raise BindingError(Problem("a workload needs at least one query"))
    found: dict[str, Query] = {}
    for name, source in given:
        if not isinstance(name, str) or not name:
            raise BindingError(Problem(f"a query's name is text, not {name!r}"))
        if name in found:
            hint = "give them names of their own: query(text, name=...), or workload({'name': query, ...})"
            raise BindingError(Problem(f"two queries of the workload are named '{name}'", hint=hint))
        with naming(name) if len(given) > 1 else nullcontext():
            found[name] = _query(source, name, shared)
    return Workload(found, tuple(shared))


def _query(source: Any, name: str, shared: Sequence[Function]) -> Query:
    logical = source.logical if isinstance(source, Query) else source
    own = {item.key for item in logical.functions} if isinstance(logical, LogicalQuery) else set()
    return query(logical, name=name, functions=[item for item in shared if item.key not in own])


def _name_of(item: Any) -> str:
    if isinstance(item, Query | LogicalQuery):
        return item.name
    message = f"a list of queries has Query objects, which have names, not {type(item).__name__}"
    raise BindingError(Problem(message, hint="write workload({'name': text, ...})"))


def _cycle(names: Sequence[str]) -> BindingError:
    """`names` is a cycle: each makes events for the next, the last is the first."""
    if len(set(names)) == 1:
        message = f"query '{names[0]}' reads the events that it makes"
    else:
        message = f"queries read each other's events in a circle: {' -> '.join(repr(name) for name in names)}"
    return BindingError(Problem(message, hint="events INTO a type can only be read by queries that they do not depend on"))


# --- composite events -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Composite:
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


def _composite(item: Query, base: pa.Schema, matches: pa.Schema, options: Options, rows: Any = None) -> _Composite:
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
    return _Composite(item.name, into, options.time, options.type, pa.schema([*roles, *attributes]), rows)


def _own_options(item: Query, options: Options, read: list[_Composite]) -> Options:
    """The options of one query: INTO needs a row per match; a declared schema gains the composite types that are read; of the
    statistics, its own; a plan for aggregates is for queries that have some.
    """
    from kleene.plan.options import AggregateOptions, plan_options

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


def _common_schema(base: pa.Schema, read: list[_Composite]) -> pa.Schema:
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

    from kleene.common.schema import Kind, kind_of_arrow

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


def _held(events: Any) -> Any:
    """A Spark DataFrame as it is, anything else as one table: it is read once for each query."""
    if is_spark_frame(events):
        return events
    import pyarrow as pa

    from kleene.runtime.arrow import event_stream

    stream = event_stream(events)
    return stream if isinstance(stream, pa.Table) else stream.read_all()


def _with_composites(source: Any, base: pa.Schema, read: list[_Composite]) -> Any:
    """The events and the composite events; the runtime sorts them."""
    if not read:
        return source
    schema = _common_schema(base, read)
    if is_spark_frame(source):
        for composite in read:
            source = _cast_frame(source, schema).unionByName(
                _cast_frame(_composite_frame(composite), schema), allowMissingColumns=True
            )
        return source
    import pyarrow as pa

    tables = [source, *(_composite_table(composite) for composite in read)]
    return pa.concat_tables([_cast_table(table, schema) for table in tables])


def _composite_table(composite: _Composite) -> pa.Table:
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


def _composite_frame(composite: _Composite) -> DataFrame:
    from pyspark.sql import functions as f

    matches: DataFrame = composite.matches
    columns = [matches["match_end"].alias(composite.time), f.lit(composite.event_type).alias(composite.type)]
    columns += [matches[_quoted(name)] for name in composite.attributes]
    return matches.select(*columns)


def _cast_frame(frame: DataFrame, schema: pa.Schema) -> DataFrame:
    """The frame with those of the schema's columns that it has, in the schema's types."""
    from pyspark.sql.pandas.types import from_arrow_schema

    wanted = {field.name: field.dataType for field in from_arrow_schema(schema, prefer_timestamp_ntz=True)}
    columns = []
    for field in frame.schema:
        column = frame[_quoted(field.name)]
        same = field.dataType == wanted[field.name]
        columns.append(column if same else column.cast(wanted[field.name]).alias(field.name))
    return frame.select(*columns)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
