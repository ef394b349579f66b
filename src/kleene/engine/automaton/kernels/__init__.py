"""Loops of the automata: runs and their memory, merging, the match buffer, a queue where all runs that wait are alike."""
