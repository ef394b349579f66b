"""Expressions and conditions over matches have the values of the oracle."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from kleene.common.errors import PlanningError
from kleene.engine.matches.match_values import MatchEvaluator, MatchRows
from kleene.pattern import predicates as p
from kleene.pattern.bound import BoundQuery
from kleene.testing import evaluate as oracle
from kleene.testing.functions import plain
from support.match_worlds import ARROW, QUERIES, Bindings, cases, random_matches, same, world

FUNCTIONS = tuple(p.AggregateFunction)

NUMBERS = ("x", "y", "k")


class Expressions:
    """Random expressions over the variables of a query."""

    def __init__(self, rng: Random, bound: BoundQuery, *, running: str | None, each: bool) -> None:
        self._rng = rng
        self._events = [event for event in bound.components if not event.negated or running or each]
        self._running = running
        """The variable that `a[i]` may be read of; None in RETURN."""
        self._each = each

    def reference(self, name: str) -> p.Expression:
        event = self._rng.choice(self._events)
        if not event.is_kleene:
            return p.Attribute(event.variable, name)
        elements = [p.Element.FIRST, p.Element.LAST]
        if event.variable == self._running:
            elements += [p.Element.CURRENT, p.Element.PREVIOUS] * 2
        elif self._each:
            elements += [p.Element.EACH]
        return p.Attribute(event.variable, name, self._rng.choice(elements))

    def over(self, functions: tuple[p.AggregateFunction, ...], name: str | None) -> p.Expression:
        kleene = [event.variable for event in self._events if event.is_kleene]
        if not kleene:
            return p.Literal(None)
        variable = self._rng.choice(kleene)
        running = variable == self._running and self._rng.random() < 0.7
        return p.Aggregate(self._rng.choice(functions), variable, name, p.Element.SO_FAR if running else p.Element.EACH)

    def number(self, depth: int = 2) -> p.Expression:
        rng = self._rng
        choice = rng.randrange(8 if depth else 6)
        if choice == 0:
            return p.Literal(rng.choice((0, 1, 2, 0.5)))
        if choice == 1:
            kleene = [event.variable for event in self._events if event.is_kleene]
            return p.Length(rng.choice(kleene)) if kleene else p.Literal(1)
        if choice == 2:
            return self.over((p.AggregateFunction.COUNT,), rng.choice((None, "s", "x")))
        if choice <= 4:
            return self.over(FUNCTIONS, rng.choice(NUMBERS))
        if choice == 5:
            return self.reference(rng.choice(NUMBERS))
        if choice == 6:
            return p.Call("coalesce", (self.number(depth - 1), self.number(depth - 1)))
        return p.Arithmetic(rng.choice("+-*/"), self.number(depth - 1), self.number(depth - 1))

    def ordered(self, name: str) -> p.Expression:
        ends = (p.AggregateFunction.MIN, p.AggregateFunction.MAX, p.AggregateFunction.FIRST, p.AggregateFunction.LAST)
        return self.over(ends, name) if self._rng.random() < 0.6 else self.reference(name)

    def duration(self) -> p.Expression:
        functions = (p.AggregateFunction.SUM, p.AggregateFunction.AVG, p.AggregateFunction.MAX, p.AggregateFunction.LAST)
        if self._rng.random() < 0.3:
            return p.Arithmetic("-", self.ordered("t"), self.ordered("t"))
        return self.over(functions, "d") if self._rng.random() < 0.7 else self.reference("d")

    def condition(self, depth: int = 2) -> p.Expression:
        rng = self._rng
        if depth and rng.random() < 0.4:
            inner = (self.condition(depth - 1), self.condition(depth - 1))
            return rng.choice((p.And(inner), p.Or(inner), p.Not(inner[0])))
        symbol = rng.choice(("=", "!=", "<", "<=", ">", ">="))
        choice = rng.randrange(9)
        if choice < 3:
            return p.Comparison(symbol, self.number(), self.number())
        if choice == 3:
            return p.Comparison(symbol, self.ordered("s"), self.ordered("s"))
        if choice == 4:
            return p.Comparison(symbol, self.ordered("t"), self.ordered("t"))
        if choice == 5:
            return p.Comparison(symbol, self.duration(), self.duration())
        if choice == 6:
            return p.IsNull(rng.choice((self.number(), self.ordered("s"))))
        if choice == 7:
            return (
                self.over((p.AggregateFunction.FIRST, p.AggregateFunction.LAST), "f")
                if rng.random() < 0.5
                else self.reference("f")
            )
        return p.Call("coalesce", (self.reference("f"), p.Literal(False)))

    def any(self) -> p.Expression:
        return self._rng.choice((self.number, self.number, self.duration, self.condition))()


@pytest.mark.parametrize("seed", range(4))
def test_values_are_the_oracles(seed: int) -> None:
    for rng, at, found in cases(seed, 25):
        evaluator = MatchEvaluator(at.bound, at.placed.gather, MatchRows(at.matches(found)))
        make = Expressions(rng, at.bound, running=None, each=False)
        for _ in range(12):
            expression = make.any()
            values = [plain(value) for value in evaluator.returned(expression).to_pylist()]
            expected = [oracle.value(expression, at.frame(match)) for match in found]
            assert same(values, expected), (expression, values, expected)


@pytest.mark.parametrize("seed", range(4, 8))
def test_conditions_hold_where_the_oracles_do(seed: int) -> None:
    for rng, at, found in cases(seed, 25):
        # Every match with several negative events.
        able = [row for row, kind in enumerate(at.types) if kind in at.bound.component("n").types] or [0]
        pairs = [(number, rng.choice(able)) for number in range(len(found)) for _ in range(rng.randrange(3))]
        numbers, rows = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
        on = MatchRows(at.matches(found), numbers, {"n": at.place_of[rows]})
        evaluator = MatchEvaluator(at.bound, at.placed.gather, on)
        kleene = [event.variable for event in at.bound.components if event.is_kleene]
        for _ in range(12):
            running = rng.choice(kleene) if kleene else None
            expression = Expressions(rng, at.bound, running=running, each=rng.random() < 0.5).condition()
            condition = oracle.condition(at.bound, expression)
            expected = [oracle.holds(condition, at.frame({**found[number], "n": row})) for number, row in pairs]
            assert evaluator.holds(expression).tolist() == expected, expression


def test_conditions_are_decided_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kleene.engine.matches.match_values.REPEATED", 3)
    test_conditions_hold_where_the_oracles_do(9)


@pytest.mark.parametrize("name", ["k", "x", "y", "s", "t", "d", "f"])
def test_all_elements_are_returned_as_a_list_of_their_own_type(name: str) -> None:
    for declared in (False, True):
        rng = Random(5)
        at = world(rng, QUERIES[1], declared=declared)
        for _ in range(5):
            found = random_matches(rng, at, 4)
            evaluator = MatchEvaluator(at.bound, at.placed.gather, MatchRows(at.matches(found)))
            for variable in ("a", "c"):
                expression = p.Attribute(variable, name, p.Element.EACH)
                values = evaluator.returned(expression)
                assert values.type == pa.list_(ARROW.field(name).type)
                expected = [oracle.value(expression, at.frame(match)) for match in found]
                shown = [None if row is None else [plain(value) for value in row] for row in values.to_pylist()]
                assert same(shown, expected)


def test_nothing_is_computed_with_all_elements() -> None:
    at = world(Random(1), QUERIES[2])
    expression = p.Arithmetic("+", p.Attribute("a", "x", p.Element.EACH), p.Literal(1))
    evaluator = MatchEvaluator(at.bound, at.placed.gather, MatchRows(at.matches(random_matches(Random(1), at, 2))))
    with pytest.raises(PlanningError, match="many values"):
        evaluator.returned(expression)


def test_absent_variables_are_null() -> None:
    at = world(Random(3), QUERIES[1])
    found: list[Bindings] = [{"a": (1, 2), "b": 4}]
    evaluator = MatchEvaluator(at.bound, at.placed.gather, MatchRows(at.matches(found)))
    count = p.AggregateFunction.COUNT
    assert evaluator.returned(p.Attribute("d", "k")).type == pa.int16()
    for expression in (p.Attribute("d", "k"), p.Attribute("c", "s", p.Element.FIRST), p.Length("c")):
        assert evaluator.returned(expression).to_pylist() == [None]
    assert evaluator.returned(p.Aggregate(count, "c", None, p.Element.EACH)).to_pylist() == [None]
    assert evaluator.returned(p.Aggregate(count, "c", "x", p.Element.EACH)).to_pylist() == [0]
