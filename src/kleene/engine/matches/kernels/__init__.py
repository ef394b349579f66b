"""Loops over blocks of matches: ids, forbidden events, lists of elements, matches that overlap.

`identity` hashes events and matches, `negation` looks for forbidden events, `lists` goes through the elements of Kleene
variables, `apart` chooses matches that do not overlap. Kernels of one mechanism belong to that mechanism.
"""
