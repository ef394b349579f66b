"""Programs that only count, as a trie of prefixes; see `kleene.engine.kernels.trie_counting`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from kleene.engine.count_program import Slot, Step, Wanted
from kleene.engine.kernels import counting
from kleene.engine.kernels.trie_counting import FIELDS, Trie

Array = np.ndarray[Any, Any]

MOST_NODES = 256
"""Tries with more are counted segment by segment: going backwards an event's cost grows with the nodes."""


@lru_cache(maxsize=256)
def build_trie(wanted: tuple[Wanted, ...], bits: int) -> Trie | None:
    """The trie of some queries; None if they want more than counts, or end with negation, or there are too many prefixes."""
    if any(item.slots != (Slot(counting.TOTAL),) for item in wanted):
        return None
    if any(path[-1][1] for item in wanted for path in item.paths):
        return None
    trie = _Prefixes()
    leaves = [[trie.add(path) for path in item.paths] for item in wanted]
    count = len(trie.steps)
    if count > MOST_NODES:
        return None
    deepest = max(trie.depths)
    width, nodes = (4 * -(-size // 4) for size in (deepest, count - 1))
    back = np.zeros((count, width), np.int64)
    turned = np.zeros((deepest + 1, nodes), np.int64)
    for node, depth in enumerate(trie.depths):
        if node:
            turned[depth, node - 1] = 1
        if depth < width:
            back[node, depth] = 1
    leaf_ranges = np.cumsum([0, *(len(item) for item in leaves)])
    paths = np.full((int(leaf_ranges[-1]), deepest + 1), -1, np.int64)
    for number, leaf in enumerate(leaf for item in leaves for leaf in item):
        path = [node - 1 for node in trie.path(leaf)[1:]]
        paths[number, : len(path)] = path
    return Trie(
        *_actions(trie, bits, width, nodes),
        deepest,
        np.uint64(width),
        np.uint64(nodes),
        trie.subtrees(nodes).reshape(-1),
        back.reshape(-1),
        turned.reshape(-1),
        leaf_ranges.astype(np.int64),
        paths,
        np.array([leaf * width for item in leaves for leaf in item], np.uint64),
    )


class _Prefixes:
    """Prefixes as nodes; node 0 is the empty one."""

    def __init__(self) -> None:
        self.steps: list[Step | None] = [None]
        self.parents = [0]
        self.depths = [0]
        self._known: dict[tuple[int, Step], int] = {}

    def add(self, path: tuple[Step, ...]) -> int:
        """The node of a path."""
        node = 0
        for step in path:
            if (node, step) not in self._known:
                self._known[node, step] = len(self.steps)
                self.steps.append(step)
                self.parents.append(node)
                self.depths.append(self.depths[node] + 1)
            node = self._known[node, step]
        return node

    def path(self, node: int) -> list[int]:
        """The nodes from the root to a node."""
        return [*self.path(self.parents[node]), node] if node else [0]

    def subtrees(self, nodes: int) -> Array:
        """Of each node, all bits where a node lies below it (or is the node)."""
        masks = np.zeros((len(self.steps), nodes), np.int64)
        for node in range(1, len(self.steps)):
            masks[self.path(node), node - 1] = -1
        return masks


def _actions(trie: _Prefixes, bits: int, width: int, nodes: int) -> tuple[Array, Array]:
    """The actions of each test as ranges of one table."""
    found: list[tuple[int, tuple[int, ...]]] = []
    for node, step in enumerate(trie.steps):
        if step is None:
            continue
        depth, parent = trie.depths[node], trie.parents[node]
        places = (node * width, parent * width, (depth - 1) * nodes, depth * nodes, node * nodes)
        found.append((step[0], (depth, 1, *places)))
        found.extend((bit, (depth, 0, *places)) for bit in step[1])
    found.sort(key=lambda item: (item[0], -item[1][0], item[1][1]))
    ranges = np.searchsorted([bit for bit, _ in found], np.arange(bits + 1))
    table = np.array([action for _, action in found], np.uint64).reshape(-1, FIELDS)
    return ranges.astype(np.uint64), table
