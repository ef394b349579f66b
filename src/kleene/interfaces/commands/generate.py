"""`kleene generate`: event streams of the papers, written to files batch by batch."""

from __future__ import annotations

import argparse
import errno
import importlib
import json
from collections.abc import Iterator
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kleene.interfaces.commands import output
from kleene.interfaces.commands.arguments import UsageError
from kleene.interfaces.commands.progress import Progress
from kleene.interfaces.commands.terminal import say

if TYPE_CHECKING:
    import pyarrow as pa

HELP = "write a stream of events to try queries on"
DESCRIPTION = "Generates events. The same options and seed give the same events."
ROWS_PER_FILE = 5_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command, per generator, by the names of its options."""
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    sase = kinds.add_parser("sase", help="typed events with uniform attributes (SASE 2006)", allow_abbrev=False)
    sase.add_argument("--types", dest="T", metavar="T", type=int, default=20, help="number of event types (default 20)")
    sase.add_argument("--theta", type=float, default=0.0, help="Zipf exponent of their frequencies (default 0: uniform)")
    sizes = (10, 100, 1_000, 5_000, 10_000)
    sase.add_argument("--values", dest="V", metavar="V1,V2,...", type=_sizes, default=sizes, help="values per attribute")
    stock = kinds.add_parser("stock", help="a stock ticker (SASE+ 2008)", allow_abbrev=False)
    stock.add_argument("--symbols", type=int, default=2, help="number of symbols (default 2)")
    stock.add_argument(
        "--increase", dest="p", metavar="P", type=float, default=0.7, help="probability that the price rises (default 0.7)"
    )
    retail = kinds.add_parser("retail", help="an RFID retail day with planted incidents", allow_abbrev=False)
    retail.add_argument("--shoplifting", metavar="N", type=int, default=24, help="planted shoplifters (default 24)")
    retail.add_argument("--misplaced", metavar="N", type=int, default=18, help="planted misplaced items (default 18)")
    retail.add_argument("--near-misses", metavar="N", type=int, default=50, help="planted near misses (default 50)")
    retail.add_argument("--shelves", type=int, default=40, help="number of shelves (default 40)")
    retail.add_argument("--truth", metavar="DIR", help="also write the expected matches, and the attributes of each type")
    for kind in (sase, stock):
        kind.add_argument("--rate", type=float, help="events per second; without it, the time is the event's number")
    for kind in (sase, stock, retail):
        kind.add_argument("--events", metavar="N", type=int, default=100_000, help="number of events (default 100000)")
        kind.add_argument("--seed", metavar="S", type=int, default=0, help="seed of the random numbers (default 0)")
        kind.add_argument(
            "-o",
            "--output",
            metavar="FILE|DIR",
            required=True,
            help=".parquet, .csv, .ndjson or .arrow; else a directory of Parquet files",
        )
        kind.set_defaults(parser=kind)


def run(arguments: argparse.Namespace) -> int:
    """Generates and writes the events."""
    try:
        schema, batches = _stream(arguments)
    except ValueError as error:
        raise UsageError(str(error)) from error
    with Progress("wrote", arguments.events) as progress:
        write(schema, progress.counted(batches), Path(arguments.output))
        say(f"{progress.rows:,} events, {arguments.output}, {progress.seconds:.2f} s")
    return 0


def _stream(arguments: argparse.Namespace) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The schema and the batches of a generator."""
    generator = importlib.import_module(f"kleene.generators.{arguments.kind}")
    kind = getattr(generator, f"{arguments.kind.title()}Options")
    given = vars(arguments)
    options = kind(**{spec.name: given[spec.name] for spec in fields(kind) if spec.name in given})
    if given.get("truth") is not None:
        write_truth(options, Path(arguments.truth))
    return generator.schema(options), generator.batches(options)


def write(schema: pa.Schema, batches: Iterator[pa.RecordBatch], path: Path) -> None:
    """Writes the stream in the format of the path's suffix; without one, as a directory of Parquet files."""
    if path.suffix:
        output.write(batches, schema, str(path), output.format_of(str(path)))
        return
    path.mkdir(parents=True, exist_ok=True)
    if any(path.iterdir()):
        raise FileExistsError(errno.EEXIST, "the directory is not empty", str(path))
    for number, first in enumerate(batches):
        part = chain([first], _rows(batches, ROWS_PER_FILE - first.num_rows))
        output.write(part, schema, str(path / f"part-{number:05}.parquet"), "parquet")


def write_truth(options: Any, folder: Path) -> None:
    """Writes the expected matches of a retail day, and the attributes of each event type for `--schema`."""
    from kleene.generators import retail

    folder.mkdir(parents=True, exist_ok=True)
    truth = retail.truth(options)
    for name, table in (("shoplifting", truth.shoplifting), ("misplaced", truth.misplaced)):
        output.write(table.to_batches(), table.schema, str(folder / f"{name}-truth.parquet"), "parquet")
    (folder / "types.json").write_text(json.dumps(retail.ATTRIBUTES, indent=2) + "\n", encoding="utf-8")


def _rows(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Batches until at least `rows` rows are taken; the iterator continues from there."""
    while rows > 0 and (batch := next(batches, None)) is not None:
        rows -= batch.num_rows
        yield batch


def _sizes(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"expected numbers separated by commas, found {text!r}")
    return tuple(int(part) for part in parts)
