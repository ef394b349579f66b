"""No cliffs: over random shapes of queries and of data, counted work grows as the stream does; what takes longest is reported.

Worlds run with plain-Python kernels, in a process of their own. `tests/support/cliff_worlds.py` counts, and
`tests/support/cliff_times.py` measures; both are scripts too.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support import cliff_times, cliff_worlds
from support.cliff_worlds import CHOICES, PLAIN, grows_too_fast, growth, query, table, world
from support.long_tests import mostly_long
from support.pair_runs import assert_agreement, assert_noticed

ROOT = Path(__file__).resolve().parents[2]
WORLDS = 25
"""Per seed."""
MEASURED = 120
KNOWN = ("chunk", "ties", "output", "columns")
"""Dimensions of data whose cliffs would hide all others."""


@pytest.mark.parametrize("seed", mostly_long(range(1, 11)))
def test_counted_work_grows_as_the_stream(seed: int) -> None:
    seen = assert_agreement(cliff_worlds, seed, WORLDS)
    assert seen["refused"] < 0.1 * WORLDS, seen
    assert seen["with work"] > 0.8 * WORLDS, seen


def test_windows_that_are_too_wide_are_noticed() -> None:
    assert_noticed(cliff_worlds, "wider", WORLDS)


def test_work_without_a_window_grows_too_fast() -> None:
    of = replace(PLAIN, test="nothing", between="inequality", window=1_000_000)
    assert grows_too_fast(*growth(of))
    assert not grows_too_fast(*growth(replace(of, window=50)))


def test_worlds_have_every_value() -> None:
    worlds = [world(7, number) for number in range(600)]
    for name, values in CHOICES.items():
        assert {getattr(of, name) for of in worlds} >= set(values), name
    assert max(len(query(of)) for of in worlds) > 500
    assert table(replace(PLAIN, chunk=100), 1_000).column("x").num_chunks == 10


@pytest.mark.long
@pytest.mark.parametrize("plain", [(), KNOWN], ids=["all", "known plain"])
def test_the_worst_are_reported(plain: tuple[str, ...]) -> None:
    """Writes artifacts/cliffs/*.json; nothing depends on seconds."""
    found = cliff_times.search(1, range(MEASURED), plain)
    cliff_times.write(found, ROOT / "artifacts" / "cliffs" / f"{'plain' if plain else 'all'}.json")
    assert len({item.by for item in found}) == len(found) > 20
    for item in found[:10]:
        print(f"{item.ratio:.1f} times by {item.by}: {item.nanoseconds:,.0f} ns per event; {item.world}")


def test_a_world_is_put_beside_its_neighbours() -> None:
    of = replace(PLAIN, kind="strings", ties="one", test="in")
    assert [name for name, _ in cliff_times.neighbours(of)] == ["kind", "ties", "test"]
    assert all(other.kind == "integers" for name, other in cliff_times.neighbours(of) if name == "kind")
