"""One pass of lazy evaluation over a working set: blocks of partial matches, extended by one component after the other.

Depth first, a block at a time: memory is a block per component. A chain binds components in one order; a tree lets every
partial match choose the next. Different stretches of rows may be asked for by different orders (`Stretch`): a match belongs to
the stretch in which its last event lies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from weakref import proxy

import numpy as np
import pyarrow as pa

from kleene.common.arrays import Array
from kleene.common.schema import Kind
from kleene.engine.allowance import Allowance
from kleene.engine.events.kernels import windows
from kleene.engine.events.kernels.tables import Stream
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.expressions.filters import ColumnSpec
from kleene.engine.lazy.kernels import chain as kernels
from kleene.engine.lazy.kernels import extension
from kleene.engine.lazy.look_up import NOTHING, LookUp
from kleene.engine.lazy.program import LENGTH, NODE, LazyProgram, Step, build_lazy
from kleene.engine.matcher import Metrics
from kleene.engine.matches.match_values import MatchEvaluator, MatchRows
from kleene.engine.matches.matches import Matches
from kleene.engine.passes.filter_values import fill_columns
from kleene.engine.passes.working_pass import NEGATIVE, WorkingPass
from kleene.pattern.predicates import Attribute
from kleene.plan.lazy.choice import WORTH_SHARING, worth_tables
from kleene.plan.lazy.lazy import LazyBranch
from kleene.plan.patterns import LazyPlan

BLOCK = 1 << 15
"""How many partial matches are extended at a time."""

TRIED = 16
"""Share of the first partial matches (one in N) with which the number of scopes to look up is estimated."""

WORTH_TRYING = 1 << 16
"""With fewer events tables of scopes cost little more than trying."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows, and how the matches that end with one of them are found."""

    first: int
    last: int
    """The row after the last."""
    order: tuple[int, ...]
    """Components in the order of binding; a tree begins with the first and then goes its own way."""
    tree: bool = False
    shares: tuple[float, ...] = ()
    """Of a tree: the selectivity of each condition."""


class Programs:
    """The branches of a plan, ready to run."""

    def __init__(self, plan: LazyPlan) -> None:
        self.plan = plan
        self.bits = {
            (event.variable, NEGATIVE if event.negated else "positive"): bit for bit, (event, _) in enumerate(plan.scanned)
        }
        self.columns, self.programs = build_lazy(plan.bound, plan.branches)

    def bits_of(self, index: int) -> Array:
        """The bit of each component of a branch."""
        return np.array([self.bits[variable, "positive"] for variable in self.programs[index].variables], np.int64)


@dataclass(slots=True)
class Block:
    """Partial matches: a column of `parts` each; in a tree `sets` has its bound components, and the one bound last."""

    count: int
    parts: Array
    sets: Array

    @staticmethod
    def empty(width: int, room: int, *, tree: bool) -> Block:
        return Block(0, np.empty((width, room), np.int32), np.empty((2, room if tree else 0), np.int64))

    def keep(self, held: Array) -> None:
        """Drops the partial matches where the mask is false."""
        if held.all():
            return
        chosen = np.flatnonzero(held)
        self.parts[:, : chosen.size] = self.parts[:, chosen]
        if self.sets.size:
            self.sets[:, : chosen.size] = self.sets[:, chosen]
        self.count = int(chosen.size)


class Nodes:
    """Chains of the elements of Kleene components: the place of each, and the node before it."""

    def __init__(self) -> None:
        self.place = np.empty(1 << 10, np.int32)
        self.before = np.empty(1 << 10, np.int32)
        self.used = 0

    def add(self, places: Array, before: Array) -> Array:
        """Nodes for elements that follow the given ones (-1: none)."""
        end = self.used + places.size
        if end > self.place.size:
            room = max(end, 2 * self.place.size)
            self.place, self.before = (np.resize(array, room) for array in (self.place, self.before))
        self.place[self.used : end] = places
        self.before[self.used : end] = before
        added = np.arange(self.used, end, dtype=np.int32)
        self.used = end
        return added


