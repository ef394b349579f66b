"""A stream without Spark: the log of a bucket of keys, its state as bytes, and its matchers, micro-batch by micro-batch.

A bucket has one log for all its queries: events as they came, in segments that are written once and dropped when every query's
horizon has passed them. Nothing else grows with the events. The header has the watermark, the horizons, counters that nothing
else tells, and digests: of each segment, and its own. A bucket that stays in the same Python worker compares that one and has
its matchers still; elsewhere they are restored from the log. A query is known by a key that changes with its text and options;
queries are matched together only if they started at the same watermark, so that a change of one leaves the others what
they were.
"""
