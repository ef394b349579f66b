"""All checks of a query that need no events; all problems are reported together.

Invariant after `validate`: variables are unique and known, every reference fits its variable (Kleene or not), negation can be
decided, and clauses go together. Cost: linear in the query, plus its normal form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kleene.common.errors import BindingError, Problem, Span, nearest
from kleene.common.terminal import is_text
from kleene.pattern import predicates as p
from kleene.pattern.clauses import check_clauses
from kleene.pattern.conditions import RUNNING
from kleene.pattern.limits import BESIDE_EVENTS, MAX_COMPONENTS, MAX_DEPTH, MAX_PARTS, too_deep, too_large
from kleene.pattern.normalize import normalize
from kleene.pattern.operators import Conjunction, Event, Operator, events, parts_of, walk
from kleene.pattern.policies import LogicalQuery, Strategy
from kleene.pattern.text import expression_text, name_text, pattern_text

RESERVED = ("query", "match_id", "match_start", "match_end")
"""Columns of every match: no variable and no RETURN column may have these names."""


def validate(query: LogicalQuery) -> None:
    """Raises one BindingError with all problems that can be found without events.

    >>> from kleene.language.parser import parse
    >>> validate(parse("PATTERN SEQ(A a, B b) WHERE a.x = c.x"))
    Traceback (most recent call last):
    kleene.common.errors.BindingError: unknown variable 'c' at line 1, column 35
      PATTERN SEQ(A a, B b) WHERE a.x = c.x
                                        ^^^
      hint: known: 'a', 'b'
    """
    problems = find_problems(query)
    if problems:
        raise BindingError(problems, query.text)


def find_problems(query: LogicalQuery) -> list[Problem]:
    """The problems that `validate` reports, in order of appearance: pattern, conditions, clauses."""
    deep = list(_depth_problems(query))
    if deep:
        return deep
    halves = list(_half_characters(query))
    if halves:
        return halves
    components = {event.variable: event for event in events(query.pattern)}
    problems = [
        *_component_problems(query),
        *_structure_problems(query),
        *_condition_problems(query, components),
        *_return_problems(query, components),
        *check_clauses(query, components),
    ]
    return list(dict.fromkeys(problems))


def _depth_problems(query: LogicalQuery) -> Iterator[Problem]:
    if too_deep(query.pattern, parts_of):
        yield Problem(f"pattern nested deeper than {MAX_DEPTH}", query.pattern.span)
    expressions = (query.where, query.having, *(item.expression for item in query.returns))
    if too_large(expressions):
        message = f"query '{query.name}' has more than {MAX_PARTS:,} operators, attributes and constants"
        yield Problem(message, hint=BESIDE_EVENTS)
    for expression in expressions:
        if expression is not None and (node := too_deep(expression, p.children)) is not None:
            yield Problem(f"expression nested deeper than {MAX_DEPTH}", node.span)


def _half_characters(query: LogicalQuery) -> Iterator[Problem]:
    """Strings with a lone surrogate, which no event can have and which cannot be encoded."""
    hint = "use text that can be encoded as UTF-8"
    named: list[tuple[object, Span | None]] = [(name, None) for name in (query.name, query.into)]
    named += [(item.alias, None) for item in query.returns] + [(item.alias, None) for item in query.aggregates]
    named += [(name, event.span) for event in events(query.pattern) for name in (*event.types, event.variable)]
    for expression in (query.where, query.having, *(item.expression for item in query.returns)):
        for node in p.walk(expression) if expression is not None else ():
            named += [(getattr(node, place, None), node.span) for place in ("value", "name", "variable", "function")]
    for text, span in named:
        if isinstance(text, str) and not is_text(text):
            yield Problem(f"'{text}' contains a lone surrogate", span, hint)


def _component_problems(query: LogicalQuery) -> Iterator[Problem]:
    seen: set[str] = set()
    for event in events(query.pattern):
        if event.variable in seen:
            first = type_word(event)
            hint = f"name the components apart, for example {first} {event.variable}1, {first} {event.variable}2"
            yield Problem(f"variable '{event.variable}' is used twice", event.span, hint)
        seen.add(event.variable)
        if event.variable in RESERVED:
            hint = "every match has a column of that name: choose another variable"
            yield Problem(f"variable name '{event.variable}' is reserved", event.span, hint)
        if not event.types:
            yield Problem("a component needs an event type", event.span)
        yield from _quantifier_problems(event)
    if len(seen) > MAX_COMPONENTS:
        message = f"the pattern has {len(seen)} components; at most {MAX_COMPONENTS} are supported"
        yield Problem(message, hint="use Kleene plus or {n,m} for repetition, or split the query")


def type_word(event: Event) -> str:
    """The type of a component as messages show it."""
    return pattern_text(Event(event.types, "_".join(event.types)))


def _quantifier_problems(event: Event) -> Iterator[Problem]:
    quantifier = event.quantifier
    if quantifier is None:
        return
    if event.negated:
        hint = f"write !({type_word(event)} {name_text(event.variable)}): it already forbids every such event"
        yield Problem("a negative component cannot be repeated or optional", event.span, hint)
    if quantifier.low < 0:
        yield Problem("a repetition cannot be negative", event.span)
    if quantifier.high is not None and quantifier.high <= 0:
        yield Problem("a repetition needs at least one event", event.span, "to forbid the event, negate it: !(T x)")
    elif quantifier.high is not None and quantifier.low > quantifier.high:
        message = f"repetition {{{quantifier.low},{quantifier.high}}} has its bounds in the wrong order"
        yield Problem(message, event.span, f"write {{{quantifier.high},{quantifier.low}}}")


def _structure_problems(query: LogicalQuery) -> Iterator[Problem]:
    nodes = list(walk(query.pattern))
    if any(isinstance(node, Operator) and not node.parts for node in nodes):
        yield Problem("SEQ, AND and OR need at least one part", query.pattern.span)
        return
    if sum(isinstance(node, Event) for node in nodes) > MAX_COMPONENTS:
        return  # reported with the components; the normal form holds a pair for every two of them
    conjunctions = [node for node in nodes if isinstance(node, Conjunction)]
    if conjunctions and query.strategy is not Strategy.SKIP_TILL_ANY_MATCH:
        message = f"AND needs the strategy skip_till_any_match, not {query.strategy.value}"
        yield Problem(message, conjunctions[0].span, "remove the strategy, or write SEQ")
    try:
        branches = normalize(query.pattern)
    except BindingError as error:
        yield from error.problems
        return
    if query.within is not None:
        return
    for negative in dict.fromkeys(negative for branch in branches for negative in branch.negatives):
        side = None
        if negative.anywhere:
            side = "negation under AND"
        elif not negative.before:
            side = "negated end"
        elif not negative.after:
            side = "negated start"
        if side:
            message = f"unbounded {side}: nothing says how long '{negative.event.variable}' must not occur"
            yield Problem(message, negative.event.span, "add a WITHIN clause")


def _condition_problems(query: LogicalQuery, components: dict[str, Event]) -> Iterator[Problem]:
    for conjunct in p.conjuncts(query.where):
        yield from reference_problems(conjunct, components)
        yield from _negative_problems(conjunct, components)
        yield from _element_problems(conjunct)
        if not isinstance(conjunct, p.Equivalence):
            for node in p.walk(conjunct):
                if isinstance(node, p.Equivalence):
                    hint = "make it a separate condition, joined by AND"
                    yield Problem(f"the equivalence test [{node.name}] is inside another condition", node.span, hint)


def reference_problems(expression: p.Expression, components: dict[str, Event]) -> Iterator[Problem]:
    """Unknown variables, and references that do not fit their variable."""
    for node in p.walk(expression):
        if not isinstance(node, p.Attribute | p.Length | p.Aggregate):
            continue
        event = components.get(node.variable)
        if event is None:
            yield Problem(f"unknown variable '{node.variable}'", node.span, nearest(node.variable, components))
        elif isinstance(node, p.Attribute):
            yield from _attribute_problems(node, event)
        elif not event.is_kleene:
            yield _not_kleene(node, event)


def _attribute_problems(node: p.Attribute, event: Event) -> Iterator[Problem]:
    name = name_text(node.variable)
    if node.element is p.Element.SINGLE and event.is_kleene:
        forms = (f"{name}[{index}].{node.name}" for index in ("1", "i", f"{name}.LEN"))
        hint = f"write {', '.join(forms)} or avg({name}[].{node.name})"
        yield Problem(f"'{node.variable}' holds several events: which one's '{node.name}'?", node.span, hint)
    elif node.element is p.Element.SO_FAR:
        hint = f"write for example avg({expression_text(node)})"
        yield Problem(f"{expression_text(node)} is used outside an aggregate", node.span, hint)
    elif node.element is not p.Element.SINGLE and not event.is_kleene:
        yield _not_kleene(node, event)


def _not_kleene(node: p.Attribute | p.Length | p.Aggregate, event: Event) -> Problem:
    message = f"{expression_text(node)} reads '{node.variable}' as an array, but it holds one event"
    if isinstance(node, p.Length):
        hint = f"for an attribute of that name write {name_text(node.variable)}.`LEN`"
    elif node.name is None:
        hint = f"declare it as {type_word(event)}+ {name_text(node.variable)}[]"
    else:
        hint = f"write {expression_text(p.Attribute(node.variable, node.name))}"
        hint += f", or declare it as {type_word(event)}+ {name_text(node.variable)}[]"
    return Problem(message, node.span, hint)


def _negative_problems(conjunct: p.Expression, components: dict[str, Event]) -> Iterator[Problem]:
    negatives = sorted(name for name in p.variables(conjunct) if name in components and components[name].negated)
    if len(negatives) > 1:
        named = " and ".join(f"'{name}'" for name in negatives)
        hint = "a condition may name at most one negative component: split it at its ANDs"
        yield Problem(f"the condition names the negative components {named}", conjunct.span, hint)


def _element_problems(conjunct: p.Expression) -> Iterator[Problem]:
    outside_aggregates = {(node.variable, node.element) for node in p.walk(conjunct) if isinstance(node, p.Attribute)}
    inside = {(node.variable, node.element) for node in p.walk(conjunct) if isinstance(node, p.Aggregate)}
    iterated = {name for name, element in outside_aggregates | inside if element in RUNNING}
    if len(iterated) > 1:
        named = " and ".join(f"{name_text(name)}[i]" for name in sorted(iterated))
        yield Problem(f"{named} in one condition: i can run over one variable only", conjunct.span, "split the condition")
    each = {name for name, element in outside_aggregates if element is p.Element.EACH}
    for name in sorted(each & iterated):
        shown = name_text(name)
        message = f"{shown}[] and {shown}[i] in one condition: one means every element, the other one element"
        yield Problem(message, conjunct.span, "use an aggregate over the array, or split the condition")


def _return_problems(query: LogicalQuery, components: dict[str, Event]) -> Iterator[Problem]:
    for item in query.returns:
        yield from reference_problems(item.expression, components)
        for node in p.walk(item.expression):
            if isinstance(node, p.Equivalence):
                yield Problem(f"RETURN cannot contain the equivalence test [{node.name}]", node.span)
            if not isinstance(node, p.Attribute | p.Length | p.Aggregate):
                continue
            event = components.get(node.variable)
            if event is not None and event.negated:
                hint = "a negative component binds no event"
                yield Problem(f"RETURN names the negative component '{node.variable}'", node.span, hint)
            elif not isinstance(node, p.Length) and not (node is item.expression and node.element is p.Element.EACH):
                yield from _return_element_problems(node)
    yield from _alias_problems(query)


def _return_element_problems(node: p.Attribute | p.Aggregate) -> Iterator[Problem]:
    name = name_text(node.variable)
    hint = f"write {name}[1], {name}[{name}.LEN] or an aggregate over {name}[]"
    if node.element in RUNNING:
        yield Problem(f"{expression_text(node)} in RETURN: a finished match has no current element", node.span, hint)
    elif isinstance(node, p.Attribute) and node.element is p.Element.EACH:
        message = f"{expression_text(node)} is a list: RETURN can return it, but not compute with it"
        yield Problem(message, node.span, hint)


def _alias_problems(query: LogicalQuery) -> Iterator[Problem]:
    for name, count in Counter(item.alias for item in query.returns).items():
        if count > 1:
            span: Span | None = next(item.expression.span for item in reversed(query.returns) if item.alias == name)
            yield Problem(f"RETURN has {count} columns named '{name}'", span, "name them apart with AS")
        if name in RESERVED:
            message = f"RETURN column '{name}' is reserved: every match has a column of that name"
            yield Problem(message, hint="choose another name")
