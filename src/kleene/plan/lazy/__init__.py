"""Lazy evaluation (2015): conditions and order constraints of each alternative, and the choice of a chain, a tree or stacks."""
