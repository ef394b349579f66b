"""The kernel cache: private, or not used; damaged files are compiled again; nothing is written beside the sources.

As root these tests act as two other users, an attacker and a victim; elsewhere those that need them are left out.
"""

from __future__ import annotations

import importlib
import inspect
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kleene.engine import kernels
from kleene.engine.kernels import cache_directory
from kleene.engine.kernels.cache_directory import fingerprint, fingerprints, private_directory, version

pytestmark = pytest.mark.slow  # each starts interpreters

HOME = Path(str(kernels.__file__)).parents[2]
"""The folder of Kleene's sources."""
VICTIM, ATTACKER = 54321, 54322

as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can act as other users")

USE = """
import numpy as np
from kleene.engine import kernels
from kleene.engine.expressions import filters
from kleene.engine.lazy import program as lazy_program
from kleene.engine.kernels.rows import alike_at_end, first_descent

assert first_descent(np.array([1, 2, 1])) == 2
filters.no_filter(), lazy_program._no_filter()
assert alike_at_end(np.array([1, 2, 1])) == 1
print(sum(len(loop.stats.cache_misses) for loop in (first_descent, alike_at_end)), kernels.cache_folder())
"""
"""Compiles two kernels, and filters; prints how many of the kernels were not in the cache, and where that is."""

BECOME = """
import os, runpy, sys, tempfile
import numba

numba.njit(lambda x: x + 1)(1)
numba.cfunc("int64(int64)")(lambda x: x + 1)
os.environ["KLEENE_KERNELS"] = "python"
import kleene.engine.expressions.filters, kleene.engine.lazy.program, kleene.engine.kernels.cache_files, grp, pwd
del os.environ["KLEENE_KERNELS"]
for name in [name for name in sys.modules if name.startswith("kleene")]:
    del sys.modules[name]
tempfile.tempdir = None
os.setgroups([])
os.setgid({user})
os.setuid({user})
"""
"""Becomes another user, who may not be able to read the files of this Python: all that is needed is loaded before."""


