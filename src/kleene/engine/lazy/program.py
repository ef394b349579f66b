"""A branch of a lazy plan as integer tables and one compiled filter: what `kleene.engine.lazy.kernels.chain` executes.

A condition is decided when the last of its variables is bound, whatever the order. The filter therefore has a loop for every
condition and every variable that may be its last (a *site*: the component, and of a Kleene component whether the event is its
first element or a further one); which of them are asked is a bit mask. What no filter can decide there (functions of several
events, aggregates over elements, conditions on every element of a variable that is already complete) is decided on blocks of
partial matches, as soon as all its variables are bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache

import numpy as np

from kleene.common.arrays import Array
from kleene.common.schema import Kind
from kleene.engine.expressions.filters import FlatBody, Program, loop_lines
from kleene.engine.kernels import LazyFilter, compile_lazy_filter, generated
from kleene.engine.lazy.kernels import chain as kernels
from kleene.pattern import predicates as p
from kleene.pattern.bound import BoundQuery
from kleene.pattern.operators import Pattern
from kleene.plan.analysis.narrowing import Narrowing, narrowings
from kleene.plan.lazy.lazy import LazyBranch, LazyCondition

FIRST, FURTHER = 0, 1
"""The roles of an event at a site: the one event of a component (the first element of a Kleene component), a further one."""

MOST_COMPILED = 62

NODE, LENGTH = 2, 3
"""Rows of `slots` beside those of a component's first and last event."""


@dataclass(frozen=True, slots=True)
class Step:
    """One component bound: which conditions the filter asks, and which are decided on the block afterwards."""

    component: int
    kleene: bool
    first: int
    """Conditions of the filter, as bits, for the first event."""
    further: int
    later: tuple[int, ...]
    """Numbers of the conditions that are decided once the component is complete."""


