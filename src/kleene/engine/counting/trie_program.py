"""Programs that only count, as a trie of beginnings or of ends; see `kleene.engine.counting.kernels.trie_counting`.

What it gains over `counting.count_stacked`, in CPU time of whole runs over the headline streams of `kleene bench aseq`: 2.1 to
3.2 times of a pattern of four (the loop alone 3.2 to 3.9), 2.2 of two queries with a common prefix, 1.6 of six.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.counting.kernels import counting
from kleene.engine.counting.kernels.trie_counting import (
    FIELDS,
    LEAF_FIELDS,
    LIST,
    NOTE_FIELDS,
    TARGET,
    TOGETHER,
    Notes,
    Side,
    Trie,
)
from kleene.engine.counting.program import Slot, Step, Wanted, mask_of

Path = tuple[Step, ...]
Action = tuple[int, int, int, int, Array, Array]
"""Test, level, target, source, masks of what stays and of what is added."""
Note = tuple[int, int, int]
"""Test, where the numbers begin that are noted at it, and the list."""
Leaf = tuple[int, int, int, list[tuple[int, int]]]
"""The list of its front, where the back has the whole pattern, where the front has it, where they have what is multiplied."""

MOST_NODES = 256
"""Tries with more are counted segment by segment: an event's cost grows with the nodes."""

MOST_ALONE = 16
"""Up to so many tests, there is a table of what all combinations of them do."""

LINE = 8
"""How many integers make a line of the cache."""


@lru_cache(maxsize=256)
def build_trie(wanted: tuple[Wanted, ...], bits: int) -> Trie | None:
    """The trie of some queries; None if they want more than counts, or end with negation, or there are too many nodes."""
    if any(item.slots != (Slot(counting.TOTAL),) for item in wanted):
        return None
    paths = [path for item in wanted for path in item.paths]
    if any(path[-1][1] for path in paths):
        return None
    beginnings, ends = _Nodes(paths), _Nodes([_reversed(path) for path in paths])
    simple = all(len(item.paths) == 1 and item.triggers.bit_count() == 1 for item in wanted)
    if simple and len(beginnings.steps) <= len(ends.steps) and _are_in_one_column(paths, beginnings.leaves):
        trie, build = beginnings, _of_beginnings
    else:
        trie, build = ends, _of_ends
    if len(trie.steps) > MOST_NODES:
        return None
    triggers = [bit for bit in range(bits) if any(item.triggers >> bit & 1 for item in wanted)]
    forward, backward, leaves = build(trie, paths, triggers, bits)
    lasts = np.cumsum([0, *(len(terms) for *_, terms in leaves)]).tolist()
    return Trie(
        forward,
        backward,
        _alone(forward, backward, bits),
        simple,
        np.cumsum([0, *(len(item.paths) for item in wanted)]).astype(np.int64),
        np.array([(lasts[k], lasts[k + 1], *leaf[:3]) for k, leaf in enumerate(leaves)], np.uint64).reshape(-1, LEAF_FIELDS),
        np.array([term for *_, terms in leaves for term in terms], np.uint64).reshape(-1, 2),
    )


def notes_of(side: Side, count: int) -> Notes:
    """Room for so many notes, the row that ends lists, and the row that comes next; for a list of each test."""
    rows, lists = count + 2, max(int(side.actions[LIST::FIELDS].max()), side.ranges.size) + 1
    links, fronts, lasts = np.empty(rows, np.uint64), np.empty(rows, np.uint64), np.zeros(lists, np.uint64)
    return Notes(aligned(rows * int(side.width)), np.empty(rows, np.int64), np.empty(rows, np.uint64), links, lasts, fronts)


def aligned(count: int) -> Array:
    """Room for so many integers, of which no four that are used together lie in two lines of the cache."""
    room = np.empty(count + LINE, np.int64)
    begin = -room.ctypes.data // 8 % LINE
    return room[begin : begin + count]


def _reversed(path: Path) -> Path:
    """A path backwards: what must not come after a step must not come before it."""
    negatives = [step[1] for step in path[-2::-1]]
    return tuple((step[0], before) for step, before in zip(path[::-1], [*negatives, ()], strict=True))


def _are_in_one_column(paths: Sequence[Path], leaves: Sequence[int]) -> bool:
    """Whether what is asked for at an event of a test is the count of one leaf."""
    asked: dict[int, int] = {}
    return all(asked.setdefault(path[-1][0], leaf) == leaf for path, leaf in zip(paths, leaves, strict=True))


