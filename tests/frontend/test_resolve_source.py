"""Sources that name a module, or a folder, and what they are exported with."""

from __future__ import annotations

import json
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

import trtdiag
from tests.models.library import needs_library
from tests.models.torchvision_ops import declare_missing_ops
from trtdiag import Input
from trtdiag.analysis.not_checked import NO_WEIGHTS
from trtdiag.errors import ArgumentError, CaptureError, UserError
from trtdiag.frontend.module_inputs import ModuleInputs
from trtdiag.frontend.resolve_source import resolve_source

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.dropout = nn.Linear(3, 2), nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(self.linear(x))

def build():
    return Net().eval(), (torch.ones(2, 3),), None, {"x": {0: torch.export.Dim("batch", min=1, max=7)}}
"""
X = {"x": Input((1, 3), max=(7, 3))}


@pytest.fixture
def net(tmp_path: Path) -> str:
    (tmp_path / "own_net.py").write_text(NET)
    return str(tmp_path / "own_net.py")


def test_a_class_in_a_file_is_a_source_with_inputs(net: str) -> None:
    report = trtdiag.analyze(f"{net}:Net", inputs=X)
    (dim,) = (dim for tensor in report.analysis.program.inputs for dim in tensor.dims if dim.declared_range)

    assert (str(dim.declared_name), str(dim.declared_range)) == ("batch", "1..7")
    assert report.analysis.program.label == f"{net}:Net"
    recipe = report.analysis.program.recipe
    assert recipe is not None
    assert not recipe.module.training  # what is deployed drops nothing out


def test_a_factory_in_a_file_is_a_source(net: str) -> None:
    assert trtdiag.analyze(f"{net}:build").findings == ()
    assert trtdiag.compile(f"{net}:build", backend="reference").report.analysis.program.label.endswith(":build")


def test_what_brings_its_inputs_takes_no_others(net: str, tmp_path: Path) -> None:
    torch.save(nn.Linear(3, 2), tmp_path / "saved.pt")
    program = torch.export.export(nn.Linear(3, 2), (torch.ones(2, 3),))
    for source in (f"{net}:build", str(tmp_path / "saved.pt"), program):
        with pytest.raises(ArgumentError, match="cannot be given beside"):
            resolve_source(source, X)
    with pytest.raises(ArgumentError, match="cannot be given beside"):
        resolve_source(program, meta=True)
    with pytest.raises(ArgumentError, match="no meaning for a module that is made"):
        resolve_source(nn.Linear(3, 2), X, meta=True)
    with pytest.raises(CaptureError, match="did not give what can be exported") as caught:
        trtdiag.analyze(f"{net}:Net")
    assert "--inputs" in caught.value.fix


def test_a_missing_file_or_name_is_told(tmp_path: Path, net: str) -> None:
    with pytest.raises(CaptureError, match="cannot run") as caught:
        trtdiag.analyze(f"{tmp_path}/none.py:Net", inputs=X)
    assert caught.value.because == "there is no such file"
    with pytest.raises(CaptureError, match="has no 'Nett'"):
        trtdiag.analyze(f"{net}:Nett", inputs=X)


def test_a_pickled_module_is_read_when_that_is_asked_for_only(tmp_path: Path) -> None:
    file = tmp_path / "module.pt"
    torch.save(nn.Linear(3, 2), file)
    asked = resolve_source(file, {"input": Input((1, 3), max=(7, 3))}, unpickle=True)

    assert isinstance(asked, ModuleInputs)
    assert trtdiag.analyze(asked).errors == ()
    with pytest.raises(CaptureError, match="holds no exported program") as caught:
        trtdiag.analyze(file)
    assert "--unpickle" in caught.value.fix
    with pytest.raises(ArgumentError, match="needs its inputs"):
        resolve_source(file, unpickle=True)
    torch.save(nn.Linear(3, 2).state_dict(), file)
    with pytest.raises(ArgumentError, match="holds an OrderedDict"):
        resolve_source(file, [Input((1, 3))], unpickle=True)


def test_what_is_no_pickled_module_is_told_by_what_it_is(tmp_path: Path) -> None:
    file, x = tmp_path / "module.pt", [Input((1, 3))]
    torch.save(nn.Linear(3, 2), file)
    whole = file.read_bytes()
    others = {"": "empty", "hello": "looks like text", "import torch": "Python source", whole[:999]: "cut off"}
    for written, why in others.items():
        file.write_bytes(written if isinstance(written, bytes) else written.encode())
        with pytest.raises(CaptureError, match="holds no module of torch") as caught:
            resolve_source(file, x, unpickle=True)
        assert why in caught.value.because
    torch.export.save(torch.export.export(nn.Linear(3, 2), (torch.randn(1, 3),)), file)
    with pytest.raises(CaptureError) as caught:
        resolve_source(file, x, unpickle=True)
    assert caught.value.because == "it looks like an exported program"


def test_without_weights_all_but_their_values_is_checked(net: str) -> None:
    report = trtdiag.analyze(f"{net}:build", meta=True)

    assert NO_WEIGHTS in report.analysis.not_checked
    assert NO_WEIGHTS not in trtdiag.analyze(f"{net}:build").analysis.not_checked
    with pytest.raises(UserError, match="a program without weights cannot be compiled"):
        trtdiag.compile(report.analysis.program.exported, backend="reference")
    fix = trtdiag.fix_dims(f"{net}:Net", inputs=X, meta=True)
    assert fix.outcome.value == "unchanged"


def test_a_folder_without_a_model_is_told(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="is a folder without a model"):
        trtdiag.analyze(tmp_path)
    (tmp_path / "config.json").write_text("[")
    with pytest.raises(CaptureError, match="cannot read") as caught:
        trtdiag.analyze(tmp_path)
    assert caught.value.because.startswith("it is no JSON")
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(CaptureError, match="cannot read"):
        trtdiag.fix_dims(tmp_path)


def test_a_folder_of_programs_names_them(tmp_path: Path) -> None:
    program = torch.export.export(nn.Linear(3, 2), (torch.ones(2, 3),))
    torch.export.save(program, tmp_path / "decode.pt2")
    manifest: dict[str, Any] = {"export_format": "dynamo", "components": {"decode": {"file": "decode.pt2"}}}
    (tmp_path / "export.json").write_text(json.dumps(manifest))

    assert trtdiag.analyze(tmp_path).analysis.program.label == "decode.pt2"
    with pytest.raises(ArgumentError, match="cannot be given beside"):
        trtdiag.analyze(tmp_path, inputs=X)
    manifest["components"]["prefill"] = {"file": "../prefill.pt2"}
    (tmp_path / "export.json").write_text(json.dumps(manifest))
    with pytest.raises(CaptureError, match="holds 2 programs") as caught:
        trtdiag.analyze(tmp_path)
    assert caught.value.fix == f"give one of them: {tmp_path / 'decode.pt2'}"
    (tmp_path / "export.json").write_text(
        json.dumps({"export_format": "onnx", "components": {"m": {"file": "m.onnx"}}})
    )
    with pytest.raises(CaptureError, match=r"holds no program of torch\.export") as caught:
        trtdiag.analyze(tmp_path)
    assert caught.value.because.endswith("'onnx'")


class _Part:
    def __init__(self, program: object) -> None:
        self.program = program


class _Exported:
    """As transformers' exporters give: one part for each program."""

    def __init__(self, **parts: object) -> None:
        self.components = {name: _Part(program) for name, program in parts.items()}


