"""What export-triton writes: configurations that Triton's own protobuf reads, versions, and what is refused."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

import trtdiag
from tests.deployment.served_programs import as_plan, compiled, odd, tagger
from tests.harness.rows import thinned
from trtdiag.cli.main import main
from trtdiag.deployment.triton_config import TYPES
from trtdiag.graph import recurrent
from trtdiag.network import from_bytes
from trtdiag.runtime.engine_cache import engine_bytes
from trtdiag.runtime.engine_nodes import engine_nodes


def _config(folder: Path) -> Any:
    """``config.pbtxt`` as Triton reads it."""
    text_format = pytest.importorskip("google.protobuf.text_format", reason="tritonclient[grpc] is not installed")
    model_config = pytest.importorskip("tritonclient.grpc.model_config_pb2", reason="tritonclient is not installed")
    return text_format.Parse((folder / "config.pbtxt").read_text(), model_config.ModelConfig())


def _ended(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    return int(ended.value.code or 0)


class Mixed(nn.Module):
    """Two engines with an op between them that stays in PyTorch, and a batch that is not one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sort(x * 2 + 1, dim=1).values.relu() - 3


def test_a_configuration_has_what_the_program_takes_and_gives(tmp_path: Path) -> None:
    made = trtdiag.export_triton(tagger(), tmp_path / "models", "tagger", instances=3, dynamic_batching=100)
    assert made.folder == tmp_path / "models" / "tagger" / "1"
    assert {path.name for path in made.folder.iterdir()} == {"model.py", "model.pt2"}
    found = _config(tmp_path / "models" / "tagger")
    types = found.DESCRIPTOR.fields_by_name["input"].message_type.fields_by_name["data_type"].enum_type.values_by_number
    told = [(p.name, types[p.data_type].name, list(p.dims)) for p in (*found.input, *found.output)]
    assert told == [
        ("image", "TYPE_FP32", [3, -1, -1]),
        ("words", "TYPE_INT64", [-1]),
        ("logits", "TYPE_FP32", [4]),
        ("states", "TYPE_FP32", [-1, 8]),
    ]
    assert (found.name, found.backend, found.max_batch_size) == ("tagger", "python", 7)
    assert (found.instance_group[0].count, found.instance_group[0].Kind.Name(found.instance_group[0].kind)) == (
        3,
        "KIND_CPU",
    )
    assert found.dynamic_batching.max_queue_delay_microseconds == 100
    warm_ups = {each.name: each for each in found.model_warmup}
    assert (warm_ups["max"].batch_size, list(warm_ups["max"].inputs["image"].dims)) == (7, [3, 16, 16])
    assert (warm_ups["min"].batch_size, list(warm_ups["min"].inputs["words"].dims)) == (1, [1])
    assert len(warm_ups) == 11  # the usual sizes, both ends, and each of four ranges at its other end alone
    analyzer = (tmp_path / "models" / "tagger" / "model_analyzer.yaml").read_text()
    assert '- "image:3,8,8"' in analyzer
    assert "batch_sizes: [1, 2, 7]" in analyzer
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    assert yaml.safe_load(analyzer)["profile_models"]["tagger"]["cpu_only"] is True


def test_all_dtypes_are_those_of_triton(tmp_path: Path) -> None:
    made = trtdiag.export_triton(odd(), tmp_path, "odd", warm_up=False)
    found = _config(tmp_path / "odd")
    assert [list(port.dims) for port in found.input] == [[-1], [1], [-1], [-1], [-1]]
    assert not found.model_warmup
    assert "CONSTANTS = {5: 3}" in (made.folder / "model.py").read_text()
    names = set(
        found.DESCRIPTOR.fields_by_name["input"].message_type.fields_by_name["data_type"].enum_type.values_by_name
    )
    assert set(TYPES.values()) <= names


class Plain(nn.Module):
    def forward(self, x: torch.Tensor, most: float, mode: str, least: float) -> torch.Tensor:
        return x.clamp(least, most) * len(mode)


