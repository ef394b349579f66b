"""Conditions that are put together find what each of them finds on each row."""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow as pa
import pytest

from kleene.common.errors import BindingError, DataError
from kleene.engine.events.conditions import MOST_TOGETHER, parts_of
from kleene.engine.events.scan import Scan
from kleene.engine.expressions.failing import Noticed
from kleene.engine.matcher import BadRows, Metrics
from support import scan_pairs


@pytest.mark.parametrize("seed", range(4))
def test_the_scan_finds_what_each_condition_finds_on_each_row(seed: int) -> None:
    seen: Counter[str] = Counter()
    for number in range(120):
        rng = Random(f"{seed}:{number}")
        batch, kinds = scan_pairs.events(rng, rng.choice([0, 1, 7, 40, 40]))
        text = scan_pairs.pattern(kinds, rng)
        try:
            bound = scan_pairs.bound_to(text, batch, scan_pairs.declared(kinds, rng))
        except BindingError:
            seen["refused"] += 1
            continue
        predicates = scan_pairs.own_predicates(bound)
        noticed = Noticed()
        components = bound.components
        scan = Scan(bound, components, predicates, (), "error", Metrics(), BadRows(), noticed=noticed)
        wanted: dict[int, int] = {}
        failing: set[int] = set()
        try:
            for bit, (event, own) in enumerate(zip(components, predicates, strict=True)):
                passed, failed = scan_pairs.passing(bound, event.types, own, batch)
                for row in passed:
                    wanted[row] = wanted.get(row, 0) | 1 << bit
                failing.update(failed)
        except DataError:
            seen["errors"] += 1  # a time that does not fit, which nothing tolerates
            continue
        for row in failing:
            wanted.setdefault(row, 0)
        found = dict(zip(*(array.tolist() for array in scan(batch)), strict=True))
        assert found == wanted, f"{seed}:{number}\n{text}\n{batch.schema}"
        assert (noticed.until is None) == (not failing), (seed, number, text)
        if failing:
            with pytest.raises(DataError):
                Scan(bound, components, predicates, (), "error", Metrics(), BadRows())(batch)
        seen.update(part.operand is not None for part in parts_of(bound, predicates, batch.schema))
        seen["failing"] += bool(failing)
        seen["found"] += bool(wanted)
    assert seen[True] > 30
    assert seen[False] > 5
    assert seen["failing"] > 0
    assert seen["found"] > 20
    assert seen["refused"] + seen["errors"] < 40


SCHEMA = pa.schema(
    [
        ("ts", pa.int64()),
        ("type", pa.string()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("d", pa.dictionary(pa.int8(), pa.string())),
    ]
)


def operands(*conditions: str) -> list[tuple[bool, list[int]]]:
    """For each part whether it has an operand, and the tests of its conditions."""
    names = [f"v{number}" for number in range(len(conditions))]
    where = " AND ".join(item.replace("?", name) for item, name in zip(conditions, names, strict=True))
    nothing = pa.RecordBatch.from_pylist([], SCHEMA)
    bound = scan_pairs.bound_to(f"PATTERN SEQ({', '.join(f'A {name}' for name in names)}) WHERE {where}", nothing, None)
    parts = parts_of(bound, scan_pairs.own_predicates(bound), SCHEMA)
    return [(part.operand is not None, part.tests.tolist()) for part in parts]


def test_conditions_on_one_operand_are_one_part() -> None:
    assert operands("?.x > 1.5", "?.x IN (1, 2)", "(?.x < 1 OR ?.x = 7)", "?.s = 'a'", "NOT ?.s = 'b'") == [
        (True, [0, 1, 2]),
        (True, [3, 4]),
    ]
    assert operands("?.x * 2 > 1.5", "?.x * 2 < 7", "?.x > 3") == [(True, [2]), (True, [0, 1])]


def test_any_condition_on_a_dictionary_is_told_by_its_entries() -> None:
    assert operands("?.d LIKE 'a%'", "length(?.d) > 3", "?.d < 'b'") == [(True, [0, 1, 2])]


def test_equal_conditions_are_one_and_texts_are_encoded_where_many_conditions_need_it() -> None:
    assert operands("?.s LIKE 'a%'", "?.s LIKE 'a%'", "?.s > 'b'") == [(False, [0, 1]), (False, [2])]
    assert operands("?.s LIKE 'a%'", "?.s LIKE 'b%'", "?.s > 'b'", "?.s < 'c'") == [(True, [0, 1, 2, 3])]


def test_parts_have_so_many_conditions_at_most() -> None:
    bound = scan_pairs.bound_to("PATTERN SEQ(A a)", pa.RecordBatch.from_pylist([], SCHEMA), None)
    written = " AND ".join(f"a.x != {number}" for number in range(MOST_TOGETHER + 1))
    many = scan_pairs.bound_to(f"PATTERN SEQ(A a) WHERE {written}", pa.RecordBatch.from_pylist([], SCHEMA), None)
    assert bound.components == many.components
    parts = parts_of(many, [[item] for item in many.conjuncts], SCHEMA)
    assert [len(part.conditions) for part in parts] == [MOST_TOGETHER, 1]
