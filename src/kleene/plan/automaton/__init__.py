"""SASE+ (2008): an NFA^b for each alternative, with every condition on the edge where it is decided.

`automaton` compiles an alternative by the steps of the paper, `nfa` adds what its runs need: negation, merging, queues. What
is true of any way to find matches is in the `PatternPlan` around it.
"""
