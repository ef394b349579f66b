"""Loops of lazy evaluation: candidates in scope, and partial matches extended by them.

`chain` finds the scopes of partial matches, in a given order or in that of the fewest candidates; `extension` binds the next
component. Both know sets of components and ranges of places, no orders: these are chosen in `order_planner`.
"""