def test_plain_values_are_written_as_python_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An infinity has no literal, and a text may look like what is written beside it."""
    mode = "OUTPUTS = ()\n'"
    program = torch.export.export(Plain(), (torch.ones(3), float("inf"), mode, -2.5))
    made = trtdiag.export_triton(
        trtdiag.compile(program, backend="reference", target="10.16", verify=False, min_segment_ops=0), tmp_path, "net"
    )
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", ModuleType("of the server"))
    found = runpy.run_path(str(made.folder / "model.py"))
    assert (found["INPUTS"], found["OUTPUTS"]) == (("x", None, None, None), (("output", 0),))
    assert found["CONSTANTS"] == {1: float("inf"), 2: mode, 3: -2.5}


class Named(nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"two\nlines { }": x + 1, "name: 3  # \u202e": x.cumsum(0)}


@pytest.mark.slow  # quick: test_a_configuration_has_what_the_program_takes_and_gives
def test_remarks_stay_remarks_whatever_results_are_called(tmp_path: Path) -> None:
    trtdiag.export_triton(compiled(Named(), trtdiag.Input((1, 3), (2, 3), (8, 3))), tmp_path, "net")
    text = (tmp_path / "net" / "config.pbtxt").read_text()
    assert "output {  # two lines { }\n" in text
    assert "output {  # name: 3 # \\u202e\n" in text
    assert [port.name for port in _config(tmp_path / "net").output] == ["two_lines", "name_3"]


def test_a_program_of_several_engines_goes_to_the_python_backend(tmp_path: Path) -> None:
    program = compiled(Mixed(), trtdiag.Input((1, 5), (4, 5), (8, 5)), keep_in_torch=("aten.sort",))
    assert len(program.manifests) == 2
    made = trtdiag.export_triton(program, tmp_path, "mixed")
    assert (made.runs, made.why, made.max_batch_size) == ("python", "it has 2 engines", 0)
    assert "aten.sort" in made.batch or "sort.default" in made.batch
    assert list(_config(tmp_path / "mixed").input[0].dims) == [-1, 5]
    asked = trtdiag.export_triton(program, tmp_path, "asked", max_batch_size=4)
    assert asked.max_batch_size == 4
    assert asked.batch.startswith("as asked; it is not proven that samples are apart")


def test_an_engine_of_tensorrt_is_a_plan_for_each_gpu(tmp_path: Path) -> None:
    base = compiled(nn.Sequential(nn.Linear(5, 3), nn.ReLU()), trtdiag.Input((1, 5), (4, 5), (8, 5)))
    here, there = as_plan(base), as_plan(base, "8.0")
    trtdiag.save(there, tmp_path / "there.pt2")
    made = trtdiag.export_triton([here, tmp_path / "there.pt2"], tmp_path / "models", "relu")
    assert (made.runs, made.why, made.max_batch_size) == ("tensorrt_plan", "", 8)
    assert made.notes == ("the server needs TensorRT 10.16.1",)
    found = _config(tmp_path / "models" / "relu")
    assert (found.platform, found.backend) == ("tensorrt_plan", "tensorrt")
    assert dict(found.cc_model_filenames) == {"9.0": "model_sm90.plan", "8.0": "model_sm80.plan"}
    assert {path.name for path in made.folder.iterdir()} == {"model_sm90.plan", "model_sm80.plan"}
    assert (made.folder / "model_sm80.plan").read_bytes().endswith(b"for 8.0")
    assert found.input[0].name == "input 0: input"  # what the engine calls it
    assert set(found.model_warmup[0].inputs) == {"input 0: input"}
    assert found.instance_group[0].Kind.Name(found.instance_group[0].kind) == "KIND_GPU"
    anywhere = trtdiag.export_triton(as_plan(base, hardware_compatibility="ampere+"), tmp_path / "models", "anywhere")
    assert [path.name for path in anywhere.folder.iterdir()] == ["model.plan"]
    # Without its networks nothing is there to prove the batch by.
    unknown = trtdiag.CompiledProgram(here.exported_program, options=here.options)
    kept = trtdiag.export_triton(unknown, tmp_path / "models", "unknown")
    assert (kept.runs, kept.max_batch_size) == ("tensorrt_plan", 0)
    assert "compile with --portable" in kept.batch


PROFILES = (
    # The largest batch that fits every profile: samples are put together by their number alone.
    ({"decode": {"w": 3}, "prefill": {"w": (4, 9)}}, 8),
    ({"decode": {"w": 3}, "prefill": {"w": (4, 9), "n": (1, 2)}}, 2),
    ({"few": {"n": (1, 3)}, "many": {"n": (4, 8)}}, 8),
    ({"few": {"n": (1, 3)}, "many": {"n": (5, 8)}}, 3),
    ({"decode": {"w": 3, "n": 4}, "prefill": {"w": (4, 9)}}, 0),
)


# Quick: the ends.
@thinned(("profiles", "largest"), PROFILES, every=9)
def test_a_plan_of_several_profiles(tmp_path: Path, profiles: dict[str, Any], largest: int) -> None:
    sizes = {"input": {0: torch.export.Dim("n", min=1, max=8), 1: torch.export.Dim("w", min=3, max=9)}}
    program = (nn.Sequential(nn.ReLU()), (torch.ones(2, 5),), {}, sizes)
    usual = {"backend": "reference", "target": "10.16", "verify": False, "min_segment_ops": 0}
    base = trtdiag.compile(program, profiles=profiles, portable=True, **usual)
    plan = as_plan(base)
    assert len(plan.manifests[0].profiles) == 2
    made = trtdiag.export_triton(plan, tmp_path, "net")
    assert (made.runs, made.max_batch_size) == ("tensorrt_plan", largest)
    found = _config(tmp_path / "net")
    # Triton takes the numbers of the engine's profiles as texts, and chooses the best one for each request.
    assert list(found.instance_group[0].profile) == ["0", "1"]
    # A number that is a size is no tensor of a request, so a program that takes one is no plan.
    assert not any(port.is_shape_tensor for port in (*found.input, *found.output))
    assert found.max_batch_size == largest
    if largest in (2, 3):
        with pytest.raises(trtdiag.UserError, match="no batches of up to 8"):
            trtdiag.export_triton(plan, tmp_path, "more", max_batch_size=8)
    one = as_plan(trtdiag.compile(program, portable=True, **usual), "8.0")
    with pytest.raises(trtdiag.UserError, match="for other sizes"):
        trtdiag.export_triton([plan, one], tmp_path, "both")


def test_programs_that_are_no_one_model_are_refused(tmp_path: Path) -> None:
    base = compiled(nn.Linear(5, 3), trtdiag.Input((1, 5), (4, 5), (8, 5)))
    other = compiled(nn.Linear(5, 2), trtdiag.Input((1, 5), (4, 5), (8, 5)))
    for programs, why in (
        ([base, base], "its engine is of the reference backend"),
        ([as_plan(base), as_plan(base)], "two of them are for GPUs of compute capability 9.0"),
        ([as_plan(base), as_plan(other, "8.0")], "computes something else"),
        ([as_plan(base), base], "has an engine of the reference backend"),
    ):
        with pytest.raises(trtdiag.UserError, match=why) as refused:
            trtdiag.export_triton(programs, tmp_path, "both")
        assert refused.value.reference == "triton-programs"
    assert not list(tmp_path.iterdir())


def test_versions_are_added_and_nothing_is_written_over(tmp_path: Path) -> None:
    model = tmp_path / "tagger"
    trtdiag.export_triton(tagger(), tmp_path, "tagger")
    assert trtdiag.export_triton(tagger(), tmp_path, "tagger").folder.name == "2"
    assert trtdiag.export_triton(tagger(), tmp_path, "tagger", version=7).folder.name == "7"
    with pytest.raises(trtdiag.UserError, match="has a version 2") as refused:
        trtdiag.export_triton(tagger(), tmp_path, "tagger", version=2)
    assert "makes it 8" in refused.value.fix
    with pytest.raises(trtdiag.UserError, match="says something else") as refused:
        trtdiag.export_triton(tagger(), tmp_path, "tagger", instances=2)
    assert "+  count: 2" in refused.value.because
    assert sorted(path.name for path in model.iterdir()) == ["1", "2", "7", "config.pbtxt", "model_analyzer.yaml"]
    edited = (model / "config.pbtxt").read_text() + "# mine\n"
    (model / "config.pbtxt").write_text(edited)
    trtdiag.export_triton(tagger(), tmp_path, "tagger", instances=2, keep_config=True)
    assert (model / "config.pbtxt").read_text() == edited
    (model / "2" / "left").write_text("of before")
    trtdiag.export_triton(tagger(), tmp_path, "tagger", instances=2, version=2, force=True)
    assert _config(model).instance_group[0].count == 2
    assert not (model / "2" / "left").exists()
    assert not [path for path in (*tmp_path.iterdir(), *model.iterdir()) if path.name.startswith(".")]


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import trtdiag.deployment.triton as written

    trtdiag.export_triton(tagger(), tmp_path, "tagger")
    before = (tmp_path / "tagger" / "1" / "model.pt2").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def full_while_saved(*_: object) -> None:
        raise trtdiag.ArtifactError("x", because="No space left", fix="x", reference="file-not-written")

    for name, stopped in (("tagger", full), ("new", full), ("new", full_while_saved)):
        monkeypatch.setattr(written, "_put_program", stopped)
        with pytest.raises(trtdiag.UserError, match="No space left") as refused:
            trtdiag.export_triton(tagger(), tmp_path, name, version=1, force=True)
        assert refused.value.reference == "repository-not-writable"
    assert (tmp_path / "tagger" / "1" / "model.pt2").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["tagger"]


def test_names_at_the_edge_of_what_can_be_one(tmp_path: Path) -> None:
    for name in ("a b", "ünï", "x" * 255, "ü" * 127, "-a", "a'b:c"):
        made = trtdiag.export_triton(tagger(), tmp_path, name, warm_up=False)
        assert _config(made.folder.parent).name == name
    odd_folder = tmp_path / "\udcff"  # no UTF-8, as a file of Model Analyzer must be
    made = trtdiag.export_triton(tagger(), odd_folder, "net", warm_up=False)
    assert "\\udcff" in (odd_folder / "net" / "model_analyzer.yaml").read_text()


def test_what_is_in_the_way_of_a_version_is_told(tmp_path: Path) -> None:
    (tmp_path / "last" / str((1 << 31) - 1)).mkdir(parents=True)
    with pytest.raises(trtdiag.UserError, match="has no version behind 2147483647") as refused:
        trtdiag.export_triton(tagger(), tmp_path, "last")
    assert refused.value.reference == "triton-version"
    assert trtdiag.export_triton(tagger(), tmp_path, "last", version=3, warm_up=False).folder.name == "3"
    (tmp_path / "lost").symlink_to("nowhere")
    with pytest.raises(trtdiag.UserError, match="it is there already") as refused:
        trtdiag.export_triton(tagger(), tmp_path, "lost")
    assert refused.value.reference == "repository-not-writable"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_no_configuration(tmp_path: Path) -> None:
    """It would be waited for."""
    (tmp_path / "net").mkdir()
    os.mkfifo(tmp_path / "net" / "config.pbtxt")
    with pytest.raises(trtdiag.UserError, match="it is a named pipe"):
        trtdiag.export_triton(tagger(), tmp_path, "net")


def test_of_two_exports_at_once_one_is_told_of_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import trtdiag.deployment.triton as written

    put = written._put_program

    def late(source: Any, place: Path) -> None:
        monkeypatch.setattr(written, "_put_program", put)
        trtdiag.export_triton(tagger(), tmp_path, "net", warm_up=False)
        put(source, place)

    for version in ("1", "2"):
        monkeypatch.setattr(written, "_put_program", late)
        with pytest.raises(trtdiag.UserError, match=f"{version} is there now|net is there now") as refused:
            trtdiag.export_triton(tagger(), tmp_path, "net", warm_up=False)
        assert refused.value.reference == "triton-version"
        assert (tmp_path / "net" / version / "model.pt2").is_file()
    assert {path.name for path in (tmp_path / "net").iterdir()} == {"1", "2", "config.pbtxt", "model_analyzer.yaml"}


def test_wrong_wishes_are_refused_by_name(tmp_path: Path) -> None:
    for name in ("a/b", ".hidden", "..", "two\nlines", "\udcff", "a\x01b", "a\u202eb", "x" * 256, "ü" * 128):
        with pytest.raises(trtdiag.UserError, match="a model cannot be called"):
            trtdiag.export_triton(tagger(), tmp_path, name)
    with pytest.raises(trtdiag.UserError, match="takes no batches of up to 8") as refused:
        trtdiag.export_triton(tagger(), tmp_path, "t", max_batch_size=8)
    assert "at most 7" in refused.value.because
    with pytest.raises(trtdiag.UserError, match="requests cannot be put together"):
        trtdiag.export_triton(odd(), tmp_path, "t", dynamic_batching=0)
    with pytest.raises(trtdiag.ArgumentError, match="instances cannot be 0"):
        trtdiag.export_triton(tagger(), tmp_path, "t", instances=0)
    assert not list(tmp_path.iterdir())


def test_a_dtype_that_triton_has_not_is_refused(tmp_path: Path) -> None:
    class Complex(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.view_as_complex(x)

    program = compiled(Complex(), trtdiag.Input((3, 2)))
    with pytest.raises(trtdiag.UserError, match="Triton cannot hand over output") as refused:
        trtdiag.export_triton(program, tmp_path, "c")
    assert refused.value.reference == "triton-dtype"


def test_the_command_tells_what_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    trtdiag.save(tagger(), "tagger_trt.pt2")
    assert _ended("export-triton", "tagger_trt.pt2", "models", "--name", "tagger", "--dynamic-batching", "50") == 0
    printed = capsys.readouterr().out
    assert "models/tagger/1: for the Python backend: its engine is of the reference backend" in printed
    assert "max_batch_size 7: the first dim is one size everywhere, and none of the" in printed
    assert _config(tmp_path / "models" / "tagger").dynamic_batching.max_queue_delay_microseconds == 50
    assert _ended("export-triton", "tagger_trt.pt2", "models", "--name", "tagger", "--version", "1") == 2
    assert "has a version 1" in capsys.readouterr().err
    assert _ended("export-triton", "tagger_trt.pt2", "models", "-q", "--no-warm-up") == 0
    assert (tmp_path / "models" / "tagger_trt" / "1" / "model.py").exists()
    assert capsys.readouterr().out == ""
    assert _ended("export-triton", "missing.pt2", "models", "-q") == 2


class Recurrent(nn.Module):
    """More steps than are written one by one: a loop for each layer and direction."""

    def __init__(self, kind: str, *, batch_first: bool, handed_on: bool = False, **how: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.batch_first, self.handed_on = batch_first, handed_on
        self.cell = getattr(nn, kind)(3, 2, batch_first=batch_first, **how)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.handed_on:  # a sample begins with what the samples before it began with
            return self.cell(x, x[:, 0, :2].cumsum(0)[None])[0]  # type: ignore[no-any-return]
        if self.batch_first:
            return self.cell(x)[0]  # type: ignore[no-any-return]
        return self.cell(x.transpose(0, 1))[0].transpose(0, 1)  # type: ignore[no-any-return]


RECURRENT = {
    "LSTM": Recurrent("LSTM", batch_first=True),
    "LSTM both ways, two layers, steps first": Recurrent("LSTM", batch_first=False, bidirectional=True, num_layers=2),
    "GRU, two layers": Recurrent("GRU", batch_first=True, num_layers=2),
    "RNN both ways": Recurrent("RNN", batch_first=True, bidirectional=True),
}


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recurrent layers are loops from 3 time steps on, a length that is quick to trace."""
    monkeypatch.setattr(recurrent, "MOST_CELLS", 2)


# Quick: the one whose samples are not the first dim, in both ways and two layers.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if "steps first" in name else pytest.mark.slow) for name in RECURRENT]
)
@pytest.mark.usefixtures("loops")
@pytest.mark.slow  # quick: a state of the samples before leaves none
def test_recurrent_layers_have_a_batch(name: str, tmp_path: Path) -> None:
    program = compiled(RECURRENT[name], trtdiag.Input((1, 3, 3), (2, 3, 3), (7, 3, 3)))
    (engine,) = engine_nodes(program.exported_program)
    assert "Loop" in {placed.layer.kind for placed in from_bytes(engine_bytes(engine.engine)).layers}
    made = trtdiag.export_triton(program, tmp_path, "recurrent")
    assert made.max_batch_size == 7, made.batch


@pytest.mark.usefixtures("loops")
def test_a_state_of_the_samples_before_leaves_none(tmp_path: Path) -> None:
    module = Recurrent("RNN", batch_first=True, handed_on=True)
    made = trtdiag.export_triton(compiled(module, trtdiag.Input((1, 3, 3), (2, 3, 3), (7, 3, 3))), tmp_path, "handed")
    assert made.max_batch_size == 0
    assert "the dim of the samples" in made.batch
