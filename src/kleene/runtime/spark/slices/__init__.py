"""Slices of time on Spark: when events are, hot keys, events on their way to slices, and the tasks.

`times` samples when events are, `skew` finds hot keys, `blocks` packs events for their slices, `tasks` is the one job that
matches or counts them. Which slices there are is decided in `kleene.plan.distribution.slicing`, and what a task does with its
own in `kleene.engine.time_slices`: neither needs Spark.
"""
