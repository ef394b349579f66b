"""The contract of all matching mechanisms: events in, matches out, in batches.

Between calls a mechanism keeps recent events, and only what follows from the events that have come. The matches of a stream do
not depend on how it is cut into batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

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
    """Instances (or cells of the runtime stack) looked at by construction; runs that an event was put to."""
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
    """Runs let go of at the limit."""
    dropped_matches: int = 0
    """Matches let go of at the limit."""


@dataclass(slots=True)
class BadRows:
    """Rows set aside by `bad_rows="quarantine"`, each batch with a `reason` column."""

    batches: list[pa.RecordBatch] = field(default_factory=list)


class Matcher(Protocol):
    """One query over one ordered stream of events."""

    output_schema: pa.Schema
    metrics: Metrics
    bad_rows: BadRows
    allowance: Allowance

    @property
    def chosen(self) -> str:
        """How the last events were bound, in words; empty if there is no choice."""
        ...

    def compute_only(self, names: Sequence[str]) -> None:
        """Before any event: lets the matcher leave out other columns than these of its rows, and what has to be computed for
        them.
        """
        ...

    def feed(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Takes the next events in stream order; yields matches that are certain by now."""
        ...

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The stream has ended: yields what is left."""
        ...
