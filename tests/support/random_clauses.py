"""Random clauses for tests of the multi-pattern planner: workloads with much in common; of small ones, all plans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations, product
from random import Random

from kleene.pattern.predicates import Attribute, Comparison, Expression
from kleene.plan.multi.clauses import Clause, Condition, Leaf, ordered
from kleene.plan.multi.cost import ConditionKey, SharedStatistics, condition_key
from kleene.plan.multi.nodes import Nodes, Tree

Workload = tuple[tuple[Leaf, ...], tuple[Clause, ...], SharedStatistics]

X, Y = Attribute("$0", "x"), Attribute("$1", "x")
FORMS: tuple[Expression, ...] = (
    Comparison("<", X, Y),
    Comparison("=", X, Y),
    Comparison("<", X, Attribute("$1", "y")),
)
WIDE = Comparison("<", Attribute("$0", "x"), Comparison("=", Attribute("$1", "y"), Attribute("$2", "x")))
"""A form between three events (nothing evaluates it)."""


def random_workload(
    seed: int,
    *,
    count: int,
    sizes: Sequence[int],
    types: int,
    repeated: bool = False,
    wide: bool = False,
    windows: Sequence[int | None] = (10, 20),
) -> Workload:
    """Clauses over a few leaves; conditions belong to pairs of leaves, so that clauses agree on many."""
    random = Random(seed)
    leaves = tuple(Leaf(frozenset({f"T{number}"}), frozenset()) for number in range(types))
    usual = {pair: random.choice(FORMS) for pair in combinations(range(types), 2) if random.random() < 0.5}
    clauses = []
    for number in range(count):
        size = random.choice(sizes)
        chosen = random.choices(range(types), k=size) if repeated else random.sample(range(types), size)
        clauses.append(_clause(random, f"P{number}", tuple(chosen), usual, random.choice(windows), wide=wide))
    rates = tuple(random.uniform(2, 47) / 100 for _ in leaves)
    shares: dict[ConditionKey, float] = {}
    for clause in clauses:
        for condition in clause.conditions:
            shares.setdefault(condition_key(condition, clause.leaves), 10 ** random.uniform(-2.5, 0))
    return leaves, tuple(clauses), SharedStatistics(rates, shares, span=1000.0)


def _clause(
    random: Random,
    name: str,
    leaves: tuple[int, ...],
    usual: dict[tuple[int, int], Expression],
    window: int | None,
    *,
    wide: bool,
) -> Clause:
    size = len(leaves)
    ranks = {"seq": range(size), "and": [0] * size, "layers": sorted(random.choices(range(3), k=size))}
    rank = ranks[random.choice(("seq", "seq", "and", "layers"))]
    if random.random() < 0.5:  # the same leaves in the same order, more often than by chance
        leaves = tuple(sorted(leaves))
    conditions = []
    for i, j in combinations(range(size), 2):
        if leaves[i] > leaves[j]:
            i, j = j, i
        form = usual.get((leaves[i], leaves[j]))
        if form is not None and random.random() < 0.6:
            conditions.append(Condition(form, ordered(form, (i, j))))
    if wide and size > 2 and random.random() < 0.5:
        conditions.append(Condition(WIDE, tuple(random.sample(range(size), 3))))
    precedes = frozenset((i, j) for i in range(size) for j in range(size) if rank[i] < rank[j])
    return Clause(name, 0, tuple(range(size)), leaves, precedes, tuple(dict.fromkeys(conditions)), window)


@cache
def all_trees(positions: tuple[int, ...]) -> tuple[Tree, ...]:
    """Every tree of some positions."""
    if len(positions) == 1:
        return positions
    first, rest = positions[0], positions[1:]
    found: list[Tree] = []
    for size in range(len(rest)):
        for beside in combinations(rest, size):
            others = tuple(position for position in rest if position not in beside)
            found += product(all_trees((first, *beside)), all_trees(others))
    return tuple(found)


def all_orders(positions: tuple[int, ...]) -> Iterator[Tree]:
    """Every order, as a left-deep tree; the first two are a set."""
    if len(positions) == 1:
        yield positions[0]
    elif len(positions) == 2:
        yield positions[0], positions[1]
    else:
        for last in positions:
            for tree in all_orders(tuple(position for position in positions if position != last)):
                yield tree, last


def cheapest(workload: Workload, kind: str) -> float:
    """What the best of all plans costs."""
    leaves, clauses, statistics = workload
    nodes = Nodes(leaves, clauses, statistics)
    plans = []
    for number, clause in enumerate(clauses):
        positions = tuple(range(len(clause.leaves)))
        trees = all_orders(positions) if kind == "tree" else all_trees(positions)
        plans.append([(nodes.place(number, tree).inner, statistics.length(clause.window)) for tree in trees])
    least = float("inf")
    for chosen in product(*plans):
        lengths: dict[int, float] = {}
        for inner, length in chosen:
            lengths |= {node: max(length, lengths.get(node, 0.0)) for node in inner}
        least = min(least, sum(nodes.price(node, length) for node, length in lengths.items()))
    return least
