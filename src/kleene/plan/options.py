"""The choices a plan leaves open: each switchable, none changing the result (SASE sections 3 and 4, SASE+ section 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from kleene.common.errors import PlanningError, Problem, nearest


@dataclass(frozen=True, slots=True)
class SequenceOptions:
    """Where a sequence plan does its work; the defaults are the best plan.

    >>> SequenceOptions().partition
    'composite'
    """

    construction: str = "active_instance_stacks"
    """`active_instance_stacks` (section 4.1) or `runtime_stack`, the basic algorithm (section 3.2)."""
    partition: str = "composite"
    """How equivalence tests partition the stacks: `none`, `pais` (the first test, section 4.2.1), `multi_pais` (all tests as
    transition filters, section 4.2.2), or `composite` (one partition per combination of values that occurs; beyond the
    paper).
    """
    equivalence: str = "construction"
    """Where tests that do not partition are decided: `construction` (dynamic filtering, section 4.2.2) or `selection`."""
    simple_predicates: str = "scan"
    """Where predicates on one event are decided: `scan` or `selection`."""
    predicates: str = "construction"
    """Where predicates between events are decided: `construction` (compiled block filters) or `selection`."""
    window_in_scan: bool = True
    window_in_construction: bool = True
    negation: str = "time_index"
    """`time_index` (the time-partitioned index of section 3.3) or `scan`."""


CHOICES: dict[str, tuple[Any, ...]] = {
    "construction": ("active_instance_stacks", "runtime_stack"),
    "partition": ("composite", "pais", "multi_pais", "none"),
    "equivalence": ("construction", "selection"),
    "simple_predicates": ("scan", "selection"),
    "predicates": ("construction", "selection"),
    "window_in_scan": (True, False),
    "window_in_construction": (True, False),
    "negation": ("time_index", "scan"),
}

assert list(CHOICES) == [spec.name for spec in fields(SequenceOptions)]

PRESETS: dict[str, dict[str, Any]] = {
    "optimized": {},
    "paper": {"partition": "pais"},
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


@dataclass(frozen=True, slots=True)
class NfaOptions:
    """How the runs of an automaton are evaluated; the default is the best.

    >>> NfaOptions().algorithm
    'merging'
    """

    algorithm: str = "merging"
    """`basic` (all runs at once, SASE+ section 5.2.1), `merging` (equivalent runs as one, 5.2.2) or `backtrack` (one run at a
    time, 5.2.3).
    """


NFA_CHOICES: dict[str, tuple[Any, ...]] = {"algorithm": ("merging", "basic", "backtrack")}

MECHANISMS = ("sequence", "nfa")

PlanOptions = SequenceOptions | NfaOptions


def plan_options(choice: PlanOptions | Mapping[str, Any] | str | None) -> PlanOptions | None:
    """Options from what a user wrote: nothing, a preset's name, or a mapping of choices.

    A mapping has the choices of one mechanism (or names it, as `mechanism`); `preset` is a starting point for sequence plans.

    >>> plan_options({"preset": "paper", "window_in_scan": False}).partition
    'pais'
    >>> plan_options({"algorithm": "basic"})
    NfaOptions(algorithm='basic')
    """
    if choice is None or isinstance(choice, SequenceOptions | NfaOptions):
        return choice
    given: dict[str, Any] = {"preset": choice} if isinstance(choice, str) else dict(choice)
    if given == {"preset": "optimized"} or not given:
        return None
    mechanism = given.pop("mechanism", "nfa" if given.keys() & NFA_CHOICES.keys() else "sequence")
    problems: list[Problem] = []
    if mechanism not in MECHANISMS:
        problems.append(Problem(f"unknown mechanism '{mechanism}'", hint=nearest(str(mechanism), MECHANISMS)))
    choices = NFA_CHOICES if mechanism == "nfa" else CHOICES
    preset = given.pop("preset", "optimized")
    if preset not in PRESETS or (mechanism == "nfa" and preset != "optimized"):
        problems.append(Problem(f"unknown plan '{preset}'", hint=nearest(str(preset), PRESETS)))
    for name, value in given.items():
        if name not in choices:
            other = CHOICES if mechanism == "nfa" else NFA_CHOICES
            hint = f"it belongs to another mechanism than '{mechanism}'" if name in other else nearest(name, choices)
            problems.append(Problem(f"unknown plan option '{name}'", hint=hint))
        elif value not in choices[name]:
            allowed = ", ".join(repr(item) for item in choices[name])
            problems.append(Problem(f"plan option '{name}' cannot be {value!r}", hint=f"choose one of {allowed}"))
    if problems:
        raise PlanningError(problems)
    if mechanism == "nfa":
        return NfaOptions(**given)
    return SequenceOptions(**{**PRESETS[preset], **given})
