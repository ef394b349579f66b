"""The runs of an automaton, event by event, as in Figures 4 to 6 of SASE+, for any query over a small table.

After each event a `Step` has the live runs (version number, state, start, selected events, the values that later conditions
read) and the shared match buffer: per state a stack of selected events with their predecessor pointers, labelled with the
version of the run that set them. The steps come from the engine's own kernel, which is fed one event at a time.

A version is a Dewey number with a digit per state: `2.1.0` is the second start, split once at the second state. The kernel
names the node that a pointer leads to, so it never searches for compatible versions; tests use `compatible` to check that they
would lead to the same events. Two readings: a run that stays at a state from which another proceeds takes the next digit
(Figure 4); under skip_till_any_match the two runs of a take share one, so there a version does not identify a single run.

Cost: per event, all live runs and all paths through the buffer.
"""

# ruff: noqa: SLF001 - an inspector looks inside the engine

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from kleene.common.arrays import Array
from kleene.common.columns import time_values
from kleene.common.errors import DataError, PlanningError, Problem
from kleene.engine.automaton.automaton_pass import AutomatonPass
from kleene.engine.automaton.evaluation import AutomatonEvaluation
from kleene.engine.automaton.kernels import layout as kernels
from kleene.engine.automaton.kernels.layout import FLOAT, FLOAT_COLUMN, INTEGER_COLUMN, Buffer, Policy
from kleene.engine.automaton.kernels.merging import merge_touched
from kleene.engine.automaton.kernels.nfa import run_automaton
from kleene.engine.automaton.run_buffer import RunBuffer
from kleene.engine.automaton.run_program import RunProgram
from kleene.engine.expressions.filters import Program
from kleene.engine.passes.reporting import PatternMatcher
from kleene.engine.passes.working_matcher import BLOCK
from kleene.explain.automata import state_names
from kleene.pattern.predicates import Attribute
from kleene.plan.contract import Plan
from kleene.plan.patterns import NfaPlan, runs_automata

Version = tuple[int, ...]

MOST_EVENTS = 1_000
"""Maximum number of events: a longer trace is not readable."""

MOST_HISTORIES = 100
"""Maximum number of histories listed for a merged run."""

NEVER = -(1 << 60)
"""A count of live runs that the kernel never brings back to zero, so that runs survive the end of its input."""


@dataclass(frozen=True, slots=True)
class History:
    """The events that a run has selected, with its versions."""

    version: Version
    versions: tuple[Version, ...]
    """All versions from the start on: one per selected event, and one where the run left a Kleene state."""
    selected: Mapping[str, tuple[str, ...]]
    """Variable to its events."""

    @property
    def events(self) -> tuple[str, ...]:
        """The selected events in order."""
        return tuple(event for events in self.selected.values() for event in events)


@dataclass(frozen=True, slots=True)
class Run:
    """A live run (Figure 5): its computation state."""

    alternative: int
    """The number of the alternative, from 1 on."""
    partition: Mapping[str, Any]
    state: str
    start: str
    """The event that started it; of merged runs, the youngest."""
    values: Mapping[str, Any]
    """V: the values that conditions may still read, by name: `sum(a.price)`, `last(a.volume)`."""
    merged: int
    """The number of runs it stands for."""
    histories: tuple[History, ...]
    """Those runs, the youngest first, at most MOST_HISTORIES."""

    @property
    def version(self) -> Version:
        return self.histories[0].version

    @property
    def selected(self) -> Mapping[str, tuple[str, ...]]:
        return self.histories[0].selected

    def row(self) -> dict[str, Any]:
        """The run as names and values, as case files write them."""
        own = {"version": version_text(self.version), "state": self.state, "start": self.start, "merged": self.merged}
        return {**own, **{name: list(events) for name, events in self.selected.items()}, **self.partition, **self.values}

    def __str__(self) -> str:
        shown = [f"start={self.start}", *(f"{name}=[{','.join(events)}]" for name, events in self.selected.items())]
        shown += [f"{name}={value}" for name, value in (*self.partition.items(), *self.values.items())]
        if self.merged > 1:
            shown.append(f"merged={self.merged} ({', '.join(version_text(item.version) for item in self.histories)})")
        return f"{version_text(self.version)} {self.state} {' '.join(shown)}"


@dataclass(frozen=True, slots=True)
class Pointer:
    """The predecessor of an event in a stack; the first event of a run has none."""

    version: Version
    predecessor: str | None
    stack: str | None
    """The state whose stack the predecessor is in."""

    def __str__(self) -> str:
        return version_text(self.version) + (f"->{self.predecessor}@{self.stack}" if self.predecessor else "")


