"""`kleene why-not`: how far a query got over the events of a key and a time range, and what stopped it."""

from __future__ import annotations

import argparse
import json
from typing import Any

from kleene.interfaces.commands import arguments as shared
from kleene.interfaces.commands.progress import Progress
from kleene.interfaces.commands.terminal import put
from kleene.interfaces.options import BAD_ROWS, EVENTS

HELP = "explain why a query does not match some events"
DESCRIPTION = (
    "Reports how far the pattern of a query got over events and which condition, window, order or negation stopped it, and "
    "shows the nearest misses. Select few events: those of a key and a range of time."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "kleene why-not (QUERY | -q TEXT) EVENTS [EVENTS ...] --time COLUMN [--type COLUMN] [options]"
    shared.add_inputs(parser, "then the events")
    shared.add_functions(parser)
    shared.add_range(parser)
    parser.add_argument(
        "--nearest", metavar="N", type=shared.count, default=5, help="near misses shown for each cause (default 5)"
    )
    parser.add_argument("--format", choices=["text", "json"], default="text", help="the format of the report (default: text)")
    bad_rows = {"choices": ["error", "drop"], "help": "rows that cannot be read (default: error)"}
    shared.add_options(parser, BAD_ROWS, bad_rows=bad_rows)
    shared.add_options(parser, EVENTS, time={"required": True})
    shared.add_options(parser)
    shared.add_engine(parser.add_argument_group("how it runs"), "select the events in this process, or on Spark")


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
