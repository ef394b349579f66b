"""Queries that change while a stream runs, as a stream of their own: a row with all of them whenever one has changed.

The source is looked at on the driver, before every micro-batch (`kleene.runtime.rules.watch`). The offset, which Spark writes
to the checkpoint, is the snapshot itself. So a micro-batch that is done again after a failure reads its rules from its own
offset, files that have changed since come with the next one, and versions continue to count. Without a change the offset is the
same, and Spark starts no micro-batch for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from kleene.runtime.rules.snapshot import Rules, rules_of
from kleene.runtime.rules.watch import RuleWatch, rule_paths
from kleene.runtime.spark.versions import SupportsTriggerAvailableNow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FORMAT_NAME = "kleene_rules"
SOURCE = "source"


def rules_stream(spark: SparkSession, source: str) -> DataFrame:
    """The queries of a folder, a file or a table, as a streaming DataFrame.

    Each row is a snapshot (`kleene.runtime.rules.snapshot.parse_rules`): its `version`, and all `rules` as JSON. The last one
    holds. The source is a path on the driver's machine.
    """
    from kleene.runtime.spark.frame import worker_interpreter

    if "connect" not in type(spark).__module__:
        source = str(Path(source).absolute())
        rule_paths(Path(source))
    with worker_interpreter(spark.range(0)):
        spark.dataSource.register(RuleSource)
        return spark.readStream.format(FORMAT_NAME).option(SOURCE, source).load()


def rule_names(spark: SparkSession, source: str) -> tuple[str, ...]:
    """The names of the rules that a source has now; none on Spark Connect, whose driver may be on another machine."""
    return () if "connect" in type(spark).__module__ else tuple(RuleWatch(str(Path(source).absolute())).next(Rules()).queries)


class RuleSource(DataSource):
    """The data source of rules, which Spark runs in a Python process of the driver."""

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return FORMAT_NAME

    def schema(self) -> str:
        """The columns of a snapshot."""
        return "version long, rules string"

    def simpleStreamReader(self, schema: StructType) -> RuleReader:  # noqa: ARG002, N802 - Spark's names
        """A reader of the source that the option names."""
        return RuleReader(self.options[SOURCE])


class RuleReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Snapshots as offsets: what is between two of them is the second."""

    def __init__(self, source: str) -> None:
        self._watch = RuleWatch(source)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What changes after the start is for the next run. Without this, Spark would put all events into one micro-batch."""
        self._watch.look_for_the_last_time()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """No rules yet."""
        return Rules().as_dict()

    def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[Any, ...]], dict[str, Any]]:
        """The snapshot of now as a row and as an offset; `start` itself if nothing has changed."""
        before = rules_of(start)
        now = self._watch.next(before)
        end = start if now is before else now.as_dict()
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[tuple[Any, ...]]:  # noqa: N802
        """The row of the second offset, which needs no files."""
        return iter([] if start["version"] == end["version"] else [(end["version"], json.dumps(end))])
