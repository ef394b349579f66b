"""Run as a script: a driver of its own that matches the rules of a folder over files of events, to be killed and started again.

What each micro-batch did is appended to `progress.jsonl`. It ends when the file `enough` is there and everything is taken.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import kleene
from support.fault_events import DDL, DELAY
from support.rule_course import BUDGET, functions
from support.stream_driver import OPTIONS, session

BUCKETS = 2
SINKS = ("matches", "problems", "late", "bad_rows")


@dataclass(frozen=True, slots=True)
class RuleJob:
    """What the script is asked to do, and where everything is."""

    folder: str
    master: str = "local[2,4]"

    def at(self, *names: str) -> Path:
        return Path(self.folder, *names)

    def command(self) -> list[str]:
        return [sys.executable, __file__, json.dumps(asdict(self))]


def main() -> int:
    job = RuleJob(**json.loads(sys.argv[1]))
    spark = session(job)  # type: ignore[arg-type]
    files = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(job.at("in")))
    rules = kleene.rules(str(job.at("rules")), functions=functions())
    options = {**OPTIONS, "partition_by": "k", "watermark": f"{DELAY} milliseconds", "buckets": BUCKETS, "budget": BUDGET}
    sinks = {name: str(job.at("out", name)) for name in SINKS}
    query = rules.run(files, **options).write(
        sinks, checkpoint=str(job.at("checkpoint")), trigger={"processingTime": "100 milliseconds"}
    )
    told = -1
    while not job.at("enough").exists():
        if not query.isActive:
            print(query.exception(), file=sys.stderr)
            return 1
        told = tell(job, query, told)
        time.sleep(0.1)
    query.processAllAvailable()
    query.stop()
    return 0


def tell(job: RuleJob, query: Any, told: int) -> int:
    """Notes the micro-batches since the one that was noted last."""
    with job.at("progress.jsonl").open("a") as file:
        for progress in query.recentProgress:
            if progress["batchId"] > told and "kleene" in progress["observedMetrics"]:
                told = progress["batchId"]
                file.write(json.dumps({"batch": told, **progress["observedMetrics"]["kleene"].asDict()}) + "\n")
    return told


if __name__ == "__main__":
    sys.exit(main())
