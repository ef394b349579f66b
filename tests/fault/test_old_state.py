"""State that earlier versions of the library wrote is read, and goes on as if nothing had happened.

A new format gets a folder of its own (`tests/support/fault_state.py`); the folders of older ones stay as they are.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kleene.common.errors import StateError
from kleene.runtime.stream.bucket import Bucket
from kleene.runtime.stream.state import FORMAT, MAGIC, READ, Header
from support.fault_state import SavedStream, plan_of

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize("number", READ)
def test_the_state_of_a_format_is_read_and_goes_on(number: int) -> None:
    saved = SavedStream.read(DATA / f"state_v{number}")
    assert saved.store.blob is not None
    assert struct.unpack_from("<H", saved.store.blob, len(MAGIC)) == (number,)
    header = Header.decode(saved.store.blob)
    assert header.watermark == saved.watermark
    assert {unit.kind for unit in header.units} == {"patterns", "counters", "matches"}
    assert sorted(saved.store.segments) == [item.number for item in header.segments]
    rest = saved.rest()
    assert sorted(saved.reported + rest) == sorted(saved.wanted())
    named = [{line.split()[0] for line in lines} for lines in (saved.reported, rest)]
    assert named == [set(saved.queries)] * 2, "each query has something to report before and after"


def test_a_plan_that_goes_on_from_another_kind_of_state_is_refused() -> None:
    saved = SavedStream.read(DATA / f"state_v{FORMAT}")
    plan = plan_of({"ever": saved.queries["ever"]}, plan={"mechanism": "matches"})
    with pytest.raises(
        StateError, match="query 'ever': the checkpoint holds the state of counters, but the plan needs that of matches"
    ):
        Bucket(plan, saved.store)
