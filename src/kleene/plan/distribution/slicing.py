"""Where time is cut into slices, a task for each, and what a task has of the events before its slice.

Slices are contiguous and cover all of time, so they are right for any events. Before its own events a task has its *lead*: the
events just before the slice that its rows may still depend on. Where what is before it can be counted up (counters), the lead
has only what expires while the slice lasts; the slices between the lead and its own, whose events all outlive it, come as
*summaries*. So an event goes to three tasks at most on average, however long the window is.

Nothing here knows who sends the events or runs the tasks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kleene.common.arrays import EVER, LONG_AGO, Array
from kleene.plan.contract import Plan

FEWEST_ROWS = 250_000
"""The fewest relevant rows that make a slice worth a task."""

MOST_ROWS, MOST_BYTES = 2_000_000, 128 << 20
"""The size of a slice with its lead, which a task holds in memory."""

MOST_SLICES = 512

TURNS = (1, 2)
"""The numbers of slices for each core that are considered: more are better balanced, and have more lead in all."""

IDLE = 0.15
"""The share of a slice that cores wait at the end for the last of them: slices with equally many events differ."""

SLICE_COST = 20_000
"""The cost of a task besides, in events."""


# --- what can be cut --------------------------------------------------------------------------------------------------


def obstacle(plan: Plan) -> str | None:
    """Why the rows of a plan cannot be found in slices; None if they can."""
    bound, counted = plan.bound, {test.name for test in plan.bound.equivalences if test.value is None}
    if plan.window is None and bound.count_window is None and not plan.has_summaries:
        return "without a window a match may reach back to any event"
    if bound.count_window is not None and not counted <= set(plan.keys):
        return f"events are counted by {', '.join(sorted(counted))}, which does not divide them"
    if plan.limits.policy != "error" and plan.kind != "counters":
        return "what is dropped at a limit depends on where time is cut"
    if plan.needs_choice and plan.kind == "matches":
        return "NON-OVERLAP is decided before matches are aggregated, and depends on all that came before"
    if plan.needs_choice and plan.output != "verbose":
        return f"NON-OVERLAP depends on all that came before, and is not decided on {plan.output} output"
    return None


# --- slices -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Slice:
    """The instants [since, until) of a task. Before them it has the events of [low, high), its lead, and the summaries of the
    slices `between`, from `high` on.
    """

    number: int
    since: int
    until: int
    low: int
    high: int
    between: range
    closed: bool = False
    """Whether no event was there when time was cut, and none may come."""

    @property
    def has_lead(self) -> bool:
        return self.low < self.high


def time_slices(
    cuts: Sequence[int], low: Callable[[int], int], outlived: Callable[[int], int] = lambda _until: EVER
) -> tuple[Slice, ...]:
    """The slices that begin at some instants, ascending, and one before all.

    `low` gives the first instant whose events matter to a slice that begins at an instant. For a slice that ends at an instant,
    earlier ones that begin at `outlived` of it or later are summarized.

    >>> [(item.since, item.low, item.high, item.between) for item in time_slices([100, 200], lambda since: since - 150)][1:]
    [(100, -50, 100, range(1, 1)), (200, 50, 200, range(2, 2))]
    >>> [(item.low, item.high, item.between) for item in time_slices([0, 100, 200], lambda s: s - 150, lambda u: u - 150)][1:-1]
    [(-150, 0, range(1, 1)), (-50, 100, range(2, 2))]
    """
    begins = [LONG_AGO, *cuts]
    found = []
    for number, (since, until) in enumerate(zip(begins, [*cuts, EVER], strict=True)):
        first = bisect_left(begins, outlived(until), hi=number)
        found.append(Slice(number, since, until, max(low(since), LONG_AGO), begins[first], range(first, number)))
    return tuple(found)


def summarized_slices(cuts: Sequence[int], first: int, last: int, window: int | None, *, on_change: bool) -> tuple[Slice, ...]:
    """The slices of counters over events from `first` to `last`; with `on_change` rows are written when events expire, too.

    Only events after the last may be too late, where the last slice is closed.
    """
    inner = sorted({cut for cut in cuts if first < cut <= last})
    if window is None:
        return time_slices(inner, lambda _since: LONG_AGO, lambda _until: LONG_AGO)
    begins, end = [first, *inner], last + 1
    closed = False
    if on_change:
        begins += [end, *(begin + window for begin in begins if end < begin + window < EVER)]
    elif inner and window > begins[-1] - begins[-2]:
        begins.append(end)
        closed = True
    found = time_slices(begins, lambda since: since - window + (not on_change), lambda until: until - window)
    return (*found[:-1], replace(found[-1], low=found[-1].high, closed=True)) if closed else found


# --- how many ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Times:
    """When the events are, as far as a sample tells."""

    tasks: int
    """How many tasks run at a time."""
    events: int
    """About how many events there are."""
    first: int
    last: int
    quantiles: Array
    """Instants that divide the events evenly, into `MOST_SLICES` parts."""
    width: float
    """About how many bytes a row has."""

    @property
    def most_rows(self) -> int:
        """The rows that fit into the memory of a task."""
        return max(min(MOST_ROWS, int(MOST_BYTES / max(self.width, 1))), 1)

    def cuts(self, count: int) -> list[int]:
        """Where all slices but the first begin, of `count` with equally many events, about."""
        places = np.arange(1, count) * MOST_SLICES // count - 1
        return sorted({cut for cut in self.quantiles[places].tolist() if cut > self.first})

    def before(self, instants: Array) -> Array:
        """About how many events are before some instants."""
        places = np.where(instants > self.first, np.searchsorted(self.quantiles, instants) + 1, 0)
        return places * (self.events / MOST_SLICES)


@dataclass(frozen=True, slots=True)
class Slicing:
    """How the time of some events is cut."""

    slices: tuple[Slice, ...]
    events: int
    """About how many there are, in all slices."""
    sizes: tuple[int, ...]
    """About how many events each slice that has any has with its lead."""

    @property
    def replication(self) -> float:
        """Average number of tasks that an event is sent to."""
        return sum(self.sizes) / max(self.events, 1)

    @property
    def balance(self) -> float:
        """The largest task beside the average."""
        return max(self.sizes) * len(self.sizes) / max(sum(self.sizes), 1)

    def __str__(self) -> str:
        return (
            f"{len(self.sizes)} slices of time, about {self.events:,} events; an event goes to {self.replication:.2f} tasks "
            f"on average, the largest task has {self.balance:.2f} times the average"
        )


Cutting = Callable[[Sequence[int]], tuple[Slice, ...]]
"""Gives the slices of a plan that begin at some instants, about."""


def reaching(instants: int) -> Cutting:
    """Slices that need the events of a number of instants before what they report."""
    return lambda cuts: time_slices(cuts, lambda since: since - instants + 1)


def best_slicing(times: Times, cutting: Cutting, *, lead_cost: float = 1) -> Slicing | None:
    """The cheapest slicing; None if one task should do all. `lead_cost` is that of an event of a lead beside one of a slice."""
    counts = {min(turns * times.tasks, times.events // FEWEST_ROWS) for turns in TURNS}
    counts.add(-(-times.events // times.most_rows))
    ways = [
        _slicing(times, cutting(cuts), lead_cost) for count in sorted(counts) if (cuts := times.cuts(min(count, MOST_SLICES)))
    ]
    fitting = [way for way in ways if max(way[1].sizes) <= 2 * times.most_rows] or ways
    cost, best = min(fitting, key=lambda way: way[0], default=(0, None))
    return best if cost < times.events + SLICE_COST else None


def _slicing(times: Times, slices: tuple[Slice, ...], lead_cost: float) -> tuple[float, Slicing]:
    """What the longest chain of tasks costs, in events, about; and the slicing."""
    bounds = np.array([(item.since, item.until, item.low, item.high) for item in slices])
    since, until, low, high = times.before(bounds).T
    own, lead = until - since, np.maximum(high - low, 0)
    sizes = [int(size) for size in own + lead if size]
    turns = -(-len(sizes) // times.tasks)
    cost = (float((own + lead_cost * lead).max()) + SLICE_COST) * turns + IDLE * times.events / len(sizes)
    return cost, Slicing(slices, times.events, tuple(sizes))
