"""A plan as text: the operators from the top down, what each decides, and why."""

from __future__ import annotations

from kleene.pattern.bound import BoundQuery
from kleene.pattern.operators import Event
from kleene.pattern.predicates import Expression
from kleene.pattern.text import expression_text, query_text
from kleene.plan.sequence import Negation, NegativeComponent, SequencePlan

ALGORITHMS = {
    "active_instance_stacks": "active instance stacks",
    "runtime_stack": "runtime stack (one cell per event)",
}


def explain(plan: SequencePlan) -> str:
    """The plan as an indented list of operators, the result on top and the events at the bottom."""
    lines = [f"plan of '{plan.bound.query.name}'", *(f"  | {line}" for line in query_text(plan.bound.query).split("\n"))]
    for operator, details in _operators(plan):
        lines.append(f"{operator}")
        lines.extend(f"    {detail}" for detail in details)
    return "\n".join(lines)


def _operators(plan: SequencePlan) -> list[tuple[str, list[str]]]:
    found = [("TF  transformation", _transformation(plan))]
    if plan.negation is not None:
        found.append((f"NG  negation ({_method(plan.negation)})", _negation(plan, plan.negation)))
    if plan.window is not None:
        found.append(
            ("WD  window", [f"last.{plan.bound.schema.time} - first.{plan.bound.schema.time} < {_length(plan.bound)}"])
        )
    if plan.selection is not None:
        found.append(("SL  selection", [expression_text(item) for item in plan.selection.predicates]))
    found.append((f"SC  sequence construction ({ALGORITHMS[plan.construction.algorithm]})", _construction(plan)))
    found.append(("SS  sequence scan", _scan(plan)))
    found.append(("EV  events", [f"columns: {', '.join(plan.columns)}", f"distribution: {_distribution(plan)}"]))
    return found


def _transformation(plan: SequencePlan) -> list[str]:
    if plan.transformation.columns:
        return [f"{alias} = {expression_text(item)}" for alias, item in plan.transformation.columns]
    return ["one struct per variable: " + ", ".join(event.variable for event in plan.scan.components)]


def _method(negation: Negation) -> str:
    return "time-partitioned index" if negation.method == "time_index" else "scan of all negative events"


def _negation(plan: SequencePlan, negation: Negation) -> list[str]:
    lines = []
    for component in negation.components:
        lines.append(f"no {_event(component.event)} in {_interval(plan, component)}")
        if component.keyed:
            lines.append(f"  of the same {_names(plan.scan.partition)}")
        lines.extend(f"  with {expression_text(item)}" for item in component.predicates)
    if negation.postponed:
        lines.append(f"postponed: a match is reported when its window of {_length(plan.bound)} has passed")
    return lines


def _interval(plan: SequencePlan, component: NegativeComponent) -> str:
    positives = plan.scan.components
    time = plan.bound.schema.time
    if component.after is None:
        low = f"{positives[-1].variable}.{time} - {_length(plan.bound)}"
    else:
        low = positives[component.after].variable
    if component.before is None:
        high = f"{positives[0].variable}.{time} + {_length(plan.bound)}"
    else:
        high = positives[component.before].variable
    return f"({low}, {high})"


def _construction(plan: SequencePlan) -> list[str]:
    lines = []
    if plan.construction.window is not None:
        lines.append(f"window: {_length(plan.bound)}")
    if plan.construction.tests:
        lines.append(f"dynamic filtering: {', '.join(f'[{name}]' for name in plan.construction.tests)}")
    for event, predicates in reversed(list(zip(plan.scan.components, plan.construction.predicates, strict=True))):
        lines.extend(f"when {event.variable} is bound: {expression_text(item)}" for item in predicates)
    return lines


def _scan(plan: SequencePlan) -> list[str]:
    lines = []
    for event, predicates in zip(plan.scan.components, plan.scan.predicates, strict=True):
        lines.append(_event(event) + _where(predicates))
    for component in plan.negation.components if plan.negation else ():
        lines.append(f"!({_event(component.event)})" + _where(component.scan_predicates))
    if plan.scan.partition:
        name = "PAIS" if len(plan.scan.partition) == 1 else "composite"
        lines.append(f"partitioned by {_names(plan.scan.partition)} ({name})")
    if plan.scan.transition_tests:
        lines.append(f"transitions filtered by {_names(plan.scan.transition_tests)} (Multi-PAIS)")
    if plan.scan.window is not None:
        lines.append(f"window: {_length(plan.bound)}")
    return lines


def _where(predicates: tuple[Expression, ...]) -> str:
    return " where " + " AND ".join(expression_text(item) for item in predicates) if predicates else ""


def _event(event: Event) -> str:
    types = event.types[0] if len(event.types) == 1 else f"ANY({', '.join(event.types)})"
    return types if types == event.variable else f"{types} {event.variable}"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names)


def _distribution(plan: SequencePlan) -> str:
    return f"by {_names(plan.keys)}" if plan.keys else "none: no equivalence test divides the stream, one task sees all events"


def _length(bound: BoundQuery) -> str:
    unit = bound.schema.time_unit
    assert bound.window is not None
    if unit is None:
        return f"{bound.window:,}"
    microseconds = bound.window // (1000 if unit == "ns" else 1)
    for size, word in ((86_400_000_000, "day"), (3_600_000_000, "hour"), (60_000_000, "minute"), (1_000_000, "second")):
        if microseconds >= size and microseconds % size == 0:
            count = microseconds // size
            return f"{count} {word}{'s' if count != 1 else ''}"
    return f"{microseconds:,} microseconds"
