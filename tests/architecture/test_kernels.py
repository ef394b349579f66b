"""Every kernel gives the same arrays compiled and as the plain Python it was written in.

The arrays are those of real runs: each kernel is wrapped, random pairs are matched, and every call is replayed with its plain
twin on copies of its arguments as they were. So the layout of stacks, groups and indexes is never made up here. The twins come
from a second import of the kernels under `KLEENE_KERNELS=python`.
"""

from __future__ import annotations

import copy
import importlib
import os
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest

import kleene.engine.kernels as package
from kleene.engine.automaton import run_buffer
from kleene.engine.expressions import filters
from kleene.engine.kernels.cache_directory import sources
from kleene.plan.options import LazyOptions, SequenceOptions
from kleene.testing import oracle
from support import aggregate_pairs, lazy_pairs, nfa_pairs, queue_pairs, sase_pairs, workload_pairs
from support.aggregate_pairs import PLANS
from support.random_aggregate import aggregate_example
from support.random_workloads import match_workload
from support.strategies import any_match_example, examples, saseplus_examples

ENGINE = "kleene.engine."
MODULES = [
    importlib.import_module(".".join(("kleene", *path.with_suffix("").parts)))
    for path in sources()
    if path.stem not in ("arrays", "__init__")
]
KERNELS = {
    f"{module.__name__.removeprefix(ENGINE)}.{name}": (module, name)
    for module in MODULES
    for name, item in vars(module).items()
    if hasattr(item, "py_func") and item.py_func.__module__ == module.__name__ and not name.startswith("_")
    if item.targetoptions.get("nogil")  # others are parts of kernels, never called by themselves
}


def plain_modules() -> dict[str, Any]:
    """The kernel modules as plain Python, by their names; the compiled ones stay what everyone else sees."""
    names = [name for name in sys.modules if name.startswith(package.__name__)]
    compiled = {name: sys.modules.pop(name) for name in {*names, *(module.__name__ for module in MODULES)}}
    before = os.environ.get("KLEENE_KERNELS")
    os.environ["KLEENE_KERNELS"] = "python"
    try:
        return {module.__name__.removeprefix(ENGINE): importlib.import_module(module.__name__) for module in MODULES}
    finally:
        del os.environ["KLEENE_KERNELS"]
        if before is not None:
            os.environ["KLEENE_KERNELS"] = before
        sys.modules.update(compiled)
        for name, module in compiled.items():  # an import binds a module in its package too
            parent, _, own = name.rpartition(".")
            setattr(sys.modules[parent], own, module)


def uncompiled(argument: Any) -> Any:
    """The argument as plain Python takes it: a block filter as the function it was compiled from."""
    function = getattr(argument, "plain", argument)
    if function is not argument and function.__name__ in ("run_filter", "lazy_filter"):
        return lambda *given: function(*(item._arr.reshape(-1) if hasattr(item, "_arr") else item for item in given))
    return function


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return callable(one) or one == other


def twin(kernel: Any, plain_kernel: Any, name: str, seen: Counter[str]) -> Callable[..., Any]:
    """A kernel that also runs as plain Python, and compares results and everything written into its arguments."""

    def run(*arguments: Any) -> Any:
        theirs = [uncompiled(copy.deepcopy(item) if isinstance(item, np.ndarray | tuple) else item) for item in arguments]
        result = kernel(*arguments)
        with np.errstate(over="ignore"):
            expected = plain_kernel(*theirs)
        assert same(result, expected), f"{name} returns {result}, as Python {expected}"
        for position, (mine, plain) in enumerate(zip(arguments, theirs, strict=True)):
            written = _written(name, mine, result)
            assert same(mine[written], plain[written]) if written is not None else same(mine, plain), (
                f"{name}: argument {position}"
            )
        seen[name] += 1
        return result

    return run


def _written(name: str, argument: Any, result: Any) -> slice | None:
    """Selections write past their end on purpose (branch-free): only what they report counts."""
    if name == "kernels.rows.select_by_type" and isinstance(argument, np.ndarray):
        return slice(0, result) if isinstance(result, int) else None
    return None


