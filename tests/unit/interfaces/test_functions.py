"""Registered functions: made, named, bound, called on columns, checked; and the ready-made ones."""

from __future__ import annotations

import datetime as dt
import functools
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kleene
from kleene.common.errors import BindingError, DataError, PlanningError
from kleene.engine.build import build_matcher
from kleene.functions import ROWS, corr
from kleene.interfaces.cli import main
from kleene.interfaces.functions import functions_of, load_functions
from kleene.language.parser import parse
from kleene.pattern.builder import call, event, seq, var
from kleene.runtime.embedded import rows_of

ROLES: dict[str, Any] = {"time": "ts", "type": "type"}
EVENTS = pa.table(
    {
        "ts": [1, 2, 3, 4, 5, 6],
        "type": ["A", "A", "B", "B", "A", "B"],
        "x": [1, 2, 3, None, 5, 6],
        "s": ["p", "q", "p", "q", None, "r"],
        "h": [[1.0, 2, 3], [3.0, 2, 1], [2.0, 4, 6], None, [1.0, 1, 1], [1.0, 2, 4]],
    }
)
PAIR = "PATTERN SEQ(A a, B b) WHERE {}"


def gap(x: pa.Array, y: pa.Array) -> pa.Array:
    return pc.cast(pc.abs(pc.subtract(x, y)), pa.float64())


def pairs(condition: str, functions: Any, **options: Any) -> list[tuple[int, int]]:
    found = kleene.query(PAIR.format(condition), functions=functions).match(EVENTS, **ROLES, **options)
    return sorted((row["a"]["ts"], row["b"]["ts"]) for row in found.to_pylist())


def failure(condition: str, functions: Any, error: type[Exception] = DataError) -> str:
    with pytest.raises(error) as caught:
        pairs(condition, functions)
    return str(caught.value)


# --- making and naming ------------------------------------------------------------------------------------------------


def test_a_decorator_with_and_without_arguments() -> None:
    @kleene.function
    def plain(x: pa.Array) -> pa.Array:
        return x

    @kleene.function("Named", returns="string")
    def other(x: pa.Array, *more: pa.Array) -> pa.Array:
        return x

    assert isinstance(plain, kleene.Function)
    assert (plain.name, plain.returns.value, plain.arity) == ("plain", "float", "1 argument")
    assert (other.name, other.returns.value, other.arity) == ("Named", "string", "at least 1 argument")
    assert kleene.function(gap).arity == "2 arguments"
    assert kleene.function(name="G", returns="integer")(gap).name == "G"
    assert plain(pa.array([1])).to_pylist() == [1]


def test_functions_are_values() -> None:
    assert kleene.function(gap) == kleene.function(gap)
    assert kleene.function(gap) != kleene.function(returns="integer")(gap)
    assert hash(kleene.function(gap)) == hash(kleene.function(gap))
    with_gap = kleene.query("PATTERN A a", functions={"gap": gap})
    assert with_gap == kleene.query("PATTERN A a", functions={"gap": gap})
    assert with_gap != kleene.query("PATTERN A a", functions={"gap": corr})


class Unhashable:
    """A callable that cannot be hashed, and has no name."""

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, x: pa.Array, y: pa.Array) -> pa.Array:
        return gap(x, y)


@pytest.mark.parametrize("given", [gap, Unhashable(), functools.partial(lambda z, x, y: gap(pc.add(x, z), y), 0)], ids=type)
def test_any_callable_will_do(given: Callable[..., Any]) -> None:
    assert pairs("gap(a.x, b.x) < 2", {"gap": given}) == [(2, 3), (5, 6)]


def test_what_has_no_signature_takes_any_number_of_arguments() -> None:
    assert kleene.function(max).arity == "at least 1 argument"


@pytest.mark.parametrize("name", ["Gap", "GAP", "gap"])
def test_names_are_known_in_any_case(name: str) -> None:
    assert pairs("gAp(a.x, b.x) < 2", {name: gap}) == [(2, 3), (5, 6)]


