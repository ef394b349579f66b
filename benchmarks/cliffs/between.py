"""Lines about conditions between events without a key, and the simplest pair with one beside DuckDB and Polars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from benchmarks.cliffs.columns import RETURN, stream
from benchmarks.cliffs.line import SEED, Goal, Line, Scale, checked, compared, counting, kleene
from benchmarks.harness import Contender, Point

NEGATION_W = 30_000
PICKED = 0.01
"""The share of the events around a negative component that can be bound."""
FORBIDDING = 0.98
"""How much larger the number of a forbidden event is: rarely."""
WAITING = 0.9999
UNEQUAL_W, UNEQUAL = 10_000, 0.999
COUNTED_W = 1_000
TURNAROUND = 200


def numbers(events: int, types: str = "ABCD") -> np.ndarray:
    """Random numbers, of which an early pair is as far apart as can be: something is found in short streams too."""
    found, at = np.random.default_rng([SEED, 7]).random(events), places(stream(events, types))
    first = at["A"][0]
    found[first], found[at["B"][np.searchsorted(at["B"], first)]] = 0, 1
    return found


def places(table: pa.Table) -> dict[str, np.ndarray]:
    """The rows of each type, which are times too."""
    kinds = table.column("type").combine_chunks()
    codes = kinds.indices.to_numpy()
    return {name: np.flatnonzero(codes == code) for code, name in enumerate(kinds.dictionary.to_pylist())}


def negation(scale: Scale) -> Iterator[Point]:
    """Two events and none between them that is much larger than the first."""
    events = scale.share(0.3)
    x = numbers(events)
    table = stream(events, x=pa.array(x))
    at = places(table)
    query = (
        f"PATTERN SEQ(A a, !(B b), C c) WHERE a.x < {PICKED} AND c.x < {PICKED} AND b.x > a.x + {FORBIDDING} "
        f"WITHIN {NEGATION_W}{RETURN.replace('b', 'c')}"
    )

    def sketch() -> int:
        first, last, between = at["A"][x[at["A"]] < PICKED], at["C"][x[at["C"]] < PICKED], at["B"]
        found = 0
        for row in first:
            low, high = np.searchsorted(between, (row, row + NEGATION_W))
            hits = x[between[low:high]] > x[row] + FORBIDDING
            stop = between[low + hits.argmax()] if hits.any() else row + NEGATION_W
            found += int(np.subtract(*np.searchsorted(last, (stop, row))))
        return found

    yield compared("no key", [checked("numpy", sketch), kleene("kleene", query, table)], events, scale, "numpy")


def next_match(scale: Scale) -> Iterator[Point]:
    """Runs that wait for an event that is much larger, or has the same number: all of them, for a long time."""
    events = scale.share(0.02)
    x, random = numbers(events, "AB"), np.random.default_rng([SEED, 8])
    keys = random.integers(0, events * 10, events)
    table = stream(events, "AB", x=pa.array(x), n=pa.array(keys))
    at = places(table)
    for case, condition in (("inequality", f"b.x > a.x + {WAITING}"), ("equality", "b.n = a.n")):
        query = f"PATTERN SEQ(A a, B b) WHERE skip_till_next_match(a, b) {{ {condition} }}{RETURN}"

        def sketch(case: str = case) -> tuple[int, int]:
            """Matches, and how often a run waited while an event came."""
            values, more = (x, WAITING) if case == "inequality" else (keys, 0)
            waiting, found, waits = np.ones(at["A"].size, bool), 0, 0
            first = values[at["A"]]
            for row in at["B"]:
                begun = int(np.searchsorted(at["A"], row))
                waits += int(waiting[:begun].sum())
                own = first[:begun]
                fits = waiting[:begun] & (own < values[row] - more if case == "inequality" else own == values[row])
                found += int(fits.sum())
                waiting[:begun] &= ~fits
            return found, waits

        matches, waits = sketch()
        contenders = [checked("numpy", lambda sketch=sketch: sketch()[0]), kleene("kleene", query, table, matches)]
        yield compared(case, contenders, events, scale, "numpy", **{"waiting run and event": float(max(1, waits))})


def inequalities(scale: Scale) -> Iterator[Point]:
    """A pair whose numbers are far apart, beside one whose numbers are equal."""
    events = scale.share(1.0)
    x, random = numbers(events), np.random.default_rng([SEED, 9])
    table = stream(events, x=pa.array(x), n=pa.array(random.integers(0, 1_000_000, events)))
    at = places(table)
    first, last = at["A"][x[at["A"]] < 1 - UNEQUAL], at["B"][x[at["B"]] > UNEQUAL]
    apart = last[None, :] - first[:, None]
    expected = int(((apart > 0) & (apart < UNEQUAL_W) & (x[first][:, None] < x[last][None, :] - UNEQUAL)).sum())
    query = "PATTERN SEQ(A a, B b) WHERE {} WITHIN " + str(UNEQUAL_W) + RETURN
    contenders = [
        kleene("equality", query.format("a.n = b.n"), table, other=True),
        kleene("inequality", query.format(f"a.x < b.x - {UNEQUAL}"), table, expected),
    ]
    yield compared("no key", contenders, events, scale, "equality")


def alive(x: np.ndarray, at: Mapping[str, np.ndarray], *, rising: bool) -> int:
    """The sum over all `b` of how many pairs have ended by then and have a first event that is in the window."""
    first, last, W = at["A"], at["B"], COUNTED_W
    low, high = np.searchsorted(first, last - W, side="right"), np.searchsorted(first, last)
    ended = np.array(
        [int((x[first[a:b]] < x[row]).sum()) if rising else b - a for a, b, row in zip(low, high, last, strict=True)]
    )
    low, high = np.searchsorted(last, first, side="right"), np.searchsorted(last, first + W)
    begun = np.array(
        [int((x[last[a:b]] > x[row]).sum()) if rising else b - a for a, b, row in zip(low, high, first, strict=True)]
    )
    gone = np.concatenate(([0], np.cumsum(begun)))[np.searchsorted(first, last - W, side="right")]
    return int((np.cumsum(ended) - gone).sum())


def counted(scale: Scale) -> Iterator[Point]:
    """Pairs that rise are counted, beside all pairs."""
    events = scale.share(0.05)
    x = numbers(events)
    table = stream(events, x=pa.array(x))
    at = places(table)
    query = "PATTERN SEQ(A a, B b){} AGG COUNT WITHIN " + str(COUNTED_W)
    contenders = [
        counting("all pairs", query.format(""), table, alive(x, at, rising=False), other=True),
        counting("pairs that rise", query.format(" WHERE a.x < b.x"), table, alive(x, at, rising=True)),
    ]
    yield compared(f"a window of {COUNTED_W:,}", contenders, events, scale, "all pairs")


def pair(scale: Scale) -> Iterator[Point]:
    """Planes that leave again soon after they arrived; DuckDB and Polars only count them."""
    from benchmarks.real.flights import events
    from benchmarks.real.questions import QUESTIONS
    from benchmarks.real.relational import duckdb, polars

    table = events(None if not scale.thin else 3 * scale.events)
    question = QUESTIONS["turnaround"]
    contenders: list[Contender] = [
        kleene("kleene", question.kleene, table),
        duckdb("duckdb", question, table, count_only=True),
        polars("polars", question, table, count_only=True),
    ]
    yield compared("flights", contenders, table.num_rows, scale, "polars")


LINES = (
    Line(
        name="negation",
        title="A condition on a negative component without a key",
        points=negation,
        goals=(Goal(contender="kleene", most=3),),
        remark="`numpy` looks for the first forbidden event after each `a`, in one comparison of arrays.",
    ),
    Line(
        name="next",
        title="skip_till_next_match with a condition that rarely holds",
        points=next_match,
        goals=(Goal(contender="kleene", most=5, unit="ns", per="waiting run and event"), Goal(contender="kleene", most=1)),
        remark="`numpy` compares every event with all that wait, in one comparison of arrays. Ahead of it is who has an index.",
    ),
    Line(
        name="inequalities",
        title="An inequality between events without a key",
        points=inequalities,
        goals=(Goal(contender="inequality", most=5),),
        remark=f"A window of {UNEQUAL_W:,} events; `a.x < b.x - {UNEQUAL}` and `a.n = b.n` both hold rarely.",
    ),
    Line(
        name="counting",
        title="AGG COUNT with a comparison between neighbours",
        points=counted,
        goals=(Goal(contender="pairs that rise", most=0.5, unit="µs", per="event"),),
        remark="`a.x < b.x`, beside a count without a condition.",
    ),
    Line(
        name="pair",
        title="The simplest pair with a key",
        points=pair,
        goals=(Goal(contender="kleene", most=1),),
        remark="""\
`SEQ(Arrival a, Departure b) WHERE [tailnum]` over the flights of the suite `real`. Kleene writes its matches with ids; DuckDB
and Polars count them.""",
    ),
)
