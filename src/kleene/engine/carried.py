"""The counters that are carried from pass to pass where nothing expires: a set for each partition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from kleene.common.columns import concat, take
from kleene.engine.count_program import Program
from kleene.engine.restored import require_width
from kleene.engine.vectorized import widen
from kleene.engine.working_matcher import State

Array = np.ndarray[Any, Any]


class Carried:
    """The counters of each partition, where nothing expires."""

    def __init__(self) -> None:
        self._keys: list[pa.Array] = []
        self._cells = np.empty((0, 0), np.int64)
        self._floats = np.empty((0, 0), np.float64)

    @staticmethod
    def of(state: State) -> Carried:
        """From what `columns` gave."""
        found = Carried()
        if "cells" in state:
            rows = int(state["partitions"][0].as_py())
            found._keys = [state[name] for name in sorted(state) if name.startswith("key ")]
            found._cells = np.array(state["cells"]).reshape(rows, -1)
            found._floats = np.array(state["floats"]).reshape(rows, -1)
        return found

    def columns(self) -> State:
        """The counters as columns."""
        if not self._cells.size:
            return {}
        keys = {f"key {place:03}": column for place, column in enumerate(self._keys)}
        cells = {"cells": pa.array(self._cells.ravel()), "floats": pa.array(self._floats.ravel())}
        return {"partitions": pa.array([self._cells.shape[0]]), **keys, **cells}

    def joined(self, columns: list[pa.Array]) -> list[pa.Array]:
        """The keys of the partitions, then those of events."""
        return [_joined(kept, column) for kept, column in zip(self._keys, columns, strict=True)] if self._keys else columns

    def started(self, program: Program, codes: Array, partitions: int) -> tuple[Array, Array]:
        """The cells of partitions at the beginning of a pass; the first codes are those of the partitions in hand."""
        cells = np.tile(program.initial, (partitions, 1))
        floats = np.zeros((partitions, program.floats))
        require_width(self._cells, self._floats, (program.initial.size, program.floats))
        at = codes[: self._cells.shape[0]]
        if at.size:
            cells[at], floats[at] = self._cells, self._floats
        return cells, floats

    def keep(self, keys: list[pa.Array], codes: Array, cells: Array, floats: Array) -> None:
        """Takes over the cells after a pass."""
        member = np.full(cells.shape[0], -1)
        member[codes] = np.arange(codes.size)  # any one: their keys are the same
        found = np.flatnonzero(member >= 0)
        self._keys = [widen(take(column, member[found])) for column in keys]
        self._cells, self._floats = cells[found], floats[found]


def _joined(kept: pa.Array, column: pa.Array) -> pa.Array:
    """Kept keys, then those of a column; encoded, if the column is."""
    if not pa.types.is_dictionary(column.type):
        return concat([kept, widen(column)])
    encoded = kept.dictionary_encode()
    dictionary = widen(column.dictionary)
    return concat([encoded, pa.DictionaryArray.from_arrays(column.indices.cast(encoded.indices.type), dictionary)])
