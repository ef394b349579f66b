"""The scan: which rows of a batch matter, to which components, and which are bad. Component i has the bit `1 << i`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kleene.common.errors import DataError
from kleene.common.schema import schema_of_arrow
from kleene.engine.events.scan import Scan, integer_test
from kleene.engine.expressions.failing import Noticed
from kleene.engine.matcher import BadRows, Metrics
from kleene.language.parser import parse
from kleene.pattern.bind import bind
from kleene.pattern.predicates import Arithmetic, Attribute, Comparison, Literal, variables

SCHEMA = pa.schema([("ts", pa.int64()), ("type", pa.string()), ("k", pa.int64()), ("x", pa.int64())])
LARGEST = 2**63 - 1

Row = tuple[int | None, str | None, int | None, int | None]


class Scanned:
    """A scan for `SEQ(A a, B b)`, and what it has counted and set aside."""

    def __init__(self, where: str = "", *, bad_rows: str = "error", types: Any = None, **options: Any) -> None:
        text = f"PATTERN SEQ(A a, B b){' WHERE ' + where if where else ''}"
        bound = bind(parse(text), schema_of_arrow(SCHEMA, time="ts", type="type", types=types))
        components = bound.branches[0].positives
        predicates = [[item for item in bound.conjuncts if variables(item) == {event.variable}] for event in components]
        self.metrics, self.aside = Metrics(), BadRows()
        self.scan = Scan(bound, components, predicates, ["k"], bad_rows, self.metrics, self.aside, **options)

    def __call__(self, *rows: Row) -> list[tuple[int, int]]:
        """The rows that matter, by number, with the bits of their components."""
        numbers, masks = self.scan(batch(*rows))
        return list(zip(numbers.tolist(), masks.tolist(), strict=True))


def batch(*rows: Row, types: pa.DataType | None = None) -> pa.RecordBatch:
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), SCHEMA.types, strict=True)]
    if types is not None:
        columns[1] = columns[1].dictionary_encode() if pa.types.is_dictionary(types) else columns[1].cast(types)
    return pa.RecordBatch.from_arrays(columns, SCHEMA.names)


# --- types ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("types", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_a_row_matters_to_the_components_of_its_type(types: pa.DataType) -> None:
    scanned = Scanned()
    rows = batch((1, "B", 0, 0), (2, "Z", 0, 0), (3, "A", 0, 0), (4, "AB", 0, 0), types=types)
    numbers, masks = scanned.scan(rows)
    assert (numbers.tolist(), masks.tolist()) == ([0, 2], [2, 1])
    assert (scanned.metrics.events, scanned.metrics.relevant) == (4, 2)


def test_a_slice_of_a_batch_is_read_from_where_it_begins() -> None:
    rows = batch((1, "Z", 0, 0), (2, "A", 0, 0), (3, "B", 0, 0)).slice(1)
    numbers, masks = Scanned().scan(rows)
    assert (numbers.tolist(), masks.tolist()) == ([0, 1], [1, 2])


def test_a_type_that_is_null_is_bad_and_one_that_is_not_declared() -> None:
    types = {"A": frozenset("kx"), "B": frozenset("kx")}
    rows = ((1, None, 0, 0), (2, "Z", 0, 0), (3, "A", 0, 0))
    for declared, bad in ((None, 1), (types, 2)):
        scanned = Scanned(types=declared, bad_rows="drop")
        assert scanned(*rows) == [(2, 1)]
        assert scanned.metrics.bad == bad


# --- conditions on one event ------------------------------------------------------------------------------------------


def test_a_condition_takes_its_component_from_a_row_and_the_row_if_none_is_left() -> None:
    scanned = Scanned("a.x > 5")
    assert scanned((1, "A", 0, 5), (2, "A", 0, 6), (3, "B", 0, 0)) == [(1, 1), (2, 2)]
    assert scanned.metrics.relevant == 2


@pytest.mark.parametrize("condition", ["a.x > 5", "a.x * 1 > 5", "a.x > 5 AND a.x * 1 > 0"])
def test_null_holds_no_condition_however_it_is_decided(condition: str) -> None:
    assert Scanned(condition)((1, "A", 0, None), (2, "A", 0, 6)) == [(1, 1)]


def test_what_leaves_64_bits_is_an_error_or_is_noticed() -> None:
    rows = ((3, "A", 0, LARGEST), (4, "A", 0, 1))
    with pytest.raises(DataError, match="integer overflow"):
        Scanned("a.x + 1 > 0")(*rows)
    noticed = Noticed()
    scanned = Scanned("a.x + 1 > 0", noticed=noticed)
    assert scanned(*rows) == [(0, 0), (1, 1)], "the row stays, without its component"
    assert (noticed.since, noticed.until) == (3, 3)


def test_a_condition_that_is_false_anyway_leaves_nothing_to_notice() -> None:
    noticed = Noticed()
    assert Scanned("a.x + 1 > 0 AND a.x < 0", noticed=noticed)((3, "A", 0, LARGEST)) == []
    assert noticed.until is None


def test_comparisons_of_an_integer_with_a_constant_are_known() -> None:
    x = Attribute("b", "x")
    assert integer_test(Comparison("<", x, Literal(150))) == (x, 1, 150, 0)
    assert integer_test(Comparison("!=", Arithmetic("%", x, Literal(500)), Literal(0))) == (x, 1 | 4, 0, 500)
    for other in (
        Comparison("<", x, Literal(1.5)),
        Comparison("<", x, Literal(True)),
        Comparison("<", x, Literal(2**31)),
        Comparison("=", Arithmetic("%", x, Literal(-5)), Literal(0)),
        Comparison("<", x, x),
    ):
        assert integer_test(other) is None


# --- bad rows ---------------------------------------------------------------------------------------------------------

GOOD, NO_KEY, NO_TIME = (1, "A", 0, 0), (2, "A", None, 0), (None, "B", None, 0)


def test_a_bad_row_is_an_error_that_counts_from_the_beginning_of_the_stream() -> None:
    scanned = Scanned()
    assert scanned(GOOD, GOOD) == [(0, 1), (1, 1)]
    with pytest.raises(DataError, match=r"2 bad row\(s\).* is row 3: key attribute 'k' is NULL"):
        scanned(GOOD, NO_KEY, NO_TIME)


def test_bad_rows_are_dropped_or_set_aside_with_the_first_reason() -> None:
    dropping = Scanned(bad_rows="drop")
    assert dropping(NO_KEY, GOOD, NO_TIME) == [(1, 1)]
    assert (dropping.metrics.bad, dropping.aside.batches) == (2, [])
    setting = Scanned(bad_rows="quarantine")
    assert setting(NO_KEY, GOOD, NO_TIME) == [(1, 1)]
    (aside,) = setting.aside.batches
    assert aside.column("reason").to_pylist() == ["key attribute 'k' is NULL", "time column 'ts' is NULL"]
    assert aside.column("type").to_pylist() == ["A", "B"]


def test_a_row_that_matters_to_nobody_is_never_bad() -> None:
    assert Scanned()((None, "Z", None, None), GOOD) == [(1, 1)]


def test_a_key_that_a_type_does_not_have_may_be_null() -> None:
    scanned = Scanned(types={"A": frozenset("x"), "B": frozenset("kx")}, bad_rows="drop")
    assert scanned((1, "A", None, 0), (2, "B", None, 0)) == [(0, 1)]


# --- every event of the stream ----------------------------------------------------------------------------------------


def test_where_neighbours_count_every_row_stays_but_those_set_aside() -> None:
    scanned = Scanned("a.x > 5", bad_rows="drop", keep_irrelevant=True)
    rows = ((1, "Z", None, None), (2, "A", 0, 5), (3, "A", 0, 6), NO_KEY, (None, "Z", 0, 0))
    assert scanned(*rows) == [(0, 0), (1, 0), (2, 1)]
    assert scanned.metrics.relevant == 1
