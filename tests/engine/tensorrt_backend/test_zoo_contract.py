"""The networks of real architectures, written for every version against its API surface."""

from __future__ import annotations

from typing import Any

import pytest
from written import write

from tests.models import zoo
from tests.models.expected_findings import REFUSED
from tests.models.library import needs_library
from trtdiag.capture.load import capture
from trtdiag.convert.engine_plan import convert_segments, plan_engines
from trtdiag.dims.system import dim_system
from trtdiag.lower.metadata import check_metadata
from trtdiag.options import CompileOptions, Precision
from trtdiag.targets import TARGETS, get_target

# In every test run: a convolution over time, and a field, on the version that differs most.
QUICK = ("tcn", "nerf_mlp")


def written_networks(name: str, version: str, precision: Precision = Precision.KEEP) -> int:
    """The layers that TensorRT would be given for a model.

    Raises:
        EngineBuildError: A layer cannot be written for the version.
    """
    program = capture(zoo.build(name))
    options = CompileOptions(version, "reference", precision)
    plan = plan_engines(program, check_metadata(program), dim_system(program), get_target(version), options)
    _, converted = convert_segments(plan, program)
    return sum(len(write(one.network, version)[1].layers) for one in converted)


def _cases() -> list[Any]:
    return [
        pytest.param(
            name,
            target.version,
            marks=[pytest.mark.zoo]
            if name in QUICK and target.version == "8.6"
            else [pytest.mark.zoo, pytest.mark.slow],
        )
        for name in zoo.ZOO
        if name not in REFUSED
        for target in TARGETS
    ]


@pytest.mark.parametrize(("name", "version"), _cases())
def test_the_networks_of_a_model_are_written(name: str, version: str) -> None:
    with needs_library(name):
        assert written_networks(name, version) > 0
