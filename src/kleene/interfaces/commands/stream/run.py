"""Running a stream: Spark's reports are summed and shown until the stream ends, fails or is asked to stop.

A listener receives reports in one of Spark's threads; this thread takes them from a queue. When asked to stop, it lets the
current micro-batch finish: the next start resumes after it.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

from pyspark.errors import PySparkException
from pyspark.sql.streaming.listener import StreamingQueryListener

from kleene.interfaces.commands.stream.errors import stream_error
from kleene.interfaces.commands.stream.progress import Batch, Totals, batch_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kleene.interfaces.commands.stream.view import View

POLL_SECONDS = 0.2
PATIENCE_SECONDS = 10
"""Maximum time to wait for the last reports."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopping:
    """Ctrl-C, or a signal to end, asks for a stop; a second one interrupts. `with Stopping() as stopping: stopping.asked`."""

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._ask) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as signals are handled
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


class Reports(StreamingQueryListener):
    """The micro-batches of a stream as Spark reports them."""

    def __init__(self) -> None:
        self._batches: SimpleQueue[tuple[Any, Batch]] = SimpleQueue()
        self.ended = threading.Event()
        """Set after the last report of a stream."""

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
        """Nothing to do: the caller started the stream."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self._batches.put((event.progress.runId, batch_of(event.progress)))

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802, ARG002
        self.ended.set()

    def of(self, query: StreamingQuery) -> list[Batch]:
        """The reports of a stream since the last call."""
        found: list[Batch] = []
        while True:
            try:
                run, batch = self._batches.get_nowait()
            except Empty:
                return found
            if str(run) == str(query.runId):
                found.append(batch)


def run_until_stopped(
    session: SparkSession, start: Callable[[], StreamingQuery], stopping: Stopping, view: View
) -> tuple[Totals, Exception | None]:
    """The totals of a stream, and the error that ended it, if any."""
    reports = Reports()
    session.streams.addListener(reports)
    try:
        return _follow(start(), reports, stopping, view)
    except PySparkException as error:
        raise stream_error(error) from error
    finally:
        session.streams.removeListener(reports)


def _follow(query: StreamingQuery, reports: Reports, stopping: Stopping, view: View) -> tuple[Totals, Exception | None]:
    totals = Totals()
    awaited: int | None = None
    try:
        while query.isActive:
            totals = _added(totals, reports.of(query), view)
            view.show(totals, "stopping after this micro-batch" if stopping.asked else query.status["message"].lower())
            if stopping.asked:
                awaited = totals.batches if awaited is None else awaited
                if totals.batches > awaited or not query.status["isTriggerActive"]:
                    break
            time.sleep(POLL_SECONDS)
    finally:
        query.stop()
    reports.ended.wait(PATIENCE_SECONDS)
    totals = _added(totals, reports.of(query), view)
    failure = query.exception()
    view.show(totals, "failed" if failure else "stopped" if stopping.asked else "all events read")
    return totals, None if failure is None else stream_error(failure)


def _added(totals: Totals, batches: list[Batch], view: View) -> Totals:
    for batch in batches:
        totals = totals.after(batch)
        view.added(batch)
    return totals
