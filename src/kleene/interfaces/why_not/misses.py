"""Which constraint a combination of events breaks, and by how much: for blocks of combinations, and in words for one.

The engine's own evaluator decides conditions. Cost: a few Arrow or NumPy operations per constraint and block; negation is
linear in the pairs of a combination and an event that may be forbidden in it.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.columns import showable
from kleene.engine.expressions.vectorized import Evaluator
from kleene.engine.matches.match_values import MatchEvaluator, MatchRows
from kleene.engine.matches.matches import Matches
from kleene.interfaces.why_not.stream import DIFFERENT, FREE, Stream, blocks_of, row_keys
from kleene.pattern.bound import BoundQuery
from kleene.pattern.conditions import condition_of
from kleene.pattern.normalize import Branch, Negative
from kleene.pattern.policies import Strategy
from kleene.pattern.predicates import Attribute, Comparison, Equivalence, Expression, Literal, variables, walk
from kleene.pattern.relax import Constraint, Demand, base, open_ended
from kleene.pattern.text import expression_text, name_text, value_text

PAIRS = 1 << 20
"""Number of pairs (combination, event that may be forbidden) decided at a time."""

CHOICES = 1 << 16
"""Number of choices of elements tried at a time to find one that fails a condition."""

COMPARED = (Demand.STRATEGY, Demand.OVERLAP)
"""Constraints that a combination breaks if it is not a match of the query."""


@dataclass(frozen=True, slots=True)
class Broken:
    """Which combinations break a constraint, and by how much; infinite if that is not a number."""

    broken: Array
    amount: Array


class Judge:
    """Decides the constraints of a query on blocks of combinations."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.reported = pa.array([], pa.string())
        """The keys (see `row_keys`) of the query's matches, once known."""
        bound = stream.bound
        self._kleene = frozenset(event.variable for event in bound.components if event.is_kleene)
        self._open_ended = open_ended(base(bound))

    def near(self, rows: pa.Table, relaxed: Sequence[Constraint]) -> tuple[Array, Array]:
        """Which combinations break all of the constraints and no negation that was dropped with them; and their measures for
        sorting: by how much each constraint is broken, then the last and the first row.
        """
        near = np.ones(rows.num_rows, bool)
        measures = np.zeros((len(relaxed) + 2, rows.num_rows))
        known = self._are_reported(rows) if any(item.demand in COMPARED for item in relaxed) else np.zeros(rows.num_rows, bool)
        for numbers, matches in blocks_of(rows):
            measures[-2:, numbers] = matches.last, matches.first
            for place, constraint in enumerate(relaxed):
                found = self._judge(constraint, matches, known[numbers], relaxed)
                near[numbers] &= found.broken
                measures[place, numbers] = found.amount
            for variable in self._gone_with(relaxed):
                near[numbers] &= self._forbidden(variable, matches) < 0
        return near, measures

    def _are_reported(self, rows: pa.Table) -> Array:
        return np.asarray(pc.is_in(row_keys(rows), value_set=self.reported).to_numpy(zero_copy_only=False))

    def _gone_with(self, relaxed: Sequence[Constraint]) -> frozenset[str]:
        """The negative components that are dropped with the constraints."""
        demands = {item.demand for item in relaxed}
        if Demand.ORDER in demands:
            gone = {event.variable for event in self.stream.bound.components if event.negated}
        else:
            gone = set(self._open_ended) if Demand.WINDOW in demands else set()
        return frozenset(gone - {item.variable for item in relaxed if item.variable is not None})

    def _judge(self, constraint: Constraint, matches: Matches, known: Array, relaxed: Sequence[Constraint]) -> Broken:
        unknown = np.full(matches.count, np.inf)
        match constraint.demand:
            case Demand.CONDITION:
                return self._condition(constraint.condition, matches)
            case Demand.KEY:
                assert isinstance(constraint.expression, Equivalence)
                return Broken(~self._agree(constraint.expression, matches), unknown)
            case Demand.WINDOW:
                span, allowed = self._span(matches, relaxed)
                return Broken(span >= allowed, (span - allowed).astype(np.float64))
            case Demand.NEGATION:
                return Broken(self._forbidden(constraint.component, matches) >= 0, unknown)
            case Demand.ORDER:
                late = self._out_of_order(matches)
                return Broken(late >= 0, late)
            case Demand.REPETITION:
                missing = self._missing(constraint.component, matches)
                return Broken(missing > 0, missing)
            case Demand.STRATEGY:
                return Broken(~known, self._skipped(matches))
        return Broken(~known, unknown)

    def _condition(self, expression: Expression, matches: Matches) -> Broken:
        """Judges a condition; one that reads a variable of another alternative is not checked."""
        evaluator = MatchEvaluator(self.stream.bound, self.stream.gather, MatchRows(matches))
        if any(MatchRows(matches).is_absent(name) for name in variables(expression)):
            return Broken(np.zeros(matches.count, bool), np.full(matches.count, np.inf))
        quantified = condition_of(expression, self._kleene).quantified
        amount = np.full(matches.count, np.inf) if quantified else amounts_of(evaluator, expression, matches.count)
        return Broken(~evaluator.holds(expression), amount)

    def _agree(self, test: Equivalence, matches: Matches) -> Array:
        """Where all events have the same key, and the value that the test fixes; types without the key agree with all."""
        agree = self._common_key(test.name, matches) != DIFFERENT
        if test.value is not None:
            right = self._is_right(test)
            for name in (*matches.singles, *matches.lists):
                numbers, places = matches.elements_of(name)
                agree[numbers[~right.take(places)]] = False
        return np.asarray(agree)

    def _common_key(self, name: str, matches: Matches) -> Array:
        """The code of the common key of a combination; FREE if its types have none, DIFFERENT if its events disagree."""
        codes = self.stream.keys(name)
        low, high = np.full(matches.count, codes.size * 2), np.full(matches.count, FREE)
        for variable in (*matches.singles, *matches.lists):
            numbers, places = matches.elements_of(variable)
            own = codes.take(places)
            np.maximum.at(high, numbers, own)
            np.minimum.at(low, numbers[own != FREE], own[own != FREE])
        return np.where((low != DIFFERENT) & ((high == FREE) | (low == high)), high, DIFFERENT)

    def _is_right(self, test: Equivalence) -> Array:
        """Which events have the value that a test fixes, if any, or are of a type without the key."""
        stream, name = self.stream, test.name
        if not isinstance(test.value, Literal):
            return np.ones(stream.table.num_rows, bool)
        evaluator = _PlainEvaluator(stream.bound, lambda _, name: stream.columns[name], stream.table.num_rows)
        return np.asarray(evaluator.holds(Comparison("=", Attribute("", name), test.value)) | (stream.keys(name) == FREE))

    def _span(self, matches: Matches, relaxed: Sequence[Constraint]) -> tuple[Array, int]:
        """The lengths of combinations, and the window: in time, or in events with the tested keys."""
        bound = self.stream.bound
        if bound.count_window is not None:
            left_out = [item.expression for item in relaxed]
            asked = [test.name for test in bound.equivalences if test not in left_out]
            position = self.stream.position if len(asked) == len(bound.equivalences) else self.stream.positions(asked)
            return position.take(matches.last) - position.take(matches.first), bound.count_window
        assert bound.window is not None
        return self.stream.ts.take(matches.last) - self.stream.ts.take(matches.first), bound.window

    def _branches(self, matches: Matches) -> list[Branch]:
        """The alternatives of combinations: those with exactly their variables."""
        own = {*matches.singles, *matches.lists}
        return [branch for branch in self.stream.bound.branches if {event.variable for event in branch.positives} == own]

    def _out_of_order(self, matches: Matches) -> Array:
        """By how much an event is later than one that it must precede; negative if all are in order."""
        worst = np.full(matches.count, np.inf)
        for branch in self._branches(matches):
            late = np.full(matches.count, -1.0)
            for one, other in branch.order:
                before = matches.last_of(branch.positives[one].variable)
                after = matches.first_of(branch.positives[other].variable)
                wrong = self.stream.rank.take(before) >= self.stream.rank.take(after)
                late = np.where(wrong, np.maximum(late, self.stream.ts.take(before) - self.stream.ts.take(after)), late)
            worst = np.minimum(worst, late)
        return worst

    def _missing(self, variable: str, matches: Matches) -> Array:
        quantifier = self.stream.bound.component(variable).quantifier
        assert quantifier is not None
        if variable not in matches.lists:
            return np.zeros(matches.count)
        return np.asarray(quantifier.low - np.diff(matches.lists[variable][0]), np.float64)

    def _skipped(self, matches: Matches) -> Array:
        """Under contiguity, the number of events between those of a combination."""
        strategy = self.stream.bound.query.strategy
        if strategy is Strategy.SKIP_TILL_NEXT_MATCH:
            return np.full(matches.count, np.inf)
        place = np.arange(self.stream.table.num_rows)
        place = place if strategy is Strategy.STRICT_CONTIGUITY else self.stream.position
        bound = np.full(matches.count, len(matches.singles))
        for offsets, _ in matches.lists.values():
            bound += np.diff(offsets)
        return np.asarray(place.take(matches.last) - place.take(matches.first) + 1 - bound, np.float64)

    # Negation

    def _forbidden(self, variable: str, matches: Matches) -> Array:
        """The row of the earliest forbidden event of a negative component in each combination; -1 if there is none."""
        found = np.full(matches.count, -1, np.int64)
        event = self.stream.bound.component(variable)
        own = self.stream.of(event)
        for branch in self._branches(matches):
            for negative in branch.negatives:
                if negative.event.variable == variable:
                    here = self._earliest(negative, branch, matches, own)
                    found = np.where(found < 0, here, np.where(here < 0, found, np.minimum(found, here)))
        return found

    def _earliest(self, negative: Negative, branch: Branch, matches: Matches, own: Array) -> Array:
        begin, end = self._interval(negative, branch, matches, own)
        sizes = np.maximum(end - begin, 0)
        found = np.full(matches.count, -1, np.int64)
        total = np.cumsum(sizes)
        start = 0
        while start < matches.count:
            before = int(total[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(total, before + PAIRS, side="right")))
            numbers = np.repeat(np.arange(start, stop), sizes[start:stop])
            offset = np.arange(numbers.size) - (total[numbers] - sizes[numbers] - before)
            rows = own.take(begin[numbers] + offset)
            held = self._matches_negative(negative, matches, numbers, rows)
            # Pairs are in order of the rows of each combination: written backwards, the first one stays.
            found[numbers[held][::-1]] = rows[held][::-1]
            start = stop
        return found

    def _interval(self, negative: Negative, branch: Branch, matches: Matches, own: Array) -> tuple[Array, Array]:
        """The range of a negative component's events strictly between its neighbours, or within the window."""
        rank, ts, window = self.stream.rank, self.stream.ts, self.stream.bound.window
        names = [event.variable for event in branch.positives]
        if negative.after:
            after: Array = np.maximum.reduce([rank.take(matches.last_of(names[index])) for index in negative.after])
            begin = np.searchsorted(rank.take(own), after, side="right")
        else:
            since = ts.take(matches.last) - window if window is not None else np.full(matches.count, ts.min(initial=0) - 1)
            begin = np.searchsorted(ts.take(own), since, side="right")
        if negative.before:
            before: Array = np.minimum.reduce([rank.take(matches.first_of(names[index])) for index in negative.before])
            end = np.searchsorted(rank.take(own), before, side="left")
        else:
            until = ts.take(matches.first) + window if window is not None else np.full(matches.count, ts.max(initial=0) + 1)
            end = np.searchsorted(ts.take(own), until, side="left")
        return begin, end

    def _matches_negative(self, negative: Negative, matches: Matches, numbers: Array, rows: Array) -> Array:
        """Which pairs of a combination and an event outside it agree on the keys and satisfy the conditions of the negative
        component.
        """
        bound, name = self.stream.bound, negative.event.variable
        held = ~matches.binds([*matches.singles, *matches.lists], numbers, rows, self.stream.table.num_rows)
        if not numbers.size:
            return held
        for test in bound.equivalences:
            own, theirs = self.stream.keys(test.name).take(rows), self._common_key(test.name, matches).take(numbers)
            held &= (own == theirs) | (own == FREE) | ((theirs == FREE) & self._is_right(test).take(rows))
            held &= (own != DIFFERENT) & (theirs != DIFFERENT)
        pairs = MatchRows(matches, numbers, {name: rows})
        evaluator = MatchEvaluator(bound, self.stream.gather, pairs)
        for conjunct in bound.conjuncts:
            read = variables(conjunct)
            if name in read and not any(pairs.is_absent(variable) for variable in read):
                held &= evaluator.holds(conjunct)
        return held

    # Words

    def reason(self, constraint: Constraint, matches: Matches, relaxed: Sequence[Constraint]) -> tuple[str, Any]:
        """Why one combination breaks a constraint, in words; and by how much: a number, a duration, or None."""
        match constraint.demand:
            case Demand.CONDITION:
                return self._failing(constraint.condition, matches)
            case Demand.KEY:
                assert isinstance(constraint.expression, Equivalence)
                return self._differing(constraint.expression, matches), None
            case Demand.WINDOW:
                return self._too_long(matches, relaxed)
            case Demand.NEGATION:
                row = int(self._forbidden(constraint.component, matches)[0])
                return f"{self._event_words(constraint.component, row)} must not occur there", None
            case Demand.ORDER:
                return self._misplaced(matches)
            case Demand.REPETITION:
                missing = int(self._missing(constraint.component, matches)[0])
                held = int(np.diff(matches.lists[constraint.component][0])[0])
                return f"{name_text(constraint.component)} has {held:,} events, {missing:,} too few", missing
            case Demand.STRATEGY:
                skipped = float(self._skipped(matches)[0])
                if not np.isfinite(skipped):
                    return "the strategy selects other events", None
                return f"{int(skipped):,} {'event lies' if skipped == 1 else 'events lie'} in between", int(skipped)
        return "a match that is reported overlaps it", None

    def _failing(self, expression: Expression, matches: Matches) -> tuple[str, Any]:
        """The values of a condition for the first choice of elements that fails it."""
        quantified = condition_of(expression, self._kleene)
        lists = MatchRows(matches)
        ranges = [np.arange(1, lists.lengths(name)[0]) for name in quantified.running]
        ranges += [np.arange(lists.lengths(name)[0]) for name in quantified.each]
        shape = tuple(elements.size for elements in ranges)
        total = math.prod(shape)
        for begin in range(0, total, CHOICES):
            numbers = np.arange(begin, min(begin + CHOICES, total))
            places = np.unravel_index(numbers, shape) if shape else ()
            choices = [elements.take(own) for elements, own in zip(ranges, places, strict=True)]
            current = dict(zip(quantified.running, choices, strict=False))
            each = dict(zip(quantified.each, choices[len(quantified.running) :], strict=True))
            rows = MatchRows(matches, np.zeros(numbers.size, np.int64), current=current, each=each)
            evaluator = MatchEvaluator(self.stream.bound, self.stream.gather, rows)
            failing = np.flatnonzero(~Evaluator.holds(evaluator, expression))
            if failing.size:
                place = int(failing[0])
                text, amount = values_words(evaluator, expression, place)
                chosen = {**current, **each}.items()
                where = ", ".join(f"{name_text(name)}[{int(choice[place]) + 1}]" for name, choice in chosen)
                return f"{text} (at {where})" if where else text, amount
        raise AssertionError("a condition that is broken fails for some choice of elements")

    def _differing(self, test: Equivalence, matches: Matches) -> str:
        parts = []
        for name in (*matches.singles, *matches.lists):
            values = dict.fromkeys(showable(self.stream.gather(test.name, matches.elements_of(name)[1])).to_pylist())
            shown = ", ".join(map(value_text, list(values)[:3])) + (", ..." if len(values) > 3 else "")
            parts.append(f"{name_text(name)}.{name_text(test.name)} = {shown}")
        return "; ".join(parts)

    def _too_long(self, matches: Matches, relaxed: Sequence[Constraint]) -> tuple[str, Any]:
        spans, allowed = self._span(matches, relaxed)
        span = int(spans[0])
        if self.stream.bound.count_window is not None:
            return f"spans {span + 1:,} events, {span + 1 - allowed:,} too many", span + 1 - allowed
        excess, length = self._duration(span - allowed), value_text(self._duration(span))
        if span == allowed:
            return f"spans {length}, exactly the window, which is open at its end", excess
        return f"spans {length}, longer than the window by {value_text(excess)}", excess

    def _misplaced(self, matches: Matches) -> tuple[str, Any]:
        """The pair of events that is most out of order, in the alternative that comes nearest."""
        texts = []
        for branch in self._branches(matches):
            wrong = []
            for one, other in branch.order:
                names = branch.positives[one].variable, branch.positives[other].variable
                before, after = int(matches.last_of(names[0])[0]), int(matches.first_of(names[1])[0])
                if self.stream.rank[before] >= self.stream.rank[after]:
                    wrong.append((int(self.stream.ts[before] - self.stream.ts[after]), names))
            if wrong:
                texts.append(max(wrong))
        late, (one_name, other_name) = min(texts)
        if late == 0:
            return f"{name_text(other_name)} is at the time of {name_text(one_name)}, not after it", self._duration(0)
        by = self._duration(late)
        return f"{name_text(other_name)} is before {name_text(one_name)}, by {value_text(by)}", by

    def _event_words(self, variable: str, row: int) -> str:
        event, schema = self.stream.bound.component(variable), self.stream.bound.schema
        kind = event.types[0] if schema.type is None else self.stream.columns[schema.type][row].as_py()
        moment = value_text(self.stream.shown.column(schema.time)[row].as_py())
        return f"{kind} {name_text(variable)} at {moment}"

    def _duration(self, units: int) -> Any:
        """A length in the unit of the time column as a duration, or as it is if that is an integer."""
        unit = self.stream.bound.schema.time_unit
        if unit is None:
            return units
        return dt.timedelta(microseconds=units / 1_000 if unit == "ns" else units)


