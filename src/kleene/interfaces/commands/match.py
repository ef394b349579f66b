"""`kleene match`: the matches of a query over files of events.

In this process events are read, matched and written batch by batch: memory grows with the window, not with the files or the
matches. With `--with` the files are read into memory first, because every query reads them.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kleene.common.terminal import plural
from kleene.interfaces.commands import arguments as shared
from kleene.interfaces.commands import events, output
from kleene.interfaces.commands.arguments import UsageError
from kleene.interfaces.commands.progress import Progress
from kleene.interfaces.commands.terminal import say
from kleene.interfaces.options import EVENTS, PLAN, options_of

if TYPE_CHECKING:
    import pyarrow as pa

    from kleene.engine.matcher import Matcher, Metrics
    from kleene.interfaces.workload.workload import Workload
    from kleene.plan.contract import Plan

HELP = "find the matches of a query in files of events"
DESCRIPTION = "Finds the matches of a query, or aggregates over them, in Parquet, CSV or NDJSON files; shows or writes them."
FORMATS = ("table", "csv", "ndjson", "parquet", "arrow")
ROWS_SHOWN = 20


@dataclasses.dataclass(slots=True)
class Found:
    """Matches as they are found, and the metrics of the run when all are found."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    matcher: Matcher | None = None
    """The matcher; None if the matches have been found already."""
    compressed: bool = False
    aggregated: bool = False
    """Whether they are rows of AGG, not matches."""
    rows: int = 0
    matches: int = 0
    """The number of matches; a row of compressed output holds many."""
    bad_rows: pa.Table | None = None
    metrics: Metrics | None = None

    def take(self, limit: int | None) -> Iterator[pa.RecordBatch]:
        """The rows up to a limit; they and their matches are counted."""
        for batch in self.batches:
            taken = batch if limit is None else batch.slice(0, limit - self.rows)
            self.rows += taken.num_rows
            self.matches += sum(taken.column("match_count").to_pylist()) if self.compressed else taken.num_rows
            yield taken
            if limit is not None and self.rows >= limit:
                return

    def finish(self) -> None:
        """Takes the bad rows and the metrics from the matcher, as far as it ran."""
        if self.matcher is None:
            return
        self.metrics = self.matcher.metrics
        aside = self.matcher.bad_rows.batches
        if aside:
            import pyarrow as pa

            self.bad_rows = pa.Table.from_batches(aside)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "kleene match (QUERY | -q TEXT) EVENTS [EVENTS ...] --time COLUMN [--type COLUMN] [options]"
    shared.add_inputs(parser)
    shared.add_others(parser)
    shared.add_functions(parser)
    shared.add_options(parser, EVENTS, time={"required": True})
    shared.add_options(parser)
    output.add_quarantine(parser, "write them to this file, with the reason")
    out = parser.add_argument_group("output")
    out.add_argument("--format", choices=FORMATS, help="default: by the file's name; a table on a terminal, else NDJSON")
    out.add_argument("-o", "--output", metavar="FILE", help="write to this file")
    out.add_argument(
        "--limit",
        metavar="N",
        type=shared.count,
        help=f"stop after N matches, or rows of AGG or of compressed output (a table shows {ROWS_SHOWN} and counts the rest)",
    )
    out.add_argument(
        "--compressed",
        action="store_true",
        help="write the shared match buffer instead of a row per match, to a Parquet or Arrow file; kleene.expand reads it",
    )
    out.add_argument("--stats", action="store_true", help="print the non-zero counters of the run on standard error")
    shared.add_limits(parser)
    shared.add_options(parser, PLAN)
    shared.add_running(parser)


def run(arguments: argparse.Namespace) -> int:
    """Finds and writes the matches; the summary goes to standard error."""
    source, paths = shared.query_and_events(arguments)
    output.require_quarantine(arguments)
    format = _format(arguments)
    name, text = shared.query_text(arguments.query, source)
    queries = shared.run_queries(name, text, arguments.others, shared.functions(arguments))
    engine = _on_spark if arguments.engine == "spark" else _embedded
    to_terminal = arguments.output is None and sys.stdout.isatty()
    with Progress("read", hidden=to_terminal and format != "table") as progress:
        found = engine(arguments, queries, name, paths, progress)
        found.aggregated = bool(queries[name].logical.aggregates)
        if format == "table":
            _show(found, arguments.limit, progress)
        else:
            output.write(found.take(arguments.limit), found.schema, arguments.output, format)
    found.finish()
    if arguments.quarantine:
        _write_bad_rows(found.bad_rows, arguments.quarantine)
    _summary(found, progress, with_metrics=arguments.stats)
    return 0


def _format(arguments: argparse.Namespace) -> str:
    format = _given_format(arguments)
    if arguments.compressed and (arguments.output is None or format not in ("parquet", "arrow")):
        raise UsageError("--compressed output is binary: give a Parquet or Arrow file, such as -o matches.parquet")
    return format


def _given_format(arguments: argparse.Namespace) -> str:
    if arguments.format is not None:
        if arguments.format == "table" and arguments.output is not None:
            raise UsageError("--format table is for terminals; choose another --format to write a file")
        if arguments.format in ("parquet", "arrow") and arguments.output is None and sys.stdout.isatty():
            raise UsageError(f"{arguments.format} is not for terminals; give a file with -o")
        return str(arguments.format)
    if arguments.output is not None:
        return output.format_of(arguments.output)
    return "table" if sys.stdout.isatty() else "ndjson"


