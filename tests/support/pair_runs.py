"""Runs of random pairs: one after another into a report, as a script, and by a test in a process of its own.

A suite makes example `number` of a seed and checks it. Its script runs some of them and prints a report as JSON:

    python SCRIPT SEED COUNT [--first NUMBER] [--break NAME] [--stop-after FAILURES]

`--break` sabotages the engine on purpose, to see that the comparison notices. Tests run scripts with plain-Python kernels
(nothing is compiled), in a process of their own because the choice is made when the engine is imported.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import textwrap
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from random import Random
from types import ModuleType
from typing import Any

Sabotage = Mapping[str, Callable[[], None]]

CUTS = (
    "batch_rows=0",
    "batch_rows=1",
    "batch_rows=3",
    "run_rows=0",
    "run_rows=3",
    "block=1",
    "block=3",
    "dictionaries",
    "shuffled",
)
"""What suites count of how streams are cut, encoded and delivered."""


@dataclass(slots=True)
class Report:
    """What a run of pairs saw."""

    pairs: int = 0
    matches: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    compiled: bool = False
    """Whether numba was there."""


@dataclass(frozen=True, slots=True)
class Suite:
    """Random examples, and how one is checked."""

    example: Callable[[int, int], Any]
    """(seed, number) to an example."""
    check: Callable[[Any, int, Random, Report], list[str]]
    """(example, number, random numbers of its own, report to add to) to what differs; empty if nothing does."""
    describe: Callable[[Any], str]
    sabotage: Sabotage


def run(suite: Suite, seed: int, numbers: range, stop_after: int = 3) -> Report:
    """Checks some examples of a seed; an exception is a finding as well."""
    report = Report()
    for number in numbers:
        if len(report.failures) >= stop_after:
            break
        example = suite.example(seed, number)
        report.pairs += 1
        try:
            found = suite.check(example, number, Random(f"{seed}:{number}"), report)
        except Exception:  # noqa: BLE001 - any exception is a finding, reported with its example
            found = [traceback.format_exc()]
        if found:
            name = f"{suite.example.__name__}({seed}, {number})"
            report.failures.append("\n  ".join((name, *found, suite.describe(example))))
    report.compiled = "numba" in sys.modules
    return report


def main(description: str | None, suite: Suite, **others: Suite) -> None:
    """The script of a suite; each of the others is run instead of it by an option of its name."""
    sabotage = {name: act for one in (suite, *others.values()) for name, act in one.sabotage.items()}
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("seed", "count"):
        parser.add_argument(name, type=int)
    parser.add_argument("--first", type=int, default=0, help="the number of the first example")
    parser.add_argument("--stop-after", type=int, default=3)
    parser.add_argument("--break", dest="sabotage", choices=sabotage)
    parser.set_defaults(suite=suite)
    for name, other in others.items():
        parser.add_argument(f"--{name}", dest="suite", action="store_const", const=other)
    given = parser.parse_args()
    sabotage.get(given.sabotage, lambda: None)()
    report = run(given.suite, given.seed, range(given.first, given.first + given.count), given.stop_after)
    json.dump({item.name: getattr(report, item.name) for item in fields(report)}, sys.stdout)


# --- for tests --------------------------------------------------------------------------------------------------------


def run_script(script: ModuleType, *arguments: object) -> Report:
    """Runs a suite's script without numba."""
    done = subprocess.run(
        [sys.executable, str(script.__file__), *map(str, arguments)],
        env={**os.environ, "KLEENE_KERNELS": "python", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return Report(**{**found, "seen": Counter(found["seen"])})


def assert_agreement(script: ModuleType, seed: int, pairs: int, *options: str) -> Counter[str]:
    """That pairs of a seed agree with the oracle; what was seen in them."""
    report = run_script(script, seed, pairs, *options)
    assert report.failures == [], "\n\n".join(report.failures)
    assert report.pairs == pairs
    assert not report.compiled
    return report.seen


def assert_noticed(script: ModuleType, sabotage: str, pairs: int, *options: str) -> None:
    """That a broken engine fails within some pairs: a test of the test."""
    report = run_script(script, 1, pairs, *options, "--break", sabotage, "--stop-after", 1)
    assert report.failures, f"{sabotage} went unnoticed in {report.pairs} pairs"


def assert_shares(seen: Mapping[str, int], shares: Mapping[str, float], pairs: int) -> None:
    """That features are seen in at least their share of the pairs."""
    for feature, share in shares.items():
        assert seen.get(feature, 0) >= share * pairs, (feature, seen)


# --- sabotage ---------------------------------------------------------------------------------------------------------


def rewritten(owner: Any, name: str, right: str, wrong: str) -> Callable[[], None]:
    """Makes a function wrong in one place of its source, which must be there; plain-Python kernels can be rewritten too."""
    given = getattr(owner, name)
    function = given.fget if isinstance(given, property) else given
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(right) == 1, f"{name} does not have once: {right}"

    def rewrite() -> None:
        scope: dict[str, Any] = {}
        exec(compile(source.replace(right, wrong), f"<broken {name}>", "exec"), inspect.unwrap(function).__globals__, scope)
        setattr(owner, name, scope[name])

    return rewrite


def broken(owner: Any, name: str, right: str, wrong: str) -> Callable[[], None]:
    """The same, under whatever names modules have the function."""

    def rewrite() -> None:
        original = getattr(owner, name)
        rewritten(owner, name, right, wrong)()
        for module in [module for path, module in sys.modules.items() if path.startswith("kleene.")]:
            for alias in [alias for alias, value in vars(module).items() if value is original]:
                setattr(module, alias, getattr(owner, name))

    return rewrite
