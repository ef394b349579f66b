"""Where the events are: in this process, on Spark, in a stream. Feeds matchers, and makes results of what they yield.

`stream` has all of a stream that does not need Spark; `units` says which queries are matched together; `rules` are queries that
change while a stream runs.
"""