class LazyProgram:
    """A branch, ready to run."""

    def __init__(self, bound: BoundQuery, branch: LazyBranch, columns: Program) -> None:
        self.branch = branch
        self.variables = branch.variables
        self.count = len(branch.components)
        index = {variable: place for place, variable in enumerate(self.variables)}
        self._index = index
        self.bound = bound
        self.needs = np.array([_mask(item.condition.variables, index) for item in branch.conditions], np.int64)
        self.via = np.array([_mask(item.via, index) for item in branch.conditions], np.int64)
        self.slots, self.width = _slots(branch)
        self.relation = np.zeros((self.count, self.count), np.int64)
        for one, other in branch.precedes:
            self.relation[other, one] = kernels.PRECEDES
            self.relation[one, other] = kernels.FOLLOWS
        for component, event in enumerate(branch.components):
            if event.is_kleene:
                self.relation[component, component] = kernels.PRECEDES  # an element follows those before it
        self.distinct, self.apart = self._overlaps()
        self.ends = self._last_component()
        self._numbers = [number for number, item in enumerate(branch.conditions) if item.compiled and number < MOST_COMPILED]
        self.compiled = sum(1 << number for number in self._numbers if self._always_single(branch.conditions[number]))
        """The conditions that read single events only: filters decide them in any order."""
        self._sources = self._filter_sources(columns)
        self.filter: LazyFilter = _no_filter()
        # Kept with the program, and freed with it.
        self.scope_slots = cache(self._scope_slots)
        self.read_slots = cache(self._read_slots)
        self.narrowings = cache(self._narrowings)

    def compile(self, columns: Program) -> None:
        """Makes the filter, once all branches have named the columns they read."""
        if self._sources:
            total = len(columns.ints) + len(columns.floats)
            self.filter = _compiled("\n".join(self._sources).replace("TOTAL", str(total)) + "\n")

    def steps(self, order: Sequence[int]) -> tuple[Step, ...]:
        """What happens as the components are bound in the given order."""
        found = []
        have: set[str] = set()
        for component in order:
            event = self.branch.components[component]
            first, further, later = 0, 0, []
            for number, item in enumerate(self.branch.conditions):
                if not item.is_asked(event.variable, have | {event.variable}):
                    continue
                roles = self._roles(item, component) if number in self._numbers else None
                if roles is None or (not have and FIRST in roles):  # no filter is asked about the event that comes first
                    later.append(number)
                    continue
                first |= (FIRST in roles) << number
                further |= (FURTHER in roles) << number
            found.append(Step(component, event.is_kleene, first, further, tuple(later)))
            have.add(event.variable)
        return tuple(found)

    def _scope_slots(self, component: int, bound_set: int) -> kernels.Slots:
        """Which slots of the bound components bound the scope of a component: those of the events that it comes right after and
        right before, and those that may be the first and the last of all.
        """
        have = [other for other in range(self.count) if (bound_set >> other) & 1]
        precedes = self.branch.precedes
        before = [other for other in have if self.relation[component, other] == kernels.PRECEDES]
        after = [other for other in have if self.relation[component, other] == kernels.FOLLOWS]
        nearest = [one for one in before if not any((one, other) in precedes for other in before)]
        following = [one for one in after if not any((other, one) in precedes for other in after)]
        first = [one for one in have if not any((other, one) in precedes for other in have)]
        last = [one for one in have if not any((one, other) in precedes for other in have)]
        return kernels.Slots(
            after=self.slots[1, nearest],
            before=self.slots[0, following],
            first=self.slots[0, first],
            last=self.slots[1, last],
        )

    def _read_slots(self, component: int, conditions: int, further: bool) -> Array:
        """The slots of bound events that conditions of the filter read when a component gets its first or a further event."""
        read = 0
        for number, needed in enumerate(self.needs.tolist()):
            read |= needed if (conditions >> number) & 1 else 0
        others = [other for other in range(self.count) if (read >> other) & 1 and (other != component or further)]
        return np.unique(self.slots[:2, others])

    def _narrowings(
        self, component: int, conditions: int, moving: bool
    ) -> dict[tuple[p.Expression, Kind], tuple[Narrowing, ...]]:
        """What conditions of the filter leave of the candidates of a component, by the value that they compare."""
        found: dict[tuple[p.Expression, Kind], tuple[Narrowing, ...]] = {}
        for number, item in enumerate(self.branch.conditions):
            if (conditions >> number) & 1 and (self.compiled >> number) & 1:
                expression, variable = item.condition.expression, self.variables[component]
                for narrowing in narrowings(self.bound, expression, variable, moving=moving):
                    key = narrowing.own, narrowing.scale
                    found[key] = (*found.get(key, ()), narrowing)
        return found

    def _overlaps(self) -> tuple[Array, tuple[tuple[int, int], ...]]:
        """Components that may not bind the same event though nothing orders them: per single component the set of other single
        ones, and the pairs with a Kleene component.
        """
        distinct = np.zeros(self.count, np.int64)
        apart = []
        events = self.branch.components
        for one in range(self.count):
            for other in range(one + 1, self.count):
                ordered = (one, other) in self.branch.precedes or (other, one) in self.branch.precedes
                if ordered or not set(events[one].types) & set(events[other].types):
                    continue
                if events[one].is_kleene or events[other].is_kleene:
                    apart.append((one, other))
                else:
                    distinct[one] |= 1 << other
                    distinct[other] |= 1 << one
        return distinct, tuple(apart)

    def _last_component(self) -> int:
        """The single component that all others precede, or -1."""
        for component, event in enumerate(self.branch.components):
            others = [other for other in range(self.count) if other != component]
            if not event.is_kleene and all((other, component) in self.branch.precedes for other in others):
                return component
        return -1

    def _always_single(self, item: LazyCondition) -> bool:
        return not any(self.bound.component(variable).is_kleene for variable in item.condition.variables)

    def _roles(self, item: LazyCondition, component: int) -> tuple[int, ...] | None:
        """At which events of a component a filter asks a condition whose other variables are bound; None if it cannot."""
        own = self.branch.components[component]
        kleene = {name for name in item.condition.variables if self.bound.component(name).is_kleene}
        for name in kleene - {own.variable}:
            if item.condition.kinds(name) - {"first", "complete"}:
                return None
        if not own.is_kleene:
            return (FIRST,)
        kinds = item.condition.kinds(own.variable)
        if "complete" in kinds or {"running", "each"} <= kinds:
            return None
        if "each" in kinds:
            return (FIRST, FURTHER)
        return (FURTHER,) if "running" in kinds else (FIRST,)

    def _filter_sources(self, columns: Program) -> list[str]:
        lines = ["def lazy_filter(site, conditions, n, rows, bound, selected, ints, floats, valid, constants):"]
        for component, event in enumerate(self.branch.components):
            for role in (FIRST, FURTHER) if event.is_kleene else (FIRST,):
                loops = []
                for number in self._numbers:
                    item = self.branch.conditions[number]
                    if event.variable in item.condition.variables and role in (self._roles(item, component) or ()):
                        loops += self._loop(columns, component, role, number)
                if loops:
                    lines += [f"    if site == {2 * component + role}:", *loops, "        return n"]
        return [*lines, "    return n"] if len(lines) > 1 else []

    def _loop(self, columns: Program, component: int, role: int, number: int) -> list[str]:
        body = CandidateBody(columns, component, role, self._index, self.slots)
        held = body.truth(self.branch.conditions[number].condition.expression)[0]
        rest = ("selected[kept] = place", f"kept += 1 if {held} else 0")
        loop = ("for position in range(n):", "place = selected[position]")
        return [
            f"        if conditions & {1 << number}:",
            "            kept = 0",
            *(f"            {line}" for line in loop_lines(body, loop, rest)),
            "            n = kept",
        ]


