"""Why a query does not match: how far its pattern got over some events, which constraint stopped it, and the nearest misses.

The query is run again without one of its constraints at a time (`kleene.pattern.relax`). Matches found then that break this
constraint, and no other, are its near misses. If no constraint has any, two are left out at a time. How far the query got is
the longest prefix of its pattern that has matches of its own.

Without a constraint a query may have very many matches, so every search is bounded: by the possible combinations (`WORK`; if
there are more, only the newest events are searched), by the matches examined and kept, and by limits on the runs of automata.
If a search was cut short, its count is a lower bound, and says so; if it had found nothing by then, the constraint is reported
as not settled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Several
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kleene.common.arrays import Array
from kleene.common.columns import free_name
from kleene.common.errors import BindingError, DataError, KleeneError, Problem, nearest
from kleene.common.schema import EventSchema, Kind
from kleene.engine.build import build_matcher
from kleene.engine.events.scan import Scan
from kleene.engine.matcher import BadRows, Metrics
from kleene.interfaces.event_range import Range
from kleene.interfaces.inputs import arrow_schema_of, is_spark_frame
from kleene.interfaces.options import EventOptions, options_of
from kleene.interfaces.why_not.misses import Judge, amounts_of, row_evaluator, values_words
from kleene.interfaces.why_not.report import Cause, Component, Count, Found, Step, WhyNot
from kleene.interfaces.why_not.stream import Stream, blocks_of, row_keys, shown
from kleene.pattern.bind import bind
from kleene.pattern.bound import BoundQuery
from kleene.pattern.durations import window_of
from kleene.pattern.operators import Event, Pattern, events, parts_of
from kleene.pattern.policies import LogicalQuery, ReturnItem, Unit, Window
from kleene.pattern.predicates import Attribute, Element, Equivalence, Expression, Name, attributes, conjuncts, transform
from kleene.pattern.relax import Constraint, Demand, alone, base, constraints, steps, without
from kleene.pattern.text import expression_text, pattern_text, value_text, window_text
from kleene.plan.analysis.keys import key_attributes
from kleene.plan.limits import Limits
from kleene.plan.optimizer import make_plan
from kleene.plan.patterns import runs_automata
from kleene.runtime.embedded import batches_of, event_stream, in_stream_order, match_batches, rows_of
from kleene.runtime.encodings import plain_events

if TYPE_CHECKING:
    from kleene.interfaces.options import Options
    from kleene.interfaces.query import Query


WORK = 3e8
"""Maximum number of possible combinations of one search: about a second of the engine's work."""
MOST_LOOKED = 2_000_000
"""Maximum number of matches of a relaxed query that are examined."""
MOST_KEPT = 100_000
"""Maximum number of near misses kept to choose the nearest from."""
MOST_PAIRS = 45
"""Maximum number of pairs of constraints tried."""
BLOCK = 1 << 13
"""Number of matches handed over at a time: small, because the search may stop."""
LIMITS = Limits(runs=10_000, matches=10_000, nodes=5_000_000, policy="keep_newest")
"""The limits of automata that search."""


def why_not(query: Query, asked: Any, key: Any, since: Any, until: Any, near: int, options: Mapping[str, Any]) -> WhyNot:
    """The report; see `Query.why_not`."""
    given = _options(options)
    if near < 1:
        raise BindingError(Problem(f"nearest cannot be {near!r}", hint="it is a number of at least 1"))
    on_spark = is_spark_frame(asked)
    if on_spark and asked.isStreaming:
        hint = "ask about the table that the stream reads or writes"
        raise DataError(Problem("why_not is about events that are there, not about a stream", hint=hint))
    source = asked if on_spark else event_stream(asked)
    bound = query.plan_for(arrow_schema_of(source), given).bound
    chosen = Range(bound, arrow_schema_of(source), key, since, until)
    if on_spark:
        table = plain_events(chosen.of_spark(source))
    else:
        table = chosen.of_batches(batches_of(source), source.schema)
    assert isinstance(table, pa.Table)
    return _Inquiry(query, bound, in_stream_order(table, bound.schema), chosen, given, near).report()


