"""The choices a sequence plan leaves open: each switchable, none changing the result (SASE sections 3 and 4)."""

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


def sequence_options(choice: SequenceOptions | Mapping[str, Any] | str | None) -> SequenceOptions:
    """Options from what a user wrote: nothing, a preset's name, or a mapping of choices (with `preset` as a starting point).

    >>> sequence_options({"preset": "paper", "window_in_scan": False}).partition
    'pais'
    """
    if choice is None:
        return SequenceOptions()
    if isinstance(choice, SequenceOptions):
        return choice
    given: dict[str, Any] = {"preset": choice} if isinstance(choice, str) else dict(choice)
    problems: list[Problem] = []
    preset = given.pop("preset", "optimized")
    if preset not in PRESETS:
        problems.append(Problem(f"unknown plan '{preset}'", hint=nearest(str(preset), PRESETS)))
    for name, value in given.items():
        if name not in CHOICES:
            problems.append(Problem(f"unknown plan option '{name}'", hint=nearest(name, CHOICES)))
        elif value not in CHOICES[name]:
            allowed = ", ".join(repr(item) for item in CHOICES[name])
            problems.append(Problem(f"plan option '{name}' cannot be {value!r}", hint=f"choose one of {allowed}"))
    if problems:
        raise PlanningError(problems)
    return SequenceOptions(**{**PRESETS[preset], **given})
