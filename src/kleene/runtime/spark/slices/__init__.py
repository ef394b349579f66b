"""Slices of time on Spark: where time is cut, hot keys, events on their way to slices, counters and totals over them."""
