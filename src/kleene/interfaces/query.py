"""The public Python API: a query, and what can be asked of it.

One query through the code: `query(text)` parses (`kleene.language`) and validates (`kleene.pattern`); `match` binds it to the
events' columns (`kleene.pattern.bind`), plans it (`kleene.plan`), builds a matcher (`kleene.engine`) and runs it where the
events are (`kleene.runtime`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Unpack

from kleene.common.errors import BindingError, DataError, PlanningError, Problem, nearest
from kleene.common.schema import schema_of_arrow
from kleene.interfaces.functions import functions_of
from kleene.interfaces.inputs import arrow_schema_of, is_spark_frame, table_of
from kleene.interfaces.options import (
    EventOptions,
    ExploreOptions,
    MatchOptions,
    Options,
    known_statistics,
    options_of,
    takes_options,
)
from kleene.language.parser import parse
from kleene.language.printer import to_text
from kleene.pattern.bind import bind
from kleene.pattern.policies import LogicalQuery, Strategy
from kleene.pattern.timeouts import timed_out
from kleene.pattern.validate import validate

if TYPE_CHECKING:
    import pyarrow as pa

    from kleene.engine.matcher import Matcher
    from kleene.explain.trace import Trace
    from kleene.interfaces.explorer.page import Explorer
    from kleene.interfaces.why_not.report import WhyNot
    from kleene.pattern.bound import BoundQuery
    from kleene.pattern.registered import Function
    from kleene.plan.contract import Plan
    from kleene.plan.order.statistics import Statistics


@dataclass(frozen=True, slots=True)
class Query:
    """A query that has been parsed and checked; made by `kleene.query` or by the builder.

    >>> import pyarrow as pa
    >>> events = pa.table({"ts": [1, 2, 3], "type": ["A", "B", "B"]})
    >>> found = query("PATTERN SEQ(A a, B b) WITHIN 2").match(events, time="ts", type="type")
    >>> found.column("match_end").to_pylist()
    [2]
    """

    logical: LogicalQuery
    _planned: list[tuple[pa.Schema, Options, Plan]] = field(default_factory=list, init=False, repr=False, compare=False)
    """The last plan, for events and options of the same kind: small tables that come one after the other need it only once."""

    @property
    def name(self) -> str:
        return self.logical.name

    def __str__(self) -> str:

        return to_text(self.logical)

    def _repr_html_(self) -> str:
        from kleene.explain.notebook import query_html

        return query_html(str(self))

    @takes_options(MatchOptions)
    def match(self, events: Any, **options: Unpack[MatchOptions]) -> Any:
        """All matches of the query in the events.

        `events` is a Spark DataFrame, and the result then a lazy Spark DataFrame, of a stream a streaming one; or a pyarrow
        Table or RecordBatchReader, a pandas or Polars DataFrame, or anything else with the Arrow C stream interface, and the
        result then a pyarrow Table.

        Args:
            events: The events; a table in any order, a stream of batches in stream order.
        """
        return self.run_for(events, options_of(options)).matches

    @takes_options(MatchOptions)
    def run(self, events: Any, **options: Unpack[MatchOptions]) -> Any:
        """Like `match`, but gives the whole run: `matches`, `bad_rows` (with a reason each) and, embedded, `metrics`.

        >>> import pyarrow as pa
        >>> events = pa.table({"ts": [1, None, 3], "type": ["A", "A", "A"]})
        >>> run = query("PATTERN A a").run(events, time="ts", type="type", bad_rows="drop")
        >>> run.metrics.matches, run.metrics.bad
        (2, 1)
        """
        return self.run_for(events, options_of(options))

    @takes_options(MatchOptions)
    def explain(self, events: Any, *, analyze: bool = False, **options: Unpack[MatchOptions]) -> Any:
        """The plan for events like these as `Explained`: `str()` of it is the text of the plan, `plan` the plan itself.

        Only the schema of the events is read, unless `analyze` asks to run the plan and its alternatives over (the first of)
        them, and to say what each was expected to cost and did cost. On a Spark DataFrame `analyze` looks at a sample, and says
        how the events are distributed over tasks.
        """
        given = options_of(options)
        if analyze:
            from kleene.interfaces.analyze import analyze as compare
            from kleene.interfaces.analyze import distribute

            return (distribute if is_spark_frame(events) else compare)(self, events, given)
        from kleene.explain.explained import Explained

        return Explained(self.plan_for(arrow_schema_of(events), given))

    @takes_options(MatchOptions)
    def statistics(self, events: Any, *, fraction: float | None = None, **options: Unpack[MatchOptions]) -> Statistics:
        """How often each component finds an event and how often conditions hold, measured on events: for `stats=`.

        Of a table a sample is read, of a Spark DataFrame everything once (or a random `fraction`). A stream of batches is used
        up. `options` are those of `match`.

        >>> import pyarrow as pa
        >>> events = pa.table({"ts": [1, 2, 3, 4], "type": ["A", "A", "A", "B"]})
        >>> query("PATTERN SEQ(A a, B b) WITHIN 4").statistics(events, time="ts", type="type").rates
        {'a': 0.75, 'b': 0.25}
        """
        from kleene.plan.optimizer import plan_matches
        from kleene.plan.options import LazyOptions

        given = options_of(options)
        strategy = self.logical.strategy
        if strategy is not Strategy.SKIP_TILL_ANY_MATCH:
            message = f"statistics are for choosing the order of binding: {strategy.value} takes events as they come"
            raise PlanningError(Problem(message, hint="there is nothing to choose"))
        if is_spark_frame(events):
            from kleene.runtime.spark.frame import arrow_schema
            from kleene.runtime.spark.statistics import collect_spark

            plan = plan_matches(self.bound_to(arrow_schema(events), given), LazyOptions())
            return collect_spark(plan.bound, plan.scanned, plan.conditions, plan.partition, events, fraction=fraction)
        import pyarrow as pa

        from kleene.engine.passes.observe import collect_arrow
        from kleene.runtime.embedded import event_stream, in_stream_order

        stream = event_stream(events)
        plan = plan_matches(self.bound_to(stream.schema, given), LazyOptions())
        if isinstance(stream, pa.Table):
            stream = in_stream_order(stream, plan.bound.schema)
        return collect_arrow(plan.bound, plan.scanned, plan.conditions, plan.partition, stream)

    @takes_options(EventOptions)
    def why_not(
        self,
        events: Any,
        *,
        key: Any = None,
        since: Any = None,
        until: Any = None,
        nearest: int = 5,
        **options: Unpack[EventOptions],
    ) -> WhyNot:
        """How far the pattern got over some events, which constraint stopped it, and the nearest misses.

        `events` are those of `match`, and `options` those that say what their columns are. `key` ({"item": "razor"}, or the
        value or list of values of the query's equivalence tests), `since` and `until` (both included) choose some of them; a
        Spark DataFrame is filtered there first. `str()` of the report is a text.

        >>> import pyarrow as pa
        >>> events = pa.table({"ts": [1, 2, 9], "type": ["A", "B", "B"], "x": [5, 3, 7]})
        >>> report = query("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 8").why_not(events, time="ts", type="type")
        >>> for cause in report.causes:
        ...     print(cause.text, "|", cause.count.number, "|", cause.nearest[0].reasons[0])
        a.x < b.x | 1 | 5 < 3 is false, short by 2
        WITHIN 8 | 1 | spans 8, exactly the window, which is open at its end
        """
        from kleene.interfaces.why_not.why_not import why_not

        return why_not(self, events, key, since, until, nearest, options)

    @takes_options(ExploreOptions)
    def explore(self, events: Any, **options: Unpack[ExploreOptions]) -> Explorer:
        """The matches on a page: a timeline of the events with the matches over it, to look at in a browser or a notebook.

        `events` and `options` are those of `match`. `key`, `since` and `until` choose some of the events, as in `why_not`; a
        Spark DataFrame is filtered there, and what is left is brought to this process. `show_matches` (100,000) and
        `show_events` (200,000) limit what is on the page, which says what was left out. `save(path)` writes one HTML file.

        >>> import pyarrow as pa
        >>> events = pa.table({"ts": [1, 2, 3], "type": ["A", "A", "B"]})
        >>> query("PATTERN SEQ(A a, B b)").explore(events, time="ts", type="type").shown
        {'events': 3, 'matches': 2}
        """
        from kleene.interfaces.composition.queries import Queries
        from kleene.interfaces.explorer.explore import explore

        stats = options.get("stats")
        return explore(Queries({self.name: self}), events, {**options, "stats": None if stats is None else {self.name: stats}})

    def timed_out(self) -> dict[str, Query]:
        """Queries, by name, for partial matches that timed out: the query and these make a workload.

        There is one for each component but the first of a sequence. Its matches are prefixes of a match whose window passed
        before an event of that component extended them.

        >>> list(query("PATTERN SEQ(A a, B b, C c) WITHIN 1 hour", name="steps").timed_out())
        ['steps_without_b', 'steps_without_c']
        """
        named = {f"{self.name}_without_{variable}": partial for variable, partial in timed_out(self.logical)}
        return {name: query(partial, name=name) for name, partial in named.items()}

    def plan_for(self, events: pa.Schema, options: Options) -> Plan:
        """The plan for events with an Arrow schema."""
        from kleene.plan.optimizer import make_plan

        # What a user may change behind the options' back is not kept.
        kept = options.params is None and options.plan is None and options.limits is None and options.stats is None
        for known, given, plan in self._planned:
            if kept and given == options and known.equals(events):
                return plan
        plan = make_plan(
            self.bound_to(events, options),
            options.plan,
            ties=options.ties,
            output=options.output,
            limits=options.limits,
            statistics=known_statistics(options.stats),
        )
        if kept:
            self._planned[:] = [(events, options, plan)]
        return plan

    def bound_to(self, events: pa.Schema, options: Options) -> BoundQuery:
        """The query bound to events with an Arrow schema."""
        if options.bad_rows == "quarantine" and "reason" in events.names:
            message = "the events have a column 'reason', which is what bad_rows='quarantine' calls the reason of a bad row"
            raise BindingError(Problem(message, hint="rename the column"))
        schema = schema_of_arrow(events, time=options.time, type=options.type, order_by=options.order_by, types=options.schema)
        return bind(self.logical, schema, params=options.params, partition_by=options.partition_by)

    def matcher(self, events: pa.Schema, options: Options, **tuning: Any) -> Matcher:
        """A matcher to be fed batch by batch."""
        from kleene.engine.build import build_matcher

        return build_matcher(self.plan_for(events, options), events, bad_rows=options.bad_rows or "error", **tuning)

    @takes_options(MatchOptions)
    def trace(self, events: Any, *, label: str | None = None, **options: Unpack[MatchOptions]) -> Trace:
        """The runs of the query's automaton and the shared match buffer after each event of a small table, as SASE+ shows them.

        Events are called e1, e2, ... in stream order, or by their values in the column `label`. See `kleene.explain.trace`.

        >>> import pyarrow as pa
        >>> events = pa.table({"ts": [1, 2, 3], "type": ["A", "A", "B"]})
        >>> traced = query("PATTERN SEQ(A+ a[], B b)").trace(events, time="ts", type="type")
        >>> [len(step.accepted) for step in traced.steps]
        [0, 0, 3]
        """
        from kleene.explain.trace import trace
        from kleene.runtime.embedded import in_stream_order

        if is_spark_frame(events):
            raise DataError(Problem("a trace is made of a small table, not of a Spark DataFrame", hint="pass events.toArrow()"))
        given = options_of(options)
        if given.plan is None:
            given = replace(given, plan={"mechanism": "nfa"})
        table = table_of(events)
        plan = self.plan_for(table.schema, given)
        if label is not None and label not in table.schema.names:
            message = f"label column '{label}' is not a column of the events"
            raise BindingError(Problem(message, hint=nearest(label, table.schema.names)))
        return trace(plan, in_stream_order(table, plan.bound.schema), label=label)

    def run_for(self, events: Any, options: Options) -> Any:
        """The run over events, with checked options."""
        if is_spark_frame(events):
            if events.isStreaming:
                from kleene.interfaces.streams import run_query

                return run_query(self, events, options)
            from kleene.runtime.spark.batch import run_spark
            from kleene.runtime.spark.frame import arrow_schema

            plan = self.plan_for(arrow_schema(events), options)
            bad_rows = options.bad_rows or "error"
            return run_spark(plan, events, bad_rows=bad_rows, columns=options.columns, scan=options.scan)
        from kleene.runtime.embedded import event_stream, run_unit
        from kleene.runtime.units import PlannedQuery

        stream = event_stream(events)
        unit = PlannedQuery(self.name, self.plan_for(stream.schema, options)).alone
        (run,) = run_unit(unit, stream, bad_rows=options.bad_rows or "error", columns=options.columns)
        return run


def query(
    source: str | LogicalQuery | Any,
    *,
    name: str | None = None,
    functions: Mapping[str, Callable[..., Any]] | Iterable[Function] | None = None,
) -> Query:
    """A query from text, from the builder, or from a logical query; raises on the first phase that finds fault.

    `functions` are Python functions that it may call, by name: those made by `kleene.function`, or plain ones that take Arrow
    arrays and return floats. They travel with the query.

    >>> print(query("pattern seq(A a, B b) where [id] within 1 hour"))
    PATTERN SEQ(A a, B b)
    WHERE [id]
    WITHIN 1 hour
    """
    given = functions_of(functions)
    if isinstance(source, str):
        logical = parse(source, name=name or "query")
    elif isinstance(source, LogicalQuery):
        logical = replace(source, name=name) if name else source
    elif hasattr(source, "build"):
        logical = source.build(**({"name": name} if name else {}))
    else:
        raise BindingError(f"a query is text or comes from the builder, not {type(source).__name__}")
    if given:
        logical = replace(logical, functions=tuple({item.key: item for item in (*logical.functions, *given)}.values()))
    validate(logical)
    return Query(logical)


@takes_options(MatchOptions)
def statistics(query: Query, events: Any, *, fraction: float | None = None, **options: Unpack[MatchOptions]) -> Statistics:
    """What a planner wants to know of events for a query; see `Query.statistics`."""
    return query.statistics(events, fraction=fraction, **options)
