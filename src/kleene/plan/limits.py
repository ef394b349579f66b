"""Bounds on what a query may make, keep and report, and what happens at them: the number of matches of a pattern can be
exponential, and so can that of its partial matches.

Every mechanism keeps to them (`kleene.engine.allowance`); a query of ordinary size meets none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from kleene.common.errors import PlanningError, Problem, nearest
from kleene.common.memory import memory_of_process

POLICIES = ("error", "keep_newest", "sample")

EVENT_PARTIALS = 1_000_000
LEAST_PARTIALS, MOST_PARTIALS = 100_000_000, 20_000_000_000
"""Partial matches that a pass may create: per event, minimum, and maximum."""

PASS_MEMORY = 4 << 30
"""Bytes that a pass may take for partial matches and matches that wait, unless half of the process's memory is less."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one query.

    >>> Limits().policy
    'error'
    """

    runs: int = 1_000_000
    """Live runs of one partition, of automata; those that are kept as a queue are one."""
    matches: int = 1_000_000
    """Matches that one event completes."""
    total: int = 1_000_000_000
    """Matches that one run reports: embedded all of it, on Spark each task, of a stream each bucket and micro-batch."""
    partials: int | None = None
    """Partial matches that one pass over events makes, complete ones among them. None: a million for each of its events, at
    least 100 million and at most 20 billion.
    """
    nodes: int = 50_000_000
    """Nodes of the match buffer of automata, 28 bytes each (40 while they are read), without those outside the window.
    """
    memory: int | None = None
    """Bytes that the partial matches of a pass and the matches that wait in it may take; embedded also those of all matches
    together. None: for a pass 4 GiB or half of the memory that the process may use, if that is less; for matches that half.
    """
    condition: int = 500
    """Different operators and attributes of the conditions between events, which are compiled in every process."""
    policy: str = "error"
    """At the limits `runs` and `matches` of automata: `error`, which names the query, the partition and the count;
    `keep_newest`, which drops the runs that started earliest and reads the matches of the youngest runs first; `sample`,
    which keeps a random choice of runs and of matches. The metrics count what was dropped. Any other limit is an
    error, and so are all where matches are found without runs.
    """
    seed: int = 0
    """Of the random choice."""

    def pass_partials(self, events: int) -> int:
        """Partial matches that a pass over a number of events may create."""
        if self.partials is not None:
            return self.partials
        return max(LEAST_PARTIALS, min(EVENT_PARTIALS * events, MOST_PARTIALS))

    @property
    def pass_memory(self) -> int:
        """Bytes that the partial matches of a pass and the matches that wait in it may take."""
        return min(PASS_MEMORY, memory_of_process() // 2) if self.memory is None else self.memory

    @property
    def result_memory(self) -> int:
        """Bytes that the matches of an embedded run may take."""
        return memory_of_process() // 2 if self.memory is None else self.memory


DEFAULT_LIMITS = Limits()


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
        elif name != "policy" and not _is_positive(value, name):
            problems.append(Problem(f"the limit '{name}' is a positive number, not {value!r}"))
    if problems:
        raise PlanningError(problems)
    return Limits(**given)


def _is_positive(value: object, name: str) -> bool:
    if value is None and name in ("memory", "partials"):
        return True
    return isinstance(value, int) and not isinstance(value, bool) and value >= (0 if name == "seed" else 1)