def test_what_exporters_give_is_their_one_program() -> None:
    program = torch.export.export(nn.Linear(3, 2), (torch.ones(2, 3),))

    assert trtdiag.analyze(_Exported(model=program)).findings == trtdiag.analyze(program).findings  # type: ignore[arg-type]
    with pytest.raises(CaptureError, match="export of 2 programs: 'prefill', 'decode'"):
        trtdiag.analyze(_Exported(prefill=program, decode=program))  # type: ignore[arg-type]
    with pytest.raises(CaptureError, match=r"no export of torch\.export"):
        trtdiag.analyze(_Exported(model=b"onnx"))  # type: ignore[arg-type]


SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
TEXT = {**SMALL, "vocab_size": 97, "eos_token_id": 96, "bos_token_id": 95}
CONFIGS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "LlamaForCausalLM": (
        {**TEXT, "num_key_value_heads": 2, "max_position_embeddings": 128},
        {"input_ids": "1..16 x 2..128"},
    ),
    "BertForSequenceClassification": (
        {**SMALL, "vocab_size": 97, "max_position_embeddings": 64},
        {"input_ids": "1..16 x 2..64"},
    ),
    "ViTForImageClassification": (
        {**SMALL, "image_size": 48, "patch_size": 16},
        {"pixel_values": "1..16 x 3 x 48 x 48"},
    ),
    "T5ForConditionalGeneration": (
        {
            "d_model": 32,
            "d_ff": 64,
            "num_heads": 4,
            "num_layers": 2,
            "d_kv": 8,
            "vocab_size": 97,
            "decoder_start_token_id": 0,
        },
        {"input_ids": "1..16 x 2..512", "decoder_input_ids": "1..16 x 2..512"},
    ),
    "CLIPModel": (
        {
            "projection_dim": 16,
            "text_config": {**TEXT, "max_position_embeddings": 77},
            "vision_config": {**SMALL, "image_size": 32, "patch_size": 16},
        },
        {"input_ids": "1..16 x 2..77", "pixel_values": "1..16 x 3 x 32 x 32"},
    ),
    "WhisperForConditionalGeneration": (
        {
            "d_model": 32,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "vocab_size": 97,
            "num_mel_bins": 20,
            "max_source_positions": 50,
            "max_target_positions": 24,
            "pad_token_id": 0,
            "decoder_start_token_id": 1,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
        {"input_features": "1..16 x 20 x 100", "decoder_input_ids": "1..16 x 2..24"},
    ),
}


