"""Programs that were exported on another device than their engines run on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export

import trtdiag
from tests.compiling.meta_backend import OnMeta, register
from tests.compiling.programs import Asked, exported, mlp
from tests.frontend.archive_samples import changed, members
from trtdiag.engine.backend import get_backend
from trtdiag.errors import UserError
from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.runtime.compiled_device import compiled_device
from trtdiag.runtime.engine_nodes import engine_nodes
from trtdiag.targets import get_target

META = torch.device("meta")


@pytest.fixture(autouse=True)
def _on_meta(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)


class Partly(nn.Module):
    """Two engines around an op that stays with PyTorch, with a weight and a tensor that is made for it there."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 7), nn.Linear(7, 3)
        self.bins = nn.Parameter(torch.linspace(-1, 1, 6), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.first(x)) * 2
        y = y + torch.bucketize(y, self.bins) + torch.arange(x.shape[0])[:, None]
        return torch.tanh(self.second(y)) + y.shape[0]


def partly() -> Asked:
    torch.manual_seed(0)
    return Partly().eval(), (torch.randn(4, 5),), {}, {"x": {0: Dim("batch", min=2, max=9)}}


OPTIONS = CompileOptions(
    target="11.4", verify=False, partition=PartitionOptions(min_segment_ops=1, keep_in_torch=("aten.bucketize",))
)


def test_the_program_is_where_its_engines_run() -> None:
    asked = exported(partly())
    before = str(asked)
    found = compile_in_stages(asked, trtdiag.CompileOptions(**{**vars(OPTIONS), "backend": "on-meta"}))
    assert len(found.engines) == 2
    program = found.compiled.exported_program
    assert compiled_device(program) == META
    held = {name: tensor.device.type for name, tensor in program.state_dict.items()}
    assert held == {"bins": "meta", **{call.buffer: "cpu" for call in engine_nodes(program)}}
    for batch in (2, 5, 9):
        result = found.compiled(torch.empty(batch, 5, device="meta"))
        assert (result.device, result.shape) == (META, (batch, 3))
    assert str(asked) == before
    assert asked.state_dict["bins"].device.type == "cpu"
    notes = found.report.analysis.program.notes
    assert "it was exported on cpu, and its engines run on meta: inputs are taken there now" in notes


def test_an_input_on_the_device_of_the_export_is_refused() -> None:
    compiled = trtdiag.compile(partly(), backend="on-meta", verify=False)
    with pytest.raises(UserError, match="x") as caught:
        compiled(torch.zeros(4, 5))
    assert caught.value.reference == "input-device"
    assert "it is on cpu; it takes meta" in caught.value.because


@pytest.mark.slow  # quick: the program is where its engines run
def test_saved_there_and_loaded_by_torch(tmp_path: Path) -> None:
    compiled = trtdiag.compile(partly(), backend="on-meta", verify=False)
    trtdiag.save(compiled, tmp_path / "there.ep")
    loaded = trtdiag.load(tmp_path / "there.ep")
    assert loaded(torch.empty(3, 5, device="meta")).shape == (3, 3)


def test_the_original_goes_there_to_be_compared() -> None:
    """Values of meta tensors cannot be compared: what is seen is that both sides ran, with inputs there."""
    with pytest.raises(NotImplementedError, match="meta"):
        trtdiag.compile(partly(), backend="on-meta")


@pytest.mark.slow  # quick: a file of a missing device is compiled for the CPU
def test_engines_are_rebuilt_for_another_device() -> None:
    model, args, _, _ = asked = partly()
    here = compile_in_stages(asked, CompileOptions(**{**vars(OPTIONS), "backend": "reference"})).compiled
    there = trtdiag.rebuild(here, OnMeta(), CompileOptions(), get_target("11.4"))
    assert [manifest.device for manifest in there.manifests] == ["meta", "meta"]
    assert there(torch.empty(7, 5, device="meta")).shape == (7, 3)
    torch.testing.assert_close(here(*args), model(*args))  # the old one is as it was
    back = trtdiag.rebuild(
        trtdiag.rebuild(
            trtdiag.compile(mlp(), backend="reference", portable=True), OnMeta(), CompileOptions(), get_target("11.4")
        ),
        get_backend("reference"),
        CompileOptions(),
        get_target("11.4"),
    )
    model, args, _, _ = mlp()
    torch.testing.assert_close(back(*args), model(*args))


def test_a_file_of_a_device_that_this_machine_lacks_is_compiled_for_the_cpu(tmp_path: Path) -> None:
    if torch.xpu.is_available():
        pytest.skip("the test needs a device type that this machine lacks")
    model, args, _, _ = asked = partly()
    torch.export.save(exported(asked), tmp_path / "here.pt2")
    content = members(tmp_path / "here.pt2")
    there = {name: content[name].replace(b'"cpu"', b'"xpu"') for name in content if name.endswith((".json", ".pt"))}
    path = changed(tmp_path / "here.pt2", tmp_path / "there.pt2", there)
    found = compile_in_stages(path, CompileOptions(**{**vars(OPTIONS), "backend": "reference", "verify": True}))
    assert found.verification is not None
    assert found.verification.passed
    torch.testing.assert_close(found.compiled(*args), model(*args))


def test_a_program_on_several_devices_is_refused() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(5, 7), nn.Linear(7, 3, device="meta")

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.first(x).to("meta"))

    asked = export(Two().eval(), (torch.randn(4, 5),))
    with pytest.raises(UserError, match="on several devices: cpu, meta") as caught:
        trtdiag.compile(asked, backend="reference", force=True)
    assert caught.value.reference == "program-devices"


@pytest.mark.slow  # quick: an input on the device of the export is refused
def test_torch_compile_leaves_a_model_where_it_is() -> None:
    model, args, _, _ = mlp()
    compiled = torch.compile(model, backend="trtdiag", options={"backend": "on-meta"})
    with torch.no_grad(), pytest.raises(Exception, match="is on cpu") as caught:
        compiled(*args)
    assert "engines of the backend 'on-meta' run on meta" in str(caught.value)


@pytest.fixture
def only_on_the_cpu() -> Iterator[torch.library.Library]:
    library = torch.library.Library("trtdiag_elsewhere", "DEF")
    library.define("halved(Tensor x) -> Tensor")
    library.impl("halved", lambda x: x / 2, "CPU")
    torch.library.register_fake("trtdiag_elsewhere::halved", torch.empty_like, lib=library)
    yield library
    library._destroy()


@pytest.mark.usefixtures("only_on_the_cpu")
def test_an_op_of_the_device_of_the_export_is_refused_before_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    class Halved(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.trtdiag_elsewhere.halved(torch.tanh(x)) * 2

    monkeypatch.setattr(OnMeta, "device", "cuda")
    monkeypatch.setattr(OnMeta, "build", lambda *_: pytest.fail("nothing is to be built"), raising=False)
    asked = (Halved(), (torch.randn(4, 5),), {}, None)
    with pytest.raises(UserError, match=r"trtdiag_elsewhere\.halved\.default cannot run on cuda") as caught:
        trtdiag.compile(asked, backend="on-meta", min_segment_ops=1)
    assert caught.value.reference == "op-device"
    assert "test_compile_elsewhere.py" in caught.value.message
    assert "no converter" in caught.value.because
    assert trtdiag.compile(asked, backend="reference", min_segment_ops=1)(*asked[1]).shape == (4, 5)
