"""The oracle, which says slowly and plainly what the answer must be, and case files with the routes that they are checked on.

It imports nothing of plan, engine, runtime and interfaces: a mistake that both made would be invisible.
"""
