"""Random events in a working set, a query over them, and random matches of it, as the oracle knows them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from kleene.common.schema import schema_of_arrow
from kleene.engine.events.grouping import Groups, group_rows, value_codes
from kleene.engine.events.placed import PlacedColumns
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.matches.matches import Matches
from kleene.language.parser import parse
from kleene.pattern.bind import bind
from kleene.pattern.bound import BoundQuery
from kleene.testing import evaluate as oracle

ARROW = pa.schema(
    [
        ("ts", pa.int64()),
        ("type", pa.string()),
        ("k", pa.int16()),
        ("x", pa.int64()),
        ("y", pa.float64()),
        ("s", pa.string()),
        ("t", pa.timestamp("ms")),
        ("d", pa.duration("us")),
        ("f", pa.bool_()),
    ]
)

QUERIES = (
    "PATTERN SEQ(A a, B+ b[], !(N n), ANY(C, D){1,3} c[], E? e) WITHIN 50",
    "PATTERN OR(SEQ(A+ a[], !(N n), ANY(B, C) b), SEQ(D d, ANY(C, E)+ c[], E e)) WITHIN 50",
    "PATTERN SEQ(ANY(A, B)+ a[], !(ANY(N, C) n), B+ b[]) WITHIN 50",
    "PATTERN SEQ(A a, !(N n), B b, C c) WITHIN 50",
)

START = dt.datetime(2026, 3, 1)  # noqa: DTZ001 - a column without a time zone


Bindings = dict[str, int | tuple[int, ...]]


def rows_of(rng: Random, count: int) -> list[dict[str, Any]]:
    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.2 else value

    return [
        {
            "ts": position,
            "type": rng.choice("AABBCCDDEEN"),
            "k": rng.randrange(3),
            "x": maybe(rng.randrange(-5, 10)),
            "y": maybe(rng.choice((0.1, 0.2, 0.7, 1e16, -3.5, -0.0, math.nan if rng.random() < 0.2 else 2.0))),
            "s": maybe(rng.choice(("", "a", "b", "ab", "ä"))),
            "t": maybe(START + dt.timedelta(seconds=rng.randrange(9))),
            "d": maybe(dt.timedelta(microseconds=rng.randrange(-5, 9))),
            "f": maybe(rng.random() < 0.5),
        }
        for position in range(count)
    ]


@dataclass(frozen=True)
class World:
    """Events in a working set, grouped by `k`, and a query over them."""

    bound: BoundQuery
    events: list[dict[str, Any]]
    working: WorkingSet
    groups: Groups
    placed: PlacedColumns
    place_of: np.ndarray[Any, Any]
    """The place of each row."""

    @property
    def types(self) -> list[str]:
        return [row["type"] for row in self.events]

    def matches(self, found: list[Bindings]) -> Matches:
        """Matches of one branch, each as variable to rows."""
        singles: dict[str, Any] = {}
        lists: dict[str, Any] = {}
        for variable, example in found[0].items():
            bound = [match[variable] for match in found]
            if isinstance(example, int):
                singles[variable] = self.place_of[bound].astype(np.int32)
            else:
                offsets = np.cumsum([0, *(len(elements) for elements in bound)])
                lists[variable] = offsets, self.place_of[[row for elements in bound for row in elements]]
        extents = [(min(rows), max(rows)) for rows in map(flat_rows, found)]
        first, last = (self.place_of[[extent[side] for extent in extents]] for side in (0, 1))
        return Matches(len(found), singles, lists, first, last)

    def frame(self, bindings: Bindings) -> oracle.Frame:
        return oracle.Frame(self.bound, self.events, self.types, bindings)


def flat_rows(match: Bindings) -> list[int]:
    return [row for rows in match.values() for row in (rows if isinstance(rows, tuple) else (rows,))]


def world(rng: Random, text: str, *, declared: bool = False, count: int = 30) -> World:
    types = None
    if declared:
        names = [name for name in ARROW.names if name not in ("ts", "type")]
        types = {kind: frozenset(name for name in names if rng.random() < 0.7) for kind in "ABCDEN"}
    bound = bind(parse(text), schema_of_arrow(ARROW, time="ts", type="type"))
    if types is not None:
        # Declared afterwards: binding rejects conditions on attributes that no type of a variable has.
        bound = BoundQuery(
            bound.query,
            schema_of_arrow(ARROW, time="ts", type="type", types=types),
            bound.branches,
            bound.conjuncts,
            bound.equivalences,
            bound.window,
            bound.count_window,
        )
    events = rows_of(rng, count)
    for row in events:
        for name in ARROW.names:
            if types is not None and bound.lacks(row["type"], name) and rng.random() < 0.5:
                row[name] = None
    working = WorkingSet(bound.schema, ARROW.names)
    batch = pa.RecordBatch.from_pylist(events, schema=ARROW)
    negative = {kind for event in bound.components if event.negated for kind in event.types}
    masks = np.array([int(row["type"] in negative) for row in events])
    working.add(batch, np.arange(count), masks)
    codes, size = value_codes(pa.array([row["ts"] % 3 for row in events]))
    groups = group_rows(codes, size, working.ts, masks)
    return World(bound, events, working, groups, PlacedColumns(working, groups), np.argsort(groups.order))


def random_matches(rng: Random, at: World, count: int) -> list[Bindings]:
    """Random events of the right types under the variables of one branch; not necessarily in order."""
    branch = rng.choice(at.bound.branches)
    found: list[Bindings] = []
    for _ in range(count):
        match: Bindings = {}
        for event in branch.positives:
            able = [row for row, kind in enumerate(at.types) if kind in event.types]
            size = rng.choice((1, 1, 2, 3, 5)) if event.is_kleene else 1
            elements = tuple(sorted(rng.sample(able, min(size, len(able)))))
            match[event.variable] = elements if event.is_kleene else elements[0]
        found.append(match)
    return found


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return (left is None) == (right is None) and left == right


def cases(seed: int, count: int) -> Iterator[tuple[Random, World, list[Bindings]]]:
    for number in range(count):
        rng = Random(seed * 1000 + number)
        at = world(rng, rng.choice(QUERIES), declared=rng.random() < 0.4)
        yield rng, at, random_matches(rng, at, rng.randrange(1, 8))
