"""What the kernels of counters read and write, in groups: tuples of arrays, which kernels take as they are."""

from __future__ import annotations

from typing import NamedTuple

from kleene.common.arrays import Array


class Events(NamedTuple):
    """Events by place: those of partition p are `[offsets[p], offsets[p + 1])`."""

    offsets: Array
    ts: Array
    rank: Array
    masks: Array


class Operations(NamedTuple):
    """Operations (kind, target, source, weight), and which of them each test has at each level."""

    ranges: Array
    table: Array


class Weights(NamedTuple):
    """What is carried of attributes: a row for each, by place."""

    integers: Array
    floats: Array


class Counts(NamedTuple):
    """The cells, integers and floats: prefix counters (PreCntr, section 3.1), filled again for each partition (HPC)."""

    cells: Array
    floats: Array


class Values(NamedTuple):
    """The slots of each query, (kind, first term, last term) of each slot, and the terms."""

    slot_ranges: Array
    slots: Array
    terms: Array


class Asked(NamedTuple):
    """At which events the values of queries are asked for, and where they are written."""

    tests: int
    """The mask of tests."""
    ranges: Array
    """Which of `queries` each test asks for."""
    queries: Array
    pending: Array
    """Queries that are asked for now."""
    seen: Array
    """The last place at which each query was."""
    positions: Array
    """How many values each query has."""
    place_bases: Array
    places: Array
    bases: Array
    values: Array
    floats: Array


class Period(NamedTuple):
    """The window, and between which times values are asked for."""

    window: int
    since: int
    until: int
    expiring: bool
    """Whether they are also asked for after start events expire."""


class Questions(NamedTuple):
    """What is asked for, at triggers and at expiries."""

    values: Values
    triggers: Asked
    expiries: Asked


class Front(NamedTuple):
    """Which cells make a row of the front; the rows, the latest start event first; the times of their start events."""

    kept: Array
    float_kept: Array
    rows: Array
    float_rows: Array
    ts: Array


class Leading(NamedTuple):
    """What lies before the events that are counted."""

    places: int
    """How many of the first places only make the first front."""
    lasting: int
    """Whether start events between them and the rest never expire here."""
    counts: Counts
    """The cells of what lies in between."""
