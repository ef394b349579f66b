"""Run as a script: cases and `spark_queries` on a Spark Connect session of its own; prints what differs as JSON.

Standard input has the names of the cases and queries, as JSON.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from kleene.testing.case_routes import Route, differences, run
from kleene.testing.cases import Case, load_all
from support import engine_routes, spark, spark_queries

CASES = Path(__file__).parents[1] / "cases"


def name_of(case: Case) -> str:
    return f"{case.path.name}:{case.line}"


def report(route: Callable[[Any], Route], answers: Callable[[Any, pa.Table], Callable[[str], Any]]) -> int:
    """Compares the cases and queries that standard input names, by a route and by answers of a session; prints what differs."""
    asked = set(json.load(sys.stdin))
    session = spark.connect_session()
    found: dict[str, Any] = {"session": type(session).__module__}

    def note(name: str, check: Callable[[], list[str]]) -> None:
        try:
            found[name] = check()
        except Exception:  # noqa: BLE001 - reported, so that the other checks still run
            found[name] = [traceback.format_exc()]

    of_session, table = route(session), spark_queries.events()
    for case in load_all(CASES):
        if name_of(case) in asked:
            note(name_of(case), lambda case=case: differences(case, run(case, of_session)))  # type: ignore[misc]
    answer = answers(session, table)

    def compared(name: str) -> list[str]:
        wanted, given = spark_queries.embedded(name, table), answer(name)
        return [] if wanted == given else [f"{len(wanted)} matches embedded, {len(given)} on Connect, or other contents"]

    for name in spark_queries.QUERIES:
        if name in asked:
            note(name, lambda name=name: compared(name))  # type: ignore[misc]
    json.dump(found, sys.stdout)
    sys.stdout.flush()
    session.stop()
    return 0


def _of_frames(session: Any, table: pa.Table) -> Callable[[str], Any]:
    frame = spark.frame_of(session, table)
    return lambda name: spark_queries.on_spark(name, frame)


if __name__ == "__main__":
    sys.exit(report(lambda session: engine_routes.spark_route(lambda: session), _of_frames))
