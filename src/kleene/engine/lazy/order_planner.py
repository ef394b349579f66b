"""Chooses how a pass binds events, by their statistics, and again when they change.

Before each pass rates are counted. Selectivities are then sampled, starting with the conditions that the current order
evaluates first, while the remaining work is worth it, and smoothed with earlier passes. Rows whose rates differ much from those
of the rest (the rare type has become the frequent one) are planned for by themselves: the pass is cut into stretches, each with
the order that suits it.

Nothing is lost or found twice when a plan changes: between passes only events are kept, and within one a match belongs to the
stretch in which its last event lies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.events.grouping import combined_codes, without_nulls
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.lazy.kernels.chain import count_candidates
from kleene.engine.lazy.lazy_pass import LazyPass, Stretch
from kleene.engine.lazy.sample import Sample
from kleene.engine.passes.observe import bits_of, span_of
from kleene.plan.lazy.choice import best_chain, cost_of, model_of, order_of, stacks
from kleene.plan.lazy.lazy import LazyBranch
from kleene.plan.order.cost import Model, steps
from kleene.plan.order.statistics import Statistics, window_in_units
from kleene.plan.patterns import LazyPlan

FEW_ROWS = 2_000
"""Fewer rows are not worth a look: stacks, or the rarest component first."""

FEW_COMPONENTS = 2
"""The most components of a sequence that stacks may build before its conditions are evaluated, if nothing is known of them."""

WEIGHT = 0.5
"""How much newer statistics count (exponential decay)."""

CHANGED = 1.5
"""Statistics that differ by more than this factor make a new plan."""

MEASURED = ((128, 2e6), (1_024, 4e7))
"""(tuples, nanoseconds): how many tuples decide about the selectivity of a condition, some 1 us each, if the steps that it may
change are expected to take longer than that. What was measured on few tells where more are needed.
"""

UNASKED = 5.0
"""If all steps take N times longer, conditions are measured too that the order does not ask: another one might."""

BY_LUCK = 1.5
"""How many more tuples might have satisfied a condition: what is left to do is not taken to be little because of a few."""

EVERY = 8
"""Selectivities are measured again after N passes, or when rates have changed."""

KEYS = 512
"""Of how many events the partition is looked at before anything is measured."""

SLICE_ROWS = 256
MOST_SLICES = 4_096
"""The fewest rows of a slice in which rates are counted, and the most slices."""

TOGETHER = 32
"""The fewest slices that are planned for together; more if `FEWEST_WINDOWS` take more."""

BY_CHANCE = 4.0
"""Counts that differ by fewer standard deviations are alike."""

FEWEST_WINDOWS = 4
"""The fewest windows of a stretch, for a cut costs about a window."""

WORTH_CUTTING = 1.5
"""A slice is planned for by itself if the order of the slice before it costs more than N times the best."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How one branch is evaluated in this pass."""

    stretches: tuple[Stretch, ...]
    nanoseconds: float
    """The expected cost per unit of time."""


STACKS = "active instance stacks"


