"""Loops of the automata: runs and their memory, merging, the match buffer, a queue where all runs that wait are alike.

`nfa` goes through the events, `edges` puts one event to the runs of a segment, `run_state` changes a run, `merging` makes one
of runs that have the same future, `match_buffer` reads matches, `queue` is for runs that need no state, `compressed` for
output that is not enumerated. `layout` names every row, slot and entry. No condition is decided here: that is what the
compiled filter is for.
"""
