"""The choices a plan leaves open: each switchable, none changing the result (SASE sections 3 and 4, SASE+ section 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args, get_type_hints

from kleene.common.errors import PlanningError, Problem, nearest


@dataclass(frozen=True, slots=True)
class SequenceOptions:
    """Where a sequence plan does its work; the defaults are the best plan.

    >>> SequenceOptions().partition
    'composite'
    """

    construction: Literal["active_instance_stacks", "runtime_stack"] = "active_instance_stacks"
    """`active_instance_stacks` (section 4.1) or `runtime_stack`, the basic algorithm (section 3.2)."""
    partition: Literal["composite", "pais", "multi_pais", "none"] = "composite"
    """How equivalence tests partition the stacks: `none`, `pais` (the first test, section 4.2.1), `multi_pais` (all tests as
    transition filters, section 4.2.2), or `composite` (one partition per combination of values that occurs; beyond the
    paper).
    """
    equivalence: Literal["construction", "selection"] = "construction"
    """Where tests that do not partition are decided: `construction` (dynamic filtering, section 4.2.2) or `selection`."""
    simple_predicates: Literal["scan", "selection"] = "scan"
    """Where predicates on one event are decided: `scan` or `selection`."""
    predicates: Literal["construction", "selection"] = "construction"
    """Where predicates between events are decided: `construction` (compiled block filters) or `selection`."""
    window_in_scan: bool = True
    window_in_construction: bool = True
    negation: Literal["key_index", "time_index", "scan"] = "key_index"
    """`key_index` (by key, then in stream order; beyond the paper), `time_index` (the time-partitioned index of section 3.3) or
    `scan`.
    """

    evaluation: ClassVar[str] = "stacks"


@dataclass(frozen=True, slots=True)
class NfaOptions:
    """How the runs of an automaton are evaluated; the default is the best.

    >>> NfaOptions().algorithm
    'merging'
    """

    algorithm: Literal["merging", "basic", "backtrack"] = "merging"
    """`basic` (all runs at once, SASE+ section 5.2.1), `merging` (equivalent runs as one, 5.2.2) or `backtrack` (one run at a
    time, 5.2.3).
    """

    evaluation: ClassVar[str] = "automaton"


@dataclass(frozen=True, slots=True)
class LazyOptions:
    """How a plan under skip_till_any_match binds events; the default is to choose by cost, and again when the events change.

    >>> LazyOptions().evaluation
    'auto'
    """

    evaluation: Literal["auto", "eager", "chain", "tree"] = "auto"
    """`auto`; `eager` (components as written, lazy paper section 3), `chain` (a given order, section 5) or `tree` (the order is
    found for every partial match, section 6).
    """
    order: tuple[str, ...] | None = None
    """The variables in the order in which a chain binds them; None to let `planner` find it."""
    planner: Literal["dynamic", "greedy", "rate", "written", "iterative"] = "dynamic"
    """How an order is found: `written`, `rate` (rare events first), `greedy`, `dynamic` (the cheapest, by dynamic programming)
    or `iterative` (improvement from random orders).
    """
    selectivity: Literal["cost", "counts"] = "cost"
    """What a tree takes next: the component with the fewest candidates (`counts`, as the paper has it), or with the fewest that
    are expected to satisfy its conditions (`cost`).
    """
    adaptive: bool = True
    """Whether queries are re-planned when rates or selectivities have changed."""


@dataclass(frozen=True, slots=True)
class AggregateOptions:
    """How AGG is answered; the default is by counters wherever no match has to be built.

    >>> AggregateOptions().window
    'auto'
    """

    mechanism: Literal["auto", "counters", "matches"] = "auto"
    """`auto`; `counters` (A-Seq section 3) or `matches` (build every match, then aggregate)."""
    window: Literal["auto", "marking", "stacks"] = "auto"
    """How counters handle expiry: `marking` (a set of counters for each live start event, A-Seq section 3.2)
    or `stacks` (counts of segments on two stacks: the cost of an event does not grow with the number of live start events).
    """
    sharing: Literal["auto", "none", "prefix", "chop"] = "auto"
    """What the queries of a workload have in common that is counted once: `none`, `prefix` (A-Seq section 4.1), `chop` (common
    segments anywhere, section 4.2) or what costs least.
    """


PlanOptions = SequenceOptions | NfaOptions | LazyOptions | AggregateOptions

MECHANISMS: dict[str, PlanOptions] = {
    "nfa": NfaOptions(),
    "aggregate": AggregateOptions(),
    "counters": AggregateOptions("counters"),
    "matches": AggregateOptions("matches"),
    "lazy": LazyOptions(),
    "eager": LazyOptions("eager"),
    "chain": LazyOptions("chain"),
    "tree": LazyOptions("tree"),
    "sequence": SequenceOptions(),
}
"""What each mechanism has as options; `aggregate` and `lazy` leave open which of those below them it is."""

_NAMED = ("mechanism", "evaluation")
"""Fields that the name of a mechanism sets."""

CHOICES: dict[str, dict[str, tuple[Any, ...]]] = {
    mechanism: {
        name: (True, False) if kind is bool else get_args(kind)
        for name, kind in get_type_hints(type(options)).items()
        if name not in _NAMED
    }
    for mechanism, options in MECHANISMS.items()
}
"""What a plan may say of each mechanism, and the values, the default first (of `order` no list of them)."""

PRESETS: dict[str, dict[str, Any]] = {
    "optimized": {},
    "paper": {"partition": "pais", "negation": "time_index"},
    "basic": {
        "construction": "runtime_stack",
        "partition": "none",
        "equivalence": "selection",
        "simple_predicates": "selection",
        "predicates": "selection",
        "window_in_scan": False,
        "window_in_construction": False,
        "negation": "scan",
    },
}
"""Named plans: `optimized` is the default, `paper` the plan of section 4.4, `basic` that of section 3.1."""


def plan_options(choice: PlanOptions | Mapping[str, Any] | str | None) -> PlanOptions | None:
    """Options from what a user wrote: nothing, a preset's name, or a mapping of choices.

    A mapping has the choices of one mechanism (or names it, as `mechanism`); `preset` is a starting point for sequence plans.

    >>> plan_options({"preset": "paper", "window_in_scan": False}).partition
    'pais'
    >>> plan_options({"algorithm": "basic"})
    NfaOptions(algorithm='basic')
    >>> plan_options({"mechanism": "chain", "order": ["c", "a", "b"]}).order
    ('c', 'a', 'b')
    """
    if choice is None or isinstance(choice, PlanOptions):
        return choice
    given: dict[str, Any] = {"preset": choice} if isinstance(choice, str) else dict(choice)
    given.pop("disable", None)
    if given == {"preset": "optimized"} or not given:
        return None
    mechanism = str(given.pop("mechanism", _mechanism_of(given)))
    problems: list[Problem] = []
    if mechanism not in MECHANISMS:
        problems.append(Problem(f"unknown mechanism '{mechanism}'", hint=nearest(mechanism, MECHANISMS)))
    options, choices = MECHANISMS.get(mechanism, SequenceOptions()), CHOICES.get(mechanism, CHOICES["sequence"])
    preset = given.pop("preset", "optimized")
    if preset not in PRESETS or (preset != "optimized" and not isinstance(options, SequenceOptions)):
        problems.append(Problem(f"unknown plan '{preset}'", hint=nearest(str(preset), PRESETS)))
    for name, value in given.items():
        if name not in choices:
            known = any(name in other for other in CHOICES.values())
            hint = f"it belongs to another mechanism than '{mechanism}'" if known else nearest(name, choices)
            problems.append(Problem(f"unknown plan option '{name}'", hint=hint))
        elif name == "order":
            problems.extend(_order_problems(value, mechanism))
        elif value not in choices[name]:
            allowed = ", ".join(repr(item) for item in choices[name])
            problems.append(Problem(f"plan option '{name}' cannot be {value!r}", hint=f"choose one of {allowed}"))
    if problems:
        raise PlanningError(problems)
    if given.get("order") is not None:
        given |= {"order": tuple(given["order"]), "evaluation": "chain"}
    return replace(options, **{**PRESETS[preset], **given})


def disabled_stages(choice: PlanOptions | Mapping[str, Any] | str | None) -> tuple[str, ...]:
    """The stages of the optimizer that a user switches off, as a list or joined by plus signs.

    >>> disabled_stages({"mechanism": "chain", "disable": ["imply_comparisons"]})
    ('imply_comparisons',)
    """
    names = choice.get("disable", ()) if isinstance(choice, Mapping) else ()
    if isinstance(names, str):
        return tuple(names.split("+"))
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        hint = "name stages of the optimizer: disable=['imply_comparisons']"
        raise PlanningError(Problem(f"plan option 'disable' cannot be {names!r}", hint=hint))
    return tuple(names)


def _mechanism_of(given: Mapping[str, Any]) -> str:
    """The mechanism that the choices belong to."""
    return next((mechanism for mechanism, choices in CHOICES.items() if given.keys() & choices.keys()), "sequence")


def _order_problems(value: Any, mechanism: str) -> list[Problem]:
    hint = "name the pattern's variables: order=['c', 'a', 'b']"
    if mechanism in ("eager", "tree"):
        return [Problem(f"plan option 'order' does not go with '{mechanism}'", hint="choose the mechanism 'chain'")]
    if value is None or (isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)):
        return []
    return [Problem(f"plan option 'order' cannot be {value!r}", hint=hint)]
