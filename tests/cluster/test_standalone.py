"""A real master with two workers: spark-submit, a session of a plain Python process, and Spark Connect."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import cluster

pytestmark = [pytest.mark.spark, pytest.mark.long]

PYTHON = "./environment/bin/python"


@pytest.fixture(scope="module")
def master(large: Path) -> Iterator[str]:
    folder = large / "standalone"
    folder.mkdir()
    with cluster.standalone(folder) as address:
        yield address


def check(report: dict[str, Any], expected: dict[str, cluster.Rows], packed: cluster.Packed) -> None:
    """Two executors, each with the shipped Python and kernels, give the answers of one process."""
    assert report["answers"] == expected
    assert len(report["executors"]) == 2
    for executor in report["executors"]:
        assert all("/environment/" in executor[name] for name in ("python", "kleene", "cache"))
        assert executor["kernels"] == packed.kernels


def folder_of(large: Path, name: str) -> Path:
    folder = large / name
    folder.mkdir()
    return folder


def test_spark_submit(master: str, large: Path, packed: cluster.Packed, expected: dict[str, cluster.Rows]) -> None:
    settings = cluster.SETTINGS | {
        "spark.master": master,
        "spark.archives": f"{packed.path}#environment",
        "spark.pyspark.python": PYTHON,
        "spark.pyspark.driver.python": sys.executable,
    }
    check(cluster.drive(folder_of(large, "submit"), [], submit=settings), expected, packed)


def test_a_plain_process(master: str, large: Path, packed: cluster.Packed, expected: dict[str, cluster.Rows]) -> None:
    """As in a notebook: nothing is set but the session."""
    settings = cluster.SETTINGS | {
        "spark.master": master,
        "spark.archives": f"{packed.path}#environment",
        "spark.sql.execution.pyspark.python": PYTHON,
    }
    check(cluster.drive(folder_of(large, "plain"), ["--settings", json.dumps(settings)]), expected, packed)


def test_cluster_mode_is_refused_by_spark(master: str, large: Path) -> None:
    """Python applications have their driver on the submitting machine; the documentation says so."""
    command = [
        str(cluster.spark_home() / "bin" / "spark-submit"),
        "--master",
        master,
        "--deploy-mode",
        "cluster",
        str(cluster.RUN),
    ]
    done = subprocess.run(
        command, env=cluster.environment(), cwd=large, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode != 0
    assert "not supported for python applications on standalone" in (done.stdout + done.stderr).lower()


def test_connect_with_a_server_that_has_the_environment(
    master: str, large: Path, packed: cluster.Packed, expected: dict[str, cluster.Rows]
) -> None:
    """Workers of a Connect session start in a folder of the session's, below that of the executor."""
    settings = {"spark.archives": f"{packed.path}#environment"}
    folder = folder_of(large, "connect")
    with cluster.connect_server(folder, master, settings, PYSPARK_PYTHON=f".{PYTHON}") as remote:
        check(cluster.drive(folder, ["--remote", remote]), expected, packed)


def test_connect_with_an_environment_of_the_client(
    master: str, large: Path, packed: cluster.Packed, expected: dict[str, cluster.Rows]
) -> None:
    folder = folder_of(large, "artifact")
    with cluster.connect_server(folder, master, {}) as remote:
        check(cluster.drive(folder, ["--remote", remote, "--artifact", str(packed.path)]), expected, packed)
