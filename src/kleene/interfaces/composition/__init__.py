"""Queries that are matched together, or read each other's matches (`RETURN ... INTO`)."""