class OrderPlanner:
    """Chooses for the passes of one matcher."""

    def __init__(self, plan: LazyPlan) -> None:
        self._plan = plan
        self._bits = bits_of(plan.scanned)
        self.statistics: Statistics | None = plan.statistics
        """What is known of the events by now."""
        self._orders: dict[int, tuple[tuple[int, ...], Statistics]] = {}
        """By branch the order in use, and what it was made for."""
        self._measured: Statistics | None = None
        """What was known when selectivities were measured last."""
        self._passes = 0
        """How many passes ago that was."""
        self._choices: list[Choice] = []
        self._slices = np.zeros(2, np.int64)
        self._counts = np.zeros((0, 1), np.int64)
        """By variable, how many rows of each slice it can bind."""
        self.takes_stacks = False
        self.replanned = 0
        """How often an order was given up for another."""

    def look_at(self, working: WorkingSet, first: int, open_pass: Callable[[], LazyPass]) -> LazyPass | None:
        """Plans the pass over a working set that reports the matches which end with rows from `first` on.

        If selectivities are measured, that is done with a pass, which is then returned.
        """
        plan = self._plan
        rows = len(working)
        run = None
        if self._needs_statistics(rows):
            self._slices = np.append(np.arange(0, rows, max(SLICE_ROWS, rows // MOST_SLICES + 1)), rows)
            self._counts = np.zeros((len(self._bits), self._slices.size - 1), np.int64)
            count_candidates(working.masks, np.array(list(self._bits.values())), self._slices, self._counts)
            if plan.options.adaptive or self.statistics is None:
                self._count(working)
                if self._may_have_changed():
                    run = self._measure(open_pass)
        self._choices = [self._choose(index, branch, working, first) for index, branch in enumerate(plan.branches)]
        self.takes_stacks = plan.stacks and self._prefers_stacks(rows)
        return run

    def stretches(self, index: int) -> tuple[Stretch, ...]:
        """How the matches of a branch are found in this pass."""
        return self._choices[index].stretches

    @property
    def text(self) -> str:
        """What was chosen last: the variables in order of binding, those of one stretch `then` those of the next, alternatives
        of the pattern apart; empty if there was nothing to match.
        """
        if self.takes_stacks:
            return STACKS
        found = []
        for branch, choice in zip(self._plan.branches, self._choices, strict=bool(self._choices)):
            orders = (", ".join(branch.variables[component] for component in stretch.order) for stretch in choice.stretches)
            found.append(" then ".join(dict.fromkeys(orders)))
        return "; ".join(found)

    def _needs_statistics(self, rows: int) -> bool:
        """Whether there is something to choose, and enough events to choose by."""
        if rows < FEW_ROWS:
            return False
        return any(self._plan.order_of(branch) is None and len(branch.components) > 1 for branch in self._plan.branches)

    def _count(self, working: WorkingSet) -> None:
        """Counts rates: those of the events of this pass, whatever they were before."""
        span = span_of(self._plan.bound, working)
        counts = zip(self._bits, self._counts.sum(axis=1).tolist(), strict=True)
        rates = {variable: count / span for variable, count in counts}
        known = self.statistics
        if known is None:
            known = Statistics(same_partition=_shared(working, self._plan.partition))
        self.statistics = replace(known, rates=rates, span=span, events=len(working))

    def _may_have_changed(self) -> bool:
        """Whether selectivities may be others than when they were measured last."""
        assert self.statistics is not None
        self._passes += 1
        known = self._measured
        return known is None or self._passes >= EVERY or self.statistics.differs(known, CHANGED)

    def _measure(self, open_pass: Callable[[], LazyPass]) -> LazyPass | None:
        """Measures those selectivities that matter, and how likely two events are of one partition; returns the pass that it
        needed for that, if it did.
        """
        known = self.statistics
        assert known is not None
        orders: dict[int, tuple[int, ...]] = {}
        wanted = self._to_measure(known, set(), MEASURED[0][1], orders)
        if not wanted:
            return None
        run = open_pass()
        sample, shares, cautious = Sample(run), dict[str, float](), dict[str, float]()
        seen = expected = replace(known, selectivities=shares, same_partition=sample.same_partition())
        for pairs, worth in MEASURED:
            asked = set[str]()
            wanted = wanted or self._to_measure(expected, asked, worth, orders)
            while wanted:
                for index, number in wanted:
                    text, share = self._plan.branches[index].conditions[number].text, sample.selectivity(index, number, pairs)
                    asked.add(text)
                    if share is not None:
                        shares[text], cautious[text] = share, min(1.0, share + BY_LUCK / pairs)
                expected = replace(seen, selectivities={**known.selectivities, **cautious})
                wanted = self._to_measure(expected, asked, worth, orders)
        is_new = self._measured is None and self._plan.statistics is None
        self.statistics = seen if is_new else known.decayed(seen, WEIGHT)
        self._measured, self._passes = self.statistics, 0
        return run

    def _to_measure(
        self, expected: Statistics, asked: set[str], worth: float, orders: dict[int, tuple[int, ...]]
    ) -> list[tuple[int, int]]:
        """The branch and number of the conditions that a good order asks next, beyond those that were asked, if it takes
        longer than `worth` nanoseconds from there on; of a branch that takes much longer, all others. `orders` are the present
        ones, by branch: they are planned again when they have nothing more to ask.
        """
        worth = worth / expected.span if expected.span else 0.0
        for index, branch in enumerate(self._plan.branches):
            model = model_of(self._plan, branch, expected)
            found = _next_asked(branch, model, orders[index], asked, worth) if index in orders else []
            if not found:
                best = best_chain(model, self._plan.options.planner)
                assert best.order is not None
                orders[index] = best.order
                if self._plan.stacks and stacks(model).nanoseconds < best.nanoseconds:
                    orders[index] = tuple(reversed(range(len(best.order))))
                found = _next_asked(branch, model, orders[index], asked, worth)
                if not found and sum(step.nanoseconds for step in steps(model, orders[index])) > UNASKED * worth:
                    found = [number for number, item in enumerate(branch.conditions) if item.text not in asked]
            if found:
                return [(index, number) for number in found]
        return []

    def _prefers_stacks(self, rows: int) -> bool:
        branch = self._plan.branches[0]
        if rows < FEW_ROWS or self.statistics is None:
            # What stacks leave open is decided on whole sequences, whose number grows with every component.
            return len(branch.components) <= FEW_COMPONENTS or branch.stacks is None or not branch.stacks.selection
        if len(branch.components) == 1:
            return True
        return stacks(model_of(self._plan, branch, self.statistics)).nanoseconds <= self._choices[0].nanoseconds

    def _choose(self, index: int, branch: LazyBranch, working: WorkingSet, first: int) -> Choice:
        options = self._plan.options
        rows = len(working)
        order = self._plan.order_of(branch)
        tree = options.evaluation == "tree" and bool(branch.singles)
        if order is not None:
            return Choice((Stretch(first, rows, order),), 0.0)
        if self.statistics is None or rows < FEW_ROWS or len(branch.components) == 1:
            return Choice((self._stretch(branch, first, rows, self._by_count(branch, working), tree),), 0.0)
        model = model_of(self._plan, branch, self.statistics)
        order = self._planned_order(index, model)
        found = self._cut(branch, model, order, working, first) if options.adaptive else [(first, order)]
        ends = [*(begin for begin, _ in found[1:]), rows]
        stretches = tuple(self._stretch(branch, begin, end, own, tree) for (begin, own), end in zip(found, ends, strict=True))
        return Choice(stretches, cost_of(model, order))

    def _planned_order(self, index: int, model: Model) -> tuple[int, ...]:
        """The order of the last pass, unless what it was made for has changed."""
        known = self._orders.get(index)
        assert self.statistics is not None
        if known is not None and not self.statistics.differs(known[1], CHANGED):
            return known[0]
        order = order_of(model, self._plan.options.planner)
        self.replanned += known is not None and order != known[0]
        self._orders[index] = (order, self.statistics)
        return order

    def _by_count(self, branch: LazyBranch, working: WorkingSet) -> tuple[int, ...]:
        """The rarest component first, Kleene components last."""
        counts = [np.count_nonzero(working.masks & (1 << self._bits[variable])) for variable in branch.variables]
        return tuple(sorted(range(len(counts)), key=lambda place: (branch.components[place].is_kleene, counts[place])))

    def _stretch(self, branch: LazyBranch, first: int, last: int, order: tuple[int, ...], tree: bool) -> Stretch:
        if not tree:
            return Stretch(first, last, order)
        shares = [1.0] * len(branch.conditions)
        if self._plan.options.selectivity == "cost" and self.statistics is not None:
            shares = [self.statistics.selectivity(item.text) for item in branch.conditions]
        root = next(component for component in order if not branch.components[component].is_kleene)
        order = (root, *(component for component in order if component != root))
        return Stretch(first, last, order, True, tuple(shares))

    def _cut(
        self, branch: LazyBranch, model: Model, order: tuple[int, ...], working: WorkingSet, first: int
    ) -> list[tuple[int, tuple[int, ...]]]:
        """Where stretches begin, and their orders."""
        found = [(first, order)]
        names = list(self._bits)
        counts = self._counts[[names.index(variable) for variable in branch.variables]]
        begins = np.arange(0, counts.shape[1], self._slices_together(working))
        here = np.add.reduceat(counts, begins, axis=1)
        rows = np.diff(self._slices[np.append(begins, counts.shape[1])])
        usual = counts.sum(axis=1, keepdims=True) * rows / len(working)
        differs = np.abs(here - usual) > BY_CHANCE * np.sqrt(usual + 1)
        own = np.where(differs, np.maximum(here, 0.5) / np.maximum(usual, 0.5), 1.0)
        alike = np.rint(2 * np.log2(own)).astype(int)
        if not alike.any():
            return found
        planned: dict[tuple[int, ...], tuple[tuple[int, ...], Model]] = {}
        for part, begin in enumerate(begins.tolist()):
            key = tuple(alike[:, part].tolist())
            last = int(self._slices[begin]) + int(rows[part])
            if last <= first or (not any(key) and found[-1][1] == order):
                continue
            if key not in planned:
                local = replace(model, rates=tuple((np.array(model.rates) * own[:, part]).tolist()))
                best = best_chain(local, self._plan.options.planner).order
                assert best is not None
                planned[key] = (best, local)
            best, local = planned[key]
            if cost_of(local, found[-1][1]) > WORTH_CUTTING * cost_of(local, best):
                row = max(first, self._turn(counts, begin, begins[1] if begins.size > 1 else begin))
                if row <= found[-1][0]:
                    found.pop()
                found.append((row, best))
        return found

    def _turn(self, counts: Array, begin: int, width: int) -> int:
        """The row near the beginning of a slice at which rates change most likely: slices before it have the rates of the
        slices before, those after it the rates of the slices after (the likelihood of counts with two rates).
        """
        low, high = max(0, begin - width), min(counts.shape[1], begin + width)
        if begin == 0 or width == 0:
            return int(self._slices[begin])
        before = np.maximum(counts[:, low:begin].mean(axis=1), 0.01)
        after = np.maximum(counts[:, high - max(1, (high - begin) // 2) : high].mean(axis=1), 0.01)
        gain = np.log(after / before) @ counts[:, low:high] - (after - before).sum()
        # Counted from the end: how much likelier the newer rates are from each slice on.
        return int(self._slices[low + int(np.argmax(gain[::-1].cumsum()[::-1]))])

    def _slices_together(self, working: WorkingSet) -> int:
        """How many slices are planned for together: some windows' worth."""
        rows, bound = len(working), self._plan.bound
        assert self.statistics is not None
        window = window_in_units(bound)
        reach: float = rows
        if bound.count_window is not None:
            reach = bound.count_window
        elif window is not None and self.statistics.span:
            reach = rows * window / self.statistics.span
        return max(TOGETHER, round(FEWEST_WINDOWS * reach / int(self._slices[1])))


def _shared(working: WorkingSet, partition: Sequence[str]) -> float:
    """About how likely two events are of one partition, from a few of them."""
    if not partition:
        return 1.0
    rows = np.linspace(0, len(working) - 1, min(len(working), KEYS)).astype(np.int64)
    codes, count = combined_codes([without_nulls(working.gather(name, rows)) for name in partition])
    sizes = np.bincount(codes, minlength=count)
    pairs = rows.size * (rows.size - 1)
    return float(max((sizes * (sizes - 1)).sum(), 1) / pairs) if pairs else 1.0


def _next_asked(branch: LazyBranch, model: Model, order: Sequence[int], asked: set[str], worth: float) -> list[int]:
    """The numbers of the conditions of the first step of an order that has new ones, if what is left costs more than it is
    worth.
    """
    made, have = steps(model, order), set[str]()
    left = sum(step.nanoseconds for step in made)
    for step in made:
        if left <= worth:
            break
        variable = branch.variables[step.component]
        have.add(variable)
        conditions = enumerate(branch.conditions)
        found = [number for number, item in conditions if item.text not in asked and item.is_asked(variable, have)]
        if found:
            return found
        left -= step.nanoseconds
    return []
