"""Loops of the counters: without a window, on two stacks, by marking, by tries; sums over partitions and slices of time.

`prefixes` counts without a window, `counting` on two stacks, `marking` with counters for each start event, `trie_counting`
what is only counted, `pairs` and `links` patterns with a comparison; `totals` and `slices` add up partitions and slices of
time. `tables` has what they read and write, with the paper's symbols. Which of them serves a query is decided in `counters`,
not here.
"""
