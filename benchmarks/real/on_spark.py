"""The questions on Spark: Kleene, and Spark SQL where it has a formulation, from one Parquet file to the noop sink."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import kleene as library
from benchmarks.harness import Contender, Outcome
from benchmarks.peers.on_spark import KLEENE, answer_of, to_nowhere
from benchmarks.real.questions import Question
from benchmarks.real.relational import SQL, written

ONLY_DUCKDB = "ASOF join"


def contenders(question: Question, path: Path, session: Any) -> list[Contender]:
    """Kleene on Spark, which gives the columns of RETURN as SQL does, and Spark SQL."""
    frame = session.read.parquet(str(path))
    query = library.query(question.kleene)
    columns = {} if question.returned is None else {"columns": [item.alias for item in query.logical.returns]}

    def sql(text: str) -> Any:
        return session.sql(text.replace("FROM events", "FROM {events}"), events=frame)

    asked: dict[str, Callable[[], Any]] = {KLEENE: lambda: query.match(frame, **columns, **question.options)}
    for name, text in SQL[question.name].items():
        if name != ONLY_DUCKDB:
            asked[f"spark sql: {name}"] = partial(sql, written(text(question), "spark", question))
    said = partial(_answer, question=question)
    return [
        to_nowhere(name, lambda ask=ask: (ask(), lambda: None), session, said)  # type: ignore[misc]
        for name, ask in asked.items()
    ]


def _answer(frame: Any, question: Question) -> Outcome:
    if question.returned is not None:
        return answer_of(frame, counted=False)
    row = frame.selectExpr("sum(count) AS total", "count(*) AS n").first()
    return Outcome(int(row["total"] or 0), {"digest": int(row["n"])})