def _options(options: Mapping[str, Any]) -> Options:

    known = EventOptions.__annotations__
    for name in options:
        if name not in known:
            raise BindingError(Problem(f"why_not does not take the option '{name}'", hint=nearest(name, known)))
    return options_of(options)


@dataclass(frozen=True, slots=True)
class _Search:
    """Combinations of events, and whether these are all."""

    rows: pa.Table
    """A column of row numbers for each variable."""
    measures: Array
    """For each of them: by how much it breaks each constraint, then its last and first row."""
    exact: bool


class _Inquiry:
    """The state of one `why_not`: the events, the query in the form that is relaxed, and the results so far."""

    def __init__(self, query: Query, bound: BoundQuery, table: pa.Table, chosen: Range, options: Options, nearest: int) -> None:
        self._query, self._options, self._range, self._nearest = query, options, chosen, nearest
        self._bound = bound
        self._base = base(bound)
        table, self._bad = _clean(bound, table, options.bad_rows or "error")
        self._row = free_name("row", table.column_names)
        numbers = pa.array(np.arange(table.num_rows))
        self._table = table.append_column(self._row, numbers)
        self._schema = _with_attribute(bound.schema, self._row)
        self._stream = Stream(bound, table, options.ties == "arrival")
        self._of = {event.variable: self._stream.of(event) for event in bound.components}
        self._judge = Judge(self._stream)
        self._untried: list[tuple[str, str]] = []

    def report(self) -> WhyNot:
        """The whole report."""
        found = self._search(self._base, whole=True)
        self._judge.reported = row_keys(found.rows)
        having, rows = self._having()
        causes = [*having, *(self._causes(found) if self._is_possible() else ())]
        if not causes and not found.rows.num_rows and self._is_possible():
            causes = list(self._pairs())
        time = self._stream.shown.column(self._bound.schema.time)
        return WhyNot(
            query=self._query.name,
            scope=self._range.words,
            events=len(time),
            bad_rows=self._bad,
            first=time[0].as_py() if len(time) else None,
            last=time[-1].as_py() if len(time) else None,
            aggregates=rows is not None,
            rows=rows,
            matches=Count(found.rows.num_rows, found.exact),
            components=tuple(map(self._component, self._bound.components)),
            progress=tuple(tuple(self._progress(alternative)) for alternative in steps(self._base, self._schema)),
            causes=tuple(causes),
            untried=tuple(self._untried),
        )

    # Searching

    def _search(self, query: LogicalQuery, relaxed: Several[Constraint] = (), *, whole: bool = False) -> _Search:
        """The matches of a query, or the near misses of the constraints it was relaxed by, within the bounds.

        With `whole` all events are searched, regardless of the number of possible combinations.
        """
        bound = self._bind(query)
        plan = make_plan(bound, ties=self._options.ties)
        if runs_automata(plan):
            plan = make_plan(bound, ties=self._options.ties, limits=LIMITS)
        newest = self._table.num_rows if whole else self._affordable(bound, runs_automata(plan))
        matcher = build_matcher(plan, self._table.schema, block=BLOCK)
        names = [item.alias for item in bound.query.returns]
        kept: list[pa.Table] = []
        measures = [np.empty((len(relaxed) + 2, 0))]
        looked = count = 0
        exact = newest == self._table.num_rows
        for _, batch in match_batches(matcher, batches_of(self._table.slice(self._table.num_rows - newest))):
            rows = pa.Table.from_batches([batch]).select(names)
            near, measured = self._judge.near(rows, relaxed)
            kept.append(rows.filter(pa.array(near)))
            measures.append(measured[:, near])
            looked, count = looked + rows.num_rows, count + kept[-1].num_rows
            if looked >= MOST_LOOKED or count >= MOST_KEPT:
                exact = False
                break
        exact = exact and not (matcher.metrics.dropped_runs or matcher.metrics.dropped_matches)
        empty = matcher.output_schemas[0].empty_table().select(names)
        return _Search(pa.concat_tables([empty, *kept]), np.concatenate(measures, axis=1), exact)

    def _bind(self, query: LogicalQuery) -> BoundQuery:
        return bind(_returning_rows(query, self._row), self._schema, params=self._options.params)

    def _affordable(self, bound: BoundQuery, by_runs: bool) -> int:
        """The number of newest events that can be searched within `WORK`."""
        newest: int = self._table.num_rows
        while newest > 1 and self._work(bound, self._table.num_rows - newest, by_runs) > WORK:
            newest //= 2
        return newest

    def _work(self, bound: BoundQuery, begin: int, by_runs: bool) -> float:
        """The possible combinations of the events from a row on, by types, keys and window; for automata, the steps."""
        count: int = self._table.num_rows - begin
        if by_runs:
            return float(count) * min(count, LIMITS.runs)
        place = np.zeros(count, np.int64)
        for test in bound.equivalences:
            _, place = np.unique(np.stack((place, self._stream.keys(test.name)[begin:])), axis=1, return_inverse=True)
            place = place.reshape(-1)
        length = bound.window or bound.count_window
        if length is not None and count:
            # What lies in one window lies in two neighbouring stretches of its length.
            names = [test.name for test in bound.equivalences]
            moment = self._stream.ts if bound.window else self._stream.positions(names)
            stretch = (moment[begin:] - moment[begin:].min()) // length
            place = place * (int(stretch.max()) + 2) + stretch
        places, place = np.unique(place, return_inverse=True)
        follows = np.searchsorted(places, places + 1)
        follows = np.where(np.append(places, -1)[follows] == places + 1, follows, places.size)
        total = 0.0
        for branch in bound.branches:
            product = np.ones(places.size)
            for event in branch.positives:
                own = self._of[event.variable]
                found = np.bincount(place[own[own >= begin] - begin], minlength=places.size + 1).astype(np.float64)
                near = found[:-1] + (found[follows] if length is not None else 0.0)
                product *= np.exp2(np.minimum(near, 60)) if event.is_kleene else near
            total += float(product.sum())
        return total

    # What stopped it

    def _is_possible(self) -> bool:
        """Whether some alternative has events for each of its components; if not, no constraint is a cause."""
        return any(all(self._of[event.variable].size for event in branch.positives) for branch in self._bound.branches)

    def _constraints(self) -> Iterator[Constraint]:
        """The constraints that the selected events can break: they agree on the selected key."""
        for item in constraints(self._base):
            test = item.expression
            if not (isinstance(test, Equivalence) and test.name in self._range.keys and test.value is None):
                yield item

    def _causes(self, found: _Search) -> Iterator[Cause]:
        for item in self._constraints():
            if item.demand in (Demand.STRATEGY, Demand.OVERLAP) and not found.exact:
                self._leave((item,), "the query itself has too many matches to tell them apart")
                continue
            yield from self._cause((item,))

    def _pairs(self) -> Iterator[Cause]:
        """The causes of two constraints each."""
        pairs = list(combinations(self._constraints(), 2))
        for pair in pairs[:MOST_PAIRS]:
            yield from self._cause(pair)
        if len(pairs) > MOST_PAIRS:
            left = f"{len(pairs) - MOST_PAIRS:,} of {len(pairs):,} pairs of constraints"
            self._untried.append((left, f"at most {MOST_PAIRS} are tried"))

    def _cause(self, relaxed: tuple[Constraint, ...]) -> Iterator[Cause]:
        query = self._base
        for item in relaxed:
            query = without(query, item, self._schema)
        try:
            found = self._search(query, relaxed)
            if not found.exact and self._bound.window is not None and query.within is None:
                # Too many without any window: those that exceed it by less than its length matter most.
                wider = self._search(replace(query, within=_twice(self._bound)), relaxed)
                found = replace(wider, exact=False) if wider.rows.num_rows else found
        except KleeneError as error:
            self._leave(relaxed, error.problems[0].message)
            return
        if found.rows.num_rows:
            yield Cause(relaxed, Count(found.rows.num_rows, found.exact), tuple(self._nearest_of(found, relaxed)))
        elif not found.exact:
            self._leave(relaxed, "too many combinations; none of those looked at is near")

    def _leave(self, relaxed: Several[Constraint], reason: str) -> None:
        """Notes that it is unknown whether some constraints are a cause; a pair is noted only if neither of them is."""
        if not {item.text for item in relaxed} & {text for text, _ in self._untried}:
            self._untried.append((" and ".join(item.text for item in relaxed), reason))

    def _nearest_of(self, found: _Search, relaxed: Several[Constraint]) -> Iterator[Found]:
        """The combinations that break the constraints by the least amount, then the earliest."""
        order = np.lexsort(tuple(found.measures[::-1]))[: self._nearest]
        for number in order.tolist():
            ((_, matches),) = blocks_of(found.rows.slice(number, 1))
            reasons = [self._judge.reason(item, matches, relaxed) for item in relaxed]
            events = self._found(matches)
            yield replace(events, reasons=tuple(text for text, _ in reasons), amounts=tuple(by for _, by in reasons))

    def _found(self, matches: Any) -> Found:
        """The events of one combination."""
        held: dict[str, tuple[dict[str, Any], ...]] = {}
        for event in self._bound.components:
            if event.variable in matches.singles or event.variable in matches.lists:
                rows = matches.elements_of(event.variable)[1]
                held[event.variable] = tuple(self._stream.shown.take(pa.array(rows)).to_pylist())
        return Found(held, {name: tuple(map(self._words, own)) for name, own in held.items()})

    def _words(self, event: Mapping[str, Any]) -> tuple[str, ...]:
        """The type and time of an event, and the attributes that the query reads."""
        schema = self._bound.schema
        head = () if schema.type is None else (str(event[schema.type]),)
        read = [f"{name}={value_text(event[name])}" for name in self._read if event[name] is not None]
        return (*head, value_text(event[schema.time]), " ".join(read))

    @property
    def _read(self) -> list[str]:
        """The columns that the query reads, other than time and type."""
        query, schema = self._bound.query, self._bound.schema
        named: list[str | None] = [test.name for test in self._bound.equivalences]
        named += attributes(*conjuncts(query.where), *(item.expression for item in query.returns))
        named += [*(item.attribute for item in query.aggregates), *schema.order_by]
        return [name for name in dict.fromkeys(named) if name is not None and name not in (schema.time, schema.type)]

    # How far it got

    def _component(self, event: Event) -> Component:
        own = int(self._of[event.variable].size)
        asked = alone(self._base, event.variable, self._schema)
        passing = own if asked.where is None else self._count(asked)
        optional = event.quantifier is not None and event.quantifier.low == 0
        return Component(event.variable, pattern_text(event), event.negated, optional, own, passing)

    def _count(self, query: LogicalQuery) -> int:
        """The number of matches of a query for single events."""
        matcher = build_matcher(make_plan(self._bind(query), ties=self._options.ties), self._table.schema)
        return sum(batch.num_rows for _, batch in match_batches(matcher, batches_of(self._table)))

    def _progress(self, alternative: Several[LogicalQuery]) -> Iterator[Step]:
        before: LogicalQuery | None = None
        for step in alternative:
            try:
                found = self._search(step)
            except KleeneError:
                continue  # a beginning that cannot be asked for by itself: all of it can
            yield self._step(step, before, found)
            if not found.rows.num_rows:
                return
            before = step

    def _step(self, step: LogicalQuery, before: LogicalQuery | None, found: _Search) -> Step:
        known = () if before is None else tuple(item for item in conjuncts(before.where) if not isinstance(item, Equivalence))
        demands = [expression_text(item) for item in conjuncts(step.where) if item not in known]
        parts = (step.pattern,) if before is None else _added(step.pattern, before.pattern)
        latest = None
        if found.rows.num_rows:
            ((_, matches),) = blocks_of(found.rows.slice(int(found.measures[-2].argmax()), 1))
            latest = self._found(matches)
        window = None if before is None or step.within is None else window_text(step.within)
        count = Count(found.rows.num_rows, found.exact)
        return Step(pattern_text(step.pattern), ", ".join(map(pattern_text, parts)), tuple(demands), window, count, latest)

    # Aggregates

    def _having(self) -> tuple[list[Cause], Count | None]:
        """The conditions of HAVING that alone remove rows, and the number of rows left."""
        query = self._bound.query
        if not query.aggregates:
            return [], None
        schema = self._bound.schema
        further: dict[str, Any] = {"params": self._options.params, "partition_by": self._options.partition_by}
        plan = make_plan(bind(replace(query, having=None, text=None), schema, **further), ties=self._options.ties)
        matcher = build_matcher(plan, self._stream.table.schema)
        found = pa.Table.from_batches(
            rows_of(match_batches(matcher, batches_of(self._stream.table))), matcher.output_schemas[0]
        )
        items = [item for item in constraints(replace(query, where=None)) if item.demand is Demand.HAVING]
        evaluator = row_evaluator(self._bound, found)
        as_columns = [transform(item.condition, _as_column) for item in items]
        held = np.array([evaluator.holds(item) for item in as_columns]).reshape(len(items), found.num_rows)
        causes = []
        for place, item in enumerate(items):
            near = np.flatnonzero(~held[place] & np.delete(held, place, axis=0).all(axis=0))
            if near.size:
                amounts = amounts_of(evaluator, as_columns[place], found.num_rows)[near]
                nearest = near[np.lexsort((near, amounts))[: self._nearest]]
                rows = [self._row_found(found, as_columns[place], evaluator, row) for row in nearest.tolist()]
                causes.append(Cause((item,), Count(near.size), tuple(rows)))
        return causes, Count(int(held.all(axis=0).sum()))

    def _row_found(self, rows: pa.Table, condition: Expression, evaluator: Any, row: int) -> Found:
        text, amount = values_words(evaluator, condition, row)
        values = {name: value for name, value in shown(rows.slice(row, 1)).to_pylist()[0].items() if name != "query"}
        return Found({}, {}, (text,), (amount,), values)


