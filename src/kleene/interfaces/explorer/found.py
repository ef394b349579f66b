"""The matches of queries with the rows of their events, found by the same engine as for `match`.

Events get a column with their row number, and the plan returns it for every variable, in addition to its other columns. The
number is wrapped in a struct: match ids hash no structs, so matches keep the ids that `match` gives them. Composite events
(INTO) have row numbers after those of the events themselves.

Cost: that of matching, and one number for each event of each match.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.columns import free_name, whole
from kleene.common.errors import BindingError, PlanningError, Problem
from kleene.common.schema import EventSchema, schema_of_arrow
from kleene.engine.build import build_matcher
from kleene.interfaces.composition.composites import Composite, common_schema, composite_of, own_options, with_composites
from kleene.interfaces.composition.queries import Queries
from kleene.interfaces.composition.shared import multi_options_of, naming
from kleene.interfaces.options import Options
from kleene.pattern.operators import Event
from kleene.pattern.predicates import Attribute, Element
from kleene.plan.contract import Transformation
from kleene.runtime.embedded import dropped_at_limits, in_stream_order, run_embedded

if TYPE_CHECKING:
    from kleene.interfaces.query import Query

HEAD = ("query", "match_id", "match_start", "match_end")


@dataclass(frozen=True, slots=True)
class Matched:
    """The matches of one query. Those of match m are `rows[offsets[m] : offsets[m + 1]]`, in the order of components."""

    query: Query
    plan: Any
    """The plan that `match` would run, to be shown as text and drawing."""
    heads: pa.Table
    """`match_id`, `match_start`, `match_end`."""
    returned: pa.Table
    """The RETURN columns."""
    offsets: Array
    rows: Array
    """Row numbers of events."""
    variables: Array
    """The component of each event, as an index into `plan.bound.components`."""
    bad: int
    dropped: str | None

    @property
    def count(self) -> int:
        """The number of matches."""
        return int(self.heads.num_rows)

    @property
    def keys(self) -> tuple[str, ...]:
        """The attributes on which all events of a match agree."""
        return tuple(test.name for test in self.plan.bound.equivalences)


@dataclass(frozen=True, slots=True)
class Found:
    """Events in stream order, the composite events that queries read after them, and the matches of each query."""

    events: pa.Table
    given: int
    """The number of events that are not composite."""
    schema: EventSchema
    matched: tuple[Matched, ...]
    plans: dict[str, Any]
    """The plans of all queries, including those with AGG."""
    aggregates: tuple[str, ...]
    """Queries with AGG: they have no matches to show."""


def find(queries: Queries, events: pa.Table, options: Options) -> Found:
    """All matches of the queries, one query at a time; the ids are those of `match`."""
    options, _ = multi_options_of(options)
    plans = queries.plans_for(events.schema, **{spec.name: getattr(options, spec.name) for spec in fields(Options)})
    aggregates = tuple(name for name, item in queries.queries.items() if item.logical.aggregates)
    if len(aggregates) == len(queries.queries):
        hint = "leave out AGG, GROUP BY and HAVING to see the underlying matches"
        raise PlanningError(Problem("a query with AGG has aggregate rows, not matches to explore", hint=hint))
    schema = schema_of_arrow(
        events.schema, time=options.time, type=options.type, order_by=options.order_by, types=options.schema
    )
    events = in_stream_order(events, schema)
    row = free_name("row", events.schema.names)
    source = events.append_column(row, _numbers(0, events.num_rows))
    if options.schema is not None:
        options = replace(options, schema={name: attributes | {row} for name, attributes in options.schema.items()})
    read_by = {name: queries.producers(name) for name in queries.queries if name not in aggregates}
    makers = {name for producers in read_by.values() for name in producers}
    made: dict[str, Composite] = {}
    matched: dict[str, Matched] = {}
    composites: list[Composite] = []
    for name in queries.order:
        if name in aggregates:
            continue
        with naming(name) if len(queries.queries) > 1 else nullcontext():
            item, read = queries[name], [made[other] for other in read_by[name]]
            own = own_options(item, options, read)
            matched[name] = _matched(item, with_composites(source, source.schema, read), own, row, plans[name])
            if name in makers:
                begin = events.num_rows + sum(composite.matches.num_rows for composite in composites)
                composites.append(_composite(matched[name], events.schema, options))
                made[name] = _numbered(composites[-1], row, begin)
    whole = _with_composites(events, composites)
    in_order = tuple(matched[name] for name in queries.queries if name in matched)
    return Found(whole, events.num_rows, schema, in_order, plans, aggregates)


def _numbers(begin: int, end: int) -> pa.Array:
    return pa.StructArray.from_arrays([pa.array(np.arange(begin, end))], names=["number"])


def _matched(item: Query, events: pa.Table, options: Options, row: str, shown: Any) -> Matched:
    plan: Any = item.plan_for(events.schema, options)  # any plan without AGG: all have a transformation
    positives = [event for event in plan.bound.components if not event.negated]
    returned = plan.transformation.columns
    rows = [(f"rows of {event.variable}", Attribute(event.variable, row, _element(event))) for event in positives]
    columns = plan.columns if row in plan.columns else (*plan.columns, row)
    plan = replace(plan, transformation=Transformation((*returned, *rows)), columns=columns)
    run = run_embedded(build_matcher(plan, events.schema, bad_rows=options.bad_rows or "error"), events, plan.bound.schema)
    matches = run.matches.combine_chunks()
    numbers = {event.variable: number for number, event in enumerate(plan.bound.components)}
    first = len(HEAD) + len(returned)
    parts = [
        _references(matches.column(first + place), numbers[event.variable], event) for place, event in enumerate(positives)
    ]
    match, found, variables = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
    order = np.argsort(match, kind="stable")
    offsets = np.zeros(matches.num_rows + 1, np.int64)
    np.cumsum(np.bincount(match, minlength=matches.num_rows), out=offsets[1:])
    return Matched(
        item,
        shown,
        matches.select([1, 2, 3]),
        matches.select(list(range(len(HEAD), first))),
        offsets,
        found.take(order),
        variables.take(order),
        run.metrics.bad,
        dropped_at_limits(run.metrics),
    )


def _element(event: Event) -> Element:
    return Element.EACH if event.is_kleene else Element.SINGLE


def _references(column: pa.ChunkedArray, number: int, event: Event) -> tuple[Array, Array, Array]:
    """For one component: the match of each of its events, the event's row, and the component; an absent variable has none."""
    values = whole(column)
    if event.is_kleene:
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
        match = np.repeat(np.arange(len(values)), lengths)
        values = pc.list_flatten(values)
    else:
        match = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        values = values.drop_null()
    rows = pc.struct_field(values, [0]).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return match, rows, np.full(match.size, number, np.int32)


