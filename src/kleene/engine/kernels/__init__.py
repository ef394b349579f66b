"""The only package that knows numba: loops over arrays and integers, compiled once and cached on disk.

Kernels take arrays and integers and return arrays: no nulls, strings or Python objects inside. With the environment variable
`KLEENE_KERNELS=python` every kernel is the plain Python function it was written as (slow, but nothing is compiled and numba
is not even imported); the test suite uses this to run the same logic without compiling a filter per random query.

What is compiled is kept in a private folder (`cache_directory.py`), in files that may be damaged (`cache_files.py`). It is kept
under the version of the sources, not under their place, so a cache holds wherever it is copied to: `kleene pack` ships it.
Without such a folder, kernels are compiled in each process. Nothing is ever written beside the sources.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from kleene.engine.kernels.cache_directory import private_directory, version

F = TypeVar("F", bound=Callable[..., Any])

COMPILED = os.environ.get("KLEENE_KERNELS", "compiled") != "python"

BlockFilter = Callable[..., int]
"""`f(level, bound, stack, selected, n, ints, floats, valid, constants) -> n`: keeps, in place, those of the first n entries of
`selected[level]` (indices into `stack[level]`) that satisfy the predicates decided when `level` is bound."""

RunFilter = Callable[..., int]
"""`f(site, row, n, room, rows, nodes_room, at, floats_at, flags_at, watched, runs, run_floats, ints, floats, valid, constants,
flags, nodes, scratch, mask, chosen, keys)`: clears the flags of those of n chosen runs that do not satisfy the conditions of a
site for the event at `row`; at the sites of lone runs it returns the next row below n that concerns the run, or has one of the
watched bits. At the sites of indexes it fills in the keys of the runs from `row` up to n, which begin at `flags_at`, or returns
whether the event at `row` can meet any, and what it looks up in `scratch[0]`. Arrays are flat; the runs, their floats and the
flags meant begin at `at`, `floats_at` and `flags_at`.
"""


LazyFilter = Callable[..., int]
"""`f(site, conditions, n, rows, bound, selected, ints, floats, valid, constants) -> n`: keeps, in place, those of n selected
places that satisfy the conditions (a bit each) of a site when they are added to the events of `bound`.
"""


if COMPILED:
    import numba
    from numba import types

    from kleene.engine.kernels.cache_files import KernelCache
    from kleene.engine.kernels.compilers import part
    from kleene.engine.kernels.filter_code import CompiledFilter

    _directory = private_directory()

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


class _Stopwatch(threading.local):
    """What the thread at hand has spent compiling, and reading what was compiled before."""

    seconds = 0.0
    began = 0.0
    depth = 0
    collects = False


_stopwatch = _Stopwatch()


def compiling_seconds() -> float:
    """CPU seconds that this thread has spent compiling so far: what comes first has to, whoever it is."""
    return _stopwatch.seconds


SILENCE = 1.0
"""Seconds of compiling until something is said about it, and a tenth of those from then on."""


class _Notice:
    """Tells whoever waits that kernels are being compiled: on a terminal, otherwise in the log."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._due = SILENCE
        self._functions = 0
        self._loop = ""

    def on_start(self, name: str, depth: int) -> None:
        """Something is compiled, at a depth within a kernel."""
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        self._functions += 1
        self._loop = self._loop if depth else name
        if now - self._began >= self._due:
            self._due = now - self._began + 10 * SILENCE
            self._say(f"compiling kernels, once: {self._loop} ({self._functions} functions in {now - self._began:.0f} s)")

    def _say(self, text: str) -> None:
        if os.environ.get("KLEENE_PROGRESS") == "off":
            return
        if sys.stderr is not None and sys.stderr.isatty():
            sys.stderr.write(f"kleene: {text}\n")
        else:
            logging.getLogger("kleene").info(text)


