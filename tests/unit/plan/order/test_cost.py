"""The cost model: tuples in scope against counting and simulation, examples by hand, and bounds."""

from __future__ import annotations

from itertools import pairwise, permutations
from math import factorial, isfinite, prod
from typing import Any

import numpy as np
import pytest

from kleene.language.parser import parse
from kleene.pattern.normalize import normalize
from kleene.plan.order.cost import EVALUATION, PARTIAL, PROBE, SCOPE, Estimate, Model, Step, Subsets, chain, steps, subsets

Order = frozenset[tuple[int, int]]

PATTERNS = {
    "SEQ(A a, B b, C c, D d)": 1,
    "AND(A a, B b, C c, D d)": 24,
    "SEQ(A a, AND(B b, C c), D d)": 2,
    "SEQ(AND(A a, B b), AND(C c, D d, E e))": 12,
    "AND(SEQ(A a, B b), SEQ(C c, D d))": 6,
    "AND(SEQ(A a, B b, C c), D d)": 4,
    "AND(SEQ(A a, AND(B b, C c)), SEQ(D d, E e))": 20,
}
SEQ3 = frozenset({(0, 1), (0, 2), (1, 2)})
LETTER_N = frozenset({(0, 2), (1, 2), (1, 3)})
"""The smallest order that SEQ and AND do not make."""


def order_of(pattern: str) -> tuple[int, Order]:
    (branch,) = normalize(parse(f"PATTERN {pattern}").pattern)
    return len(branch.positives), branch.order


def model(count: int, precedes: Order = frozenset(), **given: Any) -> Model:
    return Model(**{"rates": (1.0,) * count, "precedes": precedes, "conditions": (), "window": 1.0, **given})


def counted(precedes: Order, components: list[int]) -> int:
    """Linear extensions, one by one."""
    pairs = [(i, j) for i, j in precedes if i in components and j in components]
    return sum(all(order.index(i) < order.index(j) for i, j in pairs) for order in permutations(components))


@pytest.mark.parametrize(("pattern", "expected"), PATTERNS.items())
def test_linear_extensions_of_seq_and_and(pattern: str, expected: int) -> None:
    count, precedes = order_of(pattern)
    assert Subsets(model(count, precedes)).extensions((1 << count) - 1) == expected


@pytest.mark.parametrize("precedes", [*(order_of(pattern)[1] for pattern in PATTERNS), LETTER_N])
def test_linear_extensions_of_every_subset(precedes: Order) -> None:
    count = max((j for _, j in precedes), default=3) + 1
    known = Subsets(model(count, precedes))
    for mask in range(1, 1 << count):
        assert known.extensions(mask) == counted(precedes, [i for i in range(count) if mask >> i & 1]), bin(mask)


