"""Figures 7, 8 and 9: evaluations along f_c, for three places of the rare event, and instances along the size of the input."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from benchmarks.harness import Experiment, Point, measure
from benchmarks.lazy.contenders import ALL, AUTO, PAPER, Plan, finals, kleene
from benchmarks.lazy.streams import F_C, Scale, correlated_events, stock_query, stocks

FIGURE_9_F_C = 0.01


def figure_7(scale: Scale) -> Experiment:
    points = [_comparisons("abc", f_c, scale) for f_c in scale.along(F_C)]
    points += [
        _point("abc", "correlation", f_c, stocks(correlated_events(f_c, scale), f_c, history=True), scale)
        for f_c in scale.along(F_C)
    ]
    return Experiment(
        "figure7",
        "Evaluations by the frequency of c, sequence a, b, c",
        axis="f_c",
        series="conditions",
        headline="orders that begin with the rare c one to three orders of magnitude below the eager automaton, and the tree "
        "with the best of them",
        clock="cpu",
        points=tuple(points),
    )


def figure_8(scale: Scale) -> Experiment:
    return Experiment(
        "figure8",
        "Evaluations by the frequency of c, sequences c, b, a and a, c, b",
        axis="f_c",
        series="sequence",
        headline="lazy evaluation costs the same whatever the sequence; the eager automaton is good where c comes first",
        clock="cpu",
        points=tuple(_comparisons(sequence, f_c, scale) for sequence in ("cba", "acb") for f_c in scale.along(F_C)),
    )


def figure_9(scale: Scale) -> Experiment:
    return Experiment(
        "figure9",
        "Peak number of instances by the size of the input, sequence a, b, c",
        axis="quotes",
        headline="fewest for chains that begin with c and for the tree, most for the eager automaton and chains that begin "
        "with a, chains that begin with b between them",
        clock="cpu",
        points=tuple(_size(size, scale) for size in scale.along(scale.sizes)),
    )


def _comparisons(sequence: str, f_c: float, scale: Scale) -> Point:
    return _point(sequence, "comparisons", f_c, stocks(scale.comparisons, f_c), scale)


def _point(sequence: str, conditions: str, f_c: float, table: pa.Table, scale: Scale) -> Point:
    parameters = {"sequence": ", ".join(sequence), "conditions": conditions, "f_c": f_c}
    repeats = scale.repeats if conditions == "comparisons" else min(3, scale.repeats)
    return _measured(sequence, conditions, table, ALL, parameters, repeats)


def _size(size: int, scale: Scale) -> Point:
    plans = {**PAPER, AUTO: None}
    parameters = {"quotes": size, "f_c": FIGURE_9_F_C}
    return _measured("abc", "comparisons", stocks(size, FIGURE_9_F_C), plans, parameters, min(3, scale.repeats))


def _measured(
    sequence: str,
    conditions: str,
    table: pa.Table,
    plans: Mapping[str, Plan],
    parameters: Mapping[str, float | str],
    repeats: int,
) -> Point:
    query = stock_query(sequence, conditions)
    contenders = [kleene(name, query, table, plan) for name, plan in plans.items()]
    timed = measure(contenders, events=table.num_rows, parameters=parameters, baseline="eager", repeats=repeats)
    return finals(contenders, timed)
