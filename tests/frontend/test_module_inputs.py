"""A module with ``inputs=[...]``: what it is exported with, and which dims share a Dim."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import trtdiag
from trtdiag import Input
from trtdiag.errors import ArgumentError, CaptureError
from trtdiag.frontend.capture import capture
from trtdiag.frontend.module_inputs import module_inputs
from trtdiag.frontend.program import Program
from trtdiag.symbolic import Num


class Add(nn.Module):
    def forward(self, x: Tensor, y: Tensor, scale: float = 1.0) -> Tensor:
        return x + y * scale


class Apart(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x + 1, y + 1


class Square(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + x.transpose(0, 1)


class Nested(nn.Module):
    def forward(self, sizes: dict[str, Any], *rest: Tensor, mask: Tensor | None = None) -> Tensor:
        found = sizes["a"][0] + rest[0] + rest[1]
        return found if mask is None else found * mask


BATCH = Input((1, 8), (4, 8), (8, 8))


def _captured(module: nn.Module, inputs: Any) -> Program:
    return capture(module_inputs(module, inputs))


def _dims(program: Program) -> dict[str, str]:
    """Each dynamic dim's Dim and range, by site."""
    dims = [dim for tensor in program.inputs for dim in tensor.dims if not isinstance(dim.expr, Num)]
    return {dim.site: f"{dim.declared_name}: {dim.declared_range}" for dim in dims}


