"""Where the events are: in this process, on Spark, in a stream. Feeds matchers, and makes results of what they yield.

`units` says which queries are matched together, for every runtime: `embedded` runs units over tables in this process, `spark`
in tasks, `stream` (all of a stream that does not need Spark) between watermarks. `rules` are queries that change while a stream
runs.
"""
