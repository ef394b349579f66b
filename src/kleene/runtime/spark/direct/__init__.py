"""Parquet files that tasks read themselves, by time, without a shuffle.

A DataFrame that is nothing but a scan of Parquet files is planned from their footers: the statistics of the time column say
which row groups a slice of time needs (`scan`, `footers`, `route`). A task reads these with pyarrow, and matches all keys of
its slice. Any other DataFrame, and whatever pyarrow and Spark might read differently, takes the ordinary route; so the answer
never depends on the route. No Spark plan is changed here, and nothing is written.
"""
