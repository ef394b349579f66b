"""Workloads: named queries over the same events, whose `RETURN ... INTO Type` events other queries of the workload can read.

A match of a query with INTO is a composite event: its time is `match_end`, its type the one named, its attributes the RETURN
columns (semantics, section 6). Composite events are added, in stream order, to what the queries that name their type read, and
to nothing else: every query's matches are what they would be alone over its events.

Queries that make events come before those that read them, so the events are held as one table. Queries that can be are matched
together (`kleene.runtime.units`), the others one by one. On Spark everything stays lazy, and queries share passes over the data
(`kleene.interfaces.workload.spark`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from kleene.common.errors import BindingError, Problem
from kleene.interfaces.composition.composites import held
from kleene.interfaces.composition.queries import Queries
from kleene.interfaces.composition.shared import SharedExplanation, explained, multi_options_of, naming
from kleene.interfaces.functions import functions_of
from kleene.interfaces.inputs import arrow_schema_of, is_spark_frame
from kleene.interfaces.options import ExploreOptions, MatchOptions, options_of, takes_options
from kleene.interfaces.query import Query, query
from kleene.interfaces.streams import is_streaming, run_workload
from kleene.interfaces.workload.sources import named_queries
from kleene.interfaces.workload.spark import explained_passes, run_passes
from kleene.pattern.policies import LogicalQuery
from kleene.pattern.registered import Function

if TYPE_CHECKING:
    from kleene.explain.explained import Explained
    from kleene.interfaces.explorer.page import Explorer
    from kleene.plan.multi.search import Progress
    from kleene.runtime.embedded import Run


@dataclass(frozen=True, slots=True)
class Workload(Queries):
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

    functions: tuple[Function, ...] = ()
    """Those that all queries may call."""

    def _repr_html_(self) -> str:
        from kleene.explain.notebook import queries_html

        return queries_html((name, str(item)) for name, item in self.queries.items())

    @takes_options(MatchOptions)
    def match(self, events: Any, **options: Unpack[MatchOptions]) -> dict[str, Any]:
        """The matches of every query, by its name; see `Query.match` for the options, which hold for all queries.

        Only `stats` are those of one query: they are given by its name, as {"pairs": {"rates": {"a": 20}}}.
        Matches are pyarrow Tables, or lazy DataFrames of a Spark DataFrame. A RecordBatchReader is read into a table first.
        Queries with INTO always have a row per match, whatever `output` says: their matches are events.
        """
        if is_streaming(events):
            return {name: run[name] for run in (self.run(events, **options),) for name in self.queries}
        return {name: run.matches for name, run in self.run(events, **options).items()}

    @takes_options(MatchOptions)
    def run(self, events: Any, **options: Unpack[MatchOptions]) -> Any:
        """Like `match`, but gives whole runs by name, see `Query.run`; of a stream one `StreamRun`."""
        if is_streaming(events):
            return run_workload(self, events, options_of(options))
        given, multi = multi_options_of(options_of(options))
        if is_spark_frame(events):
            return run_passes(self, events, given, multi)
        from kleene.runtime.embedded import found_once, in_stream_order, joined_chunks, run_unit
        from kleene.runtime.units import QuerySet

        source = held(events)
        base = arrow_schema_of(source)
        runs: dict[str, Run] = {}
        for tier in self.tiers(base, given, multi):
            with self.naming(tier.queries[0].name):
                read = in_stream_order(joined_chunks(tier.over(source, base, runs)), tier.queries[0].plan.bound.schema)
            units = list(QuerySet(tier.queries, multi).units())
            for unit, found in zip(units, found_once(units), strict=True):
                with self.naming(*unit.names):
                    finished = run_unit(unit, read, bad_rows=given.bad_rows or "error", found=found)
                    runs |= zip(unit.names, finished, strict=True)
        return {name: runs[name] for name in self.queries}

    @takes_options(MatchOptions)
    def explain(self, events: Any, **options: Unpack[MatchOptions]) -> dict[str, Explained]:
        """The plan of every query as `Explained`; of the events, which may be an Arrow schema, only the columns are read."""
        from kleene.explain.explained import Explained

        return {name: Explained(plan) for name, plan in self.plans_for(events, **options).items()}

    @takes_options(MatchOptions)
    def explain_shared(
        self, events: Any, *, progress: Callable[[Progress], None] | None = None, **options: Unpack[MatchOptions]
    ) -> SharedExplanation:
        """How the queries would be answered together, and what that costs beside other plans; print it, or draw it with `svg`.

        Of a Spark DataFrame it also has the passes over the data, each with its queries, what it is shuffled by, and why. The
        plan is made for a sample of the events; of an Arrow schema only the columns are read, and all rates are the same.
        `progress` is called while a plan is searched for.
        """
        import pyarrow as pa

        from kleene.plan.multi.search import MultiOptions

        given, multi = multi_options_of(options_of(options))
        source = events if isinstance(events, pa.Schema) else held(events)
        tiers = self.tiers(arrow_schema_of(source), given, multi)
        passes = explained_passes(tiers, source) if is_spark_frame(source) else ()
        apart = {name for _, found in passes for name in found.alone}
        planned = {item.name: item.shared for tier in tiers if not tier.read for item in tier.queries}
        plans = {name: plan for name in self.queries if (plan := planned.get(name)) is not None and name not in apart}
        alone = tuple(name for name in self.queries if name not in plans)
        return replace(explained(plans, alone, source, multi or MultiOptions(), progress), passes=passes)

    @takes_options(ExploreOptions)
    def explore(self, events: Any, **options: Unpack[ExploreOptions]) -> Explorer:
        """The matches of all queries on a page, see `Query.explore`; `stats` are given by the query's name."""
        from kleene.interfaces.explorer.explore import explore

        return explore(self, events, options)

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
