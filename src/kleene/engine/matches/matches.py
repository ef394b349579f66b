"""Matches between the operators: which events each variable holds, by place, as columns.

A variable that is not Kleene holds one place per match; a Kleene variable holds a list, flat with offsets. A variable of the
query that is in neither mapping belongs to another branch: it is absent (NULL) from all matches of the block.

Invariant: a list has at least one element, its offsets begin at 0 and end at the number of places, and its elements are in
stream order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.matches.kernels.lists import take_lists


@dataclass(frozen=True, slots=True)
class Matches:
    """A block of matches of one branch: which events each variable holds, by place."""

    count: int
    singles: Mapping[str, Array]
    """Variable to its place per match."""
    lists: Mapping[str, tuple[Array, Array]]
    """Kleene variable to (offsets, places): match m holds `places[offsets[m] : offsets[m + 1]]`."""
    first: Array
    """The place of the first event of each match."""
    last: Array
    """The place of the last event of each match."""

    @staticmethod
    def of_sequences(variables: Sequence[str], sequences: Array) -> Matches:
        """Matches of single events, from a place per component and match; the rows are not copied.

        >>> Matches.of_sequences(["a", "b"], np.array([[0, 0], [1, 2]])).last
        array([1, 2])
        """
        rows = list(sequences)
        return Matches(sequences.shape[1], dict(zip(variables, rows, strict=True)), {}, rows[0], rows[-1])

    @property
    def nbytes(self) -> int:
        """The bytes that it takes."""
        lists = sum(offsets.nbytes + places.nbytes for offsets, places in self.lists.values())
        return sum(places.nbytes for places in self.singles.values()) + lists + self.first.nbytes + self.last.nbytes

    def select(self, held: Array) -> Matches:
        """The matches where the mask is true."""
        return self if held.all() else self.take(np.flatnonzero(held))

    def take(self, chosen: Array) -> Matches:
        """The matches with the given numbers, in that order."""
        return Matches(
            chosen.size,
            {variable: places.take(chosen) for variable, places in self.singles.items()},
            {variable: _taken(*elements, chosen) for variable, elements in self.lists.items()},
            self.first.take(chosen),
            self.last.take(chosen),
        )

    def mapped(self, order: Array) -> Matches:
        """The same matches with `order[place]` for each place."""
        return Matches(
            self.count,
            {variable: order.take(places) for variable, places in self.singles.items()},
            {variable: (offsets, order.take(places)) for variable, (offsets, places) in self.lists.items()},
            order.take(self.first),
            order.take(self.last),
        )

    def first_of(self, variable: str) -> Array:
        """The place of the variable's first event in each match."""
        if variable in self.singles:
            return self.singles[variable]
        offsets, places = self.lists[variable]
        return places.take(offsets[:-1])

    def last_of(self, variable: str) -> Array:
        """The place of the variable's last event in each match."""
        if variable in self.singles:
            return self.singles[variable]
        offsets, places = self.lists[variable]
        return places.take(offsets[1:] - 1)

    def elements_of(self, variable: str) -> tuple[Array, Array]:
        """The match of each event of a variable, and its place."""
        if variable in self.singles:
            return np.arange(self.count), self.singles[variable]
        offsets, places = self.lists[variable]
        return np.repeat(np.arange(self.count), np.diff(offsets)), places

    def differ(self, one: str, other: str, rows: int) -> Array:
        """Which matches bind no event to both variables; places are below `rows`."""
        match, places = self.elements_of(one)
        other_match, other_places = self.elements_of(other)
        shared = np.isin(match * rows + places, other_match * rows + other_places)
        held = np.ones(self.count, bool)
        held[match[shared]] = False
        return held

    def binds(self, variables: Sequence[str], match: Array, places: Array, rows: int) -> Array:
        """For pairs of a match and a place, whether one of the variables holds the place; places are below `rows`."""
        held = np.zeros(match.size, bool)
        for variable in variables:
            own, bound = self.elements_of(variable)
            held |= np.isin(match * rows + places, own * rows + bound)
        return held

    def places(self) -> Iterator[Array]:
        """All places, in no particular order."""
        yield from self.singles.values()
        yield from (places for _, places in self.lists.values())


def _taken(offsets: Array, places: Array, chosen: Array) -> tuple[Array, Array]:
    taken = np.zeros(chosen.size + 1, offsets.dtype)
    np.cumsum((offsets[1:] - offsets[:-1]).take(chosen), out=taken[1:])
    elements = np.empty(int(taken[-1]), places.dtype)
    take_lists(offsets, places, chosen, taken, elements)
    return taken, elements
