"""Matches whose lives end one by one, and NON-OVERLAP among them.

Where negation looks ahead, the answer at a time is that of the stream up to then: NON-OVERLAP chooses among the matches that no
forbidden event has ended by then, and when one dies, those that it overlapped may be chosen after all. Between two deaths the
choice only grows, since it is made in order of the last event.

Cost of `in_epochs`: a choice among all candidates for each death.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kleene.common.arrays import Array
from kleene.common.errors import damaged
from kleene.engine.aggregation.live_pass import NEVER
from kleene.engine.matches.matches import Matches
from kleene.engine.matches.non_overlap import choose
from kleene.engine.passes.restored import integers, require_names, require_offsets, require_within

EMPTY = np.empty(0, np.int64)


def _rows(columns: Mapping[str, pa.Array], name: str, rows: int, size: int | None = None) -> Array:
    return require_within(name, integers(columns, name, size), 0, rows - 1)


@dataclass(frozen=True, slots=True)
class Lives:
    """Matches of one branch, by rows, and the rows of the events that end them (the number of rows if none has)."""

    matches: Matches
    end: Array

    @staticmethod
    def none() -> Lives:
        return Lives(Matches(0, {}, {}, EMPTY, EMPTY), EMPTY)

    @staticmethod
    def of(columns: Mapping[str, pa.Array], variables: Sequence[str], rows: int) -> Lives:
        """From what `columns` gave, for the variables of the branch and the rows of the working set."""
        if not columns:
            return Lives.none()
        end = require_within("end", integers(columns, "end"), 0, rows)
        first, last = (_rows(columns, name, rows, end.size) for name in ("first", "last"))
        singles = {name: _rows(columns, f"single {name}", rows, end.size) for name in variables if f"single {name}" in columns}
        lists = {}
        for name in variables:
            if f"list {name}" in columns:
                lists[name] = integers(columns, f"offsets {name}", end.size + 1), _rows(columns, f"list {name}", rows)
                require_offsets(name, *lists[name])
        found = Lives(Matches(end.size, singles, lists, first, last), end)
        require_names(columns, found.columns())
        if len(singles) + len(lists) < len(variables):
            raise damaged(f"matches have events of {', '.join((*singles, *lists))} only")
        return found

    def columns(self) -> dict[str, pa.Array]:
        """The matches as columns."""
        matches = self.matches
        if not matches.count:
            return {}
        found = {"end": self.end, "first": matches.first, "last": matches.last}
        found |= {f"single {variable}": rows for variable, rows in matches.singles.items()}
        found |= {f"offsets {variable}": offsets for variable, (offsets, _) in matches.lists.items()}
        found |= {f"list {variable}": rows for variable, (_, rows) in matches.lists.items()}
        return {name: pa.array(column) for name, column in found.items()}

    def select(self, held: Array) -> Lives:
        """Those where the mask is true."""
        return Lives(self.matches.take(np.flatnonzero(held)), self.end[held])

    def shifted(self, gone: int) -> Lives:
        """The same when rows at the beginning of the working set are gone."""
        matches = self.matches
        moved = Matches(
            matches.count,
            {variable: rows - gone for variable, rows in matches.singles.items()},
            {variable: (offsets, rows - gone) for variable, (offsets, rows) in matches.lists.items()},
            matches.first - gone,
            matches.last - gone,
        )
        return Lives(moved, self.end - gone)


def joined(blocks: Sequence[Matches]) -> Matches:
    """Blocks of one branch as one."""
    blocks = [block for block in blocks if block.count] or list(blocks[-1:])
    if len(blocks) == 1:
        return blocks[0]
    lists = {}
    for variable in blocks[0].lists:
        lengths = [np.diff(block.lists[variable][0]) for block in blocks]
        offsets = np.append(0, np.cumsum(np.concatenate(lengths)))
        lists[variable] = (offsets, np.concatenate([block.lists[variable][1] for block in blocks]))
    return Matches(
        sum(block.count for block in blocks),
        {variable: np.concatenate([block.singles[variable] for block in blocks]) for variable in blocks[0].singles},
        lists,
        np.concatenate([block.first for block in blocks]),
        np.concatenate([block.last for block in blocks]),
    )


def in_epochs(
    matches: Sequence[Matches], birth: Sequence[Array], death: Sequence[Array], segments: Array
) -> Iterator[tuple[Matches, int, int]]:
    """What is chosen between one death and the next: (matches, the position of the one, the position of the other).

    Matches are by place, those of each branch with their births and deaths; before the first death the position is -1.
    """
    every = np.concatenate(death)
    deaths = np.unique(every[every < NEVER]).tolist()
    for start, stop in zip([-1, *deaths], [*deaths, NEVER], strict=True):
        alive = [
            block.take(np.flatnonzero((ends > start) & (begins < stop)))
            for block, begins, ends in zip(matches, birth, death, strict=True)
        ]
        for chosen in choose(alive, segments, np.full(segments.size - 1, -1, np.int64)):
            yield chosen, start, stop
