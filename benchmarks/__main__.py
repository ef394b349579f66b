"""`python -m benchmarks sase [--quick] [--experiment NAME ...] [--output DIR] [--no-jvm] [--report]`; all of it by default."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.sase.streams import SCALES
from benchmarks.sase.suite import NAMES, RESULTS, run_suite

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Ratios to named baselines, never bare times.")
    parser.add_argument("suite", nargs="?", default="sase", choices=["sase"])
    parser.add_argument("--quick", action="store_true", help="a fifth of the events or fewer, and fewer rounds")
    parser.add_argument("--experiment", nargs="+", choices=NAMES, metavar="NAME", help=f"one or more of {', '.join(NAMES)}")
    parser.add_argument("--output", type=Path, default=ROOT / "artifacts" / "bench", metavar="DIR")
    parser.add_argument("--no-jvm", action="store_true", help="leave out everything on Spark")
    parser.add_argument(
        "--report", action="store_true", help="write docs/benchmarks.md and its figures from the results, run nothing"
    )
    parser.add_argument("--note", default="", metavar="TEXT", help="with --report: a remark on the run, for the page's opening")
    given = parser.parse_args(arguments)
    if given.report:
        from benchmarks.sase.report import write_report

        print(f"wrote {write_report(given.output / RESULTS, ROOT / 'docs', given.note)}")
        return
    names = given.experiment or [name for name in NAMES if not (given.no_jvm and name == "spark")]
    run_suite(names, SCALES["quick" if given.quick else "full"], given.output, jvm=not given.no_jvm)


if __name__ == "__main__":
    main()
