"""Unit tests mirror the sources: `tests/unit/engine/events/test_scan.py` is of `kleene/engine/events/scan.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import kleene

SOURCES = Path(kleene.__file__).parent
UNIT = Path(__file__).parents[1] / "unit"
TESTS = sorted(path.relative_to(UNIT) for path in UNIT.rglob("test_*.py"))
LARGE = 100
"""Lines from which on a module has a test file of its own, or is in `WITHOUT`."""

WITHOUT = {
    "common": "columns errors schema",
    "engine/aggregation": "expiring matcher values",
    "engine": "allowance audit",
    "engine/automaton": "automaton_pass run_buffer run_program",
    "engine/counting": "carried marked_program program totals trie_program values",
    "engine/expressions": "failing vectorized",
    "engine/lazy": "lazy_pass order_planner program",
    "engine/matches": "aggregate_output",
    "engine/passes": "filter_values observe restored working_matcher working_pass",
    "engine/sequence": "stacks",
    "engine/shared": "completion program shared_pass",
    "explain": "shared_drawing",
    ".": "functions",
    "generators": "retail_stories",
    "interfaces": "analyze compressed event_range query rules streams",
    "interfaces/commands/pack": "warm_up",
    "interfaces/commands": "spark",
    "interfaces/commands/stream": "run",
    "interfaces/composition": "composites queries shared",
    "interfaces/explorer": "encoding found",
    "interfaces/why_not": "misses report stream",
    "language": "actions scanner",
    "pattern": "durations faults functions kinds normalize predicates registered relax terms text windows",
    "plan": "aggregation contract operators options patterns stages",
    "plan/analysis": "compilable keys",
    "plan/automaton": "automaton nfa",
    "plan/counting": "chopping counters shared_counters",
    "plan/lazy": "choice lazy",
    "plan/multi": "cost groups moves",
    "runtime/rules": "files",
    "runtime/stream": "budget log plan",
    "testing": "case_routes cases evaluate functions oracle_runs oracle_stream",
}
"""By package, modules that are tested by cases and through others only. Write a test and take one out; put none in."""


def module_of(test: Path) -> Path:
    """The module that a test file is of, or the package."""
    module = SOURCES / test.with_name(test.name.removeprefix("test_"))
    return module if module.exists() else module.with_suffix("")


@pytest.mark.parametrize("test", TESTS, ids=str)
def test_a_test_file_names_a_module_or_a_package(test: Path) -> None:
    assert module_of(test).exists(), "move it to where its subject is, or to tests/embedded if no single module decides it"


def test_every_large_module_has_a_test_file() -> None:
    tested, known = {module_of(test) for test in TESTS}, {SOURCES / package / f"{name}.py" for package, name in without()}
    large = {
        path
        for path in SOURCES.rglob("*.py")
        if path.stem not in ("__init__", "kernels") and path.parent.name != "kernels"  # compared with plain twins
        if not path.is_relative_to(SOURCES / "runtime" / "spark")  # tests/spark
        if len(path.read_text(encoding="utf-8").splitlines()) > LARGE
    }
    assert sorted(large - tested - known) == [], "have no test file"
    assert sorted(path for path in known if path in tested or not path.exists()) == [], "have one, or are gone: take them out"


def without() -> Iterator[tuple[str, str]]:
    return ((package, name) for package, names in WITHOUT.items() for name in names.split())