@pytest.mark.parametrize(
    ("made", "shapes", "words"),
    [
        (Input((1, 3)), [(1, 3)] * 3, "Input((1, 3), dtype=torch.float32)"),
        (Input(shape=torch.Size([2])), [(2,)] * 3, "Input((2,), dtype=torch.float32)"),
        (Input(min=(1, 3), max=[8, 3]), [(1, 3), (8, 3), (8, 3)], "Input(min=(1, 3), opt=(8, 3), max=(8, 3)"),
        (Input((0,), (2,), (4,), torch.half), [(0,), (2,), (4,)], "Input(min=(0,), opt=(2,), max=(4,), dtype=torch.f"),
        (Input(()), [()] * 3, "Input((), dtype=torch.float32)"),
    ],
)
def test_an_input_keeps_its_shapes(made: Input, shapes: list[tuple[int, ...]], words: str) -> None:
    assert [made.min, made.opt, made.max] == shapes
    assert repr(made).startswith(words)
    assert made == Input(made.min, made.opt, made.max, made.dtype)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Input(), "neither shape nor min is given"),
        (lambda: Input((1,), max=(2,), min=(1,)), "shape and min are both given"),
        (lambda: Input(min=(1, 2)), "max is not given"),
        (lambda: Input((1, 2), (1, 2)), "max is not given"),
        (lambda: Input((1, 2), (1, 2), (1,)), "min has 2, opt 2, max 1"),
        (lambda: Input((1, 2), (1, 9), (1, 8)), "dim 1 of an Input has no order: min 2, opt 9, max 8"),
        (lambda: Input((1, -2)), r"shape\[1\] cannot be -2"),
        (lambda: Input((1, True)), r"shape\[1\] cannot be True"),
        (lambda: Input(224), "shape cannot be 224"),  # type: ignore[arg-type]
        (lambda: Input((1,), dtype="half"), "dtype cannot be 'half'"),  # type: ignore[arg-type]
        (lambda: Input(min_shape=(1,)), "fix: write min\n"),  # type: ignore[call-arg]
        (lambda: Input(opt_shape=(1,)), "fix: write opt\n"),  # type: ignore[call-arg]
    ],
)
def test_an_input_without_an_order_is_refused(make: Callable[[], Input], words: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        make()
    assert re.search(words, str(caught.value)), str(caught.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: module_inputs(Add(), torch.ones(2, 2)), "inputs cannot be a Tensor"),
        (lambda: module_inputs(Add(), BATCH), "inputs cannot be an Input"),
        (lambda: module_inputs(Add(), [(1, 8), BATCH]), r"write trtdiag.Input\(\(1, 8\)\)"),
        (lambda: module_inputs(Add(), [BATCH]), "missing a required argument: 'y'; it takes x, y, scale"),
        (lambda: module_inputs(Add(), [BATCH, BATCH, 1.0, BATCH]), "too many positional arguments"),
        (lambda: module_inputs(Add(), {"x": BATCH, "z": BATCH}), "missing a required argument: 'y'"),
        (lambda: module_inputs(Add(), {3: BATCH}), "a name in inputs cannot be 3"),
        (lambda: trtdiag.analyze("model.pt2", inputs=[BATCH]), "inputs cannot be given beside 'model.pt2'"),
        (lambda: trtdiag.compile((Add(), ()), inputs=[BATCH]), "inputs cannot be given beside "),
        (lambda: trtdiag.fix_dims(Add(), (torch.ones(1),), inputs=[BATCH]), "cannot be given beside args"),
        (lambda: trtdiag.analyze(Add()), r"give inputs=\[trtdiag.Input\(...\)\]"),
    ],
)
def test_inputs_that_a_module_does_not_take_are_refused(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(trtdiag.UserError) as caught:
        call()
    assert re.search(words, str(caught.value)), str(caught.value)


def test_dims_that_the_model_needs_equal_share_one_dim() -> None:
    program = _captured(Add(), [BATCH, BATCH])
    assert program.failure is None
    assert _dims(program) == {"x.shape[0]": "batch: 1..8", "y.shape[0]": "batch: 1..8"}


def test_dims_that_the_model_does_not_tie_stay_apart() -> None:
    program = _captured(Apart(), [BATCH, BATCH])
    assert _dims(program) == {"x.shape[0]": "x_dim0: 1..8", "y.shape[0]": "y_dim0: 1..8"}


def test_dims_of_one_input_can_share_a_dim_as_well() -> None:
    program = _captured(Square(), [Input((2, 2), (5, 5), (9, 9))])
    assert program.failure is None
    assert _dims(program) == {"x.shape[0]": "batch: 2..9", "x.shape[1]": "batch: 2..9"}


def test_dims_asked_for_with_other_sizes_are_not_joined() -> None:
    program = _captured(Add(), [BATCH, Input((1, 8), (4, 8), (16, 8))])
    assert program.failure is not None
    assert "must always be equal" in program.failure.message


def test_the_only_first_dim_is_the_batch_and_others_are_named_by_place() -> None:
    program = _captured(Apart(), [Input((1, 3, 4), (2, 3, 6), (4, 3, 9)), torch.ones(2)])
    assert _dims(program) == {"x.shape[0]": "batch: 1..4", "x.shape[2]": "x_dim2: 4..9"}


def test_inputs_by_name_in_containers_and_of_any_number() -> None:
    asked = module_inputs(Nested(), {"sizes": {"a": [BATCH], "b": 3}, "mask": Input((8,), dtype=torch.bool)})
    assert asked.args[0]["b"] == 3
    assert asked.kwargs["mask"].all()  # a mask that hides nothing
    by_place = module_inputs(Nested(), [{"a": (BATCH,)}, BATCH, BATCH])
    assert [dim.site for dim in by_place.dims] == ["sizes['a'][0].shape[0]", "rest[0].shape[0]", "rest[1].shape[0]"]
    program = capture(by_place)
    assert program.failure is None
    assert set(_dims(program).values()) == {"batch: 1..8"}
    assert len(_dims(program)) == 3


def test_examples_have_the_sizes_to_tune_for_and_are_no_constants() -> None:
    asked = module_inputs(Apart(), [Input((0, 1), (1, 1), (8, 3), torch.half), Input((1, 4), dtype=torch.int64)])
    assert asked.args[0].shape == (2, 2)  # torch.export would take sizes 0 and 1 for constants
    assert asked.args[0].dtype is torch.half
    assert asked.opt == (("x.shape[0]", 1), ("x.shape[1]", 1))
    assert asked.args[1].tolist() == [[1, 1, 1, 1]]
    assert not torch.equal(asked.args[0][0], asked.args[0][1])
    on_meta = module_inputs(nn.Linear(8, 8, device="meta"), [BATCH])
    assert on_meta.args[0].device.type == "meta"


def test_torchscript_is_refused_wherever_a_module_is_taken() -> None:
    x = torch.ones(2, 3)
    traced = torch.jit.trace(nn.Linear(3, 2), x)
    for call in (
        lambda: trtdiag.analyze((traced, (x,))),
        lambda: trtdiag.compile(traced, inputs=[x]),
        lambda: trtdiag.fix_dims(traced, (x,)),
        lambda: trtdiag.fix_dims(traced, inputs=[x]),
    ):
        with pytest.raises(CaptureError, match="a TorchScript module cannot be exported"):
            call()


@pytest.mark.parametrize(("shape", "dtype"), [((2, 3), torch.int3), ((10**18, 3), torch.float32)])
def test_what_no_example_can_be_made_of_is_refused(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    with pytest.raises(ArgumentError, match="no example can be made of an input of") as refused:
        module_inputs(Square(), [Input(shape, dtype=dtype)])
    assert refused.value.because
