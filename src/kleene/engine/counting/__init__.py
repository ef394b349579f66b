"""A-Seq (2014): aggregates by counters, without matches.

A cell counts the matches of a segment, which is some consecutive positions of a pattern. An event at position j adds to each
segment that ends there what the segment without it counts. Two stacks bring in the window: the back counts all segments since
the last turn, the front holds, for each start event before it, the counts of prefixes from there to the turn. A value is a sum
of products, one for each place to cut the pattern. When the front has expired, the events behind are gone over backwards, and
their prefixes are the new front. Sums and largest values are cells too, carried along. Nothing is ever subtracted, so that
overflow is seen, and floats do not drift.

Patterns that are only counted, as most are, need no table of operations: a trie of their beginnings has the counts that an
event changes side by side, so it is one addition of four, without a branch, and the same going backwards. A trie of ends is
that of the patterns read backwards, with both directions exchanged. What the back has at a trigger is noted, and the values are
computed for hundreds of triggers at a time.

A comparison of two neighbours is counted by the order of its values, in sums over pairs that are taken back as events expire
(`pairs`): by differences, so only what is exact.

Marking (the paper's SEM) keeps the cells of prefixes (PreCntr) for each live start event instead, side by side, so that one
operation runs over all of them. Both know cells by content: what two queries have in common is one cell.
"""
