"""The memory of an automaton: live runs and the shared match buffer, and the matches read from it.

Arrays grow as needed and are used again from event to event and block to block (SASE+ section 5.3).
"""

from __future__ import annotations

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.automaton.kernels import layout as kernels
from kleene.engine.automaton.kernels import match_buffer
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

    def __init__(self, program: RunProgram, block: int, *, backtrack: bool) -> None:
        states = 2 * len(program.variables)
        self.runs = np.zeros((states, program.integer_slots, RUNS), np.int64)
        self.run_floats = np.zeros((states, program.float_slots, RUNS))
        self.counts = np.zeros(states, np.int64)
        self.touched = np.zeros(states, np.uint8)
        self.flags = np.zeros((kernels.FLAG_ROWS, RUNS), np.uint8)
        self.table = np.empty(4 * RUNS, np.int64)
        self.nodes = np.empty((kernels.NODE_FIELDS, NODES), np.int32)
        self.found = np.empty((2, max(block, 4)), np.int64)
        waiting = NODES if backtrack else 0
        self.postponed = np.empty((program.integer_slots + 2, waiting), np.int64)
        self.postponed_floats = np.empty((program.float_slots, waiting))
        self.state = np.zeros(kernels.STATE_FIELDS, np.int64)
        self.state[kernels.EARLIEST] = kernels.NOTHING
        self.state[kernels.FRESH] = 1

    @property
    def runs_bytes(self) -> int:
        """What the room for live runs takes."""
        return self.runs.nbytes + self.run_floats.nbytes + self.flags.nbytes + self.table.nbytes

    @property
    def postponed_bytes(self) -> int:
        """What the room for runs that are put off takes."""
        return self.postponed.nbytes + self.postponed_floats.nbytes

    def grow_runs(self) -> None:
        room = 2 * self.runs.shape[2]
        self.runs = _widened(self.runs, room)
        self.run_floats = _widened(self.run_floats, room)
        self.flags = _widened(self.flags, room)
        self.table = np.empty(4 * room, np.int64)

    def grow_nodes(self) -> None:
        self.nodes = _widened(self.nodes, 2 * self.nodes.shape[1])

    def grow_found(self, room: int) -> None:
        self.found = _widened(self.found, room)

    def grow_postponed(self) -> None:
        room = 2 * self.postponed.shape[1]
        self.postponed = _widened(self.postponed, room)
        self.postponed_floats = _widened(self.postponed_floats, room)

    def let_go(self, excess: int, limits: Limits) -> int:
        """Drops runs: those that started earliest, or a random choice. An eighth more than asked for, so as not to come back
        soon.
        """
        live = int(self.counts.sum())
        wanted = min(live, excess + live // 8)
        starts = np.concatenate([self.runs[s, kernels.START, : self.counts[s]] for s in range(self.counts.size)])
        if limits.policy == "keep_newest":
            order = np.argsort(starts, kind="stable")
        else:
            order = np.random.default_rng((limits.seed, int(self.state[kernels.POSITION]))).permutation(live)
        kept = np.ones(live, bool)
        kept[order[:wanted]] = False
        begin = 0
        for s in range(self.counts.size):
            own = np.flatnonzero(kept[begin : begin + self.counts[s]])
            begin += int(self.counts[s])
            self.runs[s, :, : own.size] = self.runs[s][:, own]
            self.run_floats[s, :, : own.size] = self.run_floats[s][:, own]
            self.counts[s] = own.size
        self.state[kernels.LIVE] = live - wanted
        return wanted


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
        self._found = self._nodes = np.empty((2, 0), np.int64)
        self._written = match_buffer.nothing_written(0)
        self._stack = np.empty((2, 1 << 8), np.int64)
        self._path = np.empty((2, 1 << 10), np.int64)
        self._cursor = np.zeros(match_buffer.CURSOR_FIELDS, np.int64)
        self._begun = np.empty(block, np.int32)
        self._singles = np.empty((length, block), np.int32)
        self._offsets = np.zeros((length, block + 1), np.int32)
        self._elements = np.empty((length, max(8 * block, 64)) if any(program.kleene) else (length, 0), np.int32)

    def open(self, found: Array, nodes: Array, used: int) -> None:
        """Begins with the detections `found`, whose nodes are the first `used` of `nodes`."""
        self._found, self._nodes = found, nodes
        if used > self._written.shape[1]:
            self._written = match_buffer.nothing_written(2 * used)
        # Numbers continue, so that entries of other nodes, with lower numbers, are ignored.
        self._cursor[: match_buffer.NUMBER] = 0
        self._cursor[match_buffer.AT_EVENT] = -1

    @property
    def count(self) -> int:
        return int(self._cursor[match_buffer.MATCHES])

    @property
    def entry(self) -> int:
        return int(self._cursor[match_buffer.ENTRY])

    def read(self, clock: Array, window: int, most: int, limited: bool) -> int:
        """Reads the next block."""
        if self._cursor[match_buffer.NUMBER] > MOST_NUMBER:
            self._written[match_buffer.FIRST_MATCH] = -1
            self._cursor[match_buffer.NUMBER] = 0
        status: int = match_buffer.read_matches(
            self._found, self._found.shape[1], self._nodes, clock, window, self._kleene, most, limited, self._stack, self._path,
            self._written, self._cursor, self._begun, self._singles, self._offsets, self._elements,
        )  # fmt: skip
        return status

    def grow(self, status: int) -> None:
        if status == match_buffer.STACK_FULL:
            self._stack = _widened(self._stack, 2 * self._stack.shape[1])
            self._path = _widened(self._path, 2 * self._path.shape[1])
        else:
            self._elements = np.empty((self._elements.shape[0], 2 * self._elements.shape[1]), np.int32)

    def matches(self) -> Matches:
        """The block just read, until the next one is; but offsets become part of rows, and are its own."""
        count = self.count
        singles: dict[str, Array] = {}
        lists: dict[str, tuple[Array, Array]] = {}
        for index, variable in enumerate(self._program.variables):
            if self._program.kleene[index]:
                offsets = self._offsets[index, : count + 1].copy()
                lists[variable] = offsets, self._elements[index, : offsets[-1]]
            else:
                singles[variable] = self._singles[index, :count]
        block = Matches(count, singles, lists, EMPTY, EMPTY)
        first, last = self._program.variables[0], self._program.variables[-1]
        return Matches(count, singles, lists, block.first_of(first), block.last_of(last))
