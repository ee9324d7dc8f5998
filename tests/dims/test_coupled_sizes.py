"""How much the choice keeps where two to four sizes depend on each other, beside trying every product."""

from __future__ import annotations

from math import prod
from statistics import mean

import pytest

from tests.harness.brute_force import best_box
from tests.harness.coupled_cases import coupled_case, kept_share
from tests.random_cases import some
from trtdiag.dims.solver.choose import choose
from trtdiag.symbolic import Range, parse_condition

QUICK = (*range(0, 12, 4), 53, 63, 233, 291, 330, 368, 381, 516, 565, 862, 892)  # the last kept 0.17 to 0.6 once
MANY = (*range(24), *range(100, 2100))
LEAST, LEAST_MEAN = 0.7, 0.95  # of the combinations that the best product of progressions keeps


def check(seeds: list[int]) -> None:
    shares = {seed: kept_share(coupled_case(seed)) for seed in seeds}
    assert {seed: share for seed, share in shares.items() if share < LEAST} == {}
    assert mean(shares.values()) >= LEAST_MEAN


def test_small_coupled_cases_keep_nearly_all_that_a_product_can() -> None:
    check(some(list(QUICK), 2))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_many_small_coupled_cases(part: int) -> None:
    check(list(MANY)[part::8])


def test_the_best_product_is_found_by_hand_and_by_trying() -> None:
    box = {"h": Range(1, 12), "w": Range(1, 12)}
    few = parse_condition("h*w <= 12")
    assert best_box([few], box, {"h": 3, "w": 4}) == 12  # 3 by 4
    assert best_box([few], box, {"h": 1, "w": 1}) == 12  # a line of 12, as 2 by 6
    assert best_box([parse_condition("(h*w) % 4 == 0")], box, {"h": 2, "w": 2}) == 36  # both even
    assert best_box([parse_condition("h == 2*w")], box, {"h": 2, "w": 1}) == 6  # the other follows
    assert best_box([few], box, {"h": 4, "w": 4}) == 0  # the example is refused


LARGE = {
    # name -> (conditions, ranges, example, combinations that some product keeps, worked out by hand)
    "a volume": (["a*b*c <= 4096"], dict.fromkeys("abc", (1, 4096)), {"a": 4, "b": 4, "c": 4}, 4096),
    "a sum": (["a + b + c <= 300"], dict.fromkeys("abc", (1, 512)), {"a": 10, "b": 10, "c": 10}, 100**3),
    "two areas": (
        ["a*b <= 4096", "b*c <= 4096"],
        dict.fromkeys("abc", (1, 1024)),
        {"a": 8, "b": 4, "c": 8},
        4 * 1024**2,
    ),
    "an area beside an order": (
        ["a*b <= 10000", "c < a"],
        dict.fromkeys("abc", (1, 1000)),
        {"a": 100, "b": 20, "c": 50},
        900 * 10 * 99,
    ),
}


# Quick: the first; small cases of all kinds are tried whole, above.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if at else ()) for at, name in enumerate(LARGE)]
)
def test_large_ranges_keep_most_of_a_product_known_by_hand(name: str) -> None:
    texts, ranges, example, known = LARGE[name]
    box = {symbol: Range(*ends) for symbol, ends in ranges.items()}
    found = choose([parse_condition(text) for text in texts], box, example)
    assert found.proof.proven
    assert all(example[symbol] in run for symbol, run in found.sets.items())
    assert prod(run.kept or 0 for run in found.sets.values()) >= LEAST * known
