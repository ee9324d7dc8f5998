"""Programs on another device: everything goes there, nothing of the given program changes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim, ExportedProgram, export, save
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves

from tests.frontend.archive_samples import changed, members
from trtdiag.errors import UserError
from trtdiag.frontend.capture import capture
from trtdiag.frontend.move_to_device import MovedTensors, on_device, program_device
from trtdiag.graph.node_kinds import walk

META = torch.device("meta")


class Everywhere(nn.Module):
    """Devices in all places: weights, tensors made inside, nested graphs, checks before casts, autocast."""

    def __init__(self, *, constants: bool = True) -> None:
        super().__init__()
        self.first = nn.Linear(5, 7)
        self.register_buffer("steps", torch.arange(7))
        self.register_buffer("passing", torch.ones(7), persistent=False)
        self.scale = torch.full((7,), 3.0) if constants else None

    def forward(self, x: Tensor, flag: Tensor) -> dict[str, Tensor]:
        with torch.autocast("cpu"):
            y = self.first(x)
        with torch.autocast("cuda", enabled=False):
            y = y @ torch.ones(7, 7, dtype=y.dtype)
        with torch.no_grad():
            z = y.float() + torch.zeros(7) + torch.arange(x.shape[0])[:, None] + self.steps + self.passing
        if self.scale is not None:
            z = z * self.scale + torch.tensor([2.0] * 7)
        z = z.to(torch.float64).to("cpu").to(torch.float32)
        (chosen,) = torch.cond(flag.sum() > 0, lambda a: (a + torch.ones(7),), lambda a: (a * 2,), (z,))
        return {"wide": chosen.expand(3, -1, -1), "where": (chosen > 0).nonzero()}


def exported_everywhere(*, constants: bool = True) -> ExportedProgram:
    torch.manual_seed(0)
    model = Everywhere(constants=constants).eval()
    dims = {"x": {0: Dim("batch", min=2, max=9)}, "flag": None}
    return export(model, (torch.randn(4, 5), torch.ones(2)), dynamic_shapes=dims)


@cache
def everywhere() -> ExportedProgram:
    """Exported once for all that do not change it; a test below looks."""
    return exported_everywhere()


def tensors_of(exported: ExportedProgram) -> Iterator[Tensor]:
    """Every tensor that a program holds, in whatever place."""
    held: list[object] = [exported.state_dict, exported.constants, exported.example_inputs]
    for located in walk(exported.graph_module):
        held.append(located.node.meta.get("val"))
    for module in exported.graph_module.modules():
        assert isinstance(module, (GraphModule, nn.Module))
        held += [*module.buffers(recurse=False), *module.parameters(recurse=False)]
    return (leaf for leaf in tree_leaves(held) if isinstance(leaf, Tensor))


def _text(exported: ExportedProgram) -> str:
    return str(exported.graph_module.print_readable(print_output=False, include_device=True))


def test_everything_is_there() -> None:
    moved = on_device(everywhere(), "meta")
    assert {tensor.device for tensor in tensors_of(moved)} == {META}
    assert "type='cpu'" not in _text(moved)
    assert "'cpu'" not in _text(moved)
    assert program_device(moved) == META


@pytest.mark.slow  # quick: test_the_given_program_stays_as_it_is
def test_it_runs_there_in_every_nested_graph() -> None:
    # Two branches that data chooses between, and sizes that data decides, need values; all the rest runs on meta.
    class Straight(Everywhere):
        def forward(self, x: Tensor, flag: Tensor) -> Tensor:
            with torch.no_grad():
                z = torch.relu(self.first(x)) + torch.zeros(7) + torch.arange(x.shape[0])[:, None] + self.steps
            return (z * self.scale + torch.tensor([2.0] * 7)).to(torch.float64).to("cpu") + flag

    dims = {"x": {0: Dim("batch", min=2, max=9)}, "flag": None}
    exported = export(Straight().eval(), (torch.randn(4, 5), torch.ones(7)), dynamic_shapes=dims)
    moved = on_device(exported, "meta")
    result = moved.module()(torch.empty(3, 5, device="meta"), torch.empty(7, device="meta"))
    assert (result.shape, result.dtype, result.device) == ((3, 7), torch.float64, META)
    # A module of torch.export that fails inside of no_grad leaves gradients switched off.
    with torch.set_grad_enabled(True), pytest.raises(Exception, match="meta"):
        moved.module()(torch.empty(3, 5), torch.empty(7))


def test_the_given_program_stays_as_it_is() -> None:
    exported = everywhere()
    before, tensors = str(exported), [(tensor, tensor.device) for tensor in tensors_of(exported)]
    on_device(exported, "meta")
    assert str(exported) == before
    assert all(tensor.device == device for tensor, device in tensors)
    assert [id(tensor) for tensor, _ in tensors] == [id(tensor) for tensor in tensors_of(exported)]


def test_ranges_guards_roles_and_calling_convention_are_kept() -> None:
    exported = everywhere()
    moved = on_device(exported, "meta")
    assert moved.range_constraints == exported.range_constraints
    assert getattr(moved, "_guards_code", None) == getattr(exported, "_guards_code", None)
    assert moved.graph_signature == exported.graph_signature
    assert moved.call_spec == exported.call_spec
    assert [entry.fqn for entry in moved.module_call_graph] == [entry.fqn for entry in exported.module_call_graph]
    shapes = [
        [(tuple(v.shape), v.stride(), v.dtype) for v in tree_leaves(e.node.meta.get("val")) if isinstance(v, Tensor)]
        for e in walk(exported.graph_module)
    ]
    assert shapes == [
        [(tuple(v.shape), v.stride(), v.dtype) for v in tree_leaves(e.node.meta.get("val")) if isinstance(v, Tensor)]
        for e in walk(moved.graph_module)
    ]
    assert capture(moved).guards == capture(exported).guards
    assert capture(moved).hints == capture(exported).hints


@pytest.mark.slow  # quick: ranges, guards and the calling convention are kept
def test_to_a_gpu_and_back_is_the_same_program() -> None:
    """Weights without content can be on a GPU that is not there."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        exported = exported_everywhere(constants=False)
    there = on_device(exported, "cuda:0")
    assert {str(tensor.device) for tensor in tensors_of(there)} == {"cuda:0"}
    text = _text(there)
    assert "type='cpu'" not in text
    assert text.count("wrap_with_autocast('cuda', torch.bfloat16") == 1
    assert text.count("wrap_with_autocast('cpu'") == 1
    assert _text(on_device(there, "cpu")) == _text(exported)


