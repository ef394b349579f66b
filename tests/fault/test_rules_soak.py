"""Rules that change and fail, step by step: the good ones give what they give without the bad ones, and memory stays flat.

The soak on Spark takes about ten minutes, and leaves a report:

    python -m pytest -m long tests/fault/test_rules_soak.py
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from support.rule_course import Course, in_process, named, rule_sets
from support.rules_soak import KILLS, RulesSoak

REPORT = Path(__file__).parents[2] / "artifacts" / "fault" / "rules_soak.json"

LEAK = 30.0
"""Megabytes by which a worker may grow after it has loaded all kernels, in a third of the soak."""


@pytest.mark.parametrize("seed", [None, 1])
def test_good_rules_do_not_notice_bad_ones(seed: int | None) -> None:
    """Without Spark; with a seed the bucket is restarted, and micro-batches are done again."""
    course = Course(good=6, hostile=2, steps=5, changes=10, settled=2)
    sets = list(rule_sets(course))
    assert sets[-1].changes == course.changes
    rows, problems = in_process(course, hostile=True, seed=seed)
    assert [row for row in rows if row.startswith("good")] == in_process(course, hostile=False)[0] != []
    told, strange = named(problems, sets)
    assert len(told) >= 2
    assert not strange


@pytest.mark.long
@pytest.mark.spark
def test_fifty_rules_of_which_ten_are_hostile(tmp_path: Path) -> None:
    course = Course()
    report = RulesSoak(tmp_path / "soak", course).go()
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(asdict(report), indent=1) + "\n")
    assert report.wrong == []
    assert report.untold == []
    assert report.kills == list(KILLS)
    assert (report.steps, report.changes) == (course.steps, course.changes)
    assert all(report.rows.values())
    half = len(report.memory) // 2
    assert max(report.memory[half:]) - max(report.memory[:half]) < LEAK, report.memory
    assert report.compiled[-1] - report.compiled[0] <= 5, report.compiled
    state = report.state[: -len(report.state) // 10]
    third = len(state) // 3
    assert max(state[-third:]) < 1.5 * max(state[:third])