def test_a_list_gives_functions_their_own_names() -> None:
    assert pairs("Gap(a.x, b.x) < 2", [kleene.function(gap)]) == [(2, 3), (5, 6)]


def test_a_quoted_name() -> None:
    assert pairs("`the gap`(a.x, b.x) < 2", {"the gap": gap}) == [(2, 3), (5, 6)]


WRONG_FUNCTIONS: list[tuple[Any, str]] = [
    ({"Abs": gap}, "has the name of a built-in function"),
    ({"Sum": gap}, "has the name of an aggregate"),
    ({"count(*)": gap}, "has the name of an aggregate"),
    ({"gap": gap, "Gap": gap}, "has the name of the function 'gap', because case does not matter"),
    ({"": gap}, "a function's name is text"),
    ({3: gap}, "a function's name is text"),
    ({"gap": 3}, "cannot be called: it is of type int"),
    ([gap], "write functions={'Name': function}"),
    (gap, "write functions={'Name': function}"),
    ({"f": lambda *, x: x}, "needs 'x' by its name"),
    ({"f": lambda: 1}, "takes no arguments"),
]


@pytest.mark.parametrize(("functions", "message"), WRONG_FUNCTIONS)
def test_wrong_functions(functions: Any, message: str) -> None:
    with pytest.raises(BindingError, match="function") as caught:
        kleene.query("PATTERN A a", functions=functions)
    assert message in str(caught.value)


def test_all_wrong_names_come_together() -> None:
    with pytest.raises(BindingError) as caught:
        functions_of({"Abs": gap, "sum": gap})
    assert len(caught.value.problems) == 2


def test_a_kind_that_cannot_be_returned() -> None:
    with pytest.raises(BindingError, match="cannot return 'flot'") as caught:
        kleene.function(returns="flot")(gap)
    assert "did you mean 'float'?" in str(caught.value)


# --- binding ----------------------------------------------------------------------------------------------------------


def test_the_number_of_arguments_is_checked() -> None:
    assert "gap takes 2 arguments, found 1" in failure("Gap(a.x) < 2", {"gap": gap}, BindingError)
    assert "f takes 1 to 2 arguments, found 3" in failure(
        "f(a.x, b.x, 1) < 2", {"f": lambda x, y=0: pc.add(x, y)}, BindingError
    )
    assert "takes at least 1 argument, found 0" in failure("f() < 2", {"f": lambda *x: x}, BindingError)


def test_the_declared_kind_is_that_of_the_call() -> None:
    integers = kleene.function(returns="integer")(gap)
    assert "cannot compare gap(a.x, b.x), an integer, with 'x', a string" in failure(
        "gap(a.x, b.x) = 'x'", {"gap": integers}, BindingError
    )
    assert "gap(a.x, b.x) is a float, not a condition" in failure("gap(a.x, b.x)", {"gap": gap}, BindingError)


def test_an_unknown_function_is_told_from_a_near_one() -> None:
    message = failure("gapp(a.x, b.x) < 2", {"gap": gap}, BindingError)
    assert "unknown function 'gapp'" in message
    assert "did you mean 'gap'? Otherwise, if it is a Python function of yours" in message
    assert "functions={'nothing': ...}" in failure("nothing(a.x) < 2", None, BindingError)


def test_text_names_functions_only() -> None:
    query = kleene.query(PAIR.format("Gap(a.x, b.x) < 2"), functions={"gap": gap})
    assert str(query) == "PATTERN SEQ(A a, B b)\nWHERE gap(a.x, b.x) < 2"
    assert parse(str(query)) == parse(PAIR.format("gap(a.x, b.x) < 2"))


def test_the_builder_calls_functions_by_name() -> None:
    a, b = var("a"), var("b")
    built = seq(event("A", "a"), event("B", "b")).where(call("Gap", a.x, b.x) < 2)
    found = kleene.query(built, functions={"Gap": gap}).match(EVENTS, **ROLES)
    assert found.num_rows == 2


