"""Where compiled kernels are kept: a folder that nobody else can write to, because what it holds is executed.

The first of `KLEENE_CACHE_DIR`, the user's cache and the temporary directory that is private. Private means: the user owns it,
nobody else may write to it or to anything in it, and nobody else can put another folder in its place. A folder that is made
here has mode 0700. If `KLEENE_CACHE_DIR` has kernels of someone who is trusted but is not the user's to write to, the folder
that is used begins as a copy of it. Trusted are the user, root and the owners of Kleene's sources and of the folders that
these are in, as of a node's manager that unpacks archives for its users: these can run code as the user anyway.

Cost: a few system calls when the engine is imported. A folder that others may enter is walked through, 5 us a file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import tempfile
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

HOME = Path(__file__).parents[2]
"""The folder of the package."""

IMPORTED = re.compile(r"^ *from (kleene\.[a-z_.]+) import ", re.MULTILINE)
"""Modules in the import lines of a source."""


class _RefusedError(Exception):
    """A folder is there, and someone else could have put files into it."""


def private_directory() -> Path | None:
    """The folder of this user; None, with a warning, if there is none that is private and can be written to."""
    refused: list[str] = []
    candidates = _candidates()
    found = next((own for own in (_usable(candidate, refused) for candidate in candidates) if own is not None), None)
    if found is not None and not refused:
        _copy(candidates[0] / version(), found / version(), refused)
    if refused or found is None:
        fate = f"kept in {found}" if found is not None else "not kept, so every process compiles its own"
        reasons = "; ".join(dict.fromkeys(refused)) or "no folder can be written to"
        hint = "remove that folder, or set KLEENE_CACHE_DIR to one that only you can write to"
        warnings.warn(f"compiled kernels are {fate}: {reasons} (hint: {hint})", RuntimeWarning, stacklevel=2)
    return found


@cache
def version() -> str:
    """A name for what all kernels are compiled with; each file is kept under the `fingerprint` of its own sources besides."""
    return fingerprint("kleene.engine.kernels")


@cache
def fingerprint(module: str) -> str:
    """A name for the sources of a kernel's module as they are: numba's own cache does not see changes in files that its parts
    come from. A module that no kernel source has is generated: all that it needs is in its name.
    """
    known = hashlib.blake2b(digest_size=8)
    for path in _needed(module):
        known.update(path.as_posix().encode() + (HOME / path).read_bytes())
    return known.hexdigest()


def fingerprints() -> set[str]:
    """Those of all kernels as they are now."""
    return {fingerprint(name) for name in ("", *map(_module_of, sources()))}


def _needed(module: str) -> list[Path]:
    """The kernel sources that a module imports, directly or not, and its own."""
    waiting, found = [module], dict[str, Path]()
    known = {_module_of(path): path for path in sources()}
    while waiting:
        name = waiting.pop()
        if name in known and name not in found:
            found[name] = known[name]
            waiting += IMPORTED.findall((HOME / known[name]).read_text())
    return sorted(found.values())


def _module_of(path: Path) -> str:
    parts = ("kleene", *path.with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources() -> list[Path]:
    """The files that kernels are compiled from, below the package."""
    kernels = [path.relative_to(HOME) for path in (HOME / "engine").rglob("*.py")]
    return [Path("common/arrays.py"), *sorted(path for path in kernels if "kernels" in (path.parent.name, path.stem))]


def _candidates() -> list[Path]:
    given = os.environ.get("KLEENE_CACHE_DIR")
    candidates = [Path(given).absolute()] if given else []
    with contextlib.suppress(RuntimeError):  # there may be no home directory
        candidates.append(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "kleene")
    with contextlib.suppress(OSError):  # nor one for temporary files
        candidates.append(Path(tempfile.gettempdir()) / f"kleene-{os.geteuid() if hasattr(os, 'geteuid') else 'cache'}")
    return candidates


def _usable(directory: Path, refused: list[str]) -> Path | None:
    """The folder without links in its path, made if need be; None if it is not private (which is noted) or not writable."""
    try:
        _make(directory)
        found = _resolved(directory)
        if hasattr(os, "geteuid"):
            _require_safe_path(found)
            _require_safe_tree(found)
            if found.lstat().st_uid != os.geteuid():
                return None  # root can write to it, and leaves it alone
        with tempfile.TemporaryFile(dir=found):
            return found
    except _RefusedError as error:
        refused.append(str(error))
    except (OSError, RuntimeError):  # not writable, not readable, or links in a circle
        pass
    return None


def _make(directory: Path) -> None:
    """Makes a folder and those above it, for the user alone."""
    for path in reversed((directory, *directory.parents)):
        with contextlib.suppress(FileExistsError):
            if not path.exists():
                path.mkdir(mode=0o700)


def _resolved(directory: Path) -> Path:
    """The path without links; a link that someone else has made is refused."""
    if hasattr(os, "geteuid"):
        for path in (directory, *directory.parents):
            if path.is_symlink() and path.lstat().st_uid not in _trusted():
                raise _RefusedError(f"{path} is a link that another user has made")
    return directory.resolve()


@cache
def _trusted() -> frozenset[int]:
    """The user ids of those who can run code as this user anyway: Kleene's sources, or a folder above them, are theirs."""
    place = Path(__file__).resolve()
    return frozenset({0, os.geteuid(), *(path.stat().st_uid for path in (place, *place.parents))})


