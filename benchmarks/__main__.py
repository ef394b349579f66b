"""`python -m benchmarks SUITE [--quick] [--experiment NAME ...] [--output DIR] [--no-jvm] [--report]`; all of it by default."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from benchmarks.suite import Suite, run_suite

ROOT = Path(__file__).resolve().parent.parent
SUITES = ("sase", "saseplus", "lazy", "aseq", "multi", "streaming", "scale")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Ratios to named baselines, never bare times.")
    parser.add_argument("suite", nargs="?", default="sase", choices=SUITES)
    parser.add_argument("--quick", action="store_true", help="a fifth of the events or fewer, and fewer rounds")
    parser.add_argument("--experiment", nargs="+", metavar="NAME", help="only these")
    parser.add_argument("--output", type=Path, default=ROOT / "artifacts" / "bench", metavar="DIR")
    parser.add_argument("--no-jvm", action="store_true", help="leave out everything on Spark and Flink")
    parser.add_argument(
        "--report", action="store_true", help="write the suite's part of docs/benchmarks.md from the results, run nothing"
    )
    parser.add_argument("--note", default="", metavar="TEXT", help="with --report: a remark on the run, for the part's opening")
    given = parser.parse_args(arguments)
    if given.report:
        from benchmarks.report import write_report

        presentation = import_module(f"benchmarks.{given.suite}.report").PRESENTATION
        print(f"wrote {write_report(presentation, given.output, ROOT / 'docs', given.note)}")
        return
    suite: Suite = import_module(f"benchmarks.{given.suite}.suite").SUITE
    unknown = [name for name in given.experiment or () if name not in suite.experiments]
    if unknown:
        parser.error(f"{suite.name} has no experiment {unknown[0]!r}: choose from {', '.join(suite.experiments)}")
    run_suite(suite, given.experiment, suite.scales["quick" if given.quick else "full"], given.output, jvm=not given.no_jvm)


if __name__ == "__main__":
    main()
