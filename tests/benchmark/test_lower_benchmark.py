"""benchmarks/lower.py, whose last two columns say that both lowered forms compute what the program does."""

from __future__ import annotations

from benchmarks.lower import measured


def test_both_lowered_forms_are_compared_with_the_program() -> None:
    *_, ours, theirs = measured("tabular_mlp")
    # float32, and decompositions may add up in another order
    assert max(float(ours), float(theirs)) < 1e-6
