"""Reading and pruning the shared match buffer (SASE+ sections 5.1 and 5.3); see `kleene.engine.kernels.nfa` for its layout.

A match is a path from its last node to a node without a previous one; at a union both ways are matches. A node whose youngest
start has left the window has no match any more. Cost of reading: the length of the matches read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kleene.engine.kernels import kernel
from kleene.engine.kernels.layout import (
    COMPONENT,
    EVENT,
    FOUND_NODE,
    FOUND_PLACE,
    GONE,
    NODE,
    OLDEST,
    OTHER,
    PREVIOUS,
    YOUNGEST,
)

Array = np.ndarray[Any, Any]

# Entries of `cursor`: where reading goes on.
ENTRY, DEPTH_OF_STACK, MATCHES, OF_EVENT, AT_EVENT = range(5)

READ, FULL, TOO_LONG, STACK_FULL, MATCH_LIMIT = range(5)


@kernel
def read_matches(
    found: Array,
    count: int,
    nodes: Array,
    clock: Array,
    window: int,
    kleene: Array,
    most: int,
    limited: bool,
    stack: Array,
    path: Array,
    cursor: Array,
    singles: Array,
    offsets: Array,
    elements: Array,
) -> int:
    """Writes the matches of the entries of `found`, until all are read or there is no room for the next one.

    `singles[c, m]` is the event of a single component, `elements[c, offsets[c, m]:offsets[c, m + 1]]` those of a Kleene
    component. `stack` holds (node, length of the path above it) of the ways not yet taken; `path` the nodes from the last one
    on. No more than `most` matches of one event are read: at the limit reading stops, or, with `limited`, goes on with the
    next event.
    """
    components = kleene.size
    entry = cursor[ENTRY]
    top = cursor[DEPTH_OF_STACK]
    matches = 0
    status = READ
    while True:
        if top == 0:
            if entry == count:
                break
            if found[FOUND_PLACE, entry] != cursor[AT_EVENT]:
                cursor[AT_EVENT] = found[FOUND_PLACE, entry]
                cursor[OF_EVENT] = 0
            stack[0, 0] = found[FOUND_NODE, entry]
            stack[1, 0] = 0
            top = 1
            entry += 1
        now = clock[found[FOUND_PLACE, entry - 1]]
        if limited and cursor[OF_EVENT] >= most:
            top = 0
            continue
        # Down the first way of what is on top of the stack.
        node = stack[0, top - 1]
        depth = stack[1, top - 1]
        base = top - 1
        taken = node
        above = depth
        while node >= 0:
            if base + 1 >= stack.shape[1] or depth + 1 >= path.size:
                status = STACK_FULL
                break
            if now - clock[nodes[YOUNGEST, node]] >= window:
                node = GONE
            elif nodes[OTHER, node] != -1:
                # The younger way first.
                one = nodes[PREVIOUS, node]
                other = nodes[OTHER, node]
                if one == GONE or (other != GONE and nodes[YOUNGEST, other] > nodes[YOUNGEST, one]):
                    one, other = other, one
                stack[0, base] = other
                stack[1, base] = depth
                base += 1
                node = one
            else:
                path[depth] = node
                depth += 1
                node = nodes[PREVIOUS, node]
        if status == READ and node == GONE:
            top = base
            continue
        if status == READ and cursor[OF_EVENT] >= most:
            status = MATCH_LIMIT
        if status != READ:
            stack[0, top - 1] = taken
            stack[1, top - 1] = above
            break
        fits = matches < singles.shape[1]
        if fits:
            for component in range(components):
                if kleene[component]:
                    offsets[component, matches + 1] = offsets[component, matches]
            for step in range(depth - 1, -1, -1):
                component = nodes[COMPONENT, path[step]]
                event = nodes[EVENT, path[step]]
                if kleene[component]:
                    end = offsets[component, matches + 1]
                    if end == elements.shape[1]:
                        fits = False
                        break
                    elements[component, end] = event
                    offsets[component, matches + 1] = end + 1
                else:
                    singles[component, matches] = event
        if not fits:
            status = FULL if matches > 0 else TOO_LONG
            stack[0, top - 1] = taken
            stack[1, top - 1] = above
            break
        matches += 1
        cursor[OF_EVENT] += 1
        top = base
    cursor[ENTRY] = entry
    cursor[DEPTH_OF_STACK] = top
    cursor[MATCHES] = matches
    return status


@kernel
def prune(nodes: Array, used: int, runs: Array, counts: Array, clock: Array, place: int, window: int) -> int:
    """Lets go of nodes that no match from `place` on can have; returns how many are left.

    They are those made before the oldest start of a live run, or before the window of the event at hand.
    """
    oldest = place
    for s in range(counts.size):
        for k in range(counts[s]):
            oldest = min(oldest, runs[s, OLDEST, k])
    base = 0
    while base < used:
        event = nodes[EVENT, base]
        if event >= oldest and (event >= place or clock[place] - clock[event] < window):
            break
        base += 1
    for field in range(nodes.shape[0]):
        for node in range(base, used):
            value = nodes[field, node]
            if field in (PREVIOUS, OTHER) and value >= 0:
                value = value - base if value >= base else GONE
            nodes[field, node - base] = value
    for s in range(counts.size):
        for k in range(counts[s]):
            # A run that has left the window may still be there until the next event that concerns it.
            runs[s, NODE, k] = runs[s, NODE, k] - base if runs[s, NODE, k] >= base else GONE
    return used - base
