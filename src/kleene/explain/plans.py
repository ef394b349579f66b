"""Plans as text: the operators from the top down, with what each decides and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kleene.explain.aggregates import aggregation_lines, counter_distribution, counter_lines
from kleene.explain.automata import StateGraph, end_text, length_text, one_of, start_text, state_graph
from kleene.explain.estimates import choice_lines, statistics_lines
from kleene.explain.lazy_automata import scope_of, tree_size, unordered_alike
from kleene.pattern.operators import Event
from kleene.pattern.policies import Strategy
from kleene.pattern.text import expression_text, query_text
from kleene.plan.aggregation import MatchThenAggregate
from kleene.plan.automaton.nfa import AutomatonBranch
from kleene.plan.contract import Plan
from kleene.plan.counting.counters import CounterPlan, is_counted
from kleene.plan.distribution.slicing import obstacle
from kleene.plan.lazy.lazy import LazyBranch, LazyCondition, Stacks
from kleene.plan.operators import Negation, NegativeComponent
from kleene.plan.patterns import LazyPlan, MatchPlan, NfaPlan, StackPlan, runs_automata

ALGORITHMS = {
    "active_instance_stacks": "active instance stacks",
    "runtime_stack": "runtime stack (one cell per event)",
    "merging": "all runs at once, equivalent ones merged",
    "basic": "all runs at once",
    "backtrack": "one run at a time, with backtracking",
}

SELECTIVE = {
    "counts": "with the fewest candidates in scope",
    "cost": "with the fewest candidates in scope, as far as they are expected to satisfy its conditions",
}
"""How a tree chooses its next component: one ..."""

Operator = tuple[str, list[str]]
"""A heading, and the lines about its decisions."""


def explain(plan: Plan) -> str:
    """The plan as an indented list of operators, the result on top and the events at the bottom."""
    lines = [f"plan of '{plan.bound.query.name}'", *(f"  | {line}" for line in query_text(plan.bound.query).split("\n"))]
    for operator, details in operators(plan):
        lines.append(f"{operator}")
        lines.extend(f"    {detail}" for detail in details)
    return "\n".join(lines)


def operators(plan: Plan) -> list[Operator]:
    """The operators from the top down."""
    return OPERATORS[plan.evaluation](plan)


# --- stacks -----------------------------------------------------------------------------------------------------------


def _stack_operators(plan: StackPlan) -> list[Operator]:
    (branch,) = plan.branches
    stacks = branch.stacks
    assert stacks is not None
    found = [("TF  transformation", _transformation(plan, branch.components)), *_negations(plan)]
    if plan.window is not None and not stacks.window_in_construction:
        time = plan.bound.schema.time
        found.append(("WD  window", [f"last.{time} - first.{time} < {length_text(plan.bound)}"]))
    if stacks.selection:
        found.append(("SL  selection", [expression_text(item) for item in stacks.selection]))
    found.append((f"SC  sequence construction ({ALGORITHMS[stacks.algorithm]})", _construction(plan, branch, stacks)))
    found.append(("SS  sequence scan", _stack_scan(plan, stacks)))
    found.append(("EV  events", [_columns(plan), _distribution(plan)]))
    return found


def _construction(plan: StackPlan, branch: LazyBranch, stacks: Stacks) -> list[str]:
    lines = []
    if plan.window is not None and stacks.window_in_construction:
        lines.append(f"window: {length_text(plan.bound)}")
    if stacks.tests and not stacks.filters_transitions:
        lines.append(f"dynamic filtering: {', '.join(f'[{name}]' for name in stacks.tests)}")
    for variable, predicates in reversed(list(zip(branch.variables, stacks.predicates, strict=True))):
        lines.extend(f"when {variable} is bound: {expression_text(item)}" for item in predicates)
    return lines


def _stack_scan(plan: StackPlan, stacks: Stacks) -> list[str]:
    lines = _tests(plan)
    if plan.partition:
        lines.append(f"partitioned by {_names(plan.partition)} ({'PAIS' if len(plan.partition) == 1 else 'composite'})")
    if stacks.filters_transitions:
        lines.append(f"transitions filtered by {_names(stacks.tests)} (Multi-PAIS)")
    if plan.window is not None and stacks.window_in_scan:
        lines.append(f"window: {length_text(plan.bound)}")
    return lines


# --- automata ---------------------------------------------------------------------------------------------------------


def _nfa_operators(plan: NfaPlan) -> list[Operator]:
    found = [("TF  transformation", _transformation(plan, plan.positives)), *_after_matching(plan)]
    if plan.output == "compressed":
        found[0][1].append("compressed: the shared match buffer as data, a row per partition and block")
    graphs = [state_graph(plan.bound, branch) for branch in plan.bound.branches]
    for number, (branch, graph) in enumerate(zip(plan.branches, graphs, strict=True), 1):
        found.append((f"NFA automaton{_of_branch(plan, number)}", _automaton(plan, branch, graph)))
    found.append((f"RN  runs ({ALGORITHMS[plan.options.algorithm]})", _runs(plan)))
    found.append(("EV  events", [_columns(plan), *_rows(plan), _distribution(plan)]))
    return found


def _after_matching(plan: MatchPlan) -> list[Operator]:
    """The operators on matches of the positive components."""
    overlaps = [("NO  non-overlap", _non_overlap(plan))] if plan.needs_choice else []
    return [*overlaps, *_negations(plan)]


def _negations(plan: MatchPlan) -> list[Operator]:
    found = []
    for number, (pattern, branch) in enumerate(zip(plan.bound.branches, plan.branches, strict=True), 1):
        if branch.negation is not None:
            details = _negation(plan, branch.negation, pattern.positives)
            found.append((f"NG  negation ({NEGATIONS[branch.negation.method]}){_of_branch(plan, number)}", details))
    return found


def _of_branch(plan: MatchPlan, number: int) -> str:
    return f" of alternative {number}" if len(plan.branches) > 1 else ""


def _non_overlap(plan: MatchPlan) -> list[str]:
    whole = plan.bound.query.strategy is Strategy.STRICT_CONTIGUITY or not (plan.partition or plan.tests)
    where = "of the stream" if whole else "of a partition"
    pruned = runs_automata(plan) and plan.options.algorithm != "backtrack"
    pruned = pruned and len(plan.branches) == 1 and plan.branches[0].negation is None
    how = "a match ends all other runs" if pruned else "chosen among the matches"
    return [f"a match {where} starts after the one before has ended", how]


def _automaton(plan: NfaPlan, branch: AutomatonBranch, graph: StateGraph) -> list[str]:
    wide = max(len(edge.source) for edge in graph.edges)
    lines = [f"states: {', '.join(graph.states)}"]
    for edge in graph.edges:
        target = f"-> {edge.target}: " if edge.source != edge.target else ""
        lines.append(f"{edge.source:{wide}}  {edge.kind.value:7}  {target}{edge.formula}")
    for component in branch.automaton.components:
        for condition in component.element:
            lines.append(f"a run that selects an element without {expression_text(condition.expression)} ends")
    if plan.options.algorithm == "merging" and not branch.merges:
        again = [
            f"{expression_text(item.expression)} reads all elements of '{variable}' again"
            for item, variable in branch.automaton.looks_back()
        ]
        lines.append(f"runs are not merged: {(again or ['the plan switches it off'])[0]}")
    if branch.queued:
        lines.append("runs that wait for an event all take the next one: they are kept as a queue")
    return lines


def _runs(plan: NfaPlan) -> list[str]:
    lines = [f"strategy: {plan.bound.query.strategy.value}"]
    if plan.partition:
        lines.append(f"partitioned by {_names(plan.partition)}")
    if plan.tests:
        lines.append(f"compared with each run: {_names(plan.tests)}")
    limits = plan.limits
    lines.append(f"limits: {limits.runs:,} runs of a partition, {limits.matches:,} matches of an event; then {limits.policy}")
    return lines


def _rows(plan: MatchPlan) -> list[str]:
    lines = []
    if not plan.all_rows:
        lines.append("rows: relevant ones only")
    elif plan.bound.count_window is not None:
        lines.append("rows: all, for they count in a window of events")
    else:
        lines.append(f"rows: all, for any may break {plan.bound.query.strategy.value}")
    if plan.total_order:
        ties = "rows of equal time in order of arrival" if plan.ties == "arrival" else "ties in a partition are an error"
        lines.append(f"order: total ({ties})")
    else:
        lines.append("order: partial (events that tie are simultaneous)")
    return lines


# --- counter plans ----------------------------------------------------------------------------------------------------


def _counter_operators(plan: CounterPlan) -> list[Operator]:
    return [
        ("AG  aggregation (no match is built)", aggregation_lines(plan.bound)),
        ("PC  prefix counters", counter_lines(plan)),
        ("SS  scan", _scan_lines(plan)),
        ("EV  events", [_columns(plan), "rows: relevant ones only", _distribution(plan)]),
    ]


def _matched_operators(plan: MatchThenAggregate) -> list[Operator]:
    """The operators that find matches, with the aggregation on top in place of a transformation."""
    reasons = [f"not pushed into counters: {reason}" for reason in plan.reasons]
    rows = [] if plan.inner.evaluation == "stacks" else _rows(plan.inner)
    return [
        ("AG  aggregation of matches", [*reasons, *aggregation_lines(plan.bound, plan.ahead)]),
        *operators(plan.inner)[1:-1],
        ("EV  events", [_columns(plan), *rows, _distribution(plan)]),
    ]


# --- lazy plans -------------------------------------------------------------------------------------------------------


def _lazy_operators(plan: LazyPlan) -> list[Operator]:
    found = [("TF  transformation", _transformation(plan, plan.positives)), *_after_matching(plan)]
    for number, branch in enumerate(plan.branches, 1):
        found.append((f"BN  binding ({_mechanism(plan)}){_of_branch(plan, number)}", _binding(plan, branch)))
    if plan.statistics is not None:
        for number, branch in enumerate(plan.branches, 1):
            found.append((f"CH  choice{_of_branch(plan, number)}", choice_lines(plan, branch, plan.statistics)))
        found.append(("ST  statistics", statistics_lines(plan.bound, plan.statistics)))
    found.append(("SS  scan", _scan_lines(plan)))
    found.append(("EV  events", [_columns(plan), *_rows(plan), _distribution(plan)]))
    return found


def _mechanism(plan: LazyPlan) -> str:
    if plan.stacks:
        return "chain, or active instance stacks if they cost less"
    return {"eager": "eager: in order of appearance", "tree": "tree"}.get(plan.options.evaluation, "chain")


def _binding(plan: LazyPlan, branch: LazyBranch) -> list[str]:
    lines = [f"window: {_window(plan)}"] if plan.bound.window is not None or plan.bound.count_window is not None else []
    if plan.tests:
        lines.append(f"all agree on {_names(plan.tests)}")
    order = plan.order_of(branch)
    if order is not None:
        return [*lines, *(_step(branch, order[:position], component) for position, component in enumerate(order))]
    lines += _choosing(plan, branch)
    return [*lines, *(f"condition: {_condition(item)}" for item in branch.conditions)]


def _window(plan: LazyPlan) -> str:
    bound = plan.bound
    return length_text(bound) if bound.count_window is None else f"{bound.count_window:,} events"


def _step(branch: LazyBranch, have: tuple[int, ...], component: int) -> str:
    """The line about binding a component after others."""
    events = branch.components
    variable = events[component].variable
    known = {variable, *(events[index].variable for index in have)}
    asked = [_condition(item) for item in branch.conditions if item.is_asked(variable, known)]
    asked += [f"distinct from {events[index].variable}" for index in unordered_alike(events, branch.precedes, have, component)]
    scope = scope_of(events, branch.precedes, have, component)
    where = f" where {' AND '.join(asked)}" if asked else ""
    return f"take {variable}{'[]' if events[component].is_kleene else ''} in {scope}{where}"


def _condition(item: LazyCondition) -> str:
    if item.via:
        return f"{item.text} (implied through {', '.join(sorted(item.via))})"
    return item.text if item.compiled else f"{item.text} (not compiled)"


def _choosing(plan: LazyPlan, branch: LazyBranch) -> list[str]:
    """The lines about how the order is chosen."""
    options = plan.options
    source = "the rates and selectivities of the events" if plan.statistics is None else "the statistics"
    again = ", and again when they change" if options.adaptive else ""
    chosen = f"chosen while running, from {source}{again}"
    if options.evaluation == "tree":
        return [
            f"first: {chosen}",
            f"next, for every partial match: the component {SELECTIVE[options.selectivity]}",
            f"states: {tree_size(branch.components):,}",
        ]
    return [f"order: {chosen} (planner: {options.planner})"]


def _scan_lines(plan: Plan) -> list[str]:
    return [*_tests(plan), f"partitioned by {_names(plan.partition)}"] if plan.partition else _tests(plan)


def _tests(plan: Plan) -> list[str]:
    """The tests of single events, a line each."""
    lines = []
    for event, predicates in plan.scanned:
        shown = f"!({_event(event)})" if event.negated else _event(event) + ("[]" if event.is_kleene else "")
        asked = " AND ".join(map(expression_text, predicates))
        lines.append(f"{shown} where {asked}" if asked else shown)
    return lines


# --- what all plans have ----------------------------------------------------------------------------------------------


def _transformation(plan: Plan, positives: Sequence[Event]) -> list[str]:
    if plan.transformation.columns:
        return [f"{alias} = {expression_text(item)}" for alias, item in plan.transformation.columns]
    names = (event.variable + ("[]" if event.is_kleene else "") for event in positives)
    return ["one struct per variable: " + ", ".join(names)]


NEGATIONS = {
    "key_index": "index by key",
    "time_index": "time-partitioned index",
    "scan": "scan of all negative events",
}


def _negation(plan: Plan, negation: Negation, positives: Sequence[Event]) -> list[str]:
    lines = []
    for component in negation.components:
        lines.append(f"no {_event(component.event)} in {_interval(plan, component, positives)}")
        if component.keyed:
            lines.append(f"  of the same {_names(plan.partition)}")
        lines.extend(f"  with {expression_text(item)}" for item in component.predicates)
    if negation.postponed:
        lines.append(f"postponed: a match is reported when its window of {length_text(plan.bound)} has passed")
    return lines


def _interval(plan: Plan, component: NegativeComponent, positives: Sequence[Event]) -> str:
    time = plan.bound.schema.time
    ends = [end_text(positives[index]) for index in component.after]
    starts = [start_text(positives[index]) for index in component.before]
    ordered = all(branch.is_sequence for branch in plan.bound.branches)
    first, last = (start_text(positives[0]), end_text(positives[-1])) if ordered else ("first", "last")
    low = one_of("max", ends) if ends else f"{last}.{time} - {length_text(plan.bound)}"
    high = one_of("min", starts) if starts else f"{first}.{time} + {length_text(plan.bound)}"
    return f"({low}, {high})"


def _event(event: Event) -> str:
    types = event.types[0] if len(event.types) == 1 else f"ANY({', '.join(event.types)})"
    return types if types == event.variable else f"{types} {event.variable}"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names)


def _columns(plan: Plan) -> str:
    return f"columns: {', '.join(plan.columns)}"


def _distribution(plan: Plan) -> str:
    if plan.keys:
        return f"distribution: by {_names(plan.keys)}"
    if is_counted(plan):
        return counter_distribution(plan)
    reason = "no equivalence test divides the stream"
    if plan.kind == "matches":
        reason = "all matches are aggregated together"
    elif plan.bound.query.strategy is Strategy.STRICT_CONTIGUITY:
        reason = "strict contiguity looks at every event of the stream"
    undivided = obstacle(plan)
    return f"distribution: slices of time: {reason}" if undivided is None else f"distribution: none: {reason}; {undivided}"


OPERATORS: Mapping[str, Callable[[Any], list[Operator]]] = {
    "stacks": _stack_operators,
    "auto": _lazy_operators,
    "chain": _lazy_operators,
    "tree": _lazy_operators,
    "eager": _lazy_operators,
    "automaton": _nfa_operators,
    "counters": _counter_operators,
    "aggregation": _matched_operators,
}
"""The operators of a plan, by its evaluation."""
