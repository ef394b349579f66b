"""The memory of an automaton: live runs and the shared match buffer, and the matches read from it.

Arrays grow as needed and are used again from event to event and block to block (SASE+ section 5.3).
"""

from __future__ import annotations

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.automaton.kernels import layout as kernels
from kleene.engine.automaton.kernels import match_buffer
from kleene.engine.automaton.kernels.layout import Buffer, Postponed, Runs
from kleene.engine.automaton.run_program import RunProgram
from kleene.engine.matches.matches import Matches
from kleene.plan.limits import Limits

NODES = 1 << 16
RUNS = 1 << 10
"""How many nodes and runs of a state there is room for at first."""

MOST_NUMBER = 1 << 30
"""The largest number of a match while matches are read; then numbering restarts."""

EMPTY = np.empty(0, np.int64)


class RunBuffer:
    """Runs and nodes of one branch in one pass, in memory that grows as needed and is used again."""

    def __init__(self, program: RunProgram, block: int, longest: int, *, backtrack: bool) -> None:
        """`longest` is the most events of a segment."""
        self._program = program
        states = 2 * len(program.variables)
        waiting = NODES if backtrack else 0
        self.runs = Runs(
            slots=np.zeros((states, program.integer_slots, RUNS), np.int64),
            floats=np.zeros((states, program.float_slots, RUNS)),
            counts=np.zeros(states, np.int64),
            touched=np.zeros(states, np.uint8),
            moved=np.zeros(states, np.uint8),
            flags=np.zeros((kernels.FLAG_ROWS, RUNS), np.uint8),
            chosen=np.empty(RUNS, np.int64),
            **_no_indexes(program, RUNS),
            scratch=np.empty(longest * max(1, len(program.variables)) + 1, np.int64),
        )
        self.postponed = Postponed(
            np.empty((program.integer_slots + 2, waiting), np.int64), np.empty((program.float_slots, waiting))
        )
        self.nodes = np.empty((kernels.NODE_FIELDS, NODES), np.int32)
        self.found = np.empty((2, max(block, 4)), np.int64)
        self.state = np.zeros(kernels.STATE_FIELDS, np.int64)
        self.state[kernels.EARLIEST] = kernels.NOTHING
        self.state[kernels.FRESH] = 1

    @property
    def runs_bytes(self) -> int:
        """What the room for live runs takes."""
        runs = self.runs
        indexes = runs.keys.nbytes + runs.links.nbytes + runs.heads.nbytes
        return runs.slots.nbytes + runs.floats.nbytes + runs.flags.nbytes + runs.chosen.nbytes + indexes

    @property
    def postponed_bytes(self) -> int:
        """What the room for runs that are put off takes."""
        return self.postponed.slots.nbytes + self.postponed.floats.nbytes

    def grow_runs(self) -> None:
        runs = self.runs
        room = 2 * runs.slots.shape[2]
        self.runs = runs._replace(
            slots=_widened(runs.slots, room),
            floats=_widened(runs.floats, room),
            flags=_widened(runs.flags, room),
            chosen=np.empty(room, np.int64),
            **_no_indexes(self._program, room),
        )

    def grow_nodes(self) -> None:
        self.nodes = _widened(self.nodes, 2 * self.nodes.shape[1])

    def grow_found(self, room: int) -> None:
        self.found = _widened(self.found, room)

    def grow_postponed(self) -> None:
        room = 2 * self.postponed.slots.shape[1]
        self.postponed = Postponed(_widened(self.postponed.slots, room), _widened(self.postponed.floats, room))

    def let_go(self, excess: int, limits: Limits) -> int:
        """Drops runs: those that started earliest, or a random choice. An eighth more than asked for, so as not to come back
        soon.
        """
        runs = self.runs
        live = int(runs.counts.sum())
        wanted = min(live, excess + live // 8)
        starts = np.concatenate([runs.slots[s, kernels.START, : runs.counts[s]] for s in range(runs.counts.size)])
        if limits.policy == "keep_newest":
            order = np.argsort(starts, kind="stable")
        else:
            order = np.random.default_rng((limits.seed, int(self.state[kernels.POSITION]))).permutation(live)
        kept = np.ones(live, bool)
        kept[order[:wanted]] = False
        begin = 0
        for s in range(runs.counts.size):
            own = np.flatnonzero(kept[begin : begin + runs.counts[s]])
            begin += int(runs.counts[s])
            runs.slots[s, :, : own.size] = runs.slots[s][:, own]
            runs.floats[s, :, : own.size] = runs.floats[s][:, own]
            runs.counts[s] = own.size
        runs.indexes[:] = 0
        self.state[kernels.LIVE] = live - wanted
        return wanted


def _no_indexes(program: RunProgram, room: int) -> dict[str, Array]:
    """Room for the indexes of a number of runs, which are still empty."""
    count = int(program.nfa.indexes.max(initial=-1)) + 1
    return {
        "keys": np.empty((count, room), np.int64),
        "links": np.empty((count, room), np.int32),
        "heads": np.empty((count, 2 * room + 64), np.int64),
        "indexes": np.zeros((count, kernels.INDEX_FIELDS), np.int64),
    }


def _widened(array: Array, room: int) -> Array:
    """The array with more room along its last axis."""
    wider = np.zeros((*array.shape[:-1], room), array.dtype)
    wider[..., : array.shape[-1]] = array
    return wider


class MatchReader:
    """Reads matches from the buffer, block by block; its memory is used again for the next detections."""

    def __init__(self, program: RunProgram, block: int) -> None:
        self._program = program
        length = len(program.variables)
        self._kleene = np.array(program.kleene, np.uint8)
        self._buffer = Buffer(np.empty((2, 0), np.int64), np.empty((2, 0), np.int64))
        self._reading = match_buffer.Reading(
            stack=np.empty((2, 1 << 8), np.int64),
            path=np.empty((2, 1 << 10), np.int64),
            written=match_buffer.nothing_written(0),
            cursor=np.zeros(match_buffer.CURSOR_FIELDS, np.int64),
        )
        self._block = match_buffer.Block(
            begun=np.empty(block, np.int32),
            singles=np.empty((length, block), np.int32),
            offsets=np.zeros((length, block + 1), np.int32),
            elements=np.empty((length, max(8 * block, 64)) if any(program.kleene) else (length, 0), np.int32),
        )

    def open(self, found: Array, nodes: Array, used: int) -> None:
        """Begins with the detections `found`, whose nodes are the first `used` of `nodes`."""
        self._buffer = Buffer(nodes, found)
        if used > self._reading.written.shape[1]:
            self._reading = self._reading._replace(written=match_buffer.nothing_written(2 * used))
        # Numbers continue, so that entries of other nodes, with lower numbers, are ignored.
        self._reading.cursor[: match_buffer.NUMBER] = 0
        self._reading.cursor[match_buffer.AT_EVENT] = -1

    @property
    def count(self) -> int:
        return int(self._reading.cursor[match_buffer.MATCHES])

    @property
    def entry(self) -> int:
        return int(self._reading.cursor[match_buffer.ENTRY])

    def read(self, clock: Array, window: int, most: int, limited: bool) -> int:
        """Reads the next block."""
        reading = self._reading
        if reading.cursor[match_buffer.NUMBER] > MOST_NUMBER:
            reading.written[match_buffer.FIRST_MATCH] = -1
            reading.cursor[match_buffer.NUMBER] = 0
        return int(match_buffer.read_matches(self._buffer, clock, window, self._kleene, most, limited, reading, self._block))

    def grow(self, status: int) -> None:
        reading, block = self._reading, self._block
        if status == match_buffer.STACK_FULL:
            stack, path = reading.stack, reading.path
            self._reading = reading._replace(stack=_widened(stack, 2 * stack.shape[1]), path=_widened(path, 2 * path.shape[1]))
        else:
            room = 2 * block.elements.shape[1]
            self._block = block._replace(elements=np.empty((block.elements.shape[0], room), np.int32))

    def matches(self) -> Matches:
        """The block just read, until the next one is; but offsets become part of rows, and are its own."""
        count = self.count
        singles: dict[str, Array] = {}
        lists: dict[str, tuple[Array, Array]] = {}
        for index, variable in enumerate(self._program.variables):
            if self._program.kleene[index]:
                offsets = self._block.offsets[index, : count + 1].copy()
                lists[variable] = offsets, self._block.elements[index, : offsets[-1]]
            else:
                singles[variable] = self._block.singles[index, :count]
        block = Matches(count, singles, lists, EMPTY, EMPTY)
        first, last = self._program.variables[0], self._program.variables[-1]
        return Matches(count, singles, lists, block.first_of(first), block.last_of(last))
