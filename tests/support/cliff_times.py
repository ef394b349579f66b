"""What random worlds of queries and data take, to find ordinary queries that cost far too much.

A world (`support.cliff_worlds`) is put beside a linear reference, a pair with a key over events of the same window, and beside
its neighbours, which differ from it in one plain thing: integers for strings, no tie, one chunk. Times are only reported. The
work per event that is counted over a very short stream is put beside that over a long one.

As a script it measures worlds, and prints the worst by what makes them so. Dimensions whose cliffs are known can be kept plain:

    python tests/support/cliff_times.py SEED COUNT --plain chunk ties
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # for `support`

from support.cliff_worlds import CHOICES, PLAIN, Cost, World, described, query, refused, run, world

MOST, LONGEST = 64_000, 0.4
"""Events and seconds beyond which a world is not made longer."""
SHORT, FEW_COMPONENTS = 500, 5
"""A stream too short to be planned for, and the longest patterns that are run over it: some would not end."""

DATA = ("kind", "ties", "chunk", "nulls", "types", "more_types", "ordered", "output", "columns", "key", "test")
"""What a neighbour has plain, one at a time: its matches are about as many."""


def timed(of: World) -> Cost:
    """The cost of a stream that is as long as is affordable."""
    events = 4_000
    while True:
        run(of, events)  # what has to be compiled is
        found = run(of, events, repeats=2)
        if events >= MOST or found.seconds * 4 > LONGEST:
            return found
        events *= 4


REFERENCE = World(key="integers")


@cache
def reference(window: int) -> float:
    """Nanoseconds per event of a plain pair with a key."""
    return timed(replace(REFERENCE, window=window, test="nothing")).nanoseconds


def neighbours(of: World) -> Iterator[tuple[str, World]]:
    """Worlds that are plain in one thing, and the name of that thing."""
    for name in DATA:
        value = getattr(PLAIN, name)
        if name == "key":
            value = "integers" if of.key != "nothing" else "nothing"
        if name == "test":
            value = "equal" if of.test != "nothing" else "nothing"
        if getattr(of, name) != value:
            yield name, replace(of, **{name: value})


@dataclass(frozen=True, slots=True)
class Finding:
    """A world that costs more than another one."""

    ratio: float
    by: str
    """What makes it so: a field and its value; or the shape, beside the reference."""
    nanoseconds: float
    """Per event."""
    events: int
    matches: int
    world: str
    query: str


def findings(of: World) -> Iterator[Finding]:
    """A world beside the reference and beside its neighbours, at the length that it can bear."""
    own = timed(of)
    told = round(own.nanoseconds, 1), own.events, own.matches, described(of), query(of)[:300]
    yield Finding(round(own.nanoseconds / reference(of.window), 2), f"{of.shape}, between {of.between}", *told)
    if of.length <= FEW_COMPONENTS:
        short = run(of, SHORT)
        more = (short.work / short.events) / max(own.work / own.events, 1)
        yield Finding(round(more, 2), f"work over {SHORT} events, between {of.between}", *told)
    for name, other in neighbours(of):
        if not refused(other):
            run(other, own.events)
            plain = run(other, own.events, repeats=2)
            yield Finding(round(own.seconds / max(plain.seconds, 1e-6), 2), f"{name}={getattr(of, name)}", *told)


def search(
    seed: int, numbers: Iterable[int], plain: Sequence[str] = (), say: Callable[[str], None] = lambda _: None
) -> list[Finding]:
    """What worlds of a seed cost, in some dimensions plain; the worst by each cause, the worst of them first."""
    kept: dict[str, Finding] = {}
    for number in numbers:
        of = replace(world(seed, number), **{name: getattr(PLAIN, name) for name in plain})
        if refused(of):
            continue
        own = list(findings(of))
        worst = max(own, key=lambda item: item.ratio)
        say(f"{number}: {worst.ratio:.1f} times by {worst.by}; {worst.nanoseconds:.0f} ns per event; {worst.world}")
        for item in own:
            kept[item.by] = max(kept.get(item.by, item), item, key=lambda one: one.ratio)
    return sorted(kept.values(), key=lambda item: -item.ratio)


def write(found: Sequence[Finding], path: Path) -> None:
    """Findings as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(one) for one in found], indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("seed", "count"):
        parser.add_argument(name, type=int)
    parser.add_argument("--first", type=int, default=0, help="the number of the first world")
    parser.add_argument("--plain", nargs="*", default=(), choices=CHOICES, help="dimensions that are kept plain")
    given = parser.parse_args()
    numbers = range(given.first, given.first + given.count)
    for item in search(given.seed, numbers, given.plain, lambda line: print(line, flush=True)):
        print(f"{item.ratio:8.1f} times by {item.by}: {item.nanoseconds:,.0f} ns per event, {item.events:,} events")
        print(f"{'':8} {item.matches:,} matches; {item.world}\n{'':8} {item.query}")


if __name__ == "__main__":
    main()
