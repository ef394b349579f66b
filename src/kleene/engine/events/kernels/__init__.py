"""Loops over events: keys as codes, and what lies within a window of an event or beside it."""
