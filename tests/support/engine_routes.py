"""Engine routes for case files: every plan preset and option, cuts of the stream, and Spark.

A route answers with match labels (the `event` column of the structs), RETURN rows and the plan's text. With RETURN the labels
come from a second run of the query without it. Of a query with AGG its rows are the answer; routes that force a plan of matches
are not for it, those that force a plan of aggregates only for it.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pyarrow as pa

import kleene
from kleene.common import errors
from kleene.common.errors import KleeneError
from kleene.interfaces.options import options_of
from kleene.interfaces.query import Query
from kleene.pattern.bound import BoundQuery
from kleene.pattern.operators import events as components
from kleene.pattern.policies import Strategy
from kleene.plan.lazy.stacks import is_plain_sequence
from kleene.plan.optimizer import OPTIONAL
from kleene.plan.options import CHOICES, MECHANISMS, PRESETS, LazyOptions, SequenceOptions
from kleene.runtime.embedded import in_stream_order
from kleene.testing.case_routes import Outcome, Route
from kleene.testing.cases import Case, Labels, Row
from support.spark import frame_of

Answer = Callable[[Query, Case], list[Row]]


def given_options(case: Case) -> dict[str, Any]:
    """A case's options as keyword arguments of `Query.match`."""
    options = case.options
    return {
        "time": options.time,
        "type": options.type,
        "order_by": options.order_by,
        "partition_by": options.partition_by,
        "ties": options.ties,
        "bad_rows": options.bad_rows,
        "params": dict(options.params),
        "schema": None if options.schema is None else {name: sorted(attributes) for name, attributes in options.schema.items()},
    }


def outcome(case: Case, answer: Answer, plan: Any = None) -> Outcome:
    """The outcome of a case, given how to answer a query."""
    query = kleene.query(case.query_text)
    text = str(query.explain(case.table().schema, **given_options(case), plan=plan))
    rows = answer(query, case)
    if query.logical.aggregates:
        return Outcome(rows=[{name: value for name, value in row.items() if name != "query"} for row in rows], plan=text)
    if not query.logical.returns:
        return Outcome(matches=[_labels(row) for row in rows], plan=text)
    bare = Query(replace(query.logical, returns=(), into=None))
    names = [item.alias for item in query.logical.returns]
    return Outcome(
        matches=[_labels(row) for row in answer(bare, case)],
        rows=[{name: row[name] for name in names} for row in rows],
        plan=text,
    )


def _labels(row: Row) -> Labels:
    found: Labels = {}
    for name, value in row.items():
        if isinstance(value, dict):
            found[name] = value["event"]
        elif isinstance(value, list):
            found[name] = tuple(item["event"] for item in value)
    return found


def embedded(plan: Any = None) -> Route:
    """The public API on a table."""

    def answer(query: Query, case: Case) -> list[Row]:
        rows: list[Row] = query.match(case.table(), **given_options(case), plan=plan).to_pylist()
        return rows

    return lambda case: outcome(case, answer, plan)


def cut(batches: Callable[[pa.Table], Iterator[pa.RecordBatch]], plan: Any = None, **tuning: Any) -> Route:
    """A matcher fed batch by batch, with a run as often as possible."""

    def answer(query: Query, case: Case) -> list[Row]:
        options = options_of({**given_options(case), "plan": plan})
        table = case.table()
        ordered = in_stream_order(table, query.plan_for(table.schema, options).bound.schema)
        matcher = query.matcher(table.schema, options, run_rows=0, **tuning)
        reader = pa.RecordBatchReader.from_batches(table.schema, batches(ordered.combine_chunks()))
        found = [row for batch in reader for _, rows in matcher.feed(batch) for row in rows.to_pylist()]
        return found + [row for _, rows in matcher.finish() for row in rows.to_pylist()]

    return lambda case: outcome(case, answer, plan)


def in_a_workload(case: Case) -> Outcome:
    """The query beside itself in a workload: what can be answered together, is."""

    def answer(query: Query, case: Case) -> list[Row]:
        both = kleene.workload({"one": query, "other": query}).match(case.table(), **given_options(case))
        assert both["one"].num_rows == both["other"].num_rows
        rows: list[Row] = both["one"].to_pylist()
        return rows

    return outcome(case, answer)


