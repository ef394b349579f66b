"""An automaton as integer tables and one compiled filter: what `kleene.engine.automaton.kernels.nfa` executes.

The computation state of a run (SASE+ section 5.2.1) is a column of two matrices: whole numbers (the places of events, lengths,
exact aggregates) and floating-point numbers. A place stands for all attributes of its event, so one slot serves every condition
that reads it. Slots are allotted as conditions ask for them; nothing is kept that no condition reads.

The filter decides the conditions of one *site* (an edge of a component) for all runs of a state at once, as the block filters
of sequence plans do. Conditions that quantify over the elements of a variable that is already complete walk the run's own
chain in the match buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.automaton.index_keys import bound_lines, index_numbers, key_lines, key_of
from kleene.engine.automaton.kernels import layout as kernels
from kleene.engine.automaton.kernels.layout import (
    FLOAT,
    FLOAT_COLUMN,
    INTEGER,
    INTEGER_COLUMN,
    POSITIVE,
    SITE_BEGIN,
    SITE_FIRST,
    SITE_FURTHER,
    SITE_OPEN,
    SITE_PROCEED,
    SITE_TAKE,
    SITE_WAITING,
)
from kleene.engine.expressions.filters import ColumnSpec, FlatBody, Program, Value, lacking_column
from kleene.engine.kernels import RunFilter, compile_run_filter
from kleene.pattern import predicates as p
from kleene.pattern.bound import BoundQuery
from kleene.pattern.conditions import Condition
from kleene.pattern.faults import tolerant
from kleene.pattern.kinds import kind_of
from kleene.plan.automaton.automaton import Automaton

COUNTED = (p.AggregateFunction.COUNT, p.AggregateFunction.AVG, p.AggregateFunction.STDDEV)
"""Aggregates that the number of values is part of."""

Read = tuple[int, int, int]
"""(kind, slot, column)."""


@dataclass(slots=True)
class Layout:
    """The slots of a run's computation state."""

    tests: int
    integers: dict[tuple[Any, ...], int] = field(default_factory=dict)
    floats: dict[tuple[Any, ...], int] = field(default_factory=dict)
    accumulators: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)
    """Per component: (operation, column, validity, slot, slot of the count, further slot), in the order of their updates."""

    def integer(self, *what: Any) -> int:
        return self.integers.setdefault(what, kernels.META + self.tests + len(self.integers))

    def floating(self, *what: Any) -> int:
        return self.floats.setdefault(what, len(self.floats))

    @property
    def integer_slots(self) -> int:
        return kernels.META + self.tests + len(self.integers)


@dataclass(frozen=True, slots=True)
class RunProgram:
    """One branch, ready to run."""

    variables: tuple[str, ...]
    kleene: tuple[bool, ...]
    nfa: kernels.Nfa
    integer_slots: int
    float_slots: int
    filter: RunFilter
    source: str
    slots: dict[str, tuple[str, int]]
    """What the slots hold, in words: (matrix, slot) by name."""


def build_programs(
    bound: BoundQuery, automata: Sequence[Automaton], bits: dict[tuple[str, str], int], tests: int, *, audits: bool = False
) -> tuple[Program, list[RunProgram]]:
    """The columns and constants that all automata of a query read, and the tables and the filter of each.

    `bits` are the bits of (variable, "begin" or "take") in a row's mask; `tests` is the number of test codes of a run. With
    `audits` the filters tell where an edge fails.
    """
    shared = Program(bound)
    writers = [_Writer(bound, automaton, Layout(tests), shared, audits=audits) for automaton in automata]
    tables = [_components(writer, bits) for writer in writers]
    # Only now are all columns known, and with them the rows of the matrices.
    return shared, [_program(writer, table) for writer, table in zip(writers, tables, strict=True)]


