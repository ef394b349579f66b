"""One plan for many clauses: sharing and reordering chosen together by local search (section 4, appendices B and C).

The search goes from solution to solution (`kleene.plan.multi.moves`), in each component of the multi-pattern graph by itself.
Simulated annealing takes a random neighbour if it is cheaper, and a dearer one with a probability that falls with the
difference and with time. Tabu search looks at a hundred neighbours and takes the cheapest that it has not been at yet. Either
starts from the cheapest plan that needs no search. In the best solution it has found, each clause in turn is given its best
tree for what the others have, until none changes.

Invariant: the plan is never dearer than any plan that needs no search, whenever the search is stopped. It depends on the seed
and, if time is what stops the search, on the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from random import Random
from time import perf_counter
from typing import Any

from kleene.common.errors import PlanningError, Problem, nearest
from kleene.plan.multi.clauses import Clause, Leaf
from kleene.plan.multi.cost import SharedStatistics
from kleene.plan.multi.graph import PatternGraph
from kleene.plan.multi.local import LocalPlanner, Part, left_deep, moved, written_order
from kleene.plan.multi.moves import LESS, Neighbourhood, Solution, improved
from kleene.plan.multi.nodes import Nodes, Placed, SharedPlan, Tree, cost_of, nodes_and_roots

ALPHA = 0.99
"""By this factor annealing becomes more careful, step by step."""
SAMPLED = 1_000
"""Neighbours whose differences in cost say how careless annealing begins."""
TABU = 10_000
"""Solutions that Tabu search remembers having been at."""
LOOKED_AT = 100
"""Neighbours that Tabu search looks at in each step."""
PATIENCE = 3_000
"""Tabu search ends after this many neighbours, and PATIENCE_EACH for each clause, without a better solution."""
PATIENCE_EACH = 50
COLDEST = 1e-4
"""A round of annealing ends when it is this much more careful than at its beginning."""
FINEST_SHARE = 1 / 16
"""How carefully a round of annealing begins, at most."""
IDLE_ROUNDS = 3
"""Annealing ends after N rounds without a better solution."""
ORDERS = 0.25
"""The share of a search for trees that goes into orders first."""
EVERY = 0.1
"""Seconds between two reports of progress."""

SEARCHES = ("annealing", "tabu")
"""Plans that are searched for; the others follow from the statistics at once."""

CHOICES: dict[str, tuple[Any, ...]] = {
    "kind": ("multitree", "tree"),
    "search": (*SEARCHES, "none", "sharing", "reordering", "written"),
    "neighbourhood": ("edge", "vertex"),
    "adaptive": (True, False),
}


@dataclass(frozen=True, slots=True)
class MultiOptions:
    """How a workload is planned.

    >>> MultiOptions().search
    'annealing'
    """

    kind: str = "multitree"
    """`multitree` (any sub-pattern can be shared, section 5) or `tree` (prefixes of orders, section 3)."""
    search: str = "annealing"
    """`annealing` or `tabu`; without a search: `none` (each clause's best plan; what is equal is shared), `sharing` (as much as
    possible is shared, the rest as written), `reordering` (each clause's best plan, nothing shared) or `written` (neither).
    """
    neighbourhood: str = "edge"
    """A step changes two clauses (`edge`) or up to `k` (`vertex`)."""
    k: int = 4
    seconds: float = 10.0
    """How long to search at most."""
    steps: int | None = None
    """How many neighbours to look at, at most."""
    seed: int = 0
    adaptive: bool = True
    """Whether the planner re-plans when rates have changed."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search has come."""

    steps: int
    cost: float
    """Of the best plan so far, for all components."""
    seconds: float
    component: int
    """The component that is searched, from 1 on."""
    components: int


def multi_options(given: Mapping[str, Any]) -> MultiOptions:
    """Options from what a user wrote; all problems are reported together.

    >>> multi_options({"search": "tabu", "seconds": 2}).seconds
    2
    """
    problems: list[Problem] = []
    names = [spec.name for spec in fields(MultiOptions)]
    least = {"k": 2, "seconds": 0, "steps": 0, "seed": 0}
    for name, value in given.items():
        if name not in names:
            problems.append(Problem(f"unknown plan option '{name}'", hint=nearest(name, names)))
        elif name in CHOICES:
            if value not in CHOICES[name]:
                allowed = ", ".join(map(repr, CHOICES[name]))
                problems.append(Problem(f"plan option '{name}' cannot be {value!r}", hint=f"choose one of {allowed}"))
        elif not (value is None and name == "steps") and not _is_number(value, name == "seconds", least[name]):
            kind = "a number" if name == "seconds" else "a whole number"
            problems.append(Problem(f"plan option '{name}' must be {kind}, {least[name]} or more, not {value!r}"))
    if problems:
        raise PlanningError(problems)
    return MultiOptions(**given)


def _is_number(value: Any, fraction: bool, least: int) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float) if fraction else int):
        return False
    return math.isfinite(value) and value >= least