def test_a_program_that_is_there_is_given_as_it_is() -> None:
    exported = everywhere()
    assert on_device(exported, "cpu") is exported


@pytest.mark.slow  # quick: it runs there in every nested graph
def test_a_tensor_made_without_a_device_is_made_there() -> None:
    exported = exported_everywhere()
    for located in walk(exported.graph_module):
        if located.node.op == "call_function" and "device" in located.node.kwargs and not located.node.all_input_nodes:
            located.node.kwargs = {key: v for key, v in located.node.kwargs.items() if key != "device"}
    moved = on_device(exported, "meta")
    made = [
        located.node.kwargs["device"]
        for located in walk(moved.graph_module)
        if str(located.node.target) in ("aten.zeros.default", "aten.ones.default", "aten.arange.default")
    ]
    assert made == [META] * len(made)
    assert len(made) >= 3


def test_inputs_and_weights_on_several_devices_are_refused() -> None:
    exported = export(nn.Linear(5, 7), (torch.randn(4, 5),))
    moved = on_device(exported, "meta")
    placeholder = next(node for node in moved.graph.nodes if node.name == "input")
    placeholder.meta["val"] = next(n for n in exported.graph.nodes if n.name == "input").meta["val"]
    with pytest.raises(UserError, match="on several devices: meta, cpu") as caught:
        on_device(moved, "cpu")
    assert caught.value.reference == "program-devices"
    assert "weight, bias on meta; input on cpu" in caught.value.because


def test_what_stays_is_left_where_it_is() -> None:
    exported = export(nn.Linear(5, 7), (torch.randn(4, 5),))
    moved = on_device(exported, "meta", stays={"p_bias"})
    assert moved.state_dict["bias"] is exported.state_dict["bias"]
    assert moved.state_dict["weight"].device == META
    devices = {node.name: str(node.meta["val"].device) for node in moved.graph.nodes if node.op == "placeholder"}
    assert devices == {"p_weight": "meta", "p_bias": "cpu", "input": "meta"}


def test_tensors_that_share_memory_still_do() -> None:
    whole = torch.arange(24.0).reshape(4, 6)
    column, parameter, alone = whole[:, 1], nn.Parameter(whole[1:]), torch.ones(3, 5).expand(2, 3, 5)
    moved = MovedTensors(META, [whole, column, parameter, alone])
    there = [moved.of(tensor) for tensor in (whole, column, parameter, alone)]
    assert len({tensor.untyped_storage()._cdata for tensor in there[:3]}) == 1
    assert [tensor.stride() for tensor in there] == [(6, 1), (6,), (6, 1), (0, 5, 1)]
    assert [tensor.storage_offset() for tensor in there] == [0, 1, 6, 0]
    assert isinstance(there[2], nn.Parameter)
    assert moved.of(whole) is there[0]
    assert there[3].untyped_storage().nbytes() == 60


@pytest.fixture
def from_a_missing_device(tmp_path: Path) -> Path:
    """A file that was written on a machine with a device that this one lacks."""
    if torch.xpu.is_available():
        pytest.skip("the test needs a device type that this machine lacks")
    save(exported_everywhere(), tmp_path / "here.pt2")
    content = members(tmp_path / "here.pt2")
    there = {
        name: content[name].replace(b'"cpu"', b'"xpu"')
        for name in content
        if name.endswith("_config.json") or name.startswith("models/")
    }
    return changed(tmp_path / "here.pt2", tmp_path / "there.pt2", there)


@pytest.mark.slow  # quick: weights of a missing device are read on the CPU, in test_archive_round_trip.py
def test_a_file_of_a_missing_device_is_read_for_the_cpu(from_a_missing_device: Path) -> None:
    program = capture(from_a_missing_device)
    assert program.exported is not None
    assert {tensor.device.type for tensor in tensors_of(program.exported)} == {"cpu"}
    assert "it was exported on xpu, which this machine lacks: it is read as one for the CPU" in program.notes
    x, flag = torch.randn(3, 5), torch.ones(2)
    expected, actual = exported_everywhere().module()(x, flag), program.exported.module()(x, flag)
    assert torch.equal(actual["wide"], expected["wide"])
    assert torch.equal(actual["where"], expected["where"])
