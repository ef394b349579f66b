"""Patterns made of two common parts: what a multitree can share, and plans that share prefixes only cannot.

A part is two types that are compared. A pattern is one part and then another, for all pairs of parts: a plan by orders shares
the part that it begins with, and looks for the events of the other one by one; a multitree finds the matches of each part once
for all patterns, and joins them.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pyarrow as pa

import kleene
from benchmarks.harness import Experiment, Point
from benchmarks.multi.contenders import (
    ANNEALING,
    BASELINES,
    EVERY_SEARCH,
    PREFIXES,
    SAMPLE,
    TABU,
    affordable,
    group_of,
    raced,
)
from benchmarks.multi.streams import SEED, WINDOW, Scale
from kleene.runtime.statistics import table_statistics

PARTS = (3, 5, 8)
RATE = 15.0
"""Events of a type per second."""
APART = 3.0
"""How far values must be apart, in standard deviations: one pair in sixty is."""
COMPARED = {
    **BASELINES,
    **{name: EVERY_SEARCH[name] for search in (ANNEALING, TABU) for name in (search, f"{search}{PREFIXES}")},
}


def parts(scale: Scale) -> Experiment:
    return Experiment(
        "parts",
        "Patterns made of two parts, for all pairs of parts: multitrees and prefixes",
        axis="parts",
        series="dataset",
        headline="multitrees ahead of prefixes",
        clock="cpu",
        points=tuple(_point(count, scale) for count in scale.along(PARTS)),
    )


def events(count: int, types: int) -> pa.Table:
    """Types of equal rates, each event with a value; a longer stream begins with the same events."""
    random = np.random.default_rng([SEED, 3, types])
    codes = pa.array(random.integers(types, size=count, dtype=np.int16))
    return pa.table(
        {
            "ts": pa.array((np.arange(count) * 1_000_000 / (RATE * types)).astype(np.int64), pa.timestamp("us")),
            "type": pa.DictionaryArray.from_arrays(codes, pa.array([f"T{number}" for number in range(types)])),
            "diff": np.random.default_rng([SEED, 4, types]).normal(size=count),
        }
    )


def queries(count: int) -> dict[str, kleene.Query]:
    """A pattern for every pair of parts, in either order.

    >>> print(queries(2)["p1"])
    PATTERN SEQ(T2 a, T3 b, T0 c, T1 d)
    WHERE a.diff + 3.0 < b.diff AND c.diff + 3.0 < d.diff
    WITHIN 1000 milliseconds
    RETURN a.ts AS first
    """
    found: dict[str, kleene.Query] = {}
    for number, (one, other) in enumerate(permutations(range(count), 2)):
        pattern = f"SEQ(T{2 * one} a, T{2 * one + 1} b, T{2 * other} c, T{2 * other + 1} d)"
        where = f"a.diff + {APART} < b.diff AND c.diff + {APART} < d.diff"
        text = f"PATTERN {pattern} WHERE {where} WITHIN {WINDOW} milliseconds RETURN a.ts AS first"
        found[f"p{number}"] = kleene.query(text, name=f"p{number}")
    return found


def _point(count: int, scale: Scale) -> Point:
    sample = events(SAMPLE, 2 * count)
    group = group_of(queries(count), sample.schema)
    statistics = table_statistics(group, sample)
    table = events(affordable(group, statistics, scale), 2 * count)
    parameters: dict[str, float | str] = {"parts": count, "dataset": "pairs of parts"}
    return raced(COMPARED, group, statistics, table, parameters, scale)