@pytest.mark.skipif(not package.COMPILED, reason="KLEENE_KERNELS=python: there is no compiled twin to compare with")
def test_every_kernel_has_a_plain_twin_that_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()
    plain = plain_modules()
    for name, (module, attribute) in KERNELS.items():
        original = getattr(module, attribute)
        twin_of = getattr(plain[name.rpartition(".")[0]], attribute)
        assert not hasattr(twin_of, "py_func"), "the twin is compiled too"
        wrapped = twin(original, twin_of, name, seen)
        for user, held in _users(original):
            monkeypatch.setattr(user, held, wrapped)
    rng = Random(4)
    number = 0
    for number, pair in enumerate(examples(31, 60)):
        found = sase_pairs.check(pair, [sase_pairs.default_setting(rng), sase_pairs.random_setting(rng)], rng)
        assert not found, (number, found)
    assert number == 59
    monkeypatch.setattr(run_buffer, "NODES", 16)
    for number, pair in enumerate(saseplus_examples(8, 40)):
        if not nfa_pairs.refused(pair):
            wanted = oracle.matches(pair.bound(), pair.events)
            found = nfa_pairs.check(pair, nfa_pairs.settings_of(rng), rng, wanted)
            assert not found, (number, found)
    for number in range(20):
        pair = queue_pairs.queue_example(8, number)
        found = nfa_pairs.check(pair, nfa_pairs.settings_of(rng), rng, oracle.matches(pair.bound(), pair.events))
        assert not found, (number, found)
    for number in range(30):
        pair = lazy_pairs.Pair(any_match_example(9, number))
        if pair.plan() is not None:
            options = None if number % 3 else LazyOptions("tree")
            planned = replace(lazy_pairs.random_setting(rng), options=options, planned=True, known=None)
            found = lazy_pairs.check(pair, [*lazy_pairs.settings_of(rng, pair.example, number), planned], rng)
            assert not found, (number, found)
    for number in range(60):
        counted = aggregate_pairs.Pair(aggregate_example(6, number))
        found = aggregate_pairs.check(counted, [(plan, aggregate_pairs.random_setting(rng)) for plan in PLANS], Counter())
        assert not found, (number, found)
    for number in range(20):
        workload = workload_pairs.Given(match_workload(8, number))
        found = workload_pairs.check(workload, workload_pairs.settings_of(rng, number), rng, Counter())
        assert not found, (number, found)
    missing = set(KERNELS) - set(seen)
    assert not missing - RARE, f"never run: {missing}"


RARE = {
    "kernels.rows.dense_codes",  # keys of a wide range only
    "automaton.kernels.compressed.draw",  # samples, which random pairs do not ask for...
    "automaton.kernels.compressed.locate",
    "automaton.kernels.compressed.lift",  # ...and windows that cut long chains of unions
    "matches.kernels.lists.deviations",  # rare aggregates
    "matches.kernels.lists.sum_floats",
    "matches.kernels.apart.keep_apart",  # tasks on Spark only
    "counting.kernels.slices.combine",  # the same
    "aggregation.kernels.fold_lists",  # aggregates of Kleene variables that are matched
    "matches.kernels.identity.hash_nanoseconds",  # times in nanoseconds only
    "events.kernels.keyed.hash_texts",  # keys that are texts, of counters without a window
    "kernels.rows.count_ends",  # more matches than events
}
"""Kernels with a test of their own, compiled and plain."""


def _users(kernel: Any) -> list[tuple[Any, str]]:
    """Every engine module that holds the kernel, and under which name."""
    return [
        (module, held)
        for name, module in list(sys.modules.items())
        if name.startswith("kleene.engine")
        for held, item in list(vars(module).items())
        if item is kernel
    ]


@pytest.mark.skipif(not package.COMPILED, reason="KLEENE_KERNELS=python: there is no compiled twin to compare with")
def test_dense_codes_compiled_and_plain() -> None:
    rows = importlib.import_module("kleene.engine.kernels.rows")
    rng = np.random.default_rng(1)
    for size, span in ((0, 1), (1, 1), (50, 10), (500, 1 << 62)):
        keys = rng.integers(-span, span, size)
        results = []
        for function in (rows.dense_codes, rows.dense_codes.py_func):
            table, codes = np.full(1 << max(1, int(2 * size).bit_length()), -1, np.int64), np.empty(size, np.int64)
            with np.errstate(over="ignore"):
                results.append((function(keys, table, codes), codes))
        assert same(results[0], results[1])
        assert results[0][0] == len(set(keys.tolist()))


