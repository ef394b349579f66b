"""Random shapes of queries and of data, and the work that is counted over them: it must not grow faster than the stream.

A world is a shape of queries (operator, length, conditions, key, window) and one of data (kinds of columns, ties, chunks,
NULLs, types), drawn so that matches stay rare however long the window is. It is run over a stream and over one that is twice
as long, with the same window. What a world takes is measured by `support.cliff_times`.

As a script: `KLEENE_KERNELS=python python tests/support/cliff_worlds.py SEED COUNT`, see `support.pair_runs`.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # for `support`

import kleene
from kleene.common.errors import PlanningError
from support.pair_runs import Report, Suite, main

TYPES = 4
MANY = 900
"""Constants of a long list."""
WORK = ("relevant", "instances", "visits", "sequences", "evaluations")
EVENTS, GROWN = 2_500, 2
"""The length of a stream, and how many times as long the longer one is. Below 2,000 events plans are others."""
MOST_WINDOW = 100
"""So that the shorter stream is longer than the window."""
SLACK, FEW = 1.5, 2_000
"""Work may grow by so much more than the stream, and by so much besides."""


@dataclass(frozen=True, slots=True)
class World:
    """A query and its events; every default is what is plain."""

    shape: str = "seq"
    length: int = 2
    test: str = "equal"
    """What each component is tested for: a constant of its own, in one of several ways."""
    between: str = "nothing"
    """The condition between neighbours."""
    kind: str = "integers"
    """Of the column that constants are compared with."""
    key: str = "nothing"
    window: int = 100
    ties: str = "none"
    chunk: int = 0
    """Rows of a chunk; 0 for one chunk."""
    nulls: float = 0.0
    """Their share in what conditions read."""
    types: str = "dictionary"
    """Of the type column."""
    more_types: int = 0
    """Types of no component."""
    ordered: bool = False
    output: str = "return"
    columns: int = 6


PLAIN = World()


@dataclass(frozen=True, slots=True)
class Shape:
    """What a pattern is beside a sequence of components."""

    least: int = 2
    most: int = 24
    operator: str = "SEQ"
    strategy: str = ""
    negated: int | None = None
    """The place of a component that is not single and positive."""
    listed: int | None = None
    optional: int | None = None
    suffix: str = ""
    aggregate: bool = False


NEXT = "skip_till_next_match"
SHAPES = {
    "seq": Shape(),
    "and": Shape(most=4, operator="AND"),
    "negation": Shape(3, 3, negated=1),
    "negated start": Shape(3, 3, negated=0),
    "negated end": Shape(3, 3, negated=2),
    "next": Shape(most=4, strategy=NEXT),
    "contiguity": Shape(3, 3, strategy="partition_contiguity"),
    "kleene": Shape(3, 3, strategy=NEXT, listed=1),
    "optional": Shape(3, 3, strategy=NEXT, optional=1),
    "non-overlap": Shape(most=4, suffix=" OUTPUT NON-OVERLAP"),
    "count": Shape(most=4, aggregate=True),
}

CHOICES: dict[str, tuple[Any, ...]] = {
    "shape": ("seq", "seq", "seq", *SHAPES),
    "length": (2, 2, 3, 4, 8, 24),
    "test": (*["nothing"] * 5, "equal", "in", "or", "between", "above", "arithmetic", "many", "like", "upper"),
    "between": (*["nothing"] * 6, "equality", "inequality", "shifted", "distance", "product", "text"),
    "kind": ("integers", "floats", "strings", "dictionaries", "timestamps", "small integers"),
    "key": (*["nothing"] * 4, "integers", "strings", "dictionaries", "two"),
    "window": (20, 100, 1_000, 10_000),
    "ties": ("none", "none", "one", "some", "all"),
    "chunk": (0, 0, 100, 1_000),
    "nulls": (0.0, 0.0, 0.1),
    "types": ("dictionary", "strings", "integers"),
    "more_types": (0, 0, 1_000),
    "ordered": (False, False, True),
    "output": ("return", "return", "whole"),
    "columns": (6, 40),
}


def world(seed: int, number: int) -> World:
    """World `number` of a seed."""
    rng = Random(f"{seed}:{number}:cliffs")
    found = World(**{name: rng.choice(values) for name, values in CHOICES.items()})
    shape = SHAPES[found.shape]
    found = replace(found, length=min(max(found.length, shape.least), shape.most))
    if found.test == "nothing" and found.between == "nothing" and found.key == "nothing":
        found = replace(found, **rng.choice(({"test": "equal"}, {"between": "inequality"}, {"key": "strings"})))
    if shape.negated is not None and found.test == "nothing" and found.key == "nothing":
        found = replace(found, test="equal")  # what is not there does not make matches rare
    if found.output == "return" and found.columns > PLAIN.columns:
        found = replace(found, output="whole")
    if (shape.strategy or shape.suffix) and found.ties != "none":
        found = replace(found, ordered=True)
    return found


# --- the query --------------------------------------------------------------------------------------------------------


def constant(of: World, value: int) -> str:
    """A number of four digits as a constant of the kind."""
    return {
        "floats": f"{value}.5",
        "strings": f"'v{value}'",
        "dictionaries": f"'v{value}'",
        "timestamps": f"timestamp '2026-01-01T00:{value // 100 - 10:02}:{value % 100 % 60:02}'",
    }.get(of.kind, str(value))


def tests(of: World, variable: str, place: int) -> list[str]:
    """What component number `place` is tested for."""
    own, other = constant(of, 1_000 + place), constant(of, 1_000 + place + of.length)
    listed = ", ".join(constant(of, 1_000 + place + of.length * step) for step in range(3))
    found = {
        "equal": f"{variable}.x = {own}",
        "in": f"{variable}.x IN ({listed})",
        "or": f"({variable}.x = {own} OR {variable}.x = {other})",
        "between": f"{variable}.x BETWEEN {own} AND {own}",
        "above": f"{variable}.x <= {constant(of, 1_000 + of.length)}",
        "many": f"{variable}.x IN ({own}, {', '.join(constant(of, 6_000 + step) for step in range(MANY))})",
        "like": f"{variable}.s LIKE '%{place % 10}0'",
        "upper": f"upper({variable}.s) = 'V{1_000 + place % domain(of)}'",
        "arithmetic": f"{variable}.n * 2 - 1 < {2 * max(1, domain(of) // 20)}",
    }.get(of.test)
    return [found] if found else []


def domain(of: World) -> int:
    """So many values that a window has about one partner for each event."""
    return max(2, of.window // TYPES)


def apart(of: World) -> float:
    """How far numbers below 1 are apart in about one pair of a window."""
    return 1 - (2 / domain(of)) ** 0.5 if domain(of) > 2 else 0.1


def condition(of: World, one: str, other: str) -> list[str]:
    """What holds between two components."""
    found = {
        "equality": f"{one}.n = {other}.n",
        "inequality": f"{one}.y < {other}.y - {apart(of):.6f}",
        "shifted": f"{one}.n + 1 = {other}.n",
        "distance": f"abs({one}.y - {other}.y) < {0.5 / domain(of):.6f}",
        "product": f"{one}.y * {other}.y > {1 - 1 / domain(of):.6f}",
        "text": f"{one}.s = {other}.s",
    }.get(of.between)
    return [found] if found else []


def keys(of: World) -> list[str]:
    return {"nothing": [], "two": ["k", "k2"]}.get(of.key, ["k"])


def type_of(of: World, place: int) -> str:
    return str(place % TYPES) if of.types == "integers" else "ABCD"[place % TYPES]


def query(of: World) -> str:
    """The query of a world."""
    shape, names = SHAPES[of.shape], [f"e{place}" for place in range(of.length)]
    places = range(of.length)
    single = [place for place in places if place not in (shape.negated, shape.listed, shape.optional)]
    conditions = [f"[{name}]" for name in keys(of)]
    if len(single) == of.length:
        conditions += [item for one, other in pairwise(names) for item in condition(of, one, other)]
    else:
        odd = next(place for place in places if place not in single)
        conditions += condition(of, names[single[0]], f"{names[odd]}[i]" if shape.listed is not None else names[odd])
    conditions += [item for place in single for item in tests(of, names[place], place)]
    where = " AND ".join(conditions)
    if shape.strategy:
        strategy = shape.strategy if keys(of) else shape.strategy.replace("partition", "strict")
        named = [f"{name}[]" if place == shape.listed else name for place, name in enumerate(names)]
        where = f"{strategy}({', '.join(named)}) {{ {where} }}"
    text = f"PATTERN {shape.operator}({', '.join(_component(of, place) for place in places)})" + (
        f" WHERE {where}" if where else ""
    )
    if shape.aggregate:
        return f"{text} AGG COUNT WITHIN {of.window}"
    returned = f" RETURN {names[single[0]]}.ts AS first, {names[single[-1]]}.ts AS last" if of.output == "return" else ""
    return f"{text} WITHIN {of.window}{returned}{shape.suffix}"


def _component(of: World, place: int) -> str:
    shape, kind, name = SHAPES[of.shape], _typed(of, place), f"e{place}"
    if place == shape.negated:
        return f"!({kind} {name})"
    return f"{kind}+ {name}[]" if place == shape.listed else f"{kind}? {name}" if place == shape.optional else f"{kind} {name}"


def _typed(of: World, place: int) -> str:
    return f"T{type_of(of, place)}" if of.types == "integers" else type_of(of, place)


# --- the events -------------------------------------------------------------------------------------------------------


def written(values: np.ndarray, kind: str) -> pa.Array:
    """Numbers of four digits as values of a kind."""
    numbers = pa.array(values.astype(np.int64))
    if kind == "floats":
        return pa.array(values + 0.5)
    if kind == "timestamps":
        seconds = (values // 100 - 10) * 60 + values % 100 % 60
        return pa.array(np.datetime64("2026-01-01T00:00:00", "us") + seconds.astype("timedelta64[s]"))
    if kind == "small integers":
        return numbers.cast(pa.int16())
    if kind in ("strings", "dictionaries"):
        distinct, codes = np.unique(values, return_inverse=True)
        found = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), [f"v{value}" for value in distinct.tolist()])
        return found if kind == "dictionaries" else found.cast(pa.string())
    return numbers


def table(of: World, events: int, seed: int = 1) -> pa.Table:
    """The events of a world: types equally frequent, constants as frequent as a window can bear."""
    random = np.random.default_rng([seed, of.window])
    share = min(0.5, 3 * of.length * TYPES / of.window)
    held = 1_000 + random.integers(0, 3 * of.length, events)
    x = np.where(random.random(events) < share, held, 5_000 + random.integers(0, 900, events))
    types = random.integers(0, TYPES, events)
    types = (
        np.where(random.random(events) < 0.5, TYPES + random.integers(0, of.more_types, events), types)
        if of.more_types
        else types
    )
    times = np.arange(events)
    if of.ties == "one":
        times[events // 2] = times[events // 2 - 1]
    elif of.ties != "none":
        times = times // (2 if of.ties == "all" else 1) * (2 if of.ties == "all" else 1)
        times = np.where(random.random(events) < 0.05, np.maximum(times - 1, 0), times) if of.ties == "some" else times
        times = np.maximum.accumulate(times)
    key = random.integers(0, domain(of), events)
    columns = {
        "ts": pa.array(times),
        "type": _types(of, types),
        "x": _with_nulls(written(x, of.kind), of, random),
        "n": _with_nulls(pa.array(random.integers(0, domain(of), events)), of, random),
        "y": _with_nulls(pa.array(random.random(events)), of, random),
        "s": written(1_000 + random.integers(0, domain(of), events), "strings"),
        "k": written(1_000 + key, of.key if of.key != "two" else "integers"),
        "k2": pa.array(key % 7),
        "id": pa.array(np.arange(events)),
    }
    more = {f"c{place}": pa.array(random.random(events)) for place in range(of.columns - PLAIN.columns)}
    whole = pa.table({**columns, **more})
    return pa.Table.from_batches(whole.to_batches(max_chunksize=of.chunk)) if of.chunk else whole


def _types(of: World, codes: np.ndarray) -> pa.Array:
    names = [*"ABCD", *(f"other{place}" for place in range(of.more_types))]
    if of.types == "integers":
        names = [f"T{place}" for place in range(len(names))]
    found = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), names)
    return found if of.types == "dictionary" else found.cast(pa.string())


def _with_nulls(column: pa.Array, of: World, random: np.random.Generator) -> pa.Array:
    if not of.nulls:
        return column
    return pa.compute.if_else(pa.array(random.random(len(column)) >= of.nulls), column, pa.scalar(None, column.type))


# --- what it costs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a run."""

    events: int
    matches: int
    work: int
    seconds: float = 0.0

    @property
    def nanoseconds(self) -> float:
        """Per event."""
        return 1e9 * self.seconds / self.events


