"""Processes of a stream that are killed: what its sinks have in the end is what the batch gives, each row once.

The soak takes ten minutes, and leaves a report:

    python -m pytest -m long tests/fault
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from random import Random

import pytest

from support.fault_kills import DRIVER, EXECUTOR, SORTS, WORKER
from support.fault_soak import Course, Report, soak

pytestmark = [pytest.mark.spark, pytest.mark.since(4, 1)]

REPORT = Path(__file__).parents[2] / "artifacts" / "fault" / "soak.json"
SECONDS, KILLS = 600, 30


def test_a_driver_and_a_worker_are_killed(tmp_path: Path) -> None:
    names = ("silence", "total", "rising", "pair", "triple")
    course = Course(master="local[2,4]", kills=(WORKER, DRIVER), pause=0.3, names=names)
    report = soak(tmp_path / "soak", course)
    check(report, Counter((WORKER, DRIVER)))
    assert report.drivers == 2


@pytest.mark.long
def test_an_executor_is_killed(tmp_path: Path) -> None:
    report = soak(tmp_path / "soak", Course(kills=(EXECUTOR,), compares=True))
    check(report, Counter((EXECUTOR,)))
    assert report.drivers == 1


@pytest.mark.long
def test_everything_is_killed_for_ten_minutes(tmp_path: Path) -> None:
    rng = Random(1)
    kills = tuple(rng.choice(SORTS) for _ in range(KILLS))
    report = soak(tmp_path / "soak", Course(seconds=SECONDS, kills=kills, compares=True))
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(asdict(report), indent=1) + "\n")
    check(report, Counter(kills))


def check(report: Report, least: Counter[str]) -> None:
    """That all were killed in the middle of a micro-batch, none died otherwise, and everything is there."""
    killed = Counter(kill.sort for kill in report.kills)
    assert killed >= least
    assert all(kill.batches for kill in report.kills)
    assert report.deaths == []
    assert report.drivers == killed[DRIVER] + 1
    assert report.wrong == []
    assert all(report.matches.values())
    assert report.late > 0
    assert report.bad > 0
