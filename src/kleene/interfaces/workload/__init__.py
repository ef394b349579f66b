"""Workloads: named queries over the same events, from folders and tables too, and their passes on Spark.

`workload` is what users hold, `sources` reads queries from folders and tables, `spark` runs them in as few passes as possible.
What is matched together is decided below, in `kleene.interfaces.composition` and `kleene.runtime.units`.
"""