def _components(writer: _Writer, bits: dict[tuple[str, str], int]) -> Array:
    """Writes the filter's sites and fills the table of the components, but for what depends on all slots."""
    automaton, layout, length = writer.automaton, writer.layout, len(writer.names)
    table = np.full((kernels.COMPONENT_FIELDS, length), -1, np.int64)
    for index, component in enumerate(automaton.components):
        sites = {
            SITE_BEGIN: component.begin,
            SITE_TAKE: component.take,
            # Nothing is before the first component: all that its first event must satisfy is decided there.
            SITE_FIRST: component.element if index else (*component.begin, *component.element),
            SITE_FURTHER: component.element,
            SITE_PROCEED: component.proceed,
        }
        for kind, conditions in sites.items():
            table[kernels.FILTERED + kind, index] = writer.site(index, kind, conditions)
        table[kernels.FILTERED + kernels.SITE_TAKE_KEY, index] = writer.key(index, SITE_TAKE, component.take)
        begins = component.begin if index else ()
        table[kernels.FILTERED + kernels.SITE_BEGIN_KEY, index] = writer.key(index, SITE_BEGIN, begins)
        table[kernels.BEGIN_BIT, index] = bits[component.variable, "begin"]
        table[kernels.TAKE_BIT, index] = bits.get((component.variable, "take"), -1)
        if component.is_kleene:
            writer.lone(index, SITE_OPEN, bits[component.variable, "take"], component.take)
        if index > 0:
            writer.lone(index, SITE_WAITING, bits[component.variable, "begin"], component.begin)
        walked = any(writer.walks(condition, index, SITE_TAKE) for condition in component.take)
        alone = component.high is None and index < length - 1 and not component.element and not walked and not writer.audits
        table[kernels.TAKES_ALONE, index] = alone
        table[kernels.KLEENE, index] = component.is_kleene
        table[kernels.LOW, index] = component.low
        table[kernels.HIGH, index] = np.iinfo(np.int64).max if component.high is None else component.high
        if component.is_kleene and (component.low > 1 or component.high is not None):
            slot = layout.integer("length", component.variable)
            writer.read(index, SITE_PROCEED, (INTEGER, slot, -1))
    return table


def _program(writer: _Writer, table: Array) -> RunProgram:
    layout, names = writer.layout, tuple(writer.names)
    accumulators: list[tuple[int, ...]] = []
    for index, variable in enumerate(names):
        for what, row in (("place", kernels.PLACE_SLOT), ("last", kernels.LAST_SLOT), ("length", kernels.LENGTH_SLOT)):
            table[row, index] = layout.integers.get((what, variable), -1)
        table[kernels.FIRST_ACCUMULATOR, index] = len(accumulators)
        accumulators += layout.accumulators.get(index, [])
        table[kernels.END_ACCUMULATORS, index] = len(accumulators)
    reads, merge_bounds = writer.merge_reads(layout.tests)
    exact = {slot for kind, slot, _ in reads if kind == INTEGER}
    slots = {" ".join(map(str, what)): ("integers", slot) for what, slot in layout.integers.items()}
    slots |= {" ".join(map(str, what)): ("floats", slot) for what, slot in layout.floats.items()}
    source = writer.source()
    return RunProgram(
        names,
        tuple(component.is_kleene for component in writer.automaton.components),
        kernels.Nfa(
            table,
            np.array([(*entry, entry[3] in exact) for entry in accumulators], np.int64).reshape(-1, 7),
            np.array(reads, np.int64).reshape(-1, 3),
            np.array(merge_bounds, np.int64),
            index_numbers(table),
        ),
        layout.integer_slots,
        len(layout.floats),
        _compiled(source),
        source,
        slots,
    )


@lru_cache(maxsize=256)
def _compiled(source: str) -> RunFilter:
    return compile_run_filter(source)


HEADER = (
    "def run_filter(site, row, n, room, rows, nodes_room, at, floats_at, flags_at, watched, "
    "runs, run_floats, ints, floats, valid, constants, flags, nodes, scratch, mask, chosen, keys):"
)


CHOSEN = ("for i in range(n):", "    k = chosen[i]")


