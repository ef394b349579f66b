"""Queries that are matched together, or read each other's matches (`RETURN ... INTO`).

`queries` puts them into tiers, those that make events before those that read them, each with its plans; `shared` says by which
plans some may be matched together; `composites` makes events of matches. Whoever runs them takes the units of a tier
(`kleene.runtime.units`).
"""
