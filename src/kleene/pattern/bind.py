"""Binding a query to the events it will read: names resolved, kinds checked, the window in the unit of the time column.

`bind` is the only maker of `BoundQuery`. All problems of a query, `validate`'s included, are reported together. A bare name is
an attribute where the pattern has exactly one component with such an attribute; else a parameter. In HAVING it is first of all
a column of AGG or GROUP BY: only these names stay names. Cost: linear in the query.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kleene.common.errors import BindingError, Problem, Span, nearest
from kleene.common.schema import EventSchema, Kind
from kleene.pattern import predicates as p
from kleene.pattern.bound import BoundQuery
from kleene.pattern.clauses import clause_span
from kleene.pattern.kinds import KindChecker, a_kind, aggregate_kind, kind_of
from kleene.pattern.moments import moment_of_text
from kleene.pattern.normalize import normalize
from kleene.pattern.operators import Event, events
from kleene.pattern.parameters import parameter_list, parameter_value
from kleene.pattern.policies import LogicalQuery, ReturnItem
from kleene.pattern.registered import Function
from kleene.pattern.validate import find_problems, type_word
from kleene.pattern.windows import bind_window

__all__ = ["bind", "kind_of"]


def bind(
    query: LogicalQuery,
    schema: EventSchema,
    *,
    params: Mapping[str, object] | None = None,
    partition_by: Sequence[str] = (),
) -> BoundQuery:
    """A query bound to a schema, or one BindingError with all problems.

    >>> from kleene.language.parser import parse
    >>> schema = EventSchema({"ts": Kind.TIMESTAMP, "type": Kind.STRING, "id": Kind.INTEGER}, "ts", "type")
    >>> bind(parse("PATTERN SEQ(A a, B b) WHERE [id] WITHIN 2 seconds"), schema).window
    2000000
    """
    binder = _Binder(query, schema, dict(params or {}))
    bound = binder.bind(tuple(partition_by))
    if binder.problems:
        raise BindingError(list(dict.fromkeys(binder.problems)), query.text)
    assert bound is not None
    return bound


class _Binder:
    """The state of one binding: the problems found so far, and the meaning of names."""

    def __init__(self, query: LogicalQuery, schema: EventSchema, params: dict[str, object]) -> None:
        self.query = query
        self.schema = schema
        self.params = params
        self.components = {event.variable: event for event in events(query.pattern)}
        self.functions = {function.key: function for function in query.functions}
        self.problems = find_problems(query)
        self.checker = KindChecker(schema, self._output_kinds(), self.problems, tuple(self.functions))

    def bind(self, partition_by: tuple[str, ...]) -> BoundQuery | None:
        if any("nested deeper" in problem.message for problem in self.problems):
            return None
        self._check_types()
        window, span = self.query.within, clause_span(self.query, "WITHIN")
        within = bind_window(window, self.schema, self.params, self.problems, span) if window else None
        where = [self._resolve(conjunct) for conjunct in p.conjuncts(self.query.where)]
        returns = tuple(ReturnItem(self._resolve(item.expression), item.alias) for item in self.query.returns)
        having = None if self.query.having is None else self._resolve(self.query.having, in_having=True)
        conditions = where if having is None else [*where, having]
        for condition in conditions:
            self.checker.condition(condition)
        for item in returns:
            self.checker.kind(item.expression)
        equivalences = self._equivalences(partition_by, where)
        self._check_aggregates()
        if self.problems:
            return None
        return BoundQuery(
            query=replace(
                self.query,
                where=p.conjunction(where),
                returns=returns,
                having=having,
                functions=self._called((*conditions, *(item.expression for item in returns))),
            ),
            schema=self.schema,
            branches=normalize(self.query.pattern),
            conjuncts=tuple(conjunct for conjunct in where if not isinstance(conjunct, p.Equivalence)),
            equivalences=equivalences,
            window=within.time if within else None,
            count_window=within.events if within else None,
        )

    def _called(self, expressions: Iterable[p.Expression]) -> tuple[Function, ...]:
        """The given functions that expressions call."""
        called = {node.registered for item in expressions for node in p.walk(item) if isinstance(node, p.Call)}
        return tuple(function for function in self.functions.values() if function in called)

    def _report(self, message: str, span: Span | None = None, hint: str | None = None) -> None:
        self.problems.append(Problem(message, span, hint))

    def _output_kinds(self) -> dict[str, Kind]:
        """Kinds of the names that HAVING may use."""
        kinds = {name: self.schema.columns[name] for name in self.query.group_by if name in self.schema.columns}
        for item in self.query.aggregates:
            kind = self.schema.columns.get(item.attribute, Kind.NULL) if item.attribute else Kind.NULL
            kinds[item.alias] = aggregate_kind(item.function, kind) or Kind.NULL
        return kinds

    # Types

    def _check_types(self) -> None:
        if self.schema.type is None:
            named = dict.fromkeys(name for event in self.components.values() for name in event.types)
            if len(named) > 1:
                shown = ", ".join(f"'{name}'" for name in list(named)[:5])
                self._report(f"the pattern names the types {shown}, but no type column was given", hint="pass type=...")
        if self.schema.types is None:
            return
        for event in self.components.values():
            for name in event.types:
                if name not in self.schema.types:
                    self._report(f"unknown event type '{name}'", event.span, nearest(name, self.schema.types))

    def _attributes_of(self, event: Event) -> frozenset[str]:
        """The attributes of at least one of a component's types."""
        declared = frozenset().union(*(self.schema.attributes_of(name) for name in event.types))
        return declared & frozenset(self.schema.columns)

    def _check_attribute(self, variable: str, name: str, span: Span | None) -> None:
        event = self.components.get(variable)
        if event is None:
            return
        known = self._attributes_of(event)
        if name not in known and (self.schema.types is None or set(event.types) <= set(self.schema.types)):
            self._report(f"unknown attribute '{name}' of '{variable}' ({type_word(event)})", span, nearest(name, known))

    # Names

    def _resolve(self, expression: p.Expression, *, in_having: bool = False) -> p.Expression:
        """An expression with names and functions resolved, attributes checked, and text compared with a timestamp made one."""

        def rule(node: p.Expression) -> p.Expression:
            if isinstance(node, p.Name):
                return node if in_having and node.name in self.checker.names else self._name(node, in_having)
            if isinstance(node, p.Attribute | p.Aggregate):
                if node.name is not None:
                    self._check_attribute(node.variable, node.name, node.span)
                return node
            if isinstance(node, p.In) and isinstance(node.items, p.Name):
                return node
            if isinstance(node, p.Call):
                return replace(node, registered=self.functions[node.function]) if node.function in self.functions else node
            return self._with_timestamps(node)

        return p.transform(self._parameters_first(expression), rule)

    def _parameters_first(self, expression: p.Expression) -> p.Expression:
        """Replaces the names that can only be parameters, because a list or a constant is required there."""

        def rule(node: p.Expression) -> p.Expression:
            if isinstance(node, p.In) and isinstance(node.items, p.Name):
                return replace(node, items=self._list(node.items))
            if isinstance(node, p.Equivalence) and isinstance(node.value, p.Name):
                return replace(node, value=self._parameter(node.value))
            return node

        return p.transform(expression, rule)

    def _name(self, node: p.Name, in_having: bool) -> p.Expression:
        if len(self.components) == 1 and not in_having:
            event = next(iter(self.components.values()))
            if node.name in self._attributes_of(event):
                element = p.Element.EACH if event.is_kleene else p.Element.SINGLE
                return p.Attribute(event.variable, node.name, element, span=node.span)
        return self._parameter(node, [*self.checker.names] if in_having else None)

    def _parameter(self, node: p.Name, known: Iterable[str] | None = None) -> p.Literal:
        if node.name in self.params:
            return parameter_value(node.name, self.params[node.name], node.span, self.problems)
        candidates = [*self.params, *(known or ())]
        if len(self.components) == 1 and known is None:
            candidates += self._attributes_of(next(iter(self.components.values())))
        near = nearest(node.name, candidates) if candidates else None
        hint = f"if it is text, quote it: '{node.name}'; if it is a parameter, pass params={{'{node.name}': ...}}"
        if near and near.startswith("did you mean"):
            hint = f"{near} Otherwise, {hint}"
        self._report(f"unknown name '{node.name}'", node.span, hint)
        return p.Literal(None, span=node.span)

    def _list(self, node: p.Name) -> tuple[p.Expression, ...]:
        if node.name not in self.params:
            self._parameter(node)
            return ()
        return parameter_list(node.name, self.params[node.name], node.span, self.problems)

    # Timestamps

    def _with_timestamps(self, node: p.Expression) -> p.Expression:
        if isinstance(node, p.Comparison):
            left, right = self._as_times((node.left, node.right))
            return node if left is node.left and right is node.right else replace(node, left=left, right=right)
        if isinstance(node, p.Between):
            operand, low, high = self._as_times((node.operand, node.low, node.high))
            return replace(node, operand=operand, low=low, high=high)
        if isinstance(node, p.In) and isinstance(node.items, tuple):
            operand, *items = self._as_times((node.operand, *node.items))
            return replace(node, operand=operand, items=tuple(items))
        if isinstance(node, p.Equivalence) and isinstance(node.value, p.Literal):
            if self.schema.columns.get(node.name) is Kind.TIMESTAMP:
                return replace(node, value=self._as_time(node.value))
        return node

    def _as_times(self, operands: tuple[p.Expression, ...]) -> tuple[p.Expression, ...]:
        quiet = KindChecker(self.schema, self.checker.names)
        if not any(quiet.kind(operand) is Kind.TIMESTAMP for operand in operands):
            return operands
        return tuple(self._as_time(operand) if isinstance(operand, p.Literal) else operand for operand in operands)

    def _as_time(self, literal: p.Literal) -> p.Literal:
        if not isinstance(literal.value, str):
            return literal
        try:
            return p.Literal(moment_of_text(literal.value), span=literal.span)
        except ValueError as error:
            self._report(str(error), literal.span, "write it as '2024-01-31 10:00:00'")
            return p.Literal(None, span=literal.span)

    # Equivalences and aggregates

    def _equivalences(self, partition_by: tuple[str, ...], where: list[p.Expression]) -> tuple[p.Equivalence, ...]:
        found: dict[str, p.Equivalence] = {}
        # GROUP BY attributes partition the stream: every event of a match has the value of its group (A-Seq section 3.4).
        tests = [p.Equivalence(name) for name in dict.fromkeys((*partition_by, *self._grouped()))]
        tests += [conjunct for conjunct in where if isinstance(conjunct, p.Equivalence)]
        for test in tests:
            self._check_equivalence(test)
            before = found.setdefault(test.name, test)
            if test.value is None or before.value == test.value:
                continue
            if before.value is not None:
                self._report(f"[{test.name}] is fixed to two different values", test.span)
            found[test.name] = test
        return tuple(found.values())

    def _grouped(self) -> tuple[str, ...]:
        """The GROUP BY attributes, except those that are reported elsewhere."""
        columns = self.schema.columns
        return tuple(name for name in self.query.group_by if name in columns and columns[name] is not Kind.OTHER)

    def _check_equivalence(self, test: p.Equivalence) -> None:
        what = f"the equivalence test [{test.name}]" if test.span else "partition_by"
        self._check_comparable(test.name, what, f"{what} cannot be tested", test.span)

    def _check_comparable(self, name: str, where: str, otherwise: str, span: Span | None) -> None:
        """Checks that some component has an attribute, and that its values can be compared."""
        known = frozenset().union(*map(self._attributes_of, self.components.values()))
        if name not in known:
            self._report(f"unknown attribute '{name}' in {where}", span, nearest(name, known))
        elif self.schema.columns[name] is Kind.OTHER:
            self._report(f"values of '{name}' cannot be compared, so {otherwise}", span)

    def _check_aggregates(self) -> None:
        place = clause_span(self.query, "AGG")
        for item in self.query.aggregates:
            if item.attribute is None or item.variable is None:
                continue
            self._check_attribute(item.variable, item.attribute, place)
            kind = self.schema.columns.get(item.attribute, Kind.NULL)
            if aggregate_kind(item.function, kind) is None:
                self._report(f"{item.function.upper()} cannot be taken of '{item.attribute}', which is {a_kind(kind)}", place)
        for name in self.query.group_by:
            self._check_comparable(name, "GROUP BY", "they cannot be grouped", clause_span(self.query, "GROUP"))


def parameters_of(query: LogicalQuery) -> frozenset[str]:
    """The bare names of a query, which may be parameters.

    >>> from kleene.language.parser import parse
    >>> sorted(parameters_of(parse("PATTERN SEQ(E a, E b) WHERE a.ticker = MSFT WITHIN h")))
    ['MSFT', 'h']
    """
    expressions = [query.where, *(item.expression for item in query.returns)]
    names = {node.name for item in expressions if item is not None for node in p.walk(item) if isinstance(node, p.Name)}
    if query.within is not None and isinstance(query.within.amount, str):
        names.add(query.within.amount)
    return frozenset(names)
