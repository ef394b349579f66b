"""Golden plans: the basic and the optimised plan of the paper's Q3 (Figures 1 and 6), and what divides a stream."""

from __future__ import annotations

import pyarrow as pa
import pytest

import kleene
from kleene.explain.plans import explain
from kleene.plan.options import CHOICES, PRESETS, plan_options

EVENTS = pa.schema(
    [
        ("ts", pa.int64()),
        ("type", pa.string()),
        *((f"attr{index}", pa.int64()) for index in range(1, 5)),
        ("other", pa.string()),
    ]
)
Q3 = """
    EVENT SEQ(A x1, B x2, !(C x3), D x4)
    WHERE [attr1, attr2] ∧ x1.attr3 = 1 ∧ x1.attr4 < x4.attr4
    WITHIN 6
    RETURN x1.attr1 AS item, x4.ts AS at
"""
SEQUENCE = {"mechanism": "sequence"}


def plan_of(text: str, plan: object = SEQUENCE, **options: object) -> kleene.plan.sequence.SequencePlan:  # type: ignore[name-defined]
    return kleene.query(text, name="q3").explain(EVENTS, time="ts", type="type", plan=plan, **options).plan


def operators(text: str) -> str:
    """The plan below the query's own text."""
    return text[text.index("TF  ") :]


def test_basic_plan_is_figure_1():
    assert operators(explain(plan_of(Q3, "basic"))) == (
        "TF  transformation\n"
        "    item = x1.attr1\n"
        "    at = x4.ts\n"
        "NG  negation (scan of all negative events)\n"
        "    no C x3 in (x2, x4)\n"
        "      with x3.attr1 = x1.attr1\n"
        "      with x3.attr2 = x1.attr2\n"
        "WD  window\n"
        "    last.ts - first.ts < 6\n"
        "SL  selection\n"
        "    x1.attr1 = x4.attr1\n"
        "    x2.attr1 = x4.attr1\n"
        "    x1.attr2 = x4.attr2\n"
        "    x2.attr2 = x4.attr2\n"
        "    x1.attr4 < x4.attr4\n"
        "    x1.attr3 = 1\n"
        "SC  sequence construction (runtime stack (one cell per event))\n"
        "SS  sequence scan\n"
        "    A x1\n"
        "    B x2\n"
        "    D x4\n"
        "    !(C x3)\n"
        "EV  events\n"
        "    columns: ts, type, attr1, attr2, attr3, attr4\n"
        "    distribution: by attr1, attr2"
    )


def test_paper_plan_is_figure_6():
    assert operators(explain(plan_of(Q3, "paper"))) == (
        "TF  transformation\n"
        "    item = x1.attr1\n"
        "    at = x4.ts\n"
        "NG  negation (time-partitioned index)\n"
        "    no C x3 in (x2, x4)\n"
        "      of the same attr1\n"
        "      with x3.attr2 = x1.attr2\n"
        "SC  sequence construction (active instance stacks)\n"
        "    window: 6\n"
        "    dynamic filtering: [attr2]\n"
        "    when x1 is bound: x1.attr4 < x4.attr4\n"
        "SS  sequence scan\n"
        "    A x1 where x1.attr3 = 1\n"
        "    B x2\n"
        "    D x4\n"
        "    !(C x3)\n"
        "    partitioned by attr1 (PAIS)\n"
        "    window: 6\n"
        "EV  events\n"
        "    columns: ts, type, attr1, attr2, attr3, attr4\n"
        "    distribution: by attr1, attr2"
    )


def test_the_default_partitions_by_all_tests():
    plan = plan_of(Q3)
    assert plan.scan.partition == ("attr1", "attr2")
    assert plan.construction.tests == ()
    assert plan.negation is not None
    assert plan.negation.components[0].predicates == ()


def test_multi_pais_filters_transitions_and_leaves_the_rest_to_selection():
    plan = plan_of(Q3, {"partition": "multi_pais"})
    assert plan.scan.transition_tests == ("attr2",)
    assert plan.selection is not None
    assert len(plan.selection.predicates) == 2


def test_only_needed_columns_are_read():
    assert "other" not in plan_of(Q3).columns
    assert "other" in plan_of("PATTERN SEQ(A a, B b)").columns


def test_equalities_that_connect_all_components_divide_the_stream():
    plan = plan_of(
        "PATTERN SEQ(A a, !(C c), B b, D d) WHERE a.attr1 = c.attr1 AND a.attr1 = b.attr1 AND d.attr1 = b.attr1 WITHIN 9"
    )
    assert plan.keys == ("attr1",)
    assert plan.scan.partition == ("attr1",)
    assert plan.construction.predicates == ((), (), ())
    assert plan.negation is not None
    assert plan.negation.components[0].keyed
    assert plan.negation.components[0].predicates == ()


@pytest.mark.parametrize(
    "where",
    [
        "a.attr1 = b.attr1",  # d is not connected
        "a.attr1 = b.attr1 AND b.attr2 = d.attr2",  # two attributes, neither everywhere
        "a.attr1 = b.attr2 AND b.attr2 = d.attr1",  # different attributes
        "a.attr1 = b.attr1 AND (b.attr1 = d.attr1 OR a.attr2 = 1)",  # not a conjunct
        "a.attr1 = b.attr1 AND b.attr1 <= d.attr1",
    ],
)
def test_other_equalities_do_not(where: str):
    plan = plan_of(f"PATTERN SEQ(A a, B b, D d) WHERE {where} WITHIN 9")
    assert plan.keys == ()
    assert plan.scan.partition == ()


def test_a_negative_component_outside_the_equalities_sees_all_partitions():
    plan = plan_of("PATTERN SEQ(A a, !(C c), B b) WHERE a.attr1 = b.attr1 WITHIN 9")
    assert plan.scan.partition == ("attr1",)
    assert plan.keys == ()
    assert plan.negation is not None
    assert not plan.negation.components[0].keyed


def test_a_null_in_a_spelled_out_key_is_no_candidate_and_no_error():
    events = pa.table({"ts": [1, 2, 3, 4], "type": ["A", "A", "B", "B"], "k": [1, None, None, 1]})
    query = kleene.query("PATTERN SEQ(A a, B b) WHERE a.k = b.k")
    for preset in PRESETS:
        found = query.match(events, time="ts", type="type", plan=preset)
        assert [(row["a"]["ts"], row["b"]["ts"]) for row in found.to_pylist()] == [(1, 4)]


def test_options_are_checked_together():
    with pytest.raises(kleene.PlanningError, match=r"unknown plan 'papr'(.|\n)*did you mean 'paper'(.|\n)*negation"):
        plan_options({"preset": "papr", "negation": "magic", "windowinscan": True})


def test_presets_use_known_choices():
    for preset in PRESETS.values():
        for name, value in preset.items():
            assert value in CHOICES["sequence"][name]
