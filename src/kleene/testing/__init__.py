"""The oracle, which says slowly and plainly what the answer must be, and what tests need: cases, routes, random queries.

It imports nothing of plan, engine, runtime and interfaces: a mistake that both made would be invisible.
"""
