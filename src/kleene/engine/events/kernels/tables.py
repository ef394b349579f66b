"""What the kernels of several mechanisms read, in groups: tuples of arrays, which kernels take as they are."""

from __future__ import annotations

from typing import NamedTuple

from kleene.common.arrays import Array


class Events(NamedTuple):
    """Events by place: segment s (a partition) has the places `[offsets[s], offsets[s + 1])`, in stream order."""

    order: Array
    """The row of each place."""
    offsets: Array
    ts: Array
    clock: Array
    """What windows measure: time, or positions."""
    rank: Array
    """The stream order: events of equal rank are simultaneous."""
    masks: Array
    """Which components an event can be bound by, a bit each."""
    tests: Array
    """A row of codes for each equivalence test that does not divide the stream."""


class Columns(NamedTuple):
    """What compiled filters read, by place: `valid` has the rows of integers first and ends with those of floats, the first
    float column last.
    """

    ints: Array
    floats: Array
    valid: Array
    constants: Array