class _PlainEvaluator(Evaluator):
    """Evaluates over columns that belong to no component."""

    def lacking(self, reference: Any) -> None:  # noqa: ARG002 - no column is lacking
        return None


def row_evaluator(bound: BoundQuery, rows: pa.Table) -> Evaluator:
    """Evaluates HAVING, whose names are `Attribute`s of no variable, over rows of AGG."""
    return _PlainEvaluator(bound, lambda _, name: rows.column(name).combine_chunks(), rows.num_rows)


def amounts_of(evaluator: Evaluator, expression: Expression, count: int) -> Array:
    """By how much each row misses a comparison of numbers or times; infinite if that is not a number."""
    if not isinstance(expression, Comparison) or expression.operator == "!=":
        return np.full(count, np.inf)
    both = [evaluator.values(side) for side in (expression.left, expression.right)]
    sides = []
    for values in both:
        if pa.types.is_temporal(values.type) and both[0].type == both[1].type:
            values = values.cast(pa.int64())
        if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
            return np.full(count, np.inf)
        sides.append(pc.fill_null(values.cast(pa.float64(), safe=False), np.inf).to_numpy(zero_copy_only=False))
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nan_to_num(np.abs(sides[0] - sides[1]), nan=np.inf, posinf=np.inf))


def values_words(evaluator: Evaluator, expression: Expression, place: int) -> tuple[str, Any]:
    """The values of a condition that fails in a row, in words; and by how much the row misses it."""
    if isinstance(expression, Comparison):
        left, right = (_value(evaluator, side, place) for side in (expression.left, expression.right))
        truth = "unknown" if left is None or right is None else "false"
        text = f"{value_text(left)} {expression.operator} {value_text(right)} is {truth}"
        amount = _difference(left, right) if expression.operator != "!=" else None
        if amount is None:
            return text, None
        missed = "off" if expression.operator == "=" else "short"
        return (f"{text}, {missed} by {value_text(amount)}" if amount else text), amount
    read = dict.fromkeys(node for node in walk(expression) if isinstance(node, Attribute))
    named = ((expression_text(node) if node.variable else name_text(node.name), node) for node in read)
    values = [f"{name} = {value_text(_value(evaluator, node, place))}" for name, node in named]
    return ", ".join(values) or "it is constant", None


def _value(evaluator: Evaluator, expression: Expression, place: int) -> Any:
    return showable(evaluator.values(expression).slice(place, 1))[0].as_py()


def _difference(left: Any, right: Any) -> Any:
    numbers = all(isinstance(side, int | float) and not isinstance(side, bool) for side in (left, right))
    times = all(isinstance(side, dt.datetime | dt.timedelta) for side in (left, right))
    return abs(left - right) if numbers or times else None
