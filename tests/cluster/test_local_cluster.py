"""Two executors with a packed environment give the answers of one process, also when they are killed while they match."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support import cluster

pytestmark = pytest.mark.spark

NAMES = [*cluster.QUERIES, *(f"workload {name}" for name in cluster.WORKLOAD)]


@pytest.fixture(scope="module")
def report(large: Path, packed: cluster.Packed) -> dict[str, Any]:
    folder = large / "local cluster"
    folder.mkdir()
    settings = cluster.SETTINGS | {"spark.master": "local-cluster[2,1,1024]", "spark.archives": f"{packed.path}#environment"}
    home = cluster.own_spark_home(folder / "spark")
    arguments = ["--settings", json.dumps(settings), "--kill", str(folder)]
    return cluster.drive(folder, arguments, PYSPARK_PYTHON="./environment/bin/python", SPARK_HOME=str(home))


@pytest.mark.parametrize("name", NAMES)
def test_the_answers_are_those_of_one_process(name: str, report: dict[str, Any], expected: dict[str, cluster.Rows]) -> None:
    assert expected[name]
    assert report["answers"][name] == expected[name]


def test_executors_run_what_was_shipped(report: dict[str, Any], packed: cluster.Packed) -> None:
    assert len(report["executors"]) == 2
    for executor in report["executors"]:
        assert all("/environment/" in executor[name] for name in ("python", "kleene", "cache"))


def test_executors_load_kernels_and_compile_none(report: dict[str, Any], packed: cluster.Packed) -> None:
    shipped = packed.kernels
    assert any(name.endswith(".nbc") for name in shipped)
    for executor in report["executors"]:
        assert executor["kernels"] == shipped


@pytest.mark.parametrize(("number", "name"), list(enumerate(cluster.HELD)))
def test_an_executor_is_killed_while_it_matches_and_nothing_is_missing(number: int, name: str, report: dict[str, Any]) -> None:
    killed = report["kills"][name]
    assert "CoarseGrainedExecutorBackend" in killed["command"]
    assert killed["worker"] not in killed["ended"]  # it was in the middle of its task...
    assert killed["ended"]  # ...which others have done
    assert killed["lost"] == number + 1
    expected = cluster.held_answer(name, cluster.events(), lambda x: x)
    assert expected
    assert killed["rows"] == expected
