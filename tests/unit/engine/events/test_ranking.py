"""Lists of events by value: what is found is what a look at every entry finds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from kleene.common.arrays import Array
from kleene.engine.events.kernels.ranked import LARGEST, first_within, list_within
from kleene.engine.events.ranking import NONE, ranked

SMALLEST = -LARGEST - 1
COUNT = 3_000


def values_of(kind: str, random: np.random.Generator) -> Array:
    numbers = {
        "random": random.integers(-1_000, 1_000, COUNT),
        "ascending": np.arange(COUNT) + random.integers(0, 20, COUNT),
        "few": random.integers(0, 3, COUNT),
        "alike": np.zeros(COUNT, np.int64),
        "extreme": random.choice(np.array([SMALLEST, SMALLEST + 1, 0, LARGEST - 1, LARGEST]), COUNT),
    }
    return np.asarray(numbers[kind], np.int64)


KINDS = ("random", "ascending", "few", "alike", "extreme")


def questions(numbers: Array, random: np.random.Generator) -> Iterator[tuple[int, int, int, int]]:
    """Ranges of the list and of its values."""
    for _ in range(60):
        low, high = sorted(random.integers(0, COUNT + 1, 2).tolist())
        one, other = sorted(random.choice(numbers, 2).tolist())
        yield from ((low, high, int(one), int(other)), (low, high, int(one), int(one)), (low, high, SMALLEST, int(one)))
        yield low, high, int(other), LARGEST
    yield 0, COUNT, LARGEST, SMALLEST


@pytest.mark.parametrize("reach", [1, 300, 5_000])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("missing", [0.0, 0.2, 1.0])
def test_entries_within_a_range_of_values_are_listed_in_order(kind: str, reach: int, missing: float) -> None:
    random = np.random.default_rng(7)
    numbers, known = values_of(kind, random), random.random(COUNT) >= missing
    index, found = ranked(numbers, known, reach), np.empty(2 * COUNT, np.int64)
    answered = 0
    for low, high, lowest, highest in questions(numbers, random):
        if low == high:
            continue
        fits = np.flatnonzero(known & (numbers >= lowest) & (numbers <= highest))
        expected = fits[(fits >= low) & (fits < high)].tolist()
        for most in (COUNT, 50):
            count = list_within(low, high, lowest, highest, index, most, found)
            assert count >= 0 or most < COUNT
            listed = found[: max(count, 0)].tolist()
            assert count < 0 or [entry for entry in listed if known[entry]] == expected, "what has no value may be among them"
            answered += count >= 0
    assert answered > 120


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_entry_of_which_all_values_fit_is_found(kind: str, indexed: bool) -> None:
    random = np.random.default_rng(8)
    values = np.vstack([values_of(kind, random), random.integers(0, 4, COUNT)])
    known = random.random(COUNT) >= 0.1
    values = np.vstack([values, known])
    index = ranked(values[0], known, 200) if indexed else NONE
    for low, high, lowest, highest in questions(values[0], random):
        least, most = np.array([[lowest], [1], [1]]), np.array([[highest], [2], [1]])
        fits = np.flatnonzero(((values >= least) & (values <= most)).all(axis=0))
        expected = next((entry for entry in fits.tolist() if low <= entry < high), high)
        assert first_within(low, high, 0, values, least, most, 0, index) == expected


def test_an_empty_list_has_no_entries() -> None:
    index = ranked(np.empty(0, np.int64), np.empty(0, bool), 10)
    assert index.values.size == index.entries.size == 0
