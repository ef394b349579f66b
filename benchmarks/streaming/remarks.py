"""What the tables and figures of the streaming experiments mean; no measured numbers."""

from __future__ import annotations

from benchmarks.streaming.latency import EVERY, KEYS
from benchmarks.streaming.memory import HEAP, WINDOW
from benchmarks.streaming.streams import NAMED, TYPES
from benchmarks.streaming.throughput import MANY

OPENING = """\
Queries over streaming DataFrames, on two cores (`local[2]`, two shuffle partitions), with state in RocksDB and changelog
checkpointing. The query has three steps and a key:

```
PATTERN SEQ(A a, B b, C c) WHERE [key] WITHIN W RETURN a.ts AS t1, b.ts AS t2, c.ts AS t3
```

Streams are Parquet files of `ts`, `type` and `key`, two files for each micro-batch."""

MEASURED = {
    "memory": "one run, memory after every micro-batch",
    "latency": "one run, all matches after the first micro-batches",
}

REMARKS: dict[str, str] = {
    "throughput": f"""\
*Pass-through* is the stateful operator that there would be without matching: the same events in the same packets go to
`transformWithState`, which counts packets and gives a row for each. *Stateless* shuffles the same events by key to a
`mapInArrow` that drops them. *A state per key* is how Spark's operator is used otherwise: rows, and a counter as the state of
each key; it is given fewer events, and compared per event. Of {len(TYPES)} types, {len(NAMED)} are in the query, and only their
events are shuffled, whoever does it; of {len(NAMED)} types, all. Time is that from the second micro-batch on: starting a
stream, which includes starting Python, is left out. Micro-batches have 500,000 events at full scale.

With {MANY:,} keys a window has to be as long as a micro-batch for anything to match, and that window is part of what a key is
said to cost.""",
    "memory": f"""\
Resident memory is that of the JVM, whose heap may have {HEAP}, and of its Python workers, with their part of what processes
share. The window has {WINDOW:,} events, less than a micro-batch; an event stays until the watermark, which is that of the
micro-batch before, has passed its window. In the second stream half of the keys have no events after the first quarter.""",
    "latency": f"""\
A process writes a file with {KEYS} matches every {EVERY:g} seconds; time is that of the clock. Latency counts from the moment
a file is complete to the moment a function in the sink (`foreachBatch`) has its matches. An event is matched when the watermark
has passed it: it takes a micro-batch to see a later event, and another one that knows of it. So it waits for the watermark's
delay, and for two to three micro-batches, which follow each other or begin every second. *Stateless* passes events of the same
files to the same sink. Spark's real-time mode has no stateful operators in Python.""",
}
