"""Loops over blocks of matches: ids, forbidden events, lists of elements, matches that overlap."""
