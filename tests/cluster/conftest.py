"""An archive of this environment, packed once; it is large, so it is gone when the tests are."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import cluster


@pytest.fixture(scope="session")
def large() -> Iterator[Path]:
    """A folder for gigabytes."""
    with tempfile.TemporaryDirectory(prefix="kleene-cluster-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def packed(large: Path) -> cluster.Packed:
    return cluster.pack(large)


@pytest.fixture(scope="session")
def expected() -> dict[str, cluster.Rows]:
    """The answers of one process."""
    return cluster.answers(cluster.events())
