"""Why a query does not match: the query is run again without one of its constraints, and the matches it gains are examined.

`why_not` runs the relaxed queries (`kleene.pattern.relax`), `misses` decides which constraint a combination of events breaks,
and by how much, `stream` has events and combinations as arrays, `report` is the result. The engine's own evaluator decides
every condition, so that conditions have one meaning only.
"""