@dataclass(frozen=True, slots=True)
class Entry:
    """An event in the stack of a state, with the pointers of all runs that selected it there."""

    event: str
    pointers: tuple[Pointer, ...]

    def __str__(self) -> str:
        return f"{self.event}({' '.join(map(str, self.pointers))})"


@dataclass(frozen=True, slots=True)
class Step:
    """The runs and the buffer after an event."""

    event: str
    runs: tuple[Run, ...]
    accepted: tuple[History, ...]
    """Runs that the event brought to F, before negation and NON-OVERLAP."""
    buffer: tuple[Mapping[str, tuple[Entry, ...]], ...]
    """Per alternative: state to its stack."""

    def stacks(self) -> list[str]:
        """The stacks that are not empty, a line each."""
        found = [item for stacks in self.buffer for item in stacks.items()]
        return [f"{state}: {' '.join(map(str, stack))}" for state, stack in found if stack]

    def __str__(self) -> str:
        lines = [self.event, *(f"  run {run}" for run in self.runs)]
        lines += [f"  accepted {version_text(item.version)}: {' '.join(item.events)}" for item in self.accepted]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Trace:
    """All steps of a table."""

    steps: tuple[Step, ...]

    def after(self, event: str) -> Step:
        return next(step for step in self.steps if step.event == event)

    def __str__(self) -> str:
        lines = [str(step) for step in self.steps]
        if self.steps:
            lines += ["buffer", *(f"  {line}" for line in self.steps[-1].stacks())]
        return "\n".join(lines)


def version_text(version: Version) -> str:
    """A version as the paper writes it.

    >>> version_text((1, 0, 0))
    '1.0.0'
    """
    return ".".join(map(str, version))


def compatible(version: Version, ancestor: Version) -> bool:
    """Whether a run can derive from another (section 5.1): the other's version is a prefix of its own, or differs from it in
    the last digit only, which is smaller.

    >>> compatible((1, 0, 0), (1, 0)), compatible((1, 1), (1, 0)), compatible((2, 0, 0), (1, 0))
    (True, True, False)
    """
    if version[: len(ancestor)] == ancestor:
        return True
    return len(version) == len(ancestor) and version[:-1] == ancestor[:-1] and version[-1] > ancestor[-1]


def is_chain(versions: Sequence[Version]) -> bool:
    """Whether each version is compatible with the one before it."""
    return all(compatible(later, earlier) for earlier, later in pairwise(versions))


def trace(plan: Plan, table: pa.Table, *, label: str | None = None) -> Trace:
    """The steps of a plan over a table in stream order.

    Events are called e1, e2, ... by their row, or by their values in the column `label`. A plan with backtracking is shown as
    the basic algorithm, with all of its runs at once.
    """
    if not runs_automata(plan):
        message = "a trace shows the runs of an automaton, and this plan has none"
        raise PlanningError(Problem(message, hint="force one: plan={'mechanism': 'nfa'}"))
    if table.num_rows > MOST_EVENTS:
        raise DataError(f"a trace is for reading: it takes {MOST_EVENTS:,} events at most, not {table.num_rows:,}")
    if table.num_rows == 0:
        return Trace(())
    names = [f"e{row + 1}" for row in range(table.num_rows)] if label is None else list(map(str, table[label].to_pylist()))
    stream = _Stream(plan, table, names)
    alternatives = [_Alternative(stream, index) for index in range(len(plan.branches))]
    return Trace(tuple(_step(stream, alternatives, row) for row in range(table.num_rows)))


def _step(stream: _Stream, alternatives: list[_Alternative], row: int) -> Step:
    place = stream.place_of.get(row)
    accepted: list[History] = []
    for alternative in alternatives if place is not None else ():
        assert place is not None
        accepted += alternative.advance(place)
    runs = [run for alternative in alternatives for run in alternative.runs(row)]
    return Step(stream.names[row], tuple(runs), tuple(accepted), tuple(item.stacks(row) for item in alternatives))


