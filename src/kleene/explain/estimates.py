"""Statistics and estimated costs as text: the known rates and selectivities, and the cost of each alternative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kleene.pattern.bound import BoundQuery
from kleene.plan.order.statistics import Statistics

if TYPE_CHECKING:
    from kleene.plan.lazy.lazy import LazyBranch
    from kleene.plan.patterns import LazyPlan


def statistics_lines(bound: BoundQuery, statistics: Statistics) -> list[str]:
    """Rates and selectivities, a line each."""
    names = [event.variable for event in bound.components if event.variable in statistics.rates]
    lines = [f"rate of {name}: {number_text(statistics.rates[name])} {per_unit(bound)}" for name in names]
    lines += [f"selectivity {number_text(share)}: {text}" for text, share in statistics.selectivities.items()]
    if statistics.same_partition < 1:
        lines.append(f"two events are of one partition: {number_text(statistics.same_partition)}")
    if statistics.events:
        lines.append(f"from {statistics.events:,} events")
    return lines


def choice_lines(plan: LazyPlan, branch: LazyBranch, statistics: Statistics) -> list[str]:
    """The alternatives of a branch with their estimated costs, the cheapest first."""
    from kleene.plan.lazy.choice import alternatives

    rows = []
    for item in alternatives(plan, branch, statistics):
        costs = number_text(item.evaluations), number_text(item.partial_matches), time_text(item.nanoseconds)
        rows.append([item.name, order_text(branch, item.order), *costs])
    return table([f"estimated {per_unit(plan.bound)}", "order", "evaluations", "partial matches", "time"], rows)


def order_text(branch: LazyBranch, order: Sequence[int] | None) -> str:
    """The variables in an order of binding."""
    return "" if order is None else ", ".join(branch.variables[index] for index in order)


def per_unit(bound: BoundQuery) -> str:
    """The unit of rates."""
    if bound.count_window is not None:
        return "per event"
    return "per unit of time" if bound.schema.time_unit is None else "per second"


def number_text(value: float) -> str:
    """A number with three significant digits, or a whole number from 1,000 on.

    >>> [number_text(value) for value in (0, 0.01234, 12.345, 1234.5, 12345678.9, 3e18)]
    ['0', '0.0123', '12.3', '1,234', '12,345,679', '3e+18']
    """
    return f"{value:,.0f}" if 1000 <= value < 1e15 else f"{value:.3g}"


def time_text(nanoseconds: float) -> str:
    """A duration in a unit that fits.

    >>> [time_text(value) for value in (12.3, 4567, 8.9e6, 1.2e9, 5e12)]
    ['12.3 ns', '4.57 us', '8.9 ms', '1.2 s', '5,000 s']
    """
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if nanoseconds >= size:
            return f"{number_text(nanoseconds / size)} {unit}"
    return f"{number_text(nanoseconds)} ns"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligned columns: words to the left, numbers to the right; empty columns are left out.

    >>> print(*table(["", "name", "count"], [["", "one", "9"], ["", "other", "10"]]), sep="\\n")
    name   count
    one        9
    other     10
    """
    columns = [column for column in zip(head, *rows, strict=True) if any(column[1:])]
    aligned = []
    for column in columns:
        width = max(map(len, column))
        numeric = all(cell[:1].isdigit() for cell in column[1:] if cell)
        aligned.append([cell.rjust(width) if numeric else cell.ljust(width) for cell in column])
    return ["  ".join(cells).rstrip() for cells in zip(*aligned, strict=True)]
