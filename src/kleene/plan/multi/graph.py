"""The multi-pattern graph: which clauses have which sub-patterns in common (section 4.1), in the compact form of appendix A.

A sub-pattern of a clause is some of its positions, with the order and the conditions among them. Two clauses have it in common
if both have the same leaves in the same order under the same conditions. Only maximal ones are kept, in two tables:
sub-pattern to the clauses it is maximal for (with any other), and clause to its sub-patterns with the positions they have
there. The clauses that contain any smaller sub-pattern are those of the maximal ones around it.

Common sub-patterns are the sets of pairs (position here, position there) that fit each other two by two: maximal cliques. A
condition that reads three or more events and holds in one clause only takes one of them out, each in turn.

Invariant: the tables are those of the clauses present, in whatever order they came and others went.
Cost: a pair of clauses some ten microseconds; a clause that is added, a pair with each of the others; a clause that is
removed, the sub-patterns that it had.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, permutations, product
from math import factorial, prod
from typing import NamedTuple

from kleene.pattern.predicates import Expression
from kleene.plan.multi.clauses import Clause, Condition, is_symmetric

Slots = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]
"""Positions of one clause with those of another."""

MOST_COMMON = 32
"""Sub-patterns that are looked for in a pair of clauses. More exist only where leaves occur repeatedly."""
MOST_TRIED = 4_000
"""Steps of that search."""
MOST_LABELLINGS = 720
"""Ways to number the slots of a sub-pattern that are compared; only where leaves occur repeatedly are there several."""


class Subpattern(NamedTuple):
    """Some leaves with the order and the conditions among them, in a form that is the same for every clause that has it."""

    leaves: tuple[int, ...]
    precedes: tuple[tuple[int, int], ...]
    """Pairs of slots."""
    conditions: tuple[tuple[int, Slots], ...]
    """The number of a form in `PatternGraph.forms`, and the slots that it reads."""


@dataclass(frozen=True, slots=True)
class _Vertex:
    """A clause, prepared for comparisons."""

    leaves: tuple[int, ...]
    places: Mapping[int, tuple[int, ...]]
    """The positions of each leaf."""
    precedes: frozenset[tuple[int, int]]
    conditions: tuple[tuple[int, Slots], ...]
    wide: tuple[tuple[int, Slots], ...]
    """The conditions that read three or more positions."""
    symmetric: frozenset[int]
    """The forms that do not tell their components apart."""
    relations: tuple[tuple[int, ...], ...]
    """For two positions a number: what precedes what, and the conditions between them."""


class PatternGraph:
    """Clauses and their common sub-patterns of `least` or more positions. A clause is known by its number."""

    def __init__(self, clauses: Iterable[Clause] = (), *, least: int = 2) -> None:
        self.forms: list[Expression] = []
        self._least = least
        self._form_numbers: dict[Expression, int] = {}
        self._relations: dict[tuple[int, tuple[tuple[int, int], ...]], int] = {}
        self._vertices: dict[int, _Vertex] = {}
        self._holders: dict[Subpattern, dict[int, None]] = {}
        self._patterns: dict[int, dict[Subpattern, dict[Slots, int]]] = {}
        self._known: dict[tuple[int, int], tuple[Subpattern, Slots]] = {}
        for clause in clauses:
            self.add(clause)

    def add(self, clause: Clause) -> int:
        """Adds a clause; its number is one more than the last."""
        number = max(self._vertices, default=-1) + 1
        vertex = self._vertex(clause)
        self._patterns[number] = {}
        self._vertices[number] = vertex
        for other, peer in self._vertices.items():
            if other != number:
                for pairs in self._common(peer, vertex):
                    self._connect(other, number, pairs)
        return number

    def remove(self, number: int) -> None:
        """Removes a clause, and what was maximal only with it."""
        del self._vertices[number]
        self._known = {key: value for key, value in self._known.items() if key[0] != number}
        gone = self._patterns.pop(number)
        for subpattern in gone:
            del self._holders[subpattern][number]
        for subpattern in sorted(gone, key=lambda item: -len(item.leaves)):
            self._settle(subpattern)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The clauses."""
        return tuple(self._vertices)

    @property
    def subpatterns(self) -> Mapping[Subpattern, Mapping[int, None]]:
        """The maximal common sub-patterns, each with the clauses that it is maximal for."""
        return self._holders

    def of(self, number: int) -> Mapping[Subpattern, Mapping[Slots, int]]:
        """The sub-patterns of a clause; for each the positions at its slots, as a mask too. There may be several such sets."""
        return self._patterns[number]

    def containing(self, number: int, mask: int) -> dict[int, tuple[Slots, Slots]]:
        """The other clauses that contain the sub-pattern that a clause has at some positions: for each, positions of the one
        with the positions of the other, in the same order.
        """
        found: dict[int, tuple[Slots, Slots]] = {}
        for subpattern, occurrences in self._patterns[number].items():
            for slots, occurring in occurrences.items():
                if not mask & ~occurring:
                    for other in self._holders[subpattern]:
                        if other != number and other not in found:
                            found[other] = slots, next(iter(self._patterns[other][subpattern]))
        return found

    def components(self) -> list[list[int]]:
        """The clauses in groups that have nothing in common with each other."""
        found, seen = [], set[int]()
        for start in self._vertices:
            if start in seen:
                continue
            group, ahead = {start}, [start]
            while ahead:
                for subpattern in self._patterns[ahead.pop()]:
                    new = self._holders[subpattern].keys() - group
                    group |= new
                    ahead += new
            seen |= group
            found.append(sorted(group))
        return found

    def conditions(self, subpattern: Subpattern) -> tuple[Condition, ...]:
        """The conditions of a sub-pattern, over its slots."""
        return tuple(Condition(self.forms[form], slots) for form, slots in subpattern.conditions)

    # --- two clauses --------------------------------------------------------------------------------------------------

    def _vertex(self, clause: Clause) -> _Vertex:
        positions = range(len(clause.leaves))
        conditions = tuple((self._form(item.form), item.components) for item in clause.conditions)
        between: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for form, slots in conditions:
            if len(slots) == 2:
                between.setdefault((slots[0], slots[1]), []).append((form, 0))
                turned = 0 if is_symmetric(self.forms[form]) else 1
                between.setdefault((slots[1], slots[0]), []).append((form, turned))
        relations = tuple(tuple(self._relation(clause, between, i, j) for j in positions) for i in positions)
        places: dict[int, tuple[int, ...]] = {}
        for position, leaf in enumerate(clause.leaves):
            places[leaf] = (*places.get(leaf, ()), position)
        wide = tuple(item for item in conditions if len(item[1]) > 2)
        symmetric = frozenset(form for form, _ in conditions if is_symmetric(self.forms[form]))
        return _Vertex(clause.leaves, places, clause.precedes, conditions, wide, symmetric, relations)

    def _form(self, form: Expression) -> int:
        number = self._form_numbers.setdefault(form, len(self.forms))
        if number == len(self.forms):
            self.forms.append(form)
        return number

    def _relation(self, clause: Clause, between: Mapping[tuple[int, int], list[tuple[int, int]]], i: int, j: int) -> int:
        order = 1 if (i, j) in clause.precedes else 2 if (j, i) in clause.precedes else 0
        key = (order, tuple(sorted(between.get((i, j), ()))))
        return self._relations.setdefault(key, len(self._relations))

    def _common(self, one: _Vertex, other: _Vertex) -> list[Pairs]:
        """The maximal common sub-patterns of two clauses."""
        pairs = [(i, j) for i, leaf in enumerate(one.leaves) for j in other.places.get(leaf, ())]
        if len(pairs) < self._least:
            return []
        # Positions in the same places first: among repeated leaves, the largest sub-patterns are found early.
        pairs.sort(key=lambda pair: abs(pair[0] - pair[1]))
        fitting = [0] * len(pairs)
        for first, (i, j) in enumerate(pairs):
            here, there = one.relations[i], other.relations[j]
            for second in range(first):
                k, m = pairs[second]
                if i != k and j != m and here[k] == there[m]:
                    fitting[first] |= 1 << second
                    fitting[second] |= 1 << first
        cliques = list(islice(_maximal_cliques(fitting), MOST_COMMON))
        found = [tuple(pairs[index] for index in range(len(pairs)) if clique >> index & 1) for clique in cliques]
        if one.wide or other.wide:
            found = _largest([smaller for item in found for smaller in _agreeing(one, other, item)])
        return [item for item in found if len(item) >= self._least]

    def _connect(self, one: int, other: int, pairs: Pairs) -> None:
        places = dict(pairs)
        subpattern, slots = self._canonical(one, sum(1 << i for i in places))
        there = tuple(places[position] for position in slots)
        for number, own in ((one, slots), (other, there)):
            self._holders.setdefault(subpattern, {})[number] = None
            occurrences = self._patterns[number].setdefault(subpattern, {})
            mask = sum(1 << position for position in own)
            if mask not in occurrences.values():
                occurrences[own] = mask

    def _settle(self, subpattern: Subpattern) -> None:
        """Drops a sub-pattern where it is no longer maximal."""
        kept = {
            number: {
                slots: mask
                for slots, mask in self._patterns[number][subpattern].items()
                if self._is_maximal(number, subpattern, mask)
            }
            for number in self._holders[subpattern]
        }
        for number, occurrences in kept.items():
            if occurrences:
                self._patterns[number][subpattern] = occurrences
            else:
                del self._patterns[number][subpattern], self._holders[subpattern][number]
        if not self._holders[subpattern]:
            del self._holders[subpattern]

    def _is_maximal(self, number: int, subpattern: Subpattern, mask: int) -> bool:
        """Whether another clause has the sub-pattern, and none around it."""
        others = self._holders[subpattern].keys() - {number}
        for around, occurrences in self._patterns[number].items():
            if any(mask != wider and not mask & ~wider for wider in occurrences.values()):
                others -= self._holders[around].keys()
        return bool(others)

    # --- one form for each sub-pattern --------------------------------------------------------------------------------

    def _canonical(self, number: int, mask: int) -> tuple[Subpattern, Slots]:
        """The sub-pattern of a clause at some positions, and the positions at its slots."""
        found = self._known.get((number, mask))
        if found is None:
            vertex = self._vertices[number]
            positions = [position for position in range(len(vertex.leaves)) if mask >> position & 1]
            labelled = ((_labelled(vertex, slots), slots) for slots in _labellings(vertex, positions))
            found = self._known[number, mask] = min(labelled)
        return found


