"""Rules: queries that are added, replaced, paused and removed while a stream runs.

They come from a folder or a table that is re-read before every micro-batch. Changes are part of the stream: they apply, in all
buckets, to events from the watermark of their micro-batch on, and survive restarts.

The matches of all rules are in one DataFrame, whose columns do not depend on them.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Unpack
from uuid import uuid4

from kleene.common.errors import BindingError, Problem, described
from kleene.common.schema import schema_of_arrow
from kleene.interfaces.composition.shared import multi_options_of, planned_query
from kleene.interfaces.functions import functions_of
from kleene.interfaces.options import MatchOptions, Options, options_of, takes_options
from kleene.interfaces.query import query
from kleene.interfaces.streams import distributions, failing_of, is_streaming, schema_of_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kleene.pattern.registered import Function
    from kleene.plan.multi.search import MultiOptions
    from kleene.runtime.rules.snapshot import Rule
    from kleene.runtime.spark.stream.run import StreamRun
    from kleene.runtime.stream.bucket import Compiled
    from kleene.runtime.units import PlannedQuery

REMEMBERED = 8
"""Number of snapshots of rules whose plans a process caches."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a folder or a table; made by `kleene.rules`."""

    source: str
    functions: tuple[Function, ...] = ()

    @takes_options(MatchOptions)
    def match(self, events: DataFrame, **options: Unpack[MatchOptions]) -> DataFrame:
        """The matches of all rules over a streaming DataFrame; see `Query.match` for the options, which hold for all rules.

        Its columns are `query`, `query_version`, `match_id`, `match_start`, `match_end`, then `events`, the events of the match
        each with its `variable`, and `returned`, the RETURN columns or aggregates as text by name.
        """
        found: DataFrame = self.run(events, **options).matches
        return found

    @takes_options(MatchOptions)
    def run(self, events: DataFrame, **options: Unpack[MatchOptions]) -> StreamRun:
        """Like `match`, but gives the whole run, whose `problems` are rules that do not run, and why.

        Events are spread by `partition_by`, which all rules have then; without it one task does all the work.
        """
        from kleene.runtime.spark.stream.rules import rule_names, rules_stream
        from kleene.runtime.spark.stream.run import StreamRun, StreamTier
        from kleene.runtime.stream.plan import StreamPlan
        from kleene.runtime.stream.rows import rows_schema

        if not is_streaming(events):
            message = "rules that change are for streaming DataFrames"
            raise BindingError(Problem(message, hint=f"over a table, use kleene.workload({self.source!r})"))
        given, multi = multi_options_of(options_of(options))
        if given.output != "verbose" or given.stats is not None:
            message = "of rules, matches are written out, and statistics are measured while they run"
            raise BindingError(Problem(message, hint="leave out the options output and stats"))
        schema = schema_of_stream(events)
        described = schema_of_arrow(schema, time=given.time, type=given.type, order_by=given.order_by, types=given.schema)
        compile = RuleCompiler(schema, given, multi, self.functions)
        spread: Mapping[tuple[str, ...], list[PlannedQuery]] = {given.partition_by: []}
        over = distributions(events, spread, given, multi)
        policy, failing = given.bad_rows or "quarantine", failing_of(given, "suspend")
        plan = StreamPlan(
            described, schema, schema, over, policy, given.max_events, compile=compile, columns=tuple(schema.names), **failing
        )
        rules = rules_stream(events.sparkSession, self.source)
        tier = StreamTier(events, plan, plan)
        known = rule_names(events.sparkSession, self.source)
        return StreamRun((tier,), {"rules": rows_schema(described, schema)}, given.watermark, rules, known, given.max_ahead)


def rules(source: str, *, functions: Mapping[str, Callable[..., Any]] | Iterable[Function] | None = None) -> Rules:
    """Rules that change while a stream runs: a folder of `.sase` files, or a table with the columns `name` and `query`.

    The source is read again before every micro-batch. A query is paused by adding `.paused` to the name of its file, or by the
    column `paused` of the table.
    """
    return Rules(str(source), functions_of(functions))


_compiled: OrderedDict[tuple[str, str], Compiled] = OrderedDict()


@dataclass(frozen=True, slots=True)
class RuleCompiler:
    """Makes queries of rules, wherever the stream runs.

    A process remembers what it has made by the compiler's name: another stream has another one, whatever it has in common.
    """

    events: pa.Schema
    options: Options
    multi: MultiOptions | None
    functions: tuple[Function, ...]
    name: str = field(default_factory=lambda: uuid4().hex)

    def __call__(self, text: str) -> Compiled:
        """The queries of a snapshot; problems of a rule are reported, and the others run."""
        known = (self.name, text)
        if known not in _compiled:
            _compiled[known] = self._compile(text)
            while len(_compiled) > REMEMBERED:
                _compiled.popitem(last=False)
        _compiled.move_to_end(known)
        return _compiled[known]

    def _compile(self, text: str) -> Compiled:
        from kleene.runtime.rules.snapshot import parse_rules
        from kleene.runtime.stream.bucket import Compiled
        from kleene.runtime.units import QuerySet

        snapshot = parse_rules(text)
        queries, problems = [], [(name, 0, message) for name, message in snapshot.problems.items()]
        for name, rule in snapshot.queries.items():
            if rule.paused:
                continue
            try:
                queries.append(self._query(name, rule))
            except Exception as error:  # noqa: BLE001 - whatever is wrong with a rule, the others run
                problems.append((name, rule.version, described(error)))
        return Compiled(QuerySet(tuple(queries), self.multi), tuple(problems))

    def _query(self, name: str, rule: Rule) -> PlannedQuery:
        item = query(rule.text, name=name, functions=self.functions)
        if item.logical.into is not None:
            message = "a rule cannot make events for others: RETURN ... INTO"
            raise BindingError(Problem(message, hint="use a workload, whose queries do not change"))
        options = replace(self.options, stats=None)
        return planned_query(item, self.events, options, self.multi, rule.version)