class _Stream:
    """The input of the kernel: one pass of the engine over the whole table."""

    def __init__(self, plan: NfaPlan, table: pa.Table, names: list[str]) -> None:
        self.plan = plan
        self.table = table
        self.names = names
        (batch,) = table.combine_chunks().to_batches()
        evaluation = AutomatonEvaluation(plan)
        self.automata = evaluation.automata
        matcher = PatternMatcher(evaluation, table.schema)
        rows, masks = matcher._relevant(batch)
        matcher._working.add(batch, rows, masks)
        begun = (matcher._working, 0, matcher.metrics, matcher.allowance, BLOCK)
        self.engine = evaluation.begin(*begun) if rows.size else None
        self.row_of: list[int] = rows.take(self.engine.groups.order).tolist() if self.engine else []
        """Row of the table by place."""
        self.place_of = {row: place for place, row in enumerate(self.row_of)}
        schema = plan.bound.schema
        self.time = time_values(table.column(schema.time).combine_chunks(), schema.time_unit)

    def name(self, place: int) -> str:
        return self.names[self.row_of[place]]

    def value(self, attribute: str, place: int) -> Any:
        return self.table.column(attribute)[self.row_of[place]].as_py()

    def is_alive(self, start: int, row: int, latest: int) -> bool:
        """Whether a run that started at a place may still select an event after a row; `latest` is its segment's last place."""
        engine, window = self.engine, self.plan.bound.window
        assert engine is not None
        if self.plan.bound.count_window is not None:
            return bool(engine.clock[latest] - engine.clock[start] < engine.window)
        return window is None or bool(self.time[row] - engine.ts[start] < window)


@dataclass(frozen=True, slots=True)
class _Value:
    """A column of V: its name, its component, and its location."""

    name: str
    component: int
    kind: int
    slot: int
    column: int
    wraps: int = -1
    """For a sum the slot that counts its overflows of 64 bits."""


