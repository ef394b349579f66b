"""Lines about what columns hold and how tables lie: kinds of values, many constants, ties, chunks, many columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

import kleene as library
from benchmarks.cliffs.line import SEED, Goal, Line, Scale, checked, compared, kleene
from benchmarks.harness import Contender, Point

L = 24
"""Components with a constant each."""
FIRST = 5_000
"""The first of the constants, all of them above what the stream has elsewhere."""
QUERIES = 200
KEYS, PAIR_W = 1_000, 4_000
LISTED, CHOICES, TYPES = 10_000, 1_000, 1_500
ROWS = 100
"""Of a small chunk or batch."""
WIDTH = 105

PAIR = f"PATTERN SEQ(A a, B b) WHERE [k] WITHIN {PAIR_W}"
RETURN = " RETURN a.ts AS a_ts, b.ts AS b_ts"
KINDS = {
    "integers": (pa.int64(), "{}"),
    "floats": (pa.float64(), "{}.5"),
    "strings": (pa.string(), "'v{}'"),
    "dictionaries": (pa.dictionary(pa.int32(), pa.string()), "'v{}'"),
}
"""How numbers of four digits are written in a column of a kind, so that they compare as the numbers do."""


def stream(events: int, types: str = "ABCD", **columns: pa.Array) -> pa.Table:
    """Events one unit apart, of types equally frequent."""
    kinds = np.random.default_rng([SEED, len(types)]).integers(0, len(types), events)
    names = pa.DictionaryArray.from_arrays(pa.array(kinds, pa.int8()), list(types))
    return pa.table({"ts": np.arange(events), "type": names, **columns})


def written(values: np.ndarray, kind: str) -> pa.Array:
    """Numbers as values of a kind."""
    numbers = pa.array(values.astype(np.int64))
    if kind == "integers":
        return numbers
    if kind == "floats":
        return pa.array(values + 0.5)
    texts = pa.array([f"v{value}" for value in values.tolist()])
    return texts if kind == "strings" else texts.dictionary_encode()


def planted(events: int, constants: int) -> np.ndarray:
    """Random numbers of four digits below the constants, and the constants one after the other at the end."""
    values = np.random.default_rng([SEED, events]).integers(1_000, FIRST, events)
    values[-constants:] = FIRST + np.arange(constants)
    return values


def constants(scale: Scale) -> Iterator[Point]:
    """Each component has a constant of its own, which nothing but the last events has."""
    events = scale.share(1.0)
    values = planted(events, L)
    for case, sign in (("equal", "="), ("above", ">=")):
        contenders = []
        for kind, (_, text) in KINDS.items():
            tests = " AND ".join(f"e{place}.x {sign} {text.format(FIRST + place)}" for place in range(L))
            query = f"PATTERN SEQ({', '.join(f'A e{place}' for place in range(L))}) WHERE {tests} WITHIN 100 RETURN e0.ts AS t"
            contenders.append(kleene(kind, query, stream(events, "A", x=written(values, kind)), 1))
        yield compared(case, contenders, events, scale, "integers")


def workload(scale: Scale) -> Iterator[Point]:
    """Pairs of constants, two for each query, of which each is there once."""
    events = scale.share(1.0)
    for kind in ("floats", "strings"):
        table = stream(events, "A", x=written(planted(events, 2 * QUERIES), kind))
        text = KINDS[kind][1]
        queries = {
            f"q{place}": f"PATTERN SEQ(A a, A b) WHERE a.x = {text.format(FIRST + 2 * place)} "
            f"AND b.x = {text.format(FIRST + 2 * place + 1)} WITHIN 100{RETURN}"
            for place in range(QUERIES)
        }
        contenders = [kleene("one query", queries["q0"], table, 1, other=True), together("workload", queries, table, QUERIES)]
        units = {"event and query": float(events * QUERIES)}
        yield compared(kind, contenders, events, scale, "one query", **units)


def together(name: str, queries: dict[str, str], table: pa.Table, expected: int) -> Contender:
    """A workload; its matches are counted together."""
    asked = library.workload(queries)
    return checked(name, lambda: sum(found.num_rows for found in asked.match(table, time="ts", type="type").values()), expected)


def lists(scale: Scale) -> Iterator[Point]:
    """`IN` of many numbers, in the query and as a parameter; `ANY` of many types."""
    events, random = scale.share(1.0), np.random.default_rng([SEED, LISTED])
    table = stream(events, x=pa.array(random.integers(0, 100 * LISTED, events)))
    listed = random.choice(100 * LISTED, LISTED, replace=False).tolist()
    query = "PATTERN SEQ(A a, B b) WHERE a.x {0} AND b.x {0} WITHIN 1000" + RETURN
    contenders = [
        kleene("one number", query.format("= 5"), table, other=True),
        kleene("IN", query.format(f"IN ({', '.join(map(str, listed))})"), table),
        kleene("IN a parameter", query.format("IN listed"), table, params={"listed": listed}),
    ]
    yield compared("numbers", contenders, events, scale, "one number")
    names = [f"T{number}" for number in range(TYPES)]
    types = pa.DictionaryArray.from_arrays(pa.array(random.integers(0, TYPES, events), pa.int32()), names)
    table = table.set_column(1, "type", types)
    contenders = []
    for name, chosen in (("one type", "{1}"), ("ANY", f"ANY({', '.join(names[:CHOICES])}) {{0}}")):
        pattern = ", ".join(chosen.format(variable, f"T1 {variable}") for variable in "ab")
        query = f"PATTERN SEQ({pattern}) WHERE a.x < 500 AND b.x < 500 WITHIN 1000{RETURN}"
        contenders.append(kleene(name, query, table, other=name == "one type"))
    yield compared("types", contenders, events, scale, "one type")


def keyed(events: int) -> pa.Table:
    """Events of two types out of four with a thousand keys."""
    return stream(events, k=pa.array(np.random.default_rng([SEED, KEYS]).integers(0, KEYS, events))).combine_chunks()


def ties(scale: Scale) -> Iterator[Point]:
    """Two events that a component can bind, without a partner, once one after the other and once at the same time."""
    events = scale.share(1.0)
    table, middle = keyed(events), events // 2
    keys, kinds = (table.column(name).combine_chunks() for name in ("k", "type"))
    keys, codes = keys.to_numpy().copy(), kinds.indices.to_numpy().copy()
    keys[middle : middle + 2], codes[middle : middle + 2] = -1, 0
    kinds = pa.DictionaryArray.from_arrays(pa.array(codes), kinds.dictionary)
    times = np.arange(events)
    tied = times.copy()
    tied[middle + 1] = middle
    contenders = [
        kleene(name, PAIR + RETURN, pa.table({"ts": ts, "type": kinds, "k": keys}))
        for name, ts in (("no tie", times), ("one tie", tied))
    ]
    yield compared("ids", contenders, events, scale, "no tie")


def chunks(scale: Scale) -> Iterator[Point]:
    """The same rows in one chunk, and in chunks or batches of a hundred."""
    events = scale.share(1.0)
    whole = keyed(events)
    parts = whole.to_batches(max_chunksize=ROWS)
    contenders = [
        kleene(name, PAIR + RETURN, table) for name, table in (("one chunk", whole), ("chunks", pa.Table.from_batches(parts)))
    ]
    yield compared("a table", contenders, events, scale, "one chunk")
    query = library.query(PAIR + RETURN)

    def read(batches: Sequence[pa.RecordBatch]) -> int:
        reader = pa.RecordBatchReader.from_batches(whole.schema, batches)
        return query.match(reader, time="ts", type="type").num_rows

    contenders = [
        checked(name, lambda given=given: read(given))
        for name, given in (("one batch", whole.to_batches()), ("batches", parts))
    ]
    yield compared("a reader", contenders, events, scale, "one batch", batch=float(len(parts)))


def wide(scale: Scale) -> Iterator[Point]:
    """Whole events by default, of which nothing is read afterwards, beside two columns."""
    events, random = scale.share(0.2), np.random.default_rng([SEED, WIDTH])
    table = keyed(events)
    for number in range(WIDTH - table.num_columns):
        table = table.append_column(f"c{number}", pa.array(random.random(events)))
    query = library.query(PAIR)
    kept: list[pa.Table] = []

    def again() -> int:
        kept[:] = [*kept[-1:], query.match(table, time="ts", type="type")]
        return kept[-1].num_rows

    contenders = [
        kleene("RETURN", PAIR + RETURN, table),
        kleene("whole events", PAIR, table),
        checked("whole events, the last result kept", again),
    ]
    yield compared(f"{WIDTH} columns", contenders, events, scale, "RETURN")


LINES = (
    Line(
        name="constants",
        title=f"{L} components with a constant each, on columns of floats and strings",
        points=constants,
        goals=tuple(Goal(contender=kind, most=3) for kind in ("floats", "strings", "dictionaries")),
        remark="A constant of its own for each component, which the last events have and no others: by `=`, and by `>=`.",
    ),
    Line(
        name="workload",
        title=f"{QUERIES} queries with constants on floats or strings, together",
        points=workload,
        goals=(Goal(contender="workload", most=3, unit="ns", per="event and query"),),
        remark="Pairs of constants; one query alone is the baseline.",
    ),
    Line(
        name="lists",
        title=f"`IN` of {LISTED:,} numbers, `ANY` of {CHOICES:,} types",
        points=lists,
        goals=(
            Goal(contender="IN", most=30, unit="ns", per="event"),
            Goal(contender="IN a parameter", most=30, unit="ns", per="event"),
            Goal(contender="ANY", most=15, unit="ns", per="event"),
        ),
        remark="A pair of events whose numbers are among those listed; a pair of any of the types, beside a pair of one.",
    ),
    Line(
        name="ties",
        title="One tied timestamp",
        points=ties,
        goals=(Goal(contender="one tie", most=1.1),),
        remark="A pair with a key, with ids. The two events that tie are in no match.",
    ),
    Line(
        name="chunks",
        title=f"A table in chunks of {ROWS} rows, and batches of {ROWS} rows",
        points=chunks,
        goals=(
            Goal(contender="chunks", most=97, unit="ns", per="event"),
            Goal(contender="batches", most=20, unit="µs", per="batch", beyond=True),
        ),
        remark="A pair with a key.",
    ),
    Line(
        name="wide",
        title=f"Whole events of {WIDTH} columns",
        points=wide,
        goals=(Goal(contender="whole events", most=1.2), Goal(contender="whole events, the last result kept", most=1.2)),
        remark="A pair with a key without RETURN. No column of the matches is read afterwards.",
    ),
)
