"""Rows on their way in: which matter (`scan`), which are kept (`working_set`), by partition (`grouping`, `placed`).

Conditions on single events that compare one column with constants are decided together (`conditions`, `constants`): once for
each class of values that the constants do not tell apart.

Within a pass, rows are grouped by the values of the partition attributes: a dense code per combination of values, then a
counting sort. A row's position in that order is its *place*. Kernels see only places: each partition is a contiguous segment in
stream order, and a column that they read is first brought into that order. `Groups.order[place]` leads back to the row.
`ranking` orders a list of places by value, for those who ask for a few of very many.
"""
