"""What a pass over a working set has, whatever finds the matches: events grouped by partition, the stream order, the window's
clock, negation, and under NON-OVERLAP where the last reported match ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import NO_WINDOW, Array
from kleene.common.errors import DataError
from kleene.engine.events.grouping import Groups, combined_codes, group_rows, value_codes, without_nulls
from kleene.engine.events.kernels.tables import Events
from kleene.engine.events.placed import PlacedColumns
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.expressions.filter_constants import OVERFLOW
from kleene.engine.expressions.filters import ColumnSpec, Computed
from kleene.engine.expressions.vectorized import of_types, widen
from kleene.engine.matcher import Metrics
from kleene.engine.matches.matches import Matches
from kleene.engine.matches.negation import NegativeIndex
from kleene.engine.matches.output import EventHashes
from kleene.engine.passes.filter_values import filter_column
from kleene.pattern.bound import BoundQuery
from kleene.pattern.policies import Strategy
from kleene.pattern.predicates import Literal
from kleene.plan.patterns import MatchPlan

NEGATIVE = "negative"
"""The role of a negative component's bit; any other role is a positive component's."""


def in_partitions(bound: BoundQuery, column: Callable[[str], pa.Array], count: int) -> Array:
    """Which of `count` rows agree with the equivalence tests by themselves."""
    inside = np.ones(count, bool)
    for test in bound.equivalences:
        values = column(test.name)
        held = values.is_valid()
        if isinstance(test.value, Literal):
            held = pc.fill_null(pc.equal(widen(values), pa.scalar(test.value.value)), False)
        lacking = [kind for kind in bound.schema.types or () if bound.lacks(kind, test.name)]
        if lacking and bound.schema.type is not None:
            held = pc.or_(held, pc.fill_null(of_types(column(bound.schema.type), lacking), False))
        inside &= held.to_numpy(zero_copy_only=False)
    return inside


def partition_text(bound: BoundQuery, partition: Sequence[str], events: PlacedColumns, place: int) -> str:
    """The partition of an event, for messages."""
    names = [test.name for test in bound.equivalences] or list(partition)
    values = [(name, events.gather(name, np.array([place]))[0].as_py()) for name in names]
    return ", ".join(f"{name}={value!r}" for name, value in values) or "the whole stream"


Grouped = tuple[Array | None, Groups]
"""The partition of each row as a code (None without partitioning), and the rows grouped by it."""


def _has_ties(rank: Array) -> bool:
    return bool((rank[1:] == rank[:-1]).any())


def _has_nan(column: pa.Array) -> bool:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return pa.types.is_floating(kind) and bool(pc.any(pc.is_nan(widen(column))).as_py())


def group_working(working: WorkingSet, partition: Sequence[str]) -> Grouped:
    """The rows of a working set by the attributes that divide them."""
    if not partition:
        return None, group_rows(None, 1, working.ts, working.masks)
    codes, count = combined_codes([without_nulls(working.column(name)) for name in partition])
    return codes, group_rows(codes, count, working.ts, working.masks)


class WorkingPass:
    """What passes over a working set have in common; see `kleene.engine.passes.reporting.Pass`."""

    prunes = False
    counts_ends = False
    together = False

    def __init__(
        self,
        plan: MatchPlan,
        working: WorkingSet,
        metrics: Metrics,
        block: int,
        bits: Mapping[tuple[str, str], int],
        grouped: Grouped | None = None,
    ) -> None:
        """`bits` gives the bit of each (variable, role) in a row's mask; `grouped` are the rows by partition, if known."""
        self._plan: MatchPlan = plan
        self._bits = bits
        self._positive = sum(1 << bit for (_, role), bit in bits.items() if role != NEGATIVE)
        self._working = working
        self._metrics = metrics
        self._block = block
        arrival = plan.total_order and plan.ties == "arrival"
        self._rank = np.arange(len(working), dtype=np.int64) if arrival else working.rank()
        self._codes, self.groups = grouped or group_working(working, plan.partition)
        self.ts = self.groups.ts
        self.events = PlacedColumns(working, self.groups)
        self.rank = self.ts if self._rank is working.ts else self.groups.places(self._rank)
        self.tests = self._test_codes()
        tied = _has_ties(self._rank)
        self.order_matters = tied and _has_ties(self.rank)
        """Whether events of one partition may tie."""
        if self.order_matters and plan.total_order:
            self._refuse_ties()
        self.apart = tied and any(_has_nan(working.column(name)) for name in plan.partition)
        """Whether simultaneous events may be identical though they are not of one partition: NaN equals nothing."""
        self.hashes = EventHashes(self.events, self.rank, plan.columns, tied=self.order_matters, apart=self.apart)
        counted = plan.bound.count_window
        limit = plan.bound.window if counted is None else counted
        self.window: int = NO_WINDOW if limit is None else limit
        self.clock = self.ts if counted is None else self._positions()
        self._indexes = [self._negative_indexes(index) for index in range(len(plan.branches))]
        self.ended = np.full(self.groups.offsets.size - 1, -1, np.int64)
        """Per segment the place where its last reported match ends, under NON-OVERLAP."""
        self.earliest: int | None = None
        """The time of the earliest start of a run that is still alive."""

    @property
    def grouped(self) -> Grouped:
        """How rows are grouped, for another pass over the same rows."""
        return self._codes, self.groups

    @property
    def by_place(self) -> Events:
        """The events, as kernels read them."""
        groups = self.groups
        return Events(groups.order, groups.offsets, groups.ts, self.clock, self.rank, groups.masks, self.tests)

    def _test_codes(self) -> Array:
        """Per test a code by place: -1 where the event's type lacks the attribute, -2 where it is NULL."""
        bound = self._plan.bound
        tests = np.empty((len(self._plan.tests), len(self._working)), np.int64)
        for index, name in enumerate(self._plan.tests):
            column = self._working.column(name)
            codes, _ = value_codes(without_nulls(column))
            codes = np.where(column.is_null().to_numpy(zero_copy_only=False), -2, codes)
            lacking = [kind for kind in bound.schema.types or () if bound.lacks(kind, name)]
            if lacking and bound.schema.type is not None:
                free = of_types(self._working.column(bound.schema.type), lacking).to_numpy(zero_copy_only=False)
                codes = np.where(free, -1, codes)
            tests[index] = self.groups.places(codes)
        return tests

    def _positions(self) -> Array:
        """The position of each event in its partition, by place."""
        places = np.arange(len(self._working), dtype=np.int64)
        bound = self._plan.bound
        if bound.query.strategy is not Strategy.STRICT_CONTIGUITY or not bound.equivalences:
            return places  # the events of a segment are all there, one after the other
        inside = in_partitions(bound, self._working.column, places.size)
        _, keys = np.unique(np.vstack([self.tests, self.groups.places(inside)]), axis=1, return_inverse=True)
        keys = keys.ravel()
        order = np.argsort(keys, kind="stable")
        starts = np.searchsorted(keys[order], keys[order])
        positions = np.empty(places.size, np.int64)
        positions[order] = places - starts
        return positions

    def _refuse_ties(self) -> None:
        """Two events of one partition that tie, where order matters."""
        mask = self.groups.masks & self._positive
        places = np.arange(mask.size) if self._plan.all_rows else np.flatnonzero(mask)
        rank = self.rank[places]
        same = np.flatnonzero(rank[1:] == rank[:-1])
        segment, following = (np.searchsorted(self.groups.offsets, places[at], side="right") for at in (same, same + 1))
        same = same[segment == following]
        strict = self._plan.bound.query.strategy is Strategy.STRICT_CONTIGUITY
        for at in same.tolist():
            if strict or self._ties_in_partition(places, rank, at):
                raise DataError(self._tie(int(places[at])))

    def _ties_in_partition(self, places: Array, rank: Array, at: int) -> bool:
        """Whether some events tied with that at `at`, from it on, agree on all tests."""
        end = at + 1
        while end < rank.size and rank[end] == rank[at]:
            end += 1
        codes = self.tests[:, places[at:end]]
        for left in range(codes.shape[1]):
            for right in range(left + 1, codes.shape[1]):
                one, other = codes[:, left], codes[:, right]
                if ((one >= -1) & (other >= -1) & ((one == other) | (one == -1) | (other == -1))).all():
                    return True
        return False

    def _tie(self, place: int) -> str:
        schema = self._plan.bound.schema
        time = self.events.gather(schema.time, np.array([place]))[0]
        shown = time.as_py() if schema.time_unit is None else str(time)
        return (
            f"two events tie at timestamp {shown} in partition {self.partition_text(place)}, "
            "but the query needs a total order\n"
            '  hint: give order_by=[...], or ties="arrival" to accept the order in which rows are delivered'
        )

    def may_exceed(self, most: int) -> bool:  # noqa: ARG002 - nothing is known
        """Whether an event could complete more than `most` matches."""
        return True

    def partition_text(self, place: int) -> str:
        """The partition of an event, for messages."""
        return partition_text(self._plan.bound, self._plan.partition, self.events, place)

    def _negative_indexes(self, index: int) -> list[NegativeIndex]:
        branch = self._plan.branches[index]
        if branch.negation is None:
            return []
        names = [event.variable for event in self._plan.bound.branches[index].positives]
        return [
            NegativeIndex(
                component,
                names,
                self._working.rows_with(self._bits[component.event.variable, NEGATIVE]),
                branch.negation.method,
                branch.negation.window,
                self._working,
                self._rank,
                self._codes,
                self.groups.order,
            )
            for component in branch.negation.components
        ]

    def _filter_column(self, spec: ColumnSpec) -> Computed:
        roles = [bit for (variable, _), bit in self._bits.items() if variable == spec.variable]
        return filter_column(spec, self._plan.bound, self._working, sum(1 << bit for bit in roles))

    def note_overflow(self, constants: Array) -> None:
        """Takes over whether a filter met a value that left 64 bits."""
        if constants[OVERFLOW]:
            self._working.noticed.seen = True

    def _earliest_in(self, events: int) -> int | None:
        """The time of the earliest event that a later match may have; if windows count events, of at most `count` events."""
        if self._plan.bound.count_window is None:
            return int(self._working.ts[0])
        begins, ends = self.groups.offsets[:-1], self.groups.offsets[1:]
        oldest = np.maximum(begins, ends - events + 1)
        oldest = oldest[oldest < ends]
        return int(self.ts.take(oldest).min()) if oldest.size else None

    def negated(self, index: int, matches: Matches) -> Matches:
        """The matches without a forbidden event."""
        for negative in self._indexes[index]:
            if matches.count:
                matches = matches.select(~negative.dead(self._plan.bound, matches))
        return matches

    def clear_ended(self) -> None:
        """Under NON-OVERLAP, events up to the end of a reported match cannot be selected again."""
        for segment in np.flatnonzero(self.ended >= 0).tolist():
            rows = self.groups.order[self.groups.offsets[segment] : self.ended[segment] + 1]
            self._working.masks[rows] &= ~self._positive
