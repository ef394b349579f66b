"""Slices of time on Spark: when events are, hot keys, events on their way to slices, and the tasks."""