def test_a_workload_shares_functions_and_keeps_those_that_queries_bring() -> None:
    text = "PATTERN A a WHERE size(a.x) > 3"
    own = kleene.query(text, name="own", functions={"size": lambda x: pc.multiply(x, 10)})
    found = kleene.workload({"own": own, "shared": text}, functions={"Size": lambda x: pc.multiply(x, 1)}).match(
        EVENTS, **ROLES
    )
    assert {name: rows.num_rows for name, rows in found.items()} == {"own": 3, "shared": 1}


# --- evaluation -------------------------------------------------------------------------------------------------------


def test_a_call_over_one_event_is_made_while_scanning() -> None:
    rows: list[int] = []

    def twice(x: pa.Array) -> pa.Array:
        rows.append(len(x))
        return pc.multiply(x, 2)

    assert pairs("twice(a.x) > 3", {"twice": twice}) == [(2, 3), (2, 4), (2, 6), (5, 6)]
    assert rows == [3]


def test_a_call_is_made_for_a_block_of_rows() -> None:
    rows: list[int] = []

    def counted(x: pa.Array, y: pa.Array) -> pa.Array:
        assert isinstance(x, pa.Array)
        assert isinstance(y, pa.Array)
        assert len(x) == len(y)
        rows.append(len(x))
        return gap(x, y)

    assert pairs("counted(a.x, b.x) < 2", {"counted": counted}) == [(2, 3), (5, 6)]
    assert rows == [7]


def test_arguments_are_columns_of_any_kind_constants_and_expressions() -> None:
    seen: list[list[pa.DataType]] = []

    def kinds(*arguments: pa.Array) -> pa.Array:
        seen.append([argument.type for argument in arguments])
        assert {len(argument) for argument in arguments} == {7}
        return np.ones(7)

    assert len(pairs("kinds(a.x + b.x, a.h, 'text', 2.5, NULL, lower(b.s), a.x < b.x) = 1", {"kinds": kinds})) == 7
    expected = [pa.int64(), pa.list_(pa.float64()), pa.string(), pa.float64(), pa.null(), pa.string(), pa.bool_()]
    assert seen == [expected]


def test_nulls_go_in_and_come_out() -> None:
    nulls: list[int] = []

    def of_null(x: pa.Array) -> pa.Array:
        nulls.append(x.null_count)
        return pc.fill_null(x, 100)

    assert pairs("f(b.x) > 50", {"f": of_null}) == [(1, 4), (2, 4)]
    assert nulls == [1]
    assert pairs("f(b.x) IS NULL", {"f": lambda x: x}) == [(1, 4), (2, 4)]
    assert pairs("NOT f(b.x) > 50", {"f": lambda x: x}) == [(1, 3), (1, 6), (2, 3), (2, 6), (5, 6)]


