"""What is declared is what is tested: bounds of all requirements, environments at both ends, and the page that says so."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pyspark
import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from support import matrix

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/versioning.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", matrix.declared())
def test_a_requirement_has_both_bounds_and_the_page_tells_them(name: str) -> None:
    specifier = matrix.declared()[name].specifier
    assert sorted(item.operator for item in specifier) == ["<", ">="]
    (below,) = (item.version for item in specifier if item.operator == "<")
    (shown,) = re.findall(rf"^\| {name} \| ([\d.]+) \| below ([\d.]+) \|$", PAGE, re.MULTILINE)
    assert shown == (matrix.oldest(name), below)


def test_the_oldest_environment_has_the_lower_bound_of_everything() -> None:
    pinned = set(matrix.ENVIRONMENTS["oldest"].pinned)
    assert {f"{name}=={matrix.oldest(name)}" for name in matrix.declared()} <= pinned
    assert SpecifierSet(matrix.PROJECT["requires-python"]) == SpecifierSet(f">={matrix.ENVIRONMENTS['oldest'].python}")


def test_every_python_and_spark_that_is_declared_has_an_environment() -> None:
    pythons = {words.rsplit(" ", 1)[1] for words in matrix.PROJECT["classifiers"] if re.search(r":: 3\.\d+$", words)}
    assert pythons == {item.python for item in matrix.ENVIRONMENTS.values()}
    specifier = matrix.declared()["pyspark"].specifier
    minors = [f"4.{minor}" for minor in range(10) if f"4.{minor}" in specifier]
    pinned = [pin for item in matrix.ENVIRONMENTS.values() for pin in item.pinned if pin.startswith("pyspark")]
    assert sorted(pin.removeprefix("pyspark==").removesuffix(".*") for pin in pinned) == minors[:-1]
    assert matrix.ENVIRONMENTS["newest"].pinned == ()
    assert Version(pyspark.__version__) in specifier


def test_a_python_that_is_not_here_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(matrix.ENVIRONMENTS, "newest", matrix.Environment("3.99", (), ()))
    assert matrix.main(["newest"]) == 1
    assert "newest: not tested: there is no Python 3.99 on this machine" in capsys.readouterr().out
    assert matrix.main(["newest", "--missing"]) == 0


def test_an_environment_is_made_anew_when_it_is_made_of_something_else(tmp_path: Path) -> None:
    folder, made = tmp_path / "one", []

    def make(recipe: str, *commands: list[str]) -> None:
        matrix.make(folder, recipe, [["touch", str(folder / name)] for name in commands])
        made.append(sorted(path.name for path in folder.iterdir()))

    make("a", "x")
    make("a", "y")
    make("b", "z")
    assert made == [["recipe.txt", "x"], ["recipe.txt", "x"], ["recipe.txt", "z"]]


def test_the_checks_of_a_change_have_the_oldest_spark() -> None:
    assert "\nmake smoke\n" in (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert ".matrix/" in (ROOT / ".gitignore").read_text(encoding="utf-8")
    assert tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"] == ">=3.11"
