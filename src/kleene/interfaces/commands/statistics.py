"""`kleene statistics`: statistics of the events for the planner of a query, as JSON for `--statistics`.

In this process the relevant columns of the files are read once, keeping a sample. On Spark one pass counts and samples.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kleene.interfaces.commands import arguments as shared
from kleene.interfaces.commands import events
from kleene.interfaces.commands.arguments import UsageError
from kleene.interfaces.commands.progress import Progress
from kleene.interfaces.commands.terminal import put, say
from kleene.interfaces.options import EVENTS, options_of

if TYPE_CHECKING:
    from kleene.interfaces.query import Query
    from kleene.plan.order.statistics import Statistics

HELP = "measure statistics of events for the planner"
DESCRIPTION = (
    "Measures how often each variable of a query finds an event and how often the conditions between events hold. Prints JSON, "
    "which `kleene match` and `kleene explain` take as --statistics."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "kleene statistics (QUERY | -q TEXT) EVENTS [EVENTS ...] --time COLUMN [--type COLUMN] [options]"
    shared.add_inputs(parser)
    shared.add_functions(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write to this file")
    share = shared.number("a number above 0 and at most 1", lambda share: 0 < share <= 1)
    parser.add_argument("--fraction", metavar="F", type=share, help="on Spark: use a random share of the rows, such as 0.1")
    shared.add_options(parser, EVENTS, time={"required": True})
    shared.add_options(parser)
    shared.add_running(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measures and prints or writes the statistics; the summary goes to standard error."""
    source, paths = shared.query_and_events(arguments)
    if arguments.fraction is not None and arguments.engine != "spark":
        raise UsageError("--fraction needs --engine spark: in this process a sample is kept anyway")
    name, text = shared.query_text(arguments.query, source)

    from kleene.interfaces.query import query

    asked = query(text, name=name, functions=shared.functions(arguments))
    with Progress("read") as progress:
        spark = arguments.engine == "spark"
        found = _on_spark(arguments, asked, paths) if spark else _embedded(arguments, asked, paths, progress)
    written = json.dumps(found.to_json(), indent=2, ensure_ascii=False)
    if arguments.output is None:
        put(written)
    else:
        Path(arguments.output).write_text(written + "\n", encoding="utf-8")
    say(f"{found.events:,} relevant events, {progress.seconds:.2f} s")
    return 0


def _embedded(arguments: argparse.Namespace, query: Query, paths: list[str], progress: Progress) -> Statistics:
    import pyarrow as pa

    from kleene.engine.passes.observe import read_columns
    from kleene.plan.options import LazyOptions
    from kleene.plan.patterns import is_lazy

    roles = shared.options(arguments)
    roles["partition_by"] = [*roles.get("partition_by", ()), *query.logical.group_by]
    query = _matching(query)
    schema, _ = events.stream(paths, progress)
    plan = query.plan_for(schema, replace(options_of(roles), plan=LazyOptions()))
    assert is_lazy(plan)
    columns = read_columns(plan.bound, plan.scanned, plan.conditions, plan.partition)
    schema, batches = events.stream(paths, progress, columns)
    if arguments.unsorted:
        return query.statistics(pa.Table.from_batches(batches, schema), **roles)
    return query.statistics(pa.RecordBatchReader.from_batches(schema, batches), **roles)


def _matching(query: Query) -> Query:
    """The query without RETURN and AGG, on which statistics do not depend, so that their columns are not read."""
    bare = replace(query.logical, aggregates=(), group_by=(), having=None, emit_on_change=False, returns=(), into=None)
    return replace(query, logical=bare)


def _on_spark(arguments: argparse.Namespace, query: Query, paths: list[str]) -> Statistics:
    from kleene.interfaces.commands import spark

    with spark.session(arguments.master) as session:
        return query.statistics(spark.read(session, paths), fraction=arguments.fraction, **shared.options(arguments))
