"""Which of many similar tests are part of every run."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet

ALWAYS = 4


def mostly_long(names: Iterable[str]) -> list[ParameterSet]:
    """Parameters of which only the first few are tested by `make test`, the others with `pytest -m long`."""
    return [pytest.param(name, marks=[] if place < ALWAYS else [pytest.mark.long]) for place, name in enumerate(names)]
