"""Kleene as a contender: whole runs of one plan, with every match enumerated or in the compressed form.

The compressed form is the match buffer as it is, so a run that stops there is matching without construction.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.harness import Contender, Outcome
from kleene import Query

WORK = ("instances", "visits", "merged", "peak_runs", "buffered")
"""Counted work; what the metrics do not have is left out."""


def kleene(name: str, query: Query, table: pa.Table, *, algorithm: str | None = None, output: str = "verbose") -> Contender:
    """A run of the query over a table in memory, by one of the algorithms or by the default.

    Its work has `complexity`, the elements of all matches, where matches are enumerated; that, and the number of matches of the
    compressed form, are computed in the first run only.
    """
    options: dict[str, Any] = {"time": "ts", "type": "type", "output": output}
    if algorithm is not None:
        options["plan"] = {"algorithm": algorithm}
    known: list[Outcome] = []

    def run() -> Outcome:
        done = query.run(table, **options)
        if not known:
            known.append(_outcome(done, output))
        return known[0]

    return Contender(name, run)


def _outcome(done: Any, output: str) -> Outcome:
    work = {key: int(getattr(done.metrics, key)) for key in WORK if hasattr(done.metrics, key)}
    if output == "compressed":
        from kleene import count

        return Outcome(int(count(done.matches)), work)
    return Outcome(done.matches.num_rows, work | {"complexity": complexity_of(done.matches)})


def complexity_of(matches: pa.Table) -> int:
    """The output complexity of section 6.1: the sum of the lengths of all matches.

    A list column holds the elements of a; b is one event.

    >>> complexity_of(pa.table({"prices": [[1, 2], [3]], "at": [4, 5]}))
    5
    """
    lists = [
        name
        for name, kind in zip(matches.schema.names, matches.schema.types, strict=True)
        if pa.types.is_list(kind) or pa.types.is_large_list(kind)
    ]
    elements = sum(pc.sum(pc.list_value_length(matches.column(name))).as_py() or 0 for name in lists)
    return elements + matches.num_rows
