"""NON-OVERLAP over finished matches: per partition greedily by last event, then latest start, size, events, names."""

from __future__ import annotations

import numpy as np
import pytest

from kleene.engine.matches.matches import Matches
from kleene.engine.matches.non_overlap import choose

ONE = np.array([0, 100])
"""One partition."""


def pairs(*matches: tuple[int, int]) -> Matches:
    """Matches of `a` and `b`, which begin and end with them."""
    return Matches.of_sequences(["a", "b"], np.array(matches).T)


def lists(*matches: tuple[int, ...]) -> Matches:
    """Matches of a Kleene variable."""
    offsets = np.cumsum([0, *map(len, matches)])
    first, last = (np.array([match[end] for match in matches]) for end in (0, -1))
    return Matches(len(matches), {}, {"k": (offsets, np.array([place for match in matches for place in match]))}, first, last)


def chosen(*blocks: Matches, segments: np.ndarray = ONE, ended: list[int] | None = None, candidates: bool = False) -> list:
    """The matches that are reported, as (first, last), and where the last of each partition ends."""
    ends = np.array([-1] * (segments.size - 1) if ended is None else ended)
    found = list(choose(blocks, segments, ends, candidates=candidates))
    return [[pair for block in found for pair in zip(block.first.tolist(), block.last.tolist(), strict=True)], ends.tolist()]


def test_the_next_match_begins_after_the_one_before_has_ended() -> None:
    assert chosen(pairs((0, 2), (2, 3), (1, 4), (3, 5))) == [[(0, 2), (3, 5)], [5]]


def test_of_those_that_end_at_one_event_the_latest_start_wins() -> None:
    assert chosen(pairs((0, 4), (2, 4), (1, 4))) == [[(2, 4)], [4]]


def test_then_the_one_with_fewer_events() -> None:
    assert [block.lists["k"][1].tolist() for block in choose([lists((0, 1, 2, 4), (0, 3, 4))], ONE, np.array([-1]))] == [
        [0, 3, 4]
    ]


def test_then_the_one_with_the_smallest_events() -> None:
    assert [block.lists["k"][1].tolist() for block in choose([lists((0, 2, 4), (0, 1, 4))], ONE, np.array([-1]))] == [[0, 1, 4]]


def test_then_the_one_whose_first_variable_has_the_smallest() -> None:
    swapped = Matches(2, {"b": np.array([0, 1]), "a": np.array([1, 0])}, {}, np.array([0, 0]), np.array([1, 1]))
    (found,) = choose([swapped], ONE, np.array([-1]))
    assert {name: places.tolist() for name, places in found.singles.items()} == {"b": [1], "a": [0]}


def test_partitions_are_chosen_in_by_themselves() -> None:
    segments = np.array([0, 3, 6])
    assert chosen(pairs((0, 2), (1, 2), (3, 4), (3, 5)), segments=segments) == [[(1, 2), (3, 4)], [2, 4]]


def test_what_an_earlier_pass_reported_has_ended_before() -> None:
    assert chosen(pairs((1, 3), (3, 4)), ended=[2]) == [[(3, 4)], [4]]


def test_blocks_of_several_branches_compete() -> None:
    assert chosen(pairs((0, 3)), lists((1, 2, 3)), pairs((4, 5))) == [[(1, 3), (4, 5)], [5]]


def test_nothing_comes_of_nothing() -> None:
    assert chosen() == [[], [-1]]
    assert chosen(pairs((0, 1)).take(np.empty(0, np.int64))) == [[], [-1]]


@pytest.mark.parametrize(
    ("matches", "expected"),
    [
        (((0, 2), (1, 3)), [(0, 2), (1, 3)]),  # what is reported before decides which of them is
        (((1, 2), (0, 3)), [(1, 2)]),  # the first ends before and starts later: the second is never reported
        (((0, 3), (1, 3)), [(1, 3)]),
    ],
)
def test_candidates_are_all_that_the_choice_can_fall_on(
    matches: tuple[tuple[int, int], ...], expected: list[tuple[int, int]]
) -> None:
    assert chosen(pairs(*matches), candidates=True)[0] == expected
