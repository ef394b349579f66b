"""`kleene stream`: queries over a stream of events, until it is stopped.

Matches go to a folder, exactly once, or as NDJSON to standard output, where a micro-batch that is retried after a failure is
written again. The checkpoint records the progress: the same command resumes from there.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kleene.common.errors import BindingError, Problem
from kleene.common.terminal import plural
from kleene.interfaces.commands import arguments as shared
from kleene.interfaces.commands import output
from kleene.interfaces.commands.arguments import UsageError
from kleene.interfaces.commands.stream import sources as stream_sources
from kleene.interfaces.commands.stream.log import java_started_in_the_block_writes_to
from kleene.interfaces.commands.stream.progress import Totals
from kleene.interfaces.commands.stream.view import Lines, View, Watch, summary
from kleene.interfaces.commands.terminal import say
from kleene.interfaces.options import BAD_ROWS, EVENTS, LIMITS, PLAN, RUNNING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kleene.interfaces.rules import Rules
    from kleene.interfaces.workload.workload import Workload
    from kleene.runtime.spark.stream.run import StreamRun

HELP = "find the matches of queries in a stream of events"
DESCRIPTION = (
    "Finds the matches of queries in a stream of events, on Spark. Events wait for the watermark, so their order of "
    "arrival does not matter. Runs until Ctrl-C, or with --once until all available events have been read; started again "
    "with the same checkpoint, it resumes where it stopped."
)
FORMATS = {"parquet": "parquet", "ndjson": "json", "csv": "csv"}
PARTITIONS = "spark.sql.shuffle.partitions"
PACKAGES = "spark.jars.packages"
SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
_LENGTH = re.compile(r"\s*(\d+)\s*([^\W\d]+)\s*")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "kleene stream (QUERY ... | -q TEXT) --events SOURCE --time COLUMN [--type COLUMN] --watermark TIME --checkpoint DIR "
        "[options]"
    )
    parser.add_argument(
        "sources", metavar="QUERY", nargs="*", help="files of queries, or a folder of .sase files, unless -q is given"
    )
    shared.add_query(parser)
    parser.add_argument(
        "--reload",
        action="store_true",
        help="re-read the folder while the stream runs: queries are added, changed, paused (.sase.paused) and removed with "
        "their files, and matches of all queries have the same columns",
    )
    parser.add_argument(
        "--timed-out",
        action="store_true",
        help="also find partial matches whose window passed, for each missing component: NAME_without_VARIABLE",
    )
    shared.add_functions(parser)
    shared.add_options(parser)
    where = parser.add_argument_group("where events come from")
    where.add_argument(
        "--events",
        metavar="SOURCE",
        required=True,
        type=stream_sources.source,
        help="a FOLDER of Parquet, CSV or NDJSON files, to which more may be added (csv:FOLDER names the format); rate:N, "
        "N rows a second with the columns timestamp and value; socket:HOST:PORT, a line of JSON each; "
        "kafka:BROKERS/TOPIC, a message of JSON each",
    )
    shared.add_columns(
        where,
        "the event columns, such as ts:timestamp,id:string; required for JSON from sockets and Kafka, by default those "
        "of the existing files",
    )
    pairs: dict[str, Any] = {"metavar": "NAME=VALUE", "type": shared.pair, "action": "append", "default": []}
    where.add_argument(
        "--option",
        help="an option of Spark's source, such as maxFilesPerTrigger=10 or startingOffsets=latest; may be repeated",
        **pairs,
    )
    shared.add_options(parser, EVENTS, time={"required": True})
    running = shared.add_options(
        parser, RUNNING, stream=True, watermark={"type": _delay, "required": True}, max_ahead={"type": _length}
    )
    running.add_argument("--checkpoint", metavar="DIR", required=True, help="the folder that records the stream's progress")
    often = running.add_mutually_exclusive_group()
    often.add_argument(
        "--trigger", metavar="TIME", type=_length, help="the interval of micro-batches, such as '5 seconds' (default: none)"
    )
    often.add_argument("--once", action="store_true", help="read the available events, then end")
    running.add_argument("--watch", action="store_true", help="show progress; without a terminal, a line per micro-batch")
    shared.add_master(running)
    running.add_argument("--conf", help="a setting of Spark; may be repeated", **pairs)
    running.add_argument("--log", metavar="FILE", help="append Spark's log to this file")
    running.add_argument(
        "--packages", metavar="NAMES", help="Maven packages for Spark, separated by commas, such as connectors"
    )
    out = parser.add_argument_group("output")
    out.add_argument(
        "-o", "--output", metavar="DIR", help="write matches to this folder, with a subfolder per query if there are several"
    )
    out.add_argument("--late", metavar="DIR", help="write events that arrived after the watermark to this folder")
    out.add_argument("--format", choices=FORMATS, default="parquet", help="the format of the files (default: parquet)")
    bad_rows = {
        "choices": ["quarantine", "drop", "error"],
        "default": "quarantine",
        "help": "set them aside and count them (default), only count them, or stop",
    }
    bad = shared.add_options(parser, BAD_ROWS, bad_rows=bad_rows)
    bad.add_argument("--bad-rows-to", metavar="DIR", help="write them to this folder, with the reason")
    shared.add_options(shared.add_limits(parser), LIMITS, stream=True)
    shared.add_options(parser, PLAN)


def run(arguments: argparse.Namespace) -> int:
    """Runs the stream until it ends or is stopped; progress and summary go to standard error."""
    begin = time.monotonic()
    _require_consistent(arguments)
    queries = _queries(arguments)
    settings = _settings(arguments)

    from kleene.interfaces.commands import spark

    with ExitStack() as stack:
        with java_started_in_the_block_writes_to(arguments.log):
            session = stack.enter_context(spark.session(arguments.master, settings))
        totals, error = _stream(arguments, queries, session)
    _report(arguments, totals, time.monotonic() - begin)
    if error is not None:
        raise error
    return 0


def _stream(arguments: argparse.Namespace, queries: Workload | Rules, session: SparkSession) -> tuple[Totals, Exception | None]:
    """The totals of the stream, and the error that ended it, if any."""
    from kleene.interfaces.commands.stream.errors import as_stream_errors
    from kleene.interfaces.commands.stream.run import Stopping, run_until_stopped

    with as_stream_errors():
        events = stream_sources.read_stream(session, arguments.events, arguments.columns, dict(arguments.option))
        found = _run(arguments, queries, events)
    with Stopping() as stopping, _view(arguments) as view:
        printed = Printed(view)
        totals, error = run_until_stopped(session, lambda: _write(arguments, found, printed, view), stopping, view)
    return totals, BrokenPipeError() if printed.reader_left else error


# --- options ----------------------------------------------------------------------------------------------------------


def _require_consistent(arguments: argparse.Namespace) -> None:
    stream_sources.require_columns(arguments.events, arguments.columns)
    if arguments.bad_rows_to is not None and arguments.bad_rows != "quarantine":
        raise UsageError("--bad-rows-to DIR needs --bad-rows quarantine")
    if not arguments.sources and arguments.query is None:
        raise UsageError("a query is required: files, a folder of .sase files, `-` for standard input, or -q TEXT")
    if arguments.sources and arguments.query is not None:
        raise UsageError(f"give -q TEXT or files of queries, not both: found '{arguments.sources[0]}'")
    if arguments.reload and (len(arguments.sources) != 1 or not Path(arguments.sources[0]).is_dir()):
        raise UsageError("--reload needs one folder of queries")
    if arguments.reload and arguments.statistics is not None:
        raise UsageError("--statistics cannot be given with --reload, because queries may change")
    if arguments.reload and arguments.timed_out:
        raise UsageError("--timed-out cannot be given with --reload: add a query with a negated end to the folder")
    folders = [arguments.output, arguments.late, arguments.bad_rows_to, arguments.checkpoint]
    given = [str(Path(folder).absolute()) for folder in folders if folder is not None]
    if len(set(given)) < len(given):
        raise UsageError("the checkpoint, matches, late events and bad rows need separate folders")


def _queries(arguments: argparse.Namespace) -> Workload | Rules:
    if arguments.reload:
        from kleene.interfaces.rules import rules

        return rules(arguments.sources[0], functions=shared.functions(arguments))
    return _fixed_queries(arguments)


def _fixed_queries(arguments: argparse.Namespace) -> Workload:
    from kleene.interfaces.query import query
    from kleene.interfaces.workload.sources import queries_in_files
    from kleene.interfaces.workload.workload import workload
    from kleene.runtime.rules.files import is_query_file, shared_names

    functions = shared.functions(arguments)
    found: list[tuple[str, Any]] = []
    places: list[tuple[str, str]] = []
    for source in arguments.sources or [None]:
        if source is not None and (Path(source).is_dir() or is_query_file(Path(source))):
            own = queries_in_files(Path(source), functions)
        else:
            name, text = shared.query_text(arguments.query, source)
            own = [(name, query(text, name=name, functions=functions))]
        if arguments.timed_out:
            own += [partial for _, item in own for partial in item.timed_out().items()]
        found += own
        places += [(name, str(source)) for name, _ in own]
    problems = list(shared_names(places).values())
    if problems:
        raise BindingError(problems)
    return workload(dict(found), functions=functions)


def _settings(arguments: argparse.Namespace) -> dict[str, str]:
    """Spark's settings for a new session."""
    settings = {**SETTINGS, **dict(arguments.conf)}
    if arguments.packages is not None:
        settings[PACKAGES] = arguments.packages
    cores = _cores(arguments.master)
    if cores is not None:
        settings.setdefault(PARTITIONS, str(cores))
    before = _partitions_before(Path(arguments.checkpoint))
    if before is None:
        return settings
    if dict(arguments.conf).get(PARTITIONS, before) != before:
        raise UsageError(
            f"the checkpoint's state has {before} shuffle partitions, which are fixed: leave out --conf {PARTITIONS}"
        )
    return {**settings, PARTITIONS: before}


