"""The limit on matches that one event completes, where its policy is to let some go (see `kleene.plan.limits`).

How many there are is counted in the match buffer, without reading them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.allowance import Allowance
from kleene.engine.automaton.compressed import FIELDS, Counted, horizons_at
from kleene.engine.automaton.kernels.layout import FOUND_NODE, FOUND_PLACE, YOUNGEST

Part = tuple[Array, Array]
"""Detections, and the nodes that they are in."""


class Limited:
    """Detections in order of their places, and how many of their matches are dropped."""

    def __init__(self, found: Array, nodes: Array, used: int, clock: Array, window: int, allowance: Allowance) -> None:
        # Of an event, the youngest histories first: reading stops at the limit.
        self._found = found[:, np.lexsort((-nodes[YOUNGEST].take(found[FOUND_NODE]), found[FOUND_PLACE]))]
        self._nodes = nodes
        self._limits = limits = allowance.limits
        ends, places = self._found[FOUND_NODE], self._found[FOUND_PLACE]
        own = np.ascontiguousarray(nodes[:FIELDS, :used])
        self._counted = Counted(own, np.ascontiguousarray(ends), horizons_at(clock.take(places), window), clock)
        if (self._counted.counts < 0).any():
            raise allowance.exceeded("has an event that completes more matches than 64 bits can count", "matches", "2^63")
        begins = np.flatnonzero(np.concatenate(([True], places[1:] != places[:-1])))
        self._bounds = np.append(begins, places.size)
        totals = np.add.reduceat(self._counted.counts.astype(np.float64), begins)
        self._over = np.flatnonzero(totals > limits.matches)
        self.dropped = sum(self._total(event) - limits.matches for event in self._over.tolist())

    def _total(self, event: int) -> int:
        return sum(self._counted.counts[self._bounds[event] : self._bounds[event + 1]].tolist())

    def parts(self) -> Iterator[Part]:
        """What is to be read: all detections (no more than the limit of each event), or those of a random choice of matches."""
        if self._limits.policy == "keep_newest" or not self._over.size:
            yield self._found, self._nodes
            return
        within = np.ones(self._found.shape[1], bool)
        for event in self._over.tolist():
            within[self._bounds[event] : self._bounds[event + 1]] = False
        if within.any():
            yield self._found[:, within], self._nodes
        for event in self._over.tolist():
            yield from self._sampled(event)

    def _sampled(self, event: int) -> Iterator[Part]:
        begin, end = int(self._bounds[event]), int(self._bounds[event + 1])
        place = int(self._found[FOUND_PLACE, begin])
        choice = random.Random(self._limits.seed * 1_000_003 + place)  # noqa: S311 - reproducible, not secret
        ranks = np.array(sorted(choice.sample(range(self._total(event)), self._limits.matches)), np.int64)
        upto = np.cumsum(self._counted.counts[begin:end])
        entries = np.searchsorted(upto, ranks, side="right")
        before = np.concatenate(([0], upto))[entries]
        for chains, lasts in self._counted.draw(entries + begin, ranks - before):
            yield np.stack((lasts.astype(np.int64), np.full(lasts.size, place, np.int64))), chains
