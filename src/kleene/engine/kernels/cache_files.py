"""Numba's cache with files of our own: one for each kernel and signature, complete or absent, never trusted to be whole.

Numba keeps an index beside its files: two processes that write to it at once can make it name each other's files, and one that
is damaged raises. Here the name of a file has digests of all that the compiled code depends on, its content begins with a
checksum, and it appears under its name when it is written. A file that does not hold what it should is as good as none:
the kernel is compiled and written again. What cannot be written is not kept, and that is all.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import caching
from numba.core.serialize import dumps

from kleene.engine.kernels.cache_directory import fingerprint, version

DIGEST = 16
SUFFIX = ".nbc"
DAY = 24 * 60 * 60
UNUSED_DAYS = 30
"""Files that no process has read for this many days are deleted when another is written."""

_function_cache: Any = caching.FunctionCache
_results: Any = caching.CompileResultCacheImpl
_dumps: Any = dumps


class KernelCache(_function_cache):  # type: ignore[misc]
    """The compiled forms of one function, in a folder."""

    def __init__(self, function: Callable[..., Any], directory: Path) -> None:
        folder = directory / version()
        self._name = repr(function)
        self._py_func = function
        self._impl = _Results(function)
        self._cache_path = str(folder)
        module = function.__module__
        name = f"{module.removeprefix('kleene.engine.')}.{function.__qualname__}-{function.__code__.co_firstlineno}"
        self._cache_file = _Files(directory, folder, f"{name}.{fingerprint(module)}")
        self.enable()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What is kept for a signature; None if there is nothing of use."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # noqa: BLE001 - whatever a file says that is whole but not what this numba makes
            return None


class _Results(_results):  # type: ignore[misc]
    """How numba writes down what it has compiled; where that is kept is not its business."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._lineno = function.__code__.co_firstlineno
        self._locator = self
        self._py_file = function.__code__.co_filename

    def ensure_cache_path(self) -> None:
        """Folders are made when a file is written."""


class _Files:
    """Files by the key of their contents: signature, processor, byte code."""

    def __init__(self, directory: Path, folder: Path, name: str) -> None:
        self._directory = directory
        self._folder = folder
        self._name = name.replace("<", "").replace(">", "")

    def load(self, key: Any) -> Any:
        """What was saved under a key, or None."""
        path = self._path(key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        with contextlib.suppress(OSError):  # of a cache that others wrote
            if time.time() - path.stat().st_mtime > DAY:
                path.touch()
        if content[:DIGEST] != _digest(content[DIGEST:]):
            return None
        known, data = pickle.loads(content[DIGEST:])  # noqa: S301 - of a private folder
        return data if known == key else None

    def save(self, key: Any, data: Any) -> None:
        """Writes to a name of its own first."""
        content = _dumps((key, data))
        path = self._path(key)
        written = path.with_name(f"{path.name}.tmp.{uuid.uuid4().hex[:16]}")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            written.write_bytes(_digest(content) + content)
            written.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                written.unlink()
        drop_unused(self._directory)

    def flush(self) -> None:
        """Forgets what is kept of the function."""
        for path in self._folder.glob(f"{self._name}.*{SUFFIX}"):
            path.unlink(missing_ok=True)

    def _path(self, key: Any) -> Path:
        made_by = (numba.__version__, sys.implementation.cache_tag)
        return self._folder / f"{self._name}.{_digest(repr((made_by, key)).encode()).hex()}{SUFFIX}"


def drop_unused(directory: Path) -> None:
    """Deletes what no process has read for a month, of any version, and folders that are empty then."""
    oldest = time.time() - UNUSED_DAYS * DAY
    for folder, _, names in os.walk(directory, topdown=False):
        for path in (Path(folder, name) for name in names if SUFFIX in name):
            with contextlib.suppress(OSError):  # another process may delete it, too
                if path.stat().st_mtime < oldest:
                    path.unlink()
        with contextlib.suppress(OSError):  # it is not empty
            Path(folder).rmdir()


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST).digest()
