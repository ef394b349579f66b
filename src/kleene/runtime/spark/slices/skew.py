"""Keys that are much larger than the others, so that one task would be busy with each for long: they are cut into slices of
time, alone.

A small job fetches the keys of the first rows of the DataFrame, when the query is given it. A key that has more of them than a
task should is hot. Its events are matched in slices (`matches`), all others by key as ever; the result is the
union of both, each of which reads the DataFrame.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StringType

from kleene.pattern.text import quoted
from kleene.runtime.spark.frame import Answer, numbered
from kleene.runtime.spark.push_down import INTEGERS, all_of, any_of
from kleene.runtime.spark.slices.times import is_small, parallelism

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LOOKED_AT = 10_000
"""The first rows."""

FEWEST_SEEN = 200
"""Fewer rows say nothing."""

HOT = 1.25
"""Multiple of an average task's rows from which a key is hot..."""

MOST_HOT = 8
"""...and is one of these, the largest: for each the DataFrame is read once more."""


def skewed(
    keys: Sequence[str],
    events: DataFrame,
    sliced: Callable[[DataFrame], Answer | None],
    matched: Callable[[DataFrame], Answer],
) -> Answer | None:
    """The answer for events that keys divide: of hot ones by `sliced`, of the rest by `matched`. None if no key is hot."""
    kinds = [events.schema[name].dataType for name in keys]
    comparable = all(isinstance(kind, INTEGERS) or kind == StringType() for kind in kinds)
    if parallelism(events) == 1 or not comparable or is_small(events):
        return None
    found: list[Answer] = []
    hot = []
    for values in hot_keys(keys, events):
        condition = _has(keys, events, values)
        of_key = sliced(events.where(condition))
        if of_key is not None:
            hot.append(condition)
            shown = ", ".join(f"{name}={value!r}" for name, value in zip(keys, values, strict=True))
            found.append(Answer(of_key.matches, f"{shown} in {of_key.distribution}"))
    if not hot:
        return None
    answer = matched(events.where(~any_of(hot)))
    for item in found:
        answer = Answer(answer.matches.unionAll(item.matches), f"{answer.distribution}; {item.distribution}")
    return answer


def _has(keys: Sequence[str], events: DataFrame, values: tuple[Any, ...]) -> Column:
    """The rows that have these values of the keys."""
    from pyspark.sql import functions as f

    return all_of([events[quoted(name)].eqNullSafe(f.lit(value)) for name, value in zip(keys, values, strict=True)])


def hot_keys(names: Sequence[str], events: DataFrame) -> list[tuple[Any, ...]]:
    """The values of keys that have more of the first rows than a task should, the largest first."""
    keys = numbered(events.select(*(quoted(name) for name in names)))
    seen = Counter(map(tuple, keys.take(LOOKED_AT)))  # which reads as few partitions as have them, unlike toArrow
    enough = max(FEWEST_SEEN, HOT * seen.total() / parallelism(events))
    return [values for values, count in seen.most_common(MOST_HOT) if count >= enough and None not in values]
