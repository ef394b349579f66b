"""Reading and pruning the shared match buffer (SASE+ sections 5.1 and 5.3); see `kleene.engine.automaton.kernels.nfa` for its
layout.

A match is a path from its last node to a node without a previous one; at a union both ways are matches. A node whose youngest
start has left the window has no match any more. Cost of reading: what a match does not have in common with one read before, and
copying what it has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.automaton.kernels.layout import (
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
    Buffer,
    Runs,
)
from kleene.engine.kernels import inlined, kernel

# Entries of `cursor`: where reading goes on, and the number of the first match that this call reads.
ENTRY, DEPTH_OF_STACK, MATCHES, OF_EVENT, AT_EVENT, NUMBER = range(6)
CURSOR_FIELDS = 6

# Rows of `written`: of the matches of a detection that have a node, the number of the first (-1: none), how many they are, and
# how many events of the node's component they have after it, which are not copied.
FIRST_MATCH, HOW_MANY, AFTER = range(3)

# Rows of `path`: the nodes from the last one on, and how many events of its component a match has after each.
ON_PATH, AFTER_IT = range(2)

READ, FULL, TOO_LONG, STACK_FULL, MATCH_LIMIT = range(5)


class Reading(NamedTuple):
    """Where reading stands: what the kernel knows from call to call."""

    stack: Array
    """(Node, length of the path above it) of the ways not yet taken."""
    path: Array
    written: Array
    """Which matches of this call begin with all that is below a node."""
    cursor: Array


class Block(NamedTuple):
    """Matches: `singles[c, m]` is the event of a single component, `elements[c, offsets[c, m]:offsets[c, m + 1]]` those of a
    Kleene component, `begun[m]` the first event.
    """

    begun: Array
    singles: Array
    offsets: Array
    elements: Array


def nothing_written(nodes: int) -> Array:
    """`written` for so many nodes, before anything is read."""
    written = np.empty((3, nodes), np.int32)
    written[FIRST_MATCH] = -1
    return written


@inlined
def _copy(model: int, node: int, match: int, written: Array, nodes: Array, kleene: Array, out: Block) -> bool:
    """Begins a match as another one does, up to a node; without a node, with nothing. False if there is no room."""
    own = nodes[COMPONENT, node] if node >= 0 else -1
    for component in range(kleene.size):
        if not kleene[component]:
            if component <= own:
                out.singles[component, match] = out.singles[component, model]
            continue
        end = out.offsets[component, match]
        if component <= own:
            begin = out.offsets[component, model]
            common = out.offsets[component, model + 1] - begin - (written[AFTER, node] if component == own else 0)
            if end + common > out.elements.shape[1]:
                return False
            source = out.elements[component, begin : begin + common]
            target = out.elements[component, end : end + common]
            for position in range(common):
                target[position] = source[position]
            end += common
        out.offsets[component, match + 1] = end
    return True


@inlined
def _append(path: Array, depth: int, match: int, nodes: Array, kleene: Array, out: Block) -> bool:
    """Adds the events of a path, whose last node comes first. False if there is no room."""
    for step in range(depth - 1, -1, -1):
        component = nodes[COMPONENT, path[ON_PATH, step]]
        event = nodes[EVENT, path[ON_PATH, step]]
        if kleene[component]:
            end = out.offsets[component, match + 1]
            if end == out.elements.shape[1]:
                return False
            out.elements[component, end] = event
            out.offsets[component, match + 1] = end + 1
        else:
            out.singles[component, match] = event
    return True


@inlined
def _note(path: Array, begin: int, end: int, number: int, count: int, written: Array) -> None:
    """Notes which matches have the nodes [begin, end) of a path."""
    for step in range(begin, end):
        node = path[ON_PATH, step]
        written[FIRST_MATCH, node] = number
        written[HOW_MANY, node] = count
        written[AFTER, node] = path[AFTER_IT, step]


@kernel
def read_matches(
    buffer: Buffer, clock: Array, window: int, kleene: Array, most: int, limited: bool, reading: Reading, out: Block
) -> int:
    """Writes the matches of the entries of `found`, until all are read or there is no room for the next one.

    A run that goes on for long is detected over and over: `written` says which matches of this call begin with all that is
    below a node, and the next detection only copies that. No more than `most` matches of one event are read: at the limit
    reading stops, or, with `limited`, goes on with the next event.
    """
    found = buffer.found
    nodes = buffer.nodes
    stack = reading.stack
    path = reading.path
    written = reading.written
    cursor = reading.cursor
    begun = out.begun
    entry = cursor[ENTRY]
    top = cursor[DEPTH_OF_STACK]
    first = cursor[NUMBER]
    matches = 0
    status = READ
    opened = -1  # the first match of the detection at hand, if this call began it
    stem = -1  # how many nodes of the path are above its first union, if it has one
    while True:
        if top == 0:
            if opened >= 0:
                _note(path, 0, stem, first + opened, matches - opened, written)
            if entry == found.shape[1]:
                break
            if found[FOUND_PLACE, entry] != cursor[AT_EVENT]:
                cursor[AT_EVENT] = found[FOUND_PLACE, entry]
                cursor[OF_EVENT] = 0
            stack[0, 0] = found[FOUND_NODE, entry]
            stack[1, 0] = 0
            top = 1
            entry += 1
            opened = matches
            stem = -1
        now = clock[found[FOUND_PLACE, entry - 1]]
        if limited and cursor[OF_EVENT] >= most:
            top = 0
            opened = -1
            continue
        # Down the first way of what is on top of the stack.
        node = stack[0, top - 1]
        depth = stack[1, top - 1]
        base = top - 1
        taken = node
        above = depth
        own = depth  # from here on the path is that of the matches which are read next, and of no others
        known = -1
        while node >= 0:
            if base + 1 >= stack.shape[1] or depth + 1 >= path.shape[1]:
                status = STACK_FULL
                break
            if now - clock[nodes[YOUNGEST, node]] >= window:
                node = GONE
            elif nodes[OTHER, node] != -1:
                if stem < 0:
                    stem = depth
                own = depth
                # The younger way first.
                one = nodes[PREVIOUS, node]
                other = nodes[OTHER, node]
                if one == GONE or (other != GONE and nodes[YOUNGEST, other] > nodes[YOUNGEST, one]):
                    one, other = other, one
                stack[0, base] = other
                stack[1, base] = depth
                base += 1
                node = one
            elif written[FIRST_MATCH, node] >= first and cursor[OF_EVENT] + written[HOW_MANY, node] <= most:
                known = node
                break
            else:
                alike = depth > 0 and nodes[COMPONENT, path[ON_PATH, depth - 1]] == nodes[COMPONENT, node]
                path[ON_PATH, depth] = node
                path[AFTER_IT, depth] = path[AFTER_IT, depth - 1] + 1 if alike else 0
                depth += 1
                node = nodes[PREVIOUS, node]
        if status == READ and node == GONE:
            top = base
            continue
        if status == READ and known < 0 and cursor[OF_EVENT] >= most:
            status = MATCH_LIMIT
        if status != READ:
            opened = -1
            stack[0, top - 1] = taken
            stack[1, top - 1] = above
            break
        model = written[FIRST_MATCH, known] - first if known >= 0 else 0
        models = written[HOW_MANY, known] if known >= 0 else 1
        before = matches
        fits = matches + models <= out.singles.shape[1]
        for source in range(model, model + models):
            if known >= 0 and now - clock[begun[source]] >= window:
                continue
            fits = (
                fits
                and _copy(source, known, matches, written, nodes, kleene, out)
                and _append(path, depth, matches, nodes, kleene, out)
            )
            if not fits:
                break
            begun[matches] = begun[source] if known >= 0 else nodes[EVENT, path[ON_PATH, depth - 1]]
            matches += 1
        if not fits:
            matches = before
            status = FULL if matches > 0 else TOO_LONG
            stack[0, top - 1] = taken
            stack[1, top - 1] = above
            break
        _note(path, own, depth, first + before, matches - before, written)
        cursor[OF_EVENT] += matches - before
        top = base
    cursor[ENTRY] = entry
    cursor[DEPTH_OF_STACK] = top
    cursor[MATCHES] = matches
    cursor[NUMBER] = first + matches
    return status


@kernel
def prune(nodes: Array, used: int, runs: Runs, clock: Array, place: int, window: int) -> int:
    """Lets go of nodes that no match from `place` on can have; returns how many are left.

    They are those made before the oldest start of a live run, or before the window of the event at hand.
    """
    oldest = place
    for s in range(runs.counts.size):
        for k in range(runs.counts[s]):
            oldest = min(oldest, runs.slots[s, OLDEST, k])
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
    for s in range(runs.counts.size):
        for k in range(runs.counts[s]):
            # A run that has left the window may still be there until the next event that concerns it.
            runs.slots[s, NODE, k] = runs.slots[s, NODE, k] - base if runs.slots[s, NODE, k] >= base else GONE
    return used - base