class _Writer:
    """Writes the filter, site by site, and remembers what each site reads of a run."""

    def __init__(
        self, bound: BoundQuery, automaton: Automaton, layout: Layout, program: Program, *, audits: bool = False
    ) -> None:
        self.bound = bound
        self.audits = audits
        self.automaton = automaton
        self.layout = layout
        self.program = program
        self.names = [component.variable for component in automaton.components]
        self._lines: list[str] = []
        self._reads: dict[tuple[int, int], dict[Read, None]] = {}
        self._bodies = 0

    def read(self, component: int, kind: int, what: Read) -> None:
        self._reads.setdefault((component, kind), {})[what] = None

    def site(self, component: int, kind: int, conditions: Sequence[Condition]) -> bool:
        """Writes the conditions of a site; False if there are none."""
        if not conditions:
            return False
        self._lines.append(f"    if site == {component * kernels.SITES + kind}:")
        walks = [(condition, self.walks(condition, component, kind)) for condition in conditions]
        plain = [condition for condition, walked in walks if not walked]
        if plain:
            body = self._body(component, kind, ())
            held = [body.truth(condition.expression)[0] for condition in plain]
            decided = f"flags[flags_at + i] = flags[flags_at + i] & (1 if {' & '.join(held)} else 0)"
            if self.audits:
                would = [self._would(body, condition) for condition in plain]
                standing = f"flags[flags_at + i] if {' & '.join(held)} else {kernels.FAILING}"
                refused = f"flags[flags_at + i] == 0 or not ({' & '.join(would)})"
                decided = f"flags[flags_at + i] = 0 if {refused} else ({standing})"
            self._lines += _indented(2, [*body.fixed, *body.hoisted])
            self._lines += _indented(2, CHOSEN)
            self._lines += _indented(3, [*body.inside, decided])
        for condition, walked in walks:
            if walked:
                self._walk(component, kind, condition, walked)
        self._lines.append("        return 0")
        return True

    def key(self, component: int, kind: int, conditions: Sequence[Condition]) -> int:
        """Writes the keys of an index over the runs that wait for a site, and what an event looks up there: its kind."""
        expressions = [item.expression for item in conditions if not self.walks(item, component, kind)]
        found, comparisons = key_of(self.bound, expressions, self._body(component, kind, ()))
        if self.audits or not found:  # an edge that fails may be one that no key lets through
            return 0
        of_runs, of_event = self._body(component, kind, ()), self._body(component, kind, ())
        # Numbers of different kinds are compared as floating point.
        floats = [of_runs.value(item.run)[2] | of_event.value(item.event)[2] for item in comparisons]
        site = component * kernels.SITES + (kernels.SITE_TAKE_KEY if kind == SITE_TAKE else kernels.SITE_BEGIN_KEY)
        self._lines += [f"    if site == {site}:", *_indented(2, key_lines(comparisons, of_runs, floats))]
        self._lines += [f"    if site == {site + 1}:", *_indented(2, bound_lines(comparisons, of_event, floats))]
        return found

    def lone(self, component: int, kind: int, bit: int, conditions: Sequence[Condition]) -> None:
        """Writes the search for the next event that a lone run may select, or that is watched for."""
        site = SITE_TAKE if kind == SITE_OPEN else SITE_BEGIN
        plain = [condition for condition in conditions if not self.walks(condition, component, site)]
        body = self._body(component, site, ())
        held = [self._would(body, condition) for condition in plain]
        self._lines += [
            f"    if site == {component * kernels.SITES + kind}:",
            *_indented(2, body.fixed),
            "        k = 0",
            "        while row < n:",
            "            if mask[row] & watched:",
            "                return row",
            f"            if mask[row] & {1 << bit}:",
            *_indented(4, [*body.hoisted, *body.inside]),
            f"                if {' & '.join(held) or 'True'}:",
            "                    return row",
            "            row += 1",
            "        return row",
        ]

    def _would(self, body: _SiteBody, condition: Condition) -> str:
        """Whether a condition holds; with `audits` also where it fails."""
        expression = condition.expression
        return body.truth(tolerant(expression, self.bound.schema) if self.audits else expression)[0]

    def _body(self, component: int, kind: int, walked: tuple[str, ...]) -> _SiteBody:
        self._bodies += 1
        return _SiteBody(self, component, kind, walked, f"b{self._bodies}_")

    def walks(self, condition: Condition, component: int, kind: int) -> tuple[str, ...]:
        """The variables whose elements the condition walks over at a site: those it quantifies over but does not stand on."""
        own = self.names[component]
        stands_on = {SITE_TAKE: condition.running, SITE_FIRST: condition.each, SITE_FURTHER: condition.each}.get(kind, ())
        return tuple(name for name in condition.quantified if not (name == own and name in stands_on))

    def _walk(self, component: int, kind: int, condition: Condition, walked: tuple[str, ...]) -> None:
        """A loop over the elements of each walked variable; `scratch` holds their places, the last element first."""
        body = self._body(component, kind, walked)
        held, would = body.truth(condition.expression)[0], self._would(body, condition)
        lines, depth = _indented(2, [*body.fixed, *body.hoisted, *CHOSEN]), 3
        lines += _indented(depth, ["if flags[flags_at + i] == 0:", "    continue", "filled = 0"])
        for name in walked:
            index = self.names.index(name)
            lines += _indented(
                depth,
                [
                    f"node = runs[at + {kernels.NODE} * room + k]",
                    f"while node >= 0 and nodes[{kernels.COMPONENT} * nodes_room + node] != {index}:",
                    f"    node = nodes[{kernels.PREVIOUS} * nodes_room + node]",
                    f"from_{name} = filled",
                    f"while node >= 0 and nodes[{kernels.COMPONENT} * nodes_room + node] == {index}:",
                    f"    scratch[filled] = nodes[{kernels.EVENT} * nodes_room + node]",
                    "    filled += 1",
                    f"    node = nodes[{kernels.PREVIOUS} * nodes_room + node]",
                    f"count_{name} = filled - from_{name}",
                ],
            )
        lines += _indented(depth, ["held = True", "would = True"])
        for name in walked:
            running = name in condition.running
            lines += _indented(depth, body.running_start(name))
            lines += _indented(depth, [f"for i_{name} in range(count_{name}):"])
            depth += 1
            lines += _indented(depth, [f"e_{name} = scratch[from_{name} + count_{name} - 1 - i_{name}]"])
            if running:
                lines += _indented(
                    depth,
                    [
                        f"p_{name} = scratch[from_{name} + count_{name} - (i_{name} if i_{name} > 0 else 1)]",
                        f"if i_{name} > 0:",
                    ],
                )
                depth += 1
        decided = [f"held = held & (1 if {held} else 0)", f"would = would & (1 if {would} else 0)"]
        lines += _indented(depth, [*body.inside, *(decided if self.audits else decided[:1])])
        for name in reversed(walked):
            depth -= 1 if name in condition.running else 0
            lines += _indented(depth, body.running_step(name))
            depth -= 1
        standing = (
            f"(flags[flags_at + i] if held else {kernels.FAILING}) if would else 0" if self.audits else "1 if held else 0"
        )
        lines += _indented(3, [f"flags[flags_at + i] = {standing}"])
        self._lines += lines

    def merge_reads(self, tests: int) -> tuple[list[Read], list[int]]:
        """Per state (waiting for component c: c; in Kleene component c: length + c) what future conditions read of a run."""
        length = len(self.names)
        always: dict[Read, None] = dict.fromkeys((INTEGER, kernels.META + test, -1) for test in range(tests))
        reads: list[Read] = []
        bounds = [0]
        for state in range(2 * length):
            component = state % length
            wanted = dict(always)
            for (index, kind), found in self._reads.items():
                later = index > component or (
                    index == component and (state < length or kind in (SITE_TAKE, SITE_FURTHER, SITE_PROCEED))
                )
                if later:
                    wanted |= found
            reads += wanted
            bounds.append(len(reads))
        return reads, bounds

    def source(self) -> str:
        total = len(self.program.ints) + len(self.program.floats)
        return "\n".join([HEADER, *self._lines, "    return 0"]).replace("TOTAL", str(total)) + "\n"