def _clean(bound: BoundQuery, table: pa.Table, bad_rows: str) -> tuple[pa.Table, int]:
    """The events without bad rows, and the number of bad rows; with bad_rows="error" a bad row is an error.

    Rows without a time whose type the query does not name are not bad, but are dropped too, as in the engine.
    """
    metrics, bad = Metrics(), BadRows()
    policy = "error" if bad_rows == "error" else "quarantine"
    number = free_name("row", table.column_names)
    # An error shows the row as it was given: then there is nothing to number.
    numbered = table if policy == "error" else table.append_column(number, pa.array(np.arange(table.num_rows)))
    scan = Scan(bound, list(bound.components), [()] * len(bound.components), key_attributes(bound), policy, metrics, bad)
    for batch in numbered.to_batches():
        scan(batch)
    rows = [batch.column(number).to_numpy() for batch in bad.batches]
    good = table.column(bound.schema.time).is_valid().to_numpy().copy()
    good[np.concatenate(rows) if rows else []] = False
    return (table if good.all() else table.filter(pa.array(good))).combine_chunks(), metrics.bad


def _with_attribute(schema: EventSchema, name: str) -> EventSchema:
    """The schema with a column of row numbers, which events of all types have."""
    types = None if schema.types is None else {kind: own | {name} for kind, own in schema.types.items()}
    return replace(schema, columns={**schema.columns, name: Kind.INTEGER}, types=types)


def _returning_rows(query: LogicalQuery, row: str) -> LogicalQuery:
    """The query that returns nothing but the rows of the events it binds."""
    items = [
        ReturnItem(Attribute(event.variable, row, Element.EACH if event.is_kleene else Element.SINGLE), event.variable)
        for event in events(query.pattern)
        if not event.negated
    ]
    return replace(query, returns=tuple(items))


def _added(pattern: Pattern, before: Pattern) -> tuple[Pattern, ...]:
    """The parts of a pattern after a prefix of it."""
    parts, known = parts_of(pattern), parts_of(before)
    shared = type(before) is type(pattern) and known[0] == parts[0]
    return parts[len(known) if shared else 1 :]


def _twice(bound: BoundQuery) -> Window:
    """A window twice as long as that of a query."""
    assert bound.window is not None
    if bound.schema.time_unit is None:
        return Window(2 * bound.window, Unit.NUMBER)
    return window_of(Fraction(2 * bound.window, 1_000 if bound.schema.time_unit == "ns" else 1))


def _as_column(node: Expression) -> Expression:
    return Attribute("", node.name, span=node.span) if isinstance(node, Name) else node
