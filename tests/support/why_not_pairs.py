"""Random (query, stream) pairs: the near misses that `why_not` reports, against the oracle.

For each constraint of a query the oracle answers the query without it. Of those matches the ones that break the constraint,
as the oracle's own evaluation sees it, and no negation that had to go with it, must be exactly the near misses that are
reported; none of them may be a match of the query, or break another constraint. The same for every pair of constraints, where
no single one suffices. Counts of matches, and of events for each component, must be the oracle's too.

As a script: `KLEENE_KERNELS=python python tests/support/why_not_pairs.py SEED COUNT`, see `support.pair_runs`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations, islice
from pathlib import Path
from random import Random
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # for `support`

from kleene.common.errors import DataError, PlanningError
from kleene.interfaces.query import Query
from kleene.interfaces.why_not.misses import Judge
from kleene.interfaces.why_not.report import WhyNot
from kleene.interfaces.why_not.why_not import MOST_PAIRS
from kleene.language.printer import to_text
from kleene.pattern import relax
from kleene.pattern.bind import bind
from kleene.pattern.bound import BoundQuery
from kleene.pattern.normalize import Branch
from kleene.pattern.predicates import Equivalence, variables
from kleene.pattern.relax import Constraint, Demand, alone, base, constraints, open_ended
from kleene.testing import oracle
from kleene.testing.evaluate import condition
from kleene.testing.oracle_branch import Elements, Match, extremes
from kleene.testing.oracle_negation import negated
from kleene.testing.oracle_stream import FREE, Stream, make_stream, merge_all
from support.nfa_pairs import call_options
from support.pair_runs import Report, Suite, broken, main, rewritten
from support.sase_pairs import ROW, numbered
from support.strategies import (
    Example,
    any_match_example,
    assignments,
    example,
    saseplus_example,
)

MOST_EVENTS = 10
"""Without its order or its window a query has many more matches, and the oracle finds them one by one."""

MAKERS = (example, saseplus_example, any_match_example)


def why_not_example(seed: int, number: int) -> Example:
    """A pair of one of the other suites, shorter, without RETURN."""
    found = MAKERS[number % len(MAKERS)](seed, number)
    rows = found.events[:MOST_EVENTS]
    bare = replace(found.query, returns=(), into=None)
    while assignments(bare, rows) > 400:
        rows = rows[:-1]
    return replace(found, query=bare, events=rows)


# --- what the oracle says ---------------------------------------------------------------------------------------------


def _chosen(branch: Branch, match: Match) -> tuple[Elements, ...]:
    held = {name: at if isinstance(at, tuple) else (at,) for name, at in match.bindings}
    return tuple(held[event.variable] for event in branch.positives)


def _branches(bound: BoundQuery, match: Match) -> list[Branch]:
    names = {name for name, _ in match.bindings}
    return [branch for branch in bound.branches if {event.variable for event in branch.positives} == names]


def _without_other_negation(branch: Branch, names: set[str]) -> Branch:
    return replace(branch, negatives=tuple(item for item in branch.negatives if item.event.variable in names))


def breaks(stream: Stream, keyed: Stream, item: Constraint, match: Match, reported: set[Match]) -> bool:
    """Whether a combination of events breaks a constraint of the query that the stream is for.

    A window of events counts those with the keys that are still asked for: `keyed` is the stream of the query with only these.
    """
    bound, bindings = stream.bound, dict(match.bindings)
    if item.demand is Demand.CONDITION:
        assert item.expression is not None
        read = variables(item.expression) <= bindings.keys()
        return read and not stream.holds(condition(bound, item.expression), bindings)
    if item.demand is Demand.KEY:
        assert isinstance(item.expression, Equivalence)
        place = stream.attributes.index(item.expression.name)
        own = [(stream.keys[p][place],) for p in match.positions]
        return merge_all((stream.start_key[place],), own) is None
    branches = _branches(bound, match)
    if item.demand is Demand.WINDOW:
        first, last = extremes(stream, [match.positions])
        key = merge_all(keyed.start_key, (keyed.keys[p] for p in match.positions))
        assert key is not None
        return not keyed.within(first, last, key)
    if item.demand is Demand.NEGATION:
        return forbidden(stream, {str(item.variable)}, match)
    if item.demand is Demand.ORDER:
        return all(
            any(not stream.order[chosen[i][-1]] < stream.order[chosen[j][0]] for i, j in branch.order)
            for branch in branches
            for chosen in [_chosen(branch, match)]
        )
    if item.demand is Demand.REPETITION:
        event = bound.component(str(item.variable))
        held = bindings.get(event.variable)
        assert event.quantifier is not None
        return held is not None and len(held if isinstance(held, tuple) else (held,)) < event.quantifier.low
    return match not in reported


def forbidden(stream: Stream, names: set[str], match: Match) -> bool:
    """Whether some of the negative components occur; only decided where all events agree on the keys.

    Where they agree on another value than a test fixes, what is forbidden must agree with them.
    """
    keys = [stream.keys[p] for p in match.positions]
    own = [merge_all((fixed,), ((key[place],) for key in keys)) for place, fixed in enumerate(stream.start_key)]
    start = tuple(FREE if found is None else fixed for found, fixed in zip(own, stream.start_key, strict=True))
    if merge_all(start, keys) is None:
        return False
    stream = replace(stream, start_key=start)
    return any(
        negated(stream, _without_other_negation(branch, names), _chosen(branch, match))
        for branch in _branches(stream.bound, match)
    )


def gone_with(bound: BoundQuery, relaxed: Sequence[Constraint]) -> set[str]:
    """The negative components that cannot be asked for without some constraints."""
    demands = {item.demand for item in relaxed}
    gone: set[str] = set()
    if Demand.WINDOW in demands:
        gone = set(open_ended(base(bound)))
    if Demand.ORDER in demands:
        gone = {event.variable for event in bound.components if event.negated}
    return gone - {str(item.variable) for item in relaxed}


def expected(example: Example, relaxed: Sequence[Constraint], reported: set[Match]) -> set[Match]:
    """The near misses of some constraints."""
    bound = example.bound()
    query = base(bound)
    for item in relaxed:
        query = relax.without(query, item, bound.schema)
    found = oracle.matches(bind(query, example.event_schema()), example.events)
    stream = make_stream(bound, example.events)
    gone = gone_with(bound, relaxed)
    keys = {item.expression for item in relaxed if item.demand is Demand.KEY}
    asked = tuple(test for test in bound.equivalences if test not in keys)
    keyed = make_stream(replace(bound, equivalences=asked), example.events, "arrival") if keys else stream
    near = {match for match in found if all(breaks(stream, keyed, item, match, reported) for item in relaxed)}
    return {match for match in near if not (gone and forbidden(stream, gone, match))}


def also_broken(example: Example, item: Constraint, others: Sequence[Constraint], near: set[Match]) -> list[str]:
    """The other constraints that near misses of one break; which events a strategy selects is no constraint on a match."""
    bound = example.bound()
    stream = make_stream(bound, example.events)
    selection = (Demand.STRATEGY, Demand.OVERLAP, *((Demand.WINDOW,) if item.demand is Demand.KEY else ()))
    asked = [other for other in others if other is not item and other.demand not in selection]
    return [other.text for other in asked if any(breaks(stream, stream, other, match, set()) for match in near)]


# --- what is reported -------------------------------------------------------------------------------------------------


def near_misses(bound: BoundQuery, report: WhyNot, relaxed: Sequence[Constraint]) -> set[Match]:
    """The near misses that a report has of some constraints, all of them."""
    arrays = {event.variable for event in bound.components if event.is_kleene}
    for cause in report.causes:
        if cause.constraints == tuple(relaxed):
            assert cause.count.exact
            assert cause.count.number == len(cause.nearest)
            assert all(len(found.reasons) == len(relaxed) and all(found.reasons) for found in cause.nearest)
            return {_match(found.events, arrays) for found in cause.nearest}
    return set()


def _match(events: Any, arrays: set[str]) -> Match:
    held = {name: tuple(event[ROW] for event in own) for name, own in events.items()}
    return Match(tuple(sorted((name, own if name in arrays else own[0]) for name, own in held.items())))


def check_example(example: Example, number: int, rng: Random, report: Report) -> list[str]:
    """How the reported near misses differ from the oracle's."""
    bound = example.bound()
    try:
        answer = Query(example.query).why_not(numbered(example), nearest=100_000, **call_options(example))
    except PlanningError as error:
        report.seen["refused"] += str(error).startswith("not supported yet: ")
        return [] if str(error).startswith("not supported yet: ") else [str(error)]
    reported = set(oracle.matches(bound, example.events))
    found: list[str] = []
    if answer.matches.number != len(reported) or not answer.matches.exact:
        found.append(f"{answer.matches} matches, not {len(reported)}")
    found += _components(example, answer)
    untried = {text for text, _ in answer.untried}
    single = list(constraints(base(bound)))
    any_single = False
    for item in single:
        if item.text in untried:
            found += _refused(example, item, dict(answer.untried)[item.text], report)
            continue
        wanted = expected(example, (item,), reported)
        if wanted & reported:
            found.append(f"{item.text}: {len(wanted & reported)} near misses are matches")
        found += [f"{item.text}: a near miss breaks {other} too" for other in also_broken(example, item, single, wanted)]
        found += _compared(bound, (item,), wanted, answer, report)
        any_single = any_single or bool(wanted)
    if not any_single and not reported:
        for pair in islice(combinations(single, 2), MOST_PAIRS):
            if not untried & {item.text for item in pair}:
                try:
                    wanted = expected(example, pair, reported)
                except DataError:
                    continue
                found += _compared(bound, pair, wanted, answer, report)
    report.matches += len(reported)
    assert str(answer)
    assert answer._repr_html_()
    assert answer.to_dict()
    return found


