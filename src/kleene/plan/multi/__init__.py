"""One plan for many patterns (2019): a multi-pattern multitree, found by local search.

Alternatives become clauses without names, so that equal sub-patterns are recognised (`clauses`, `graph`); trees of clauses
share nodes (`nodes`), which have a cost (`cost`); `local`, `moves` and `search` look for the cheapest. `groups` says which
queries can share at all.
"""
