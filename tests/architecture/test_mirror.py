"""Unit tests mirror the sources: `tests/unit/engine/events/test_scan.py` is of `kleene/engine/events/scan.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

import kleene

SOURCES = Path(kleene.__file__).parent
UNIT = Path(__file__).parents[1] / "unit"
TESTS = sorted(path.relative_to(UNIT) for path in UNIT.rglob("test_*.py"))
LARGE = 100
"""Lines from which on a module has a test file of its own, or is in `WITHOUT`."""

WITHOUT = frozenset[str]()
"""Modules that are tested by cases and through others only. Write a test and take one out; put none in."""


def module_of(test: Path) -> Path:
    """The module that a test file is of, or the package."""
    module = SOURCES / test.with_name(test.name.removeprefix("test_"))
    return module if module.exists() else module.with_suffix("")


@pytest.mark.parametrize("test", TESTS, ids=str)
def test_a_test_file_names_a_module_or_a_package(test: Path) -> None:
    assert module_of(test).exists(), "move it to where its subject is, or to tests/embedded if no single module decides it"


def test_every_large_module_has_a_test_file() -> None:
    tested = {module_of(test) for test in TESTS}
    large = {
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        if path.name != "__init__.py" and "kernels" not in path.parts and path.name != "kernels.py"
        if path not in tested and len(path.read_text(encoding="utf-8").splitlines()) > LARGE
    }
    assert sorted(large - WITHOUT) == [], "have no test file"
    assert sorted(WITHOUT - large) == [], "have one, or are small or gone: take them out of WITHOUT"
