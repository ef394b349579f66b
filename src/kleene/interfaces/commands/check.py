"""`kleene check`: checks a query, alone or against the columns of events; it reads no events."""

from __future__ import annotations

import argparse

from kleene.interfaces.commands import arguments as shared
from kleene.interfaces.commands.arguments import UsageError
from kleene.interfaces.commands.terminal import put
from kleene.interfaces.options import EVENTS, options_of

HELP = "check a query, alone or against the columns of events"
DESCRIPTION = (
    "Parses and validates a query and prints it in normal form. With --events or --columns, also checks names and types."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="QUERY", nargs="?", help="the query's file, or - for standard input")
    shared.add_query(parser)
    shared.add_others(parser)
    shared.add_functions(parser)
    parser.add_argument("--events", metavar="FILE", help="a Parquet, CSV or NDJSON file whose columns the query must fit")
    shared.add_columns(parser, "the columns themselves, such as ts:timestamp,id:string")
    shared.add_options(parser, EVENTS)
    shared.add_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Checks and prints the query."""
    if arguments.query is not None and arguments.source is not None:
        raise UsageError("give the query as a file or with -q, not both")
    if arguments.time is None and (arguments.events is not None or arguments.columns is not None):
        raise UsageError("--time COLUMN is required to check a query against events")
    found = shared.described_events(arguments)
    name, text = shared.query_text(arguments.query, arguments.source)

    from kleene.interfaces.inputs import arrow_schema_of
    from kleene.interfaces.query import query

    arrow = None if found is None else arrow_schema_of(found)
    functions = shared.functions(arguments)
    asked = query(text, name=name, functions=functions)
    if arguments.others:
        queries = shared.run_queries(name, text, arguments.others, functions)
        if arrow is not None:
            queries.plans_for(arrow, **shared.options(arguments))  # the plans of the others define what they return
    elif arrow is not None:
        asked.bound_to(arrow, options_of(shared.options(arguments)))
    put(asked)
    return 0