def test_linear_extensions_of_sixty_components() -> None:
    thirds = frozenset((i, j) for i in range(60) for j in range(60) if i // 20 < j // 20)
    assert Subsets(model(60, thirds)).extensions((1 << 60) - 1) == factorial(20) ** 3


def test_volumes_by_hand() -> None:
    sequence, unordered = Subsets(model(3, SEQ3, window=4.0)), Subsets(model(3, window=4.0))
    assert [sequence.tuples(mask) for mask in (0b001, 0b101, 0b111)] == [1, 4, 8]
    assert [unordered.tuples(mask) for mask in (0b001, 0b101, 0b111)] == [1, 8, 48]


@pytest.mark.parametrize("precedes", [*(order_of(pattern)[1] for pattern in PATTERNS), LETTER_N])
def test_volumes_by_sampling(precedes: Order) -> None:
    count, window, samples = max((j for _, j in precedes), default=3) + 1, 2.0, 200_000
    # The first component lies at 0, so that whatever lies within the window of it lies in (-window, window).
    times = np.random.default_rng(7).uniform(-window, window, (count, samples))
    times[0] = 0
    hits = times.max(axis=0) - times.min(axis=0) < window
    for i, j in precedes:
        hits &= times[i] < times[j]
    expected = hits.mean() * (2 * window) ** (count - 1)
    found = Subsets(model(count, precedes, window=window)).tuples((1 << count) - 1)
    assert found == pytest.approx(expected, rel=0.06)


def simulated(seed: int, rates: tuple[float, ...], precedes: Order, window: float, span: float) -> list[int]:
    """What binding a, b, c in this order does on Poisson streams of two keys with the condition `a.x + b.x < 0.5`.

    Evaluations of the second step, partial matches after it, evaluations of the third; of tuples that start within the span.
    """
    random = np.random.default_rng(seed)
    sizes = [random.poisson(rate * (span + window)) for rate in rates]
    times = [random.uniform(0, span + window, size) for size in sizes]
    keys = [random.integers(0, 2, size) for size in sizes]
    values = [random.uniform(0, 1, size) for size in sizes]

    def together(i: int, j: int) -> Any:
        first, second = times[i][:, None], times[j][None, :]
        near = (np.abs(first - second) < window) & (keys[i][:, None] == keys[j][None, :])
        return near & (first < second) if (i, j) in precedes else near

    pairs = together(0, 1)
    passes = pairs & (values[0][:, None] + values[1][None, :] < 0.5)
    inside = np.minimum(times[0][:, None], times[1][None, :]) < span
    triples = passes[:, :, None] & together(0, 2)[:, None, :] & together(1, 2)[None, :, :]
    triples &= inside[:, :, None] | (times[2] < span)
    return [int((pairs & inside).sum()), int((passes & inside).sum()), int(triples.sum())]


@pytest.mark.parametrize("pattern", ["SEQ(A a, B b, C c)", "AND(A a, B b, C c)", "SEQ(AND(A a, B b), C c)"])
def test_steps_of_simulated_streams(pattern: str) -> None:
    _, precedes = order_of(pattern)
    rates, window, span, runs = (4.0, 3.0, 2.0), 1.0, 20.0, 600
    seen = np.sum([simulated(seed, rates, precedes, window, span) for seed in range(runs)], axis=0) / (span * runs)
    _, second, third = steps(Model(rates, precedes, ((0b011, 0.125),), window, same_partition=0.5), (0, 1, 2))
    assert [second.evaluations, second.partial_matches, third.evaluations] == pytest.approx(seen.tolist(), rel=0.05)


def test_the_example_of_the_paper() -> None:
    """Section 4: 100 a, 100 b, one c in a window; all pairs of a and b satisfy their condition, one b suits c."""
    example = Model((100, 100, 1), SEQ3, ((0b011, 1.0), (0b110, 0.01)), window=1)
    assert [step.evaluations for step in steps(example, (0, 1, 2))] == [100, 10_000, 5_000]
    # Of the 100 a that the paper checks last, here only the half lies before its b: the paper lets all a precede all b.
    assert [step.evaluations for step in steps(example, (2, 1, 0))] == [1, 100, 50]
    assert [step.partial_matches for step in steps(example, (2, 1, 0))] == [1, 1, 50]


def test_what_a_step_costs() -> None:
    given = Model((10, 2, 1), frozenset(), ((0b011, 0.5), (0b111, 0.1), (0b100, 0.25)), window=3, negatives=2)
    pair, triple = 10 * 2 * 2 * 3, 10 * 2 * 1 * 3 * 3**2
    assert steps(given, (0, 1, 2)) == (
        Step(0, 10, 10, EVALUATION * 10 + PARTIAL * 10),
        Step(1, pair, pair / 2, EVALUATION * pair + PARTIAL * pair / 2 + SCOPE * 10),
        Step(2, triple / 2, triple / 80, EVALUATION * triple / 2 + PARTIAL * triple / 80 + SCOPE * pair / 2),
    )
    found = steps(given, (0, 1, 2))
    nanoseconds = sum(step.nanoseconds for step in found) + 2 * PROBE * triple / 80
    assert chain(given, (0, 1, 2)) == Estimate(10 + pair + triple / 2, 10 + pair / 2 + triple / 80, nanoseconds)


def test_steps_extend_sets() -> None:
    given = Model((10, 2, 1), SEQ3, ((0b011, 0.5), (0b110, 0.1)), window=3)
    found = steps(given, (2, 0, 1))
    extend = subsets(given).extend
    assert found == (extend(0, 2), extend(0b100, 0), extend(0b101, 1))


def test_the_number_of_matches_does_not_depend_on_the_order() -> None:
    given = Model((10, 2, 1, 7), frozenset({(0, 1)}), ((0b0011, 0.5), (0b1110, 0.1)), 3, 0.5, kleene=0b1000)
    assert len({steps(given, order)[-1].partial_matches for order in permutations(range(4))}) == 1


def test_an_impossible_condition_stops_all_that_follows() -> None:
    found = steps(model(3, conditions=((0b011, 0.0),)), (0, 1, 2))
    assert (found[1].partial_matches, found[2]) == (0, Step(2, 0, 0, 0))
    assert chain(model(2, conditions=((0, 0.0),)), (0, 1)) == Estimate(0, 0, 0)


@pytest.mark.parametrize(
    ("field", "less", "more"),
    [
        ("rates", (1.0, 2.0, 3.0), (1.0, 2.5, 3.0)),
        ("window", 2.0, 2.5),
        ("same_partition", 0.5, 0.6),
        ("conditions", ((0b011, 0.2), (0b110, 0.3)), ((0b011, 0.2), (0b110, 0.4))),
        ("conditions", ((0b011, 0.2), (0b110, 0.3)), ((0b011, 0.2),)),
        ("precedes", SEQ3, frozenset({(0, 1), (0, 2)})),
        ("kleene", 0b000, 0b010),
    ],
)
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_more_of_anything_costs_more(field: str, less: Any, more: Any, order: tuple[int, ...]) -> None:
    base: dict[str, Any] = {"rates": (1.0, 2.0, 3.0), "window": 2.0, "conditions": ((0b011, 0.2),)}
    cheap, dear = (chain(model(3, **{**base, field: value}), order) for value in (less, more))
    assert cheap.partial_matches < dear.partial_matches
    assert cheap.evaluations <= dear.evaluations
    assert cheap.nanoseconds < dear.nanoseconds


def test_kleene_chooses_among_subsequences() -> None:
    """Ten candidates in the window have 1023 non-empty subsequences."""
    known = Subsets(Model((1, 5), frozenset({(0, 1)}), (), window=2, kleene=0b10))
    assert known.tuples(0b11) == pytest.approx(1023)
    keyed = Subsets(Model((1, 5), frozenset({(0, 1)}), (), window=2, same_partition=0.5, kleene=0b10))
    assert keyed.tuples(0b11) == pytest.approx(31)


def test_kleene_costs_no_less_than_one_event() -> None:
    rates = [10.0**exponent for exponent in range(-6, 24)]
    single = [Subsets(Model((1, rate), frozenset(), (), 1)).tuples(0b11) for rate in rates]
    kleene = [Subsets(Model((1, rate), frozenset(), (), 1, kleene=0b10)).tuples(0b11) for rate in rates]
    assert all(few <= many for few, many in zip(single, kleene, strict=True))
    assert all(less <= more * (1 + 1e-12) for less, more in pairwise(kleene))


@pytest.mark.parametrize("window", [0.0, 1.0, 1e300, float("inf")])
@pytest.mark.parametrize("same_partition", [0.0, 1e-300, 1.0])
@pytest.mark.parametrize("rate", [0.0, 1e-300, 1e18, 1e300, float("inf")])
def test_every_estimate_is_a_number(rate: float, same_partition: float, window: float) -> None:
    conditions = ((0b11, 0.0), (0b111, 1e-300))
    huge = Model((*(rate, 1.0) * 5, 0.0, 1.0), frozenset(), conditions, window, same_partition, kleene=0b101, negatives=60)
    found = chain(huge, range(12))
    assert all(isfinite(value) and value >= 0 for value in (found.evaluations, found.partial_matches, found.nanoseconds))


def test_sixty_components_are_estimated() -> None:
    rates = tuple(float(1 + i % 7) for i in range(60))
    ordered = frozenset((i, j) for j in range(60) for i in range(j))
    found = steps(Model(rates, ordered, (), 10.0), range(60))
    assert found[-1].partial_matches == pytest.approx(prod(rates) * 10.0**59 / factorial(59))


@pytest.mark.parametrize(
    "wrong",
    [
        {"rates": ()},
        {"rates": (1.0, -1.0)},
        {"rates": (1.0, float("nan"))},
        {"conditions": ((0b100, 0.5),)},
        {"conditions": ((0b11, 1.5),)},
        {"window": -1.0},
        {"same_partition": 2.0},
    ],
)
def test_numbers_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        model(2, **wrong)


def test_orders_that_are_none_are_refused() -> None:
    for precedes in (frozenset({(0, 1), (1, 2)}), frozenset({(0, 0)}), frozenset({(0, 1), (1, 0), (0, 0), (1, 1)})):
        with pytest.raises(AssertionError):
            Subsets(model(3, precedes))
    for order in ((0, 1), (0, 1, 1), (0, 1, 3)):
        with pytest.raises(AssertionError):
            steps(model(3), order)