@pytest.mark.slow
@pytest.mark.zoo
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("weights", [False, True])
def test_a_folder_of_hugging_face_is_a_source(name: str, weights: bool, tmp_path: Path) -> None:
    declare_missing_ops()
    with needs_library("a folder of Hugging Face"):
        import transformers
    settings, usual = CONFIGS[name]
    made = getattr(transformers, name)
    config = made.config_class(**settings, architectures=[name])
    if weights:
        made(config).save_pretrained(tmp_path)
    else:
        config.save_pretrained(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    report = trtdiag.analyze(tmp_path)

    told = ", ".join(f"{key} {sizes}" for key, sizes in usual.items())
    assert any(told in note for note in report.analysis.not_checked)
    assert (NO_WEIGHTS in report.analysis.not_checked) is not weights
    assert report.analysis.program.exported is not None
    assert not report.errors
    assert report.analysis.program.label == tmp_path.name
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    if weights:
        trtdiag.compile(tmp_path, backend="reference")  # and compared at every corner of the usual sizes
    else:
        with pytest.raises(UserError, match="without weights"):
            trtdiag.compile(tmp_path, backend="reference")


def test_a_folder_of_programs_is_answered_with_their_names(tmp_path: Path) -> None:
    for name in ("a.pt2", "b.pt2", "c.ep", "d.pt2"):
        (tmp_path / name).touch()
    with pytest.raises(CaptureError, match="is a folder without a model") as caught:
        trtdiag.analyze(tmp_path)
    assert "one of the files in it: a.pt2, b.pt2, c.ep and 1 more" in caught.value.fix


def test_a_config_without_an_architecture_is_refused_in_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = ModuleType("transformers")
    empty.__spec__ = ModuleSpec("transformers", None)
    monkeypatch.setitem(sys.modules, "transformers", empty)
    for written, message in (("{}", "names no architecture"), ('{"architectures": ["No"]}', "the architecture 'No'")):
        (tmp_path / "config.json").write_text(written)
        with pytest.raises(CaptureError, match=message) as caught:
            resolve_source(tmp_path)
        assert caught.value.reference == "folder-not-readable"
        assert "\n" not in caught.value.because


@pytest.mark.slow
@pytest.mark.zoo
def test_other_inputs_and_unknown_architectures(tmp_path: Path) -> None:
    declare_missing_ops()
    with needs_library("a folder of Hugging Face"):
        import transformers
    config = transformers.LlamaConfig(**CONFIGS["LlamaForCausalLM"][0], architectures=["LlamaForCausalLM"])
    config.save_pretrained(tmp_path)
    asked = resolve_source(tmp_path, {"input_ids": Input((1, 3), max=(5, 11), dtype=torch.int64)})
    assert isinstance(asked, ModuleInputs)
    assert [(dim.min, dim.max) for dim in asked.dims] == [(1, 5), (3, 11)]
    config.architectures = ["NoSuchModel"]
    config.save_pretrained(tmp_path)
    with pytest.raises(CaptureError, match="names the architecture 'NoSuchModel'"):
        trtdiag.analyze(tmp_path)
