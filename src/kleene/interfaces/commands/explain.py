"""`kleene explain`: the plan that `match` would run, without running it; with --analyze, compared with its alternatives."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from kleene.interfaces.commands import arguments as shared
from kleene.interfaces.commands.arguments import UsageError
from kleene.interfaces.commands.terminal import put
from kleene.interfaces.options import EVENTS, PLAN

HELP = "show the plan of a query"
DESCRIPTION = (
    "Shows how a query would be answered over a file of events, or over events with the columns given by --columns. With "
    "--statistics, also shows the cost of the alternatives."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "kleene explain (QUERY | -q TEXT) (EVENTS | --columns NAME:TYPE,...) --time COLUMN [options]"
    shared.add_inputs(parser, "then the events", metavar="QUERY [EVENTS]", nargs="*")
    shared.add_others(parser)
    shared.add_functions(parser)
    shared.add_columns(parser)
    parser.add_argument("--svg", metavar="FILE", help="also draw the plan into a file: its operators, or its automaton")
    parser.add_argument("--compressed", action="store_true", help="the plan of compressed output")
    parser.add_argument(
        "--analyze",
        action="store_true",
        help="run the plan and every alternative over the first events, and compare their work",
    )
    shared.add_options(parser, EVENTS, time={"required": True})
    shared.add_options(parser)
    shared.add_limits(parser)
    shared.add_options(parser, PLAN)


def run(arguments: argparse.Namespace) -> int:
    """Prints the plan, after those of the queries that produce events for it, and optionally draws it."""
    source, events = _inputs(arguments)
    name, text = shared.query_text(arguments.query, source)
    queries = shared.run_queries(name, text, arguments.others, shared.functions(arguments))
    options = shared.options(arguments)
    if arguments.analyze:
        plans: dict[str, Any] = {name: queries[name].explain(events, analyze=True, **options)}
    else:
        plans = {**queries.explain(events.schema, **shared.by_name(name, options))}
    put("\n\n".join(str(plans[own]) for own in queries.order))
    if arguments.svg is not None:
        Path(arguments.svg).write_text(plans[name].svg(), encoding="utf-8")
    return 0


def _inputs(arguments: argparse.Namespace) -> tuple[str | None, Any]:
    """The query's file, and the events, or an empty table with their columns."""
    inputs = list(arguments.inputs)
    source = inputs.pop(0) if inputs and arguments.query is None else None
    if arguments.query is None and source is None:
        raise UsageError("a query is required: a file, `-` for standard input, or -q TEXT")
    if len(inputs) > 1:
        raise UsageError(f"one file of events is enough to explain a query; found {', '.join(inputs)}")
    if bool(inputs) == (arguments.columns is not None):
        raise UsageError("give either a file of events or --columns")
    if arguments.analyze and (arguments.columns is not None or arguments.others):
        raise UsageError("--analyze runs one query over a file of events: it cannot be combined with --columns or --with")
    if arguments.columns is not None:
        return source, shared.arrow_schema(arguments.columns).empty_table()

    from kleene.runtime.files import open_events

    return source, open_events(inputs[0])
