"""The machine and the versions behind a run, described without naming anyone's host."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow as pa


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
