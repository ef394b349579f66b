"""What a unit knows of many things one by one (the counters of its partitions), as pieces that are written once.

Each micro-batch writes a piece with the rows that changed; of the rows with one number that of the latest piece holds. The last
pieces are merged while they are about as long. When most rows no longer hold, the oldest piece is given up: what holds of it
is written again, with what changed. So what a micro-batch writes goes with what changed in it, and what is kept with what is
known.

Pieces are beside the segments of the log, with negative numbers; the state of the unit says which there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kleene.common.errors import damaged
from kleene.engine.events.key_index import grown
from kleene.engine.matcher import State
from kleene.engine.passes.restored import ROW, integers, values
from kleene.runtime.stream.state import Store, decode_events, digest_of, encode_events, require_digest

FEW_ROWS, MOST_ROWS = 1 << 10, 1 << 16
"""So many rows are not worth giving up a piece; a piece has at most so many."""

NUMBERS, ROWS, SIZES, DIGESTS = "piece numbers", "piece rows", "piece sizes", "piece digests"
"""The columns of a unit's state that describe its pieces."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows that were written together."""

    number: int
    rows: int
    size: int
    """In bytes."""
    digest: str
    """Of the bytes."""


class Pieces:
    """The pieces of a unit, in the order in which they were written."""

    def __init__(self, pieces: tuple[Piece, ...] = ()) -> None:
        self.pieces = pieces
        self._holding = np.empty(0, np.int64)
        """By number of the row, the piece that has the latest."""
        self._known = 0

    @staticmethod
    def of(state: State) -> Pieces:
        """Those that a state describes."""
        if NUMBERS not in state:
            return Pieces()
        count = len(state[NUMBERS])
        columns = [integers(state, name, count).tolist() for name in (NUMBERS, ROWS, SIZES)]
        described = zip(*columns, values(state, DIGESTS, count, pa.string()).to_pylist(), strict=True)
        return Pieces(tuple(Piece(*item) for item in described))

    @staticmethod
    def beside(state: State) -> dict[str, pa.Array]:
        """What else a state has."""
        return {name: own for name, own in state.items() if name not in (NUMBERS, ROWS, SIZES, DIGESTS)}

    def state(self) -> dict[str, pa.Array]:
        """The description of the pieces."""
        if not self.pieces:
            return {}
        columns = {NUMBERS: [item.number for item in self.pieces], ROWS: [item.rows for item in self.pieces]}
        columns[SIZES] = [item.size for item in self.pieces]
        digests = pa.array([item.digest for item in self.pieces], pa.string())
        return {**{name: pa.array(values, pa.int64()) for name, values in columns.items()}, DIGESTS: digests}

    @property
    def numbers(self) -> set[int]:
        """The numbers of the pieces."""
        return {item.number for item in self.pieces}

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(item.size for item in self.pieces)

    def joined(self, store: Store) -> State:
        """The latest row of each number, as columns."""
        self._known, self._holding = 0, np.empty(0, np.int64)
        if not self.pieces:
            return {}
        tables = [self._read(store, item) for item in self.pieces]
        for item, table in zip(self.pieces, tables, strict=True):
            self._note(item, table)
        if (self._holding[: self._known] == 0).any():
            raise damaged("rows of its pieces are missing")
        latest = _latest(pa.concat_tables(tables))
        return {name: latest.column(name).chunk(0) for name in latest.schema.names}

    def write(self, store: Store, changes: pa.RecordBatch, number: int) -> None:
        """Writes the rows that changed, as pieces with numbers from the given one downwards."""
        known = max(self._known, 1 + int(changes.column(ROW)[-1].as_py()))
        tables = [*self._given_up(store, known, changes.num_rows), pa.Table.from_batches([changes])]
        size, kept = sum(table.num_rows for table in tables), list(self.pieces)
        while kept and kept[-1].rows <= 2 * size and kept[-1].rows + size <= MOST_ROWS:
            merged = kept.pop()
            tables.insert(0, self._read(store, merged))
            store.drop_segment(merged.number)
            size += merged.rows
        self.pieces = tuple(kept)
        table = _latest(pa.concat_tables(tables))
        for place, begin in enumerate(range(0, table.num_rows, MOST_ROWS)):
            rows = table.slice(begin, MOST_ROWS)
            blob = encode_events(rows.to_batches()[0])
            piece = Piece(number - place, rows.num_rows, len(blob), digest_of(blob))
            store.put_segment(piece.number, blob)
            self.pieces = (*self.pieces, piece)
            self._note(piece, rows)

    def _given_up(self, store: Store, known: int, changed: int) -> Iterator[pa.Table]:
        """While there are many more rows than are known: what holds of the oldest pieces, which are dropped."""
        left = 2 * changed
        while left > 0 and sum(item.rows for item in self.pieces) > 2 * known + FEW_ROWS:
            oldest, *others = self.pieces
            rows = self._read(store, oldest)
            yield rows.filter(pa.array(self._holding[_rows(rows)] == oldest.number))
            store.drop_segment(oldest.number)
            self.pieces = tuple(others)
            left -= oldest.rows

    def _note(self, piece: Piece, table: pa.Table) -> None:
        rows = _rows(table)
        known, self._known = self._known, max(self._known, int(rows.max(initial=-1)) + 1)
        self._holding = grown(self._holding, self._known)
        self._holding[known : self._known] = 0
        self._holding[rows] = piece.number

    def _read(self, store: Store, piece: Piece) -> pa.Table:
        name = f"piece {-piece.number} of what is known"
        table = decode_events(require_digest(store.segment(piece.number), piece.digest, name))
        if table.num_rows != piece.rows:
            raise damaged(f"{name} has {table.num_rows} rows, not {piece.rows}")
        return table


def _rows(table: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.asarray(table.column(ROW).to_numpy(), np.int64)


def _latest(table: pa.Table) -> pa.Table:
    """The last row of each number, by ascending numbers."""
    rows = _rows(table)
    found = np.full(int(rows.max(initial=-1)) + 1, -1)
    found[rows] = np.arange(rows.size)
    return table.take(pa.array(found[found >= 0])).combine_chunks()
