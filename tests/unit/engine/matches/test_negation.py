"""Negation: which matches have a forbidden event in their open interval."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kleene.common.schema import schema_of_arrow
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.matches.matches import Matches
from kleene.engine.matches.negation import NegativeIndex
from kleene.language.parser import parse
from kleene.pattern import predicates as p
from kleene.pattern.bind import bind
from kleene.plan.operators import NegativeComponent
from kleene.testing.oracle_negation import negated
from kleene.testing.oracle_stream import make_stream
from support.match_worlds import Bindings, World, world

# --- negation ---------------------------------------------------------------------------------------------------------

NEGATIONS = (
    "PATTERN SEQ(A a, B+ b[], !(N n), ANY(C, D)+ c[]) WHERE {} WITHIN 9",
    "PATTERN SEQ(A+ a[], !(N n), B b) WHERE {}",
    "PATTERN SEQ(!(N n), A+ a[], B b) WHERE {} WITHIN 8",
    "PATTERN SEQ(A a, B+ b[], !(N n)) WHERE {} WITHIN 8",
    "PATTERN AND(A+ a[], B+ b[], !(N n)) WHERE {} WITHIN 8",
    "PATTERN SEQ(A? c, B+ a[], !(N n), C b) WHERE {}",
)

ON_NEGATIVES = (
    "n.ts >= 0",
    "n.x > 1",
    "n.x > {0}[1].x",
    "n.x != {0}[].x",
    "n.k = {0}[1].k AND n.x < max({0}[].x)",
    "n.x > {0}[i].x - {0}[i-1].x",
    "n.y >= avg({0}[..i-1].y)",
    "{0}.LEN > 1 AND n.f",
)


@pytest.mark.parametrize("method", ["key_index", "time_index", "scan"])
@pytest.mark.parametrize("text", NEGATIONS)
def test_negation_is_the_oracles(text: str, method: str) -> None:
    kleene = "a" if "a[]" in text else "b"
    for number, condition in enumerate(ON_NEGATIVES):
        rng = Random(number)
        at = world(rng, text.format(condition.format(kleene)), count=40)
        stream = make_stream(at.bound, at.events, "error")
        for branch in at.bound.branches:
            found = ordered_matches(rng, at, branch, 60)
            if not found:
                continue
            variables = [event.variable for event in branch.positives]
            chosen = [
                tuple(rows if isinstance(rows, tuple) else (rows,) for rows in (match[name] for name in variables))
                for match in found
            ]
            negative = branch.negatives[0]
            known = {*variables, "n"}
            component = NegativeComponent(
                negative.event,
                tuple(negative.after),
                tuple(negative.before),
                (),
                tuple(item for item in at.bound.conjuncts if "n" in p.variables(item) and p.variables(item) <= known),
                keyed=False,
                beside=branch.beside(negative),
            )
            rank = at.working.rank()
            rows, order = at.working.rows_with(0), at.groups.order
            index = NegativeIndex(component, variables, rows, method, at.bound.window, at.working, rank, None, order)
            dead = index.dead(at.bound, at.matches(found)).tolist()
            assert dead == [negated(stream, branch, item) for item in chosen], condition


def ordered_matches(rng: Random, at: World, branch: Any, count: int) -> list[Bindings]:
    """Random matches of the branch whose components follow one another."""
    found: list[Bindings] = []
    for _ in range(count):
        rows = iter(sorted(rng.sample(range(len(at.events)), 12)))
        match: Bindings = {}
        for event in branch.positives:
            able = [row for row in (next(rows) for _ in range(12 // len(branch.positives))) if at.types[row] in event.types]
            if able:
                match[event.variable] = tuple(able) if event.is_kleene else able[0]
        if len(match) == len(branch.positives):
            found.append(match)
    return found


# --- by hand ------------------------------------------------------------------------------------------------------------

EVENTS = pa.table({"ts": [0, 2, 2, 4, 6, 9], "type": ["A", "N", "A", "N", "B", "N"], "x": [0, 1, 0, 5, 3, 0]})
METHODS = ("key_index", "time_index", "scan")


def earliest(pattern: str, *matches: tuple[int, int], method: str, keys: Any = None) -> list[int | None]:
    """The row of each match's earliest forbidden event; matches are rows of `a` and `b`."""
    schema = schema_of_arrow(EVENTS.schema, time="ts", type="type")
    bound = bind(parse(pattern), schema)
    (branch,) = bound.branches
    (negative,) = branch.negatives
    working = WorkingSet(schema, EVENTS.column_names)
    (batch,) = EVENTS.to_batches()
    working.add(batch, np.arange(batch.num_rows), np.array([int(kind == "N") for kind in EVENTS["type"].to_pylist()]))
    conditions = tuple(item for item in bound.conjuncts if "n" in p.variables(item))
    component = NegativeComponent(
        negative.event,
        tuple(negative.after),
        tuple(negative.before),
        (),
        conditions,
        keyed=keys is not None,
        beside=(),
    )
    codes = None if keys is None else np.array(keys)
    index = NegativeIndex(
        component,
        ["a", "b"],
        working.rows_with(0),
        method,
        bound.window,
        working,
        working.rank(),
        codes,
        np.arange(batch.num_rows),
    )
    found = index.earliest(bound, Matches.of_sequences(["a", "b"], np.array(matches).T)).tolist()
    return [None if row == batch.num_rows else row for row in found]


@pytest.mark.parametrize("method", METHODS)
def test_the_interval_between_two_components_is_open(method: str) -> None:
    pattern = "PATTERN SEQ(A a, !(N n), B b) WITHIN 9"
    assert earliest(pattern, (0, 4), (2, 4), (0, 2), method=method) == [1, 3, None]


@pytest.mark.parametrize("method", METHODS)
def test_a_negated_end_reaches_to_the_end_of_the_window_which_is_not_in_it(method: str) -> None:
    assert earliest("PATTERN SEQ(A a, B b, !(N n)) WITHIN 9", (0, 4), (2, 4), method=method) == [None, 5]


@pytest.mark.parametrize("method", METHODS)
def test_a_negated_start_reaches_back_to_a_window_before_the_last_event(method: str) -> None:
    assert earliest("PATTERN SEQ(!(N n), A a, B b) WITHIN 5", (2, 4), method=method) == [None], "the N at 2 ties with the A"
    assert earliest("PATTERN SEQ(!(N n), A a, B b) WITHIN 5", (4, 4), method=method) == [1]
    assert earliest("PATTERN SEQ(!(N n), A a, B b) WITHIN 4", (4, 4), method=method) == [3], "the N at 2 is a window before"


@pytest.mark.parametrize("method", METHODS)
def test_only_events_of_the_partition_are_meant(method: str) -> None:
    pattern = "PATTERN SEQ(A a, !(N n), B b) WITHIN 9"
    assert earliest(pattern, (0, 4), method=method, keys=[0, 1, 0, 0, 0, 0]) == [3]
    assert earliest(pattern, (0, 4), method=method, keys=[0, 1, 0, 1, 0, 0]) == [None]


@pytest.mark.parametrize("method", METHODS)
def test_conditions_say_which_events_are_forbidden(method: str) -> None:
    pattern = "PATTERN SEQ(A a, !(N n), B b) WHERE n.x > b.x WITHIN 9"
    assert earliest(pattern, (0, 4), (0, 3), method=method) == [3, None]
