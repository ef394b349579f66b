"""The tables that automata are executed on: which row, slot or entry holds what; see `kleene.engine.automaton.kernels.nfa`."""

from __future__ import annotations

import numpy as np

# Rows of `components`.
BEGIN_BIT, TAKE_BIT, KLEENE, LOW, HIGH, PLACE_SLOT, LAST_SLOT, LENGTH_SLOT, FIRST_ACCUMULATOR, END_ACCUMULATORS = range(10)
TAKES_ALONE = 10
"""Whether a lone run takes every event that the search for its next event finds by its take bit."""
FILTERED = 11
"""The first of SITES rows: whether a site has conditions."""
SITES = 7
COMPONENT_FIELDS = FILTERED + SITES
SITE_TAKE, SITE_FURTHER, SITE_PROCEED, SITE_BEGIN, SITE_FIRST, SITE_OPEN, SITE_WAITING = range(SITES)
"""What the filter decides: the conditions of the take edge, of a further element, of proceed and begin edges, of a first
element; and, for a run alone in a Kleene state or waiting, which is the next event that concerns it.
"""

# Rows of `flags`: which runs take and begin (also with regard to what each element must satisfy), and which stand and agree.
TAKEN, BEGUN, FURTHER_TAKEN, FIRST_BEGUN, STANDING = range(5)
FLAG_ROWS = 5
ALIVE, AGREES = 1, 2
"""Bits of STANDING: the run's window has not passed; its partition and tests are those of the event."""
FAILING = 2
"""In `flags`, of an edge of which something fails and nothing else is against it; only filters that look for errors say so."""

# Slots of every run.
NODE, START, LAST, DIGIT_OF_RUN, SIZE, OLDEST = range(6)
META = 6

# Rows of `nodes`.
EVENT, COMPONENT, PREVIOUS, OTHER, YOUNGEST, DIGIT, FORK = range(7)
NODE_FIELDS = 7

GONE = -2
"""What a node names in place of one that was let go of: its matches have all left the window."""

INTEGER, FLOAT, INTEGER_COLUMN, FLOAT_COLUMN, POSITIVE = range(5)
"""What two runs are compared by: a slot, the value of a column at the place in a slot, or whether a slot is positive."""

# Rows of `found`: the node of the last event, and its place.
FOUND_NODE, FOUND_PLACE = range(2)

# Operations of accumulators.
COUNT_VALID, SUM, MINIMUM, MAXIMUM, FLOAT_SUM, FLOAT_MINIMUM, FLOAT_MAXIMUM, MEAN, INTEGER_MEAN = range(9)

# Strategies.
ANY, NEXT, PARTITION, STRICT = range(4)

# Entries of `state`.
(
    SEGMENT,
    POSITION,
    FRESH,
    LIVE,
    USED,
    FOUND,
    STARTS,
    MERGED,
    STEPS,
    EARLIEST,
    POSTPONED,
    STARTED,
    PEAK,
    CREATED,
    FAILED,
) = range(15)
STATE_FIELDS = 15

# Algorithms.
BASIC, MERGING, BACKTRACK = range(3)

DONE, FOUND_FULL, NODES_FULL, RUNS_FULL, RUN_LIMIT, POSTPONED_FULL = range(6)

NOTHING = np.iinfo(np.int64).max