@pytest.mark.skipif(not package.COMPILED, reason="KLEENE_KERNELS=python: there is no compiled twin to compare with")
def test_words_of_nanoseconds_compiled_and_plain() -> None:
    identity = importlib.import_module("kleene.engine.matches.kernels.identity")
    edges = [-(2**63), -1001, -1000, -999, -1, 0, 1, 999, 1000, 1001, 2**63 - 1]
    values = np.append(np.array(edges, np.int64), np.random.default_rng(3).integers(-(2**63), 2**63 - 1, 500))
    results = []
    for function in (identity.hash_nanoseconds, identity.hash_nanoseconds.py_func):
        words = np.empty(values.size, np.uint64)
        with np.errstate(over="ignore"):
            function(values, words)
        results.append(words)
    assert same(results[0], results[1])
    whole = values % 1000 == 0
    assert results[0][whole].tolist() == (values[whole] // 1000).view(np.uint64).tolist()
    assert np.unique(results[0]).size == np.unique(values).size


@pytest.mark.skipif(not package.COMPILED, reason="KLEENE_KERNELS=python: there is no compiled twin to compare with")
def test_hashes_of_texts_compiled_and_plain() -> None:
    keyed = importlib.import_module("kleene.engine.events.kernels.keyed")
    texts = ["", "a", "b", "ab", "ba", "12345678", "123456789", "1234567812345678", "\0", "\0\0", "ü"]
    data = np.frombuffer("".join(texts).encode(), np.uint8)
    offsets = np.cumsum([0, *(len(text.encode()) for text in texts)]).astype(np.int32)
    results = []
    for function in (keyed.hash_texts, keyed.hash_texts.py_func):
        hashes = np.full(len(texts), 7, np.uint64)
        with np.errstate(over="ignore"):
            function(hashes, offsets, data)
        results.append(hashes)
    assert same(results[0], results[1])
    assert np.unique(results[0]).size == len(texts)


@pytest.mark.skipif(not package.COMPILED, reason="KLEENE_KERNELS=python: there is no compiled twin to compare with")
def test_counts_of_ends_compiled_and_plain() -> None:
    rows = importlib.import_module("kleene.engine.kernels.rows")
    last = np.array([3, 1, 3, 0, 3], np.int64)
    for most, over in ((3, -1), (2, 3)):
        for function in (rows.count_ends, rows.count_ends.py_func):
            ends = np.zeros(5, np.int64)
            assert function(last, ends, most) == over
            assert ends.tolist() == [1, 1, 0, 3, 0]


@pytest.mark.skipif(not package.COMPILED, reason="KLEENE_KERNELS=python: there is no compiled twin to compare with")
def test_a_compiled_block_filter_keeps_what_the_plain_one_keeps() -> None:
    rng = np.random.default_rng(2)
    checked = 0
    for number, pair in enumerate(examples(12, 60)):
        bound = pair.bound()
        plan = sase_pairs.make_plan(bound, SequenceOptions())
        (branch,) = plan.branches
        program = filters.build_filter(bound, branch.variables, branch.stacks.predicates)
        if program is None:
            continue
        rows = 40
        ints, floats = rng.integers(-3, 9, (len(program.ints), rows)), rng.integers(-3, 9, (len(program.floats), rows)) / 2
        valid = (rng.random((len(program.ints) + len(program.floats), rows)) < 0.9).astype(np.uint8)
        constants = np.zeros(len(program.constants) + 1, np.int64)
        length = len(branch.components)
        stack, chosen = np.tile(np.arange(rows), (length, 1)), rng.integers(0, rows, length)
        for level in range(length - 1):
            kept = []
            for function in (partial(_call, program.block_filter), uncompiled(program.block_filter)):
                selected = np.tile(np.arange(rows), (length, 1))
                count = function(level, chosen, stack, selected, rows, ints, floats, valid, constants)
                kept.append(selected[level, :count].tolist())
            assert kept[0] == kept[1], (number, level)
            checked += 1
    assert checked > 20


def _call(block_filter: Any, *arguments: Any) -> int:
    """Calls a compiled filter from compiled code, as kernels do."""
    import numba

    global _CALLER
    if _CALLER is None:
        _CALLER = numba.njit(lambda f, a, b, c, d, e, g, h, i, j: f(a, b, c, d, e, g, h, i, j))
    return int(_CALLER(block_filter, *arguments))


_CALLER: Any = None
