"""NON-OVERLAP over finished matches: per partition, greedily in order of the last event (semantics, section 6).

Automata without negation choose while they run (`kleene.engine.automaton.kernels.nfa`); here come the matches that negation or
several branches left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.matches.kernels.apart import choose_apart
from kleene.engine.matches.matches import Matches


def choose(blocks: Sequence[Matches], segments: Array, ended: Array, *, candidates: bool = False) -> Iterator[Matches]:
    """The matches that are reported; `ended` gets, per segment, the place where the last of them ends.

    A match is reported if it starts after the one reported before it ended; of those that end at one event the one that started
    latest wins, then the one with fewer events, then the one with the smallest events; of several with the same events the one
    whose variables, by name, have the smallest.

    `candidates` are what the choice can fall on, whatever was reported before: of the matches that end at one event the one
    that wins, unless one that ended before starts later or with it. `ended` gets where the last of them starts.
    """
    blocks = [block for block in blocks if block.count]
    if not blocks:
        return
    first = np.concatenate([block.first for block in blocks]).astype(np.int64)
    last = np.concatenate([block.last for block in blocks]).astype(np.int64)
    sizes = np.concatenate([_sizes(block) for block in blocks])
    names = sorted({name for block in blocks for name in (*block.singles, *block.lists)})
    lengths, keys = (np.concatenate(pieces) for pieces in zip(*(_keys(block, names) for block in blocks), strict=True))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    segment = np.searchsorted(segments, first, side="right") - 1
    order = np.lexsort((sizes, -first, last, segment))
    chosen = np.zeros(order.size, bool)
    choose_apart(order, segment, first, last, sizes, offsets, keys, chosen, ended, candidates)
    begin = 0
    for block in blocks:
        held = chosen[begin : begin + block.count]
        begin += block.count
        if held.any():
            yield block.select(held)


def _sizes(block: Matches) -> Array:
    sizes = np.full(block.count, len(block.singles), np.int64)
    for offsets, _ in block.lists.values():
        sizes += offsets[1:] - offsets[:-1]
    return sizes


def _keys(block: Matches, names: Sequence[str]) -> tuple[Array, Array]:
    """The key of each match, as lengths and one after the other: all of its events, ascending; then, by name, a number below 0
    for each variable and its events.
    """
    every = np.arange(block.count)
    pieces: list[tuple[int, Array, Array]] = []
    for number, name in enumerate(names):
        if name in block.singles:
            own, places = every, block.singles[name]
        elif name in block.lists:
            offsets, places = block.lists[name]
            own = np.repeat(every, offsets[1:] - offsets[:-1])
        else:
            continue
        header = np.full(block.count, number - len(names))
        pieces += [(0, own, places), (number + 1, every, header), (number + 1, own, places)]
    levels = np.repeat([level for level, _, _ in pieces], [values.size for _, _, values in pieces])
    match = np.concatenate([own for _, own, _ in pieces])
    values = np.concatenate([values for _, _, values in pieces]).astype(np.int64)
    return np.bincount(match, minlength=block.count), values[np.lexsort((values, levels, match))]
