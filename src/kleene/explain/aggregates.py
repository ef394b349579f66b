"""Plans of AGG as text: how the aggregates are computed, and why."""

from __future__ import annotations

from collections.abc import Iterable

from kleene.explain.automata import length_text
from kleene.pattern.bound import BoundQuery
from kleene.pattern.text import expression_text
from kleene.plan.counting.counters import CounterPlan, Path
from kleene.plan.operators import Negation

METHODS = {
    "auto": "counts of segments on two stacks, or start events marked one by one if that costs less",
    "stacks": "counts of segments on two stacks: the cost of an event does not grow with the live start events",
    "marking": "start events marked one by one, each with its own counters",
    "pairs": "what a start event adds to the sums is taken back when it expires",
}

SHARING = {
    "auto": "what they have in common is counted once, as far as that costs less",
    "prefix": "common prefixes are counted once",
    "chop": "patterns are chopped where they have parts in common, which are counted once",
}


def counter_lines(plan: CounterPlan) -> list[str]:
    """The lines about counters: what they count, and how."""
    lines = [_path(plan, path) for path in plan.paths]
    method: str = plan.options.window
    if plan.compared is not None:
        lines.append(f"sums over pairs with {plan.compared}, by the order of the values")
        method = "pairs"
    if plan.window is None:
        lines.append("no window: one set of counters, nothing expires")
    else:
        lines.append(f"window of {length_text(plan.bound)}: {METHODS[method]}")
    if plan.partition:
        added = "" if plan.divided else ", whose values are added up"
        lines.append(f"counters for each {', '.join(plan.partition)}{added}")
    if plan.beside:
        lines.append(f"in one pass with {', '.join(plan.beside)}: {SHARING[plan.options.sharing]}")
    return lines


def counter_distribution(plan: CounterPlan) -> str:
    """How the counting is divided among tasks where no GROUP BY attribute divides it."""
    window = plan.window is not None
    if not window and plan.compares_texts:
        return "distribution: none: texts under MIN and MAX compare within one task only"
    if plan.compared is not None:
        if not window:
            return "distribution: none: without a window any event may be compared with a later one"
        return "distribution: slices of time, each with the window before it (one task for few events or long windows)"
    if plan.partition and not window:
        return f"distribution: by {', '.join(plan.partition)}, totals in one task (one task with fewer than four cores)"
    return "distribution: slices of time (one task for few events)"


def _path(plan: CounterPlan, path: Path) -> str:
    shown = []
    for position in path:
        shown.append(position.variable)
        shown.extend(f"no {plan.scanned[bit][0].variable}" for bit in position.negatives)
    return "prefixes of " + ", ".join(shown)


def aggregation_lines(bound: BoundQuery, ahead: Iterable[Negation | None] = ()) -> list[str]:
    """The lines about the rows of AGG; `ahead` is the negation that ends contributing matches."""
    query = bound.query
    lines = []
    for item in query.aggregates:
        computed = "COUNT" if item.variable is None else f"{item.function.upper()}({item.variable}.{item.attribute})"
        lines.append(f"{item.alias} = {computed}")
    if query.group_by:
        lines.append(f"for each {', '.join(query.group_by)}")
    changes = ", and when expiry changes a value" if query.emit_on_change and bound.window is not None else ""
    lines.append(f"a row at every {_triggers(bound)}{changes}")
    for negation in filter(None, ahead):
        lines.extend(f"a match counts until {item.event.variable} comes" for item in negation.components)
    if query.having is not None:
        lines.append(f"having {expression_text(query.having)}")
    return lines


def _triggers(bound: BoundQuery) -> str:
    found: dict[str, None] = {}
    for branch in bound.branches:
        followed = {first for first, _ in branch.order}
        found.update((event.variable, None) for index, event in enumerate(branch.positives) if index not in followed)
    return " or ".join(found)