def _cores(master: str) -> int | None:
    """The number of cores of a local master; None for a cluster.

    >>> _cores("local[3]"), _cores("local"), _cores("yarn")
    (3, 1, None)
    """
    local = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?", master)
    if local is None:
        return None
    return (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)


def _partitions_before(checkpoint: Path) -> str | None:
    """The shuffle partitions of a stream that has run before, which its state fixes, whatever the machine has now."""
    offsets = [path for path in checkpoint.glob("offsets/*") if path.name.isdecimal()]
    if not offsets:
        return None
    lines = max(offsets, key=lambda path: int(path.name)).read_text(encoding="utf-8").split("\n")
    settings: dict[str, str] = json.loads(lines[1]).get("conf", {})
    return settings.get(PARTITIONS)


def _run(arguments: argparse.Namespace, queries: Workload | Rules, events: DataFrame) -> StreamRun:
    from kleene.interfaces.workload.workload import Workload

    asked: Any = queries
    if isinstance(queries, Workload) and len(queries.queries) == 1:
        (asked,) = queries.queries.values()
    run: StreamRun = asked.run(events, **shared.options(arguments))
    if arguments.output is not None and arguments.format == "csv":
        _require_flat(run)
    return run


def _require_flat(run: StreamRun) -> None:
    import pyarrow.types as pat

    nested = [name for name, schema in run.schemas.items() if any(pat.is_nested(field.type) for field in schema)]
    if nested:
        hint = "name columns with RETURN, or choose --format ndjson or parquet"
        raise BindingError(Problem(f"matches of '{nested[0]}' hold whole events, which CSV cannot represent", hint=hint))


