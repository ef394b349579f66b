"""SASE+ (2008): runs of an NFA^b, and the shared match buffer.

A live run is a column of numbers: its node in the buffer, the place of its first event, and what conditions will read, as
places of events (through which every attribute can be read), lengths and aggregates. Runs are kept by automaton state, so a
filter decides an edge for all runs of a state at once. An event that concerns no state is passed over; a run that is alone
looks for its own next event in one loop; and where many runs wait for an equality or an order comparison with the event, an
index gives those that it may hold for.

The buffer is a table of nodes: an event, its component, and the node of the event selected before it. A match is a path from
its last node back to a node without a previous one. Runs at one state with the same values in all that later conditions read
are merged into one: a *union* node names both histories, and carries the youngest start among them, so paths that have left the
window are passed over when matches are read. The buffer grows with the runs and not with the matches, whose number may be
exponential. Nodes name only earlier nodes, so old ones are evicted by cutting off the beginning of the table. A pass keeps the
events since the oldest start of a run that is still alive, inside the window, and rebuilds those runs.

Compressed output is the part of this table that the ends of some matches reach, as Arrow lists. Counting the paths is one pass
over the nodes.
"""
