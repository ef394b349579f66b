"""Plans of a workload as text: the passes over the data; the nodes of a shared plan with the queries that share them; and the
cost of the plan next to those of the baselines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kleene.common.terminal import plural
from kleene.explain.estimates import number_text, table, time_text
from kleene.pattern.predicates import Attribute, Expression, Name, transform
from kleene.pattern.text import expression_text, type_text
from kleene.plan.distribution.passes import Pass, Passes, contested
from kleene.plan.multi.clauses import Condition, Leaf
from kleene.plan.multi.cost import SharedStatistics
from kleene.plan.multi.nodes import UNSHARED, Root, SharedPlan, Tree
from kleene.plan.operators import renamed

MOST_NAMED = 6
"""Maximum number of queries named for a node that many share."""


@dataclass(frozen=True, slots=True)
class Described:
    """A node with all order and conditions decided at or below it."""

    leaves: tuple[int, ...]
    precedes: tuple[tuple[int, int], ...]
    conditions: tuple[Condition, ...]
    share: float
    """The share of tuples in scope that satisfy the conditions."""
    instances: float
    """Expected number of live partial matches, as the paper counts them: W^k r_1 ... r_k times the selectivities, regardless of
    the order of events (section 3.3, appendix C).
    """


def described(plan: SharedPlan, statistics: SharedStatistics | None = None) -> tuple[Described, ...]:
    """All nodes of a plan."""
    known = statistics or plan.statistics
    found: list[Described] = []
    for node in plan.nodes:
        precedes, conditions, share = node.precedes, node.conditions, 1.0
        if not node.is_leaf:
            left, right = found[node.left], found[node.right]
            middle = len(left.leaves)
            precedes = tuple(sorted((*left.precedes, *precedes, *((i + middle, j + middle) for i, j in right.precedes))))
            behind = [Condition(item.form, tuple(slot + middle for slot in item.components)) for item in right.conditions]
            conditions = (*left.conditions, *behind, *conditions)
            share = left.share * right.share
            for item in node.conditions:
                share *= known.selectivity(item, node.leaves)
        instances = share
        for leaf in node.leaves:
            instances *= known.length(node.window) * known.rates[leaf]
        found.append(Described(node.leaves, precedes, conditions, share, instances))
    return tuple(found)


def paper_cost(plan: SharedPlan, statistics: SharedStatistics | None = None) -> float:
    """The cost of a plan in the paper: expected instances, for trees of section 5 at all nodes (appendix C), for orders at all
    states (section 3.3). The first state of an order waits for the rarer of its first two events. Plans that share nothing have
    separate leaves.
    """
    known = statistics or plan.statistics
    inner = zip(described(plan, known), plan.nodes, strict=True)
    leaves: dict[tuple[int, int], float] = {}
    for number, root in enumerate(plan.roots):
        own = number if plan.search in UNSHARED else -1
        for leaf in _counted_leaves(plan, root, known):
            events = known.length(root.clause.window) * known.rates[leaf]
            leaves[leaf, own] = max(leaves.get((leaf, own), 0.0), events)
    return sum(leaves.values()) + sum(item.instances for item, node in inner if not node.is_leaf)


def _counted_leaves(plan: SharedPlan, root: Root, known: SharedStatistics) -> tuple[int, ...]:
    """The leaves that count as states: all leaves of a tree, the rarer of the first two of an order."""
    if plan.kind == "multitree":
        return root.clause.leaves
    size = min(2, len(root.slots))
    first = next(node for number in plan.below(root.node) if len((node := plan.nodes[number]).leaves) == size)
    return (min(first.leaves, key=lambda leaf: known.rates[leaf]),)


def explain_shared(plan: SharedPlan, unit: str = "unit of the clock", ticks: int = 1) -> str:
    """A shared plan as text; `unit` is the number of clock ticks that costs are given for."""
    queries = len({root.clause.query for root in plan.roots})
    head = f"{plural(queries, 'query', 'queries')} in one {plan.kind}, planned by {plan.search}"
    if plan.steps:
        head += f": {plural(plan.steps, 'step')} in {plan.seconds:.2g} s"
    return "\n".join([head, "", *_costs(plan, unit, ticks), "", *_nodes(plan), "", *_queries(plan)])


def explain_passes(passes: Passes, read: Sequence[str] = ()) -> str:
    """The passes of queries that read the same events, and composite events of some types, as text."""
    queries, count = len(passes.keys) + len(passes.alone), len(passes.passes) + len(passes.alone)
    over = " and ".join(["the events", *dict.fromkeys(read)])
    lines = [f"{plural(queries, 'query', 'queries')} in {plural(count, 'pass', 'passes')} over {over}", ""]
    rows = [[", ".join(item.keys) or "nothing", named(item.queries), _reason(item, passes)] for item in passes.passes]
    rows += [["", name, reason] for name, reason in passes.alone.items()]
    lines += table(["pass", "shuffled by", "queries", "why"], [[str(number), *row] for number, row in enumerate(rows, start=1)])
    return "\n".join([*lines, *_too_few(passes)])


def _reason(found: Pass, passes: Passes) -> str:
    if not found.keys:
        return f"no key divides the events: {'slices of time' if found.sliced else 'one task sees all'}"
    sets = dict.fromkeys(passes.keys[name] for name in found.queries)
    if len({frozenset(item) for item in sets}) == 1:
        return "all that divides its events" if len(found.queries) == 1 else "all that divides the events of each"
    return "what they have in common: " + ", ".join(f"({', '.join(item)})" for item in sets)


def _too_few(passes: Passes) -> list[str]:
    """The common keys of queries that have too few values to share a pass, a line each."""
    spread = passes.spread
    few = [name for name in contested(passes.keys) if not spread.suffices(frozenset([name]))]
    tasks = plural(spread.tasks, "task")
    return [f"{name}: {plural(spread.values[name], 'value')} seen, too few to divide the work of {tasks}" for name in few]


def _costs(plan: SharedPlan, unit: str, ticks: int) -> list[str]:
    written = plan.baselines["written"]
    rows = [[name, time_text(cost * ticks), _times(written, cost)] for name, cost in plan.baselines.items()]
    rows.append(["this plan", time_text(plan.cost * ticks), _times(written, plan.cost)])
    return table(["plan", f"time per {unit}", "against written"], rows)


def _times(written: float, cost: float) -> str:
    return f"{number_text(written / cost)} x" if cost else ""


def _nodes(plan: SharedPlan) -> list[str]:
    rows = []
    users = plan.users()
    for node, item in zip(plan.nodes, described(plan), strict=True):
        window = "" if node.window is None else f"{node.window:,}"
        names = labels(plan.leaves, item.leaves)
        rows.append(
            [
                f"#{node.number}",
                "" if node.is_leaf else f"#{node.left} #{node.right}",
                pattern_of(plan, item),
                " AND ".join(condition_text(condition, names) for condition in node.conditions),
                window,
                number_text(item.instances),
                str(len(users[node.number])),
                named(users[node.number]),
            ]
        )
    return table(["node", "of", "pattern", "decides", "window", "instances", "shared by", "queries"], rows)


def _queries(plan: SharedPlan) -> list[str]:
    rows = [[label, f"#{root.node}", tree_text(plan, root)] for label, root in zip(root_labels(plan), plan.roots, strict=True)]
    return table(["query", "node", "tree"], rows)


def root_labels(plan: SharedPlan) -> list[str]:
    """For each clause the name of its query, with the number of the alternative if the query has several."""
    counts = Counter(root.clause.query for root in plan.roots)
    return [
        root.clause.query if counts[root.clause.query] == 1 else f"{root.clause.query} ({root.clause.branch + 1})"
        for root in plan.roots
    ]


def named(queries: Sequence[str]) -> str:
    """Names in a line, at most `MOST_NAMED` of them.

    >>> named("abcdefgh")
    'a, b, c, d, e, f and 2 more'
    """
    more = len(queries) - MOST_NAMED
    return ", ".join(queries[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def tree_text(plan: SharedPlan, root: Root) -> str:
    """The tree of a clause, with the names of its leaves."""
    names = labels(plan.leaves, root.clause.leaves)

    def text(tree: Tree) -> str:
        return names[tree] if isinstance(tree, int) else f"({text(tree[0])} {text(tree[1])})"

    return text(plan.tree(root))


def leaf_name(leaf: Leaf) -> str:
    """The types of a leaf."""
    return "|".join(map(type_text, sorted(leaf.types)))


def leaf_text(leaf: Leaf, label: str) -> str:
    """A leaf with its predicates."""

    def bare(node: Expression) -> Expression:
        return Name(node.name) if isinstance(node, Attribute) else node

    texts = sorted(expression_text(transform(item, bare)) for item in leaf.predicates)
    return f"{label}[{' AND '.join(texts)}]" if texts else label


def labels(leaves: Sequence[Leaf], chosen: Sequence[int]) -> list[str]:
    """Names for some leaves: their types, numbered if a name occurs twice."""
    names = [leaf_name(leaves[leaf]) for leaf in chosen]
    found: list[str] = []
    for place, name in enumerate(names):
        found.append(f"{name}{names[: place + 1].count(name)}" if names.count(name) > 1 else name)
    return found


def condition_text(condition: Condition, names: Sequence[str]) -> str:
    """A condition between components of these names."""
    return expression_text(renamed(condition.form, {f"${i}": names[item] for i, item in enumerate(condition.components)}))


def pattern_of(plan: SharedPlan, node: Described) -> str:
    """The pattern of a node, without its conditions."""
    names = labels(plan.leaves, node.leaves)
    shown = [leaf_text(plan.leaves[leaf], name) for leaf, name in zip(node.leaves, names, strict=True)]
    return order_text(shown, node.precedes)


def order_text(names: Sequence[str], precedes: Iterable[tuple[int, int]]) -> str:
    """Components with an order among them, as SEQ and AND.

    >>> order_text(["A", "B", "C"], [(0, 2), (1, 2)])
    'SEQ(AND(A, B), C)'
    """
    before = set(precedes)
    comparable = before | {(j, i) for i, j in before}

    def text(slots: list[int]) -> str:
        if len(slots) == 1:
            return names[slots[0]]
        side_by_side = _parts(slots, lambda i, j: (i, j) in comparable)
        if len(side_by_side) > 1:
            return f"AND({', '.join(sorted(map(text, side_by_side)))})"
        one_by_one = _parts(slots, lambda i, j: (i, j) not in comparable)
        assert len(one_by_one) > 1, "SEQ and AND make no other orders"
        one_by_one.sort(key=lambda part: sum((i, part[0]) in before for i in slots if i not in part))
        return f"SEQ({', '.join(map(text, one_by_one))})"

    return text(list(range(len(names))))


def _parts(slots: list[int], connected: Callable[[int, int], bool]) -> list[list[int]]:
    """The slots in connected groups."""
    parts: list[list[int]] = []
    for slot in slots:
        joined = [part for part in parts if any(connected(slot, other) for other in part)]
        parts = [part for part in parts if part not in joined]
        parts.append(sorted([slot, *(other for part in joined for other in part)]))
    return parts
