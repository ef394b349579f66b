"""What to share among counted patterns, and how to handle expiry: by estimated cost.

With start-event marking every event updates the counters of all live start events of its pattern. Common prefixes are shared
for free. Chopping a pattern before a part that others have too (Chop-Connect) lets that part be counted once for all, from
start events of its own, at the price of a snapshot for each of them. `best_cuts` starts with no cuts and adds common parts, the
best one first, as long as that lowers the estimate.

Estimates are in nanoseconds, from how many events pass each test and how many start events are alive on average.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

Step = tuple[int, tuple[int, ...]]
Steps = tuple[Step, ...]
Cuts = tuple[int, ...]
"""Where a path is chopped: numbers of steps, ascending, neither 0 nor all."""

UPDATE, UPDATED = 8.0, 0.15
"""An operation on the counters of a ring of start events, and of each live one."""
SUMMED, CONNECTED = 0.3, 3.0
"""A live start event whose count is added up at a trigger: as it is, or times what is alive of its snapshot."""
SNAPSHOT = 1.5
"""A start event of the first piece in a snapshot; after a connection, for each start event of the piece before."""
OPERATION, TERM, EVENT = 2.5, 2.5, 14.0
"""An operation on a segment, a term of a value, and what every event costs, with two stacks of segments."""
FOUR, VISIT = 1.5, 5.0
"""Four numbers that an action changes, in either direction, and what every event costs, with two stacks of a trie."""


MOST_PARTS = 32
"""How many common parts are tried, the longest first."""


@dataclass(frozen=True, slots=True)
class Load:
    """How many events pass each test (by bit), and how many that did are in the window on average."""

    events: tuple[float, ...]
    alive: tuple[float, ...]


def pieces_of(path: Steps, cuts: Cuts) -> tuple[Steps, ...]:
    """The pieces of a chopped path."""
    ends = (0, *cuts, len(path))
    return tuple(path[begin:end] for begin, end in pairwise(ends))


def marking_cost(paths: Sequence[Steps], cuts: Sequence[Cuts], load: Load) -> float:
    """The cost of start-event marking for chopped paths, what is common being done once."""
    cells: set[Steps] = set()
    connections: set[tuple[tuple[Steps, ...], int]] = set()
    cost = 0.0
    for path, own in zip(paths, cuts, strict=True):
        pieces = pieces_of(path, own)
        for piece in pieces:
            cells.update(piece[: end + 1] for end in range(len(piece)))
        for number in range(1, len(pieces)):
            connections.add((pieces[:number], pieces[number][0][0]))
        summed = CONNECTED if own else SUMMED
        cost += load.events[path[-1][0]] * (UPDATE + summed * load.alive[pieces[-1][0][0]])
    for cell in cells:
        cost += load.events[cell[-1][0]] * (UPDATE + UPDATED * load.alive[cell[0][0]])
    for before, first in connections:
        looks = load.alive[before[0][0][0]] * (load.alive[before[-1][0][0]] if len(before) > 1 else 1.0)
        cost += load.events[first] * (UPDATE + SNAPSHOT * looks)
    return cost


def stacks_cost(operations: Sequence[int], terms: Sequence[tuple[int, int]], load: Load) -> float:
    """The cost of two stacks: by how many operations a test has, and (test, terms) of each value."""
    cost = sum(events * (EVENT + OPERATION * count) for events, count in zip(load.events, operations, strict=True))
    return cost + sum(TERM * count * load.events[bit] for bit, count in terms)


def trie_cost(actions: Sequence[int], size: tuple[int, int], load: Load) -> float:
    """The cost of two stacks of a trie: by how many actions a test has, and how many numbers one changes in each direction."""
    action = FOUR * sum(size) / 4
    return sum(events * (VISIT + action * count) for events, count in zip(load.events, actions, strict=True))


def best_cuts(paths: Sequence[Steps], load: Load, *, forced: bool = False) -> tuple[Cuts, ...]:
    """Where to chop each path; with `forced` something common is chopped whatever it costs."""
    cuts: tuple[Cuts, ...] = tuple(() for _ in paths)
    best = marking_cost(paths, cuts, load)
    candidates = list(islice(common_parts(paths), MOST_PARTS))
    while candidates:
        tried = [(marking_cost(paths, found, load), number, found) for number, found in _with_each(paths, cuts, candidates)]
        tried = [item for item in tried if item[2] != cuts]
        if not tried:
            break
        cost, number, found = min(tried)
        if cost >= best and not (forced and not any(cuts)):
            break
        best, cuts = cost, found
        del candidates[number]
    return cuts


def common_parts(paths: Sequence[Steps]) -> Iterator[Steps]:
    """Parts of at least two steps that several paths have, or one path twice, longest first."""
    seen: dict[Steps, int] = {}
    for path in paths:
        for begin in range(len(path)):
            for end in range(begin + 2, len(path) + 1):
                part = path[begin:end]
                seen[part] = seen.get(part, 0) + 1
    yield from sorted((part for part, count in seen.items() if count > 1), key=len, reverse=True)


def _with_each(paths: Sequence[Steps], cuts: Sequence[Cuts], candidates: list[Steps]) -> Iterator[tuple[int, tuple[Cuts, ...]]]:
    for number, part in enumerate(candidates):
        yield number, tuple(_chopped(path, own, part) for path, own in zip(paths, cuts, strict=True))


def _chopped(path: Steps, cuts: Cuts, part: Steps) -> Cuts:
    """The cuts of a path with those that set a part apart, where it is not cut through already."""
    for begin in range(len(path) - len(part) + 1):
        end = begin + len(part)
        if path[begin:end] == part and not any(begin < cut < end for cut in cuts):
            return tuple(sorted({*cuts, *(cut for cut in (begin, end) if 0 < cut < len(path))}))
    return cuts
