"""Conditions and values over events: over columns (`vectorized`, `scalar`), and as compiled filters (`filters`).

The conditions of all levels become one generated function, `filter(level, bound, stack, selected, n, ...)`, compiled by numba
and called through a pointer. A condition is a pair of bits (is true, is false) and a value a pair (number, is known), so
three-valued logic needs no branches. Strings become ranks. Integer overflow is noted, and becomes a `DataError` where it is an
error of the answer. Constants are an argument, so conditions that differ in nothing else share a filter: a rule whose constants
change compiles nothing and adds nothing to memory. (Divisors of `%` are written into the code, for speed.) A long `IN` list is
a sorted part of that argument, and searched. `scale` has values as integers, for what looks events up by value.
"""
