"""Shared plans as text and as pictures."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from kleene.explain.shared_drawing import shared_svg
from kleene.explain.shared_plans import described, explain_shared, order_text, paper_cost
from kleene.plan.multi.nodes import SharedPlan
from kleene.plan.multi.search import MultiOptions, plan_shared
from kleene.testing.cases import load
from support.random_clauses import random_workload
from support.workload_routes import shared_plan

FIGURES = Path(__file__).parents[2] / "cases" / "multi"
SVG = "{http://www.w3.org/2000/svg}"


def figure9() -> SharedPlan:
    return shared_plan(load(FIGURES / "figure9_multitree.case")[1])


def random_plan(seed: int, count: int = 40, **options: object) -> SharedPlan:
    workload = random_workload(seed, count=count, sizes=(1, 2, 3, 4, 5), types=8, repeated=seed % 2 == 0, windows=(5, 20, None))
    return plan_shared(*workload, MultiOptions(steps=200, **options))  # type: ignore[arg-type]


def test_the_text_names_nodes_with_who_shares_them() -> None:
    text = explain_shared(figure9())
    lines = {line.split()[0]: line for line in text.splitlines() if line.startswith("#")}
    shared = next(line for line in lines.values() if "SEQ(A, C)" in line)
    assert re.search(r"SEQ\(A, C\) +10 +100 +2 +P1, P2$", shared)
    assert "((A C) (B D))" in text


def test_the_text_compares_with_plans_that_need_no_search() -> None:
    plan = random_plan(3)
    text = explain_shared(plan, "second", 1000)
    for name in ("written", "sharing", "reordering", "none", "this plan"):
        assert re.search(rf"^{name} +[\d.,]+ [num]?s +[\d.,]+ x$", text, re.MULTILINE), name
    assert "time per second" in text
    assert re.search(r"40 queries in one multitree, planned by annealing: \d+ steps in [\d.]+ s", text)


def test_long_lists_of_queries_are_cut() -> None:
    plan = random_plan(2, count=80)
    assert re.search(r"(P\d+, ){5}P\d+ and \d+ more", explain_shared(plan))


@pytest.mark.parametrize(
    ("precedes", "text"),
    [
        ([], "AND(A, B, C, D)"),
        ([(i, j) for i in range(4) for j in range(i)], "SEQ(D, C, B, A)"),
        ([(0, 1), (2, 3)], "AND(SEQ(A, B), SEQ(C, D))"),
        ([(0, 2), (1, 2), (0, 3), (1, 3), (2, 3)], "SEQ(AND(A, B), C, D)"),
        ([(0, 2), (0, 3), (1, 2), (1, 3)], "SEQ(AND(A, B), AND(C, D))"),
    ],
)
def test_orders_as_patterns(precedes: list[tuple[int, int]], text: str) -> None:
    assert order_text("ABCD", precedes) == text


def test_instances_are_products_of_rates_windows_and_shares() -> None:
    plan = random_plan(5)
    for node, item in zip(plan.nodes, described(plan), strict=True):
        expected = item.share
        for leaf in node.leaves:
            expected *= plan.statistics.rates[leaf] * plan.statistics.length(node.window)
        assert item.instances == pytest.approx(expected)


def test_the_cost_of_the_paper_falls_with_sharing() -> None:
    written, shared = (random_plan(7, search=search, kind="tree") for search in ("written", "sharing"))
    assert paper_cost(shared) < paper_cost(written)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["multitree", "tree"])
def test_a_picture_has_every_node_and_edge_inside_its_bounds(seed: int, kind: str) -> None:
    plan = random_plan(seed, kind=kind)
    root = ET.fromstring(shared_svg(plan))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    boxes = [group.find(f"{SVG}rect") for group in root.findall(f"{SVG}g")]
    shown = {group.attrib["aria-label"].split()[0] for group in root.findall(f"{SVG}g")}
    assert shown == {f"#{node.number}" for node in plan.nodes}
    corners = []
    for box in boxes:
        assert box is not None
        x, y, w, h = (float(box.attrib[name]) for name in ("x", "y", "width", "height"))
        assert x >= 0
        assert y >= 0
        assert x + w <= width
        assert y + h <= height
        corners.append((x, y, w, h))
    for place, (x, y, w, h) in enumerate(corners):
        for left, top, wide, high in corners[:place]:
            assert x + w <= left or left + wide <= x or y + h <= top or top + high <= y
    edges = [path for path in root.findall(f"{SVG}path") if path.attrib["class"] == "edge"]
    assert len(edges) == 2 * sum(not node.is_leaf for node in plan.nodes)


def test_a_picture_tells_shared_nodes_apart() -> None:
    root = ET.fromstring(shared_svg(figure9()))
    doubled = [box for box in root.findall(f"{SVG}rect") if box.attrib["class"] == "inner"]
    assert len(doubled) == 2 + 4
    texts = [text.text for text in root.findall(f"{SVG}text")]
    assert {"= P1", "= P2", "= P3"} <= set(texts)
