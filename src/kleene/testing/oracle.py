"""The meaning of the whole language by brute force, written from semantics.md; every mechanism is tested against it.

`matches` enumerates the assignments of every branch (`oracle_any`) or, for the other strategies, the accepting runs of NFA^b
(`oracle_runs`), removes those that negation forbids (`oracle_negation`), and applies NON-OVERLAP. `returns` evaluates RETURN on
a match, `aggregates` (`oracle_aggregate`) answers AGG. Nothing here comes from the engine.

Cost: exponential in the number of components, and in the number of events for Kleene plus. Meant for tens of events.

Readings chosen where the text leaves room:
- A conjunct is checked when its last identifier is bound: one that mentions a variable which the branch does not have never is.
- The elements of a Kleene variable are in strictly increasing stream order: simultaneous events are not in one array.
- A negated start or end under a count window is bounded by position instead of time.
- Under NON-OVERLAP negation comes first, and a strict_contiguity query has one partition, the stream (SASE+ section 2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from kleene.pattern.bound import BoundQuery
from kleene.pattern.normalize import Branch
from kleene.pattern.policies import Output, Strategy
from kleene.testing.evaluate import Frame, all_hold, value
from kleene.testing.functions import Value
from kleene.testing.oracle_aggregate import AggregateRow, aggregate_rows
from kleene.testing.oracle_any import assignments, conditions_hold
from kleene.testing.oracle_bad_rows import good_rows
from kleene.testing.oracle_branch import Elements, Match, bindings_of, extremes
from kleene.testing.oracle_negation import negated
from kleene.testing.oracle_runs import accepting_runs
from kleene.testing.oracle_stream import Key, Stream, Ties, make_stream, merge_all

__all__ = ["AggregateRow", "Match", "aggregates", "good_rows", "matches", "returns"]


def matches(bound: BoundQuery, events: Sequence[Mapping[str, Value]], *, ties: Ties = "error") -> list[Match]:
    """Every match of a query, without duplicates, in order of the last event and then of the bindings."""
    stream = make_stream(bound, events, ties)
    found: dict[Match, None] = {}
    for branch in bound.branches:
        for chosen in _positive_matches(stream, branch):
            if all_hold((partial(_conditions_hold, stream, branch, chosen), partial(_is_spared, stream, branch, chosen))):
                found[Match(tuple(sorted(bindings_of(branch, chosen).items())))] = None
    ordered = sorted(found, key=lambda match: _output_order(stream, match))
    return _non_overlap(stream, ordered) if bound.query.output is Output.NON_OVERLAP else ordered


def returns(bound: BoundQuery, events: Sequence[Mapping[str, Value]], match: Match) -> dict[str, Value]:
    """The RETURN columns of a match; plain `a[].x` gives a list, a variable of another branch NULL."""
    stream = make_stream(bound, events, "arrival")
    frame = Frame(bound, events, stream.types, dict(match.bindings))
    return {item.alias: value(item.expression, frame) for item in bound.query.returns}


def aggregates(bound: BoundQuery, events: Sequence[Mapping[str, Value]], *, ties: Ties = "error") -> list[AggregateRow]:
    """The rows of an AGG query, in order of time (semantics, section 7)."""
    return aggregate_rows(bound, events, ties, lambda prefix: matches(bound, prefix, ties=ties))


def _positive_matches(stream: Stream, branch: Branch) -> Iterator[tuple[Elements, ...]]:
    if stream.bound.query.strategy is Strategy.SKIP_TILL_ANY_MATCH:
        return assignments(stream, branch)
    return accepting_runs(stream, branch)


def _conditions_hold(stream: Stream, branch: Branch, chosen: tuple[Elements, ...]) -> bool:
    """Whether an assignment has no error, which is not decided while it is found."""
    return stream.bound.query.strategy is not Strategy.SKIP_TILL_ANY_MATCH or conditions_hold(stream, branch, chosen)


def _is_spared(stream: Stream, branch: Branch, chosen: tuple[Elements, ...]) -> bool:
    return not negated(stream, branch, chosen)


def _output_order(stream: Stream, match: Match) -> tuple[Value, ...]:
    last = max(stream.order[q] for q in match.positions)
    return last, tuple((name, at if isinstance(at, tuple) else (at,)) for name, at in match.bindings)


def _non_overlap(stream: Stream, ordered: Sequence[Match]) -> list[Match]:
    """Per partition, in order of the last event: a match is kept if it starts after the one kept before it ended."""
    rank = {position: index for index, position in enumerate(stream.sorted_positions)}

    def preference(match: Match) -> tuple[Value, ...]:
        ranks = sorted(rank[q] for q in match.positions)
        return ranks[-1], -ranks[0], len(ranks), ranks, match.bindings

    kept: list[Match] = []
    ended: dict[Key | None, int] = {}
    for match in sorted(ordered, key=preference):
        partition = _partition_of(stream, match)
        first, last = extremes(stream, [match.positions])
        if partition not in ended or stream.order[ended[partition]] < stream.order[first]:
            ended[partition] = last
            kept.append(match)
    return sorted(kept, key=lambda match: _output_order(stream, match))


def _partition_of(stream: Stream, match: Match) -> Key | None:
    if stream.bound.query.strategy is Strategy.STRICT_CONTIGUITY:
        return ()
    return merge_all(stream.start_key, (stream.keys[q] for q in match.positions))
