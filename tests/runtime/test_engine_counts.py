"""Sizes that an engine found, against what the program asserts of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from trtdiag.engine.manifest import EngineInput, EngineOutput, Manifest
from trtdiag.engine.manifest_text import manifest_to_text
from trtdiag.errors import ShapeOutOfRangeError
from trtdiag.runtime.custom_op import EXECUTE_ENGINE
from trtdiag.runtime.execution import check_counts
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Num, Range, parse_condition, parse_expr, symbol

MANIFEST = Manifest(
    trtdiag="0",
    backend="reference",
    target="11.4",
    device="cpu",
    network_hash="0" * 64,
    engine_sha256="0" * 64,
    inputs=(EngineInput("x", torch.float32, (symbol("s"), Num(3)), (DimProfile(1, 5, 31), DimProfile(3, 3, 3))),),
    outputs=(
        EngineOutput("rows", torch.float32, (symbol("u"), Num(3))),
        EngineOutput("more", torch.float32, (parse_expr("u + 1"),)),
        EngineOutput("count_v", torch.int64, (Num(1), symbol("v"))),
    ),
    ranges={"s": Range(1, 31), "u": Range(0, 31), "v": Range(1, 31)},
    conditions=(parse_condition("s >= 1"), parse_condition("v <= s - 1")),
    counts={"u": symbol("s"), "v": symbol("s")},
    waits=True,
)


def _outputs(u: int, v: int) -> list[torch.Tensor]:
    return [torch.zeros(u, 3), torch.zeros(u + 1), torch.zeros(1, v, dtype=torch.int64)]


@pytest.mark.parametrize(("rows", "u", "v"), [(2, 0, 1), (7, 7, 6), (31, 31, 30)])
def test_what_the_program_takes_passes(rows: int, u: int, v: int) -> None:
    check_counts(MANIFEST, [torch.zeros(rows, 3)], _outputs(u, v))


@pytest.mark.parametrize(
    ("rows", "u", "v", "told"),
    [
        (7, 3, 0, "found 0 elements for 'count_v'"),
        (7, 3, 7, "v where s >= v + 1"),
        (31, 3, 31, "31 elements for 'count_v'"),
    ],
)
def test_what_the_program_does_not_take_is_refused(rows: int, u: int, v: int, told: str) -> None:
    with pytest.raises(ShapeOutOfRangeError) as caught:
        check_counts(MANIFEST, [torch.zeros(rows, 3)], _outputs(u, v))
    assert told in f"{caught.value.message} {caught.value.because}"
    assert caught.value.reference == "engine-count"


def test_outputs_that_disagree_are_refused() -> None:
    two = replace(MANIFEST, outputs=(MANIFEST.outputs[0], replace(MANIFEST.outputs[0], name="others")), conditions=())
    with pytest.raises(ShapeOutOfRangeError, match="others"):
        check_counts(two, [torch.zeros(7, 3)], [torch.zeros(3, 3), torch.zeros(4, 3)])


def test_a_trace_gets_new_sizes_with_their_ranges() -> None:
    mode = FakeTensorMode(shape_env=ShapeEnv())
    engine = torch.zeros(1, dtype=torch.uint8)
    with mode:
        x = torch.empty(5, 3)
        one = EXECUTE_ENGINE([x], mode.from_tensor(engine), manifest_to_text(MANIFEST))
        two = EXECUTE_ENGINE([x], mode.from_tensor(engine), manifest_to_text(MANIFEST))
    sizes = [made.shape[0] for made in (one[0], two[0])]
    assert all(isinstance(size, torch.SymInt) for size in sizes)
    assert str(sizes[0]) != str(sizes[1])
    assert str(one[1].shape[0]) == f"{sizes[0]} + 1"
    assert mode.shape_env is not None
    found = mode.shape_env.var_to_range[sizes[0].node.expr]
    assert (int(found.lower), int(found.upper)) == (0, 31)
    assert int(mode.shape_env.var_to_range[one[2].shape[1].node.expr].lower) == 1