def _compared(
    bound: BoundQuery, relaxed: Sequence[Constraint], wanted: set[Match], answer: WhyNot, report: Report
) -> list[str]:
    given = near_misses(bound, answer, relaxed)
    name = " and ".join(item.text for item in relaxed)
    report.seen[" and ".join(item.demand.value for item in relaxed) if len(relaxed) == 1 else "pairs"] += bool(wanted)
    found = []
    if given != wanted:
        found.append(
            f"{name}: missing {sorted(map(str, wanted - given))[:3]}, unexpected {sorted(map(str, given - wanted))[:3]}"
        )
    return found


def _components(example: Example, answer: WhyNot) -> list[str]:
    """Counts of events for each component that are not those of the query for it alone."""
    found = []
    for event, item in zip(example.bound().components, answer.components, strict=True):
        own = sum(row["type"] in event.types for row in example.events)
        asked = bind(alone(base(example.bound()), event.variable, example.event_schema()), example.event_schema())
        passing = len(oracle.matches(asked, example.events))
        if (item.events, item.passing) != (own, passing):
            found.append(f"{item.text}: {item.events} events, {item.passing} passing, not {own}, {passing}")
    return found


def _refused(example: Example, item: Constraint, reason: str, report: Report) -> list[str]:
    """A constraint may be left untried only where the query without it cannot be asked."""
    report.seen["untried"] += 1
    if reason.startswith("not supported yet: "):
        return []
    try:
        oracle.matches(
            bind(relax.without(base(example.bound()), item, example.event_schema()), example.event_schema()), example.events
        )
    except DataError as error:
        return [] if "tie" in reason and "tie" in str(error) else [f"{item.text}: {reason}, but the oracle says {error}"]
    return [f"not settled without {item.text}: {reason}"]


def describe(example: Example) -> str:
    """An example as text."""
    rows = "\n    ".join(str({name: value for name, value in row.items() if value is not None}) for row in example.events)
    return f"{to_text(example.query)}\n  {example.schema_kwargs}\n    {rows}"


SABOTAGE: dict[str, Callable[[], None]] = {
    "closed-window": rewritten(Judge, "_judge", "span >= allowed", "span > allowed"),
    "closed-interval": rewritten(Judge, "_interval", 'after, side="right"', 'after, side="left"'),
    "no-keys-of-negation": rewritten(Judge, "_matches_negative", "held &= (own == theirs)", "held |= (own == theirs)"),
    "loose-order": rewritten(Judge, "_out_of_order", ">= self.stream.rank.take(after)", "> self.stream.rank.take(after)"),
    "no-conditions-left": broken(relax, "without", "where=_less(query.where, constraint.expression)", "where=None"),
    "everything-is-near": rewritten(Judge, "near", "near[numbers] &= found.broken", "pass"),
}

SUITE = Suite(why_not_example, check_example, describe, SABOTAGE)

if __name__ == "__main__":
    main(__doc__, SUITE)
