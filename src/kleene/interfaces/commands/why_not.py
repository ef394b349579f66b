"""`kleene why-not`: how far a query got over the events of a key and a time range, and what stopped it."""

from __future__ import annotations

import argparse
import json
from typing import Any

from kleene.interfaces.commands import arguments as shared
from kleene.interfaces.commands.progress import Progress
from kleene.interfaces.commands.terminal import put
from kleene.interfaces.options import BAD_ROWS, EVENTS

HELP = "say why a query does not match some events"
DESCRIPTION = (
    "Says how far the pattern of a query got over events, which condition, window, order or negation stopped it, and shows the "
    "nearest misses. Ask about few events: those of a key, and of a time."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.usage = "kleene why-not (QUERY | -q TEXT) EVENTS [EVENTS ...] --time COLUMN [--type COLUMN] [options]"
    parser.add_argument(
        "inputs", metavar="QUERY EVENTS", nargs="+", help="the query's file (or -), unless -q is given; then the events"
    )
    shared.add_query(parser)
    shared.add_functions(parser)
    shared.add_range(parser)
    parser.add_argument("--nearest", metavar="N", type=shared.count, default=5, help="near misses that are shown (default 5)")
    parser.add_argument("--format", choices=["text", "json"], default="text", help="how the report is written (default: text)")
    bad_rows = {"choices": ["error", "drop"], "help": "rows that cannot be read (default: error)"}
    shared.add_options(parser, BAD_ROWS, bad_rows=bad_rows)
    shared.add_options(parser, EVENTS, time={"required": True})
    shared.add_options(parser)
    group = parser.add_argument_group("how it runs")
    group.add_argument(
        "--engine", choices=["embedded", "spark"], default="embedded", help="choose the events in this process, or on Spark"
    )
    group.add_argument("--master", default="local[*]", help="Spark's master (default: local[*])")


def run(arguments: argparse.Namespace) -> int:
    """Prints the report."""
    source, paths = shared.query_and_events(arguments)
    name, text = shared.query_text(arguments.query, source)

    from kleene.interfaces.query import query

    asked = query(text, name=name, functions=shared.functions(arguments))
    options = {**shared.options(arguments), **shared.range_of(arguments), "nearest": arguments.nearest}
    if arguments.engine == "spark":
        from kleene.interfaces.commands import spark

        with spark.session(arguments.master) as session:
            report = asked.why_not(spark.read(session, paths), **options)
    else:
        report = _embedded(asked, paths, options)
    put(json.dumps(report.to_dict(), indent=2, ensure_ascii=False) if arguments.format == "json" else report)
    return 0


def _embedded(asked: Any, paths: list[str], options: dict[str, Any]) -> Any:
    import pyarrow as pa

    from kleene.interfaces.commands import events

    with Progress("read") as progress:
        schema, batches = events.stream(paths, progress)
        return asked.why_not(pa.RecordBatchReader.from_batches(schema, batches), **options)
