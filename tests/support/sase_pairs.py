"""Random (query, stream) pairs of the SASE fragment: the engine, under random plans and cuts of the stream, against the oracle.

Each pair is answered with the default plan and with a random one, in random cuts, orders of delivery, `run_rows` and `block`.
Matches must be the oracle's, their ids unique and the same under every plan and cut, and RETURN values the oracle's.

As a script: `KLEENE_KERNELS=python python tests/support/sase_pairs.py SEED COUNT`, see `support.pair_runs`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # for `support`

from kleene.common.schema import schema_of_arrow
from kleene.engine.build import build_matcher
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.passes.working_matcher import BLOCK, RUN_ROWS
from kleene.language.printer import to_text
from kleene.pattern.bind import bind
from kleene.pattern.operators import events as components
from kleene.plan import optimizer
from kleene.plan.optimizer import make_plan
from kleene.plan.options import CHOICES, SequenceOptions
from kleene.runtime.embedded import in_stream_order
from kleene.testing import oracle
from kleene.testing.case_routes import canonical
from support import strategies
from support.pair_runs import Report, Suite, main
from support.strategies import Example

DEFAULT = SequenceOptions()
ROW = "row"
"""A column with the number of the event in the example, to know which events a match has."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How a pair is run; none of it may change the answer."""

    options: SequenceOptions = DEFAULT
    batch_rows: int = 1 << 20
    """Rows per batch; 0 for cuts at random places."""
    run_rows: int = RUN_ROWS
    block: int = BLOCK
    shuffle: bool = False
    dictionaries: bool = False
    """Whether strings come dictionary-encoded, as categories do."""
    seed: int = 0

    def batches(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        if self.batch_rows:
            yield from table.to_batches(max_chunksize=self.batch_rows)
            return
        rng = Random(self.seed)
        cuts = sorted(rng.randrange(table.num_rows + 1) for _ in range(rng.choice((1, 2, 3, 5))))
        for begin, end in zip([0, *cuts], [*cuts, table.num_rows], strict=True):
            yield from table.slice(begin, end - begin).to_batches()


def random_setting(rng: Random) -> Setting:
    """Any plan, and mostly few cuts: a run per row costs most and finds little more."""
    return Setting(
        SequenceOptions(**{name: rng.choice(values) for name, values in CHOICES["sequence"].items()}),
        rng.choice((0, 0, 0, 0, 3, 7, 1 << 20, 1 << 20)) if rng.random() < 0.95 else 1,
        rng.choice((0, 0, 3, 8, RUN_ROWS)),
        rng.choice((1, 2, 3, 1000)),
        rng.random() < 0.2,
        rng.random() < 0.2,
        rng.randrange(1 << 30),
    )


def default_setting(rng: Random) -> Setting:
    """The default plan, on the whole stream or cut at random."""
    if rng.random() < 0.5:
        return Setting()
    return replace(random_setting(rng), options=SequenceOptions())


def numbered(example: Example) -> pa.Table:
    table = example.table()
    return table.append_column(ROW, pa.array(range(table.num_rows), pa.int64()))


def answer(example: Example, setting: Setting, *, with_returns: bool = False) -> list[dict[str, Any]]:
    """The engine's match rows."""
    table = numbered(example)
    for position, name in enumerate(table.column_names if setting.dictionaries else ()):
        if pa.types.is_string(table.schema.types[position]):
            table = table.set_column(position, name, table.column(name).dictionary_encode())
    schema = schema_of_arrow(table.schema, **example.schema_kwargs)
    query = example.query if with_returns else replace(example.query, returns=(), into=None)
    plan = make_plan(bind(query, schema), setting.options)
    matcher = build_matcher(plan, table.schema, run_rows=setting.run_rows, block=setting.block)
    if setting.shuffle:
        order = list(range(table.num_rows))
        Random(setting.seed).shuffle(order)
        table = table.take(pa.array(order, pa.int64()))
    found: list[dict[str, Any]] = []
    for batch in setting.batches(in_stream_order(table, schema).combine_chunks()):
        found += [row for _, rows in matcher.feed(batch) for row in rows.to_pylist()]
    found += [row for _, rows in matcher.finish() for row in rows.to_pylist()]
    assert matcher.metrics.matches == len(found)
    assert matcher.metrics.events == table.num_rows
    return found


def bindings(rows: list[dict[str, Any]], variables: list[str]) -> Counter[tuple[tuple[str, int], ...]]:
    return Counter(tuple(sorted((name, row[name][ROW]) for name in variables)) for row in rows)


def check(example: Example, settings: list[Setting], rng: Random, wanted: list[oracle.Match] | None = None) -> list[str]:
    """How the engine's answers differ from the oracle's and from one another; empty if they do not."""
    bound = example.bound()
    wanted = oracle.matches(bound, example.events) if wanted is None else wanted
    variables = [event.variable for event in bound.branches[0].positives]
    expected = Counter(tuple(sorted(match.bindings)) for match in wanted)
    times = Counter(_extent(example, dict(match.bindings), variables) for match in wanted)
    report: list[str] = []
    ids: set[str] | None = None
    for setting in settings:
        rows = answer(example, setting)
        found = bindings(rows, variables)
        if found != expected:
            report.append(f"{setting}: missing {list((expected - found).elements())[:5]}")
            report.append(f"{setting}: unexpected {list((found - expected).elements())[:5]}")
        if Counter((row["match_start"], row["match_end"]) for row in rows) != times:
            report.append(f"{setting}: match_start or match_end differ")
        own = {row["match_id"] for row in rows}
        if len(own) < len(rows):
            report.append(f"{setting}: {len(rows)} matches have {len(own)} ids")
        if ids is not None and own != ids:
            report.append(f"{setting}: other match ids than under {settings[0]}")
        ids = own
    if example.query.returns:
        report += _returned(example, wanted, random_setting(rng))
    return report


def _extent(example: Example, match: dict[str, Any], variables: list[str]) -> tuple[Any, Any]:
    """The times of the first and last event of a match."""
    return example.events[match[variables[0]]]["ts"], example.events[match[variables[-1]]]["ts"]


def _returned(example: Example, wanted: list[oracle.Match], setting: Setting) -> list[str]:
    bound = example.bound()
    names = [item.alias for item in example.query.returns]
    rows = answer(example, setting, with_returns=True)
    found = Counter(canonical({name: row[name] for name in names}) for row in rows)
    expected = Counter(canonical(oracle.returns(bound, example.events, match)) for match in wanted)
    report = [] if found == expected else [f"{setting}: RETURN gives {found - expected}, expected {expected - found}"]
    if len({row["match_id"] for row in rows}) < len(rows):
        report.append(f"{setting}: RETURN rows share a match id")
    return report


def features(example: Example, count: int) -> Iterator[str]:
    """What an example has, for the report."""
    parts = list(components(example.query.pattern))
    if count:
        yield "with matches"
    if any(part.negated for part in parts):
        yield "with negation"
    if parts[0].negated:
        yield "negated start"
    if parts[-1].negated:
        yield "negated end"
    if any(part.negated for part in parts[1:-1]):
        yield "negated middle"
    if len({row["ts"] for row in example.events}) < len(example.events):
        yield "with ties"
    if example.schema_kwargs.get("order_by"):
        yield "with order_by"
    if example.schema_kwargs.get("types") is not None:
        yield "declared schema"
    if example.query.returns:
        yield "with RETURN"
    if any(len(part.types) > 1 for part in parts):
        yield "with ANY"
    if example.query.within is None:
        yield "without a window"
    if not example.integer_time:
        yield "timestamps"
    if any(value is None for row in example.events for value in row.values()):
        yield "with NULLs"


def setting_features(setting: Setting) -> Iterator[str]:
    yield from (f"{name}={value}" for name, value in asdict(setting.options).items())
    yield f"batch_rows={setting.batch_rows}"
    yield f"run_rows={setting.run_rows}"
    yield f"block={setting.block}"
    if setting.dictionaries:
        yield "dictionaries"
    if setting.shuffle:
        yield "shuffled"


def describe(example: Example) -> str:
    events = "\n".join(f"    {row}" for row in example.events)
    return f"{to_text(example.query)}\n  {dict(example.schema_kwargs)}\n{events}"


def check_example(example: Example, _number: int, rng: Random, report: Report) -> list[str]:
    """Checks an example with the default plan and with a random one."""
    settings = [default_setting(rng), random_setting(rng)]
    wanted = oracle.matches(example.bound(), example.events)
    report.matches += len(wanted)
    report.seen.update(features(example, len(wanted)))
    report.seen.update(feature for setting in settings for feature in setting_features(setting))
    return check(example, settings, rng, wanted)


# --- sabotage: a test of the tests ------------------------------------------------------------------------------------


def _wider_window() -> None:
    """WITHIN excludes its end; this engine includes it."""
    original = optimizer.Draft

    def draft(bound: Any, *given: Any) -> Any:
        longer = {name: length + 1 for name in ("window", "count_window") if (length := getattr(bound, name)) is not None}
        return original(replace(bound, **longer), *given)

    optimizer.Draft = draft  # type: ignore[assignment, misc]


def _arrival_order() -> None:
    """Simultaneous events follow one another in this engine, in the order in which they stand."""
    WorkingSet.rank = lambda self: np.arange(len(self), dtype=np.int64)  # type: ignore[method-assign]


def _no_negation() -> None:
    """An engine that forgets negation."""
    import kleene.engine.sequence.stacks

    kleene.engine.sequence.stacks.SequencePass.negated = lambda _, _index, matches: matches  # type: ignore[method-assign]


def _short_memory() -> None:
    """An engine that forgets one time unit too early between batches."""
    original = WorkingSet.forget
    WorkingSet.forget = lambda self, horizon: original(self, None if horizon is None else horizon + 1)  # type: ignore[method-assign]


def _unsteady_ids() -> None:
    """An engine whose match ids depend on how much it looks at."""
    import kleene.engine.matches.output

    hashed = kleene.engine.matches.output.EventHashes._hashed
    kleene.engine.matches.output.EventHashes._hashed = lambda self, column, count: (  # type: ignore[method-assign]
        hashed(self, column, count) + np.uint64(len(self._events))
    )


SABOTAGE: dict[str, Callable[[], None]] = {
    "wider-window": _wider_window,
    "arrival-order": _arrival_order,
    "no-negation": _no_negation,
    "short-memory": _short_memory,
    "unsteady-ids": _unsteady_ids,
}


SUITE = Suite(strategies.example, check_example, describe, SABOTAGE)

if __name__ == "__main__":
    main(__doc__, SUITE)
