"""Structured Streaming: rows packed by bucket, the stateful operator, sinks, and rules as a source of their own.

`packing` makes Arrow streams of rows before the shuffle, `operator` is the stateful operator, `run` the DataFrames and the
query that writes them, `output_folders` guards exactly-once files, `event_time` the times by which Spark moves its watermark,
`rules` queries that change. What happens in a bucket is in `kleene.runtime.stream`, which runs without Spark.
"""
