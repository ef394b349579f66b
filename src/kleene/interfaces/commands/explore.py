"""`kleene explore`: the matches of a query, or of a folder of queries, as one HTML page."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kleene.common.terminal import plural
from kleene.interfaces.commands import arguments as shared
from kleene.interfaces.commands import events
from kleene.interfaces.commands.arguments import UsageError
from kleene.interfaces.commands.progress import Progress
from kleene.interfaces.commands.terminal import say
from kleene.interfaces.options import BAD_ROWS, EVENTS, PLAN

if TYPE_CHECKING:
    from kleene.interfaces.workload.workload import Workload

HELP = "explore the matches of a query in a browser"
DESCRIPTION = (
    "Writes one HTML file with a timeline of the events, the matches on it, their events and values, and the plan. It needs "
    "no network. QUERY may be a folder of .sase files, which are explored together."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "kleene explore (QUERY | FOLDER | -q TEXT) EVENTS [EVENTS ...] --time COLUMN -o FILE.html [options]"
    words = "the query's file (or -) or a folder of queries, unless -q is given; then the events, in any order"
    shared.add_inputs(parser, help=words)
    shared.add_others(parser)
    shared.add_functions(parser)
    out = parser.add_argument_group("the page")
    out.add_argument("-o", "--output", metavar="FILE", required=True, help="the HTML file to write")
    out.add_argument("--show-matches", metavar="N", type=shared.count, help="most matches on the page (default 100000)")
    out.add_argument("--show-events", metavar="N", type=shared.count, help="most events on the page (default 200000)")
    shared.add_range(parser)
    bad_rows = {"choices": ["error", "drop"], "help": "rows that cannot be read (default: error)"}
    shared.add_options(parser, BAD_ROWS, bad_rows=bad_rows)
    shared.add_options(parser, EVENTS, time={"required": True})
    shared.add_options(parser)
    shared.add_limits(parser)
    shared.add_options(parser, PLAN)


def run(arguments: argparse.Namespace) -> int:
    """Writes the page; a summary of what it contains and omits goes to standard error."""
    import pyarrow as pa

    source, paths = shared.query_and_events(arguments)
    queries = _queries(arguments, source)
    with Progress("read") as progress:
        schema, batches = events.stream(paths, progress)
        table = pa.Table.from_batches(batches, schema)
    with warnings.catch_warnings(action="ignore"):  # the notices say the same
        page = queries.explore(table, **_options(arguments, queries))
    path = page.save(arguments.output)
    say(f"{plural(page.shown['matches'], 'match', 'matches')}, {plural(page.shown['events'], 'event')}: {path}")
    for notice in page.notices:
        say(f"note: {notice}")
    return 0


def _queries(arguments: argparse.Namespace, source: str | None) -> Workload:
    functions = shared.functions(arguments)
    if source is None or not Path(source).is_dir():
        name, text = shared.query_text(arguments.query, source)
        return shared.run_queries(name, text, arguments.others, functions)
    if arguments.others:
        raise UsageError("--with cannot be combined with a folder: a folder has all of its queries already")

    from kleene.interfaces.workload.sources import queries_in_files
    from kleene.interfaces.workload.workload import workload

    return workload(dict(queries_in_files(Path(source), functions)), functions=functions)


def _options(arguments: argparse.Namespace, queries: Workload) -> dict[str, Any]:
    options = shared.options(arguments)
    if len(queries.queries) == 1:
        options = shared.by_name(next(iter(queries.queries)), options)
    most = {"show_matches": arguments.show_matches, "show_events": arguments.show_events}
    return {**options, **shared.range_of(arguments), **{name: value for name, value in most.items() if value is not None}}
