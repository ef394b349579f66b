"""What `kleene bench` does: runs, compares, lists or reports suites. Arguments are in `kleene.interfaces.commands.bench`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.suite import Suite, comparison, elapsed, load, load_earlier, run_suite
from kleene.interfaces.commands.arguments import UsageError

ROOT = Path(__file__).resolve().parent.parent
SUITES = ("sase", "saseplus", "lazy", "aseq", "multi", "streaming", "scale", "peers", "real", "cliffs")


def execute(given: argparse.Namespace) -> int:
    """Does what the arguments say; the exit code."""
    suites = _suites(given.suites, given.experiment)
    scale = "quick" if given.quick else "full"
    # Quick results have a folder of their own, so that they replace no others.
    folder = Path(given.output) if given.output else ROOT / "artifacts" / "bench"
    folder = folder / "quick" if given.quick else folder
    if given.list:
        print("\n".join(_listed(suite) for suite in suites))
    elif given.compare:
        _compare(suites, folder)
    elif given.report:
        _report(suites, folder, Path(given.docs) if given.docs else ROOT / "docs", given)
    else:
        begun = time.perf_counter()
        for suite in suites:
            run_suite(suite, given.experiment or None, suite.scales[scale], folder, jvm=not given.no_jvm, begun=begun)
        print(f"{len(suites)} suites in {elapsed(begun)}; results in {folder}")
    return 0


def _suites(names: Sequence[str], experiments: Sequence[str]) -> list[Suite]:
    """The suites of these names, or all of them."""
    for name in names:
        if name not in SUITES:
            raise UsageError(f"there is no suite {name!r}: choose from {', '.join(SUITES)}")
    found: list[Suite] = [import_module(f"benchmarks.{name}.suite").SUITE for name in names or SUITES]
    if experiments and len(found) != 1:
        raise UsageError("--experiment needs one suite: `kleene bench SUITE --experiment NAME`")
    for name in experiments:
        if name not in found[0].experiments:
            raise UsageError(f"{found[0].name} has no experiment {name!r}: choose from {', '.join(found[0].experiments)}")
    return found


def _listed(suite: Suite) -> str:
    named = [
        f"{name}{'*' if name in suite.headlines else ''}{' (JVM)' if name in suite.only_jvm else ''}"
        for name in suite.experiments
    ]
    return f"{suite.name:10} {suite.about}\n{'':10} {', '.join(named)}"


def _compare(suites: Sequence[Suite], folder: Path) -> None:
    shown = 0
    for suite in suites:
        now, earlier = load(suite, folder)[0], load_earlier(suite, folder)
        for name in (name for name in now if name in earlier):
            print(comparison(suite.name, now[name], earlier[name]))
            shown += 1
    if not shown:
        raise UsageError(f"{folder} has no experiment with an earlier result of the same scale: run it twice")


def _report(suites: Sequence[Suite], folder: Path, docs: Path, given: argparse.Namespace) -> None:
    from benchmarks.report import write_report

    # Without a name: every suite that has results.
    wanted = suites if given.suites else [suite for suite in suites if (folder / suite.results).exists()]
    if not wanted:
        raise UsageError(f"{folder} has no results: run `kleene bench` first")
    for suite in wanted:
        presentation = import_module(f"benchmarks.{suite.name}.report").PRESENTATION
        print(f"wrote {write_report(presentation, folder, docs, given.note)}")
