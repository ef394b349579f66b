"""Events and queries of the experiments, with the paper's symbols: T types, length L, window W in events, domains V1 and V2."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pyarrow as pa

import kleene
from benchmarks import suite
from kleene.generators import sase

T = 20
W = 10_000
SEED = 2006


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale(suite.Scale):
    """How big a run is."""

    events: int
    """Most events at any point of experiments 1 to 6."""
    matches: int
    """Sequences that a point may construct: where there are many per event, fewer events are used."""
    big: int
    """Events of the embedded and Spark experiments."""
    encodings: tuple[bool, ...] = (False, True)
    """Of the types in the embedded experiment: whether they are plain strings."""


SCALES = {
    "full": Scale(name="full", events=1_000_000, matches=6_000_000, big=10_000_000, repeats=5),
    "quick": Scale(name="quick", events=200_000, matches=400_000, big=1_000_000, repeats=3, thin=True, encodings=(False,)),
    "tiny": Scale(name="tiny", events=40_000, matches=40_000, big=10_000, repeats=1, thin=True),
}


def events(count: int, *, V: tuple[int, ...] = (), types: int = T, text: bool = False) -> pa.Table:
    """A stream in one chunk; the type column is a dictionary, or plain strings."""
    table = sase.table(sase.SaseOptions(events=count, seed=SEED, T=types, V=V)).combine_chunks()
    if text:
        at = table.schema.get_field_index("type")
        table = table.set_column(at, "type", table.column("type").cast(pa.string()))
    return table


def sequence_query(L: int, *, W: int = W, tests: int = 1, returned: int = 1) -> kleene.Query:
    """SEQ(E1, ..., EL) with the first equivalence tests, returning the times of the first components.

    >>> print(sequence_query(2, tests=1, returned=2))
    PATTERN SEQ(E1 e1, E2 e2)
    WHERE [attr1]
    WITHIN 10000
    RETURN e1.ts AS t1, e2.ts AS t2
    """
    pattern = ", ".join(f"E{i} e{i}" for i in range(1, L + 1))
    where = " AND ".join(f"[attr{i}]" for i in range(1, tests + 1))
    columns = ", ".join(f"e{i}.ts AS t{i}" for i in range(1, returned + 1))
    return kleene.query(f"PATTERN SEQ({pattern}) {f'WHERE {where}' if where else ''} WITHIN {W} RETURN {columns}")


def simulated_types(V1: int, L: int) -> int:
    """The number of types that stands for an equivalence test over V1 values (section 5.2).

    >>> simulated_types(1_000, 3)
    2000
    """
    return round(T * math.pow(V1, (L - 1) / L))


def selectivity(L: int, V: float, *, W: int = W, types: int = T) -> float:
    """Expected matches per event: a trigger (1 in T) joins each increasing choice of L - 1 earlier events of its window.

    The paper's formula (1) counts the choices of L events in one window of W instead, which is L times less.

    >>> selectivity(3, 100)
    0.625
    """
    rate = W / (types * V)
    return rate ** (L - 1) / math.factorial(L - 1) / types


def affordable(scale: Scale, per_event: float) -> int:
    """Events such that no contender constructs more than the scale's sequences, but at least two windows."""
    return max(min(2 * W, scale.events), min(scale.events, int(scale.matches / max(per_event, 1e-9))))
