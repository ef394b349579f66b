"""`kleene pack`: what goes into an archive, that it runs at another place, and that compiled kernels hold there."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

import kleene.engine.kernels as kernels
from kleene.common.errors import DataError
from kleene.engine.kernels import cache_directory
from kleene.interfaces.cli import main
from kleene.interfaces.commands.pack import pack as command
from kleene.interfaces.commands.pack.pack import Interpreter, distributions, pack

HOME = Path(str(kernels.__file__)).parents[2]
"""The folder of Kleene's sources."""


# --- packages -------------------------------------------------------------------------------------------------------------


def test_what_is_required_is_packed_and_spark_is_not() -> None:
    found = distributions(["kleene[spark]"])
    assert {"kleene", "lark", "llvmlite", "numba", "numpy", "pandas", "pyarrow", "pygments", "rich"} <= set(found)
    assert not {"pyspark", "py4j", "pytest", "mypy"} & set(found)


def test_packages_can_be_added() -> None:
    assert set(distributions(["kleene[spark]", "hypothesis"])) == {
        *distributions(["kleene[spark]"]),
        "hypothesis",
        "sortedcontainers",
    }


def test_an_unknown_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no package 'no-such-thing' is installed here\n  hint: pip install no-such-thing"):
        pack(tmp_path / "env.tar.gz", packages=["No_such.thing"])
    assert not list(tmp_path.iterdir())


def test_scripts_and_tests_are_left_out() -> None:
    numba = importlib.metadata.distribution("numba")
    assert any(".." in file.parts for file in numba.files or ())
    names = [part.name for part in command._files(numba, PurePosixPath("lib/python3/site-packages"))]
    assert "lib/python3/site-packages/numba/__init__.py" in names
    assert all(name.startswith("lib/python3/site-packages/numba") and ".." not in name for name in names)
    assert not any("/tests/" in name for name in names)


def test_a_package_whose_files_are_elsewhere_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "mine-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (folder / "direct_url.json").write_text('{"url": "file:///elsewhere", "dir_info": {"editable": true}}')
    with pytest.raises(DataError, match="'mine' is installed in editable mode"):
        list(command._files(importlib.metadata.Distribution.at(folder), PurePosixPath("packages")))


# --- the archive ----------------------------------------------------------------------------------------------------------


ONE = f"one.{cache_directory.version()}.5678"
"""A kernel of the sources as they are."""


