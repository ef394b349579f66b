"""The machine and the versions behind a run, described without naming anyone's host."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow as pa

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
"""Parameters of glibc's `mallopt`."""


def describe(packages: Sequence[str]) -> dict[str, Any]:
    """Cores, memory, operating system, interpreter and the versions of what is compared."""
    return {
        "cores": os.cpu_count(),
        "memory_gb": _memory_gb(),
        "processor": _processor(),
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in packages},
    }


def source_digest() -> str:
    """A short hash of Kleene's own source, so that results of different states of the tree are told apart."""
    import kleene

    root = Path(kleene.__file__).parent
    digest = hashlib.blake2b(digest_size=6)
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@contextmanager
def one_arrow_thread() -> Iterator[None]:
    """Arrow computes on one thread, as everything else of an embedded run does."""
    threads = pa.cpu_count()
    pa.set_cpu_count(1)
    try:
        yield
    finally:
        pa.set_cpu_count(threads)


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """What this process frees it keeps, as far as glibc is asked: Arrow asks it too.

    Otherwise what lies where decides whether memory that a run frees is returned to the system, and whether the next run pays
    for getting it back: in some processes one of two contenders with the same plan always does, and takes a third longer.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", lambda *_: None)
    pool = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    mallopt(M_TRIM_THRESHOLD, -1)
    mallopt(M_MMAP_MAX, 0)
    try:
        yield
    finally:
        mallopt(M_MMAP_MAX, 1 << 16)
        mallopt(M_TRIM_THRESHOLD, 1 << 26)
        pa.set_memory_pool(pool)


def tree_cpu_seconds(root: int) -> float:
    """CPU seconds used so far by a process and its descendants, those already reaped included (Linux)."""
    ticks = 0
    children: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
        except OSError:  # it has ended meanwhile
            continue
        fields = stat.rpartition(")")[2].split()
        children.setdefault(int(fields[1]), []).append(int(entry.name))
        used[int(entry.name)] = sum(int(value) for value in fields[11:15])
    waiting = [root]
    while waiting:
        process = waiting.pop()
        ticks += used.get(process, 0)
        waiting += children.get(process, [])
    return ticks / os.sysconf("SC_CLK_TCK")


class Memory:
    """The most resident memory that processes had since `begin` (Linux; elsewhere nothing is known).

    Without a root it is this process, and what counts is what it got beyond what it had. With one it is that process and its
    descendants, and all they have counts: a JVM keeps what it once got.
    """

    def __init__(self, root: int | None = None) -> None:
        self._root = root
        self._before = 0

    def begin(self) -> None:
        """Forgets earlier peaks."""
        for process in self._processes():
            try:
                Path(f"/proc/{process}/clear_refs").write_text("5")
            except OSError:  # it has ended, or may not be asked: then its peak is that of its life
                continue
        self._before = (_status(os.getpid(), "VmRSS") or 0) if self._root is None else 0

    def peak(self) -> int | None:
        """Bytes; the processes of a tree had their peaks at different moments, so their sum is an upper bound."""
        found = [_status(process, "VmHWM") for process in self._processes()]
        known = [size for size in found if size is not None]
        return max(0, sum(known) - self._before) if known else None

    def _processes(self) -> list[int]:
        return [os.getpid()] if self._root is None else [self._root, *descendants(self._root)]


def descendants(process: int) -> Iterator[int]:
    """The processes that a process has started, and those that these have (Linux)."""
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children = path.read_text().split()
        except OSError:  # the thread has ended meanwhile
            continue
        for child in map(int, children):
            yield child
            yield from descendants(child)


def _status(process: int, key: str) -> int | None:
    """A size of /proc/PID/status in bytes, None if there is none."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1_024 for line in lines if line.startswith(f"{key}:")), None)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _memory_gb() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()