class LazyPass(WorkingPass):
    """One pass of a lazy plan over a working set."""

    def __init__(
        self,
        programs: Programs,
        stretches: Callable[[int], Sequence[Stretch]],
        working: WorkingSet,
        metrics: Metrics,
        allowance: Allowance,
        block: int,
    ) -> None:
        """`stretches` are those of an alternative, asked for when its matches are."""
        super().__init__(programs.plan, working, metrics, block, programs.bits)
        self._plan: LazyPlan = programs.plan
        self._stretches = stretches
        self.allowance = allowance
        self.plan, self.working, self.metrics = programs.plan, working, metrics
        self._programs = programs
        self.room = min(block, BLOCK)
        rows = len(working)
        self.filled = fill_columns(programs.columns, rows, self._filter_column, self.groups.rows)
        self.earliest = self._earliest()
        parts = self.groups.offsets.size - 1
        self.segments = np.empty(rows if parts > 1 else 0, np.int32)
        if parts > 1:
            windows.number_segments(self.groups.offsets, self.segments)
        self.stream = Stream(self.groups.offsets, self.segments, self.clock, self.rank, self.order_matters)
        self.wanted = np.empty((2, parts), np.int64)
        """Per segment the places that matches may end with."""
        self._tables: Array | None = None
        self._branches: dict[int, BranchRun] = {}
        counts = programs.plan.options.evaluation != "auto"
        self.alive = np.zeros(rows + 1 if counts else 0, np.int64)
        if counts:
            metrics.peak_buffered = max(metrics.peak_buffered, int(windows.widest(working.ts, self.window)))

    def _earliest(self) -> int | None:
        """The time of the earliest event that a later match may have; None if every event is a match by itself."""
        branches = self._plan.branches
        if all(len(branch.components) == 1 and not branch.components[0].is_kleene for branch in branches):
            return None
        return self._earliest_in(self.window)

    def may_exceed(self, most: int) -> bool:
        """Whether an event could complete more than `most` matches: of every other component, all events of a window."""
        branches = self._plan.branches
        if any(event.is_kleene for branch in branches for event in branch.components):
            return True
        others = max(len(branch.components) for branch in branches) - 1
        alternatives = most // (len(branches) * max(map(_places, branches)))
        if not others or not alternatives:
            return not alternatives
        width = int(alternatives ** (1 / others))
        while width**others > alternatives:  # the root is rounded
            width -= 1
        return bool(windows.is_wider(self.groups.offsets, self.clock, self.window, width))

    def matches(self, index: int, emit_from: int) -> Iterator[Matches]:  # noqa: ARG002 - the stretches begin there
        """The matches of a branch, in blocks, before negation."""
        run = self.branch(index)
        for stretch in self._stretches(index):
            windows.ask(self.groups.offsets, self.groups.order, stretch.first, stretch.last, self.wanted)
            yield from run.matches(stretch)
        self._metrics.peak_instances = max(self._metrics.peak_instances, int(self.alive.cumsum().max(initial=0)))
        self.alive[:] = 0

    def branch(self, index: int) -> BranchRun:
        """The search for the matches of a branch."""
        if index not in self._branches:
            self._branches[index] = BranchRun(self, self._programs.programs[index], self._programs.bits_of(index))
        return self._branches[index]

    def bounds(self, *, tabled: bool) -> Array:
        """The table of what each event allows others to be; an empty one if it is not worth making."""
        if not tabled:
            return np.empty((windows.BOUNDS, 0), np.int32)
        if self._tables is None:
            self._tables = np.empty((windows.BOUNDS, len(self._working)), np.int32)
            windows.prepare(self.groups.offsets, self.clock, self.rank, self.window, self._tables)
        return self._tables

    def ranks(self, name: str, places: Array) -> pa.Array:
        """Texts that the filters compare, as integers in the same order."""
        row = self._programs.columns.ints.index(ColumnSpec(Attribute("", name), "", Kind.STRING))
        return pa.array(self.filled.ints[row].take(places), mask=self.filled.valid[row].take(places) == 0)

    def segment_of(self, places: Array) -> Array:
        """The segment of each place."""
        return self.segments.take(places) if self.segments.size else np.zeros(places.size, np.int32)


