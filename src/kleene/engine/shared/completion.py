"""From the tuples of single events of a clause to the matches of its query: the query's own window, its Kleene components,
what it asks of their elements, and negation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kleene.common.arrays import NO_WINDOW, Array
from kleene.engine.expressions.vectorized import Evaluator
from kleene.engine.matches.match_values import MatchEvaluator, MatchRows
from kleene.engine.matches.matches import Matches
from kleene.engine.matches.negation import NegativeIndex
from kleene.engine.shared import kernels
from kleene.engine.shared.kernels import Relation
from kleene.engine.shared.shared_pass import SharedPass
from kleene.pattern.operators import Event
from kleene.pattern.predicates import Expression
from kleene.plan.multi.nodes import Root
from kleene.plan.patterns import LazyPlan

ROOM = 1 << 15
"""How many lists of elements are made at a time."""

PAIRS = 1 << 18
"""About how many candidates are decided at a time."""


class Completion:
    """Completes the tuples of one root in one pass."""

    def __init__(self, run: SharedPass, root: Root, *, postponed: bool) -> None:
        group, clause = run.program.group, root.clause
        self._run = run
        self._root = root
        self._postponed = postponed
        self._plan: LazyPlan = group.plans[clause.query]
        self._branch = self._plan.branches[clause.branch]
        self._window = NO_WINDOW if clause.window is None else clause.window
        node = run.program.plan.nodes[root.node]
        self._narrower = node.window != clause.window
        self._kleene = [index for index, event in enumerate(self._branch.components) if event.is_kleene]
        self._places = [run.leaves[group.numbers[clause.query, self._branch.variables[index]]].last for index in self._kleene]
        self._asked = self._conditions()
        self._indexes = [NegativeIndex(*item) for item in self._negatives()]

    def _conditions(self) -> list[tuple[list[Expression], list[Expression]]]:
        """For each Kleene component the conditions on single elements of it, and those on lists, that can be decided then."""
        have = {self._branch.variables[index] for index in self._branch.singles}
        found = []
        for index in self._kleene:
            variable = self._branch.variables[index]
            own = [
                item.condition
                for item in self._branch.conditions
                if not item.via and variable in item.condition.variables and item.condition.variables <= have | {variable}
            ]
            each = [item.expression for item in own if item.kinds(variable) == {"each"} and len(item.quantified) == 1]
            found.append((each, [item.expression for item in own if item.expression not in each]))
            have.add(variable)
        return found

    def _negatives(self) -> Iterator[tuple[Any, ...]]:
        run, query = self._run, self._root.clause.query
        negation = self._branch.negation
        for component in negation.components if negation else ():
            assert negation is not None
            rows = run.rows_of(run.program.group.numbers[query, component.event.variable])
            yield (
                component, self._branch.variables, rows, negation.method, negation.window, run.working, run.row_rank, run.codes,
                run.groups.order,
            )  # fmt: skip

    def matches(self, block: Relation) -> Iterator[Matches]:
        """Matches of a block of tuples, before negation; those that end where they are asked for."""
        matches = self._in_window(self._of_singles(block))
        if not self._kleene:
            matches = self._fresh(matches)
            if matches.count:
                yield matches
            return
        yield from self._expanded(matches, 0)

    def negated(self, matches: Matches) -> Matches:
        """The matches without a forbidden event."""
        for index in self._indexes:
            if matches.count:
                matches = matches.select(~index.dead(self._plan.bound, matches))
        return matches

    def _of_singles(self, block: Relation) -> Matches:
        count, clause = block.size, self._root.clause
        names = [self._branch.variables[component] for component in clause.components]
        singles = {name: block.parts[slot, :count] for name, slot in zip(names, self._root.slots, strict=True)}
        return Matches(count, singles, {}, block.first[:count], block.last[:count])

    def _in_window(self, matches: Matches) -> Matches:
        if not self._narrower:
            return matches
        clock = self._run.clock
        return matches.select(clock.take(matches.last) - clock.take(matches.first) < self._window)

    def _fresh(self, matches: Matches) -> Matches:
        """The matches that end with a new event, unless the query waits for windows to pass."""
        if self._postponed:
            return matches
        segments = self._run.stream.segments
        since = self._run.fresh.take(segments.take(matches.last)) if segments.size else self._run.fresh[0]
        return matches.select(matches.last >= since)

    # --- Kleene components --------------------------------------------------------------------------------------------

    def _expanded(self, matches: Matches, depth: int) -> Iterator[Matches]:
        """Matches with every choice of elements for the Kleene components from a depth on."""
        if depth == len(self._kleene):
            matches = self._fresh(matches)
            if matches.count:
                yield matches
            return
        if not matches.count:
            return
        each, later = self._asked[depth]
        component = self._kleene[depth]
        event = self._branch.components[component]
        low, high = self._scopes(matches, component, self._places[depth])
        places = self._places[depth]
        if each:
            low, high, places = self._candidates(matches, event, low, high, places, each)
        for found in self._lists(matches, component, low, high, places):
            yield from self._expanded(self._decided(found, later), depth + 1)

    def _scopes(self, matches: Matches, component: int, places: Array) -> tuple[Array, Array]:
        precedes, names = self._branch.precedes, self._branch.variables
        bound = [index for index, name in enumerate(names) if name in matches.singles or name in matches.lists]
        after = [matches.last_of(names[index]) for index in bound if (index, component) in precedes]
        before = [matches.first_of(names[index]) for index in bound if (component, index) in precedes]
        low, high = np.empty(matches.count, np.int64), np.empty(matches.count, np.int64)
        kernels.find_elements(
            matches.first.astype(np.int32), matches.last.astype(np.int32), _rows(after, matches.count),
            _rows(before, matches.count), places, self._run.stream, self._window, self._run.bounds(self._window), low, high,
        )  # fmt: skip
        return low, high

    def _candidates(
        self, matches: Matches, event: Event, low: Array, high: Array, places: Array, conditions: list[Expression]
    ) -> tuple[Array, Array, Array]:
        """The candidates in scope that satisfy conditions on single elements, as ranges of a list of their own."""
        sizes = high - low
        kept: list[Array] = []
        size = 0
        counts = np.zeros(matches.count, np.int64)
        for begin, end in _stretches(sizes):
            some = sizes[begin:end]
            match = np.repeat(np.arange(begin, end), some)
            starts = np.cumsum(some) - some
            own = places.take(np.arange(match.size) - np.repeat(starts, some) + np.repeat(low[begin:end], some))
            rows = MatchRows(matches, match, {event.variable: own})
            evaluator = MatchEvaluator(self._plan.bound, self._run.events.gather, rows, noticed=self._run.working.noticed)
            held = np.ones(match.size, bool)
            for condition in conditions:
                held &= Evaluator.holds(evaluator, condition)
            kept.append(own[held])
            size += kept[-1].nbytes
            self._run.allowance.require(size, "candidates of lists")
            counts += np.bincount(match[held], minlength=matches.count)
        ends = np.cumsum(counts)
        return ends - counts, ends, np.concatenate(kept).astype(np.int32)

    def _lists(self, matches: Matches, component: int, low: Array, high: Array, places: Array) -> Iterator[Matches]:
        """The matches with every list of elements for a component."""
        event = self._branch.components[component]
        assert event.quantifier is not None
        longest = int((high - low).max(initial=0))
        most = longest if event.quantifier.high is None else min(longest, event.quantifier.high)
        room, state, status = max(ROOM, longest), np.array([0, -1, 0, 0, 0]), kernels.OUTPUT_FULL
        stack = np.empty(longest + 1, np.int64)
        apart = _rows(
            [matches.singles[name] for name in self._overlapping(event, component) if name in matches.singles], matches.count
        )
        while status == kernels.OUTPUT_FULL:
            out = kernels.Lists(np.empty(ROOM, np.int64), np.empty(ROOM + 1, np.int64), np.empty(room, np.int32))
            status = kernels.expand(
                low, high, places, apart, self._run.stream, self._window, max(1, event.quantifier.low), most, state, stack, out
            )
            count, used = int(state[kernels.LISTS]), int(state[kernels.ELEMENTS])
            self._run.allowance.made(count)
            if count:
                yield self._with_lists(
                    matches.take(out.match[:count]), event, component, out.offsets[: count + 1], out.elements[:used]
                )

    def _with_lists(self, matches: Matches, event: Event, component: int, offsets: Array, elements: Array) -> Matches:
        """Matches with the elements of one more component, which are in the window and bound once."""
        first, last = elements.take(offsets[:-1]), elements.take(offsets[1:] - 1)
        first, last = np.minimum(matches.first, first), np.maximum(matches.last, last)
        lists = {**matches.lists, event.variable: (offsets, elements)}
        found = Matches(matches.count, matches.singles, lists, first, last)
        clock = self._run.clock
        held = clock.take(last) - clock.take(first) < self._window
        for name in self._overlapping(event, component):
            if name in matches.lists:
                held &= found.differ(event.variable, name, len(self._run.working))
        return found.select(held)

    def _overlapping(self, event: Event, component: int) -> Iterator[str]:
        """The variables that nothing orders before or after a component, and that may hold the same events."""
        precedes = self._branch.precedes
        for other, item in enumerate(self._branch.components):
            ordered = (component, other) in precedes or (other, component) in precedes
            if other != component and not ordered and set(item.types) & set(event.types):
                yield item.variable

    def _decided(self, matches: Matches, conditions: list[Expression]) -> Matches:
        for condition in conditions:
            if matches.count:
                evaluator = MatchEvaluator(
                    self._plan.bound, self._run.events.gather, MatchRows(matches), noticed=self._run.working.noticed
                )
                matches = matches.select(evaluator.holds(condition))
        return matches


def _stretches(sizes: Array) -> Iterator[tuple[int, int]]:
    """Consecutive matches with about PAIRS candidates together, at least one."""
    ends = np.cumsum(sizes)
    begin, done = 0, 0
    while begin < sizes.size:
        end = max(begin + 1, int(np.searchsorted(ends, done + PAIRS, side="right")))
        yield begin, end
        begin, done = end, int(ends[end - 1])


def _rows(items: list[Array], count: int) -> Array:
    return np.array(items, np.int32).reshape(len(items), count)