def one_by_one(table: pa.Table) -> Iterator[pa.RecordBatch]:
    return iter(table.to_batches(max_chunksize=1))


def random_splits(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """The same cuts for the same number of rows; empty batches are among them."""
    rng = random.Random(table.num_rows)
    cuts = sorted(rng.randrange(table.num_rows + 1) for _ in range(4))
    for begin, end in zip([0, *cuts], [*cuts, table.num_rows], strict=True):
        yield from table.slice(begin, end - begin).to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]


def embedded_routes() -> dict[str, Route]:
    """Every embedded route: presets, each option away from its default, and cuts of the stream."""
    default = SequenceOptions()
    routes = {"embedded": embedded()}
    routes |= {f"embedded-{name}": embedded(name) for name in PRESETS if name != "optimized"}
    for name, values in CHOICES["sequence"].items():
        for value in values:
            if value != getattr(default, name):
                routes[f"embedded-{name}-{value}"] = embedded({name: value})
    routes["embedded-batches-1"] = cut(one_by_one)
    routes["embedded-batches-1-blocks-1"] = cut(one_by_one, block=1)
    routes["embedded-random-splits"] = cut(random_splits)
    routes["embedded-random-splits-basic"] = cut(random_splits, plan="basic")
    for algorithm in CHOICES["nfa"]["algorithm"]:
        routes[f"embedded-nfa-{algorithm}"] = embedded({"algorithm": algorithm})
        routes[f"embedded-nfa-{algorithm}-batches-1"] = cut(one_by_one, plan={"algorithm": algorithm}, block=2)
    routes["embedded-nfa-random-splits"] = cut(random_splits, plan={"mechanism": "nfa"})
    routes["embedded-compressed"] = compressed
    routes["embedded-workload"] = in_a_workload
    routes["embedded-disabled"] = disabled
    return routes | lazy_routes() | aggregate_routes()


def disabled(case: Case) -> Outcome:
    """No stage of the optimizer that only saves work. Plans that cases expect are those with it."""
    return replace(embedded({"disable": list(OPTIONAL)})(case), plan=None)


def lazy_routes() -> dict[str, Route]:
    """Every way of binding events in another order than the stream's, on the whole stream and cut."""
    evaluations = [name for name, options in MECHANISMS.items() if isinstance(options, LazyOptions) and name != "tree"]
    routes = {f"embedded-lazy-{name}": embedded({"mechanism": name}) for name in evaluations}
    for value in CHOICES["lazy"]["selectivity"]:
        routes[f"embedded-lazy-tree-{value}"] = embedded({"mechanism": "tree", "selectivity": value})
    for name, turned in (("chain-reversed", 0), ("chain-turned", 1)):
        routes[f"embedded-lazy-{name}"] = in_order(turned, embedded)
    routes["embedded-lazy-chain-reversed-batches-1"] = in_order(0, lambda plan: cut(one_by_one, plan=plan, block=2))
    routes["embedded-lazy-tree-batches-1"] = cut(one_by_one, plan={"mechanism": "tree"}, block=1)
    routes["embedded-lazy-eager-random-splits"] = cut(random_splits, plan={"mechanism": "eager"}, block=3)
    return routes


AGGREGATE_PLANS: dict[str, dict[str, Any]] = {
    "counters": {"mechanism": "counters"},
    **{f"counters-{value}": {"mechanism": "counters", "window": value} for value in CHOICES["aggregate"]["window"][1:]},
    "matches": {"mechanism": "matches"},
}


def aggregate_routes() -> dict[str, Route]:
    """Every way of answering AGG, on the whole stream and cut."""
    routes: dict[str, Route] = {}
    for name, plan in AGGREGATE_PLANS.items():
        routes[f"embedded-{name}"] = embedded(plan)
        routes[f"embedded-{name}-batches-1"] = cut(one_by_one, plan=plan, block=1)
        routes[f"embedded-{name}-random-splits"] = cut(random_splits, plan=plan, block=3)
    return routes