class BranchRun:
    """The search for the matches of one branch."""

    def __init__(self, run: LazyPass, program: LazyProgram, bits: Array) -> None:
        self._run: LazyPass = proxy(run)
        """Which holds this: were it held in turn, all events would be kept until garbage is collected."""
        self.program = program
        self._plan: LazyPlan = run.plan
        rows = len(run.working)
        self._rows, self._bits = rows, bits
        self.counts = np.zeros((program.count, 1), np.int64)
        kernels.count_candidates(run.groups.masks, bits, np.array([0, rows]), self.counts)
        self.starts = np.append(0, self.counts.cumsum())
        """By component where its candidates begin, and where they end."""
        self.candidates = np.empty(int(self.starts[-1]), np.int32)
        kernels.list_candidates(run.groups.masks, bits, self.starts, self.candidates)
        self._bounds, self._before = run.bounds(tabled=False), np.empty((program.count, 0), np.int32)
        self._everything = (1 << program.count) - 1
        self._kleene = sum(1 << i for i, event in enumerate(program.branch.components) if event.is_kleene)
        self._in_sequence = len(program.branch.precedes) == program.count * (program.count - 1) // 2
        self._nodes = Nodes()
        self._bound = np.empty(program.width, np.int64)
        self._selected = np.empty(run.room, np.int64)
        self._list_bytes = 8 * program.width * run.room
        """What a block of lists that still grow takes, with the block that it is extended to."""
        self._shares = np.ones(len(program.needs))
        self._sizes, self._promised = np.empty(program.count, np.int64), np.empty((3, program.count))
        self._blocks: list[Block] = []
        held = self._run

        def texts(name: str, places: Array) -> pa.Array:  # not the method itself, which would hold the pass
            return held.ranks(name, places)

        self._look_up = LookUp(program, run.working, run.events, texts, self.starts, self.candidates)
        self._looked_up = 0
        """Partial matches of the current stretch whose scopes have been looked up."""

    def _make_tables(self, partials: float) -> None:
        """Makes tables of scopes, if they pay off for the partial matches to come."""
        if self._before.shape[1] or not worth_tables(partials, self._rows, self.program.count):
            return
        self._bounds = self._run.bounds(tabled=True)
        self._before = np.empty((self.program.count, self._rows + 1), np.int32)
        kernels.count_before(self._run.groups.masks, self._bits, self._before)

    def matches(self, stretch: Stretch) -> Iterator[Matches]:
        """The matches that end in a stretch, in blocks."""
        order = stretch.order
        if stretch.tree:
            self._shares = np.array(stretch.shares, np.float64)
            # Kleene components come last, and the root is a single event.
            order = tuple(sorted(order, key=lambda component: (self._kleene >> component) & 1))
        steps = self.program.steps(order)
        single = len(order) - self._kleene.bit_count()
        dynamic = single if stretch.tree else 0
        self._blocks = [
            Block.empty(self.program.width, self._run.room, tree=depth < dynamic) for depth in range(len(order) + 1)
        ]
        for block in self._roots(steps[0]):
            yield from self._complete(steps, 0, dynamic, block)

    def _roots(self, step: Step) -> Iterator[Block]:
        """Partial matches of the first component alone."""
        program, run = self.program, self._run
        component = step.component
        places = self.candidates[self.starts[component] : self.starts[component + 1]]
        segments = run.segment_of(places)
        first, last = run.wanted[0].take(segments), run.wanted[1].take(segments)
        fresh = places >= first
        # An earlier event may still begin a match that ends here, if the first of the places asked for is in its window.
        reach = fresh.copy()
        earlier = np.flatnonzero(~fresh & (first < last))
        reach[earlier] = run.clock.take(first[earlier]) - run.clock.take(places[earlier]) < run.window
        reach &= places < last
        run.metrics.evaluations += int(np.count_nonzero(fresh & reach))
        places = places[fresh & reach if component == program.ends else reach]
        self._looked_up = 0
        if program.count > 1:
            self._make_tables(places.size)
        block = self._blocks[0]
        slots = program.slots[:2, component]
        end = 0
        while end < places.size:
            room = run.room
            if end == 0 and self._rows >= WORTH_TRYING and not self._before.size:
                room = min(room, places.size // TRIED + 1)
            some = places[end : end + room]
            block.count = some.size
            block.parts[slots[0], : some.size] = some
            block.parts[slots[1], : some.size] = some
            if block.sets.size:
                block.sets[0, : some.size] = 1 << component
            yield block
            end += some.size
            # What was looked up for these partial matches tells what will be for those that are left.
            self._make_tables(self._looked_up / end * (places.size - end))

    def _complete(self, steps: Sequence[Step], depth: int, dynamic: int, block: Block) -> Iterator[Matches]:
        """Completes partial matches that have just been given an event of the step at `depth`."""
        if steps[depth].kleene:
            yield from self._elements(steps, depth, dynamic, block)
        else:
            yield from self._go_on(steps, depth, dynamic, block)

    def _go_on(self, steps: Sequence[Step], depth: int, dynamic: int, block: Block) -> Iterator[Matches]:
        """Continues with partial matches whose component at `depth` is complete."""
        self._decide(steps, depth, dynamic, block)
        self._run.metrics.instances += block.count
        if not block.count:
            return
        if depth + 1 == len(steps):
            matches = self._finished(block)
            if matches.count:
                self._run.metrics.sequences += matches.count
                yield matches
            return
        step = steps[depth + 1]
        bound_set = sum(1 << earlier.component for earlier in steps[: depth + 1])
        chosen = -1 if depth + 1 < dynamic else step.component
        for extended in self._extend(block, self._blocks[depth + 1], chosen, step.first, bound_set, step.kleene):
            yield from self._complete(steps, depth + 1, dynamic, extended)

    def _extend(
        self, block: Block, out: Block, component: int, active: int, bound_set: int, kleene: bool, *, further: bool = False
    ) -> Iterator[Block]:
        """Blocks of the partial matches with one more event of a component; of the one each chooses if it is negative."""
        program, run = self.program, self._run
        low, high = np.empty(block.count, np.int64), np.empty(block.count, np.int64)
        self._looked_up += block.count
        self._make_tables(block.count)
        within = kernels.Window(run.window, self._bounds, run.wanted)
        candidates = kernels.Candidates(self.starts, self.candidates, self._before)
        alive = kernels.Alive(run.alive, run.groups.order)
        scopes = kernels.Scopes(low, high)
        if component >= 0:
            slots = program.scope_slots(component, bound_set)
            freshness = kernels.ANYWHERE
            if component == program.ends:
                freshness = kernels.ALWAYS
            elif not kleene and bound_set | 1 << component == self._everything:
                freshness = kernels.IF_NONE
            chosen, asked, reads = np.array([component]), np.array([active]), program.read_slots(component, active, further)
            evaluations = kernels.find_scopes(
                component, slots, freshness, block.count, block.parts, run.stream, within, candidates, alive, scopes
            )
        else:
            chosen, asked = np.empty(block.count + 1, np.int64), np.empty(block.count + 1, np.int64)
            reads = chosen[:0]
            evaluations = kernels.choose_scopes(
                self._tree(), block.count, block.parts, block.sets, run.stream, within, candidates, alive, scopes, chosen, asked
            )
        run.metrics.evaluations += int(evaluations)
        narrowed = NOTHING
        if component >= 0 and not further:
            narrowed = self._look_up.narrowed(component, active, block.parts[:, : block.count], low, high, int(evaluations))
        state = np.zeros(3, np.int64)
        how = extension.Extension(further, chosen, asked, reads, WORTH_SHARING, bound_set, program.slots, program.distinct)
        given, extended = extension.Parts(block.parts, block.sets), extension.Parts(out.parts, out.sets)
        deciding = extension.Decided(self._bound, self._selected)
        while True:
            status = extension.extend(
                how,
                block.count,
                given,
                low,
                high,
                self.candidates,
                deciding,
                state,
                extended,
                program.filter,
                run.filled,
                narrowed,
            )
            run.note_overflow(run.filled.constants)
            out.count = int(state[extension.COUNT])
            run.allowance.made(out.count)
            if out.count:
                yield out
            if status == extension.DONE:
                break

    def _tree(self) -> kernels.Tree:
        """What the choice of the next component is made by."""
        program = self.program
        return kernels.Tree(
            choices=self._everything & ~self._kleene,
            everything=self._everything,
            ends=program.ends,
            slots=program.slots,
            relation=program.relation,
            needs=program.needs,
            via=program.via,
            compiled=program.compiled,
            shares=self._shares,
            sizes=self._sizes,
            promised=self._promised,
        )

    def _elements(self, steps: Sequence[Step], depth: int, dynamic: int, first: Block) -> Iterator[Matches]:
        """Completes partial matches that have just got the first element of a Kleene component, for every choice of more."""
        program, nodes = self.program, self._nodes
        step = steps[depth]
        slots = program.slots[:, step.component]
        quantifier = program.branch.components[step.component].quantifier
        assert quantifier is not None
        bound_set = sum(1 << earlier.component for earlier in steps[: depth + 1])
        base = nodes.used
        first.parts[slots[NODE], : first.count] = nodes.add(first.parts[slots[1], : first.count], np.full(first.count, -1))
        first.parts[slots[LENGTH], : first.count] = 1
        length = 1
        growing: list[tuple[Iterator[Block], int]] = []
        block = first
        while True:
            if length >= max(1, quantifier.low):
                closed = Block(block.count, block.parts[:, : block.count].copy(), block.sets[:, : block.count].copy())
                yield from self._go_on(steps, depth, dynamic, closed)
            if block.count and (quantifier.high is None or length < quantifier.high):
                kept = Block(block.count, block.parts[:, : block.count].copy(), block.sets[:, :0])
                self._run.allowance.hold(self._list_bytes, "lists that still grow")
                out = Block.empty(program.width, self._run.room, tree=False)
                further = self._extend(kept, out, step.component, step.further, bound_set, kleene=True, further=True)
                growing.append((further, nodes.used))
            following = self._next_block(growing)
            if following is None:
                break
            block = following
            length = len(growing) + 1
            block.parts[slots[NODE], : block.count] = nodes.add(
                block.parts[slots[1], : block.count], block.parts[slots[NODE], : block.count]
            )
            block.parts[slots[LENGTH], : block.count] = length
        nodes.used = base

    def _next_block(self, growing: list[tuple[Iterator[Block], int]]) -> Block | None:
        """The next block of the longest lists that are still growing; nodes of finished ones are given back."""
        while growing:
            further, self._nodes.used = growing[-1]
            block = next(further, None)
            if block is not None:
                return block
            growing.pop()
            self._run.allowance.release(self._list_bytes)
        return None

    def _decide(self, steps: Sequence[Step], depth: int, dynamic: int, block: Block) -> None:
        """Drops partial matches that a condition which no filter decides refuses."""
        if depth < dynamic:
            if depth:
                self._decide_in_tree(block)
            return
        later = steps[depth].later
        if not later or not block.count:
            return
        have = [step.component for step in steps[: depth + 1]]
        evaluator = self._evaluator(have, block.parts[:, : block.count])
        held = np.ones(block.count, bool)
        for number in later:
            held &= evaluator.holds(self.program.branch.conditions[number].condition.expression)
        block.keep(held)

    def _decide_in_tree(self, block: Block) -> None:
        """The same for partial matches with different sets of bound components."""
        conditions = self.program.branch.conditions
        asked = [number for number in range(len(conditions)) if not (self.program.compiled >> number) & 1]
        have_set, newest = block.sets[:, : block.count]
        held = np.ones(block.count, bool)
        for number in asked:
            need = int(self.program.needs[number])
            if need & self._kleene:
                continue
            rows = np.flatnonzero(held & (have_set & need == need) & ((need >> newest) & 1 == 1))
            if rows.size:
                have = [component for component in range(self.program.count) if (need >> component) & 1]
                evaluator = self._evaluator(have, block.parts[:, rows])
                held[rows] = evaluator.holds(conditions[number].condition.expression)
        block.keep(held)

    def _evaluator(self, have: Sequence[int], parts: Array) -> MatchEvaluator:
        matches = self._as_matches(have, parts)
        return MatchEvaluator(self._plan.bound, self._run.events.gather, MatchRows(matches), noticed=self._run.working.noticed)

    def _as_matches(self, have: Sequence[int], parts: Array) -> Matches:
        program = self.program
        singles: dict[str, Array] = {}
        lists: dict[str, tuple[Array, Array]] = {}
        for component in sorted(have):
            variable = program.variables[component]
            if program.branch.components[component].is_kleene:
                lists[variable] = self._lists(component, parts)
            else:
                singles[variable] = parts[program.slots[0, component]]
        if self._in_sequence:
            first, last = parts[program.slots[0, min(have)]], parts[program.slots[1, max(have)]]
        else:
            first = np.minimum.reduce([parts[program.slots[0, component]] for component in have])
            last = np.maximum.reduce([parts[program.slots[1, component]] for component in have])
        return Matches(parts.shape[1], singles, lists, first, last)

    def _lists(self, component: int, parts: Array) -> tuple[Array, Array]:
        slots = self.program.slots[:, component]
        lengths = parts[slots[LENGTH]].astype(np.int64)
        offsets = np.zeros(lengths.size + 1, np.int64)
        places = np.empty(int(lengths.sum()), np.int32)
        extension.read_elements(
            parts[slots[NODE]].astype(np.int64), lengths, self._nodes.place, self._nodes.before, offsets, places
        )
        return offsets, places

    def _finished(self, block: Block) -> Matches:
        """Complete matches: those that end where they are asked for, whose events differ and agree on all tests."""
        program, run = self.program, self._run
        matches = self._as_matches(range(program.count), block.parts[:, : block.count])
        if not self._kleene:
            return matches  # single events are looked for only where the match may end
        segments = run.segment_of(matches.last)
        held = (matches.last >= run.wanted[0].take(segments)) & (matches.last < run.wanted[1].take(segments))
        for one, other in program.apart:
            held &= matches.differ(program.variables[one], program.variables[other], self._rows)
        if run.tests.shape[0]:
            held &= _agree(matches, run.tests)
        return matches.select(held)


def _places(branch: LazyBranch) -> int:
    """How many components the last event of a match may be bound by."""
    components = range(len(branch.components))
    return sum(not any((one, other) in branch.precedes for other in components) for one in components)


def _agree(matches: Matches, tests: Array) -> Array:
    """Which matches agree on every test: events that have the attribute (code not -1) have the same value, and none NULL."""
    held = np.ones(matches.count, bool)
    for codes in tests:
        lowest = np.full(matches.count, np.iinfo(np.int64).max)
        highest = np.full(matches.count, -1)
        for variable in (*matches.singles, *matches.lists):
            match, places = matches.elements_of(variable)
            own = codes.take(places)
            held[match[own == -2]] = False
            np.minimum.at(lowest, match[own >= 0], own[own >= 0])
            np.maximum.at(highest, match[own >= 0], own[own >= 0])
        held &= (highest < 0) | (lowest == highest)
    return held
