"""Ordinary queries that cost much more than their neighbours: each beside its own baseline, with a goal.

`line.py` says what a line is; the lines are in `columns.py` (what columns hold and how tables lie), `between.py` (conditions
between events) and `first.py` (the first use).
"""
