"""The tables that automata are executed on: which row, slot or entry holds what; see `kleene.engine.automaton.kernels.nfa`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kleene.common.arrays import Array

# Rows of `components`.
BEGIN_BIT, TAKE_BIT, KLEENE, LOW, HIGH, PLACE_SLOT, LAST_SLOT, LENGTH_SLOT, FIRST_ACCUMULATOR, END_ACCUMULATORS = range(10)
TAKES_ALONE = 10
"""Whether a lone run takes every event that the search for its next event finds by its take bit."""
FILTERED = 11
"""The first of SITES rows: whether a site has conditions."""
SITES = 11
COMPONENT_FIELDS = FILTERED + SITES
SITE_TAKE, SITE_FURTHER, SITE_PROCEED, SITE_BEGIN, SITE_FIRST, SITE_OPEN, SITE_WAITING = range(7)
"""What the filter decides: the conditions of the take edge, of a further element, of proceed and begin edges, of a first
element; and, for a run alone in a Kleene state or waiting, which is the next event that concerns it.
"""
SITE_TAKE_KEY, SITE_TAKE_BOUND, SITE_BEGIN_KEY, SITE_BEGIN_BOUND = range(7, SITES)
"""What it computes: the keys of runs in an index over those that wait to take or to begin, and what an event looks up there."""

BEGINS, TAKES, MERGES = range(3)
"""Rows of `Nfa.indexes`: what a state's index is for."""
HASHED, ORDERED = 1, 2
"""Kinds of indexes: for equality, and for order comparisons."""
LINKED, SIZE_OF_INDEX, MERGED_UPTO, REST, PENALTY = range(5)
"""Entries of `Runs.indexes`: how many runs the index has, its buckets; how many runs are known to differ from each other; for
how many events it is not asked, and how long it rests if it gives too many runs again.
"""
INDEX_FIELDS = 5

# Rows of `flags`: which runs take and begin (also with regard to what each element must satisfy), and which stand and agree.
# They are those of the runs in `chosen`, in its order; MARKED is by run.
TAKEN, BEGUN, FURTHER_TAKEN, FIRST_BEGUN, STANDING, MARKED = range(6)
FLAG_ROWS = 6
ALIVE, AGREES = 1, 2
"""Bits of STANDING: the run's window has not passed; its partition and tests are those of the event."""
FAILING = 2
"""In `flags`, of an edge of which something fails and nothing else is against it; only filters that look for errors say so."""

# Slots of every run: its computation state (SASE+ section 5.2.1, figure 5). The automaton's state is where the run is kept.
# NODE: the pointer to the event that was selected last.
# START: the time of the start, as a place; of merged runs that of the youngest.
# LAST: the place of the event that was selected last.
# DIGIT_OF_RUN: the last digit of the version number, a Dewey number; those before it are in the nodes.
# SIZE: how many events were selected. OLDEST: the start of the oldest of merged runs.
# From META on: a code for each test, and then the vector V: what conditions read.
NODE, START, LAST, DIGIT_OF_RUN, SIZE, OLDEST = range(6)
META = 6

HOLE = -1
"""The start of a run that has left its state."""

# Rows of `nodes`, the versioned buffer (section 5.1). PREVIOUS is the pointer that the paper labels with a version number; its
# last digit is DIGIT, and FORK the digit of the Kleene state that the run came from. OTHER is the second pointer of a union
# (merged runs, section 5.2.2), YOUNGEST the latest start of all histories.
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
    HOLES,
    SWEPT,
) = range(17)
STATE_FIELDS = 17

# Algorithms.
BASIC, MERGING, BACKTRACK = range(3)

DONE, FOUND_FULL, NODES_FULL, RUNS_FULL, RUN_LIMIT, POSTPONED_FULL = range(6)

NOTHING = np.iinfo(np.int64).max


class Nfa(NamedTuple):
    """An NFA^b (section 4.1) as tables, see `kleene.engine.automaton.run_program`."""

    components: Array
    """A column for each component; the rows are named above."""
    accumulators: Array
    """What a selected event adds to V, in the order of components."""
    merge_reads: Array
    """What the conditions after each state read of a run: runs that agree on it have the same future."""
    merge_bounds: Array
    indexes: Array
    """The number of each state's indexes, by purpose; -1 for none."""


class Policy(NamedTuple):
    """How the runs of a pass are evaluated."""

    window: int
    strategy: int
    order_matters: bool
    """Whether there are simultaneous events."""
    algorithm: int
    non_overlap: bool
    """Whether runs end that overlap a reported match."""
    candidates: bool
    """Whether only those end that start no later than it: see `kleene.engine.matches.candidates`."""
    relevant: int
    """The bits of all components."""
    emit_from: int
    """The first row whose matches are asked for."""
    most_runs: int
    few: int
    """In states with fewer runs all of them are looked at."""


class Runs(NamedTuple):
    """The live runs, by state: `slots[state, slot, k]` and `floats[state, slot, k]` are what run k of a state knows."""

    slots: Array
    floats: Array
    counts: Array
    """How many runs each state has, holes included."""
    touched: Array
    """Which states have runs that may have become equal; of state 0, whether any has."""
    moved: Array
    """Which states have runs in other places, or with other values, than their indexes say."""
    flags: Array
    """What the edges decide for the runs of a state that an event may concern."""
    chosen: Array
    """Those runs."""
    keys: Array
    """`keys[x, k]` is the key of run k in index x; see `kernels/waiting.py`."""
    links: Array
    heads: Array
    indexes: Array
    """How far each index is; the entries are named above."""
    scratch: Array
    """Room for the elements that a filter walks over."""


class Postponed(NamedTuple):
    """Runs that wait while another one is followed (section 5.2.3): the slots of each, its state, and where it goes on."""

    slots: Array
    floats: Array


class Buffer(NamedTuple):
    """The shared versioned buffer (section 5.1), and the nodes in it where matches end."""

    nodes: Array
    found: Array
