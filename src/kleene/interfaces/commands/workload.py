"""`kleene workload`: the queries of a folder together: checked, planned as one, matched in one run.

The queries are the `.sase` files of a folder, or one such file (`kleene.interfaces.workload.sources`). Each gives what it gives
alone; `explain` shows what they share.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from kleene.common.errors import KleeneError
from kleene.common.paths import path_segments
from kleene.common.terminal import plural
from kleene.interfaces.commands import arguments as shared
from kleene.interfaces.commands import events, output
from kleene.interfaces.commands.arguments import UsageError
from kleene.interfaces.commands.progress import Line, Progress
from kleene.interfaces.commands.terminal import put, say
from kleene.interfaces.options import EVENTS, PLAN

if TYPE_CHECKING:
    import pyarrow as pa

    from kleene.interfaces.workload.workload import Workload
    from kleene.plan.multi.search import Progress as Searched

HELP = "check, explain or match all queries of a folder together"
DESCRIPTION = "Runs the queries of a folder, its .sase files, together: what they have in common is evaluated once."
FORMATS = ("parquet", "arrow", "csv", "ndjson")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command, per action."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, action in ACTIONS.items():
        own = actions.add_parser(name, help=action.summary, description=action.description, allow_abbrev=False)
        own.usage = f"kleene workload {name} FOLDER {action.usage}"
        own.set_defaults(parser=own)
        own.add_argument("folder", metavar="FOLDER", help="the folder of queries, one .sase file each; or one such file")
        action.add_arguments(own)
        shared.add_functions(own)
        shared.add_options(own)


def run(arguments: argparse.Namespace) -> int:
    """Runs the action."""
    return ACTIONS[arguments.action].run(arguments)


def _queries(arguments: argparse.Namespace) -> Workload:
    from kleene.interfaces.workload.sources import queries_in_files
    from kleene.interfaces.workload.workload import workload

    functions = shared.functions(arguments)
    return workload(dict(queries_in_files(Path(arguments.folder), functions)), functions=functions)


def _add_plan(parser: argparse.ArgumentParser) -> None:
    shared.add_options(parser, PLAN)
    group = parser.add_argument_group("the search for a shared plan")
    group.add_argument(
        "--search", metavar="NAME", help="annealing, tabu, none, sharing, reordering or written; like --plan search=NAME"
    )
    seconds = shared.number("a number of seconds", lambda seconds: 0 <= seconds < inf)
    group.add_argument("--seconds", metavar="N", type=seconds, help="how long to search; like --plan seconds=N")


def _plan(arguments: argparse.Namespace) -> dict[str, Any] | None:
    """The options of `--plan`, `--search` and `--seconds`; those of a shared plan imply its mechanism."""
    from kleene.plan.multi.search import MultiOptions

    search = {"search": arguments.search, "seconds": arguments.seconds}
    plan = {**shared.options(arguments).get("plan", {}), **{name: value for name, value in search.items() if value is not None}}
    if plan.keys() & {spec.name for spec in fields(MultiOptions)}:
        plan = {"mechanism": "multi", **plan}
    return plan or None


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    return {**shared.options(arguments), "plan": _plan(arguments)}


def _add_columns(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("events", metavar="EVENTS", nargs="?", help="a file of events, Parquet, CSV or NDJSON")
    shared.add_columns(parser, "the columns of the events, as ts:timestamp,id:string")


# --- check ------------------------------------------------------------------------------------------------------------


def _add_check(parser: argparse.ArgumentParser) -> None:
    _add_columns(parser)
    shared.add_options(parser, EVENTS)


def _check(arguments: argparse.Namespace) -> int:
    """Lists the problems of all queries; reads no events, only their columns."""
    found = shared.described_events(arguments)
    if found is not None and arguments.time is None:
        raise UsageError("--time COLUMN is required to check queries against events")
    queries = _queries(arguments)
    if found is not None:
        _require_fitting(arguments, queries, found)
    put(f"{plural(len(queries.queries), 'query', 'queries')}, no problems")
    return 0


def _require_fitting(arguments: argparse.Namespace, queries: Workload, source: Any) -> None:
    """That every query can be answered over events with these columns; one that reads those of a faulty one is passed over."""
    from kleene.interfaces.inputs import arrow_schema_of
    from kleene.interfaces.workload.sources import gathered, query_files
    from kleene.interfaces.workload.workload import Workload

    schema, roles = arrow_schema_of(source), shared.options(arguments)
    files = {file.stem: str(file) for file in query_files(Path(arguments.folder))}
    fitting: set[str] = set()
    errors: list[tuple[str, KleeneError]] = []
    for name in queries.order:
        if not fitting.issuperset(queries.producers(name)):
            continue
        own = Workload({**_makers(queries, name), name: queries[name]})
        try:
            own.plans_for(schema, **roles)
            fitting.add(name)
        except KleeneError as error:
            errors.append((files[name], error))
    if errors:
        raise gathered(errors)


def _makers(queries: Workload, name: str) -> dict[str, Any]:
    """The queries that produce events for a query, directly or indirectly."""
    found: dict[str, Any] = {}
    for other in queries.producers(name):
        found |= {**_makers(queries, other), other: queries[other]}
    return found


# --- explain ----------------------------------------------------------------------------------------------------------


class SearchLine(Line):
    """The progress of a search for a plan: on one line of a terminal, else by occasional lines if it takes long."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._interval = 0.2 if self.on_terminal else 10.0
        self._next = 1.0 if self.on_terminal else self._interval

    def __call__(self, progress: Searched) -> None:
        """Shows the progress of the search."""
        if progress.seconds < self._next:
            return
        self._next = progress.seconds + self._interval
        part = f", part {progress.component} of {progress.components}" if progress.components > 1 else ""
        self.show(f"searched {progress.seconds:,.0f} s, {progress.steps:,} steps, cost {progress.cost:,.4g}{part}")


