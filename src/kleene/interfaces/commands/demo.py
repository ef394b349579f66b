"""`kleene demo`: an RFID retail day, the two retail queries of SASE'06 on Spark, and the planted truth to compare with."""

from __future__ import annotations

import argparse
import errno
import time
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kleene.interfaces.commands import arguments as shared
from kleene.interfaces.commands.arguments import UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from rich.console import Console

    from kleene.generators.retail import RetailOptions

HELP = "an RFID retail day on Spark: find the shoplifters and the misplaced items"
DESCRIPTION = (
    "Generates a day of RFID readings, runs two queries on Spark, and checks that exactly the planted incidents are found."
)

QUERIES = {"shoplifting": ("x", "z"), "misplaced": ("x", "y")}
"""The queries, and the variables whose times the truth lists."""
FILES = ("events.parquet", "types.json", *(f"{name}-truth.parquet" for name in QUERIES))
"""The files that the demo writes and removes."""
_ROWS_SHOWN = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--events", metavar="N", type=int, default=200_000, help="number of readings (default 200000)")
    parser.add_argument("--seed", metavar="S", type=int, default=0, help="seed of the day (default 0)")
    parser.add_argument("--data", metavar="DIR", default="demo-data", help="where the day is written (default: ./demo-data)")
    parser.add_argument("--keep", action="store_true", help="keep the data afterwards")
    shared.add_master(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the demo; the exit code is 1 if a query's matches differ from the planted ones."""
    from rich.console import Console

    from kleene.generators.retail import RetailOptions

    try:
        options = RetailOptions(events=arguments.events, seed=arguments.seed)
    except ValueError as error:
        raise UsageError(str(error)) from error
    folder = Path(arguments.data)
    if folder.exists() and not {path.name for path in folder.iterdir()} <= set(FILES):
        raise FileExistsError(errno.EEXIST, "contains files that are not the demo's; choose another --data DIR", str(folder))
    console = Console(highlight=False, soft_wrap=False)
    try:
        _write_day(options, folder, console)
        agreed = _run_queries(arguments.master, options, folder, console)
    finally:
        if not arguments.keep:
            _remove(folder)
    if arguments.keep:
        console.print(
            f'The data stays in {folder}: try `kleene match -q "..." {folder / "events.parquet"} --time ts --type type`.'
        )
    return 0 if agreed else 1


def query_text(name: str) -> str:
    """The text of a packaged query.

    >>> query_text("shoplifting").splitlines()[-1]
    'WITHIN 12 hours'
    """
    return files("kleene.interfaces.commands").joinpath("queries", f"{name}.sase").read_text(encoding="utf-8")


def _write_day(options: RetailOptions, folder: Path, console: Console) -> None:
    from kleene.generators import retail
    from kleene.interfaces.commands import generate, output

    begin = time.monotonic()
    generate.write_truth(options, folder)
    output.write(retail.batches(options), retail.schema(options), str(folder / "events.parquet"), "parquet")
    console.print(
        f"A retail day: {options.events:,} RFID readings in {folder / 'events.parquet'} ({time.monotonic() - begin:.1f} s)"
    )


def _remove(folder: Path) -> None:
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
    if folder.exists() and not any(folder.iterdir()):
        folder.rmdir()


def _run_queries(master: str, options: RetailOptions, folder: Path, console: Console) -> bool:
    from kleene.generators import retail
    from kleene.interfaces.commands import spark

    console.print(f"Starting Spark ({master}) ...")
    with spark.session(master) as session:
        events = spark.read(session, [str(folder / "events.parquet")])
        truth = retail.truth(options)
        expected = {"shoplifting": truth.shoplifting, "misplaced": truth.misplaced}
        agreed = [_run_query(name, events, expected[name], console) for name in QUERIES]
        return all(agreed)


def _run_query(name: str, events: DataFrame, expected: pa.Table, console: Console) -> bool:
    """Runs one query and shows it, its plan, the first matches and the comparison with the truth."""
    import kleene
    from kleene.generators.retail import ATTRIBUTES
    from kleene.interfaces.commands import display

    text = query_text(name)
    roles: dict[str, Any] = {"time": "ts", "type": "type", "schema": {kind: frozenset(own) for kind, own in ATTRIBUTES.items()}}
    query = kleene.query(text, name=name)
    console.rule(f"[bold]{name}", align="left")
    console.print(text.strip(), markup=False)
    console.print(f"\n{query.explain(events, **roles)}\n", markup=False)
    begin = time.monotonic()
    matches = query.match(events, **roles).toArrow()
    seconds = time.monotonic() - begin
    display.show(
        _columns_shown(matches, QUERIES[name]).slice(0, _ROWS_SHOWN), console, f"the first of {matches.num_rows} matches"
    )
    missing, unexpected = compare(matches, expected, QUERIES[name])
    console.print(f"{matches.num_rows} matches in {seconds:.1f} s; {expected.num_rows} were planted:", end=" ")
    if not missing and not unexpected:
        console.print("[bold green]exactly these were found.\n")
        return True
    console.print(f"[bold red]{len(missing)} not found, {len(unexpected)} not planted.")
    for word, rows in (("not found", missing), ("not planted", unexpected)):
        for row in rows[:_ROWS_SHOWN]:
            console.print(f"  {word}: {row}", markup=False)
    return False


def compare(matches: pa.Table, expected: pa.Table, variables: tuple[str, str]) -> tuple[list[Any], list[Any]]:
    """The planted matches that were not found, and the matches found that were not planted, as (id, first time, last time)."""
    from collections import Counter

    first, last = variables
    found = Counter((row[first]["id"], _moment(row[first]["ts"]), _moment(row[last]["ts"])) for row in matches.to_pylist())
    rows = (expected.column(index).to_pylist() for index in range(3))
    planted = Counter((tag, _moment(one), _moment(other)) for tag, one, other in zip(*rows, strict=True))
    return sorted((planted - found).elements()), sorted((found - planted).elements())


def _moment(value: Any) -> str:
    """A UTC time as text, with or without a time zone attached."""
    return str(value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds"))


def _columns_shown(matches: pa.Table, variables: tuple[str, str]) -> pa.Table:
    """The columns to show: the item, and when and where each event was read."""
    import pyarrow as pa
    import pyarrow.compute as pc

    shown = {"id": pc.struct_field(matches[variables[0]], "id")}
    for variable in variables:
        for field in ("ts", "reader"):
            shown[f"{variable}.{field}"] = pc.struct_field(matches[variable], field)
    return pa.table(shown).sort_by(f"{variables[0]}.ts")
