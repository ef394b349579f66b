"""Events of the paper's experiments: updates of stocks and observations of roads, from `kleene.generators.updates`.

The paper's windows are minutes of streams with tens of events per second and type; a written order over those never ends. Ours
are about a second, in which the types of a pattern have one to fifty events each, and streams are as long as the written plan
can bear.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from benchmarks import suite
from kleene.generators import updates

SEED = 2019
TYPES = 20
"""Types of a stream."""
WINDOW = 1_000
"""Milliseconds."""
COUNTED = 300
"""The same in events, about."""
DATASETS = {"stocks": "stock", "roads": "road"}
"""The paper's names and the generator's."""
ATTRIBUTES = {"stocks": ("diff",), "roads": ("vehicles", "speed")}
"""What conditions compare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale(suite.Scale):
    """How big a run is."""

    events: tuple[int, int]
    """The fewest and the most events of a stream."""
    written_seconds: float
    """How long the written plan is expected to take, which decides the events between."""
    patterns: tuple[int, ...]
    """Sizes of workloads."""
    default_patterns: int
    sizes: tuple[int, ...]
    """Sizes of patterns."""
    search_seconds: float
    """The limit of a search."""
    searches: tuple[float, ...]
    """The limits of Figure 11b."""
    changing: int
    """Events of Figure 13's streams."""


SCALES = {
    "full": Scale(
        name="full",
        repeats=9,
        events=(5_000, 1_000_000),
        written_seconds=15.0,
        patterns=(10, 25, 50, 100, 200),
        default_patterns=100,
        sizes=(3, 4, 5, 6, 7, 8),
        search_seconds=4.0,
        searches=(0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
        changing=3_200_000,
    ),
    "quick": Scale(
        name="quick",
        repeats=1,
        thin=True,
        events=(5_000, 100_000),
        written_seconds=0.3,
        patterns=(10, 100),
        default_patterns=30,
        sizes=(3, 5, 7),
        search_seconds=0.2,
        searches=(0.25, 0.5, 1.0, 2.0),
        changing=100_000,
    ),
    "tiny": Scale(
        name="tiny",
        repeats=1,
        thin=True,
        events=(2_000, 4_000),
        written_seconds=0.05,
        patterns=(3, 6),
        default_patterns=4,
        sizes=(3, 4),
        search_seconds=0.05,
        searches=(0.02, 0.05),
        changing=6_000,
    ),
}


def options(dataset: str, events: int = 0, types: int = TYPES) -> updates.UpdatesOptions:
    """The generator's options."""
    return updates.UpdatesOptions(kind=DATASETS[dataset], events=events, seed=SEED, types=types)


@lru_cache(maxsize=4)
def stream(dataset: str, events: int, types: int = TYPES) -> pa.Table:
    """A stream in one chunk; a longer one begins with the same events."""
    return updates.table(options(dataset, events, types)).combine_chunks()
