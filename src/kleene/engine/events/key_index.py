"""Numbers for keys, in order of appearance: what is known of a key is found without looking at the others.

A key is known by two hashes of 64 bits, from secret beginnings of each index, so nobody can choose keys that are taken for
others. NaN equals nothing: a key with NaN gets a number, and is never found again.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from kleene.common.arrays import Array
from kleene.common.columns import view
from kleene.engine.events.kernels import keyed
from kleene.engine.expressions.vectorized import widen

FEWEST = 1 << 4
"""Entries of the smallest table."""


class KeyIndex:
    """Keys of any number of columns."""

    def __init__(self) -> None:
        self._seeds = [np.uint64(secrets.randbits(64)) for _ in range(2)]
        self._hashes = [np.empty(0, np.uint64), np.empty(0, np.uint64)]
        self._alone = np.empty(0, bool)
        self._table = np.full(FEWEST, -1, np.int64)
        self.count = 0

    def find(self, columns: Sequence[pa.Array], count: int) -> Array:
        """The numbers of keys, given by rows of columns; -1 for those that are not known."""
        if self.count == 0:
            return np.full(count, -1)
        first, second = self._hashed(columns, count)
        found = np.empty(count, np.int64)
        keyed.find_keys(first, second, self._hashes[0], self._hashes[1], self._table, found)
        return np.where(_with_nan(columns, count), -1, found)

    def add(self, columns: Sequence[pa.Array], count: int) -> Array:
        """Gives different keys that are not known the next numbers."""
        begin, self.count = self.count, self.count + count
        for place, hashes in enumerate(self._hashed(columns, count)):
            self._hashes[place] = grown(self._hashes[place], self.count)
            self._hashes[place][begin : self.count] = hashes
        self._alone = grown(self._alone, self.count)
        self._alone[begin : self.count] = _with_nan(columns, count)
        if 2 * self.count > self._table.size:
            self._table = np.full(1 << (4 * self.count).bit_length(), -1, np.int64)
            begin = 0
        keyed.add_keys(begin, self.count, self._hashes[0], self._alone, self._table)
        return np.arange(self.count - count, self.count)

    def _hashed(self, columns: Sequence[pa.Array], count: int) -> list[Array]:
        found = [np.full(count, seed) for seed in self._seeds]
        for column in columns:
            wide = widen(column)
            for hashes in found:
                if pa.types.is_string(wide.type):
                    keyed.hash_texts(hashes, *_bytes_of(wide))
                else:
                    keyed.hash_words(hashes, _words_of(wide))
        return found


def grown(array: Array, size: int) -> Array:
    """An array with room for `count` rows, of at least twice the size if it has to grow."""
    if size <= array.shape[0]:
        return array
    found = np.empty((max(size, 2 * array.shape[0]), *array.shape[1:]), array.dtype)
    found[: array.shape[0]] = array
    return found


def _with_nan(columns: Sequence[pa.Array], count: int) -> Array:
    found = np.zeros(count, bool)
    for column in columns:
        wide = widen(column)
        if pa.types.is_floating(wide.type):
            found |= np.isnan(view(wide))
    return found


def _words_of(column: pa.Array) -> Array:
    if pa.types.is_floating(column.type):
        return np.asarray((view(column) + 0.0).view(np.uint64))  # -0.0 + 0.0 is 0.0
    return np.asarray(view(column.cast(pa.int64())).view(np.uint64))


def _bytes_of(column: pa.Array) -> tuple[Array, Array]:
    """Where each text begins, and the bytes of all."""
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return bounds, np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
