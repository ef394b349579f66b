"""Parts of kernels: plain functions in Python, compiled once for arguments and constants alike."""

from __future__ import annotations

import numpy as np
import pytest

from kleene.common.arrays import Array
from kleene.engine import kernels
from kleene.engine.kernels import inlined, kernel


@inlined
def add(numbers: Array, at: int, more: int) -> int:
    return int(numbers[at]) + more


def both(numbers: Array, more: int) -> int:
    return add(numbers, 0, more) + add(numbers, more, 1)


@pytest.mark.skipif(not kernels.COMPILED, reason="kernels are plain Python")
def test_a_part_is_compiled_once_for_constants_and_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_directory", None)  # what an earlier run compiled is not taken
    assert add(np.array([5]), 0, 2) == 7
    assert not add.overloads  # type: ignore[attr-defined]
    assert kernel(both)(np.array([5, 6]), 1) == 13
    assert len(add.overloads) == 1  # type: ignore[attr-defined]