def _labellings(vertex: _Vertex, positions: Sequence[int]) -> Iterator[Slots]:
    """Ways to number some positions of a clause: by leaf, then by relations to the others; what these do not tell apart in
    every order.
    """
    looks: dict[tuple[int, tuple[tuple[int, int], ...]], list[int]] = {}
    for position in positions:
        relations = vertex.relations[position]
        around = sorted((vertex.leaves[other], relations[other]) for other in positions if other != position)
        looks.setdefault((vertex.leaves[position], tuple(around)), []).append(position)
    alike = [looks[look] for look in sorted(looks)]
    if prod(factorial(len(group)) for group in alike) > MOST_LABELLINGS:
        yield tuple(position for group in alike for position in group)
        return
    for chosen in product(*(permutations(group) for group in alike)):
        yield tuple(position for group in chosen for position in group)


def _labelled(vertex: _Vertex, slots: Slots) -> Subpattern:
    slot = {position: number for number, position in enumerate(slots)}
    precedes = sorted((slot[i], slot[j]) for i, j in vertex.precedes if i in slot and j in slot)
    inside = [(form, read) for form, read in vertex.conditions if all(position in slot for position in read)]
    conditions = sorted((form, _slots_of(vertex, form, read, slot)) for form, read in inside)
    return Subpattern(tuple(vertex.leaves[position] for position in slots), tuple(precedes), tuple(conditions))


