"""The memory a process may use, according to the machine, its container and its own limit; nothing is measured."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""The files with the memory limit of a container (cgroup version 2, version 1)."""

UNKNOWN = 8 << 30
"""The memory assumed if no limit is known."""


@lru_cache(maxsize=1)
def memory_of_process() -> int:
    """Bytes that this process may use: the minimum of the machine's memory, the container's limit and its own.

    >>> memory_of_process() > 1 << 20
    True
    """
    return min(_known(), default=UNKNOWN)


def _known() -> list[int]:
    found = []
    with suppress(AttributeError, OSError, ValueError):  # not on every system
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in CGROUPS:
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():  # otherwise "max"
            found.append(int(text))
    try:
        import resource
    except ImportError:  # not on every system
        return found
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return found if soft == resource.RLIM_INFINITY else [*found, soft]
