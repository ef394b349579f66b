"""The distribution files: what is in them, and that the wheel works where there is no repository.

They are built by hatchling in this environment, without the network. The wheel is installed into an environment of its own,
which sees the packages of this one. With the network, under `long`, it is installed with what it requires.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import kleene

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSION = kleene.__version__

EVENTS = "ts,type,item\n1,Shelf,razor\n2,Shelf,milk\n3,Register,milk\n4,Exit,milk\n5,Exit,razor\n"
QUERY = "PATTERN SEQ(Shelf a, !(Register b), Exit c) WHERE [item] WITHIN 12 RETURN a.item AS item"
PROGRAM = f"""
import pathlib, sys
import pyarrow.csv
import kleene
assert pathlib.Path(kleene.__file__).is_relative_to(sys.prefix), kleene.__file__
events = pyarrow.csv.read_csv("events.csv")
print(kleene.query({QUERY!r}).match(events, time="ts", type="type").column("item").to_pylist())
"""


def run(command: Sequence[str | Path], folder: Path, **environment: str) -> str:
    """Standard output of a command that must succeed."""
    own = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=folder, env={**own, **environment}, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "hatchling", "build", "-d", folder], ROOT)
    return folder


def wheel_in(folder: Path) -> Path:
    (wheel,) = folder.glob(f"kleene-{VERSION}-py3-none-any.whl")
    return wheel


def sources() -> set[str]:
    """The files of the package in the repository."""
    files = (path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT / "src").as_posix() for path in files}


# --- what is in them --------------------------------------------------------------------------------------------------


def test_the_wheel_has_the_package_its_data_and_licences_and_nothing_else(built: Path) -> None:
    with zipfile.ZipFile(wheel_in(built)) as wheel:
        names = set(wheel.namelist())
        metadata = wheel.read(f"kleene-{VERSION}.dist-info/METADATA").decode()
    own = {name for name in names if not name.startswith(f"kleene-{VERSION}.dist-info/")}
    assert own == sources()
    data = {"kleene/py.typed", "kleene/language/grammar.lark", "kleene/interfaces/commands/queries/shoplifting.sase"}
    assert data <= own
    about = {name.partition("dist-info/")[2] for name in names - own}
    assert about == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "licenses/NOTICE"}
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: >=3.11" in metadata
    assert "# Kleene" in metadata  # the README


def test_the_source_distribution_has_what_it_takes_to_test_it(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in sources()} <= names
    top = {"pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "NOTICE", "Makefile", "PKG-INFO"}
    assert top <= names
    assert {"tests/conftest.py", "docs/api.md", "examples/shoplifting.py", "benchmarks/__main__.py"} <= names
    assert {name for name in names if "__pycache__" in name or name.startswith(".venv")} == set()


def test_a_wheel_made_of_the_source_distribution_is_the_same(built: Path, tmp_path: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path, filter="data")
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path], tmp_path / f"kleene-{VERSION}")
    with zipfile.ZipFile(wheel_in(built)) as one, zipfile.ZipFile(wheel_in(tmp_path)) as other:
        assert sorted(one.namelist()) == sorted(other.namelist())


# --- that it works ----------------------------------------------------------------------------------------------------


def environment_in(folder: Path) -> Path:
    """A new environment; its folder of programs."""
    run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], folder)
    return folder / "venv" / "bin"


def use(programs: Path, folder: Path, **environment: str) -> None:
    """Uses the command and the library outside the repository."""
    (folder / "events.csv").write_text(EVENTS, encoding="utf-8")
    (folder / "query.sase").write_text(QUERY, encoding="utf-8")
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    assert run([programs / "kleene", "--version"], folder, **environment) == f"kleene {VERSION}\n"
    assert "WITHIN 12" in run([programs / "kleene", "check", "query.sase"], folder, **environment)
    roles = ["--time", "ts", "--type", "type"]
    assert "razor" in run([programs / "kleene", "match", "query.sase", "events.csv", *roles], folder, **environment)
    assert run([programs / "python", "program.py"], folder, **environment) == "['razor']\n"


def test_the_wheel_works_outside_the_repository(built: Path, tmp_path: Path) -> None:
    programs = environment_in(tmp_path)
    quiet = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    run([sys.executable, "-m", "pip", "--python", programs / "python", "install", *quiet, wheel_in(built)], tmp_path)
    (home,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    # A path, and not the .pth files in it: Kleene itself, installed here in editable mode, stays out of sight.
    (home / "required.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    use(programs, tmp_path, KLEENE_KERNELS="python")


@pytest.mark.long
def test_the_wheel_installs_with_what_it_requires(built: Path, tmp_path: Path) -> None:
    programs = environment_in(tmp_path)
    quiet = ["--quiet", "--disable-pip-version-check"]
    run([sys.executable, "-m", "pip", "--python", programs / "python", "install", *quiet, wheel_in(built)], tmp_path)
    use(programs, tmp_path, KLEENE_CACHE_DIR=str(tmp_path / "kernels"))


# --- versions and licences --------------------------------------------------------------------------------------------


def test_the_version_is_the_same_everywhere() -> None:
    assert PROJECT["version"] == VERSION
    assert importlib.metadata.version("kleene") == VERSION


def required(given: Sequence[str]) -> set[str]:
    """The names of packages, and of those that they require, as installed here."""
    found: dict[str, frozenset[str]] = {}
    waiting = [Requirement(text) for text in given]
    while waiting:
        item = waiting.pop()
        name, extras = canonicalize_name(item.name), frozenset(item.extras)
        if extras <= found.get(name, frozenset()) and name in found:
            continue
        found[name] = extras | found.get(name, frozenset())
        for text in importlib.metadata.requires(name) or []:
            other = Requirement(text)
            if other.marker is None or any(other.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                waiting.append(other)
    return set(found)


def licences() -> dict[str, str]:
    """What NOTICE says: names of packages with their licences."""
    text = (ROOT / "NOTICE").read_text(encoding="utf-8")
    return dict(re.findall(r"^  (\S+) +(\S.*)$", text, re.MULTILINE))


def test_the_notice_names_every_package_that_is_required() -> None:
    names = required([*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["spark"]])
    assert names == set(licences())


@pytest.mark.parametrize(("name", "licence"), licences().items())
def test_a_licence_is_that_of_the_metadata(name: str, licence: str) -> None:
    metadata = importlib.metadata.metadata(name)
    stated = [metadata.get("License-Expression"), metadata.get("License"), *(metadata.get_all("Classifier") or [])]
    words = " ".join(text for text in stated if text)
    families = [family for family in ("Apache", "BSD", "MIT", "PSF") if family in licence]
    assert families
    assert all(family in words for family in families)
