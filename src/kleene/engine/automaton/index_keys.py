"""Conditions between what a run has bound and the current event, as keys of an index over the runs that wait.

A comparison serves if one side reads only the run and the other only the event: `f(run) = g(event)`, `f(run) < g(event)`. Both
sides become integers in the same order, those of floating-point numbers by their bits. All equalities of an edge make one key;
without an equality the first comparison decides. Keys may be equal where values are not, but never the other way round: what a
key lets through is decided by the conditions themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.automaton.kernels import layout
from kleene.engine.automaton.kernels.layout import HASHED, NOTHING, ORDERED
from kleene.engine.expressions.filters import TURNED, Value
from kleene.engine.expressions.vectorized import lacking_types
from kleene.pattern import predicates as p
from kleene.pattern.bound import BoundQuery
from kleene.plan.analysis.compilable import needs_range

MIXING = -7046029254386353131
"""Multiplies the key before the next equality is added to it."""


class Reading(Protocol):
    """Source of one side: the body of a site that computes it."""

    fixed: list[str]
    hoisted: list[str]
    inside: list[str]

    def value(self, node: p.Expression) -> Value: ...

    def in_loop(self, node: p.Expression) -> bool: ...

    def reads_event(self, node: p.Expression) -> bool: ...


@dataclass(frozen=True, slots=True)
class Sides:
    """A comparison as `run operator event`."""

    run: p.Expression
    operator: str
    event: p.Expression


def key_of(bound: BoundQuery, conditions: Sequence[p.Expression], body: Reading) -> tuple[int, tuple[Sides, ...]]:
    """The kind of index that serves an edge (0: none), and the comparisons that it is made of."""
    found = [sides for condition in conditions for sides in _sides(bound, condition, body)]
    equalities = tuple(sides for sides in found if sides.operator == "=")
    if equalities:
        return HASHED, equalities
    return (ORDERED, (found[0],)) if found else (0, ())


def _sides(bound: BoundQuery, condition: p.Expression, body: Reading) -> Iterator[Sides]:
    pairs: list[tuple[p.Expression, str, p.Expression]] = []
    if isinstance(condition, p.Comparison):
        pairs = [(condition.left, condition.operator, condition.right)]
    elif isinstance(condition, p.Between):
        pairs = [(condition.operand, ">=", condition.low), (condition.operand, "<=", condition.high)]
    references = [item for item in p.walk(condition) if isinstance(item, p.Attribute | p.Aggregate)]
    if any(item.name is not None and lacking_types(bound, item) for item in references):
        return
    for left, operator, right in pairs:
        if operator not in TURNED or operator == "!=" or needs_range(left) or needs_range(right):
            continue
        for run, sign, event in ((left, operator, right), (right, TURNED[operator], left)):
            if body.in_loop(run) and not body.reads_event(run) and body.reads_event(event) and not body.in_loop(event):
                yield Sides(run, sign, event)


def index_numbers(table: Array) -> Array:
    """The numbers of the indexes that states have, by what they are for."""
    length = table.shape[1]
    takes = table[layout.FILTERED + layout.SITE_TAKE_KEY] > 0
    begins = np.append(table[layout.FILTERED + layout.SITE_BEGIN_KEY] > 0, False)
    kleene = table[layout.KLEENE] > 0
    waiting = np.arange(length) > 0
    wanted = np.zeros((3, 2 * length), bool)
    wanted[layout.BEGINS] = np.concatenate((begins[:-1], kleene & begins[1:]))
    wanted[layout.TAKES, length:] = takes
    wanted[layout.MERGES] = np.concatenate((waiting, kleene))
    return np.where(wanted, np.cumsum(wanted).reshape(wanted.shape) - 1, -1)


def key_lines(comparisons: Sequence[Sides], body: Reading, floats: Sequence[bool]) -> list[str]:
    """Source of the runs' keys, from `row` up to n; NOTHING where a value is missing."""
    lines, known = _coded([sides.run for sides in comparisons], comparisons, body, floats)
    return [
        *body.fixed,
        *body.hoisted,
        "for k in range(row, n):",
        *(f"    {line}" for line in (*body.inside, *lines)),
        f"    keys[flags_at + k] = min(key, {NOTHING - 1}) if {known} else {NOTHING}",
        "return 0",
    ]


def bound_lines(comparisons: Sequence[Sides], body: Reading, floats: Sequence[bool]) -> list[str]:
    """Source of what an event looks up: a key, or the greatest key that it is compared with."""
    lines, known = _coded([sides.event for sides in comparisons], comparisons, body, floats)
    if comparisons[0].operator in "<>":
        lines += [f"some = key >= {-NOTHING}", "key = key - 1 if some else key"]
        known = f"{known} & some"
    return [*body.fixed, *body.hoisted, *lines, f"scratch[0] = min(key, {NOTHING - 1})", f"return 1 if {known} else 0"]


def _coded(
    nodes: Sequence[p.Expression], comparisons: Sequence[Sides], body: Reading, floats: Sequence[bool]
) -> tuple[list[str], str]:
    """Source that makes `key` of values, and of whether all of them are known."""
    lines: list[str] = []
    conditions: list[str] = []
    for number, (node, sides, is_float) in enumerate(zip(nodes, comparisons, floats, strict=True)):
        value, known, _ = body.value(node)
        conditions.append(known)
        if is_float:
            # Zeros are equal; the bits of negative numbers are in the opposite order.
            lines += [
                f"real = {value} + 0.0",
                "code = np.float64(real).view(np.int64)",
                f"code = code if code >= 0 else code ^ {NOTHING}",
                f"sound{number} = real == real",
            ]
            conditions.append(f"sound{number}")
        else:
            lines.append(f"code = np.int64({value})")
        if sides.operator.startswith(">"):
            lines.append("code = ~code")
        lines.append("key = code" if number == 0 else f"key = (key * {MIXING}) ^ code")
    return lines, " & ".join(dict.fromkeys(conditions))
