"""Work that is counted, and a clock that goes by readings: what a test says of effort does not depend on the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def calls_of(run: Callable[[], Any]) -> int:
    """How many functions were called, of Python and of C."""
    count = 0

    def note(_: Any, event: str, __: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count


class Readings:
    """A clock on which every reading takes as long: for `monkeypatch.setattr("...perf_counter", Readings(0.01))`."""

    def __init__(self, seconds: float) -> None:
        self._step, self.now = seconds, 0.0

    def __call__(self) -> float:
        self.now += self._step
        return self.now
