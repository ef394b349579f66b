"""What one query of a stream may use in one bucket and micro-batch, and what it did use.

Time is the CPU time of the thread, so that a busy machine suspends nobody, without that of compiling kernels, which the first
query that needs them does for all. It is looked at whenever a matcher hands rows over: a pass that has begun is not
interrupted. Matches are counted as they come: at most one block of them is held beyond the budget.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa

from kleene.common.errors import LimitError, PlanningError, Problem, nearest
from kleene.engine.kernels import compiling_seconds
from kleene.engine.matcher import Found
from kleene.runtime.units import PlannedQuery, Unit

MEGABYTE = 1_000_000
_EXAMPLE = 'write {"seconds": 60, "matches": 1_000_000, "megabytes": 1_000}'


@dataclass(frozen=True, slots=True)
class Budget:
    """Of one query, in one bucket and micro-batch.

    >>> Budget().matches
    1000000
    """

    seconds: float = 60.0
    """Of CPU time."""
    matches: int = 1_000_000
    megabytes: float = 1_000
    """Of matches: they are held until the query has come to the end of the micro-batch."""


def budget_of(given: Budget | Mapping[str, Any] | None) -> Budget:
    """A budget from what a user wrote: nothing, or a mapping of some of its parts.

    >>> budget_of({"seconds": 5}).seconds
    5
    >>> budget_of({"second": 5})
    Traceback (most recent call last):
    ...
    kleene.common.errors.PlanningError: a budget has no 'second'
      hint: did you mean 'seconds'?
    """
    if given is None:
        return Budget()
    if isinstance(given, Budget):
        return given
    if not isinstance(given, Mapping):
        raise PlanningError(Problem(f"a budget cannot be {given!r}", hint=_EXAMPLE))
    known = [item.name for item in fields(Budget)]
    problems: list[Problem] = []
    for name, value in given.items():
        if name not in known:
            problems.append(Problem(f"a budget has no '{name}'", hint=nearest(str(name), known)))
        elif isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            problems.append(Problem(f"the budget's {name} are a positive number, not {value!r}"))
    if problems:
        raise PlanningError(problems)
    return Budget(**given)


class OverBudgetError(LimitError):
    """A query has used more than its budget; no event is to blame."""


@dataclass(slots=True)
class Spent:
    """What a unit has used in a micro-batch so far.

    Queries that are matched together have the time of one: who hides among others is found when each is matched alone.
    """

    budget: Budget | None
    unit: Unit
    seconds: float = 0.0
    matches: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)

    def rows(self, found: Iterator[Found]) -> Iterator[tuple[PlannedQuery, pa.RecordBatch]]:
        """What a matcher gives, counted: OverBudgetError where it is more than the budget."""
        while (given := self._next(found)) is not None:
            query, rows = self.unit.queries[given[0]], given[1]
            self.matches[query.name] += rows.num_rows
            self.bytes[query.name] += rows.nbytes
            self._require()
            if rows.num_rows:
                yield query, rows

    def _next(self, found: Iterator[Found]) -> Found | None:
        began = time.thread_time() - compiling_seconds()
        given = next(found, None)
        self.seconds += time.thread_time() - compiling_seconds() - began
        self._require()
        return given

    @property
    def share(self) -> float:
        """The part of the budget that is used, of what is used most."""
        if self.budget is None:
            return 0.0
        matches, size = (max(used.values(), default=0) for used in (self.matches, self.bytes))
        budget = self.budget
        return max(self.seconds / budget.seconds, matches / budget.matches, size / MEGABYTE / budget.megabytes)

    @property
    def busiest(self) -> str:
        """The query with most matches, or any."""
        return max(self.unit.queries, key=lambda item: self.matches[item.name]).name

    def _require(self) -> None:
        if self.budget is None:
            return
        if self.seconds > self.budget.seconds:
            raise _over(f"more than {self.budget.seconds:g} seconds of CPU time", "seconds")
        name, size = max(self.bytes.items(), key=lambda item: item[1], default=("", 0))
        if size > MEGABYTE * self.budget.megabytes:
            what = f"matches of '{name}' of more than {self.budget.megabytes:g} MB"
            raise _over(what, "megabytes", "shorten the window, narrow the conditions or return less")
        name, count = max(self.matches.items(), key=lambda item: item[1], default=("", 0))
        if count > self.budget.matches:
            raise _over(f"more than {self.budget.matches:,} matches of '{name}'", "matches")


def _over(what: str, part: str, remedy: str = "shorten the window or narrow the conditions") -> OverBudgetError:
    return OverBudgetError(Problem(f"{what} in one micro-batch", hint=f"{remedy}, or give budget={{'{part}': ...}} more"))
