"""The working set: rows in stream order, those that an earlier pass saw before the new ones, and what of them is forgotten."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kleene.common.errors import DataError
from kleene.common.schema import schema_of_arrow
from kleene.engine.events.working_set import WorkingSet

SCHEMA = pa.schema([("ts", pa.int64()), ("type", pa.string()), ("x", pa.int64()), ("unread", pa.string())])


def working_set(*order_by: str) -> WorkingSet:
    return WorkingSet(schema_of_arrow(SCHEMA, time="ts", type="type", order_by=order_by), ["ts", "x"])


def add(working: WorkingSet, times: list[int], xs: list[Any] | None = None, rows: list[int] | None = None) -> None:
    """A batch, all of it or some rows, each with the number of its row plus one as mask."""
    count = len(times)
    batch = pa.record_batch([times, ["A"] * count, xs or [10 * time for time in times], [""] * count], schema=SCHEMA)
    chosen = np.arange(count) if rows is None else np.array(rows, np.int64)
    working.add(batch, chosen, chosen + 1)


def xs(working: WorkingSet) -> list[int]:
    found: list[int] = working.column("x").to_pylist()
    return found


def test_rows_come_from_several_batches_in_their_order() -> None:
    working = working_set()
    add(working, [1, 2, 3], rows=[0, 2])
    add(working, [3, 5])
    assert (working.ts.tolist(), xs(working), working.masks.tolist()) == ([1, 3, 3, 5], [10, 30, 30, 50], [1, 3, 1, 2])
    assert (len(working), working.kept, working.pending) == (4, 0, 4)
    assert (working.earliest, working.latest) == (1, 5)
    assert working.gather("x", np.array([3, 0])).to_pylist() == [50, 10]


def test_rows_are_found_by_the_bits_of_their_masks() -> None:
    working = working_set()
    add(working, [1, 2, 3])  # masks 0b01, 0b10 and 0b11
    assert [working.rows_with(bit).tolist() for bit in (0, 1, 2)] == [[0, 2], [1, 2], []]


def test_a_batch_without_rows_that_matter_is_nothing() -> None:
    working = working_set()
    add(working, [9], rows=[])
    assert (len(working), working.earliest, working.latest) == (0, None, None)
    assert working.ts.size == 0


def test_time_never_goes_back_in_a_batch_or_from_one_to_the_next() -> None:
    working = working_set()
    with pytest.raises(DataError, match="not in time order: 'ts' goes back from 3 to 2"):
        add(working, [1, 3, 2])
    add(working, [1, 3])
    with pytest.raises(DataError, match="not in time order: 'ts' goes back from 3 to 2"):
        add(working, [2, 4])


def test_not_even_behind_what_has_been_forgotten() -> None:
    working = working_set()
    add(working, [1, 5])
    working.forget(5)
    assert len(working) == 0
    with pytest.raises(DataError, match="goes back from 5 to 4"):
        add(working, [4])


def test_forgetting_ends_a_pass() -> None:
    working = working_set()
    add(working, [1, 2, 2, 4])
    add(working, [5])
    working.forget(2)
    assert (working.ts.tolist(), xs(working), working.masks.tolist()) == ([4, 5], [40, 50], [4, 1])
    assert (working.kept, working.pending, working.horizon) == (2, 0, 2)
    assert working.schema.names == ["ts", "x"], "only what the plan reads is kept"
    add(working, [7])
    assert (working.kept, working.pending, xs(working)) == (2, 1, [40, 50, 70])
    working.forget(None)
    assert (working.kept, working.pending, working.horizon) == (3, 0, 2)


def test_the_horizon_never_goes_back() -> None:
    working = working_set()
    add(working, [1, 9])
    working.forget(5)
    working.forget(3)
    assert working.horizon == 5


def test_what_waits_for_a_pass_is_kept_without_its_batch() -> None:
    working = working_set()
    add(working, [1, 2, 3], rows=[1])
    working.compact()
    assert (xs(working), working.ts.tolist(), working.schema.names) == ([20], [2], ["ts", "x"])
    assert working._batches[0].num_rows == 1


def test_a_part_of_the_rows_is_a_batch() -> None:
    working = working_set()
    add(working, [1, 2, 3])
    assert working.batch(1, 3).to_pydict() == {"ts": [2, 3], "x": [20, 30]}


def test_what_was_restored_counts_as_seen() -> None:
    working = working_set()
    add(working, [4, 5])
    working.settle(3, np.array([0, 7]))
    assert (working.kept, working.pending, working.horizon, working.masks.tolist()) == (2, 0, 3, [0, 7])


# --- the stream order ---------------------------------------------------------------------------------------------------


def test_time_is_the_order_where_nothing_breaks_ties() -> None:
    working = working_set()
    add(working, [3, 3, 8])
    assert working.rank().tolist() == [3, 3, 8]


def test_order_by_breaks_ties() -> None:
    working = working_set("x")
    add(working, [3, 3, 3, 8], xs=[1, 1, 2, 0])
    assert working.rank().tolist() == [1, 1, 2, 3], "the first two are simultaneous"


def test_null_comes_first_in_the_order() -> None:
    working = working_set("x")
    add(working, [3, 3, 3], xs=[None, -5, -5])
    assert working.rank().tolist() == [1, 2, 2]


def test_ties_that_are_not_in_order_are_refused() -> None:
    working = working_set("x")
    add(working, [3, 3], xs=[2, 1])
    with pytest.raises(DataError, match="not in stream order: 'x' goes back at ts = 3"):
        working.rank()