@pytest.fixture
def only_kleene(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Archives without other packages, which are large, and with one kernel."""
    found = {"kleene": importlib.metadata.distribution("kleene")}
    monkeypatch.setattr(command, "distributions", lambda _: found)
    folder = tmp_path_factory.mktemp("cache") / "1234abcd"
    (folder / "kernels").mkdir(parents=True)
    for name in (f"{ONE}.nbc", f"{ONE}.nbc.tmp.5678", "old.1234abcd.5678.nbc"):
        (folder / "kernels" / name).write_text(name)
    monkeypatch.setattr(kernels, "cache_folder", lambda: folder)


@pytest.mark.slow
@pytest.mark.usefixtures("only_kleene")
def test_an_archive_runs_where_it_is_unpacked(tmp_path: Path) -> None:
    packed = pack(tmp_path / "env.tar.gz", warm=False)
    assert (packed.packages, packed.kernels) == (("kleene",), 1)
    place = tmp_path / "another place"
    with tarfile.open(tmp_path / "env.tar.gz") as archive:
        assert all(not entry.issym() and not entry.uname for entry in archive)
        archive.extractall(place, filter="data")
    program = "import kleene, os, sqlite3, sys; print(sys.prefix, kleene.__file__, os.environ['KLEENE_CACHE_DIR'], sep='\\n')"
    variables = {**os.environ, "PYTHONHOME": "/nowhere", "PYTHONPATH": ""}
    variables.pop("KLEENE_CACHE_DIR", None)
    done = subprocess.run(
        ["./another place/bin/python", "-c", program], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    prefix, module, cache = done.stdout.splitlines()
    assert Path(prefix) == place.resolve()
    assert place.resolve() in Path(module).parents
    assert Path(cache) == place.resolve() / "kernels"
    assert listed(place / "kernels") == [f"1234abcd/kernels/{ONE}.nbc"]


@pytest.mark.slow
@pytest.mark.usefixtures("only_kleene")
def test_nothing_is_left_of_an_archive_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(command, "_nobodys", full)
    (tmp_path / "env.tar.gz").write_text("the one before")
    with pytest.raises(OSError, match="No space"):
        pack(tmp_path / "env.tar.gz", warm=False)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["the one before"]


def test_the_name_says_that_it_is_to_be_unpacked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pack", "env.zip"]) == 2
    assert "the archive's name ends in .tar.gz or .tgz" in capsys.readouterr().err


@pytest.mark.usefixtures("only_kleene")
def test_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pack", str(tmp_path / "no" / "env.tar.gz"), "--no-warm-up"]) == 1
    assert capsys.readouterr().err == f"error: {tmp_path / 'no'}: no such folder\n"


def test_other_systems_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(DataError, match="which are Linux"):
        Interpreter.here()


def test_conda_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "conda-meta").mkdir()
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    with pytest.raises(DataError, match="conda-pack"):
        Interpreter.here()


def test_kernels_that_are_not_kept_are_missed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kernels, "cache_folder", lambda: None)
    with pytest.raises(DataError, match="there are none to pack\n  hint: set KLEENE_CACHE_DIR"):
        pack(tmp_path / "env.tar.gz")


# --- the warm-up ----------------------------------------------------------------------------------------------------------

WARM_UP = """
import json, re, sys, warnings
from kleene.engine.kernels.cache_directory import HOME, sources
from kleene.interfaces.commands.pack.warm_up import warm_up

called = set()

def note(frame, event, _):
    if event == "call":
        called.add((frame.f_code.co_filename, frame.f_code.co_name))

warnings.simplefilter("ignore")
sys.setprofile(note)
warm_up(lambda _: None)
sys.setprofile(None)
known = [(path, name) for path in sources()
         for name in re.findall(r"^@kernel\\ndef (\\w+)", (HOME / path).read_text(), re.MULTILINE)]
print(json.dumps([f"{path.parent}/{path.stem}.{name}" for path, name in known if (str(HOME / path), name) not in called]))
"""
"""Prints the kernels that the warm-up does not call."""

COLD = {
    "engine/automaton/kernels/compressed.draw",  # samples, which are drawn where compressed matches are read
    "engine/automaton/kernels/compressed.locate",
    "engine/matches/kernels/negation.probe_times",  # the paper's index and its lack, where they are asked for...
    "engine/matches/kernels/negation.scan",
    "engine/aggregation/kernels.fold_alike",  # streams that come in many pieces...
    "engine/automaton/kernels/match_buffer.prune",
    "engine/counting/kernels/totals.begin",
    "engine/matches/kernels/apart.keep_apart",  # ...and slices of many events
    "engine/counting/kernels/slices.combine",
    "engine/kernels/rows.alike_at_begin",  # events that complete many blocks of matches
    "engine/kernels/rows.count_ends",
}


@pytest.mark.slow
def test_the_warm_up_calls_every_kernel_that_most_queries_need() -> None:
    variables = {**os.environ, "KLEENE_KERNELS": "python"}
    done = subprocess.run([sys.executable, "-c", WARM_UP], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) <= COLD


# --- kernels at another place ---------------------------------------------------------------------------------------------

USE = """
import numpy as np
from kleene.engine import kernels
from kleene.engine.kernels.rows import alike_at_end, first_descent

first_descent(np.arange(5))
alike_at_end(np.arange(5))
print(sum(len(loop.stats.cache_misses) for loop in (first_descent, alike_at_end)), kernels.__file__)
"""
"""Calls two kernels; prints how many of them were not in the cache."""


def use(home: Path, cache: Path) -> int:
    variables = {**os.environ, "PYTHONPATH": str(home), "KLEENE_CACHE_DIR": str(cache)}
    variables.pop("KLEENE_KERNELS", None)
    done = subprocess.run([sys.executable, "-c", USE], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    missed, _, place = done.stdout.strip().partition(" ")
    assert home in Path(place).parents
    return int(missed)


def listed(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.nb*"))


@pytest.mark.slow
def test_kernels_hold_where_sources_and_cache_are_others(tmp_path: Path) -> None:
    home, cache = tmp_path / "here", tmp_path / "cache"
    shutil.copytree(HOME, home / "kleene", ignore=shutil.ignore_patterns("__pycache__"))
    assert use(home, cache) == 2
    known = listed(cache)
    assert len(known) >= 2
    other = tmp_path / "elsewhere"
    shutil.copytree(home, other / "home", copy_function=shutil.copyfile)  # with dates of its own
    shutil.copytree(cache, other / "cache", copy_function=shutil.copyfile)
    assert use(other / "home", other / "cache") == 0
    assert listed(other / "cache") == known


@pytest.mark.slow
def test_other_sources_have_kernels_of_their_own(tmp_path: Path) -> None:
    home, cache = tmp_path / "here", tmp_path / "cache"
    shutil.copytree(HOME, home / "kleene", ignore=shutil.ignore_patterns("__pycache__"))
    use(home, cache)
    kernels = home / "kleene" / "engine"
    for changed, compiled in (("automaton/kernels/layout.py", 0), ("kernels/rows.py", 2), ("kernels/__init__.py", 2)):
        with (kernels / changed).open("a") as source:
            source.write("# changed\n")
        assert use(home, cache) == compiled


def test_functions_that_are_not_ours_are_kept_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    assert not numba.config.CACHE_DIR
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "users.py").write_text("import numba\n\n@numba.njit(cache=True)\ndef f(x):\n    return x + 1\n")
    module = __import__("users")
    assert module.f(1) == 2
    assert list((tmp_path / "__pycache__").glob("users.f-*.nbc"))
