"""Golden plans: the basic and the optimised plan of the paper's Q3 (Figures 1 and 6), and what divides a stream."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import kleene
from kleene.explain.plans import explain
from kleene.plan import optimizer, stages
from kleene.plan.draft import Draft
from kleene.plan.lazy.lazy import Stacks
from kleene.plan.optimizer import OPTIONAL, STAGES, Stage
from kleene.plan.options import CHOICES, PRESETS, plan_options
from kleene.plan.patterns import StackPlan

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


def plan_of(text: str, plan: object = SEQUENCE, **options: object) -> StackPlan:
    return kleene.query(text, name="q3").explain(EVENTS, time="ts", type="type", plan=plan, **options).plan


def stacks_of(plan: StackPlan) -> Stacks:
    (branch,) = plan.branches
    assert branch.stacks is not None
    return branch.stacks


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
    assert plan.partition == ("attr1", "attr2")
    assert stacks_of(plan).tests == ()
    assert plan.branches[0].negation is not None
    assert plan.branches[0].negation.components[0].predicates == ()


def test_multi_pais_filters_transitions_and_leaves_the_rest_to_selection():
    plan = plan_of(Q3, {"partition": "multi_pais"})
    assert stacks_of(plan).filters_transitions
    assert stacks_of(plan).tests == ("attr2",)
    assert len(stacks_of(plan).selection) == 2


def test_only_needed_columns_are_read():
    assert "other" not in plan_of(Q3).columns
    assert "other" in plan_of("PATTERN SEQ(A a, B b)").columns


def test_equalities_that_connect_all_components_divide_the_stream():
    plan = plan_of(
        "PATTERN SEQ(A a, !(C c), B b, D d) WHERE a.attr1 = c.attr1 AND a.attr1 = b.attr1 AND d.attr1 = b.attr1 WITHIN 9"
    )
    assert plan.keys == ("attr1",)
    assert plan.partition == ("attr1",)
    assert stacks_of(plan).predicates == ((), (), ())
    assert plan.branches[0].negation is not None
    assert plan.branches[0].negation.components[0].keyed
    assert plan.branches[0].negation.components[0].predicates == ()


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
    assert plan.partition == ()


def test_a_negative_component_outside_the_equalities_sees_all_partitions():
    plan = plan_of("PATTERN SEQ(A a, !(C c), B b) WHERE a.attr1 = b.attr1 WITHIN 9")
    assert plan.partition == ("attr1",)
    assert plan.keys == ()
    assert plan.branches[0].negation is not None
    assert not plan.branches[0].negation.components[0].keyed


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


@pytest.mark.parametrize("name", OPTIONAL)
def test_a_stage_that_only_saves_work_can_be_switched_off(name: str):
    query = kleene.query("PATTERN SEQ(A a, B b, D d) WHERE [attr1] AND a.attr2 < b.attr2 AND b.attr2 < d.attr2 WITHIN 9")
    events = pa.table({"ts": [1, 2, 3], "type": [*"ABD"], "attr1": [1, 1, 1], "attr2": [1, 2, 3]})
    assert query.match(events, time="ts", type="type", plan={"disable": [name]}).num_rows == 1


def test_stages_that_are_switched_off_leave_the_mechanism_open():
    text = "PATTERN SEQ(A a, B b, D d) WHERE a.attr1 < b.attr1 AND b.attr1 < d.attr1 WITHIN 9"
    plan = plan_of(text, {"disable": ["imply_comparisons", "offer_stacks"]})
    assert plan.evaluation == "auto"
    assert [item.via for item in plan.branches[0].conditions] == [frozenset(), frozenset()]
    assert plan.branches[0].stacks is None
    assert plan_of(text, {"mechanism": "chain", "disable": "imply_comparisons"}).evaluation == "chain"
    counted = kleene.query("PATTERN SEQ(A a, B b) AGG COUNT WITHIN 9")
    assert counted.explain(EVENTS, time="ts", type="type").plan.kind == "counters"
    assert counted.explain(EVENTS, time="ts", type="type", plan={"disable": ["count_without_matches"]}).plan.kind == "matches"


def test_stages_are_named_as_they_are():
    with pytest.raises(kleene.PlanningError, match=r"unknown stage 'imply_comparison'(.|\n)*did you mean 'imply_comparisons'"):
        plan_of("PATTERN SEQ(A a, B b)", {"disable": ["imply_comparison"]})
    with pytest.raises(kleene.PlanningError, match=r"every plan needs the stage 'divide_events'(.|\n)*can be disabled: count"):
        plan_of("PATTERN SEQ(A a, B b)", {"disable": ["divide_events"]})
    with pytest.raises(kleene.PlanningError, match=r"'disable' cannot be 7(.|\n)*name stages"):
        plan_of("PATTERN SEQ(A a, B b)", {"disable": 7})


def test_a_draft_that_loses_a_condition_is_refused(monkeypatch: pytest.MonkeyPatch):
    def forget(draft: Draft) -> None:
        stages.sort_conditions(draft)
        draft.lazy = tuple(replace(branch, conditions=()) for branch in draft.lazy)

    broken = [Stage(forget) if stage.decide is stages.sort_conditions else stage for stage in STAGES]
    monkeypatch.setattr(optimizer, "STAGES", tuple(broken))
    with pytest.raises(AssertionError, match="decided 0 times"):
        plan_of("PATTERN SEQ(A a, B b) WHERE a.attr1 < b.attr1", None)
