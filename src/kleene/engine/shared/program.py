"""A shared plan as the tables that `kleene.engine.shared.kernels` reads: which child of a node is streamed and which looked
up, what the kernel asks of a pair, and what is left to decide on blocks.

A relation that is looked up is made first, as a whole; one that is only streamed never is. So a tree of leaves that are looked
up one after the other, and the tree of prefixes of many patterns, need no more memory than a block per node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kleene.common.arrays import Array
from kleene.common.schema import Kind
from kleene.engine.events.scan import ACCEPTED
from kleene.engine.expressions.filters import ColumnSpec, Program
from kleene.engine.expressions.vectorized import lacking_types
from kleene.engine.kernels.rows import ABOVE, BELOW, EQUAL
from kleene.engine.shared.kernels import Rules
from kleene.pattern import predicates as p
from kleene.pattern.bound import BoundQuery
from kleene.pattern.kinds import kind_of
from kleene.plan.multi.groups import PatternGroup
from kleene.plan.multi.nodes import Node, Root, SharedPlan
from kleene.plan.operators import renamed

MIRRORED = {BELOW: ABOVE, EQUAL: EQUAL, ABOVE: BELOW}

TEMPORAL = (Kind.TIMESTAMP, Kind.DURATION)

INTEGERS = (Kind.INTEGER, Kind.BOOLEAN, Kind.STRING, *TEMPORAL)
"""Kinds that a column of integers can hold: strings as ranks."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison of two slots: columns of the program, and the outcomes that satisfy it."""

    left: int
    left_column: int
    right: int
    right_column: int
    accepted: int
    floating: bool


@dataclass(frozen=True, slots=True)
class Joint:
    """How the relation of an inner node is made of those of its children."""

    node: Node
    streamed: int
    probed: int
    single: bool
    """Whether what is looked up are single events."""
    streamed_at: int
    probed_at: int
    """The first slot of each."""
    rules: Rules
    conditions: tuple[p.Expression, ...]
    """What is decided on blocks, in the variables of `names`."""
    query: str
    names: tuple[str, ...]
    """The variables of some query at the slots."""