class _Nodes:
    """Beginnings of paths as nodes; node 0 is the empty one."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.steps: list[Step | None] = [None]
        self.parents = [0]
        self.depths = [0]
        self._known: dict[tuple[int, Step], int] = {}
        self.leaves = [self._add(path) for path in paths]
        """The node of each path."""
        self.deepest = max(self.depths)

    def _add(self, path: Path) -> int:
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


def _of_beginnings(trie: _Nodes, paths: Sequence[Path], triggers: Sequence[int], bits: int) -> tuple[Side, Side, list[Leaf]]:
    """Both sides, and the leaves of paths: columns as events come, one of them noted at a trigger; rows backwards."""
    width = _fours(trie.deepest)
    leaf_of = {path[-1][0]: leaf for path, leaf in zip(paths, trie.leaves, strict=True)}
    forward = _columns(trie, bits, [(bit, leaf_of[bit] * width, 0) for bit in triggers])
    backward = _rows(trie, bits, [(bit, 0, 0) for bit in sorted({path[0][0] for path in paths})])
    leaves: list[Leaf] = []
    for leaf in trie.leaves:
        nodes = trie.path(leaf)
        leaves.append((0, 0, leaf - 1, [(nodes[cut] - 1, cut) for cut in range(1, len(nodes) - 1)]))
    return forward, backward, leaves


def _of_ends(trie: _Nodes, paths: Sequence[Path], triggers: Sequence[int], bits: int) -> tuple[Side, Side, list[Leaf]]:
    """The same of paths that were read backwards: rows as events come; columns backwards, each noted at its start events."""
    width = _fours(trie.deepest)
    lists = list(dict.fromkeys(trie.leaves))
    forward = _rows(trie, bits, [(bit, 0, 0) for bit in triggers])
    starts = {(path[0][0], leaf * width, lists.index(leaf)) for path, leaf in zip(paths, trie.leaves, strict=True)}
    backward = _columns(trie, bits, sorted(starts))
    leaves: list[Leaf] = []
    for leaf in trie.leaves:
        nodes = trie.path(leaf)
        leaves.append((lists.index(leaf), leaf - 1, 0, [(left, nodes[left] - 1) for left in range(len(nodes) - 2, 0, -1)]))
    return forward, backward, leaves


def _columns(trie: _Nodes, bits: int, notes: Sequence[Note]) -> Side:
    """A column for each node, with a number for each depth: deepest nodes first, clearing before adding."""
    width = _fours(trie.deepest)
    initial = np.zeros((len(trie.steps), width), np.int64)
    every, none = np.full(width, -1, np.int64), np.zeros(width, np.int64)
    found: list[Action] = []
    for node, step in enumerate(trie.steps):
        depth, column = trie.depths[node], node * width
        if depth < width:
            initial[node, depth] = 1
        if step is not None:
            level = 2 * (trie.deepest - depth)
            found.append((step[0], level + 1, column, trie.parents[node] * width, every, every))
            found.extend((bit, level, column, column, none, none) for bit in step[1])
    return _side(found, initial, bits, notes)


def _rows(trie: _Nodes, bits: int, notes: Sequence[Note]) -> Side:
    """A row for each depth, with a number for each node but the root: those near the root first, adding before clearing."""
    width = _fours(len(trie.steps) - 1)
    initial = np.zeros((trie.deepest + 1, width), np.int64)
    subtrees = np.zeros((len(trie.steps), width), np.int64)
    every, none = np.full(width, -1, np.int64), np.zeros(width, np.int64)
    for node in range(1, len(trie.steps)):
        initial[trie.depths[node], node - 1] = 1
        subtrees[trie.path(node), node - 1] = -1
    found: list[Action] = []
    for node, step in enumerate(trie.steps):
        if step is not None:
            depth, subtree = trie.depths[node], subtrees[node]
            found.append((step[0], 2 * depth, (depth - 1) * width, depth * width, every, subtree))
            found.extend((bit, 2 * depth + 1, depth * width, depth * width, ~subtree, none) for bit in step[1])
    return _side(found, initial, bits, notes)


def _fours(count: int) -> int:
    return 4 * -(-count // 4)


def _side(found: list[Action], initial: Array, bits: int, notes: Sequence[Note]) -> Side:
    found.sort(key=lambda action: action[:2])
    width = initial.shape[1]
    list_of = {bit: in_list for bit, _, in_list in notes}
    no_list = 1 + max(in_list for _, _, in_list in notes)
    table = [
        (level, target, source, 2 * width * number, bit in list_of, list_of.get(bit, no_list), 0, 0)
        for number, (bit, level, target, source, _, _) in enumerate(found)
    ]
    masks, numbers = aligned(2 * width * len(found)), aligned(initial.size)
    masks[:] = np.concatenate([np.stack([stays.reshape(-1, 4), added.reshape(-1, 4)], 1).ravel() for *_, stays, added in found])
    numbers[:] = initial.ravel()
    return Side(
        _ranges([action[0] for action in found], bits),
        np.array(table, np.uint64).reshape(-1),
        masks,
        1 + max(action[1] for action in found),
        np.uint64(width),
        numbers,
        mask_of(bit for bit, _, _ in notes),
        _ranges([note[0] for note in notes], bits),
        np.array([note[1:] for note in notes], np.uint64).reshape(-1, NOTE_FIELDS),
    )


def _ranges(ascending: Sequence[int], bits: int) -> Array:
    """Where each number below `bits` begins."""
    return np.searchsorted(ascending, np.arange(bits + 1)).astype(np.uint64)


def _alone(forward: Side, backward: Side, bits: int) -> Array:
    """The only action of each mask that has one, or TOGETHER; none are told where there are too many masks.

    What is noted at such an event must be what its action leaves.
    """
    alone = np.full(1 << bits if bits <= MOST_ALONE else 1, TOGETHER, np.uint64)
    for bit in range(bits if alone.size > 1 else 0):
        if all(_is_alone(side, bit) for side in (forward, backward)):
            alone[1 << bit] = int(forward.ranges[bit]) * FIELDS
    return alone


def _is_alone(side: Side, bit: int) -> bool:
    (first, last), noted = side.ranges[bit : bit + 2].tolist(), side.notes[slice(*side.note_ranges[bit : bit + 2]), 0].tolist()
    return last - first == 1 and noted in ([], [int(side.actions[first * FIELDS + int(TARGET)])])
