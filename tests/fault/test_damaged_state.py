"""Damaged state gives an error or the right answer: never another answer, a library's exception, or the end of the process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from support import state_fuzz
from support.state_fuzz import outcomes, snapshots

QUICK, LONG = 1_500, 60_000


def test_snapshots_have_something_to_lose() -> None:
    for snapshot in snapshots(2):
        assert snapshot.store.segments
        assert {line.split()[0] for line in snapshot.rest} == set(snapshot.queries)


def require_sound(seed: int, count: int) -> None:
    seen: Counter[str] = Counter()
    for outcome, what in outcomes(2, seed, count):
        assert outcome in ("right", "refused"), f"{what}: {outcome}"
        seen[outcome] += 1
    assert seen["refused"] > count / 2
    assert seen["right"] > count / 50, "state that is not read may be damaged"


def test_damage_is_refused_or_does_not_matter() -> None:
    require_sound(1, QUICK)


@pytest.mark.long
def test_much_damage_is_refused_or_does_not_matter() -> None:
    require_sound(2, LONG)


def test_the_format_without_digests_has_the_form_it_should_have() -> None:
    """There a changed value may be another value, and nothing tells. But what is no state is refused by our own errors."""
    require_form(seed=1, count=300)


@pytest.mark.long
def test_much_damage_to_the_format_without_digests() -> None:
    require_form(seed=3, count=60_000)


def require_form(seed: int, count: int) -> None:
    """In a process of its own, which would end with a buffer that is misread."""
    root = Path(__file__).parents[2]
    command = [sys.executable, str(state_fuzz.__file__), str(seed), str(count)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), os.environ.get("PYTHONPATH", "")])}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr[-2_000:]
    counts = dict(item.split("=") for item in found.stdout.split("\n")[-2].split())
    assert "raw" not in counts, found.stdout
    assert int(counts["refused"]) > count / 2
