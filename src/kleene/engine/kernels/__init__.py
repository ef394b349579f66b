"""The only package that knows numba: loops over arrays and integers, compiled once and cached on disk.

Kernels take arrays and integers and return arrays: no nulls, strings or Python objects inside. With the environment variable
`KLEENE_KERNELS=python` every kernel is the plain Python function it was written as (slow, but nothing is compiled and numba
is not even imported); the test suite uses this to run the same logic without compiling a filter per random query.

The cache directory is the first writable one of `KLEENE_CACHE_DIR`, the user's cache and the temporary directory; without any,
kernels are compiled anew in each process. Compiled kernels are kept under the version of their sources, not under the place of
these, so a cache holds wherever it is copied to: `kleene pack` ships it. If `KLEENE_CACHE_DIR` has these kernels but is not
writable, the directory that is used begins as a copy of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

COMPILED = os.environ.get("KLEENE_KERNELS", "compiled") != "python"

DAY = 24 * 60 * 60

UNUSED_DAYS = 30
"""Generated filters that were not loaded for so many days are deleted from the cache."""

BlockFilter = Callable[..., int]
"""`f(level, bound, stack, selected, n, ints, floats, valid, constants) -> n`: keeps, in place, those of the first n entries of
`selected[level]` (indices into `stack[level]`) that satisfy the predicates decided when `level` is bound."""

RunFilter = Callable[..., int]
"""`f(site, row, n, room, rows, nodes_room, at, floats_at, flags_at, watched, runs, run_floats, ints, floats, valid, constants,
flags, nodes, scratch, mask)`: clears the flags of those of n runs that do not satisfy the conditions of a site for the event
at `row`; at the sites of lone runs it returns the next row below n that concerns the run, or has one of the watched bits.
Arrays are flat; the runs, their floats and the flags meant begin at `at`, `floats_at` and `flags_at`.
"""


LazyFilter = Callable[..., int]
"""`f(site, conditions, n, rows, bound, selected, ints, floats, valid, constants) -> n`: keeps, in place, those of n selected
places that satisfy the conditions (a bit each) of a site when they are added to the events of `bound`.
"""


def _writable(directory: Path) -> bool:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def _cache_directory() -> Path | None:
    given = os.environ.get("KLEENE_CACHE_DIR")
    candidates = [Path(given).absolute()] if given else []
    with contextlib.suppress(RuntimeError):  # there may be no home directory
        candidates.append(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kleene")
    candidates.append(Path(tempfile.gettempdir()) / f"kleene-{os.getuid() if hasattr(os, 'getuid') else 'cache'}")
    found = next((candidate for candidate in candidates if _writable(candidate)), None)
    if found is not None and found != candidates[0]:
        _copy(candidates[0] / _version(), found / _version())
    return found


def _copy(kept: Path, into: Path) -> None:
    """Copies a cache that cannot be written to, unless there is one already; of many processes one gets there first."""
    copied = into.with_name(f"{into.name}.{os.getpid()}")
    try:
        if into.exists() or not kept.is_dir():
            return
        for source in (path for path in kept.rglob("*") if path.is_file()):
            target = copied / source.relative_to(kept)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)  # without its permissions
        copied.rename(into)
    except OSError:
        shutil.rmtree(copied, ignore_errors=True)


@cache
def _version() -> str:
    """A name for the kernels as they are: numba's own cache does not see changes in files that a kernel's parts come from."""
    known = hashlib.blake2b(digest_size=8)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        known.update(path.name.encode() + path.read_bytes())
    return known.hexdigest()


if COMPILED:
    import numba
    from numba import types
    from numba.core import caching

    _directory = _cache_directory()

    class _Locator:
        """Tells numba where kernels are kept: its own locators name folders by the place of the source."""

        def __init__(self, function: Callable[..., Any], path: str) -> None:
            self._py_file = path
            self._line = function.__code__.co_firstlineno

        @classmethod
        def from_function(cls, function: Callable[..., Any], path: str) -> _Locator | None:
            """The locator of a kernel; functions that are not ours go their own ways."""
            return cls(function, path) if function.__module__.startswith(__name__) and _directory is not None else None

        def get_cache_path(self) -> str:
            assert _directory is not None
            return str(_directory / _version() / Path(self._py_file).parent.name)

        def ensure_cache_path(self) -> None:
            Path(self.get_cache_path()).mkdir(parents=True, exist_ok=True)

        def get_source_stamp(self) -> str:
            return _version()

        def get_disambiguator(self) -> str:
            return str(self._line)

    _kept_results: Any = caching.CompileResultCacheImpl
    _kept_results._locator_classes.insert(0, _Locator)  # noqa: SLF001 - numba has no other door

    _njit: Any = numba.njit
    """Without reference counts (`_nrt=False`): kernels allocate nothing, and counting the arrays that are passed on to a
    filter or a part of a kernel takes longer than most of them do.
    """

    _pointer_to: Any = types.CPointer
    _integers = _pointer_to(types.int64)
    _floats = _pointer_to(types.float64)
    _bytes = _pointer_to(types.uint8)
    RUN_FILTER_SIGNATURE = types.int64(
        *(types.int64 for _ in range(10)),
        _integers,
        _floats,
        _integers,
        _floats,
        _bytes,
        _integers,
        _bytes,
        _pointer_to(types.int32),
        _integers,
        _integers,
    )

    LAZY_FILTER_SIGNATURE = types.int64(
        *(types.int64 for _ in range(4)), _integers, _integers, _integers, _floats, _bytes, _integers
    )

    FILTER_SIGNATURE = types.int64(
        types.int64,
        types.int64[::1],
        types.int64[:, ::1],
        types.int64[:, ::1],
        types.int64,
        types.int64[:, ::1],
        types.float64[:, ::1],
        types.uint8[:, ::1],
        types.int64[::1],
    )


def cache_folder() -> Path | None:
    """Where compiled kernels are kept; None if they are not compiled, or not kept."""
    return _directory / _version() if COMPILED and _directory is not None else None


def kernel(function: F) -> F:
    """Compiles a loop on first use, or leaves it as it is under `KLEENE_KERNELS=python`."""
    if not COMPILED:
        return function
    return cast(F, _njit(cache=_directory is not None, nogil=True, error_model="numpy", _nrt=False)(function))


def inlined(function: F) -> F:
    """A part of a kernel, written out at each call: passing many arrays costs more than small bodies do."""
    if not COMPILED:
        return function
    return cast(F, _njit(forceinline=True, error_model="numpy", _nrt=False)(function))


def called(function: F) -> F:
    """A part of a kernel that is called: a loop that many events go through has the registers of the processor for itself."""
    if not COMPILED:
        return function
    return cast(F, _njit(error_model="numpy", _nrt=False)(function))


def generated(source: str, name: str) -> Callable[..., int]:
    """The function that a generated source defines, in terms of `np`.

    It is written to the cache directory and loaded from there, so that what it compiles to is kept for other processes.
    """
    text = f"import numpy as np\n\n\n{source}"
    if not COMPILED or _directory is None:
        namespace: dict[str, Any] = {}
        exec(compile(text, f"<kleene {name}>", "exec"), namespace)  # noqa: S102 - generated from bound trees, no user text in it
        return cast(Callable[..., int], namespace[name])
    digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    path = _directory / _version() / "generated" / f"{name}_{digest}.py"
    if not path.is_file() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        written = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        written.write_text(text)
        written.replace(path)
        drop_unused(path.parent)
    elif time.time() - path.stat().st_mtime > DAY:
        with contextlib.suppress(OSError):
            path.touch()  # it is still used
    spec = importlib.util.spec_from_file_location(f"{__name__}.generated_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # where numba's cache looks for it
    spec.loader.exec_module(module)
    return cast(Callable[..., int], getattr(module, name))


def drop_unused(folder: Path) -> None:
    """Deletes generated filters, with what they were compiled to, that no process has loaded for a month."""
    for path in folder.glob("*.py"):
        with contextlib.suppress(OSError):  # another process may delete them too
            if time.time() - path.stat().st_mtime > UNUSED_DAYS * DAY:
                for compiled in folder.glob(f"{path.stem}.*.nb*"):
                    compiled.unlink(missing_ok=True)
                path.unlink(missing_ok=True)


def _compile(signature: Any, function: Callable[..., int]) -> Callable[..., int]:
    """A function in the form that a compiled kernel can call through a pointer."""
    return cast(Callable[..., int], numba.cfunc(signature, cache=_directory is not None, error_model="numpy")(function))


def compile_filter(function: BlockFilter) -> BlockFilter:
    """A block filter in the form that a kernel calls."""
    return _compile(FILTER_SIGNATURE, function) if COMPILED else function


def compile_run_filter(function: RunFilter) -> RunFilter:
    """The filter of an automaton in the form that a kernel calls: with bare addresses (`array.ctypes`).

    It is called for every event: passing addresses costs 7 ns, passing arrays 26.
    """
    return _compile(RUN_FILTER_SIGNATURE, function) if COMPILED else _indexing(function)


def compile_lazy_filter(function: LazyFilter) -> LazyFilter:
    """The filter of a lazy plan, called with bare addresses for every partial match."""
    return _compile(LAZY_FILTER_SIGNATURE, function) if COMPILED else _indexing(function)


def _indexing(function: Callable[..., int]) -> Callable[..., int]:
    def called(*arguments: Any) -> int:
        # NumPy's `array.ctypes` knows its array, so plain-Python filters index that.
        flat = (getattr(item, "_arr").reshape(-1) if hasattr(item, "_arr") else item for item in arguments)  # noqa: B009
        return function(*flat)

    return called
