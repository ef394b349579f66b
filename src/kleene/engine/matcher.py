"""The contract of all matching mechanisms: events in, rows of one or several queries out, in batches.

Between calls a mechanism keeps recent events, and only what follows from the events that have come. The matches of a stream do
not depend on how it is cut into batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from kleene.common.arrays import Array
from kleene.engine.allowance import Allowance


@dataclass(slots=True)
class Metrics:
    """Counted work, for explain, benchmarks and progress."""

    events: int = 0
    """Rows read."""
    relevant: int = 0
    """Rows that some component can bind."""
    bad: int = 0
    """Rows with a NULL time, key or type, or an undeclared type."""
    instances: int = 0
    """Events pushed on stacks; runs that were started; partial matches that were made."""
    visits: int = 0
    """Instances (or cells of the runtime stack) looked at by construction; pairs of a run and an event."""
    sequences: int = 0
    """Event sequences that construction made; matches read from the match buffer."""
    selected: int = 0
    """Sequences left after selection and window."""
    matches: int = 0
    """Matches reported."""
    evaluations: int = 0
    """Candidates that the conditions of an edge were evaluated on (lazy evaluation)."""
    peak_instances: int = 0
    """The most instances alive at a time that the automaton of lazy evaluation has: partial matches whose next event may still
    come. (They are counted, not kept.)
    """
    peak_buffered: int = 0
    """The most events in one window, which lazy evaluation looks for candidates in."""
    merged: int = 0
    """Runs that were merged into another one."""
    peak_runs: int = 0
    """The most runs alive at a time in one partition."""
    buffered: int = 0
    """The most nodes in the match buffer."""
    dropped_runs: int = 0
    """Runs dropped at the limit."""
    dropped_matches: int = 0
    """Matches dropped at the limit."""


@dataclass(slots=True)
class BadRows:
    """Rows set aside by `bad_rows="quarantine"`, each batch with a `reason` column."""

    batches: list[pa.RecordBatch] = field(default_factory=list)


Found = tuple[int, pa.RecordBatch]
"""Rows of a query, with its place among those that are matched together."""

RowsFound = Callable[[pa.RecordBatch], tuple[Array, Array] | None]
"""The rows of a batch that matter, and their component masks, where somebody has found them already; else None."""

State = Mapping[str, pa.Array]
"""What a matcher knows that recent events do not tell, as named columns."""


class Matcher(Protocol):
    """One query, or several that are matched together, over one ordered stream of events.

    Bodies are what a matcher does that has nothing of its own to say.
    """

    output_schemas: Sequence[pa.Schema]
    """The columns of the rows, for each query."""
    metrics: Metrics
    bad_rows: BadRows
    allowance: Allowance

    @property
    def chosen(self) -> str:
        """How the last events were bound, in words; empty if there is no choice."""
        return ""

    def compute_only(self, names: Sequence[str]) -> None:  # noqa: ARG002
        """Before any event: lets the matcher leave out other columns than these of its rows, and what has to be computed for
        them.
        """
        return

    def take_rows(self, found: RowsFound) -> None:  # noqa: ARG002
        """Before any event: lets the matcher ask for the rows that matter before it looks for them."""
        return

    # Events

    def relevant(self, batch: pa.RecordBatch) -> Array:
        """The rows of a batch that matter: those that have a position, where these are counted."""

    def feed(self, batch: pa.RecordBatch) -> Iterator[Found]:
        """Takes the next events in stream order; yields rows that are certain by now."""

    def advance(self, watermark: int) -> Iterator[Found]:
        """All events before the watermark have come: yields what is certain by now."""

    def finish(self) -> Iterator[Found]:
        """The stream has ended: yields what is left."""

    # What was counted and set aside

    def metrics_of(self, query: int) -> Metrics:  # noqa: ARG002
        """The work for one of the queries, as far as it can be told from that for the others."""
        return self.metrics

    def bad_rows_of(self, query: int) -> BadRows:  # noqa: ARG002
        """The rows set aside that concern one of the queries."""
        return self.bad_rows

    # What is kept between calls

    @property
    def horizon(self) -> int | None:
        """Events at or before this time will not matter again."""

    @property
    def memory(self) -> int:
        """With a window: no event matters longer than this."""

    @property
    def kept(self) -> int:
        """How many events are kept."""

    @property
    def known(self) -> int:
        """Of how many things something is known besides events."""
        return 0

    def due(self, watermark: int) -> int | None:
        """The next watermark at which something happens even if no event comes."""

    def snapshot(self) -> State:
        """After `advance`: what `restore` needs besides the events since the horizon."""
        return {}

    def changes(self) -> pa.RecordBatch | None:
        """After `advance`: of what is known of many things one by one, the rows that changed since the last call.

        `restore` gets the last row of each number besides the snapshot. Numbers are in the column `ROW`.
        """
        return None

    def restore(self, events: Iterable[pa.RecordBatch], watermark: int, horizon: int | None, state: State) -> None:
        """Resumes after `advance(watermark)` of a matcher like this one, given the events after its horizon and its state."""