if COMPILED:
    from numba.core import event

    _listener: Any = event.Listener
    _register: Any = event.register

    class _CompilerListener(_listener):  # type: ignore[misc]
        """Told whenever a thread enters and leaves the compiler, which calls itself.

        Meanwhile garbage is not looked for: a compiler's many small objects are all in use, and looked through in vain.
        """

        def on_start(self, _: Any) -> None:
            if _stopwatch.depth == 0:
                _stopwatch.began = time.thread_time()
                _stopwatch.collects = gc.isenabled()
                gc.disable()
            _stopwatch.depth += 1

        def on_end(self, _: Any) -> None:
            _stopwatch.depth -= 1
            if _stopwatch.depth == 0:
                _stopwatch.seconds += time.thread_time() - _stopwatch.began
                if _stopwatch.collects:
                    gc.enable()

    class _FunctionListener(_listener):  # type: ignore[misc]
        """Told of each function that is compiled."""

        def __init__(self) -> None:
            self._notice = _Notice()
            self._depth = 0

        def on_start(self, told: Any) -> None:
            self._notice.on_start(told.data["dispatcher"].__name__, self._depth)
            self._depth += 1

        def on_end(self, _: Any) -> None:
            self._depth -= 1

    _register("numba:compiler_lock", _CompilerListener())
    _register("numba:compile", _FunctionListener())


def cache_folder() -> Path | None:
    """Where compiled kernels are kept; None if they are not compiled, or not kept."""
    return _directory / version() if COMPILED and _directory is not None else None


def kernel(function: F) -> F:
    """Compiles a loop on first use, or leaves it as it is under `KLEENE_KERNELS=python`."""
    if not COMPILED:
        return function
    return cast(F, _kept(_njit(nogil=True, error_model="numpy", _nrt=False, no_cfunc_wrapper=True)(function), function))


def inlined(function: F) -> F:
    """A part of a kernel, written out at each call: passing many arrays costs more than small bodies do."""
    if not COMPILED:
        return function
    return cast(F, part(function, forceinline=True, error_model="numpy", _nrt=False))


def step(function: F) -> F:
    """A part of a kernel that is called once: its source takes the place of the call before anything is compiled, which takes
    less time than compiling it by itself. Hot loops are `inlined`, which gives faster code.
    """
    if not COMPILED:
        return function
    return cast(F, _njit(inline="always", error_model="numpy", _nrt=False)(function))


def called(function: F) -> F:
    """A part of a kernel that is called: a loop that many events go through has the registers of the processor for itself."""
    if not COMPILED:
        return function
    return cast(F, part(function, error_model="numpy", _nrt=False))


def generated(source: str) -> Callable[..., int]:
    """The one function that a generated source defines, in terms of `np`."""
    namespace: dict[str, Any] = {"np": np}
    exec(compile(source, "generated", "exec"), namespace)  # noqa: S102 - generated from bound trees, no user text in it
    return cast(Callable[..., int], namespace.popitem()[1])


def _kept(compiled: Any, function: Callable[..., Any]) -> Any:
    """A function of numba's that looks into our cache before it compiles."""
    if _directory is not None:
        compiled._cache = KernelCache(function, _directory)  # noqa: SLF001 - numba has no other door
    return compiled


def _compile(signature: Any, source: str) -> Callable[..., int]:
    """The filter that a source defines, in the form that a compiled kernel can call through a pointer."""
    return cast(Callable[..., int], CompiledFilter(source, signature, generated(source)))


def compile_filter(source: str) -> BlockFilter:
    """A block filter in the form that a kernel calls."""
    return _compile(FILTER_SIGNATURE, source) if COMPILED else generated(source)


def compile_run_filter(source: str) -> RunFilter:
    """The filter of an automaton in the form that a kernel calls: with bare addresses (`array.ctypes`).

    It is called for every event: passing addresses costs 7 ns, passing arrays 26.
    """
    return _compile(RUN_FILTER_SIGNATURE, source) if COMPILED else _indexing(generated(source))


def compile_lazy_filter(source: str) -> LazyFilter:
    """The filter of a lazy plan, called with bare addresses for every partial match."""
    return _compile(LAZY_FILTER_SIGNATURE, source) if COMPILED else _indexing(generated(source))


def _indexing(function: Callable[..., int]) -> Callable[..., int]:
    def called(*arguments: Any) -> int:
        # NumPy's `array.ctypes` knows its array, so plain-Python filters index that.
        flat = (getattr(item, "_arr").reshape(-1) if hasattr(item, "_arr") else item for item in arguments)  # noqa: B009
        return function(*flat)

    return called