class SharedProgram:
    """A shared plan, ready to run."""

    def __init__(self, group: PatternGroup, plan: SharedPlan, comparisons: Comparisons, *, computes: bool = True) -> None:
        """Unless it `computes`, the kernel compares numbers and texts as they are, and all else is left to blocks."""
        self.group = group
        self.computes = computes
        self.plan = plan
        self.columns = Program(group.bound)
        self.leaves_of: dict[ColumnSpec, set[int]] = {}
        """For each column that is computed, the leaves whose events it is computed for."""
        self._comparisons = comparisons
        self._known: dict[tuple[p.Expression, tuple[int, ...]], Compared | None] = {}
        """By form and leaves: many patterns ask the same."""
        self._names = dict(_names(group, plan))
        self._roles = _roles(plan)
        self.joints = {node.number: self._joint(node) for node in plan.nodes if not node.is_leaf}
        parents: dict[int, list[int]] = {}
        for joint in self.joints.values():
            parents.setdefault(joint.streamed, []).append(joint.node.number)
        self.kept = self._kept(parents)
        """The inner nodes whose relations are made as a whole, children first."""
        early = {number for node in self.kept for number in self._streamed_for(node)} | set(self.kept)
        self.parents = {number: [one for one in own if one not in early] for number, own in parents.items()}
        """For each node the nodes that it is streamed into, after the relations that are looked up."""
        self.roots: dict[int, list[Root]] = {}
        for root in plan.roots:
            self.roots.setdefault(root.node, []).append(root)

    @cached_property
    def plainer(self) -> SharedProgram:
        """The same plan where nothing is computed."""
        return SharedProgram(self.group, self.plan, self._comparisons, computes=False)

    def streams(self) -> Iterator[int]:
        """The nodes that streaming begins with: leaves, and relations that are kept."""
        for node in self.plan.nodes:
            if (node.is_leaf or node.number in self.kept) and (self.parents.get(node.number) or node.number in self.roots):
                yield node.number

    def _kept(self, parents: dict[int, list[int]]) -> tuple[int, ...]:
        """The inner nodes that are looked up, and those that are streamed both into such a relation and elsewhere: they would
        be made twice.
        """
        kept = {joint.probed for joint in self.joints.values() if not self.plan.nodes[joint.probed].is_leaf}
        rooted = {root.node for root in self.plan.roots}
        while True:
            early = {number for node in kept for number in self._streamed_for(node, kept)}
            twice = {
                number
                for number in early
                if number in rooted or any(one not in early | kept for one in parents.get(number, ()))
            }
            twice |= {number for number in early if len(parents.get(number, ())) > 1}
            if twice <= kept:
                return tuple(sorted(kept))
            kept |= twice

    def _streamed_for(self, node: int, kept: set[int] | None = None) -> Iterator[int]:
        """The inner nodes that are streamed to make a relation."""
        known = set(self.kept) if kept is None else kept
        below = self.joints[node].streamed
        while below in self.joints and below not in known:
            yield below
            below = self.joints[below].streamed

    def _joint(self, node: Node) -> Joint:
        left, right = self.plan.nodes[node.left], self.plan.nodes[node.right]
        streamed, probed = (left, right) if self._roles[node.number] == node.left else (right, left)
        width = len(left.leaves)
        first = {left.number: 0, right.number: width}
        if left.number == right.number:
            streamed_at, probed_at = 0, width
        else:
            streamed_at, probed_at = first[streamed.number], first[probed.number]
        query, names = self._names[node.number]
        compared, later = self._split(node, names)
        rules = _rules(node, streamed_at, len(streamed.leaves), probed_at, len(probed.leaves), compared, self.group)
        return Joint(
            node, streamed.number, probed.number, probed.is_leaf, streamed_at, probed_at, rules, tuple(later), query, names
        )

    def _split(self, node: Node, names: Sequence[str]) -> tuple[list[Compared], list[p.Expression]]:
        """The conditions of a node that the kernel decides, and the others in the variables of a query."""
        compared, later = [], []
        for condition in node.conditions:
            key = condition.form, tuple(node.leaves[slot] for slot in condition.components)
            if key not in self._known:
                self._known[key] = self._compared(*key)
            found = self._known[key]
            if found is None:
                variables = {f"${index}": names[slot] for index, slot in enumerate(condition.components)}
                later.append(renamed(condition.form, variables))
            else:
                left, right = (condition.components[place] for place in (found.left, found.right))
                compared.append(replace(found, left=left, right=right))
        return compared, later

    def _compared(self, form: p.Expression, leaves: tuple[int, ...]) -> Compared | None:
        """A condition as a comparison of columns, with places among its leaves for slots; None if it is decided on blocks."""
        found = self._comparisons.of(form, leaves)
        if found is None or not (found.plain or self.computes):
            return None
        (left, left_column), (right, right_column) = (
            (place, self._column(spec, leaves[place], found.floating)) for place, spec in found.sides
        )
        return Compared(left, left_column, right, right_column, found.accepted, found.floating)

    def _column(self, spec: ColumnSpec, leaf: int, floating: bool) -> int:
        """The number of a column that is read of a leaf's events; the same for all leaves."""
        self.leaves_of.setdefault(spec, set()).add(leaf)
        columns = self.columns.floats if floating else self.columns.ints
        if spec not in columns:
            columns.append(spec)
        return columns.index(spec)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A condition that compares a column of one event with a column of another."""

    sides: tuple[tuple[int, ColumnSpec], tuple[int, ColumnSpec]]
    """The place of the event among those that the condition reads, and the column."""
    accepted: int
    floating: bool
    plain: bool
    """Whether the values are compared as they are."""


class Comparisons:
    """Which conditions of a group the kernel can decide: the same in every plan."""

    def __init__(self, group: PatternGroup) -> None:
        self._group = group
        self._known: dict[tuple[p.Expression, tuple[int, ...]], Comparison | None] = {}

    def of(self, form: p.Expression, leaves: tuple[int, ...]) -> Comparison | None:
        """A condition on events of some leaves as a comparison: each side reads one event, whose type has all that is read."""
        key = form, leaves
        if key not in self._known:
            self._known[key] = self._comparison(form, leaves)
        return self._known[key]

    def _comparison(self, form: p.Expression, leaves: tuple[int, ...]) -> Comparison | None:
        if not isinstance(form, p.Comparison):
            return None
        places, expressions, kinds = [], [], []
        for side in (form.left, form.right):
            read = p.variables(side)
            if len(read) != 1 or any(isinstance(item, p.Call) for item in p.walk(side)):
                return None
            (variable,) = read
            places.append(int(variable[1:]))
            expressions.append(renamed(side, {variable: ""}))
            own = renamed(side, {variable: self._group.tests[leaves[places[-1]]].event.variable})
            if _lacks(self._group.bound, own):
                return None
            kinds.append(kind_of(own, self._group.bound.schema))
        floating = Kind.FLOAT in kinds and all(kind.is_number for kind in kinds)
        if not floating and (kinds[0] is not kinds[1] or kinds[0] not in INTEGERS):
            return None
        plain = all(isinstance(side, p.Attribute) for side in (form.left, form.right)) and kinds[0] not in TEMPORAL
        one, other = (ColumnSpec(item, "", Kind.FLOAT if floating else kinds[0]) for item in expressions)
        return Comparison(((places[0], one), (places[1], other)), ACCEPTED[form.operator], floating, plain)


def _lacks(bound: BoundQuery, expression: p.Expression) -> bool:
    """Whether some event that an expression reads lacks an attribute, or is one of several."""
    return any(
        isinstance(item, p.Length | p.Aggregate) or (isinstance(item, p.Attribute) and bool(lacking_types(bound, item)))
        for item in p.walk(expression)
    )


def _names(group: PatternGroup, plan: SharedPlan) -> Iterator[tuple[int, tuple[str, tuple[str, ...]]]]:
    """For each node some query that uses it, and its variables at the slots."""
    for root in plan.roots:
        clause = root.clause
        variables = group.plans[clause.query].branches[clause.branch].variables
        names = [""] * len(root.slots)
        for position, slot in enumerate(root.slots):
            names[slot] = variables[clause.components[position]]
        ahead = [(root.node, tuple(names))]
        while ahead:
            number, own = ahead.pop()
            yield number, (clause.query, own)
            node = plan.nodes[number]
            if not node.is_leaf:
                width = len(plan.nodes[node.left].leaves)
                ahead += [(node.left, own[:width]), (node.right, own[width:])]


def _roles(plan: SharedPlan) -> dict[int, int]:
    """For each inner node the child that is streamed: beside a leaf the other one; of two leaves the rarer; of two inner nodes
    the one with more slots, or, if there are as many, the later one.
    """
    found: dict[int, int] = {}
    for node in plan.nodes:
        if node.is_leaf:
            continue
        left, right = plan.nodes[node.left], plan.nodes[node.right]
        if left.is_leaf and right.is_leaf:
            rates = plan.statistics.rates
            found[node.number] = left.number if rates[left.leaf] <= rates[right.leaf] else right.number
        elif left.is_leaf or right.is_leaf:
            found[node.number] = right.number if left.is_leaf else left.number
        elif len(left.leaves) != len(right.leaves):
            found[node.number] = max(left, right, key=lambda child: len(child.leaves)).number
        else:
            width = len(left.leaves)
            precedes = sum(1 if one < width else -1 for one, _ in node.precedes)
            found[node.number] = right.number if precedes >= 0 else left.number
    return found


def _rules(
    node: Node, streamed_at: int, streamed: int, probed_at: int, probed: int, compared: Sequence[Compared], group: PatternGroup
) -> Rules:
    own, others = range(streamed_at, streamed_at + streamed), range(probed_at, probed_at + probed)
    precede = [(one - streamed_at, other - probed_at) for one, other in node.precedes if one in own]
    follow = [(other - streamed_at, one - probed_at) for one, other in node.precedes if one in others]
    closing = [slot for slot in range(streamed) if all((slot, other) in follow for other in range(probed))]
    types = [set(group.tests[leaf].event.types) for leaf in node.leaves]
    ordered = set(node.precedes) | {(other, one) for one, other in node.precedes}
    distinct = [
        (one - streamed_at, other - probed_at)
        for one in own
        for other in others
        if (one, other) not in ordered and types[one] & types[other]
    ]
    comparisons = []
    for item in compared:
        forward = item.left in own
        one, one_column = (item.left, item.left_column) if forward else (item.right, item.right_column)
        other, other_column = (item.right, item.right_column) if forward else (item.left, item.left_column)
        accepted = item.accepted if forward else sum(MIRRORED[bit] for bit in MIRRORED if item.accepted & bit)
        comparisons.append((one - streamed_at, one_column, other - probed_at, other_column, accepted, int(item.floating)))
    return Rules(
        _table(precede, 2), _table(follow, 2), np.array(closing, np.int64), _table(distinct, 2), _table(comparisons, 6)
    )


def _table(rows: Sequence[tuple[int, ...]], width: int) -> Array:
    return np.array(rows, np.int64).reshape(len(rows), width)
