"""Figure 13: streams whose rates are reshuffled again and again, by a plan that stays and by one that is made anew.

Types are of four sorts, and at any time one sort is rare: after every so many events it is another. A pattern has a type of
each sort, so that there is always a rare one to begin with, and never many matches, which cost the same in every plan.

The static plan is made for the rates at the beginning. The adaptive one begins with the same plan, counts rates before every
pass, and makes another when they have changed; its clock includes all of that.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

import kleene
from benchmarks.harness import Experiment, Point
from benchmarks.multi.contenders import ANNEALING, COMPARED, SAMPLE, group_of, measured, shared
from benchmarks.multi.streams import SEED, Scale
from kleene.plan.multi.search import plan_shared
from kleene.runtime.statistics import table_statistics

EVERY = (100_000, 200_000, 400_000)
"""Events between two reshufflings."""
SORTS, TYPES = 4, 5
"""Sorts of types, and types of each."""
RARE, FREQUENT = 0.02, 30.0
"""Events of a type per second."""
WINDOW = 1_500
"""Milliseconds."""
APART = 3.5
"""How far values must be apart, in standard deviations: one pair in 150 is, which makes about a match per event."""
RUN_ROWS = 20_000
"""Events per pass."""
VARIABLES = "abcd"
STATIC = "static"
ADAPTIVE = "adaptive"


def figure_13(scale: Scale) -> Experiment:
    return Experiment(
        "figure13",
        f"Rates that are reshuffled: of {SORTS} sorts of types one is rare, and every so often another",
        axis="reshufflings",
        series="dataset",
        headline="the adaptive plan at least 10 times the static one",
        clock="cpu",
        points=tuple(_point(every, scale) for every in scale.along(EVERY)),
    )


def changing(events: int, every: int) -> pa.Table:
    """A stream in which the sorts take turns at being rare.

    >>> table = changing(3_000, 1_000)
    >>> rare = [table.slice(first, 1_000).column("type").value_counts().to_pylist() for first in (0, 1_000)]
    >>> ["T0" in {item["values"] for item in counts if item["counts"] > 20} for counts in rare]
    [False, True]
    """
    random = np.random.default_rng([SEED, 13, every])
    codes = np.empty(events, np.int16)
    for turn, first in enumerate(range(0, events, every)):
        rates = np.full(SORTS * TYPES, FREQUENT)
        rates[turn % SORTS * TYPES : (turn % SORTS + 1) * TYPES] = RARE
        own = codes[first : first + every]
        own[:] = random.choice(rates.size, own.size, p=rates / rates.sum())
    per_second = FREQUENT * TYPES * (SORTS - 1) + RARE * TYPES
    ts = np.arange(events) * 1_000_000 / per_second
    names = pa.array([f"T{number}" for number in range(SORTS * TYPES)])
    return pa.table(
        {
            "ts": pa.array(ts.astype(np.int64), pa.timestamp("us")),
            "type": pa.DictionaryArray.from_arrays(pa.array(codes), names),
            "diff": random.normal(size=events),
        }
    )


def queries(count: int) -> dict[str, kleene.Query]:
    """Patterns of a type of each sort, in any order, with two comparisons."""
    random = np.random.default_rng([SEED, 13])
    found: dict[str, kleene.Query] = {}
    for number in range(count):
        kinds = random.permutation([sort * TYPES + random.integers(TYPES) for sort in range(SORTS)])
        parts = ", ".join(f"T{kind} {name}" for kind, name in zip(kinds, VARIABLES, strict=True))
        pairs = [random.permutation(SORTS)[:2] for _ in range(2)]
        where = " AND ".join(f"{VARIABLES[less]}.diff + {APART} < {VARIABLES[more]}.diff" for less, more in pairs)
        operator = "SEQ" if random.random() < 0.5 else "AND"
        text = f"PATTERN {operator}({parts}) WHERE {where} WITHIN {WINDOW} milliseconds RETURN a.ts AS first"
        found[f"p{number}"] = kleene.query(text, name=f"p{number}")
    return found


def _point(every: int, scale: Scale) -> Point:
    before = changing(SAMPLE, SAMPLE)
    group = group_of(queries(scale.default_patterns), before.schema)
    options = replace(COMPARED[ANNEALING], seconds=scale.search_seconds)
    plan = plan_shared(group.leaves, group.clauses, table_statistics(group, before), options)
    table = changing(scale.changing, min(every, scale.changing // SORTS))
    contenders = [
        shared(name, group, plan, table, options=replace(options, adaptive=name == ADAPTIVE), run_rows=RUN_ROWS)
        for name in (STATIC, ADAPTIVE)
    ]
    return measured(contenders, table, {"reshufflings": 100_000 / every, "dataset": "four sorts"}, STATIC, scale)