class CandidateBody(FlatBody):
    """Writes one condition over a candidate (`place`) and the bound events (`bound[slot]`)."""

    def __init__(self, program: Program, component: int, role: int, index: dict[str, int], slots: Array) -> None:
        super().__init__(program, index, component)
        self._role = role
        self._slots = slots

    def in_loop(self, node: p.Expression) -> bool:
        return any(self._place(item) == "place" for item in p.walk(node) if isinstance(item, p.Attribute))

    def place(self, reference: p.Attribute, matrix: str, row: int) -> str:  # noqa: ARG002 - nothing else is kept of events
        return self._place(reference)

    def _place(self, node: p.Attribute) -> str:
        component = self.positions[node.variable]
        first, last = int(self._slots[0, component]), int(self._slots[1, component])
        if component != self.level:
            return f"bound[{last if node.element is p.Element.LAST else first}]"
        if self._role == FURTHER and node.element is p.Element.PREVIOUS:
            return f"bound[{last}]"
        if self._role == FURTHER and node.element is p.Element.FIRST:
            return f"bound[{first}]"
        return "place"


def _mask(names: frozenset[str], index: dict[str, int]) -> int:
    return sum(1 << index[name] for name in names)


def _slots(branch: LazyBranch) -> tuple[Array, int]:
    """Per component the slots of its first and last event, and of a Kleene component its node and its length."""
    slots = np.full((4, len(branch.components)), -1, np.int64)
    width = 0
    for component, event in enumerate(branch.components):
        used = 4 if event.is_kleene else 1
        slots[:, component] = range(width, width + 4) if event.is_kleene else (width, width, -1, -1)
        width += used
    return slots, width


@lru_cache(maxsize=256)
def _compiled(source: str) -> LazyFilter:
    return compile_lazy_filter(generated(source, "lazy_filter"))


@lru_cache(maxsize=1)
def _no_filter() -> LazyFilter:
    """The filter of a branch without conditions between events: kernels need one to be typed."""
    return compile_lazy_filter(_keep_all)


def _keep_all(_0, _1, n, _3, _4, _5, _6, _7, _8, _9):  # type: ignore[no-untyped-def]
    return n


def build_lazy(bound: BoundQuery, branches: tuple[LazyBranch, ...]) -> tuple[Program, tuple[LazyProgram, ...]]:
    """The programs of all branches and the columns that their filters read; kept for the next run of the same query."""
    schema = bound.schema
    declared = None if schema.types is None else tuple(schema.types.items())
    roles = (schema.time, schema.type, *schema.order_by)
    return _built(_Source(branches, bound.query.pattern, tuple(schema.columns.items()), declared, roles, bound))


@dataclass(frozen=True, slots=True)
class _Source:
    """What programs are made of: what they depend on, and the query that has all of it."""

    branches: tuple[LazyBranch, ...]
    pattern: Pattern
    columns: tuple[tuple[str, Kind], ...]
    types: tuple[tuple[str, frozenset[str]], ...] | None
    roles: tuple[str | None, ...]
    """Columns that events of all types have."""
    bound: BoundQuery = field(compare=False)


@lru_cache(maxsize=64)
def _built(source: _Source) -> tuple[Program, tuple[LazyProgram, ...]]:
    columns = Program(source.bound)
    programs = tuple(LazyProgram(source.bound, branch, columns) for branch in source.branches)
    for program in programs:
        program.compile(columns)
    return columns, programs
