"""Filters as machine code compute what their source says."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from kleene.engine import kernels
from kleene.engine.lazy.program import HEADER

if not kernels.COMPILED:
    pytest.skip("filters are plain Python", allow_module_level=True)

LEAST, MOST = -(2**63), 2**63 - 1
INTEGERS = (LEAST, -7, -1, 0, 1, 3, 7, MOST)
FLOATS = (-2.5, -0.0, 0.0, 1.5, float("nan"), float("inf"))

CONDITIONS = (
    "x < y", "x <= 3", "x == y", "x != y", "u > v", "u == v", "u != v", "x >= u", "not (u < v)",
    "(x > 0) & (y > 0) | (u < v)", "(x ^ y) & (x ^ 3) < 0", "abs(u) % 2.0 == 0.5", "abs(x % 7) == 1", "x % -3 == -1",
    "(x if y > 0 else 5) > 2", "(x if u > v else 1.5) > 1", "np.float64(x) > v", "np.int64(x).view(np.float64) > 0.0",
    "x >> 2 == 1", "x / 2 > 0.4", "-u > v", "-x > y", "~x > y", "min(x, 3) == y", "np.float64(u).view(np.int64) >= 0",
    "abs(x) > 5", "np.sqrt(abs(u)) > 1", "((x > 0) * 1) + 1 > 1",
    f"x < {2**63}", f"x > {2**63}", f"x == {2**70}", f"x != {2**70}", f"{-(2**70)} < x", f"x <= {-(2**70)}",
)  # fmt: skip


def kept(compiled: object, ints: np.ndarray, floats: np.ndarray, places: np.ndarray) -> list[int]:
    selected, nothing = places.copy(), np.zeros(1, np.int64)
    given = (0, 1, selected.size, ints.shape[1], nothing, selected, ints, floats, np.ones(ints.shape, np.uint8), nothing)
    if isinstance(compiled, int):
        call = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4, *[ctypes.c_void_p] * 6)(compiled)
        found = call(*(item.ctypes.data if isinstance(item, np.ndarray) else item for item in given))
    else:
        found = compiled(*(item.reshape(-1) if isinstance(item, np.ndarray) else item for item in given))  # type: ignore[operator]
    return selected[:found].tolist()


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_hold_where_they_do_as_python(condition: str) -> None:
    pairs = [(one, other) for one in INTEGERS for other in INTEGERS]
    ints = np.array(pairs, np.int64).T.copy()
    numbers = [(one, other) for one in FLOATS for other in FLOATS]
    floats = np.array([numbers[at % len(numbers)] for at in range(len(pairs))]).T.copy()
    places = np.arange(len(pairs))
    lines = (
        "for position in range(n):",
        "    place = selected[position]",
        "    x = ints[place]",
        "    y = ints[rows + place]",
        "    u = floats[place]",
        "    v = floats[rows + place]",
        "    selected[kept] = place",
        f"    kept += 1 if {condition} else 0",
        "return kept",
    )
    source = "\n".join((HEADER, "    kept = 0", *(f"    {line}" for line in lines))) + "\n"
    compiled = kernels.compile_lazy_filter(source)
    with np.errstate(all="ignore"):
        expected = kept(kernels.generated(source), ints, floats, places)
    assert kept(compiled.__wrapper_address__(), ints, floats, places) == expected  # type: ignore[attr-defined]


def test_loops_stop_where_they_are_told() -> None:
    lines = (
        "kept = 0",
        "for position in range(kept, n):",
        "    if selected[position] == 3:",
        "        continue",
        "    at = position",
        "    while at >= 0 and selected[at] != 4:",
        "        at -= 1",
        "    if at >= 0 or position == 0:",
        "        selected[kept] = selected[position]",
        "        kept += 1",
        "return kept",
    )
    source = "\n".join((HEADER, *(f"    {line}" for line in lines))) + "\n"
    nothing = np.zeros((1, 1), np.int64)
    for places in ([1, 3, 2, 4, 3, 5], [4], [3, 3], []):
        given = nothing, nothing.astype(float), np.array(places, np.int64)
        address = kernels.compile_lazy_filter(source).__wrapper_address__()  # type: ignore[attr-defined]
        assert kept(address, *given) == kept(kernels.generated(source), *given)
