"""Queries over streaming DataFrames: what they cost beside an operator that passes events through, and what they keep."""