def _add_explain(parser: argparse.ArgumentParser) -> None:
    _add_columns(parser)
    parser.add_argument("--svg", metavar="FILE", help="also draw the shared plan into a file")
    shared.add_options(parser, EVENTS, time={"required": True})
    shared.add_limits(parser)
    _add_plan(parser)


def _explain(arguments: argparse.Namespace) -> int:
    """Prints the shared plan with the costs of the baselines, and optionally draws it."""
    found = shared.described_events(arguments)
    if found is None:
        raise UsageError("give either a file of events or --columns")
    queries = _queries(arguments)
    with SearchLine() as line:
        plan = queries.explain_shared(found, progress=line, **_options(arguments))
    put(plan)
    if arguments.svg is not None:
        Path(arguments.svg).write_text(plan.svg(), encoding="utf-8")
    return 0


# --- match ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    """The result of one query of the workload."""

    matches: pa.Table
    bad_rows: pa.Table | None
    bad: int
    dropped: str | None = None
    """What was dropped at the limits, in words."""


def _add_match(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("events", metavar="EVENTS", nargs="+", help="the files of events")
    shared.add_options(parser, EVENTS, time={"required": True})
    output.add_quarantine(parser, "write them to this file, with the reason, once for each query")
    out = parser.add_argument_group("output")
    out.add_argument("--out", metavar="DIR", help="write a file for each query into this folder, named after the query")
    out.add_argument("--format", choices=FORMATS, help="the format of the files in --out (default: parquet)")
    out.add_argument("-o", "--output", metavar="FILE", help="write the matches of all queries to this NDJSON file")
    shared.add_limits(parser)
    _add_plan(parser)
    shared.add_running(parser)


def _match(arguments: argparse.Namespace) -> int:
    """Matches all queries, writes their matches, and prints a line for each; the summary goes to standard error."""
    _require_output(arguments)
    queries = _queries(arguments)
    engine = _on_spark if arguments.engine == "spark" else _embedded
    with Progress("read") as progress:
        found = engine(arguments, queries, progress)
    files = _write(arguments, found)
    for name, item in found.items():
        words = ("row", "rows") if queries[name].logical.aggregates else ("match", "matches")
        counts = [plural(item.matches.num_rows, *words)]
        counts += [plural(item.bad, "bad row")] if item.bad else []
        put(f"{name}: {', '.join([*counts, *files.get(name, ())])}")
    _summary(found, progress)
    return 0


def _require_output(arguments: argparse.Namespace) -> None:
    if arguments.format is not None and arguments.out is None:
        raise UsageError("--format needs --out DIR")
    if arguments.output is not None and output.format_of(arguments.output) != "ndjson":
        remedy = "write NDJSON, or a file for each with --out DIR"
        raise UsageError(f"'{arguments.output}': queries have different columns; {remedy}")
    output.require_quarantine(arguments)


def _embedded(arguments: argparse.Namespace, queries: Workload, progress: Progress) -> dict[str, Found]:
    import pyarrow as pa

    from kleene.runtime.embedded import dropped_at_limits

    schema, batches = events.stream(arguments.events, progress)
    with warnings.catch_warnings(action="ignore"):  # the lines of the queries say the same
        runs = queries.run(pa.Table.from_batches(batches, schema), **_options(arguments))
    return {
        name: Found(run.matches, run.bad_rows, run.metrics.bad, dropped_at_limits(run.metrics)) for name, run in runs.items()
    }


def _on_spark(arguments: argparse.Namespace, queries: Workload, progress: Progress) -> dict[str, Found]:
    from kleene.interfaces.commands import spark

    with spark.session(arguments.master) as session:
        frame = spark.read(session, arguments.events)
        found: dict[str, Found] = {}
        for name, run in queries.run(frame, **_options(arguments)).items():
            aside = run.bad_rows.toArrow() if arguments.bad_rows == "quarantine" else None
            found[name] = Found(run.matches.toArrow(), aside, 0 if aside is None else aside.num_rows)
        progress.add(frame.count())
        return found


def _write(arguments: argparse.Namespace, found: dict[str, Found]) -> dict[str, list[str]]:
    """Writes the requested files: one per query, one for all, the bad rows. Returns the files of each query."""
    files: dict[str, list[str]] = {}
    if arguments.out is not None:
        folder, format = Path(arguments.out), arguments.format or FORMATS[0]
        folder.mkdir(parents=True, exist_ok=True)
        segments = path_segments(found)
        for name, item in found.items():
            path = str(folder / f"{segments[name]}.{format}")
            output.write(item.matches.to_batches(), item.matches.schema, path, format)
            files[name] = [path]
    if arguments.output is not None:
        tables = [item.matches for item in found.values()]
        rows = (batch for table in tables for batch in table.to_batches())
        output.write(rows, tables[0].schema, arguments.output, "ndjson")
    if arguments.quarantine:
        import pyarrow as pa

        aside = pa.concat_tables([item.bad_rows for item in found.values()], promote_options="permissive")
        output.write(aside.to_batches(), aside.schema, arguments.quarantine, output.format_of(arguments.quarantine))
    return files


def _summary(found: dict[str, Found], progress: Progress) -> None:
    rows = sum(item.matches.num_rows for item in found.values())
    counts = [plural(progress.rows, "event"), plural(len(found), "query", "queries"), plural(rows, "row")]
    say(f"{', '.join(counts)}, {progress.seconds:.2f} s")
    for name, item in found.items():
        if item.dropped:
            say(f"warning: query '{name}': {item.dropped}; the result is incomplete")


@dataclass(frozen=True, slots=True)
class Action:
    """The actions of `kleene workload`."""

    summary: str
    description: str
    usage: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


ACTIONS = {
    "check": Action(
        "check all queries and list all problems",
        "Parses and validates every query. With EVENTS or --columns, also checks that each can be answered over such events.",
        "[EVENTS | --columns NAME:TYPE,...] [options]",
        _add_check,
        _check,
    ),
    "explain": Action(
        "show the plan that the queries share",
        "Searches for the plan that the queries share, with statistics measured on the events, and shows its cost next to "
        "those of the baselines. With --columns, all event types are assumed to be equally frequent.",
        "(EVENTS | --columns NAME:TYPE,...) --time COLUMN [--type COLUMN] [options]",
        _add_explain,
        _explain,
    ),
    "match": Action(
        "find the matches of all queries",
        "Finds the matches of all queries in files of events and prints the number for each; --out or -o writes them. "
        "--statistics has an object for each query, under its name; such a query is matched separately.",
        "EVENTS [EVENTS ...] --time COLUMN [--type COLUMN] [options]",
        _add_match,
        _match,
    ),
}