RESULTS: dict[str, tuple[str, Callable[[pa.Array], Any], list[Any]]] = {
    "array": ("float", lambda x: pc.divide(x, 2.0), [0.5, 1.0, 2.5]),
    "chunked": ("float", lambda x: pc.divide(pa.chunked_array([x.slice(0, 1), x.slice(1)]), 2.0), [0.5, 1.0, 2.5]),
    "numpy": ("float", lambda x: x.to_numpy() / 4, [0.25, 0.5, 1.25]),
    "integers for floats": ("float", lambda x: x, [1.0, 2.0, 5.0]),
    "float32": ("float", lambda x: x.to_numpy().astype(np.float32), [1.0, 2.0, 5.0]),
    "int8": ("integer", lambda x: pc.cast(x, pa.int8()), [1, 2, 5]),
    "NumPy booleans": ("boolean", lambda x: x.to_numpy() > 1, [False, True, True]),
    "strings": ("string", lambda x: np.array([f"v{value}" for value in x.to_pylist()]), ["v1", "v2", "v5"]),
    "a dictionary": ("string", lambda x: pc.cast(x, pa.string()).dictionary_encode(), ["1", "2", "5"]),
    "nothing known": ("integer", lambda x: pa.nulls(len(x)), [None, None, None]),
    "masked": ("float", lambda x: np.ma.masked_array(x.to_numpy() * 1.0, [True, False, False]), [None, 2.0, 5.0]),
    "NaN is a number": ("float", lambda x: np.where(x.to_numpy() > 1, np.nan, 0.0), [0.0, math.nan, math.nan]),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_what_a_function_may_return(name: str) -> None:
    returns, run, wanted = RESULTS[name]
    query = kleene.query("PATTERN A a RETURN f(a.x) AS f", functions={"f": kleene.function(returns=returns)(run)})
    found = query.match(EVENTS, **ROLES).column("f")
    types = {"float": pa.float64(), "integer": pa.int64(), "boolean": pa.bool_(), "string": pa.string()}
    assert found.type == types[returns]
    np.testing.assert_equal(found.to_pylist(), wanted)


WRONG_RESULTS: dict[str, tuple[str, Callable[[pa.Array], Any], str]] = {
    "too few": ("float", lambda x: x.slice(1), "returned 2 values"),
    "one value": ("float", lambda _: 1.0, "returned a value of type builtins.float"),
    "a scalar": ("float", lambda x: x[0], "returned a value of type pyarrow.lib.Int64Scalar"),
    "a list": ("float", lambda x: x.to_pylist(), "returned a value of type builtins.list"),
    "nothing": ("float", lambda _: None, "returned a value of type builtins.NoneType"),
    "two dimensions": ("float", lambda x: np.ones((len(x), 1)), "a NumPy array of type float64 and shape (3, 1)"),
    "a mixture": ("float", lambda _: np.array([1, "a", None], object), "a NumPy array of type object and shape (3,)"),
    "strings": ("float", lambda x: pc.cast(x, pa.string()), "returned values of type string"),
    "floats": ("integer", lambda x: pc.cast(x, pa.float64()), "returned values of type double"),
    "booleans": ("integer", lambda x: pc.greater(x, 1), "returned values of type bool"),
    "lists": ("float", lambda _: pa.array([[1.0]] * 3), "returned values of type list<item: double>"),
    "too large": ("integer", lambda x: np.full(len(x), 2**64 - 1, np.uint64), "do not fit into int64"),
}


@pytest.mark.parametrize("name", WRONG_RESULTS)
def test_what_a_function_may_not_return(name: str) -> None:
    returns, run, message = WRONG_RESULTS[name]
    query = kleene.query("PATTERN A a RETURN f(a.x) AS f", functions={"Odd": gap, "f": kleene.function(returns=returns)(run)})
    with pytest.raises(DataError) as caught:
        query.match(EVENTS, **ROLES)
    assert str(caught.value).startswith("the function 'f' ")
    assert message in str(caught.value)
    assert "hint: " in str(caught.value)


def test_an_exception_inside_a_function_names_it_and_is_the_cause() -> None:
    def broken(x: pa.Array) -> pa.Array:
        return {}["price"]  # type: ignore[no-any-return]

    query = kleene.query("PATTERN A a WHERE Broken(a.x) > 1", functions={"Broken": broken})
    with pytest.raises(DataError, match="the function 'Broken' failed: KeyError: 'price'") as caught:
        query.match(EVENTS, **ROLES)
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(DataError, match="queries 'one', 'two': the function 'Broken' failed") as caught:
        kleene.workload({"one": query, "two": "PATTERN B b"}).match(EVENTS, **ROLES)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_function_is_never_called_on_no_rows() -> None:
    def first(x: pa.Array) -> pa.Array:
        return pa.array([x[0].as_py() * 1.0] * len(x))

    query = kleene.query("PATTERN SEQ(A a, C c) WHERE f(a.x) < f(c.x) RETURN f(c.x) AS y", functions={"f": first})
    assert query.match(EVENTS, **ROLES).num_rows == 0
    assert query.match(EVENTS.slice(0, 0), **ROLES).schema.field("y").type == pa.float64()


@pytest.mark.parametrize("plan", [None, "basic", {"mechanism": "nfa"}], ids=str)
def test_every_mechanism_calls_functions_of_one_event(plan: Any) -> None:
    near = kleene.function(returns="boolean")(lambda x, y: pc.less(pc.abs(pc.subtract(x, y)), 2))
    label = kleene.function(returns="string")(pc.utf8_upper)
    condition = "near(a.x, 2) AND label(a.s) = label(b.s) AND len20(a.h) > len20(b.h) - 1"
    functions = {"near": near, "label": label, "len20": pc.list_value_length}
    assert pairs(condition, functions, plan=plan) == [(1, 3)]


def test_an_automaton_refuses_a_function_of_several_events() -> None:
    query = kleene.query("PATTERN SEQ(A+ a[], B b) WHERE gap(a[i].x, b.x) < 2", functions={"gap": gap})
    with pytest.raises(PlanningError, match="gap"):
        query.match(EVENTS, **ROLES, plan={"mechanism": "nfa"})
    assert query.match(EVENTS, **ROLES).num_rows, "but a lazy plan evaluates it"


def test_functions_of_elements_in_return() -> None:
    query = kleene.query(
        "PATTERN SEQ(A+ a[], B b) WHERE len20(a[i].h) = 3 WITHIN 3 RETURN corr(first(a[].h), b.h) AS c, gap(a.LEN, 1) AS n",
        functions={"corr": corr, "gap": gap, "len20": pc.list_value_length},
    )
    rows = query.match(EVENTS, **ROLES).to_pylist()
    assert sorted((round(row["c"], 6), row["n"]) for row in rows if row["c"] is not None) == [
        (-1.0, 0.0),
        (1.0, 0.0),
        (1.0, 1.0),
    ]


def test_a_declared_type_without_the_attribute_holds() -> None:
    query = kleene.query("PATTERN SEQ(A a, ANY(A, B) b) WHERE corr(a.h, b.h) > 0.9", functions={"corr": corr})
    found = query.match(EVENTS, **ROLES, schema={"A": ["x", "h"], "B": ["x"]}).to_pylist()
    assert sorted((row["a"]["ts"], row["b"]["ts"]) for row in found) == pairs("a.ts < b.ts", None)


def test_a_negative_component() -> None:
    query = kleene.query("PATTERN SEQ(A a, !(A n), B b) WHERE gap(n.x, b.x) < 2 WITHIN 9", functions={"gap": gap})
    found = query.match(EVENTS, **ROLES).to_pylist()
    assert sorted((row["a"]["ts"], row["b"]["ts"]) for row in found) == [(1, 4), (2, 3), (2, 4), (5, 6)]


def test_lists_are_arguments_and_nothing_else() -> None:
    assert pairs("corr(a.h, b.h) > 0.9", {"corr": corr}) == [(1, 3), (1, 6)]
    assert pairs("corr(coalesce(b.h, a.h), a.h) > 0.9", {"corr": corr}) == [(1, 3), (1, 4), (1, 6), (2, 4)]
    assert "cannot be compared" in failure("a.h = b.h", None, BindingError)


# --- oracle -----------------------------------------------------------------------------------------------------------


def test_the_oracle_calls_functions_on_one_row() -> None:
    from kleene.common.schema import Kind
    from kleene.testing.functions import call_registered

    seen: list[pa.Array] = []

    def noted(*arguments: pa.Array) -> Any:
        seen.extend(arguments)
        return np.array([3])

    moment = dt.datetime(2026, 3, 1, 12)  # noqa: DTZ001
    kinds = [Kind.TIMESTAMP, Kind.OTHER, Kind.FLOAT, Kind.STRING]
    assert repr(call_registered(kleene.function(noted), [moment, [1, 2], None, "s"], kinds)) == "3.0"
    assert [item.type for item in seen] == [pa.timestamp("us", "UTC"), pa.list_(pa.int64()), pa.float64(), pa.string()]
    assert seen[0][0].as_py() == moment.replace(tzinfo=dt.UTC)

    with pytest.raises(DataError, match="the function 'f' failed: ZeroDivisionError"):
        call_registered(kleene.function("f")(lambda _: 1 / 0), [1], [Kind.INTEGER])


# --- corr -------------------------------------------------------------------------------------------------------------


def test_corr_is_pearsons() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2 * ROWS + 7, 20)), rng.normal(size=(2 * ROWS + 7, 20)) + 1e6
    found = corr(pa.array(list(x)), pa.array(list(y))).to_numpy()
    wanted = np.array([np.corrcoef(left, right)[0, 1] for left, right in zip(x, y, strict=True)])
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_corr_of_a_row_does_not_depend_on_the_others() -> None:
    rng = np.random.default_rng(5)
    sizes = rng.integers(0, 40, 300)
    x = pa.array([rng.normal(size=size) for size in sizes])
    y = pa.array([rng.normal(size=size) for size in sizes])
    alone = [corr(x.slice(row, 1), y.slice(row, 1))[0].as_py() for row in range(len(x))]
    assert corr(x, y).to_pylist() == alone
    assert any(value is None for value in alone)


