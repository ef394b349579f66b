"""How a stream's events are spread, as its checkpoint knows it: by which keys, over how many buckets, for which queries.

Buckets are found by their keys, so a query whose keys change would find none: what it waits for would be in buckets that nobody
asks. So a group of its own, whose number depends on nothing, holds what the stream was like. Every task sends it a packet, and
it refuses the micro-batch if the stream cannot resume from its state.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kleene.common.errors import FRESH, Problem, StateError, damaged
from kleene.runtime.stream.state import UNREADABLE, opened, sealed

if TYPE_CHECKING:
    from kleene.runtime.stream.plan import StreamPlan

GROUP = -1
"""Its number; those of buckets are not negative."""

SPREAD = "spread"
"""The kind of its packets."""

Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """What a stream is like."""

    queries: Mapping[str, Keys]
    """By name the keys of each query; none where queries change while the stream runs."""
    buckets: Mapping[Keys, int]
    left: frozenset[Keys] = frozenset()
    """Keys that there were once, the buckets of which are not up to date."""

    @staticmethod
    def of(plan: StreamPlan) -> Spread:
        """Of the stream that runs."""
        changing = plan.compile is not None
        queries = {query.name: item.keys for item in plan.distributions for query in item.queries.queries}
        return Spread({} if changing else queries, {item.keys: len(item.groups) for item in plan.distributions})

    def encode(self) -> bytes:
        described = {
            "queries": {name: list(keys) for name, keys in self.queries.items()},
            "buckets": [[list(keys), count] for keys, count in self.buckets.items()],
            "left": sorted(map(list, self.left)),
        }
        return sealed(json.dumps(described, sort_keys=True).encode())

    @staticmethod
    def decode(blob: bytes) -> Spread:
        try:
            number, content = opened(blob)
            described = json.loads(content if number > 1 else b"")
            queries = {name: tuple(keys) for name, keys in described["queries"].items()}
            buckets = {tuple(keys): int(count) for keys, count in described["buckets"]}
            return Spread(queries, buckets, frozenset(map(tuple, described["left"])))
        except UNREADABLE as error:
            raise damaged(f"{error}") from error

    def followed_by(self, now: Spread) -> Spread:
        """The spread of a stream that resumes from this one; refused if it would lose waiting events."""
        for name, keys in now.queries.items():
            if name in self.queries:
                require_keys(f"of query '{name}' ", self.queries[name], keys)
        for keys, count in now.buckets.items():
            require_buckets(self.buckets.get(keys, count), count)
            if keys in self.left:
                message = f"the checkpoint's state by {named(keys)} is not up to date: queries with these keys were left out"
                raise StateError(Problem(message, hint=FRESH))
        if not self.buckets.keys() & now.buckets.keys():
            require_keys("", next(iter(self.buckets)), next(iter(now.buckets)))
        return Spread(now.queries, now.buckets, self.left | (self.buckets.keys() - now.buckets.keys()))


def require_keys(whose: str, known: Keys, now: Keys) -> None:
    """That events are spread by the keys that are known."""
    if known != now:
        message = f"the checkpoint's state {whose}is spread by {named(known)}, this stream by {named(now)}"
        raise StateError(Problem(message, hint=f"the queries test other attributes for equality now: {FRESH}"))


def require_buckets(known: int, now: int) -> None:
    """That they are spread over as many buckets."""
    if known != now:
        message = f"the checkpoint's state is spread over {known} buckets, this stream over {now}"
        raise StateError(Problem(message, hint=f"give buckets={known}, or {FRESH}"))


def named(keys: Keys) -> str:
    """Keys in words."""
    return ", ".join(keys) or "nothing"
