"""From a bound query to a plan: plain data that says which mechanism answers it, and what is decided where.

`optimizer` chooses. Each mechanism has its plan (`sequence`, `lazy`, `automaton`, `counting`, and `aggregation` over the
matches of another plan); `multi` plans many patterns at once; `distribution` says how a plan may be cut for tasks. What they
share is in `operators`, `analysis` and `order`. Plans are shown by `kleene.explain` and executed by `kleene.engine`.
"""