def run(of: World, events: int, repeats: int = 1) -> Cost:
    """A world of some length, run and counted; its time is the best of several."""
    made, asked = table(of, events), kleene.query(query(of))
    options: dict[str, Any] = {"time": "ts", "type": "type", "bad_rows": "drop", **({"order_by": "id"} if of.ordered else {})}
    seconds, found = [], None
    for _ in range(repeats):
        begun = time.process_time()
        found = asked.run(made, **options)
        seconds.append(time.process_time() - begun)
    assert found is not None
    counted = found.metrics
    return Cost(events, counted.matches, sum(getattr(counted, name) for name in WORK), min(seconds))


def refused(of: World) -> bool:
    """Whether the planner says that it does not support the query."""
    try:
        run(of, 40)
    except PlanningError:
        return True
    return False


def growth(of: World, events: int = EVENTS) -> tuple[Cost, Cost]:
    """A stream and one that is longer, with the same window."""
    return run(of, events), run(of, GROWN * events)


def grows_too_fast(short: Cost, long: Cost) -> bool:
    """Whether counted work grows faster than the stream, and than the matches."""
    allowed = max(GROWN, long.matches / max(1, short.matches))
    return long.work > SLACK * allowed * short.work + FEW


def described(of: World) -> str:
    """What is not plain in a world."""
    told = [item.name for item in fields(of) if getattr(of, item.name) != getattr(PLAIN, item.name)]
    return ", ".join(f"{name}={getattr(of, name)}" for name in told)


def check(of: World, number: int, rng: Random, report: Report) -> list[str]:
    """The growth of a world with a window that is short beside the stream."""
    of = replace(of, window=min(of.window, MOST_WINDOW))
    if refused(of):
        report.seen["refused"] += 1
        return []
    short, long = growth(of)
    report.matches += long.matches
    report.seen["with work"] += long.work > 0
    for item in fields(of):
        report.seen[f"{item.name}={getattr(of, item.name)}"] += 1
    return (
        [f"{short.work:,} over {short.events:,} events, {long.work:,} over {long.events:,}"]
        if grows_too_fast(short, long)
        else []
    )


def _wider() -> None:
    """Lets windows keep everything."""
    right = query
    globals()["query"] = lambda of: right(of).replace(f"WITHIN {of.window}", f"WITHIN {10_000 * of.window}")


SUITE = Suite(world, check, lambda of: f"{query(of)}\n  {described(of)}", {"wider": _wider})

if __name__ == "__main__":
    main(__doc__, SUITE)