def plan_shared(
    leaves: Sequence[Leaf],
    clauses: Sequence[Clause],
    statistics: SharedStatistics,
    options: MultiOptions,
    progress: Callable[[Progress], None] | None = None,
    start: SharedPlan | None = None,
    *,
    baselines: bool = True,
) -> SharedPlan:
    """The plan of some clauses; a search also considers `start`, a plan of these clauses or of some of them. Unless what the
    `baselines` cost is asked for, a plan that needs no search comes without.

    Orders are few beside trees: a search for trees begins with one for orders, unless there is something to start with.
    """
    first: SharedPlan | None = None
    if start is None and options.kind == "multitree" and options.search in SEARCHES:
        steps = None if options.steps is None else math.ceil(ORDERS * options.steps)
        orders = replace(options, kind="tree", seconds=ORDERS * options.seconds, steps=steps)
        first = start = plan_shared(leaves, clauses, statistics, orders, progress)
        steps = None if options.steps is None else options.steps - first.steps
        options = replace(options, seconds=max(0.0, options.seconds - first.seconds), steps=steps)
        progress = None if progress is None else _after(first, progress)
    planning = _Planning(tuple(leaves), tuple(clauses), statistics, options)
    trees, is_shared = planning.without_search()
    if options.search not in trees:
        trees["search"], is_shared["search"] = planning.searched(trees, progress, start), True
    elif not baselines:
        trees = {options.search: trees[options.search]}
    plan = planning.plan(trees, is_shared)
    return plan if first is None else replace(plan, steps=plan.steps + first.steps, seconds=plan.seconds + first.seconds)


def recosted(plan: SharedPlan, statistics: SharedStatistics) -> SharedPlan:
    """A plan as it is, with what it costs by other statistics."""
    return replace(plan, cost=cost_of(plan.nodes, plan.roots, statistics), statistics=statistics)


def _after(first: SharedPlan, progress: Callable[[Progress], None]) -> Callable[[Progress], None]:
    """Tells of a search that continues after another."""
    return lambda told: progress(replace(told, steps=told.steps + first.steps, seconds=told.seconds + first.seconds))


@lru_cache(maxsize=4)
def _graph_of(clauses: tuple[Clause, ...]) -> PatternGraph:
    """What clauses have in common, whatever the statistics: who adapts a plan asks for it again and again."""
    return PatternGraph(clauses)


