"""Which row groups the task of a slice of time reads.

Time is cut so that tasks have about equally many rows, and where row groups follow each other in time, between them. A task
reads every row group that may have a row of its slice or of its lead; of these rows it keeps those that are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kleene.common.arrays import EVER, Array
from kleene.common.columns import TIME_LIMIT
from kleene.plan.distribution.slicing import MOST_SLICES, Slice, Slicing, Times, best_slicing, reaching, time_slices
from kleene.runtime.spark.direct.footers import RowGroup
from kleene.runtime.spark.direct.scan import NotDirectError

MOST_READ = 2.0
"""How often a row may be read on average: beyond, files overlap in time too much, or the window is long beside them."""

POINTS = 8
"""Number of instants that the rows of a row group are thought to be at."""


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A slice of time, and the row groups that it is read from."""

    slice: Slice
    groups: tuple[RowGroup, ...]


@dataclass(frozen=True, slots=True)
class FileSlicing:
    """How the rows of files are shared among tasks."""

    slices: tuple[FileSlice, ...]
    groups: int
    """Number of row groups in all."""
    rows: int

    @property
    def read(self) -> float:
        """How often a row is read, on average."""
        return sum(group.rows for part in self.slices for group in part.groups) / max(self.rows, 1)

    def __str__(self) -> str:
        return (
            f"slices of time: {len(self.slices)}, read from {self.groups:,} row groups with {self.rows:,} rows, each row "
            f"{self.read:.2f} times on average"
        )


def file_slices(groups: Sequence[RowGroup], reach: int, tasks: int, width: float) -> FileSlicing:
    """The slices of row groups for a number of tasks; `width` is about how many bytes a row has."""
    rows = sum(group.rows for group in groups)
    timed = [group for group in groups if group.first <= group.last]
    if any(group.first < -TIME_LIMIT or group.last > TIME_LIMIT for group in timed):
        raise NotDirectError("a file has no statistics of the time column, or times beyond ±2^62")
    times = _times(timed, tasks, rows, width)
    slicing = None if times is None else best_slicing(times, reaching(reach), lead_cost=1)
    cuts = [] if slicing is None else _between([part.since for part in slicing.slices[1:]], timed, slicing)
    if times is not None and not cuts and rows > 2 * times.most_rows:
        raise NotDirectError("the window is long beside the times of the files")
    found = tuple(FileSlice(part, _needed(part, groups)) for part in time_slices(cuts, lambda since: since - reach + 1))
    shared = FileSlicing(tuple(part for part in found if part.groups), len(groups), rows)
    if shared.read > MOST_READ:
        raise NotDirectError(f"slices of time would read each row {shared.read:.1f} times")
    return shared


def _times(groups: Sequence[RowGroup], tasks: int, rows: int, width: float) -> Times | None:
    """When the rows are, if those of a row group are spread evenly over its time."""
    if not groups:
        return None
    points = np.concatenate([np.linspace(group.first, group.last, POINTS) for group in groups])
    weights = np.repeat([group.rows / POINTS for group in groups], POINTS)
    order = np.argsort(points, kind="stable")
    share = np.cumsum(weights[order])
    places = np.searchsorted(share, share[-1] * np.arange(1, MOST_SLICES) / MOST_SLICES)
    quantiles = points[order][np.minimum(places, points.size - 1)].astype(np.int64)
    first, last = min(group.first for group in groups), max(group.last for group in groups)
    return Times(tasks, rows, first, last, quantiles, width)


def _between(cuts: list[int], groups: Sequence[RowGroup], slicing: Slicing) -> list[int]:
    """The cuts, each moved to where a row group begins if that is near and no row group is there."""
    begins: Array = np.array(sorted({group.first for group in groups}))
    spans = sorted((group.first, group.last) for group in groups)
    if any(begin <= last for (_, last), (begin, _) in pairwise(spans)):
        return cuts
    near = (slicing.slices[-1].since - cuts[0]) / (2 * max(len(cuts), 1)) if len(cuts) > 1 else EVER
    found = []
    for cut in cuts:
        nearest = int(begins[np.argmin(np.abs(begins - cut))])
        found.append(nearest if abs(nearest - cut) <= near and nearest != spans[0][0] else cut)
    return sorted(set(found))


def _needed(part: Slice, groups: Sequence[RowGroup]) -> tuple[RowGroup, ...]:
    """The row groups that a slice is read from, by time; rows without a time are of the first slice."""
    needed = [
        group
        for group in groups
        if (group.first < part.until and group.last >= part.low) or (part.number == 0 and group.timeless)
    ]
    return tuple(sorted(needed, key=lambda group: (group.first, group.file, group.number)))
