"""Loops over events: keys as codes, and what lies within a window of an event or beside it.

`keyed` looks events up by key, `windows` finds what lies within a window. `tables` has the tuples of arrays that the kernels
of all mechanisms share. What a mechanism does with its events belongs to its own kernels.
"""
