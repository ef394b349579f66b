"""Compiles the kernels that any query may need, by running one query of each kind over a few generated events.

A kernel is specialized for its array types, so the events come in the encodings of files and of Spark. The filter for a query's
own conditions is compiled when that query first runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

EVENTS = 400
ROLES: dict[str, Any] = {"time": "ts", "type": "type"}

MATCHED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("PATTERN SEQ(A a, B b) WHERE [k] AND a.k < 2 AND a.x < 30 AND b.y > 0.1 WITHIN 20 RETURN a.s AS s, b.x + a.x AS x", {}),
    ("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10", {"plan": "optimized"}),
    ("PATTERN SEQ(A a, !(D d), B b) WHERE [k] AND [s] AND d.x > a.x WITHIN 20", {}),
    ("PATTERN SEQ(!(D d), A a, B b, !(C c)) WHERE [k] WITHIN 20", {"plan": {"mechanism": "sequence"}}),
    ("PATTERN SEQ(A a, !(D d), B b) WHERE [k] AND a.x < b.x WITHIN 20", {"plan": "basic"}),
    ("PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.x < b.x WITHIN 20", {"plan": {"mechanism": "tree"}}),
    ("PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.x < b.x WITHIN 20", {"plan": {"mechanism": "chain"}}),
    ("PATTERN AND(A a, SEQ(B b, C c)) WHERE [k] AND a.x < b.x WITHIN 20", {}),
    (
        "PATTERN SEQ(A a, B+ b[], C c) WHERE [k] AND b[i].x > a.x WITHIN 20 RETURN sum(b.x) AS n, max(b.y) AS m, stddev(b.y)",
        {},
    ),
    ("PATTERN SEQ(A a, B+ b[], !(D d), C c) WHERE [k] AND d.x > a.x WITHIN 16", {"plan": {"mechanism": "chain"}}),
    ("PATTERN SEQ(A a, OR(B b, D d), C c) WHERE [k] WITHIN 8", {}),
    ("PATTERN SEQ(A a, B? b, C c) WHERE [k] WITHIN 8", {"output": "compressed"}),
    ("PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_next_match(a, b[], c) { [k] AND b[i].x >= b[i-1].x } WITHIN 20", {}),
    ("PATTERN SEQ(A a, B b, C c) WHERE skip_till_next_match(a, b, c) { [k] } WITHIN 20", {}),
    ("PATTERN SEQ(A a, B+ b[], C c) WHERE partition_contiguity(a, b[], c) { [k] } WITHIN 20", {}),
    ("PATTERN SEQ(A a, B b) WHERE strict_contiguity(a, b) { } WITHIN 10 EVENTS", {}),
    ("PATTERN SEQ(A a, B+ b[], C c) WHERE [k] WITHIN 8", {"plan": {"algorithm": "basic"}}),
    ("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 20 OUTPUT NON-OVERLAP", {}),
    ("PATTERN SEQ(A a, B+ b[]) WHERE [k] WITHIN 8 OUTPUT NON-OVERLAP RETURN sum(b.y) AS n", {}),
    ("PATTERN SEQ(A a, B b, !(D d)) WHERE [k] WITHIN 8 OUTPUT NON-OVERLAP", {}),
)
"""Queries for matches, with options that choose a mechanism."""

COUNTED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("PATTERN SEQ(A a, B b, C c) WITHIN 20 AGG COUNT, SUM(b.x) AS n, MAX(c.y) AS y", {"plan": {"window": "stacks"}}),
    ("PATTERN SEQ(A a, B b, C c) WITHIN 20 AGG COUNT, SUM(b.x) AS n, MAX(c.y) AS y", {"plan": {"window": "marking"}}),
    ("PATTERN SEQ(A a, B b, C c) WITHIN 20 AGG COUNT", {}),
    ("PATTERN SEQ(A a, !(D d), B b) GROUP BY k AGG COUNT, AVG(b.x) AS x", {}),
    ("PATTERN SEQ(A a, B b) GROUP BY s AGG COUNT", {}),
    ("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 20 AGG COUNT, SUM(b.x) AS n, MIN(a.y) AS y", {}),
    ("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 20 GROUP BY k AGG COUNT, SUM(b.x) AS n, MIN(a.y) AS y", {}),
    ("PATTERN SEQ(A a, B b, !(D d)) WHERE a.x < b.x WITHIN 8 AGG COUNT, SUM(b.x) AS n", {}),
    ("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 20 AGG COUNT, SUM(b.x) AS n", {}),
    ("PATTERN SEQ(A a, B b, C c) WHERE a.y < b.y WITHIN 20 AGG COUNT", {}),
    ("PATTERN SEQ(A a, B+ b[]) WHERE [k] AND b[i].x > a.x WITHIN 8 AGG COUNT, SUM(b.x) AS n", {}),
)
"""Queries for aggregates."""

TOGETHER: tuple[dict[str, str], ...] = (
    {
        "two": "PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x WITHIN 20",
        "three": "PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.x < b.x WITHIN 20",
        "without": "PATTERN SEQ(A a, !(D d), B b) WHERE [k] WITHIN 20",
        "many": "PATTERN SEQ(A a, B+ b[], C c) WHERE [k] WITHIN 16",
    },
    {
        "counts": "PATTERN SEQ(A a, B b, C c) WITHIN 20 AGG COUNT",
        "others": "PATTERN SEQ(A a, B b, D d) WITHIN 20 AGG COUNT, SUM(a.x) AS n",
        "longer": "PATTERN SEQ(A a, B b, C c, D d) WITHIN 20 AGG COUNT",
    },
)
"""Workloads."""


LONG = "PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.x < b.x AND b.x < c.x WITHIN 400 RETURN a.x AS x"
"""A query with enough work over REPEATED copies of the events that measuring selectivities pays off."""

REPEATED = 10

TIMED = "PATTERN SEQ(A a, B b) WHERE [k] WITHIN 1 second"
"""A query over times in nanoseconds, as in pandas."""


def warm_up(tell: Callable[[str], None]) -> None:
    """Runs all queries; `tell` is called with the progress."""
    from kleene.interfaces.query import query
    from kleene.interfaces.workload.workload import workload

    made = _events()
    steps: list[Callable[[], Any]] = []
    for table in (made, _sent(made)):
        for text, options in (*MATCHED, *COUNTED):
            steps.append(partial(query(text).match, table, **ROLES, **options))
        steps += [partial(workload(queries).match, table, **ROLES) for queries in TOGETHER]
        steps.append(partial(query(LONG).match, _repeated(table), **ROLES))
    for table in _encodings(made):
        steps += [partial(query(MATCHED[0][0]).match, each, **ROLES) for each in (table, _sent(table))]
    steps.append(partial(query(TIMED).match, made.set_column(0, "ts", made.column(0).cast(pa.timestamp("ns"))), **ROLES))
    steps += [partial(query(text).match, _tied(made), **ROLES) for text in (MATCHED[0][0], MATCHED[1][0])]
    steps.append(partial(_in_pieces, made))
    for number, step in enumerate(steps):
        tell(f"compiling kernels: {number} of {len(steps)} queries")
        step()


def _events() -> pa.Table:
    rng = np.random.default_rng(1)

    def drawn(*values: Any) -> list[Any]:
        return [values[place] for place in rng.integers(0, len(values), EVENTS)]

    columns = {"type": drawn(*"ABCD"), "k": drawn(0, 1, 2), "x": drawn(None, *range(40)), "y": drawn(None, 0.0, 0.5, 1.5)}
    return pa.table({"ts": range(EVENTS), **columns, "s": drawn("left", "right")})


def _tied(table: pa.Table) -> pa.Table:
    """The events twice: each ties with another one like it."""
    return pa.concat_tables([table, table])


def _in_pieces(table: pa.Table) -> None:
    """Counters by key in a stream, which are carried on from piece to piece."""
    from kleene.interfaces.options import options_of
    from kleene.interfaces.query import query

    for key in ("k", "s"):
        counted = query(f"PATTERN SEQ(A a, B b) GROUP BY {key} AGG COUNT")
        matcher = counted.matcher(table.schema, options_of(ROLES))
        for batch in table.to_batches(max_chunksize=EVENTS // 2):
            for found in (matcher.feed(batch), matcher.advance(int(batch.column("ts")[-1].as_py()) + 1)):
                for _ in found:
                    pass


def _repeated(table: pa.Table) -> pa.Table:
    """Copies of the events at later times."""
    places = np.tile(np.arange(EVENTS), REPEATED)
    return table.take(places).set_column(0, "ts", pa.array(np.arange(EVENTS * REPEATED)))


def _sent(table: pa.Table) -> pa.Table:
    """The batch as Spark sends it: in read-only memory."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return pa.ipc.open_stream(sink.getvalue().to_pybytes()).read_all()


def _encodings(table: pa.Table) -> list[pa.Table]:
    """The events with types as codes of every width, and with narrower numbers."""

    def changed(name: str, kind: pa.DataType) -> pa.Table:
        column = table.column(name).combine_chunks()
        if pa.types.is_dictionary(kind):
            encoded = column.dictionary_encode()
            column = pa.DictionaryArray.from_arrays(encoded.indices.cast(kind.index_type), encoded.dictionary)
        else:
            column = column.cast(kind)
        return table.set_column(table.schema.get_field_index(name), name, column)

    codes = [pa.dictionary(width, pa.string()) for width in (pa.int8(), pa.int16(), pa.int32(), pa.int64())]
    kinds = {"type": codes, "k": [pa.int32(), pa.float64()], "x": [pa.int32(), pa.float64()], "y": [pa.float32()]}
    return [changed(name, kind) for name, items in kinds.items() for kind in items]