def use(*, user: int | None = None, sources: Path = HOME.parent, **variables: str) -> tuple[int, str, str]:
    """What `USE` prints (how many were compiled, the folder), and what it warns of."""
    kept = {name: value for name, value in os.environ.items() if name not in ("KLEENE_KERNELS", "KLEENE_CACHE_DIR")}
    own = {**kept, "PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    program = USE if user is None else BECOME.format(user=user) + USE
    done = subprocess.run([sys.executable, "-c", program], env=own, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    missed, _, folder = done.stdout.strip().partition(" ")
    return int(missed), folder, done.stderr


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that all users can enter, with a temporary folder as `/tmp` is."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "tmp").mkdir()
        (folder / "tmp").chmod(0o1777)
        yield folder


def owned(folder: Path, user: int, mode: int = 0o700) -> Path:
    folder.mkdir(parents=True)
    os.chown(folder, user, user)
    folder.chmod(mode)
    return folder


def homeless(place: Path) -> dict[str, str]:
    """The variables of a user who cannot write to a home."""
    return {"HOME": "/nonexistent", "XDG_CACHE_HOME": "/proc/nowhere", "TMPDIR": str(place / "tmp")}


# --- other users ----------------------------------------------------------------------------------------------------------


@as_root
def test_a_folder_that_another_user_made_first_is_not_used(place: Path) -> None:
    taken = owned(place / "tmp" / f"kleene-{VICTIM}", ATTACKER, 0o777)
    missed, folder, said = use(user=VICTIM, **homeless(place))
    assert (missed, folder) == (2, "None")
    assert f"compiled kernels are not kept, so every process compiles its own: {taken} belongs to another user" in said
    assert list(taken.iterdir()) == []


@as_root
@pytest.mark.parametrize("target", ["victims", "nowhere"])
def test_a_link_that_another_user_made_is_not_followed(place: Path, target: str) -> None:
    victims = owned(place / "victims", VICTIM)
    link = place / "tmp" / f"kleene-{VICTIM}"
    link.symlink_to(place / target)
    os.chown(link, ATTACKER, ATTACKER, follow_symlinks=False)
    missed, folder, said = use(user=VICTIM, **homeless(place))
    assert (missed, folder) == (2, "None")
    assert f"{link} is a link that another user has made" in said
    assert list(victims.iterdir()) == []


@as_root
def test_a_folder_in_one_of_another_user_is_not_used(place: Path) -> None:
    theirs = owned(place / "theirs", ATTACKER, 0o755)
    mine = owned(theirs / "mine", VICTIM)
    _, folder, said = use(user=VICTIM, **homeless(place), KLEENE_CACHE_DIR=str(mine))
    assert folder == str(place / "tmp" / f"kleene-{VICTIM}" / version())
    assert f"{mine} is in {theirs}, which belongs to another user" in said
    assert list(mine.iterdir()) == []


@as_root
def test_a_folder_beside_the_sources_belongs_to_who_can_change_them_anyway(place: Path) -> None:
    """As where a node's manager unpacks archives, in folders of its own, for those who run on the node."""
    node = owned(place / "node", ATTACKER, 0o755)
    shutil.copytree(HOME, node / "sources" / "kleene", ignore=shutil.ignore_patterns("__pycache__"))
    mine = owned(node / "kernels", VICTIM)
    for missed in (2, 0):
        found = use(user=VICTIM, sources=node / "sources", **homeless(place), KLEENE_CACHE_DIR=str(mine))
        assert found == (missed, str(mine / version()), "")


def test_nothing_is_written_beside_sources_that_can_be_written_to(place: Path) -> None:
    sources = place / "sources"
    shutil.copytree(HOME, sources / "kleene", ignore=shutil.ignore_patterns("__pycache__"))
    before = sorted(sources.rglob("*"))
    assert use(sources=sources, **homeless(place))[0] == 2
    assert sorted(sources.rglob("*")) == before


@as_root
def test_a_cache_of_another_user_is_not_copied(place: Path) -> None:
    theirs = owned(place / "theirs", ATTACKER, 0o755)
    owned(theirs / version() / "kernels", ATTACKER, 0o755)
    _, folder, said = use(user=VICTIM, **homeless(place), KLEENE_CACHE_DIR=str(theirs))
    assert folder == str(place / "tmp" / f"kleene-{VICTIM}" / version())
    assert f"compiled kernels are kept in {place / 'tmp' / f'kleene-{VICTIM}'}: {theirs} belongs to another user" in said


@as_root
def test_root_does_not_use_the_folder_of_a_user(place: Path) -> None:
    theirs = owned(place / "theirs", ATTACKER)
    _, folder, said = use(**homeless(place), KLEENE_CACHE_DIR=str(theirs))
    assert folder == str(place / "tmp" / "kleene-0" / version())
    assert f"{theirs} belongs to another user" in said


@as_root
def test_a_cache_of_root_is_copied_and_compiles_nothing(place: Path) -> None:
    shipped = place / "shipped"
    assert use(KLEENE_CACHE_DIR=str(shipped))[0] == 2
    subprocess.run(["chmod", "-R", "a+rX,go-w", shipped], check=True)
    missed, folder, said = use(user=VICTIM, **homeless(place), KLEENE_CACHE_DIR=str(shipped))
    assert (missed, said) == (0, "")
    assert folder == str(place / "tmp" / f"kleene-{VICTIM}" / version())


@as_root
@pytest.mark.parametrize("given", [True, False])
def test_an_installation_that_is_read_only_and_no_home(place: Path, given: bool) -> None:
    shutil.copytree(HOME, place / "sources" / "kleene", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["chmod", "-R", "a-w,a+rX", place / "sources"], check=True)
    before = sorted((place / "sources").rglob("*"))
    variables = homeless(place) | ({"KLEENE_CACHE_DIR": "/proc/cache"} if given else {})
    for missed in (2, 0):
        found = use(user=VICTIM, sources=place / "sources", **variables)
        assert found == (missed, str(place / "tmp" / f"kleene-{VICTIM}" / version()), "")
    assert sorted((place / "sources").rglob("*")) == before


# --- permissions ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache, which is used where another folder is refused."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    return tmp_path / "own" / "kleene"


def test_a_new_folder_is_for_the_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = tmp_path / "a" / "b"
    monkeypatch.setenv("KLEENE_CACHE_DIR", str(given))
    assert private_directory() == given
    assert [stat.S_IMODE(path.stat().st_mode) for path in (given, given.parent)] == [0o700, 0o700]


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o1777])
def test_a_folder_that_all_can_write_to_is_refused(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    given = tmp_path / "given"
    given.mkdir()
    given.chmod(mode)
    monkeypatch.setenv("KLEENE_CACHE_DIR", str(given))
    with pytest.warns(RuntimeWarning, match=f"kept in {own}: {given} can be written to by other users"):
        assert private_directory() == own


@pytest.mark.parametrize(("mode", "safe"), [(0o777, False), (0o1777, True), (0o755, True)])
def test_a_folder_above_that_all_can_write_to_needs_the_sticky_bit(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, safe: bool
) -> None:
    given = tmp_path / "above" / "given"
    given.mkdir(parents=True, mode=0o700)
    given.parent.chmod(mode)
    monkeypatch.setenv("KLEENE_CACHE_DIR", str(given))
    if safe:
        assert private_directory() == given
    else:
        with pytest.warns(RuntimeWarning, match=f"{given} is in {given.parent}, to which other users can write"):
            assert private_directory() == own


@as_root
def test_a_group_may_write_if_nobody_else_is_in_it(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = tmp_path / "given"
    given.mkdir()
    os.chown(given, 0, ATTACKER)
    given.chmod(0o770)
    monkeypatch.setenv("KLEENE_CACHE_DIR", str(given))
    with pytest.warns(RuntimeWarning, match="can be written to by other users"):
        assert private_directory() == own
    monkeypatch.setattr("kleene.engine.kernels.cache_directory._own_group", lambda user, group: (user, group) == (0, ATTACKER))
    assert private_directory() == given


def test_a_file_that_others_can_write_to_is_refused(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = tmp_path / "given"
    (given / version() / "kernels").mkdir(parents=True)
    file = given / version() / "kernels" / "one.nbc"
    file.touch()
    file.chmod(0o666)
    monkeypatch.setenv("KLEENE_CACHE_DIR", str(given))
    given.chmod(0o700)
    assert private_directory() == given  # nobody else gets there
    given.chmod(0o755)
    with pytest.warns(RuntimeWarning, match=f"{file} could have been written by other users"):
        assert private_directory() == own
    assert not (own / version()).exists()
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.warns(RuntimeWarning, match=f"{file} is a link"):
        assert private_directory() == own


def test_a_link_of_the_users_own_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernels").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "kernels")  # as YARN makes them of archives
    monkeypatch.setenv("KLEENE_CACHE_DIR", str(tmp_path / "link"))
    assert private_directory() == tmp_path / "kernels"


def test_no_folder_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLEENE_CACHE_DIR", "/proc/given")
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/home")
    monkeypatch.setattr(tempfile, "tempdir", "/proc/temporary")
    with pytest.warns(RuntimeWarning, match="not kept, so every process compiles its own: no folder can be written to"):
        assert private_directory() is None


# --- files ----------------------------------------------------------------------------------------------------------------


def test_damaged_files_are_compiled_again(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert use(KLEENE_CACHE_DIR=str(cache))[0] == 2
    files = sorted(cache.rglob("*.nbc"))
    assert len(files) >= 2
    damages = (lambda _: b"", flipped, lambda content: content[:40], lambda content: content[:-1])
    for begin in (0, 2):
        for number, file in enumerate(files, begin):
            file.write_bytes(damages[number % 4](file.read_bytes()))
        assert use(KLEENE_CACHE_DIR=str(cache))[0] == 2
        assert use(KLEENE_CACHE_DIR=str(cache))[0] == 0
    assert sorted(cache.rglob("*.nbc")) == files


def test_files_that_nobody_reads_are_deleted(tmp_path: Path) -> None:
    cache_files = pytest.importorskip("kleene.engine.kernels.cache_files")
    folder = {"KLEENE_CACHE_DIR": str(tmp_path)}
    assert use(**folder)[0] == 2
    kept = set(tmp_path.rglob("*.nbc"))
    other = tmp_path / "another-version" / "kernels"
    other.mkdir(parents=True)
    (other / "left.nbc").touch()
    (other / "left.nbc.tmp.0").touch()
    for path in tmp_path.rglob("*.nbc*"):
        os.utime(path, (time.time() - (cache_files.UNUSED_DAYS + 1) * cache_files.DAY,) * 2)
    assert use(**folder)[0] == 0, "what is read is not deleted"
    cache_files.drop_unused(tmp_path)
    assert set(tmp_path.rglob("*.nbc*")) == kept
    assert use(**folder)[0] == 0
    assert not other.parent.exists()


def test_a_kernel_is_compiled_again_when_its_own_sources_change() -> None:
    modules = {path: cache_directory._module_of(path) for path in cache_directory.sources()}
    for path, name in modules.items():
        needed = set(cache_directory._needed(name))
        assert path in needed
        parts = [getattr(item, "py_func", item) for item in vars(importlib.import_module(name)).values()]
        sources = {Path(inspect.getfile(item)) for item in parts if inspect.isfunction(item)}
        assert {source.relative_to(HOME) for source in sources if source.is_relative_to(HOME)} & set(modules) <= needed
    own = fingerprint("kleene.engine.lazy.kernels.chain")
    assert own not in (fingerprint("kleene.engine.lazy.kernels.extension"), version())
    assert fingerprints() >= {own, version()}


def flipped(content: bytes) -> bytes:
    at = len(content) // 2
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert use(KLEENE_CACHE_DIR=str(cache))[0] == 2
    for file in sorted(cache.rglob("*.nbc")):
        file.unlink()
        file.mkdir()
    assert use(KLEENE_CACHE_DIR=str(cache))[0] == 2
    assert not list(cache.rglob("*.tmp.*"))


def test_processes_that_share_a_cache(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if name != "KLEENE_KERNELS"}
    variables = {**kept, "PYTHONPATH": str(HOME.parent), "KLEENE_CACHE_DIR": str(tmp_path / "cache")}
    running = [subprocess.Popen([sys.executable, "-c", USE], env=variables, stdout=subprocess.DEVNULL) for _ in range(4)]
    assert [process.wait(timeout=300) for process in running] == [0] * 4
    assert use(KLEENE_CACHE_DIR=str(tmp_path / "cache"))[0] == 0
    assert {path.suffix for path in (tmp_path / "cache").rglob("*") if path.is_file()} == {".nbc"}
