"""The accepting runs of NFA^b for every strategy other than skip_till_any_match (SASE+ section 3, semantics section 4).

A run has selected events for a prefix of the components. At a singleton or `p[1]` state it may *begin* the next component; at
`p[i]` it may *take* a further element, or *proceed* and begin the next component with the event it peeks at; where the strategy
allows, it may *ignore* the event. Every event that satisfies the first begin condition starts a run, whatever the others do.

Readings chosen where the text leaves room:
- The branches of OR and of optional components are automata of their own: `SEQ(A a, B? b, C c)` runs as `A B C` and as `A C`.
- `T{n,m}`: the take condition fails after m elements, the proceed condition before n.
- The window is part of the begin and take conditions; a run out of its time window ends.
- An error of a condition counts at an edge that a run has come to, if nothing else there is against it.
- If the last component is Kleene, its proceed condition decides which prefixes are matches.

Cost: polynomial in the number of events per run; every run is a separate tuple.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from kleene.pattern.normalize import Branch
from kleene.pattern.policies import Strategy
from kleene.testing.evaluate import all_hold
from kleene.testing.oracle_branch import Elements, Placed, bindings_of, limits, place
from kleene.testing.oracle_stream import Key, Stream, merge


@dataclass(frozen=True, slots=True)
class Run:
    """The elements selected per component, and their common key."""

    selected: tuple[Elements, ...]
    key: Key


def accepting_runs(stream: Stream, branch: Branch) -> Iterator[tuple[Elements, ...]]:
    """The selections of all accepting runs, each once."""
    assert branch.is_sequence, "only SEQ may be evaluated under a strategy other than skip_till_any_match"
    automaton = Automaton(stream, branch, place(stream, branch))
    live: list[Run] = []
    found: dict[tuple[Elements, ...], None] = {}
    for event in stream.sorted_positions:
        advanced = [moved for run in live for moved in automaton.step(run, event)]
        started = automaton.begin(Run((), stream.start_key), event)
        if started is not None:
            advanced.append(started)
        live = list(dict.fromkeys(advanced))
        found.update(dict.fromkeys(run.selected for run in live if automaton.accepts(run)))
    return iter(found)


@dataclass(frozen=True, slots=True)
class Automaton:
    """The edges of NFA^b for one branch."""

    stream: Stream
    branch: Branch
    placed: Placed

    def step(self, run: Run, event: int) -> Iterator[Run]:
        """All that a run becomes when the stream brings an event."""
        if self._is_open(run):
            moved = self.take(run, event)
            begun: list[Run] = []
            if all_hold((partial(self.may_proceed, run), partial(self._begins, run, event, begun))):
                yield from begun
        else:
            moved = self.begin(run, event)
        if moved is not None:
            yield moved
        waiting = len(run.selected) < len(self.branch.positives) or self._is_open(run)
        if waiting and self.ignores(run, event, moved is not None):
            yield run

    def begin(self, run: Run, event: int) -> Run | None:
        """The run after the event became the first one of the next component."""
        if len(run.selected) == len(self.branch.positives):
            return None
        return self._select(run, (*run.selected, (event,)), event)

    def _begins(self, run: Run, event: int, begun: list[Run]) -> bool:
        """Whether the event begins the next component; what the run becomes is added to `begun`."""
        found = self.begin(run, event)
        begun.extend(() if found is None else (found,))
        return found is not None

    def take(self, run: Run, event: int) -> Run | None:
        """The run after the event became one more element of its Kleene component."""
        high = limits(self.branch.positives[len(run.selected) - 1])[1]
        if high is not None and len(run.selected[-1]) >= high:
            return None
        return self._select(run, (*run.selected[:-1], (*run.selected[-1], event)), event)

    def may_proceed(self, run: Run) -> bool:
        """The condition of the proceed edge at `p[i]`, apart from peeking."""
        index = len(run.selected) - 1
        if len(run.selected[-1]) < limits(self.branch.positives[index])[0]:
            return False
        bindings = bindings_of(self.branch, run.selected)
        return self.stream.all_hold(self.placed.closing[index], bindings)

    def ignores(self, run: Run, event: int, selected: bool) -> bool:
        """The condition of the ignore edge; `selected` is whether the take (at `p[i]`) or begin condition holds."""
        strategy = self.stream.bound.query.strategy
        if strategy is Strategy.SKIP_TILL_NEXT_MATCH:
            return not selected and not self._expired(run, event)
        if strategy is Strategy.PARTITION_CONTIGUITY:
            return merge(run.key, self.stream.keys[event]) is None and not self._expired(run, event)
        assert strategy is Strategy.STRICT_CONTIGUITY
        return False

    def accepts(self, run: Run) -> bool:
        """Whether the run is complete; a last Kleene component accepts after each element that its proceed condition allows."""
        if len(run.selected) < len(self.branch.positives):
            return False
        return not self._is_open(run) or self.may_proceed(run)

    def _select(self, run: Run, selected: tuple[Elements, ...], event: int) -> Run | None:
        stream, index = self.stream, len(selected) - 1
        if stream.types[event] not in self.branch.positives[index].types:
            return None
        key = merge(run.key, stream.keys[event])
        if key is None or not stream.within(selected[0][0], event, key):
            return None
        bindings = bindings_of(self.branch, selected)
        if not stream.all_hold(self.placed.growing[index], bindings):
            return None
        return Run(selected, key)

    def _is_open(self, run: Run) -> bool:
        return bool(run.selected) and self.branch.positives[len(run.selected) - 1].is_kleene

    def _expired(self, run: Run, event: int) -> bool:
        window = self.stream.bound.window
        return window is not None and self.stream.instants[event] - self.stream.instants[run.selected[0][0]] >= window
