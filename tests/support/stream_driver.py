"""Run as a script: a driver of its own that matches a folder of files, to be killed and started again.

`run` starts two streaming queries and goes on until the file `enough` is there; then they take what there is, and what their
sinks have is collected into one file for each (`found`), beside what the same queries find in the same files as a batch
(`wanted`).
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow.parquet as pq

import kleene
from support.fault_events import DDL, DELAY, LAST, TOO_LATE
from support.spark import SETTINGS

QUERIES = {
    "sequence": "PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.x < c.x WITHIN 20 seconds",
    "silence": "PATTERN SEQ(A a, B b, !(N n)) WHERE [k] AND a.x < b.x WITHIN 10 seconds",
    "total": "PATTERN SEQ(A a, B b) WHERE [k] AGG COUNT, SUM(b.x) GROUP BY k EMIT ON CHANGE WITHIN 15 seconds",
    "rising": "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_next_match(a, b[], c) { [k] AND b[i].x > b[i-1].x } "
    "WITHIN 20 seconds",
    "pair": "PATTERN SEQ(D d, E e) WHERE [k] AND d.x < e.x WITHIN 20 seconds",
    "triple": "PATTERN SEQ(D d, E e, A a) WHERE [k] AND d.x < e.x WITHIN 20 seconds",
    "group": "PATTERN AND(D d, E e, C c) WHERE [k] AND d.x < e.x WITHIN 10 seconds",
    "anywhere": "PATTERN SEQ(N n, D d, E e) WHERE n.x = e.x WITHIN 5 seconds",
}
"""Sequences, a negated end, an aggregate, Kleene plus; three that share a plan; one that no key divides."""
ALONE = "silence"
"""Written by a second streaming query as well, to Spark's own file sink."""
OPTIONS = {"time": "at", "type": "type", "order_by": "number"}
KINDS = ("late", "bad_rows")
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(frozen=True, slots=True)
class Job:
    """What the script is asked to do, and where everything is."""

    folder: str
    master: str
    names: list[str]
    """Of the queries that one streaming query answers together."""
    compares: bool = False
    """Whether the queries are run on the files as a batch, too."""

    def at(self, *names: str) -> Path:
        return Path(self.folder, *names)

    @property
    def checkpoints(self) -> list[Path]:
        return [self.at("checkpoints", name) for name in ("together", "alone")]

    @property
    def queries(self) -> dict[str, str]:
        return {name: QUERIES[name] for name in self.names}

    @property
    def sinks(self) -> list[str]:
        return [*self.names, "alone", *KINDS]

    def command(self) -> list[str]:
        return [sys.executable, __file__, json.dumps(asdict(self))]


def home(folder: Path) -> Path:
    """Spark in a folder of its own: a local cluster writes to where Spark is."""
    import pyspark

    for name in ("bin", "jars", "python"):
        link = folder / name
        if not link.is_symlink():
            folder.mkdir(exist_ok=True)
            link.symlink_to(Path(pyspark.__file__).parent / name)
    return folder


def session(job: Job) -> Any:
    from pyspark.sql import SparkSession

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(home(job.at("spark"))), "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.master(job.master).appName("kleene fault tests")
    settings = SETTINGS | {
        "spark.driver.memory": "1g",
        "spark.executor.memory": "1g",
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.minBatchesToRetain": "100000",
        "spark.sql.warehouse.dir": str(job.at("warehouse")),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("ERROR")
    return found


def start(job: Job, spark: Any) -> list[Any]:
    """The two streaming queries."""
    files = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(job.at("in")))
    options = {**OPTIONS, "watermark": f"{DELAY} milliseconds"}
    together, alone = map(str, job.checkpoints)
    sinks = {"matches": str(job.at("out")), **{kind: str(job.at("out", kind)) for kind in KINDS}}
    first = kleene.workload(job.queries).run(files, **options).write(sinks, checkpoint=together)
    matches = kleene.query(QUERIES[ALONE], name=ALONE).match(files, **options)
    writer = matches.writeStream.format("parquet").option("checkpointLocation", alone)
    return [first, writer.start(str(job.at("out", "alone")))]


def collect(job: Job, spark: Any) -> None:
    """What the sinks have, as a reader of them sees it; what the batch gives."""
    for name in job.sinks:
        if any(job.at("out", name).rglob("*.parquet")):
            save(job, "found", name, spark.read.parquet(str(job.at("out", name))).drop("batch"))
    if job.compares:
        files = spark.read.schema(DDL).parquet(str(job.at("in")))
        events = files.where(~files["fate"].isin(TOO_LATE, LAST))
        for name, matches in kleene.workload(job.queries).match(events, bad_rows="drop", **OPTIONS).items():
            save(job, "wanted", name, matches)


def save(job: Job, kind: str, name: str, frame: Any) -> None:
    job.at(kind).mkdir(exist_ok=True)
    pq.write_table(frame.toArrow(), job.at(kind, f"{name}.parquet"))


def main() -> int:
    job = Job(**json.loads(sys.argv[1]))
    spark = session(job)
    queries = start(job, spark)
    while not job.at("enough").exists():
        for query in queries:
            if not query.isActive:
                print(query.exception(), file=sys.stderr)
                return 1
        time.sleep(0.1)
    for query in queries:
        query.processAllAvailable()
        query.stop()
    collect(job, spark)
    return 0


if __name__ == "__main__":
    sys.exit(main())
