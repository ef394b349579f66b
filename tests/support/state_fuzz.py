"""Damage to the state of streams: what a bucket has written is changed, and it has to say so or go on as if nothing were.

`SNAPSHOTS` has the state of every kind of matcher. Run as a script, it damages state of format 1, which has no digests, and
prints what became of it:

    python tests/support/state_fuzz.py SEED COUNT
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

from kleene.common.errors import KleeneError, StateError
from kleene.runtime.stream.bucket import Bucket, BucketPlan
from kleene.runtime.stream.state import DIGEST, MAGIC, Header
from support.fault_state import ARRIVED, EVENTS, QUERIES, WATERMARK, SavedStream, plan_of, run
from support.state_formats import in_format
from support.stream_runs import END, MemoryStore

FURTHER = {
    **QUERIES,
    "chosen": "PATTERN SEQ(A a, B b, C c) WHERE a.x < c.x OUTPUT NON-OVERLAP WITHIN 9",
    "counted": "PATTERN SEQ(A a, B b) WHERE [k] AGG COUNT, MAX(b.x) GROUP BY k WITHIN 6",
    "least": "PATTERN SEQ(A a, B b) WHERE a.x < b.x AGG COUNT, MIN(a.x), AVG(b.x) GROUP BY k WITHIN 9",
    "ahead": "PATTERN SEQ(A a, B+ b[], !(C c)) WHERE a.x < b[1].x AGG COUNT WITHIN 9",
    "never": "PATTERN SEQ(C a, !(D b), A c, !(C d)) WITHIN 3",
    "both": "PATTERN AND(A a, D d) WHERE a.k = d.k WITHIN 9",
}
GROUPS = [("absent", "never"), ("apart", "chosen"), ("ever", "counted"), ("alive", "least", "ahead"), tuple(FURTHER)]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of some queries, and what they report when they go on from it."""

    queries: dict[str, str]
    plan: BucketPlan
    store: MemoryStore
    earlier: MemoryStore
    """The same stream before."""
    rest: Sequence[str]


@cache
def snapshots(number: int) -> list[Snapshot]:
    """The state in a format."""
    return [_snapshot({name: FURTHER[name] for name in names}, number) for names in GROUPS]


def _snapshot(queries: dict[str, str], number: int) -> Snapshot:
    store, plan = MemoryStore(), plan_of(queries)
    bucket = Bucket(plan, store)
    run(bucket, store, EVENTS[:6], 3)
    earlier = store.copy()
    run(bucket, store, EVENTS[6:ARRIVED], None)
    run(bucket, store, [], WATERMARK)
    for item in (earlier, store):
        assert item.blob is not None
        item.blob = in_format(replace(Header.decode(item.blob), nonce="0" * 32), number)
    saved = SavedStream(queries, [], EVENTS[ARRIVED:], WATERMARK, [], store)
    return Snapshot(queries, plan, store, earlier, sorted(saved.rest()))


# --- damage -----------------------------------------------------------------------------------------------------------


def _flipped(blob: bytearray, rng: Random) -> None:
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        blob[rng.randrange(len(blob))] ^= 1 << rng.randrange(8)


def _overwritten(blob: bytearray, rng: Random) -> None:
    begin, size = _range(blob, rng)
    blob[begin : begin + size] = rng.choice((bytes(size), b"\xff" * size, rng.randbytes(size)))


def _cut(blob: bytearray, rng: Random) -> None:
    del blob[rng.randrange(len(blob)) :]


def _removed(blob: bytearray, rng: Random) -> None:
    begin, size = _range(blob, rng)
    del blob[begin : begin + size]


def _inserted(blob: bytearray, rng: Random) -> None:
    begin, size = _range(blob, rng)
    blob[begin:begin] = rng.choice((rng.randbytes(size), bytes(size), blob[begin : begin + size]))


def _swapped(blob: bytearray, rng: Random) -> None:
    one, size = _range(blob, rng)
    other = rng.randrange(max(1, len(blob) - size))
    blob[one : one + size], blob[other : other + size] = blob[other : other + size], blob[one : one + size]


