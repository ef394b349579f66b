"""Queries that change while a stream runs: a folder or table that is watched, and its snapshots."""