class _Planning:
    """What planning a workload needs."""

    def __init__(
        self, leaves: tuple[Leaf, ...], clauses: tuple[Clause, ...], statistics: SharedStatistics, options: MultiOptions
    ) -> None:
        self._began = perf_counter()
        self._leaves = leaves
        self._clauses = clauses
        self._statistics = statistics
        self.options = options
        self.nodes = Nodes(leaves, clauses, statistics)
        self.planner = LocalPlanner(self.nodes.estimates, options.kind)
        self.graph = _graph_of(clauses)
        self._steps = 0

    def without_search(self) -> tuple[dict[str, list[Tree]], dict[str, bool]]:
        """The plans that need no search: a tree for each clause, and whether equal sub-trees are shared."""
        written = [written_order(range(len(clause.leaves))) for clause in self._clauses]
        best = [self.planner.best(number) for number in range(len(self._clauses))]
        shared = written if self.options.kind == "tree" else maximal_sharing(self.graph, self._clauses)
        trees = {"written": written, "sharing": shared, "reordering": best, "none": best}
        return trees, {"written": False, "sharing": True, "reordering": False, "none": True}

    def plan(self, trees: Mapping[str, Sequence[Tree]], is_shared: Mapping[str, bool]) -> SharedPlan:
        """The plan asked for; a search is not answered by a dearer plan than those that need none."""
        made = {
            name: nodes_and_roots(
                self._leaves, self._clauses, self._statistics, item, shared=is_shared[name], estimates=self.nodes.estimates
            )
            for name, item in trees.items()
        }
        costs = {name: cost for name, (_, _, cost) in made.items()}
        asked = self.options.search
        chosen = asked if asked in made else min(("search", *costs), key=lambda name: costs[name])
        nodes, roots, cost = made[chosen]
        return SharedPlan(
            self._leaves,
            nodes,
            roots,
            cost,
            self.options.kind,
            asked,
            {name: cost for name, cost in costs.items() if name != "search"},
            self._statistics,
            self._steps,
            perf_counter() - self._began,
        )

    def searched(
        self, trees: Mapping[str, Sequence[Tree]], progress: Callable[[Progress], None] | None, start: SharedPlan | None
    ) -> list[Tree]:
        """A tree for each clause, found component by component."""
        starts = [trees["none"], trees["sharing"], trees["written"]]
        if start is not None:
            starts.append(self._trees_of(start, trees["none"]))
        groups = self.graph.components()
        firsts = [self._cheapest(group, starts) for group in groups]
        clock = _Clock(self.options, self._began, progress, sum(item.cost for item in firsts), len(groups))
        found = list(trees["none"])
        ahead = sum(len(group) for group in groups if len(group) > 1)
        for number, (group, first) in enumerate(zip(groups, firsts, strict=True), 1):
            if len(group) > 1:
                clock.enter(number, len(group) / ahead)
                ahead -= len(group)
                _Walk(self, group, first, clock).go()
            for clause in group:
                found[clause] = first.placed[clause].tree
        self._steps = clock.steps
        return found

    def _cheapest(self, group: Sequence[int], starts: Sequence[Sequence[Tree]]) -> Solution:
        solutions = [Solution(self.nodes, {item: self.nodes.place(item, trees[item]) for item in group}) for trees in starts]
        return min(solutions, key=lambda solution: solution.cost)

    def _trees_of(self, plan: SharedPlan, others: Sequence[Tree]) -> list[Tree]:
        """The trees of another plan, of clauses that it has."""
        known = {(root.clause.query, root.clause.branch): root for root in plan.roots}
        found = list(others)
        for number, clause in enumerate(self._clauses):
            root = known.get((clause.query, clause.branch))
            if root is not None and len(root.slots) == len(clause.leaves):
                tree = plan.tree(root)
                if self.options.kind == "multitree" or _is_left_deep(tree):
                    found[number] = tree
        return found


def _is_left_deep(tree: Tree) -> bool:
    while not isinstance(tree, int):
        if not isinstance(tree[1], int):
            return False
        tree = tree[0]
    return True


def maximal_sharing(graph: PatternGraph, clauses: Sequence[Clause]) -> list[Tree]:
    """Trees that share the largest common sub-patterns, whatever that costs; the rest is joined as written."""
    parts: list[list[Part]] = [[] for _ in clauses]
    taken = [0] * len(clauses)
    for subpattern in sorted(graph.subpatterns, key=lambda item: (-len(item.leaves), -len(graph.subpatterns[item]))):
        free = {}
        for number in graph.subpatterns[subpattern]:
            for slots, mask in graph.of(number)[subpattern].items():
                if not mask & taken[number]:
                    free[number] = slots, mask
                    break
        if len(free) < 2:
            continue
        first, _ = next(iter(free.values()))
        tree = written_order(sorted(first))
        for number, (slots, mask) in free.items():
            parts[number].append((mask, moved(tree, dict(zip(first, slots, strict=True)))))
            taken[number] |= mask
    for number, clause in enumerate(clauses):
        parts[number] += [(1 << place, place) for place in range(len(clause.leaves)) if not taken[number] >> place & 1]
    return [left_deep(sorted(item, key=lambda part: part[0] & -part[0])) for item in parts]


class _Clock:
    """How long a search may take, and the callback for its progress."""

    def __init__(
        self,
        options: MultiOptions,
        began: float,
        progress: Callable[[Progress], None] | None,
        cost: float,
        components: int,
    ) -> None:
        self.steps = 0
        self._began = began
        self._end = began + options.seconds
        self._most = math.inf if options.steps is None else options.steps
        self._progress = progress
        self._told = began
        self._cost = cost
        self._component, self._components = 0, components
        self._deadline, self._limit = self._end, self._most

    def enter(self, component: int, share: float) -> None:
        """Begins with a component, which may use a share of the time and of the steps that are left."""
        now = perf_counter()
        self._component = component
        self._deadline = now + share * (self._end - now)
        self._limit = self.steps + share * (self._most - self.steps)

    def step(self) -> bool:
        """Counts a neighbour; whether there is time for it."""
        if self.steps >= self._limit or not self.has_time():
            return False
        self.steps += 1
        return True

    def has_time(self) -> bool:
        """Whether there is time left; reports the progress from time to time."""
        now = perf_counter()
        if self._progress is not None and now - self._told >= EVERY:
            self._told = now
            self._progress(Progress(self.steps, self._cost, now - self._began, self._component, self._components))
        return now < self._deadline

    @property
    def sampled(self) -> int:
        """How many neighbours may be looked at before a search."""
        return int(min(SAMPLED, (self._limit - self.steps) / 10))

    def saved(self, cost: float) -> None:
        """The best plan has become cheaper."""
        self._cost -= cost


