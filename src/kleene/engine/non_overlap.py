"""NON-OVERLAP over finished matches: per partition, greedily in order of the last event (semantics, section 6).

Automata without negation choose while they run (`kernels.nfa`); here come the matches that negation or several branches left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kleene.engine.kernels.apart import choose_apart
from kleene.engine.matches import Matches

Array = np.ndarray[Any, Any]


def choose(blocks: Sequence[Matches], segments: Array, ended: Array) -> Iterator[Matches]:
    """The matches that are reported; `ended` gets, per segment, the place where the last of them ends.

    A match is reported if it starts after the one reported before it ended; of those that end at one event the one that started
    latest wins, then the one with fewer events, then the one with the smallest events.
    """
    blocks = [block for block in blocks if block.count]
    if not blocks:
        return
    first = np.concatenate([block.first for block in blocks]).astype(np.int64)
    last = np.concatenate([block.last for block in blocks]).astype(np.int64)
    sizes = np.concatenate([_sizes(block) for block in blocks])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    events = np.concatenate([_events(block) for block in blocks])
    segment = np.searchsorted(segments, first, side="right") - 1
    order = np.lexsort((sizes, -first, last, segment))
    chosen = np.zeros(order.size, bool)
    choose_apart(order, segment, first, last, offsets, events, chosen, ended)
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


def _events(block: Matches) -> Array:
    """All events of each match, ascending, one match after the other."""
    match = [np.arange(block.count)] * len(block.singles)
    places = list(block.singles.values())
    for offsets, elements in block.lists.values():
        match.append(np.repeat(np.arange(block.count), offsets[1:] - offsets[:-1]))
        places.append(elements)
    flat = np.concatenate(places).astype(np.int64)
    return flat[np.lexsort((flat, np.concatenate(match)))]