class _Alternative:
    """One automaton: the runs and nodes of each partition."""

    def __init__(self, stream: _Stream, index: int) -> None:
        self._stream = stream
        self._index = index
        self._plan = stream.plan.branches[index]
        self._program = stream.automata.programs[index]
        self._states = [state_names(component.event) for component in self._plan.automaton.components]
        self._values = _values(self._program, stream.automata.columns)
        self._buffers: dict[int, Any] = {}
        """By segment."""
        self._starts: dict[int, int] = {}
        """The number of runs started in each segment."""
        self._latest: dict[int, int] = {}
        """The last place visited in each segment."""

    # --- the kernel ---------------------------------------------------------------------------------------------------

    def advance(self, place: int) -> list[History]:
        """Feeds the kernel one event, and returns the accepted runs."""
        engine, program = self._stream.engine, self._program
        assert engine is not None
        segment = int(np.searchsorted(engine.groups.offsets, place, side="right")) - 1
        if segment not in self._buffers:
            self._buffers[segment] = RunBuffer(program, MOST_EVENTS, MOST_EVENTS, backtrack=False)
            self._starts[segment] = 0
        buffer = self._buffers[segment]
        self._latest[segment] = place
        self._make_room(buffer)
        state = buffer.state
        state[[kernels.SEGMENT, kernels.POSITION, kernels.FOUND]] = 0, place, 0
        state[[kernels.LIVE, kernels.STARTS]] = NEVER, self._starts[segment]
        # The kernel restarts the count of starts in each call, as for a new partition.
        self._starts[segment] += int(engine.groups.masks[place] >> program.nfa.components[kernels.BEGIN_BIT, 0]) & 1
        policy = engine.policy(self._index, 0)
        self._call(engine, buffer, place, policy)
        if self._plan.merges:
            state[kernels.LIVE] = buffer.runs.counts.sum()
            merge_touched(place, policy, engine.by_place, program.nfa, buffer.runs, buffer.nodes, state, engine.filled)
        found = buffer.found[kernels.FOUND_NODE, : state[kernels.FOUND]].tolist()
        row = self._stream.row_of[place]
        return [self._history(buffer, path) for node in found for path in self._paths(buffer, node, row, place)]

    def _call(self, engine: AutomatonPass, buffer: RunBuffer, place: int, policy: Policy) -> None:
        """Runs the basic algorithm on all runs of a segment and one event."""
        run_automaton(
            engine.by_place._replace(offsets=np.array([place, place + 1])),
            policy._replace(algorithm=kernels.BASIC),
            self._program.nfa,
            buffer.runs,
            buffer.postponed,
            Buffer(buffer.nodes, buffer.found),
            np.zeros(1, np.int64),
            buffer.state,
            self._program.filter,
            engine.filled,
        )

    def _make_room(self, buffer: Any) -> None:
        live = int(buffer.runs.counts.sum())
        while 2 * live + 2 > buffer.runs.slots.shape[2]:
            buffer.grow_runs()
        while buffer.state[kernels.USED] + 4 * live + 4 > buffer.nodes.shape[1]:
            buffer.grow_nodes()
        if live + 2 > buffer.found.shape[1]:
            buffer.grow_found(2 * live + 2)

    # --- its state ----------------------------------------------------------------------------------------------------

    def runs(self, row: int) -> Iterator[Run]:
        """The live runs after a row of the table, by partition, the most advanced last."""
        length = len(self._states)
        for segment, buffer in sorted(self._buffers.items()):
            for step in range(2 * length):
                component, is_open = divmod(step, 2)
                s = length + component if is_open else component
                for k in range(int(buffer.runs.counts[s])):
                    if self._stream.is_alive(int(buffer.runs.slots[s, kernels.START, k]), row, self._latest[segment]):
                        yield self._run(buffer, s, k, row, self._latest[segment])

    def _run(self, buffer: Any, s: int, k: int, row: int, latest: int) -> Run:
        stream, length = self._stream, len(self._states)
        component, is_open = s % length, s >= length
        slots, numbers = buffer.runs.slots[s, :, k], buffer.runs.floats[s, :, k]
        digit = int(slots[kernels.DIGIT_OF_RUN])
        paths = self._paths(buffer, int(slots[kernels.NODE]), row, latest)
        count = self._count(buffer, int(slots[kernels.NODE]), row, latest)
        start = int(slots[kernels.START])
        histories = [self._history(buffer, path, digit) for path in islice(paths, MOST_HISTORIES)]
        histories.sort(key=lambda item: item.events[0] != stream.name(start))
        begun = component if is_open else component - 1
        values = {item.name: self._value(item, slots, numbers) for item in self._values if item.component <= begun}
        names = (*stream.plan.partition, *stream.plan.tests)
        partition = {name: stream.value(name, start) for name in names}
        state = self._states[component][1 if is_open else 0]
        return Run(self._index + 1, partition, state, stream.name(start), values, count, tuple(histories))

    def _value(self, item: _Value, slots: Array, numbers: Array) -> Any:
        if item.kind == FLOAT:
            return float(numbers[item.slot])
        word = int(slots[item.slot]) + (int(slots[item.wraps]) << 64 if item.wraps >= 0 else 0)
        if item.kind not in (INTEGER_COLUMN, FLOAT_COLUMN):
            return word
        engine = self._stream.engine
        assert engine is not None
        columns, is_float = self._stream.automata.columns, item.kind == FLOAT_COLUMN
        spec = (columns.floats if is_float else columns.ints)[item.column]
        if isinstance(spec.expression, Attribute):
            return self._stream.value(spec.expression.name, word)
        ints, floats, *_ = engine.filled
        return float(floats[item.column, word]) if is_float else int(ints[item.column, word])

    def _paths(self, buffer: Any, node: int, row: int, latest: int) -> Iterator[list[int]]:
        """All paths from a first event to a node; at a union of two, that of the youngest start first."""
        nodes = buffer.nodes
        waiting: list[tuple[int, list[int]]] = [(node, [])]
        while waiting:
            node, after = waiting.pop()
            if not self._stream.is_alive(int(nodes[kernels.YOUNGEST, node]), row, latest):
                continue
            before = int(nodes[kernels.PREVIOUS, node])
            if nodes[kernels.EVENT, node] < 0:
                both = sorted((before, int(nodes[kernels.OTHER, node])), key=lambda item: int(nodes[kernels.YOUNGEST, item]))
                waiting += [(item, after) for item in both]
            elif before >= 0:
                waiting.append((before, [node, *after]))
            else:
                yield [node, *after]

    def _count(self, buffer: Any, node: int, row: int, latest: int) -> int:
        """The number of these paths."""
        nodes, counts = buffer.nodes, [0] * (node + 1)
        for item in range(node + 1):  # nodes name earlier ones only
            if not self._stream.is_alive(int(nodes[kernels.YOUNGEST, item]), row, latest):
                continue
            before, other = int(nodes[kernels.PREVIOUS, item]), int(nodes[kernels.OTHER, item])
            counts[item] = (counts[before] if before >= 0 else 1) + (counts[other] if other >= 0 else 0)
        return counts[node]

    def _history(self, buffer: Any, path: list[int], digit: int | None = None) -> History:
        """The versions and events of a path; `digit` is that of the run at its current state."""
        versions, prefix = self._versions(buffer, path)
        if digit is not None:
            versions.append((*prefix, digit))
        selected: dict[str, list[str]] = {}
        for node in path:
            variable = self._program.variables[int(buffer.nodes[kernels.COMPONENT, node])]
            selected.setdefault(variable, []).append(self._stream.name(int(buffer.nodes[kernels.EVENT, node])))
        return History(versions[-1], tuple(versions), {name: tuple(events) for name, events in selected.items()})

    def _versions(self, buffer: Any, path: list[int]) -> tuple[list[Version], Version]:
        """The versions along a path, and the prefix of the last one that its state shares."""
        nodes, versions = buffer.nodes, []
        prefix: Version = ()
        before = -1
        for node in path:
            component, digit = int(nodes[kernels.COMPONENT, node]), int(nodes[kernels.DIGIT, node])
            if component == before:
                versions.append((*prefix, digit))
                continue
            if nodes[kernels.FORK, node] >= 0:
                prefix = (*prefix, int(nodes[kernels.FORK, node]))
                versions.append(prefix)
            prefix = (*prefix, digit)
            versions.append(prefix)
            before = component
        return versions, prefix

    def stacks(self, row: int) -> dict[str, tuple[Entry, ...]]:
        """The shared buffer: the events in the stack of each state, in stream order, while they are in the window."""
        found: dict[str, dict[int, dict[Pointer, None]]] = {name: {} for names in self._states for name in names}
        for segment, buffer in self._buffers.items():
            nodes = buffer.nodes
            for node in range(int(buffer.state[kernels.USED])):
                place = int(nodes[kernels.EVENT, node])
                if place < 0 or not self._stream.is_alive(place, row, self._latest[segment]):
                    continue
                for path in islice(self._paths(buffer, node, row, self._latest[segment]), MOST_HISTORIES):
                    pointers = found[self._stack(buffer, path, len(path) - 1)].setdefault(self._stream.row_of[place], {})
                    pointers[self._pointer(buffer, path)] = None
        return {
            state: tuple(Entry(self._stream.names[event], tuple(pointers)) for event, pointers in sorted(stack.items()))
            for state, stack in found.items()
        }

    def _pointer(self, buffer: Any, path: list[int]) -> Pointer:
        version = self._versions(buffer, path)[0][-1]
        if len(path) == 1:
            return Pointer(version, None, None)
        predecessor = self._stream.name(int(buffer.nodes[kernels.EVENT, path[-2]]))
        return Pointer(version, predecessor, self._stack(buffer, path, len(path) - 2))

    def _stack(self, buffer: Any, path: list[int], at: int) -> str:
        """The state from which an event of a path was selected."""
        component = int(buffer.nodes[kernels.COMPONENT, path[at]])
        further = at > 0 and int(buffer.nodes[kernels.COMPONENT, path[at - 1]]) == component
        return self._states[component][1 if further else 0]