class _Walk:
    """A search in one component; leaves the best solution that it finds in the place of the first."""

    def __init__(self, planning: _Planning, clauses: Sequence[int], solution: Solution, clock: _Clock) -> None:
        options = planning.options
        self._random = Random(options.seed)  # noqa: S311 - reproducible, not secret
        self._planning = planning
        self._clauses = clauses
        self._solution = solution
        self._clock = clock
        self._neighbourhood = Neighbourhood(
            planning.graph,
            planning.nodes,
            planning.planner,
            clauses,
            kind=options.kind,
            most=2 if options.neighbourhood == "edge" else options.k,
            random=self._random,
        )
        self._best: dict[int, Placed] = dict(solution.placed)
        self._least = solution.cost

    def go(self) -> None:
        self._improve()
        if self._planning.options.search == "tabu":
            self._tabu()
        else:
            self._annealing()
        self._back_to_best()
        self._improve()

    def _annealing(self) -> None:
        """Simulated annealing as the paper has it, and again from the best solution, more carefully and more slowly."""
        share, slowness, idle = 1.0, 1, 0
        while idle < IDLE_ROUNDS:
            least = self._least
            if not self._cool(self._threshold(share), slowness):
                return
            self._improve()
            self._back_to_best()
            idle = 0 if self._least < least else idle + 1
            share, slowness = max(share / 4, FINEST_SHARE), 1 + len(self._clauses) // 10

    def _cool(self, threshold: float, slowness: int) -> bool:
        """One round of annealing, some steps at each threshold; whether there was time for it."""
        solution, coldest = self._solution, threshold * COLDEST
        while threshold > coldest:
            for _ in range(slowness):
                if not self._clock.step():
                    return False
                cost = solution.cost
                before = solution.change(self._neighbourhood.neighbour(solution))
                dearer = solution.cost - cost
                if dearer > 0 and self._random.random() >= math.exp(-dearer / threshold):
                    solution.change(before)
                else:
                    self._note()
            threshold *= ALPHA
        return True

    def _threshold(self, share: float) -> float:
        """How much dearer that share of the dearer neighbours of the solution is at most: all of them, the first time."""
        solution, differences = self._solution, [0.0]
        for _ in range(self._clock.sampled):
            if not self._clock.step():
                break
            cost = solution.cost
            before = solution.change(self._neighbourhood.neighbour(solution))
            if solution.cost > cost:
                differences.append(solution.cost - cost)
            self._note()
            solution.change(before)
        return sorted(differences)[math.ceil(share * len(differences)) - 1]

    def _tabu(self) -> None:
        solution, visited = self._solution, {self._solution.signature: None}
        idle, patience = 0, PATIENCE + PATIENCE_EACH * len(self._clauses)
        while idle < patience:
            least = self._least
            found: tuple[float, dict[int, Placed]] | None = None
            for _ in range(LOOKED_AT):
                if not self._clock.step():
                    return
                changes = self._neighbourhood.neighbour(solution)
                before = solution.change(changes)
                if solution.signature not in visited and (found is None or solution.cost < found[0]):
                    found = solution.cost, changes
                solution.change(before)
            if found is not None:
                solution.change(found[1])
                visited[solution.signature] = None
                if len(visited) > TABU:
                    del visited[next(iter(visited))]
                self._note()
            idle = 0 if self._least < least else idle + LOOKED_AT

    def _improve(self) -> None:
        """Lets the clauses answer each other until none has a better answer."""
        planning, has_time = self._planning, self._clock.has_time
        while improved(self._solution, planning.nodes, planning.planner, self._clauses, has_time):
            self._note()

    def _note(self) -> None:
        """Remembers the solution if it is the best so far."""
        if self._solution.cost < self._least * LESS and self._solution.settle() < self._least * LESS:
            self._clock.saved(self._least - self._solution.cost)
            self._least = self._solution.cost
            self._best = dict(self._solution.placed)

    def _back_to_best(self) -> None:
        self._solution.change(self._best)
        self._solution.settle()
