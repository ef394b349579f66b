"""One key's events that do not fit into memory are matched all the same: what is kept are those of a window."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support import small_memory
from support.small_memory import MEGABYTE, TEXT

WINDOW = 2
"""Every A has the B after it."""


def run(where: str, events: int, megabytes: int) -> subprocess.CompletedProcess[str]:
    assert events * TEXT > 1.5 * megabytes * MEGABYTE, "the events would fit into memory"
    command = [sys.executable, small_memory.__file__, where, str(events), str(WINDOW), str(megabytes)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def test_in_process() -> None:
    done = run("arrow", 4_000_000, 400)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) == 2_000_000


@pytest.mark.spark
@pytest.mark.long
def test_in_a_worker_of_spark() -> None:
    done = run("spark", 20_000_000, 2_000)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) == 10_000_000
