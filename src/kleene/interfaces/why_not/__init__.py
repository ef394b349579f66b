"""Why a query does not match: the query without one of its constraints, asked again, and what combinations of events break.

`why_not` asks the engine again with a constraint left out (`kleene.pattern.relax`), `misses` says which constraint a
combination breaks and by how much, `stream` has events and combinations as arrays, `report` what users read. The engine's own
evaluator decides every condition: a second meaning of one does not belong here.
"""