def test_corr_has_no_value() -> None:
    rows: list[tuple[Any, Any]] = [
        ([1, 2], [1, 2, 3]), ([], []), ([1], [2]), (None, [1, 2]), ([1, 2], None), ([1, None], [1, 2]),
        ([0.1] * 20, list(range(20))), ([1, 2, 3], [1, 2, 3]), ([1e-200, 2e-200], [1, 2]), ([math.nan, 1], [1, 2]),
    ]  # fmt: skip
    x = pa.array([row[0] for row in rows], pa.list_(pa.float64()))
    y = pa.array([row[1] for row in rows], pa.list_(pa.float64()))
    found = corr(x, y).to_pylist()
    assert found[:7] == [None] * 7
    assert found[7] == pytest.approx(1.0)
    assert found[8] is None
    assert math.isnan(found[9])


LISTS = [pa.list_(pa.int8()), pa.large_list(pa.float32()), pa.list_(pa.float64(), 3), pa.list_(pa.int64())]


@pytest.mark.parametrize("data_type", LISTS, ids=str)
def test_corr_takes_lists_of_any_layout_and_slices(data_type: pa.DataType) -> None:
    lists = pa.array([[9, 9, 9], [1, 2, 3], None, [3, 1, 2], [5, 5, 5]], data_type).slice(1, 3)
    other = pa.array([[2, 4, 6], [1, 2, 3], [6, 2, 4]], pa.list_(pa.float64()))
    assert corr(lists, other).to_pylist() == [pytest.approx(1.0), None, pytest.approx(1.0)]


