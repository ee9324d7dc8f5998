"""Guards that torch wrote in the wild, each solved for declarable sizes and checked by trying them all."""

from __future__ import annotations

from pathlib import Path

from tests.harness.rows import each
from tests.random_cases import some
from trtdiag.dims.solver.choose import choose
from trtdiag.symbolic import Range, Sym, evaluate, free_symbols, parse_condition

GUARDS = (Path(__file__).parent.parent / "symbolic" / "guards.txt").read_text().splitlines()
LOW, HIGH = 2, 1021
ALONE = [text for text in GUARDS if len(free_symbols(parse_condition(text, lambda _: Sym("h")))) == 1]


def holding(condition) -> list[int]:
    return [value for value in range(LOW, HIGH + 1) if evaluate(condition, {"h": value})]


def test_the_corpus_is_mostly_of_one_size():
    assert len(ALONE) > 280


@each("guard", some(ALONE, 30))
def test_every_chosen_size_satisfies_the_guard(guard):
    condition = parse_condition(guard, lambda _: Sym("h"))
    good = holding(condition)
    example = good[len(good) // 2] if good else 64
    found = choose([condition], {"h": Range(LOW, HIGH)}, {"h": example})
    if not good:
        assert found.conflict is not None
        return
    run = found.sets["h"]
    kept = [run.step * d + run.offset for d in range(run.range.min, run.range.max + 1)]
    assert example in kept
    assert set(kept) <= set(good)
    assert found.proof.proven
    # No progression of the steps that the guard repeats with, and none of small steps, has more.
    for step in range(1, 65):
        low = high = example
        allowed = set(good)
        while low - step in allowed:
            low -= step
        while high + step in allowed:
            high += step
        assert len(kept) >= (high - low) // step + 1, step
    wide = choose([condition], {"h": Range(LOW, None)}, {"h": example})
    assert wide.proof.proven
    assert wide.sets["h"].step >= 1
    inside = [value for value in range(LOW, HIGH + 1) if value in wide.sets["h"]]
    assert set(inside) <= set(good)


def test_all_guards_of_one_model_together():
    texts = [f"(h // {k}) != 1" for k in (2, 4, 8)] + ["h % 8 == 0", "(h//8)*(w//8) != 1", "w % 8 == 0", "(w//8) != 1"]
    conditions = [parse_condition(text) for text in texts]
    found = choose(conditions, {"h": Range(135, 2160), "w": Range(135, 3840)}, {"h": 136, "w": 144})
    assert (found.sets["h"].kept, found.sets["w"].kept) == (254, 464)
    assert found.proof.proven
    assert [[len(by)] for by in found.narrowed_by.values()] == [[1], [1]]