def _slots_of(vertex: _Vertex, form: int, read: Slots, slot: Mapping[int, int]) -> Slots:
    found = tuple(slot[position] for position in read)
    return tuple(sorted(found)) if form in vertex.symmetric else found


def _maximal_cliques(fitting: Sequence[int]) -> Iterator[int]:
    """The maximal cliques of a graph as masks, given the neighbours of each vertex (Bron and Kerbosch).

    >>> sorted(_maximal_cliques([0b110, 0b001, 0b001]))
    [3, 5]
    """
    ahead = [(0, (1 << len(fitting)) - 1, 0)]
    for _ in range(MOST_TRIED):
        if not ahead:
            return
        clique, candidates, done = ahead.pop()
        if not candidates:
            if not done:
                yield clique
            continue
        # A maximal clique has the first candidate, or one that does not fit it.
        first = candidates & -candidates
        neighbours = fitting[first.bit_length() - 1]
        if candidates & ~neighbours != first:
            ahead.append((clique, candidates ^ first, done | first))
        ahead.append((clique | first, candidates & neighbours, done & neighbours))


def _agreeing(one: _Vertex, other: _Vertex, pairs: Pairs) -> list[Pairs]:
    """The largest parts of some pairs on which conditions between three or more agree."""
    ahead, found = [pairs], []
    while ahead:
        part = ahead.pop()
        here, there = dict(part), {j: i for i, j in part}
        ours = {(form, read) for form, read in one.wide if all(position in here for position in read)}
        theirs = {
            (form, tuple(there[position] for position in read))
            for form, read in other.wide
            if all(position in there for position in read)
        }
        conflicts = ours ^ theirs
        if conflicts:
            _, read = min(conflicts)
            ahead += [tuple(pair for pair in part if pair[0] != position) for position in read]
        else:
            found.append(part)
    return _largest(found)


def _largest(parts: Sequence[Pairs]) -> list[Pairs]:
    """The parts that no other contains."""
    sets = list(dict.fromkeys(frozenset(part) for part in parts))
    return [tuple(sorted(part)) for part in sets if not any(part < other for other in sets)]
