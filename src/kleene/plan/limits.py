"""Bounds on what a query may keep and report, and what happens at them (skip_till_any_match with Kleene is exponential)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from kleene.common.errors import PlanningError, Problem, nearest

POLICIES = ("error", "keep_newest", "sample")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one query.

    >>> Limits().policy
    'error'
    """

    runs: int = 1_000_000
    """Live runs of one partition; those that are kept as a queue are one."""
    matches: int = 1_000_000
    """Matches that one event completes."""
    nodes: int = 50_000_000
    """Nodes of the match buffer, 28 bytes each (40 while they are read), after what has left the window is let go of; beyond it
    is an error.
    """
    policy: str = "error"
    """At a limit: `error`, which names the query, the partition and the count; `keep_newest`, which lets go of the runs that
    started earliest and reads the matches of the youngest runs first; `sample`, which keeps a random choice of runs and of
    matches. What was let go of is counted in the metrics.
    """
    seed: int = 0
    """Of the random choice."""


def limits_of(given: Limits | Mapping[str, Any] | None) -> Limits:
    """Limits from what a user wrote: nothing, or a mapping of some of them.

    >>> limits_of({"runs": 10}).runs
    10
    """
    if given is None:
        return Limits()
    if isinstance(given, Limits):
        return given
    known = {spec.name for spec in fields(Limits)}
    problems: list[Problem] = []
    for name, value in given.items():
        if name not in known:
            problems.append(Problem(f"unknown limit '{name}'", hint=nearest(str(name), sorted(known))))
        elif name == "policy" and value not in POLICIES:
            problems.append(Problem(f"the policy at a limit cannot be {value!r}", hint=f"choose one of {', '.join(POLICIES)}"))
        elif name != "policy" and (
            not isinstance(value, int) or isinstance(value, bool) or value < (0 if name == "seed" else 1)
        ):
            problems.append(Problem(f"the limit '{name}' is a positive number, not {value!r}"))
    if problems:
        raise PlanningError(problems)
    return Limits(**given)
