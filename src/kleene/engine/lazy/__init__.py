"""Lazy evaluation (2015): partial matches extended in any order, the rarest events first.

A pass lists, per component, the places that it can bind. A partial match is a column of places. To bind the next component its
*scope* is computed: after the latest bound event that must precede it, before the earliest that must follow it, in the window
that the bound events leave, in their partition. The candidates in scope are a range of the list, found by binary search, or in
tables that are made for all events where there are many scopes to find; a sixteenth of the first events bound tells how many.
The filter is given the range and a mask of the conditions whose last variable is bound now, and leaves those that satisfy them.
Where that range has very many candidates, and a comparison leaves few of them, they are looked up by value first (`look_up`).
Which set of components is bound decides everything, so a chain and a tree use the same program. Blocks are extended depth
first, so memory is a block per component, and the kernel continues where a full block stopped it.

A match belongs to the pass, and within it to the stretch, in which its last event lies: scopes end where the stretch ends, and
what is bound last must lie in it if nothing else does. So orders can change at any row, and nothing is found twice.
"""
