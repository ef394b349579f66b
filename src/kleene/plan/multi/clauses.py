"""The alternatives of a workload's queries in a form in which equal sub-patterns are equal, whatever variables are called.

A query is a disjunction of branches (`kleene.pattern.normalize`), and each branch is planned as a pattern of its own: a clause
(multi-pattern paper, section 2). A clause has the components of the branch that bind one event. Kleene and negative components
belong to complete tuples of those: they cost the same in every plan.

Invariant: two components with the same types and own predicates have the same leaf, and two conditions that say the same of
their components have the same form, however they are written: `a.x < b.x` and `d.x > c.x` are one form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from kleene.pattern.operators import Event
from kleene.pattern.predicates import Attribute, Comparison, Expression, mirrored, transform, variables, walk
from kleene.pattern.text import expression_text
from kleene.plan.counting.counters import anonymous
from kleene.plan.lazy.lazy import LazyBranch
from kleene.plan.operators import renamed
from kleene.plan.patterns import LazyPlan


@dataclass(frozen=True, slots=True)
class Leaf:
    """A test of single events."""

    types: frozenset[str]
    predicates: frozenset[Expression]
    """Without the name of a variable, see `kleene.plan.counting.counters.anonymous`."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition between single events."""

    form: Expression
    """Its variables are $0, $1, ..."""
    components: tuple[int, ...]
    """What they stand for: positions of a clause, or slots of a node. Ascending where the form does not tell them apart."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One alternative of a query. A position is an index into `components`."""

    query: str
    branch: int
    """Index into `PatternPlan.branches`."""
    components: tuple[int, ...]
    """For each position the index into `LazyBranch.components`."""
    leaves: tuple[int, ...]
    """For each position the number of its leaf."""
    precedes: frozenset[tuple[int, int]]
    """Pairs of positions, transitively closed."""
    conditions: tuple[Condition, ...]
    """Conditions that read positions of the clause only."""
    window: int | None
    """In units of the clock: of time, or events."""


def clauses_of(plans: Mapping[str, LazyPlan]) -> tuple[tuple[Leaf, ...], tuple[Clause, ...]]:
    """The leaves and clauses of named queries; branches of Kleene components only have none."""
    numbers: dict[Leaf, int] = {}
    clauses = []
    for query, plan in plans.items():
        tests = {event.variable: leaf_of(event, predicates) for event, predicates in plan.scanned}
        for index, branch in enumerate(plan.branches):
            if branch.singles:
                leaves = [tests[branch.components[single].variable] for single in branch.singles]
                placed = tuple(numbers.setdefault(leaf, len(numbers)) for leaf in leaves)
                clauses.append(_clause(query, index, plan, branch, placed))
    return tuple(numbers), tuple(clauses)


def leaf_of(event: Event, predicates: tuple[Expression, ...]) -> Leaf:
    """The leaf of a component with its own predicates."""
    return Leaf(frozenset(event.types), frozenset(oriented(anonymous(item)) for item in predicates))


def _clause(query: str, index: int, plan: LazyPlan, branch: LazyBranch, leaves: tuple[int, ...]) -> Clause:
    singles = branch.singles
    position = {component: place for place, component in enumerate(singles)}
    named = {branch.variables[component]: place for component, place in position.items()}
    asked = [item.condition for item in branch.conditions if not item.via and item.condition.variables <= named.keys()]
    window = plan.bound.window if plan.bound.count_window is None else plan.bound.count_window
    return Clause(
        query,
        index,
        singles,
        leaves,
        frozenset((position[i], position[j]) for i, j in branch.precedes if i in position and j in position),
        tuple(dict.fromkeys(normal(item.expression, named) for item in asked)),
        window,
    )


def normal(expression: Expression, positions: Mapping[str, int]) -> Condition:
    """A condition between variables at these positions.

    >>> later = Comparison(">", Attribute("b", "x"), Attribute("a", "x"))
    >>> found = normal(later, {"a": 0, "b": 1})
    >>> expression_text(found.form), found.components
    ('`$0`.x < `$1`.x', (0, 1))
    """
    turned = oriented(expression)
    names = dict.fromkeys(node.variable for node in walk(turned) if isinstance(node, Attribute))
    form = renamed(turned, {name: f"${place}" for place, name in enumerate(names)})
    return Condition(form, ordered(form, tuple(positions[name] for name in names)))


def ordered(form: Expression, components: tuple[int, ...]) -> tuple[int, ...]:
    """The components of a condition as given, or ascending where the form does not tell them apart."""
    return tuple(sorted(components)) if is_symmetric(form) else components


@lru_cache(maxsize=4096)
def is_symmetric(form: Expression) -> bool:
    """Whether a form between two events says the same when they change places.

    >>> is_symmetric(Comparison("=", Attribute("$0", "x"), Attribute("$1", "x")))
    True
    """
    if variables(form) != {"$0", "$1"}:
        return False
    return _settled(form) == _settled(renamed(form, {"$0": "$1", "$1": "$0"}))


def _settled(expression: Expression) -> Expression:
    """An expression with the sides of every equality in order of their texts."""

    def rule(node: Expression) -> Expression:
        if isinstance(node, Comparison) and node.operator in ("=", "!="):
            left, right = sorted((node.left, node.right), key=expression_text)
            return replace(node, left=left, right=right)
        return node

    return transform(expression, rule)


def oriented(expression: Expression) -> Expression:
    """An expression with every comparison turned one way: constants to the right, the smaller side to the left.

    >>> expression_text(oriented(Comparison(">=", Attribute("a", "x"), Attribute("b", "y"))))
    'b.y <= a.x'
    """

    def rule(node: Expression) -> Expression:
        if isinstance(node, Comparison) and _is_turned(node):
            return mirrored(node)
        return node

    return transform(expression, rule)


def _is_turned(comparison: Comparison) -> bool:
    left, right = variables(comparison.left), variables(comparison.right)
    if not left or not right:
        return bool(right)
    if comparison.operator in ("=", "!="):
        return expression_text(anonymous(comparison.right)) < expression_text(anonymous(comparison.left))
    return comparison.operator in (">", ">=")
