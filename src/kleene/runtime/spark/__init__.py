"""Everything on Spark, and all that imports pyspark but a few interfaces: DataFrames in, DataFrames of matches out.

`batch` runs a plan; `slices` cuts the time of what no key divides; `stream` is Structured Streaming.
"""
