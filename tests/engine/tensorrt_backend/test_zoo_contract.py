"""The networks of real architectures, written for every version against its API surface."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from written import write

from tests.models import zoo
from tests.models.expected_findings import REFUSED
from tests.models.library import needs_library
from trtdiag.dims.facts import DimSystem
from trtdiag.dims.system import dim_system
from trtdiag.frontend.capture import capture
from trtdiag.frontend.program import Program
from trtdiag.lower.facts import Checked
from trtdiag.lower.metadata import check_metadata
from trtdiag.options import CompileOptions
from trtdiag.pipeline.plan_engines import convert_segments, plan_engines
from trtdiag.targets import TARGETS, get_target

# In every test run: a convolution over time, and a field, on the version that differs most.
QUICK = ("tcn",)


@dataclass(frozen=True)
class Exported:
    """A model's program and what no version has a part in."""

    program: Program
    checked: Checked
    dims: DimSystem


@pytest.fixture(scope="module")
def exported(request: pytest.FixtureRequest) -> Exported:
    """A model, exported once for all its versions: with this scope pytest runs them one after the other."""
    with needs_library(request.param):
        program = capture(zoo.build(request.param))
    return Exported(program, check_metadata(program), dim_system(program))


def written_networks(model: Exported, version: str) -> int:
    """The layers that TensorRT would be given for a model.

    Raises:
        EngineBuildError: A layer cannot be written for the version.
    """
    options = CompileOptions(version, "reference")
    plan = plan_engines(model.program, model.checked, model.dims, get_target(version), options)
    _, converted = convert_segments(plan)
    return sum(len(write(one.network, version)[1].layers) for one in converted)


def _slow(quick: bool) -> list[pytest.MarkDecorator]:
    return [] if quick else [pytest.mark.slow]


MODELS = [pytest.param(name, marks=_slow(name in QUICK)) for name in zoo.ZOO if name not in REFUSED]
VERSIONS = [pytest.param(target.version, marks=_slow(target.version == "8.6")) for target in TARGETS]


# A decorator each: of a table of both, pytest would take every row for a model of its own and export it again.
@pytest.mark.zoo
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("exported", MODELS, indirect=True)
@pytest.mark.slow  # quick: networks of small models in test_seed_contract.py
def test_the_networks_of_a_model_are_written(exported: Exported, version: str) -> None:
    assert written_networks(exported, version) > 0