def _require_safe_path(directory: Path) -> None:
    """Refuses a folder that someone else could replace: by one who owns, or may write to, a folder above it.

    In a folder with the sticky bit, as `/tmp`, everyone may write but nobody can rename what is another's.
    """
    for path in directory.parents:
        found = path.lstat()
        if found.st_uid not in _trusted():
            raise _RefusedError(f"{directory} is in {path}, which belongs to another user")
        if _others_write(found) and not found.st_mode & stat.S_ISVTX:
            raise _RefusedError(f"{directory} is in {path}, to which other users can write")


def _require_safe_tree(directory: Path) -> None:
    """Refuses a folder if others can write to it or, where they can enter it, to anything of this version in it."""
    found = directory.lstat()
    if found.st_uid not in _trusted():
        raise _RefusedError(f"{directory} belongs to another user")
    if _others_write(found):
        raise _RefusedError(f"{directory} can be written to by other users")
    if found.st_mode & 0o077:
        _require_safe_files(directory / version())


def _require_safe_files(directory: Path) -> None:
    if directory.is_symlink() or directory.exists():
        for path in (directory, *_below(directory)):
            _require_safe(path)


def _require_safe(path: Path) -> None:
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise _RefusedError(f"{path} is a link")
    if found.st_uid not in _trusted() or _others_write(found):
        raise _RefusedError(f"{path} could have been written by other users")


def _below(directory: Path) -> Iterator[Path]:
    """Files and folders, links not followed."""
    for folder, folders, files in os.walk(directory):
        yield from (Path(folder) / name for name in (*folders, *files))


def _others_write(found: os.stat_result) -> bool:
    """Whether anyone but the owner may write; the owner's own group, and that of root, are no others."""
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and found.st_gid != 0 and not _own_group(found.st_uid, found.st_gid)


def _own_group(user: int, group: int) -> bool:
    """Whether a group has only one user, whose name it bears: many systems give each user such a one."""
    try:
        import grp
        import pwd

        name, found = pwd.getpwuid(user).pw_name, grp.getgrgid(group)
    except (ImportError, KeyError):
        return False
    return found.gr_name == name and set(found.gr_mem) <= {name}


def _copy(kept: Path, into: Path, refused: list[str]) -> None:
    """Copies a cache that is not the user's own, unless there is one already; of many processes one gets there first."""
    copied = into.with_name(f"{into.name}.{os.getpid()}")
    try:
        if into.exists() or not kept.is_dir():
            return
        if hasattr(os, "geteuid"):
            kept = _resolved(kept)
            _require_safe_path(kept)
            _require_safe_files(kept)
        for source in (path for path in _below(kept) if path.is_file()):
            target = copied / source.relative_to(kept)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)  # without its permissions
        copied.rename(into)
    except _RefusedError as error:
        refused.append(str(error))
    except OSError:
        shutil.rmtree(copied, ignore_errors=True)