def _renumbered(blob: bytearray, rng: Random) -> None:
    """Another format, with or without the digest."""
    begin = len(MAGIC)
    if blob[:begin] == MAGIC:
        blob[begin : begin + 2] = rng.choice((b"\1\0", b"\2\0", b"\0\0", rng.randbytes(2)))
        if rng.random() < 0.5:
            del blob[begin + 2 : begin + 2 + DIGEST]


def _digit(blob: bytearray, rng: Random) -> None:
    """A number of the description."""
    places = [place for place, byte in enumerate(blob) if chr(byte).isdigit()]
    blob[rng.choice(places or [0])] = ord(rng.choice("0123456789-"))


def _range(blob: bytearray, rng: Random) -> tuple[int, int]:
    begin = rng.randrange(len(blob))
    return begin, min(rng.choice((1, 2, 4, 8, 64, 1024)), len(blob) - begin)


DAMAGES: list[Callable[[bytearray, Random], None]] = [
    _flipped, _flipped, _overwritten, _cut, _removed, _inserted, _swapped, _renumbered, _digit,
]  # fmt: skip


def damaged(found: Sequence[Snapshot], snapshot: Snapshot, rng: Random) -> MemoryStore:
    """The state of a snapshot, with one or a few damages: in the blobs, or of whole blobs."""
    store = snapshot.store.copy()
    for _ in range(rng.choice((1, 1, 1, 2))):
        if rng.random() < 0.1:
            _exchange(store, rng.choice(found), snapshot, rng)
            continue
        number = rng.choice((None, *store.segments))
        blob = bytearray((store.blob if number is None else store.segments[number]) or b"\0")
        rng.choice(DAMAGES)(blob, rng)
        if number is None:
            store.blob = bytes(blob)
        else:
            store.segments[number] = bytes(blob)
    return store


def _exchange(store: MemoryStore, other: Snapshot, own: Snapshot, rng: Random) -> None:
    """Whole blobs that are missing, of another stream or of another time."""
    source = rng.choice((other.store, own.earlier, own.store))
    kind = rng.randrange(4)
    if kind == 0:
        store.blob = own.earlier.blob
    elif kind == 1 and store.segments:
        del store.segments[rng.choice(list(store.segments))]
    elif kind == 2 and store.segments:
        store.segments[rng.choice(list(store.segments))] = rng.choice(list(source.segments.values()))
    else:
        store.segments = dict(source.segments)


# --- what becomes of it -----------------------------------------------------------------------------------------------


def outcomes(number: int, seed: int, count: int) -> Iterator[tuple[str, str]]:
    """Damages state of a format so often: what became of it, and what it was. A whole state of another time is none."""
    rng, found = Random(seed), snapshots(number)
    for place in range(count):
        snapshot = found[rng.randrange(len(found))]
        store = damaged(found, snapshot, rng)
        what = f"format {number}, seed {seed}, number {place}, {list(snapshot.queries)}"
        whole = any(_same(store, other) for item in found for other in (item.store, item.earlier))
        yield "right" if whole else became(snapshot, store), what


def became(snapshot: Snapshot, store: MemoryStore) -> str:
    """`refused`, `right`, or what is wrong."""
    try:
        bucket = Bucket(snapshot.plan, store)
        rest = sorted(run(bucket, store, EVENTS[ARRIVED:], END))
    except StateError:
        return "refused"
    except KleeneError as error:
        return f"error {type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001 - what is looked for
        return f"raw {type(error).__name__}: {error}"
    return "right" if rest == snapshot.rest else "wrong"


def _same(one: MemoryStore, other: MemoryStore) -> bool:
    """Whether a store has all of another one, and maybe more, which nothing names."""
    return one.blob == other.blob and one.segments.items() >= other.segments.items()


if __name__ == "__main__":
    seed, count = map(int, sys.argv[1:])
    seen: Counter[str] = Counter()
    for outcome, what in outcomes(1, seed, count):
        word = outcome.split(" ")[0]
        seen[word] += 1
        if word == "raw":
            print(what, outcome)
    print(" ".join(f"{word}={number}" for word, number in sorted(seen.items())))