def _embedded(arguments: argparse.Namespace, queries: Workload, name: str, paths: list[str], progress: Progress) -> Found:
    from kleene.engine.build import build_matcher
    from kleene.runtime.embedded import match_batches, rows_of

    if arguments.others:
        return _composed(arguments, queries, name, paths, progress)
    query = queries[name]
    options = options_of(shared.options(arguments))
    schema, _ = events.stream(paths, progress)
    plan = query.plan_for(schema, options)
    # A quarantined row is written whole; otherwise only the columns that the plan reads are loaded.
    needed = None if options.bad_rows == "quarantine" else plan.columns
    schema, batches = events.stream(paths, progress, needed)
    matcher = build_matcher(plan, schema, bad_rows=options.bad_rows or "error")
    if arguments.unsorted:
        batches = _sorted(schema, batches, plan)

    return Found(matcher.output_schemas[0], rows_of(match_batches(matcher, batches)), matcher, compressed=arguments.compressed)


def _composed(arguments: argparse.Namespace, queries: Workload, name: str, paths: list[str], progress: Progress) -> Found:
    """The matches of a query that reads the events of others."""
    import pyarrow as pa

    schema, batches = events.stream(paths, progress)
    with warnings.catch_warnings(action="ignore"):  # the summary says the same
        runs = queries.run(pa.Table.from_batches(batches, schema), **shared.by_name(name, shared.options(arguments)))
    run = runs[name]
    work = [other.metrics for other in runs.values()]
    runs_dropped, matches_dropped = sum(item.dropped_runs for item in work), sum(item.dropped_matches for item in work)
    metrics = dataclasses.replace(run.metrics, dropped_runs=runs_dropped, dropped_matches=matches_dropped)
    bad_rows = pa.concat_tables([other.bad_rows for other in runs.values()], promote_options="permissive")
    found = Found(run.matches.schema, iter(run.matches.to_batches()), compressed=arguments.compressed, metrics=metrics)
    found.bad_rows = bad_rows if bad_rows.num_rows else None
    return found


def _on_spark(arguments: argparse.Namespace, queries: Workload, name: str, paths: list[str], progress: Progress) -> Found:
    from kleene.interfaces.commands import spark

    with spark.session(arguments.master) as session:
        frame = spark.read(session, paths)
        run = queries.run(frame, **shared.by_name(name, shared.options(arguments)))[name]
        matches = (run.matches if arguments.limit is None else run.matches.limit(arguments.limit)).toArrow()
        bad_rows = run.bad_rows.toArrow() if arguments.bad_rows == "quarantine" else None
        progress.add(frame.count())
        return Found(matches.schema, iter(matches.to_batches()), bad_rows=bad_rows, compressed=arguments.compressed)


def _sorted(schema: pa.Schema, batches: Iterable[pa.RecordBatch], plan: Plan) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from kleene.runtime.embedded import in_stream_order

    yield from in_stream_order(pa.Table.from_batches(batches, schema), plan.bound.schema).to_batches()


def _show(found: Found, limit: int | None, progress: Progress) -> None:
    """The first matches as a table; without a limit, the others are counted."""
    import pyarrow as pa
    from rich.console import Console

    from kleene.interfaces.commands import display

    shown: list[pa.RecordBatch] = []
    rows = ROWS_SHOWN if limit is None else limit
    for batch in found.take(limit):
        before = found.rows - batch.num_rows
        if before < rows:
            shown.append(batch.slice(0, rows - before))
    progress.clear()
    console = Console()
    if found.rows:
        display.show(pa.Table.from_batches(shown, found.schema), console)
    if found.rows > rows:
        console.print(f"... and {found.rows - rows:,} more; --limit N shows more of them, -o FILE writes all", highlight=False)


def _write_bad_rows(bad_rows: pa.Table | None, path: str) -> None:
    """Always writes a file, so that an old one is never mistaken for this run's."""
    import pyarrow as pa

    rows = pa.table({"reason": pa.array([], pa.string())}) if bad_rows is None else bad_rows
    output.write(rows.to_batches(), rows.schema, path, output.format_of(path))


def _summary(found: Found, progress: Progress, *, with_metrics: bool) -> None:
    metrics = found.metrics
    bad_rows = (metrics and metrics.bad) or (0 if found.bad_rows is None else found.bad_rows.num_rows)
    words = ("row", "rows") if found.aggregated else ("match", "matches")
    counts = [plural(progress.rows, "event"), plural(found.matches, *words)]
    if found.compressed:
        counts[-1] += f" in {plural(found.rows, 'row')}"
    counts += [plural(bad_rows, "bad row")] if bad_rows else []
    say(f"{', '.join(counts)}, {progress.seconds:.2f} s")
    if metrics is None:
        return

    from kleene.runtime.embedded import dropped_at_limits

    if dropped := dropped_at_limits(metrics):
        say(f"warning: {dropped}; the result is incomplete")
    for name, value in dataclasses.asdict(metrics).items():
        if with_metrics and value:
            say(f"  {name}: {value:,}")