def test_corr_of_nothing_but_nulls() -> None:
    assert corr(pa.nulls(2), pa.array([[1], [2]])).to_pylist() == [None, None]


@pytest.mark.parametrize("argument", ["a.x", "a.s"])
def test_corr_of_no_lists_says_so(argument: str) -> None:
    assert "the function 'corr' failed: TypeError: corr takes lists of numbers" in failure(
        f"corr({argument}, b.h) > 0", {"corr": corr}
    )


def test_corr_is_between_minus_one_and_one() -> None:
    x = pa.array([[0.1 * i + 0.7 for i in range(size)] for size in range(2, 400)])
    found = corr(x, x).to_numpy()
    assert found.max() <= 1.0
    assert found.min() > 1 - 1e-12


def test_the_plan_with_a_function_can_be_pickled() -> None:
    plan = kleene.query(PAIR.format("gap(a.x, b.x) < 2"), functions={"gap": gap}).explain(EVENTS, **ROLES).plan
    copied = pickle.loads(pickle.dumps(plan))
    # The function is the same object again, or, once Spark's runtime is loaded, a copy that travels by value.
    assert str(copied) == str(plan)
    matcher = build_matcher(copied, EVENTS.schema)
    found = [*rows_of(matcher.feed(EVENTS.combine_chunks().to_batches()[0])), *rows_of(matcher.finish())]
    assert sum(batch.num_rows for batch in found) == len(pairs("gap(a.x, b.x) < 2", {"gap": gap}))


# --- the command ------------------------------------------------------------------------------------------------------

