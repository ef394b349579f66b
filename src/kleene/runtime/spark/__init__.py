"""Everything that imports pyspark but the command: DataFrames in, DataFrames of matches out.

`batch` runs a plan; `slices` cuts the time of what no key divides; `stream` is Structured Streaming.
"""
