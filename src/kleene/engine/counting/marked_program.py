"""Programs for start-event marking: the cells of prefixes by ring, and the connections of chopped paths.

See `kleene.engine.counting.kernels.marking` for what rings, pieces and connections are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.counting.kernels import counting as k
from kleene.engine.counting.kernels.tables import Operations, Values
from kleene.engine.counting.program import Cells, Slot, Wanted, values_of
from kleene.plan.counting.chopping import Cuts, Steps, pieces_of


@dataclass(frozen=True, slots=True)
class MarkedProgram:
    """The tables that `count_marked` reads."""

    starts: int
    """The tests that begin a piece."""
    ring_of: Array
    """The ring of each test, -1 for one that begins nothing."""
    ring_bits: tuple[int, ...]
    """The test of each ring."""
    ring_cells: tuple[Array, Array]
    """Which cells each ring has: ranges of a list; then the same of float cells."""
    ring_floats: tuple[Array, Array]
    initial: Array
    floats: int
    forward: Operations
    operation_rings: Array
    connections_of: tuple[Array, Array]
    """Which connections each ring takes snapshots for: ranges of a list."""
    connections: Array
    values: Values


@lru_cache(maxsize=256)
def build_marked(wanted: tuple[Wanted, ...], bits: int, cuts: tuple[Cuts, ...]) -> MarkedProgram:
    """The program of some queries; `cuts` has one entry for each path of each query in turn."""
    cells = Cells(bits, windowed=False)
    rings: dict[int, int] = {}
    connections = _Connections(cells, rings)
    slot_ranges = [0]
    slots: list[tuple[int, int, int]] = []
    terms: list[tuple[int, int, int]] = []
    place = 0
    for item in wanted:
        for slot in item.slots:
            begin = len(terms)
            for index, path in enumerate(item.paths):
                terms.extend(_term(cells, rings, connections, slot, index, path, cuts[place + index]))
            slots.append((slot.kind, begin, len(terms)))
        slot_ranges.append(len(slots))
        place += len(item.paths)
    forward = cells.operations(cells.forward)
    own = {(kind, cell): rings[of[1][0][0]] for of, kind, cell in cells.segments()}
    floating = (k.ADD_FLOAT, k.ADD_WEIGHTED_FLOAT, k.CLEAR_FLOAT)
    operation_rings = [own[operation[0] in floating, operation[1]] for operation in forward.table.tolist()]
    ring_of = np.full(bits, -1, np.int64)
    for bit, ring in rings.items():
        ring_of[bit] = ring
    count = len(rings)
    return MarkedProgram(
        sum(1 << bit for bit in rings),
        ring_of,
        tuple(rings),
        _by_ring(count, [(ring, cell) for (of_floats, cell), ring in own.items() if not of_floats]),
        _by_ring(count, [(ring, cell) for (of_floats, cell), ring in own.items() if of_floats]),
        np.array(cells.initial, np.int64),
        cells.floats,
        forward,
        np.array(operation_rings, np.int64),
        _by_ring(count, [(row[4], number) for number, row in enumerate(connections.table)]),
        np.array(connections.table, np.int64).reshape(-1, 5),
        values_of(slot_ranges, slots, terms),
    )


def _by_ring(rings: int, pairs: list[tuple[int, int]]) -> tuple[Array, Array]:
    """(ring, number) pairs as ranges of one list."""
    ordered = sorted(pairs)
    ranges = np.searchsorted(np.array([ring for ring, _ in ordered], np.int64), np.arange(rings + 1))
    return ranges.astype(np.int64), np.array([number for _, number in ordered], np.int64)


class _Connections:
    """Connections by the pieces before them and the ring that takes their snapshots."""

    def __init__(self, cells: Cells, rings: dict[int, int]) -> None:
        self._cells = cells
        self._rings = rings
        self._known: dict[Any, int] = {}
        self.table: list[tuple[int, int, int, int, int]] = []

    def number(self, before: tuple[Steps, ...], ring: int) -> int:
        key = (before, ring)
        if key not in self._known:
            first, source = (self._rings[piece[0][0]] for piece in (before[0], before[-1]))
            earlier = self.number(before[:-1], source) if len(before) > 1 else -1
            self._known[key] = len(self.table)
            self.table.append((first, earlier, source, self._cells.count(((), before[-1])), ring))
        return self._known[key]


def _term(
    cells: Cells,
    rings: dict[int, int],
    connections: _Connections,
    slot: Slot,
    index: int,
    path: Steps,
    cuts: Cuts,
) -> list[tuple[int, int, int]]:
    """(cell, ring, connection) of a path's part of a slot."""
    pieces = pieces_of(path, cuts)
    for piece in pieces:
        rings.setdefault(piece[0][0], len(rings))
    ring = rings[pieces[-1][0][0]]
    if slot.weight is not None:
        place = slot.positions[index]
        return [] if place is None else [(cells.carried(((), path), place, slot), ring, -1)]
    cell = cells.count(((), pieces[-1]))
    for piece in pieces[:-1]:
        cells.count(((), piece))
    return [(cell, ring, connections.number(pieces[:-1], ring) if len(pieces) > 1 else -1)]
