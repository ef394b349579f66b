"""The progress of a stream: Spark's report of every micro-batch, and the totals.

Counts are summed; gauges (waiting events, kept events, the state) are those of the last micro-batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress

OBSERVED = "kleene"
"""The name under which a stream's own metrics are observed."""
BY_QUERY = "matches_"
"""The prefix of the metric for a query's matches."""
HELD = ("waiting", "kept", "runs", "state_rows", "state_bytes", "watermark_lag_ms")


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch."""

    number: int
    milliseconds: int = 0
    rows: int = 0
    input_rate: float | None = None
    processed_rate: float | None = None
    """Rows per second."""
    watermark: str | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Empty if nothing was computed."""


@dataclass(frozen=True, slots=True)
class Totals:
    """All micro-batches so far."""

    last: Batch | None = None
    batches: int = 0
    rows: int = 0
    matches: int = 0
    late: int = 0
    bad: int = 0
    by_query: Mapping[str, int] = field(default_factory=dict)
    watermark: str | None = None
    """The last known watermark."""
    held: Mapping[str, Any] = field(default_factory=dict)
    """The known metrics of `HELD`."""

    def after(self, batch: Batch) -> Totals:
        """The totals with another micro-batch.

        >>> total = Totals().after(Batch(0, rows=5, metrics={"matches": 2, "kept": 4})).after(Batch(1, metrics={"matches": 1}))
        >>> total.batches, total.rows, total.matches, total.held["kept"]
        (2, 5, 3, 4)
        """
        metrics = batch.metrics
        found = {name.removeprefix(BY_QUERY): count for name, count in metrics.items() if name.startswith(BY_QUERY)}
        return replace(
            self,
            last=batch,
            batches=self.batches + 1,
            rows=self.rows + batch.rows,
            matches=self.matches + (metrics.get("matches") or 0),
            late=self.late + (metrics.get("late") or 0),
            bad=self.bad + (metrics.get("bad") or 0),
            by_query={name: self.by_query.get(name, 0) + found.get(name, 0) for name in {**self.by_query, **found}},
            watermark=self.watermark if batch.watermark is None else batch.watermark,
            held={**self.held, **{name: metrics[name] for name in HELD if metrics.get(name) is not None}},
        )


def batch_of(progress: StreamingQueryProgress) -> Batch:
    """A micro-batch as Spark reports it."""
    observed = progress.observedMetrics.get(OBSERVED)
    metrics = {} if observed is None else observed.asDict()
    return Batch(
        progress.batchId,
        int(progress.durationMs.get("triggerExecution", 0)),
        progress.numInputRows or 0,
        _rate(progress.inputRowsPerSecond),
        _rate(progress.processedRowsPerSecond),
        metrics.get("watermark"),
        metrics,
    )


def _rate(value: float | None) -> float | None:
    """A rate; None if Spark reports NaN or infinity, for a duration of zero."""
    return value if value is not None and math.isfinite(value) else None