# --- output -----------------------------------------------------------------------------------------------------------


class Printed:
    """Matches as NDJSON on standard output."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.reader_left = False

    def __call__(self, rows: DataFrame, number: int) -> None:  # noqa: ARG002 - Spark gives the number of the micro-batch
        table = rows.toArrow()
        text = io.BytesIO()
        output.WRITERS["ndjson"](text, table.schema, table.to_batches())
        try:
            self._view.print(text.getvalue().decode())
        except BrokenPipeError:
            self.reader_left = True
            raise


def _problems(view: View) -> Callable[[DataFrame, int], None]:
    """Reports the rules that do not run, and why."""

    def say(rows: DataFrame, number: int) -> None:  # noqa: ARG001 - Spark gives the number of the micro-batch
        for row in rows.collect():
            view.warn(f"'{row['query']}' is not running: {row['problem']}")

    return say


def _view(arguments: argparse.Namespace) -> View:
    if not arguments.watch:
        return View()
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        return Lines(console)
    title = f"{' '.join(arguments.sources) or 'query'} over {arguments.events.text}"
    return Watch(console, title, prints=sys.stdout.isatty())


def _write(arguments: argparse.Namespace, run: StreamRun, printed: Printed, view: View) -> StreamingQuery:
    sinks: dict[str, Any] = {"matches": arguments.output or printed}
    sinks |= {"late": arguments.late} if arguments.late is not None else {}
    sinks |= {"bad_rows": arguments.bad_rows_to} if arguments.bad_rows_to is not None else {}
    sinks |= {"problems": _problems(view)} if arguments.reload else {}
    trigger: dict[str, Any] | None = {"availableNow": True} if arguments.once else None
    if arguments.trigger is not None:
        trigger = {"processingTime": arguments.trigger}
    return run.write(sinks, checkpoint=arguments.checkpoint, trigger=trigger, format=FORMATS[arguments.format])


def _report(arguments: argparse.Namespace, totals: Totals, seconds: float) -> None:
    """The summary: counts, folders, dropped rows, and how to resume."""
    lines = [summary(totals, seconds)]
    if len(totals.by_query) > 1:
        lines += [f"  {name}: {plural(count, 'match', 'matches')}" for name, count in sorted(totals.by_query.items())]
    for count, words, folder, option in (
        (totals.matches, "matches", arguments.output, ""),
        (totals.late, "late events", arguments.late, "--late DIR"),
        (totals.bad, "bad rows", arguments.bad_rows_to, "--bad-rows-to DIR"),
    ):
        if count and folder is not None:
            lines.append(f"{words} are in {folder}")
        elif count and option:
            lines.append(f"{words} were only counted; {option} writes them")
    lines.append(f"the checkpoint is in {arguments.checkpoint}; the same command resumes from there")
    say("\n".join(lines))


# --- words of the command line ----------------------------------------------------------------------------------------


def _length(text: str) -> str:
    """A length of time as Spark writes it, from any unit that queries know.

    >>> _length("10s"), _length("2 min")
    ('10 seconds', '2 minutes')
    """
    from kleene.pattern.durations import unit_of
    from kleene.pattern.policies import Unit

    found = _LENGTH.fullmatch(text)
    unit = unit_of(found[2]) if found else None
    if found is None or unit is None or unit is Unit.EVENTS:
        raise argparse.ArgumentTypeError(f"expected a length of time, such as '10 seconds', found {text!r}")
    return f"{found[1]} {unit.word}"


def _delay(text: str) -> str | int:
    """A length of time, or a number if times are numbers."""
    return int(text) if text.strip().isdecimal() else _length(text)