def _values(program: RunProgram, columns: Program) -> list[_Value]:
    """The values that conditions read of a run, with their names."""
    by_slot = {entry: _owned(program, what) for what, entry in program.slots.items()}
    found: dict[str, _Value] = {}
    for kind, slot, column in program.nfa.merge_reads.tolist():
        owned = by_slot.get(("floats" if kind == FLOAT else "integers", slot))
        if owned is None:
            continue  # the code of an equivalence test: the run's partition
        what, component, attribute = owned
        if what == "wraps":
            continue  # a part of the sum
        name = _value_name(program, columns, owned, kind, column)
        wraps = program.slots.get(f"wraps {program.variables[component]} {attribute}") if what == "sum" else None
        found.setdefault(name, _Value(name, component, kind, slot, column, -1 if wraps is None else wraps[1]))
    return list(found.values())


def _owned(program: RunProgram, slot: str) -> tuple[str, int, str]:
    """(what, component, attribute) of the name of a slot; the attribute may be empty."""
    what, _, rest = slot.partition(" ")
    fitting = [name for name in program.variables if rest == name or rest.startswith(f"{name} ")]
    variable = max(fitting, key=len)
    return what, program.variables.index(variable), rest[len(variable) + 1 :]


def _value_name(program: RunProgram, columns: Program, owned: tuple[str, int, str], kind: int, read: int) -> str:
    what, component, attribute = owned
    variable = program.variables[component]
    if kind in (INTEGER_COLUMN, FLOAT_COLUMN):
        spec = (columns.floats if kind == FLOAT_COLUMN else columns.ints)[read]
        name = spec.expression.name if isinstance(spec.expression, Attribute) else f"column{read}"
        name += "?" if spec.lacks else ""
        if what == "last":
            return f"last({variable}.{name})"
        return f"{variable}[1].{name}" if program.kleene[component] else f"{variable}.{name}"
    if what == "length":
        return f"{variable}.LEN"
    return f"{what}({variable}.{attribute})" if attribute else f"{what}({variable})"