def _indented(depth: int, lines: Sequence[str]) -> list[str]:
    return [f"{'    ' * depth}{line}" for line in lines]


class _SiteBody(FlatBody):
    """The conditions of one site: references resolve to the current event, to a slot of the run, or to a walked element."""

    def __init__(self, writer: _Writer, component: int, kind: int, walked: tuple[str, ...], prefix: str) -> None:
        super().__init__(writer.program, {}, 0, prefix)
        self._writer = writer
        self._layout = writer.layout
        self._component = component
        self._kind = kind
        self._walked = walked
        self._running: dict[str, list[tuple[tuple[int, ...], str]]] = {name: [] for name in walked}
        """Per walked variable the accumulators of `f(a[..i-1].x)`: (table row, local name)."""

    def in_loop(self, node: p.Expression) -> bool:
        references = (item for item in p.walk(node) if isinstance(item, p.Attribute | p.Aggregate | p.Length))
        return any(not isinstance(item, p.Attribute) or self._place(item)[0] != "row" for item in references)

    def reads_event(self, node: p.Expression) -> bool:
        """Whether a node reads the current event."""
        return any(isinstance(item, p.Attribute) and self._place(item)[0] == "row" for item in p.walk(node))

    def _place(self, node: p.Attribute) -> tuple[str, int | None]:
        """The source of the place of the event that a reference reads, and the slot it comes from."""
        variable, element = node.variable, node.element
        own = variable == self._writer.names[self._component]
        kleene = self._writer.bound.component(variable).is_kleene
        if not kleene:
            return ("row", None) if own and self._kind in (SITE_BEGIN, SITE_FIRST) else self._slot("place", variable)
        if element is p.Element.FIRST:
            return ("row", None) if own and self._kind in (SITE_BEGIN, SITE_FIRST) else self._slot("place", variable)
        if element is p.Element.LAST:
            return self._slot("last", variable)
        if variable in self._walked:
            return (f"p_{variable}" if element is p.Element.PREVIOUS else f"e_{variable}"), None
        return self._slot("last", variable) if element is p.Element.PREVIOUS else ("row", None)

    def _slot(self, what: str, variable: str) -> tuple[str, int]:
        slot = self._layout.integer(what, variable)
        return f"runs[at + {slot} * room + k]", slot

    def value(self, node: p.Expression) -> Value:
        if isinstance(node, p.Length):
            source, slot = self._slot("length", node.variable)
            self._writer.read(self._component, self._kind, (INTEGER, slot, -1))
            return self.name(source, node), "True", False
        if isinstance(node, p.Aggregate):
            return self._aggregate(node)
        return super().value(node)

    def place(self, reference: p.Attribute, matrix: str, row: int) -> str:
        place, slot = self._place(reference)
        if slot is not None:
            read = FLOAT_COLUMN if matrix == "floats" else INTEGER_COLUMN
            self._writer.read(self._component, self._kind, (read, slot, row))
        return place

    def lacks(self, reference: p.Attribute | p.Aggregate) -> str:
        if not isinstance(reference, p.Aggregate):
            return super().lacks(reference)
        row = self.number(lacking_column(reference))[1]
        cell = self._cells(reference, [(kernels.MAXIMUM, "lacks", row, row)])[0]
        return self.name(f"{cell} != 0", reference)

    # --- aggregates ---------------------------------------------------------------------------------------------------

    def _aggregate(self, node: p.Aggregate) -> Value:
        """An aggregate from its accumulators: of the run, or running along a walk."""
        function = node.function
        if function in (p.AggregateFunction.FIRST, p.AggregateFunction.LAST):
            return self._end(node)
        walked = node.variable in self._walked and node.element is p.Element.SO_FAR
        if node.name is None:
            if walked:
                return f"i_{node.variable}", "True", False
            return self.value(p.Length(node.variable))
        kind = kind_of(p.Attribute(node.variable, node.name), self._writer.bound.schema)
        matrix, row, _ = self.number(ColumnSpec(p.Attribute("", node.name), "", kind))
        is_float = matrix == "floats"
        operations: dict[p.AggregateFunction, list[tuple[int, str]]] = {
            p.AggregateFunction.COUNT: [],
            p.AggregateFunction.SUM: [(kernels.FLOAT_SUM if is_float else kernels.SUM, "sum")],
            p.AggregateFunction.AVG: [(kernels.FLOAT_SUM if is_float else kernels.SUM, "sum")],
            p.AggregateFunction.MIN: [(kernels.FLOAT_MINIMUM if is_float else kernels.MINIMUM, "min")],
            p.AggregateFunction.MAX: [(kernels.FLOAT_MAXIMUM if is_float else kernels.MAXIMUM, "max")],
            p.AggregateFunction.STDDEV: [(kernels.MEAN if is_float else kernels.INTEGER_MEAN, "mean")],
        }
        wanted = [(operation, what, row, self._valid_row(matrix, row)) for operation, what in operations[function]]
        cells = self._cells(node, [*wanted, (kernels.COUNT_VALID, "count", row, self._valid_row(matrix, row))])
        count = self.name(cells[-1], node)
        known = self.name(f"{count} > 0", node)
        if function is p.AggregateFunction.COUNT:
            return count, "True", False
        value = self.name(cells[0], node)
        if function in (p.AggregateFunction.SUM, p.AggregateFunction.AVG) and not is_float:
            wraps = self.name(cells[1], node)
            if function is p.AggregateFunction.SUM:
                self._fail(f"{wraps} != 0", node)
            else:
                # Two exact sums of floats, then one that rounds.
                value = self.name(f"({wraps} * {2.0**64} + ({value} >> 32) * {2.0**32}) + ({value} & {2**32 - 1})", node)
        if function is p.AggregateFunction.AVG:
            return self.name(f"{value} / ({count} if {count} > 0 else 1)", node), known, True
        if function is p.AggregateFunction.STDDEV:
            spread = self.name(f"np.sqrt({cells[1]} / ({count} - 1 if {count} > 1 else 1))", node)
            return spread, self.name(f"{count} > 1", node), True
        return value, known, is_float

    def _end(self, node: p.Aggregate) -> Value:
        """`first` and `last` are attributes of one element."""
        assert node.name is not None
        element = p.Element.FIRST
        if node.function is p.AggregateFunction.LAST:
            element = p.Element.PREVIOUS if node.element is p.Element.SO_FAR else p.Element.LAST
        return self._column(p.Attribute(node.variable, node.name, element))

    def _valid_row(self, matrix: str, row: int) -> int:
        """The row of a column's validity; negative from the end."""
        return -row - 1 if matrix == "floats" else row

    def _cells(self, node: p.Aggregate, wanted: list[tuple[int, str, int, int]]) -> list[str]:
        """The sources of accumulators: (operation, what, column, validity) each; the count comes last and is updated last.

        The mean has a second cell, the sum of squared deviations, and so has a sum of integers: how often it left 64 bits at
        the upper end, less how often at the lower.
        """
        floats = (kernels.FLOAT_SUM, kernels.FLOAT_MINIMUM, kernels.FLOAT_MAXIMUM, kernels.MEAN, kernels.INTEGER_MEAN)
        key = (node.variable, node.name)
        walked = node.variable in self._walked and node.element is p.Element.SO_FAR
        layout, index = self._layout, self._writer.names.index(node.variable)
        count = -1 if wanted[0][1] == "lacks" else layout.integer("count", *key)
        found: list[str] = []
        for operation, what, column, validity in wanted:
            is_float = operation in floats
            further = -1
            if what == "count":
                slot = count
            else:
                slot = layout.floating(what, *key) if is_float else layout.integer(what, *key)
            if what == "mean":
                further = layout.floating("squares", *key)
            if operation == kernels.SUM:
                further = layout.integer("wraps", *key)
            entry = (operation, column, validity, slot, count, further)
            if walked:
                local = f"{self.prefix}{what}_{node.variable}_{column}"
                if (entry, local) not in self._running[node.variable]:
                    self._running[node.variable].append((entry, local))
                found.append(local)
                if what == "mean":
                    found.append(f"{local}_squares")
                if operation == kernels.SUM:
                    found.append(f"{local}_wraps")
                continue
            entries = layout.accumulators.setdefault(index, [])
            if entry not in entries:
                # A count is what tells whether the others have a value yet, so it is updated after them.
                entries.append(entry)
                entries.sort(key=lambda item: item[0] == kernels.COUNT_VALID)
            # Most aggregates read only whether there is a value: max() is the same after two elements as after three.
            exact = what != "count" or node.function in COUNTED
            read = FLOAT if is_float else INTEGER if exact else POSITIVE
            self._writer.read(self._component, self._kind, (read, slot, -1))
            found.append(f"run_floats[floats_at + {slot} * room + k]" if is_float else f"runs[at + {slot} * room + k]")
            if what == "mean":
                self._writer.read(self._component, self._kind, (FLOAT, further, -1))
                found.append(f"run_floats[floats_at + {further} * room + k]")
            if operation == kernels.SUM:
                self._writer.read(self._component, self._kind, (INTEGER, further, -1))
                found.append(f"runs[at + {further} * room + k]")
        return found

    def running_start(self, variable: str) -> list[str]:
        """The running aggregates of a walked variable before its first element."""
        return [line for entry, local in self._running[variable] for line in _START[entry[0]](local)]

    def running_step(self, variable: str) -> list[str]:
        """Updates the running aggregates of a walked variable with the element just passed."""
        lines: list[str] = []
        entries = sorted(self._running[variable], key=lambda item: item[0][0] == kernels.COUNT_VALID)
        for entry, local in entries:
            operation, column, validity = entry[:3]
            matrix = (
                "floats"
                if operation in (kernels.FLOAT_SUM, kernels.FLOAT_MINIMUM, kernels.FLOAT_MAXIMUM, kernels.MEAN)
                else "ints"
            )
            row = f"(TOTAL + {validity})" if validity < 0 else str(validity)
            count = next((name for item, name in entries if item[0] == kernels.COUNT_VALID and item[1] == column), "1")
            x = f"{matrix}[{column} * rows + e_{variable}]"
            lines += [f"if valid[{row} * rows + e_{variable}] != 0:", *_indented(1, _STEP[operation](local, x, count))]
        return lines


