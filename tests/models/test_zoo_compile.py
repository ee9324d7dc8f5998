"""Real architectures compiled: verified at the corners of their ranges, and no converter that writes nonsense."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.models import zoo
from tests.models.expected_findings import REFUSED
from tests.models.library import needs_library
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.verification.limits import VerifyLimits

# In every test run: a convolution over time, a field, and, where its library is, a decoder.
QUICK = ("tcn", "llm_gpt2_12l")

# Models that are not one engine whole, with what stays in PyTorch: sizes or numbers that data decides, random ops,
# rotary angles in float64 while truncate_double is off, and
# convolutions of 2^31 elements at the maximum.
LEFT: dict[str, frozenset[str]] = {
    "flux_dit": frozenset({"double-precision"}),
    "rrdbnet": frozenset({"too-many-elements"}),
    "sampler_top_p": frozenset({"random"}),
}
# A point of a quick run: the original alone takes less than this.  What is skipped is told, not passed.
LIMITS = VerifyLimits(seconds=3.0, elements=1 << 29, total_s=0)
LARGE = {"mask2former_swin_t": 1 << 30}
"""Models of which the example has more elements, 634 million here."""


def parameters() -> list[Any]:
    """Every model that exports; all but QUICK are slow."""
    return [
        pytest.param(name, marks=[pytest.mark.zoo] if name in QUICK else [pytest.mark.zoo, pytest.mark.slow])
        for name in zoo.ZOO
        if name not in REFUSED
    ]


@pytest.mark.parametrize("name", parameters())
def test_a_model_compiles_and_agrees(name: str) -> None:
    with needs_library(name):
        asked = zoo.build(name)
    # Some have ERROR findings, for sizes that they were asked to take and refuse: expected_findings.ERRORS.
    limits = replace(LIMITS, elements=LARGE.get(name, LIMITS.elements))
    found = compile_in_stages(asked, CompileOptions(backend="reference", target="11.4", force=True), limits=limits)

    codes = {entry.limit.code for entry in found.plan.partitioned.fallback if entry.computes}
    assert codes - {"segment-too-small"} == LEFT.get(name, frozenset())
    assert found.verification is not None
    wrong = [result for result in found.verification.results if not result.passed and not result.skipped]
    assert not wrong
    assert found.verification.results[0].passed, found.verification.results[0].skipped  # the example
    if name not in LEFT:
        assert len(found.engines) == 1
