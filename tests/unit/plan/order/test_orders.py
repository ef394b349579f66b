"""Planners: the best order against all orders, and what each promises."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from kleene.plan.lazy.choice import cost_of, settled
from kleene.plan.order import orders
from kleene.plan.order.cost import Model, chain, subsets
from kleene.plan.order.orders import PLANNERS, as_written, by_rate, dynamic, greedy, iterative

SEQ3 = frozenset({(0, 1), (0, 2), (1, 2)})
PAPER = Model((100, 100, 1), SEQ3, ((0b011, 0.5), (0b110, 0.01)), window=1)
CASES = range(40)


def random_model(seed: int, count: int | None = None) -> Model:
    """A model with rates and selectivities over orders of magnitude; layers of components precede each other."""
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 6)) if count is None else count
    layers = np.sort(random.integers(0, count, count))
    conditions = []
    for _ in range(int(random.integers(0, 2 * count))):
        read = random.choice(count, size=min(count, int(random.integers(1, 4))), replace=False)
        conditions.append((sum(1 << int(i) for i in read), float(10 ** random.uniform(-3, 0))))
    return Model(
        tuple(float(10**exponent) for exponent in random.uniform(-1, 2, count)),
        frozenset((i, j) for i in range(count) for j in range(count) if layers[i] < layers[j]),
        tuple(conditions),
        window=float(random.uniform(0.1, 5)),
        same_partition=float(random.choice([1.0, 0.1])),
        kleene=int(random.integers(0, 1 << count)) if random.random() < 0.3 else 0,
    )


def cost(model: Model, order: tuple[int, ...]) -> float:
    return chain(model, order).nanoseconds


@pytest.mark.parametrize("seed", CASES)
def test_dynamic_is_the_best_of_all_orders(seed: int) -> None:
    model = random_model(seed)
    best = min(cost(model, order) for order in permutations(range(len(model.rates))))
    assert cost(model, dynamic(model)) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("seed", CASES)
@pytest.mark.parametrize("planner", PLANNERS)
def test_no_planner_beats_dynamic(planner: str, seed: int) -> None:
    model = random_model(seed, 7)
    order = PLANNERS[planner](model)
    assert sorted(order) == list(range(7))
    assert cost(model, order) >= cost(model, dynamic(model)) * (1 - 1e-12)


def test_dynamic_keeps_all_sets_of_ten_components(monkeypatch: pytest.MonkeyPatch) -> None:
    models = [random_model(seed, 10) for seed in range(3)]
    found = [dynamic(model) for model in models]
    monkeypatch.setattr(orders, "MOST_STEPS", 10**9)
    assert [dynamic(model) for model in models] == found


def test_dynamic_within_few_steps_is_no_worse_than_greedy_here(monkeypatch: pytest.MonkeyPatch) -> None:
    models = [random_model(seed, 7) for seed in CASES]
    exact = [cost(model, dynamic(model)) for model in models]
    monkeypatch.setattr(orders, "MOST_STEPS", 3 * 7**2)
    bounded = [cost(model, dynamic(model)) for model in models]
    plain = [cost(model, greedy(model)) for model in models]
    assert sum(bounded) < sum(plain)
    assert any(found > best * (1 + 1e-9) for found, best in zip(bounded, exact, strict=True)), "the bound cuts something off"


def test_iterative_improves_on_greedy() -> None:
    models = [random_model(seed, 8) for seed in CASES]
    improved = [cost(model, iterative(model)) / cost(model, greedy(model)) for model in models]
    assert max(improved) <= 1 + 1e-9
    assert min(improved) < 0.9


@pytest.mark.parametrize("seed", range(8))
def test_no_swap_and_no_cyclic_move_improves_iterative(seed: int) -> None:
    model = random_model(seed, 6)
    order = iterative(model)
    for moved in permutations(range(6)):
        if sum(a != b for a, b in zip(order, moved, strict=True)) <= 3:
            assert cost(model, moved) >= cost(model, order) * (1 - 1e-8)


@pytest.mark.parametrize("seed", range(8))
def test_the_move_that_saves_most_comes_first(seed: int) -> None:
    model = random_model(seed, 6)
    order = as_written(model)
    moved = [other for other in permutations(order) if 0 < sum(a != b for a, b in zip(order, other, strict=True)) <= 3]
    found = orders._best_move(subsets(model), order)
    assert cost(model, found or order) == pytest.approx(min(cost(model, other) for other in (order, *moved)))


def test_random_starts_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orders, "ROUNDS", 0)
    monkeypatch.setattr(orders, "greedy", as_written)
    models = [random_model(seed, 9) for seed in range(8)]
    found = [iterative(model) for model in models]
    assert found == [iterative(model) for model in models]
    assert found != [as_written(model) for model in models]


@pytest.mark.parametrize("planner", ["rate", "greedy", "dynamic", "iterative"])
def test_the_rare_event_is_bound_first(planner: str) -> None:
    """Section 4 of the paper: c first; then b, whose condition with c is selective, unless rates alone decide."""
    assert PLANNERS[planner](PAPER) == ((2, 0, 1) if planner == "rate" else (2, 1, 0))
    assert cost(PAPER, PLANNERS[planner](PAPER)) < cost(PAPER, as_written(PAPER)) / 2


def test_a_selective_condition_outweighs_rates() -> None:
    model = Model((4, 5, 3), frozenset(), ((0b011, 0.01),), window=1)
    assert (by_rate(model), greedy(model), dynamic(model)) == ((2, 0, 1), (2, 0, 1), (0, 1, 2))


def test_a_component_between_two_bound_ones_has_a_narrow_scope() -> None:
    """With equal rates and no conditions, binding both ends and then the middle costs what any order of a sequence costs."""
    model = Model((5, 5, 5), SEQ3, (), window=1)
    assert len({cost(model, order) for order in permutations(range(3))}) == 1
    mixed = Model((5, 5, 5), frozenset({(0, 2), (1, 2)}), (), window=1)
    assert dynamic(mixed) == (0, 2, 1), "an ordered pair before the unordered one"


def test_kleene_components_are_bound_late() -> None:
    assert dynamic(Model((10, 11, 12), SEQ3, (), window=1, kleene=0b001)) == (1, 2, 0)


@pytest.mark.parametrize("planner", PLANNERS)
def test_equal_components_stay_as_written(planner: str) -> None:
    assert PLANNERS[planner](Model((2.0,) * 5, frozenset(), (), window=3)) == (0, 1, 2, 3, 4)
    assert PLANNERS[planner](Model((0.0,) * 5, frozenset(), (), window=3)) == (0, 1, 2, 3, 4)


@pytest.mark.parametrize("planner", PLANNERS)
def test_orders_repeat(planner: str) -> None:
    model = random_model(3, 9)
    first = PLANNERS[planner](model)
    subsets.cache_clear()
    iterative(model)
    assert PLANNERS[planner](model) == first


@pytest.mark.parametrize("planner", PLANNERS)
def test_every_planner_gives_an_order_whatever_the_numbers(planner: str) -> None:
    for rates in ((1.0,), (0.0, 1.0, 0.0), (1e300, float("inf"), 1.0)):
        model = Model(rates, frozenset(), ((1, 0.0),), window=float("inf"), kleene=1)
        assert sorted(PLANNERS[planner](model)) == list(range(len(rates)))


@pytest.mark.parametrize("planner", PLANNERS)
def test_many_components_get_an_order(planner: str) -> None:
    model = random_model(5, 16)
    order = PLANNERS[planner](model)
    assert sorted(order) == list(range(16))
    if planner in ("dynamic", "iterative"):
        assert cost(model, order) <= cost(model, greedy(model)) * (1 + 1e-9)


def test_dynamic_tries_a_bounded_number_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(6, 30)
    monkeypatch.setattr(orders, "MOST_STEPS", 5_000)
    subsets.cache_clear()
    dynamic(model)
    assert len(subsets(model)._known) < 5_000 * 30


def test_candidates_that_are_decided_together_count_once() -> None:
    """What suits b among the many a is decided once for each b, however many c it has. The best order by sets does not know."""
    model = Model((1, 0.01, 0.06), frozenset(), ((0b011, 0.02), (0b110, 0.2)), window=300)
    assert dynamic(model) == (1, 0, 2)
    assert settled(model, (1, 0, 2)) == (1, 2, 0)
    assert cost_of(model, (1, 2, 0)) < cost_of(model, (1, 0, 2))
    assert settled(PAPER, dynamic(PAPER)) == dynamic(PAPER)


def test_the_component_that_conditions_read_is_brought_to_the_front() -> None:
    """All a of a b are decided once for all of its c: two swaps away from the best order by sets, each dearer by itself."""
    model = Model((494, 496, 10), SEQ3, ((0b011, 0.5), (0b110, 0.47)), window=1, implied=((0b101, 0.46, 0b010),))
    assert dynamic(model) == (2, 0, 1)
    assert settled(model, (2, 0, 1)) == (1, 2, 0)
    assert cost_of(model, (1, 2, 0)) == min(cost_of(model, order) for order in permutations(range(3)))