def _composite(found: Matched, base: pa.Schema, options: Options) -> Composite:
    """The matches of a query as events."""
    names = [*HEAD[1:], *found.returned.schema.names]
    matches = pa.table([*found.heads.columns, *found.returned.columns], names=names)
    return composite_of(found.query, base, matches.schema, options, matches)


def _numbered(composite: Composite, row: str, begin: int) -> Composite:
    """Composite events with their row numbers."""
    numbers = _numbers(begin, begin + composite.matches.num_rows)
    schema = composite.schema.append(pa.field(row, numbers.type))
    return replace(composite, schema=schema, matches=composite.matches.append_column(row, numbers))


def _with_composites(events: pa.Table, composites: list[Composite]) -> pa.Table:
    """The events and the composite events. If composite events have an attribute with the name of another but of another kind,
    its name gets their type as a prefix, since different queries may read them.
    """
    shown: list[Composite] = []
    for composite in composites:
        try:
            common_schema(events.schema, [*shown, composite])
        except BindingError:
            composite = _renamed(composite)
        shown.append(composite)
    table: pa.Table = with_composites(events, events.schema, shown)
    return table


def _renamed(composite: Composite) -> Composite:
    names = {name: f"{composite.event_type}.{name}" for name in composite.attributes}
    schema = pa.schema([field.with_name(names.get(field.name, field.name)) for field in composite.schema])
    matches: pa.Table = composite.matches
    matches = matches.rename_columns([names.get(name, name) for name in matches.schema.names])
    return replace(composite, schema=schema, matches=matches)
