"""Lazy evaluation (2015): conditions and order constraints of each alternative, and the choice of a chain, a tree or stacks.

`lazy` has the conditions between events, `stacks` what active instance stacks would decide, `choice` the alternatives and
their cost. The order of binding is left to each pass (`kleene.engine.lazy.order_planner`), as the events decide it.
"""
