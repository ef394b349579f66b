"""What a query may use of its limits (`kleene.plan.limits`), and what it has used: every mechanism asks here.

Everything is counted by blocks, from numbers that a mechanism has anyway: partial matches as they are made, matches as they are
reported, and memory before it is allocated. Cost: some microseconds a block; where the matches of an event come apart, and one
event might have too many, a nanosecond a match.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from kleene.common.arrays import Array
from kleene.common.errors import LimitError, Problem
from kleene.engine.kernels.rows import alike_at_begin, alike_at_end, count_ends
from kleene.plan.limits import Limits

MOST_NAMED = 3
"""Queries that an error names."""

NARROW = "narrow the pattern (a shorter WITHIN, more conditions, a key)"

COMPRESSED = "ask for output='compressed', "
"""What helps where there are too many matches to build, if an automaton can answer the query."""

PATIENCE = 1 << 26
"""Steps without a block after which a kernel returns, so that limits are checked."""


LARGEST_BLOCK = 1 << 17
"""Most matches of a block: with a limit above it, only the first and the last event of a block can have too many."""


class Ended(Protocol):
    """A pass, whose matches end at places."""

    together: bool
    """Whether the matches of an event come one after the other."""
    ts: Array
    """Times by place."""

    def partition_text(self, place: int) -> str:
        """The partition of an event, for messages."""
        ...

    def may_exceed(self, most: int) -> bool:
        """Whether an event could complete more than `most` matches, without looking at conditions."""
        ...


class Allowance:
    """What one query, or several that are matched together, may use."""

    def __init__(self, queries: Sequence[str], limits: Limits, *, compressible: bool = False) -> None:
        """`compressible` says that matches could be given as a match buffer."""
        self.limits = limits
        self._instead = COMPRESSED if compressible else ""
        self._queries = tuple(queries)
        self.memory = limits.pass_memory
        """Bytes that a pass may take."""
        self._partials = self._held = 0
        self._most_partials = limits.pass_partials(0)
        self._total = self._collected = 0
        self._ends = np.zeros(0, np.int64)
        """Matches by the place that they end at."""
        self._uncounted: list[Array] = []
        """Places that matches end at and that are not in `_ends`."""
        self._waiting = 0
        """How many matches there are by place."""
        self._few: bool | None = None
        """Whether no event can have too many matches, once that was asked."""
        self._latest = -1, 0
        """The place that the latest match ends at, and how many do."""

    @property
    def patience(self) -> int:
        """How many partial matches a kernel may make before limits are looked at."""
        return min(PATIENCE, self._most_partials)

    def begin_pass(self, events: int) -> None:
        """Starts a pass over a number of events: resets the counts of a pass."""
        self._partials = self._held = 0
        self._most_partials = self.limits.pass_partials(events)
        self._ends = self._ends[:0]
        self._uncounted.clear()
        self._waiting, self._few, self._latest = 0, None, (-1, 0)

    def begin_run(self) -> None:
        """Resets the counts of an execution: a stream has one for each micro-batch."""
        self._total = 0

    def made(self, partials: int) -> None:
        """Counts partial matches."""
        self._partials += partials
        if self._partials > self._most_partials:
            found = f"has made {self._partials:,} partial matches in one pass over its events"
            raise self.exceeded(found, "partials", f"{self._most_partials:,}", self._instead + NARROW)

    def reported(self, matches: int) -> None:
        """Counts reported matches."""
        self._total += matches
        if self._total > self.limits.total:
            raise self.exceeded(f"has {self._total:,} matches", "total", f"{self.limits.total:,}", self._instead + NARROW)

    def collected(self, size: int) -> None:
        """Counts bytes of matches that are kept until the end."""
        self._collected += size
        most = self.limits.result_memory
        if self._collected > most:
            found = f"has matches of {_megabytes(self._collected)}"
            raise self.exceeded(found, "memory", _megabytes(most), f"{self._instead}{NARROW}, ask for fewer columns=[...]")

    def ended(self, last: Array, run: Ended) -> None:
        """Matches of a pass end at the places `last`.

        Where matches of an event come together, it is enough to look at the first and the last event of a block. Otherwise
        places are counted, but only from that many matches in all, and if an event can have that many.
        """
        if not last.size:
            return
        together = run.together and self.limits.matches >= LARGEST_BLOCK
        place = self._together(last) if together else self._apart(last, run)
        if place >= 0:
            raise self.too_many_matches(run.partition_text(place))

    def _together(self, last: Array) -> int:
        """The place at which too many matches end, or -1."""
        place, count = self._latest
        if place == last[0]:
            count += alike_at_begin(last)
            if count > self.limits.matches:
                return place
        if place != last[-1]:
            count = alike_at_end(last)
        self._latest = int(last[-1]), int(count)
        return -1

    def _apart(self, last: Array, run: Ended) -> int:
        """The same where matches of an event come apart."""
        self._waiting += last.size
        if self._few is None and self._waiting > run.ts.size:  # enough matches for the check to pay off
            self._few = not run.may_exceed(self.limits.matches)
        if self._few:
            return -1
        self._uncounted.append(last.copy())
        if self._waiting <= self.limits.matches:
            return -1
        if not self._ends.size:
            self._ends = np.zeros(run.ts.size, np.int64)
        found = -1
        for ends in self._uncounted:
            found = max(found, int(count_ends(ends, self._ends, self.limits.matches)))
        self._uncounted.clear()
        return found

    def too_many_matches(self, partition: str, otherwise: str = "") -> LimitError:
        """The error of more matches that end at one event than there may be."""
        found = f"has more than {self.limits.matches:,} matches that end at one event in partition {partition}"
        return self._error(found, "matches", self._instead + NARROW, otherwise)

    def hold(self, size: int, what: str) -> None:
        """Allocates bytes until the pass ends."""
        self.require(size, what)
        self._held += size

    def release(self, size: int) -> None:
        """Frees bytes that were held."""
        self._held -= size

    def require(self, size: int, what: str) -> None:
        """Checks that bytes are available besides those that are held."""
        if self._held + size > self.memory:
            found = f"needs {_megabytes(self._held + size)} for {what} in one pass"
            raise self.exceeded(found, "memory", _megabytes(self.memory))

    def exceeded(self, found: str, limit: str, most: str, remedy: str = NARROW, otherwise: str = "") -> LimitError:
        """The error of what was found beyond a limit, which is `most`."""
        return self._error(f"{found}; the limit is {most}", limit, remedy, otherwise)

    def _error(self, found: str, limit: str, remedy: str, otherwise: str) -> LimitError:
        shown = ", ".join(f"'{name}'" for name in self._queries[:MOST_NAMED])
        more = len(self._queries) - MOST_NAMED
        who = f"query {shown}" if len(self._queries) == 1 else f"queries {shown}" + (f" and {more} more" if more > 0 else "")
        raised = f"{remedy}, " + ("" if otherwise else "or ") + f"raise limits={{'{limit}': ...}}{otherwise}"
        return LimitError(Problem(f"{who} {found}", hint=raised))


def _megabytes(size: int) -> str:
    """A size in words.

    >>> _megabytes(4 << 30), _megabytes(1500)
    ('4,294,967,296 bytes (4096 MiB)', '1,500 bytes')
    """
    return f"{size:,} bytes" + (f" ({size >> 20} MiB)" if size >> 20 else "")
