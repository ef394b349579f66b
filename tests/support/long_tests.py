"""Which of many similar tests are part of every run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet

ALWAYS = 1


def mostly_long(values: Iterable[Any], always: int = ALWAYS) -> list[ParameterSet]:
    """Parameters of which only the first few are tested by `make test`, the others with `pytest -m long`."""
    return [pytest.param(value, marks=[] if place < always else [pytest.mark.long]) for place, value in enumerate(values)]
