"""The route of workload cases: the multi-pattern graph, a plan that is given or searched for, its nodes and its costs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kleene.common.schema import schema_of_arrow
from kleene.explain.shared_plans import (
    condition_text,
    described,
    labels,
    leaf_name,
    leaf_text,
    order_text,
    paper_cost,
    root_labels,
)
from kleene.language.parser import parse
from kleene.pattern.bind import bind
from kleene.plan.multi.clauses import Clause, Leaf, clauses_of
from kleene.plan.multi.cost import SharedStatistics, condition_key
from kleene.plan.multi.graph import PatternGraph
from kleene.plan.multi.nodes import SharedPlan, Tree, nodes_and_roots
from kleene.plan.multi.search import MultiOptions, plan_shared
from kleene.plan.optimizer import plan_matches
from kleene.plan.options import LazyOptions
from kleene.plan.patterns import LazyPlan
from kleene.testing.case_routes import Outcome
from kleene.testing.cases import Case

STEPS = 2_000
"""Neighbours that a search of a case looks at."""


def workload_route(case: Case) -> Outcome:
    """What can be seen of a workload's plan."""
    found: dict[str, list[str]] = {}
    expected = case.expected.planned or {}
    if "graph" in expected:
        found["graph"] = _graph(*clauses_of(_plans(case)), least=int(expected["graph"][0] or 2))
    if expected.keys() & {"nodes", "costs"}:
        plan = shared_plan(case)
        found["nodes"] = _nodes(plan)
        found["costs"] = [f"instances {paper_cost(plan):g}"]
    return Outcome(planned=found)


def shared_plan(case: Case) -> SharedPlan:
    """The plan of a case, as given or as the search finds it."""
    plans = _plans(case)
    leaves, clauses = clauses_of(plans)
    statistics = _statistics(case, leaves, clauses)
    if "search" in case.given:
        kind, search = case.given["search"][0].split()
        return plan_shared(leaves, clauses, statistics, MultiOptions(kind, search, steps=STEPS, seconds=60.0))
    heading, lines = case.given["trees"]
    kind, _, apart = heading.partition(" ")
    texts = dict(line.split(": ", 1) for line in lines)
    trees = [_tree(texts[clause.query], plans[clause.query], clause) for clause in clauses]
    nodes, roots, cost = nodes_and_roots(leaves, clauses, statistics, trees, shared=apart != "apart")
    search = "written" if apart else "none"
    return SharedPlan(leaves, nodes, roots, cost, kind, search, {"written": cost}, statistics)


def _plans(case: Case) -> dict[str, LazyPlan]:
    return {name: _plan(case, text) for name, text in case.workload.items()}


def _plan(case: Case, text: str) -> LazyPlan:
    options = case.options
    schema = schema_of_arrow(
        case.table().schema, time=options.time, type=options.type, order_by=options.order_by, types=options.schema
    )
    return plan_matches(
        bind(parse(text), schema, params=dict(options.params), partition_by=options.partition_by), LazyOptions()
    )


def _statistics(case: Case, leaves: Sequence[Leaf], clauses: Sequence[Clause]) -> SharedStatistics:
    rates: dict[str, float] = {}
    shares: dict[str, float] = {}
    for line in case.given.get("statistics", ("", ()))[1]:
        share, _, condition = line.partition(" ")
        if "=" in share:
            rates |= {name: float(rate) for name, rate in (item.split("=") for item in line.split())}
        else:
            shares[condition] = float(share)
    selectivities: dict[Any, float] = {}
    for clause in clauses:
        names = labels(leaves, clause.leaves)
        for condition in clause.conditions:
            selectivities[condition_key(condition, clause.leaves)] = shares.get(condition_text(condition, names), 1.0)
    return SharedStatistics(tuple(rates.get(leaf_name(leaf), 1.0) for leaf in leaves), selectivities)


def _graph(leaves: Sequence[Leaf], clauses: Sequence[Clause], least: int) -> list[str]:
    graph = PatternGraph(clauses, least=least)
    lines = []
    for subpattern, holders in graph.subpatterns.items():
        names = labels(leaves, subpattern.leaves)
        shown = [leaf_text(leaves[leaf], name) for leaf, name in zip(subpattern.leaves, names, strict=True)]
        conditions = [condition_text(item, names) for item in graph.conditions(subpattern)]
        pattern = order_text(shown, subpattern.precedes) + "".join(f" where {text}" for text in sorted(conditions))
        lines.append(f"{pattern}: {' '.join(clauses[number].query for number in sorted(holders))}")
    return lines


def _tree(text: str, plan: LazyPlan, clause: Clause) -> Tree:
    """A tree as it is written: `a b c` is the order ((a b) c)."""
    branch = plan.branches[clause.branch]
    positions = {branch.variables[component]: position for position, component in enumerate(clause.components)}
    stack: list[list[Tree]] = [[]]
    for token in re.findall(r"[()]|\w+", text):
        if token == "(":
            stack.append([])
        elif token == ")":
            inner = stack.pop()
            stack[-1].append(_left_deep(inner))
        else:
            stack[-1].append(positions[token])
    return _left_deep(stack[0])


def _left_deep(trees: Sequence[Tree]) -> Tree:
    tree = trees[0]
    for item in trees[1:]:
        tree = (tree, item)
    return tree


def _nodes(plan: SharedPlan) -> list[str]:
    users: dict[int, list[str]] = {}
    for label, root in zip(root_labels(plan), plan.roots, strict=True):
        for number in plan.below(root.node):
            users.setdefault(number, []).append(label)
    lines = []
    for node, item in zip(plan.nodes, described(plan), strict=True):
        if node.is_leaf:
            continue
        names = labels(plan.leaves, node.leaves)
        shown = [leaf_text(plan.leaves[leaf], name) for leaf, name in zip(node.leaves, names, strict=True)]
        pattern = order_text(shown, item.precedes) + "".join(
            f" where {condition_text(condition, names)}" for condition in node.conditions
        )
        window = "" if node.window is None else f" within {node.window}"
        lines.append(f"{pattern}: {' '.join(users[node.number])}{window}")
    return sorted(lines)
