"""The passes over the data in which the queries of a workload are answered: as few as possible, each with one shuffle.

A query is answered wherever all events of a match come together: in a pass that is shuffled by any of its keys, because the
engine divides the events by all of them again. Queries without a key need a pass that is not divided, or one in slices of
time. So the key sets of the queries are put into groups that have keys in common, a pass for each, which is shuffled by all
that its sets have in common. Of the groupings with the fewest passes the one is taken whose keys have the most values; and
different sets share no pass whose keys are known to have fewer values than there are tasks.

For a few different key sets all groupings are tried. The fewest groups are a minimum hitting set, which is NP-hard: for many,
the key that most of the sets have is taken, again and again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import prod

KeySet = frozenset[str]
Group = tuple[KeySet, ...]

FEW = 8
"""Number of different key sets up to which all groupings (4,140) are tried."""


@dataclass(frozen=True, slots=True)
class Pass:
    """Queries that are answered over the same shuffled events."""

    keys: tuple[str, ...]
    """What the events are shuffled by; nothing if one task sees them all."""
    queries: tuple[str, ...]
    sliced: bool = False
    """Whether time is cut into slices, a task for each, if that pays."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How many values keys have, as far as it is known, and how many tasks are to share them."""

    values: Mapping[str, int] = field(default_factory=dict)
    tasks: int = 1

    def parts(self, keys: KeySet) -> int:
        """Into how many parts keys divide the events at most; one that nothing is known of, into enough."""
        return prod(self.values.get(name, self.tasks) for name in keys)

    def suffices(self, keys: KeySet) -> bool:
        """Whether keys divide the events into a part for each task."""
        return self.parts(keys) >= self.tasks


@dataclass(frozen=True, slots=True)
class Passes:
    """How the queries that read the same events are answered."""

    passes: tuple[Pass, ...]
    keys: Mapping[str, tuple[str, ...]]
    """Of each query in a pass."""
    alone: Mapping[str, str]
    """The queries that are in none, and why."""
    spread: Spread


def choose_passes(
    keys: Mapping[str, tuple[str, ...]],
    spread: Spread | None = None,
    alone: Mapping[str, str] | None = None,
    sliced: Collection[str] = (),
) -> Passes:
    """The passes for queries with their keys; those without a key come last, `sliced` in a pass of their own.

    >>> found = choose_passes({"p": ("a", "b"), "q": ("b",), "r": (), "s": ("c",)})
    >>> [(item.keys, item.queries) for item in found.passes]
    [(('b',), ('p', 'q')), (('c',), ('s',)), ((), ('r',))]
    """
    known = spread or Spread()
    sets = list(dict.fromkeys(frozenset(item) for item in keys.values() if item))
    groups = max(_groupings(sets, known), key=lambda found: _worth(found, known)) if len(sets) <= FEW else _greedy(sets, known)
    passes = [_pass(group, keys) for group in groups]
    passes.sort(key=lambda item: list(keys).index(item.queries[0]))
    undivided = [name for name, item in keys.items() if not item]
    for cut in (True, False):
        queries = tuple(name for name in undivided if (name in sliced) is cut)
        passes += [Pass((), queries, cut)] if queries else []
    return Passes(tuple(passes), dict(keys), dict(alone or {}), known)


def contested(keys: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The keys that some but not all queries of a pass might have: what they divide decides what shares a pass.

    >>> contested({"p": ("a", "b"), "q": ("b",), "r": ("c", "d"), "s": ("d", "c")})
    ('a', 'b')
    """
    sets = set(map(frozenset, keys.values()))
    shared = {name for one in sets for other in sets if one != other and one & other for name in one | other}
    return tuple(sorted(shared))


def common(group: Group) -> KeySet:
    """The keys that all sets of a group have."""
    return reduce(frozenset.intersection, group)


def _pass(group: Group, keys: Mapping[str, tuple[str, ...]]) -> Pass:
    queries = tuple(name for name, item in keys.items() if frozenset(item) in group)
    shared = common(group)
    return Pass(tuple(name for name in keys[queries[0]] if name in shared), queries)


def _groupings(sets: Sequence[KeySet], spread: Spread, groups: tuple[Group, ...] = ()) -> Iterator[tuple[Group, ...]]:
    """All ways to put sets into groups that may share a pass."""
    if not sets:
        yield groups
        return
    first, *others = sets
    for place, group in enumerate(groups):
        if _may_share((*group, first), spread):
            yield from _groupings(others, spread, (*groups[:place], (*group, first), *groups[place + 1 :]))
    yield from _groupings(others, spread, (*groups, (first,)))


def _may_share(group: Group, spread: Spread) -> bool:
    shared = common(group)
    return bool(shared) and spread.suffices(shared)


def _worth(groups: Sequence[Group], spread: Spread) -> tuple[int, list[int], int]:
    """Fewer passes are better; then those that divide the events of each key set better, the worst of them first; then by more
    keys.
    """
    shared = [common(group) for group in groups for _ in group]
    return -len(groups), sorted(map(spread.parts, shared)), sum(map(len, shared))


def _greedy(sets: Sequence[KeySet], spread: Spread) -> Iterator[Group]:
    """Groups of all sets that have the key which most of those left have; of sets without one that suffices, a group each."""
    left = list(sets)
    names = sorted(name for name in frozenset().union(*sets) if spread.suffices(frozenset([name])))
    while left:
        counts = {name: sum(name in item for item in left) for name in names}
        best = max(names, key=lambda name: (counts[name], spread.parts(frozenset([name]))), default=None)
        if best is None or not counts[best]:
            yield from ((item,) for item in left)
            return
        yield tuple(item for item in left if best in item)
        left = [item for item in left if best not in item]