def in_order(turned: int, route: Callable[[Any], Route]) -> Route:
    """A chain that binds components from the last to the first, beginning `turned` places from the end."""

    def answer(case: Case) -> Outcome:
        pattern = kleene.query(case.query_text).logical.pattern
        names = [event.variable for event in components(pattern) if not event.negated][::-1]
        turn = turned % len(names)
        return route({"mechanism": "chain", "order": names[turn:] + names[:turn]})(case)

    return answer


def compressed(case: Case) -> Outcome:
    """Compressed output, expanded."""

    def answer(query: Query, case: Case) -> list[Row]:
        bare = Query(replace(query.logical, returns=(), into=None))
        rows: list[Row] = kleene.expand(bare.match(case.table(), **given_options(case), output="compressed")).to_pylist()
        return rows

    query = kleene.query(case.query_text)
    return Outcome(matches=[_labels(row) for row in answer(query, case)])


ANY_PLAN = (
    "oracle", "embedded", "embedded-disabled", "embedded-workload", "embedded-batches-1", "embedded-batches-1-blocks-1",
    "embedded-random-splits", "spark",
)  # fmt: skip
"""The routes that leave the plan open."""

SEQUENCE_ROUTES = ("embedded-basic", "embedded-paper", "embedded-random-splits-basic")


def fits(case: Case, route: str) -> bool:
    """Whether a route can answer a case: options of sequence plans are for plain sequences, automata do not evaluate AND, lazy
    plans are for skip_till_any_match, and compressed rows have no RETURN. AGG has plans of its own, of which counters are not
    for everything. A stream, or slices, can answer what the embedded engine can with the same plan.
    """
    if route.startswith(("stream-", "slices-")):
        plan = route.partition("-")[2]
        return fits(case, "embedded" if plan.isdigit() else f"embedded-{plan}")
    if route in aggregate_routes():
        return _is_aggregate(case.query_text) and (not route.startswith("embedded-counters") or is_counted(case))
    if _is_aggregate(case.query_text):
        return route in ANY_PLAN
    if route == "embedded-compressed" and (case.expected.returns is not None or case.expected.error is not None):
        return False
    bound = _bound(case)
    if bound is None:
        return route != "embedded-compressed"
    if route in SEQUENCE_ROUTES or any(route.startswith(f"embedded-{name}-") for name in CHOICES["sequence"]):
        return is_plain_sequence(bound)
    if route.startswith(("embedded-nfa", "embedded-compressed")):
        return all(branch.is_sequence for branch in bound.branches)
    return not route.startswith("embedded-lazy") or bound.query.strategy is Strategy.SKIP_TILL_ANY_MATCH


@cache
def _is_aggregate(text: str) -> bool:
    try:
        return bool(kleene.query(text).logical.aggregates)
    except KleeneError:
        return False


def is_counted(case: Case) -> bool:
    """Whether counters can answer an AGG query: if not, the planner says that it cannot be pushed down."""
    options = options_of({**given_options(case), "plan": {"mechanism": "counters"}})
    try:
        kleene.query(case.query_text).plan_for(case.table().schema, options)
    except KleeneError as error:
        return "cannot be pushed down" not in str(error)
    return True


_BOUND: dict[str, BoundQuery | None] = {}


def _bound(case: Case) -> BoundQuery | None:
    """The bound query of a case; None if there is none, or no plan for it."""
    if case.where not in _BOUND:
        try:
            plan = kleene.query(case.query_text).plan_for(case.table().schema, options_of(given_options(case)))
            _BOUND[case.where] = plan.bound
        except KleeneError:
            _BOUND[case.where] = None
    return _BOUND[case.where]


def spark_route(session: Callable[[], Any]) -> Route:
    """Spark batch; `session` gives the session when it is first needed."""

    def answer(query: Query, case: Case) -> list[Row]:
        frame = frame_of(session(), case.table())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found: list[Row] = query.match(frame, **given_options(case)).toArrow().to_pylist()
                return found
            except Exception as error:
                # A worker's error arrives as the text of Spark's own, classic or Connect.
                ours = re.search(r"kleene\.common\.errors\.(\w+): (.*)", str(error), re.DOTALL)
                if ours is None:
                    raise
                raise getattr(errors, ours[1])(ours[2]) from error

    return lambda case: outcome(case, answer)
