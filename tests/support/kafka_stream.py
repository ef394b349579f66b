"""Run as a script: a driver of its own that matches a topic's events and writes the matches to another topic and to files.

`run` goes on until it is killed; `finish` takes what there is and reports, as JSON, what each sink has and what the same query
finds in the topic as a batch.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import kleene
from support.spark import SETTINGS

QUERY = "PATTERN SEQ(A a, !(N n), B b, !(C c)) WHERE [k] AND a.x < b.x WITHIN 20 seconds"
SCHEMA = "number long, at timestamp, type string, k string, x int"
OPTIONS: dict[str, Any] = {"time": "at", "type": "type", "order_by": "number"}
OWN_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # a driver of seconds: thorough compilation would not pay
}
START = dt.datetime(2026, 3, 28, 22, tzinfo=dt.UTC)
BATCH = {"run": 200, "finish": 600}
"""How many events a micro-batch takes: few where there is to be much left to do."""
DISORDER = 20.0
"""How many seconds after its time an event may arrive."""
WATERMARK = "1 minute"
"""More than `DISORDER`: Spark reads partitions in proportion to what they have, not to the time of what they have."""


@dataclass(frozen=True, slots=True)
class Job:
    """What the script is asked to do."""

    address: str
    jars: str
    events: str
    matches: str
    folder: str

    @property
    def files(self) -> Path:
        return Path(self.folder) / "matches"

    def checkpoint(self, sink: str) -> Path:
        return Path(self.folder) / "checkpoints" / sink

    def command(self, mode: str) -> list[str]:
        return [sys.executable, __file__, mode, json.dumps(asdict(self))]


def records(count: int, seed: int = 7) -> list[tuple[str, str]]:
    """Events in the order of their arrival, as keys and values of Kafka; four a second, the last long after all others."""
    rng = random.Random(seed)
    arrivals: list[tuple[float, dict[str, Any]]] = []
    for number in range(count):
        last = number == count - 1
        second = number / 4 + rng.random() + (3600 if last else 0)
        event = {
            "number": number,
            "at": (START + dt.timedelta(seconds=second)).isoformat(),
            "type": "Z" if last else rng.choice("AABBNC"),
            "k": f"k{rng.randrange(12)}",
            "x": rng.randrange(10),
        }
        arrivals.append((second + rng.uniform(0, DISORDER), event))
    arrivals.sort(key=lambda arrival: arrival[0])
    return [(event["k"], json.dumps(event)) for _, event in arrivals]


def main() -> int:
    mode, job = sys.argv[1], Job(**json.loads(sys.argv[2]))
    session = _session(job)
    source = (
        session.readStream.format("kafka").option("maxOffsetsPerTrigger", BATCH[mode]).option("startingOffsets", "earliest")
    )
    found = kleene.query(QUERY).match(_events(_topic(source, job, job.events)), watermark=WATERMARK, **OPTIONS)
    to_topic = _to_kafka(found).writeStream.format("kafka").option("kafka.bootstrap.servers", job.address)
    started = [
        _started(to_topic.option("topic", job.matches), mode, job.checkpoint("topic")),
        _started(found.writeStream.format("parquet").option("path", str(job.files)), mode, job.checkpoint("files")),
    ]
    for query in started:
        query.awaitTermination()
    json.dump(_report(session, job), sys.stdout)
    sys.stdout.flush()
    session.stop()
    return 0


def _session(job: Job) -> Any:
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2,4]").appName("kleene and Kafka")
    for name, value in {**SETTINGS, **OWN_SETTINGS, "spark.jars": job.jars}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _topic(reader: Any, job: Job, topic: str) -> Any:
    return reader.option("kafka.bootstrap.servers", job.address).option("subscribe", topic).load()


def _events(records: Any) -> Any:
    from pyspark.sql import functions

    return records.select(functions.from_json(functions.col("value").cast("string"), SCHEMA).alias("event")).select("event.*")


def _to_kafka(matches: Any) -> Any:
    from pyspark.sql import functions

    return matches.select(
        functions.col("match_id").cast("string").alias("key"), functions.to_json(functions.struct("*")).alias("value")
    )


def _started(writer: Any, mode: str, checkpoint: Path) -> Any:
    writer = writer.option("checkpointLocation", str(checkpoint))
    return (writer.trigger(availableNow=True) if mode == "finish" else writer).start()


def _report(session: Any, job: Job) -> dict[str, Any]:
    """The number of events, and the matches as (id, JSON): of the batch, in the files, in the topic."""
    events = _events(_topic(session.read.format("kafka"), job, job.events)).cache()
    written = _topic(session.read.format("kafka"), job, job.matches)
    frames = {
        "batch": _to_kafka(kleene.query(QUERY).match(events, **OPTIONS)),
        "files": _to_kafka(session.read.parquet(str(job.files))),
        "topic": written.selectExpr("cast(key as string) key", "cast(value as string) value"),
    }
    report: dict[str, Any] = {name: [list(row) for row in frame.collect()] for name, frame in frames.items()}
    return report | {"events": events.count()}


if __name__ == "__main__":
    sys.exit(main())
