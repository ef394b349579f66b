"""How plans may be cut for tasks: slices of time, and the fewest passes over data for queries of different keys.

`slicing` says where time is cut and what a task needs of the events before, `passes` which queries share a shuffle. Neither
knows Spark, nor how a task gets its events.
"""
