"""From a bound query to a plan: plain data that says which mechanism answers it, and what is decided where.

`optimizer` has the list of `stages`, each of which adds to a `draft` what it decides. What comes out is a `Plan` (`contract`).
A `PatternPlan` (`patterns`) finds matches, with what each alternative needs from `lazy` (an order of binding, or stacks) or
from `automaton`; a `CounterPlan` (`counting`) counts without them; a `MatchThenAggregate` (`aggregation`) is over the matches
of a `PatternPlan`. `multi` plans many patterns at once, `distribution` says how a plan may be cut for tasks. What they share
is in `operators`, `analysis` and `order`. Plans are shown by `kleene.explain` and executed by `kleene.engine`.
"""