_START: dict[int, Callable[[str], list[str]]] = {
    kernels.COUNT_VALID: lambda local: [f"{local} = 0"],
    kernels.SUM: lambda local: [f"{local} = 0", f"{local}_wraps = 0"],
    kernels.MINIMUM: lambda local: [f"{local} = 0"],
    kernels.MAXIMUM: lambda local: [f"{local} = 0"],
    kernels.FLOAT_SUM: lambda local: [f"{local} = 0.0"],
    kernels.FLOAT_MINIMUM: lambda local: [f"{local} = 0.0"],
    kernels.FLOAT_MAXIMUM: lambda local: [f"{local} = 0.0"],
    kernels.MEAN: lambda local: [f"{local} = 0.0", f"{local}_squares = 0.0"],
    kernels.INTEGER_MEAN: lambda local: [f"{local} = 0.0", f"{local}_squares = 0.0"],
}


def _extreme(sign: str) -> Callable[[str, str, str], list[str]]:
    return lambda local, x, count: [f"{local} = {x} if ({count} == 0) | ({x} {sign} {local}) | ({x} != {x}) else {local}"]


def _wrapping(local: str, x: str) -> list[str]:
    return [
        f"{local}_before = {local}",
        f"{local} = {local} + {x}",
        f"if (({local}_before ^ {local}) & ({x} ^ {local})) < 0:",
        f"    {local}_wraps = {local}_wraps + (1 if {x} > 0 else -1)",
    ]


def _mean(local: str, x: str, count: str) -> list[str]:
    return [
        f"{local}_before = {local}",
        f"{local} = {local} + ({x} - {local}) / ({count} + 1)",
        f"{local}_squares = {local}_squares + ({x} - {local}_before) * ({x} - {local})",
    ]


_STEP: dict[int, Callable[[str, str, str], list[str]]] = {
    kernels.COUNT_VALID: lambda local, _x, _count: [f"{local} = {local} + 1"],
    kernels.SUM: lambda local, x, _count: _wrapping(local, x),
    kernels.FLOAT_SUM: lambda local, x, _count: [f"{local} = {local} + {x}"],
    kernels.MINIMUM: _extreme("<"),
    kernels.FLOAT_MINIMUM: _extreme("<"),
    kernels.MAXIMUM: _extreme(">"),
    kernels.FLOAT_MAXIMUM: _extreme(">"),
    kernels.MEAN: _mean,
    kernels.INTEGER_MEAN: _mean,
}