MODULE = """
import kleene
import pyarrow.compute as pc
from helper_of_functions import LIMIT

@kleene.function("Near", returns="boolean")
def near(x, y):
    return pc.less(pc.abs(pc.subtract(x, y)), LIMIT)

def plain(x):
    return x

ALIAS = near
NUMBER = 3
"""


@pytest.fixture
def module(tmp_path: Path) -> str:
    (tmp_path / "my_functions.py").write_text(MODULE)
    (tmp_path / "helper_of_functions.py").write_text("LIMIT = 2\n")
    return str(tmp_path / "my_functions.py")


@pytest.fixture
def events(tmp_path: Path) -> str:
    import pyarrow.parquet as pq

    pq.write_table(EVENTS, tmp_path / "events.parquet")
    return str(tmp_path / "events.parquet")


NEAR = "PATTERN SEQ(A a, B b) WHERE near(a.x, b.x) RETURN a.ts AS a, b.ts AS b"
CLI_ROLES = ["--time", "ts", "--type", "type"]


@pytest.mark.parametrize("suffix", ["", ":near", ":ALIAS"])
def test_the_command_takes_functions_of_a_file(
    suffix: str, module: str, events: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["match", "-q", NEAR, events, *CLI_ROLES, "--functions", module + suffix, "--format", "csv"]) == 0
    rows = capsysbinary.readouterr().out.decode().splitlines()[1:]
    assert sorted(row.split(",")[-2:] for row in rows) == [["2", "3"], ["5", "6"]]


def test_the_command_takes_a_plain_function_by_name(
    module: str, events: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    text = "PATTERN A a WHERE plain(a.x) > 1 RETURN a.ts AS t"
    assert main(["match", "-q", text, events, *CLI_ROLES, "--functions", f"{module}:plain", "--format", "csv"]) == 0
    assert capsysbinary.readouterr().out.count(b"\n") == 3


def test_the_command_takes_functions_of_a_module(
    module: str, events: str, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(module).parent)
    for source in ("my_functions", "my_functions:near"):
        assert main(["explain", "-q", NEAR, events, *CLI_ROLES, "--functions", source]) == 0
        assert b"near(a.x, b.x)" in capsysbinary.readouterr().out
    text = "PATTERN SEQ(A a, B b) WHERE corr(a.h, b.h) > 0.9 RETURN a.ts AS a"
    assert main(["match", "-q", text, events, *CLI_ROLES, "--functions", "kleene.functions", "--format", "csv"]) == 0
    assert capsysbinary.readouterr().out.count(b"\n") == 3


def test_check_takes_functions(module: str, events: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["check", "-q", NEAR, "--events", events, *CLI_ROLES]
    assert main(argv) == 1
    assert "unknown function 'near'" in capsys.readouterr().err
    assert main([*argv, "--functions", module]) == 0
    assert "near(a.x, b.x)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("missing.py", "cannot read 'missing.py': no such file"),
        ("missing.module", "cannot import 'missing.module': ModuleNotFoundError"),
        ("broken.py", "cannot import 'broken.py': SyntaxError"),
        ("empty.py", "'empty.py' has no functions for queries"),
        ("empty.py:nothing", "'empty.py' has no function 'nothing'"),
        ("my_functions.py:NUMBER", "the function 'NUMBER' cannot be called"),
        ("", "cannot import ''"),
    ],
)
def test_functions_that_cannot_be_had(
    source: str, message: str, module: str, events: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(module).parent)
    Path("broken.py").write_text("def f(:\n")
    Path("empty.py").write_text("x = 1\n")
    assert main(["match", "-q", NEAR, events, *CLI_ROLES, "--functions", source]) == 1
    assert message in capsys.readouterr().err


def test_a_file_hides_no_module_of_its_name(tmp_path: Path) -> None:
    import json

    (tmp_path / "json.py").write_text("import kleene\n@kleene.function\ndef f(x):\n    return x\n")
    (found,) = load_functions(str(tmp_path / "json.py"))
    assert found.name == "f"
    assert json.loads("1") == 1
