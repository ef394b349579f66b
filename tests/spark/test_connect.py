"""Spark Connect gives what embedded gives: cases, some of them in every run, and every query of `support/spark_queries.py`.

A Connect session cannot live in one process with a classic one, so a script has one of its own and reports what differs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kleene.testing.cases import load_all
from support import connect_run, spark_queries
from support.spark import ELSEWHERE

pytestmark = pytest.mark.spark

CASES = [connect_run.name_of(case) for case in load_all(connect_run.CASES) if case.runs_on("spark")]
EVERY = 4
"""One case in so many is tested in every run: all of them run in a classic session, too."""


@pytest.fixture(scope="module")
def differences(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    environment = {
        name: value for name, value in os.environ.items() if name not in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
    }
    environment |= ELSEWHERE  # the same cases and queries run in UTC, too, in a classic session
    environment["PYSPARK_PYTHON"] = sys.executable  # what runs the workers is for the server to say
    folder = tmp_path_factory.mktemp("connect")  # for the server's own files
    script = str(Path(connect_run.__file__))
    chosen = {item.callspec.params.get("name") for item in request.session.items if hasattr(item, "callspec")}
    asked = json.dumps([*(name for name in CASES if name in chosen), *spark_queries.QUERIES])
    done = subprocess.run(
        [sys.executable, script],
        env=environment,
        cwd=folder,
        input=asked,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    report: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    return report


def test_the_session_is_a_connect_session(differences: dict[str, Any]) -> None:
    assert "connect" in differences["session"]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (place % EVERY != 0)) for place, name in enumerate(CASES)]
)
def test_case(name: str, differences: dict[str, Any]) -> None:
    assert differences[name] == []


@pytest.mark.parametrize("name", spark_queries.QUERIES)
def test_query(name: str, differences: dict[str, Any]) -> None:
    assert differences[name] == []
