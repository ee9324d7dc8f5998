"""Compiled programs that take other weights: in the file and loaded, beside a compilation with these weights."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import trtdiag
from trtdiag.cli.main import main

# Programs of these tests have no file: they are compared here.
pytestmark = pytest.mark.filterwarnings("ignore:outputs with the new weights were not compared")
SIZES = trtdiag.Input((1, 3, 16), (4, 3, 16), (8, 3, 16))
USUAL: Mapping[str, Any] = {"backend": "reference", "target": "10.16", "min_segment_ops": 0, "verify": False}


class Mixed(nn.Module):
    """Weights in two engines and in PyTorch, tied, folded, as places, and unused."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(3, 4, 3)
        self.batch = nn.BatchNorm1d(4)
        self.linear = nn.Linear(4, 4)
        self.tied = nn.Linear(4, 4)
        self.tied.weight = self.linear.weight
        self.norm, self.other_norm = nn.LayerNorm(4), nn.LayerNorm(4)  # equal at first, and different tensors
        self.register_buffer("places", torch.tensor([2, 0, 1, 3]))
        self.register_buffer("factor", torch.full((4,), 2.0), persistent=False)
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.batch(self.conv(x)).transpose(1, 2)
        y = self.other_norm(torch.relu(self.norm(self.linear(y)))) * self.factor
        y = torch.special.i0e(y) * self.norm.weight  # no engine has that op: its weights are read by PyTorch, too
        return torch.tanh(self.tied(y)[:, :, self.places] + torch.relu(self.linear.weight * 2).sum())


def _model(seed: int) -> Mixed:
    generator = torch.Generator().manual_seed(seed)
    made = Mixed().eval()
    with torch.no_grad():
        for tensor in (*made.parameters(), made.batch.running_mean):
            assert isinstance(tensor, torch.Tensor)
            tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.3)
        assert isinstance(made.batch.running_var, torch.Tensor)
        made.batch.running_var.copy_(torch.rand(4, generator=generator) + 0.5)
    return made


def _compiled(model: nn.Module, *sizes: trtdiag.Input, **changes: Any) -> trtdiag.CompiledProgram:
    return trtdiag.compile(model, inputs=list(sizes or (SIZES,)), **{**USUAL, "refittable": True, **changes})


@cache
def _shared() -> trtdiag.CompiledProgram:
    """For tests that do not ask which weights it has."""
    return _compiled(_model(1))


def _x() -> torch.Tensor:
    return torch.randn(5, 3, 16, generator=torch.Generator().manual_seed(7))


def _save_safetensors(state: Mapping[str, torch.Tensor], path: Path) -> Path:
    names = {torch.float32: "F32", torch.float16: "F16", torch.int64: "I64", torch.bfloat16: "BF16"}
    head, body = {}, b""
    for name, tensor in state.items():
        content = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        place = [len(body), len(body) + len(content)]
        head[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": place}
        body += content
    text = json.dumps(head).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)
    return path


def _ended(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in arguments])
    return int(ended.value.code or 0)


# Quick: float16; the command refits without a precision, and bfloat16 is a half as float16 is.
@pytest.mark.parametrize(
    "precision", [pytest.param("keep", marks=pytest.mark.slow), "fp16", pytest.param("bf16", marks=pytest.mark.slow)]
)
def test_a_refit_is_a_compilation_with_the_new_weights(precision: str, tmp_path: Path) -> None:
    old, new, x = _model(1), _model(2), _x()
    compiled = _compiled(old, precision=precision)
    assert len(compiled.manifests) == 2
    fresh = _compiled(new, precision=precision, refittable=False)
    before = compiled(x)
    trtdiag.save(compiled, tmp_path / "old.pt2")
    again = trtdiag.refit(tmp_path / "old.pt2", new.state_dict(), output=tmp_path / "new.pt2")
    assert torch.equal(again(x), fresh(x))
    assert torch.equal(trtdiag.load(tmp_path / "new.pt2")(x), fresh(x))
    assert torch.equal(trtdiag.load(tmp_path / "old.pt2")(x), before)  # it stays as it is
    assert trtdiag.refit(compiled, new) is compiled
    assert torch.equal(compiled(x), fresh(x))
    assert [each.network_hash for each in compiled.manifests] == [each.network_hash for each in fresh.manifests]
    trtdiag.refit(compiled, old)
    assert torch.equal(compiled(x), before)


# Quick: files with each weight once.
@pytest.mark.parametrize("where", ["once", pytest.param("none", marks=pytest.mark.slow)])
def test_files_without_weights_in_engines(where: str, tmp_path: Path) -> None:
    old, new, x, file = _model(1), _model(2), _x(), tmp_path / "bare.pt2"
    compiled = _compiled(old, engine_weights=where, portable=True)
    trtdiag.save(compiled, file)
    if where == "none":
        with pytest.raises(trtdiag.ArtifactError, match="has no weights"):
            trtdiag.load(file)
        loaded = trtdiag.load(file, weights=old)
    else:
        loaded = trtdiag.load(file)
    assert torch.equal(loaded(x), compiled(x))
    assert torch.equal(trtdiag.load(file, weights=new)(x), _compiled(new)(x))
    assert len(trtdiag.rebuild(loaded).networks) == 2
    trtdiag.save(loaded, tmp_path / "again.pt2")
    assert torch.equal(trtdiag.load(tmp_path / "again.pt2", weights=old)(x), compiled(x))


def test_a_file_without_weights_that_is_given_some_has_them(tmp_path: Path) -> None:
    trtdiag.save(_compiled(_model(1), engine_weights="none"), tmp_path / "bare.pt2")
    trtdiag.refit(tmp_path / "bare.pt2", _model(2), output=tmp_path / "whole.pt2", verify=False)
    assert torch.equal(trtdiag.load(tmp_path / "whole.pt2")(_x()), _compiled(_model(2))(_x()))


@pytest.mark.slow  # quick: a file whose weights were changed
def test_weights_are_in_a_file_once(tmp_path: Path) -> None:
    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(4))).eval()
    inputs = trtdiag.Input((1, 256), (2, 256), (8, 256))
    own = 4 * (256 * 256 + 256) * 4
    sizes = {}
    for where in ("inside", "once", "none"):
        trtdiag.save(_compiled(model, inputs, engine_weights=where), tmp_path / f"{where}.pt2")
        sizes[where] = (tmp_path / f"{where}.pt2").stat().st_size
    assert own < sizes["inside"] < own + 60_000
    assert own < sizes["once"] < own + 60_000
    assert sizes["none"] <= 0.05 * sizes["inside"]


def test_what_weights_come_from(tmp_path: Path) -> None:
    old, new, x = _model(1), _model(2), _x()
    state = {name: each.clone() for name, each in new.state_dict().items() if name != "tied.weight"}  # as HF saves it
    expected = _compiled(new)(x)
    folder = tmp_path / "folder"
    folder.mkdir()
    _save_safetensors(state, folder / "model.safetensors")
    torch.save(new.state_dict(), tmp_path / "state.pt")
    torch.save({"state_dict": new.state_dict()}, tmp_path / "checkpoint.ckpt")
    batch = torch.export.Dim("batch", min=1, max=8)
    program = torch.export.export(new, (_x(),), dynamic_shapes={"x": {0: batch}})
    torch.export.save(program, tmp_path / "new.pt2")
    compiled = _compiled(old)
    for weights in (
        folder / "model.safetensors",
        folder,
        tmp_path / "state.pt",
        tmp_path / "checkpoint.ckpt",
        tmp_path / "new.pt2",
        program,
        new,
    ):
        trtdiag.refit(compiled, old)
        trtdiag.refit(compiled, weights)
        assert torch.equal(compiled(x), expected), weights


def test_weights_that_do_not_fit_are_refused_with_what_differs(tmp_path: Path) -> None:
    compiled, state, x = _shared(), _model(2).state_dict(), _x()
    before = compiled(x)
    faults = {
        "missing: conv.weight": {name: each for name, each in state.items() if name != "conv.weight"},
        "unexpected: head.weight": {**state, "head.weight": torch.zeros(1)},
        r"conv.bias is \[5\], and the program has \[4\]": {**state, "conv.bias": torch.zeros(5)},
        "conv.bias is float16, and the program has float32": {**state, "conv.bias": torch.zeros(4).half()},
        "places has other values": {**state, "places": torch.arange(4)},
        "are one tensor in the program": {**state, "tied.weight": torch.zeros(4, 4)},
        "conv.bias has no elements": {**state, "conv.bias": torch.zeros(4, device="meta")},
        "is int, no tensor": {**state, "epoch": 3},
    }
    for words, weights in faults.items():
        with pytest.raises(trtdiag.UserError, match=words):
            trtdiag.refit(compiled, weights)
    batch = torch.export.Dim("batch", min=1, max=8)
    other = torch.export.export(nn.Sequential(_model(1), nn.ReLU()), (_x(),), dynamic_shapes=({0: batch},))
    with pytest.raises(trtdiag.UserError, match=r"another program: node 0 is parameter 0\.unused"):
        trtdiag.refit(compiled, other)
    assert torch.equal(compiled(x), before)
    with pytest.raises(trtdiag.ArtifactError, match="it was not compiled refittable"):
        trtdiag.refit(_compiled(_model(1), refittable=False), state)
    trtdiag.refit(compiled, {**state, "unused": torch.zeros(2)})  # nobody reads it


def test_cut_and_foreign_weight_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = _shared()
    whole = _save_safetensors(_model(2).state_dict(), tmp_path / "whole.safetensors").read_bytes()
    cut = tmp_path / "cut.safetensors"
    for length in (0, 7, 8, 100, len(whole) - 1):
        cut.write_bytes(whole[:length])
        with pytest.raises(trtdiag.UserError, match="no whole safetensors file"):
            trtdiag.refit(compiled, cut)
    for name in ("missing.safetensors", "missing.pt2"):
        with pytest.raises((trtdiag.UserError, trtdiag.CaptureError)):
            trtdiag.refit(compiled, tmp_path / name)
    (tmp_path / "text.pt").write_text("no tensors")
    with pytest.raises(trtdiag.UserError, match="cannot be read"):
        trtdiag.refit(compiled, tmp_path / "text.pt")

    changing = tmp_path / "changing.safetensors"
    changing.write_bytes(whole)
    read = Path.read_bytes

    def read_while_written(path: Path) -> bytes:
        found = read(path)
        path.write_bytes(found + b"more")
        return found

    monkeypatch.setattr(Path, "read_bytes", read_while_written)
    with pytest.raises(trtdiag.UserError, match="written to while it was read"):
        trtdiag.refit(compiled, changing)


def test_values_that_decide_what_is_in_engines(tmp_path: Path) -> None:
    state, x = _model(2).state_dict(), _x()
    large = {**state, "linear.bias": torch.full((4,), 1e6)}
    half = _compiled(_model(1), precision="fp16")
    with pytest.raises(trtdiag.UserError, match=r"decided by values of linear\.bias: with the old weights isinf was"):
        trtdiag.refit(half, large)
    full = _compiled(_model(1))
    trtdiag.refit(full, large)
    assert full(x).isfinite().all()
    trtdiag.refit(full, {**state, "linear.bias": torch.full((4,), math.nan)})
    assert full(x).isnan().any()


def test_quantized_weights_and_buffers_that_calls_change() -> None:
    class Counting(nn.Module):
        def __init__(self, seed: int) -> None:
            super().__init__()
            generator = torch.Generator().manual_seed(seed)
            self.register_buffer("weight", torch.randint(-9, 9, (5, 6), generator=generator).to(torch.int8))
            self.scale = nn.Parameter(torch.rand(1, generator=generator))
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls.add_(1.0)
            return torch.tanh(x @ (self.weight.float() * self.scale).t()) + self.calls

    size = trtdiag.Input((1, 6), (2, 6), (4, 6))
    compiled = _compiled(Counting(1), size)
    x, new = torch.ones(3, 6), Counting(2)
    compiled(x)
    state = {name: each for name, each in new.state_dict().items() if name != "calls"}
    trtdiag.refit(compiled, state)
    torch.testing.assert_close(compiled(x)[0] - compiled.state()[0], new(x)[0] - 1.0)
    trtdiag.refit(compiled, new.state_dict())
    assert float(compiled.state()[0]) == 1.0  # the state of the new model, which was called once


def test_adapters_are_merged_as_peft_does(tmp_path: Path) -> None:
    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.linear, self.conv = nn.Embedding(7, 6), nn.Linear(6, 5), nn.Conv1d(5, 4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.conv(torch.tanh(self.linear(self.table(x))).transpose(1, 2)))

    torch.manual_seed(0)
    model = Small().eval()
    x = torch.randint(0, 7, (2, 9))
    size = trtdiag.Input((1, 9), (2, 9), (4, 9), dtype=torch.int64)
    compiled = _compiled(model, size, engine_weights="once")
    root = "base_model.model."
    factors = {
        f"{root}linear.lora_A.weight": torch.randn(2, 6),
        f"{root}linear.lora_B.weight": torch.randn(5, 2),
        f"{root}conv.lora_A.weight": torch.randn(2, 5, 3),
        f"{root}conv.lora_B.weight": torch.randn(4, 2, 1),
        f"{root}table.lora_embedding_A": torch.randn(2, 7),
        f"{root}table.lora_embedding_B": torch.randn(6, 2),
    }
    folder = tmp_path / "adapter"
    folder.mkdir()
    _save_safetensors(factors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({"lora_alpha": 3, "r": 2, "alpha_pattern": {"conv": 8}}))
    a, b = (factors[f"{root}linear.lora_{each}.weight"] for each in "AB")
    first, second = (factors[f"{root}conv.lora_{each}.weight"] for each in "AB")
    before = compiled(x)
    expected = Small().eval()
    expected.load_state_dict(model.state_dict())
    with torch.no_grad():
        expected.linear.weight += 3 / 2 * b @ a
        expected.conv.weight += 8 / 2 * torch.einsum("or,rik->oik", second[:, :, 0], first)
        rows = factors[f"{root}table.lora_embedding_B"] @ factors[f"{root}table.lora_embedding_A"]
        expected.table.weight += 3 / 2 * rows.t()
    trtdiag.refit(compiled, lora=folder)
    torch.testing.assert_close(compiled(x), expected(x))
    trtdiag.refit(compiled, lora=[folder], lora_scale=-1.0)
    torch.testing.assert_close(compiled(x), before)
    with pytest.raises(trtdiag.UserError, match="an adapter needs the weights"):
        trtdiag.refit(_compiled(model, size), lora=folder)
    for words, odd in {
        "has only one of the two factors of linear": {"linear.lora_A.weight": a},
        "the model has no such parameter": {"q_proj.lora_A.weight": a, "q_proj.lora_B.weight": b},
        r"the change of linear is \[5, 5\]": {"linear.lora_A.weight": a[:, :5], "linear.lora_B.weight": b},
        "DoRA": {"linear.lora_magnitude_vector": a},
        "no tensor of it is called lora_A": {"linear.weight": a},
    }.items():
        with pytest.raises(trtdiag.UserError, match=words):
            trtdiag.refit(compiled, lora=odd)


def test_a_file_whose_weights_were_changed_is_damaged(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16)).eval()
    compiled = _compiled(model, trtdiag.Input((1, 16), (2, 16), (4, 16)), engine_weights="once")
    trtdiag.save(compiled, tmp_path / "once.pt2")
    content = (tmp_path / "once.pt2").read_bytes()
    first = model[0].weight.detach().numpy().tobytes()
    assert content.count(first) == 1
    for changed in (content.replace(first, b"\x01" + first[1:]), content[:-40], content[: len(content) // 2]):
        (tmp_path / "changed.pt2").write_bytes(changed)
        with pytest.raises(trtdiag.ArtifactError):
            trtdiag.load(tmp_path / "changed.pt2")


@pytest.mark.slow  # quick: what weights come from, above; what the command is given is refused in tests/cli
def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    batch = torch.export.Dim("batch", min=1, max=8)
    for name, seed in (("old.pt2", 1), ("new.pt2", 2)):
        torch.export.save(torch.export.export(_model(seed), (_x(),), dynamic_shapes={"x": {0: batch}}), name)
    state = _save_safetensors(_model(2).state_dict(), tmp_path / "new.safetensors")
    usual = ("--backend", "reference", "--min-segment-ops", "0", "-q")
    assert _ended("compile", "old.pt2", "-o", "c.pt2", "--refittable", *usual) == 0
    content = Path("c.pt2").read_bytes()
    capsys.readouterr()
    assert _ended("refit", "c.pt2", "--weights", state) == 0
    printed = capsys.readouterr().out
    assert "note: nothing in the program reads " in printed
    assert "refitted 2 engines, built none: c_refit.pt2 (" in printed
    assert torch.equal(trtdiag.load("c_refit.pt2")(_x()), _compiled(_model(2))(_x()))
    assert _ended("refit", "c.pt2", "--weights", "new.pt2", "-o", "d.pt2") == 0
    assert _ended("refit", "c.pt2") == 2
    assert "there are no weights to give" in capsys.readouterr().err
    for taken in ("c.pt2", "new.pt2", state, "old.pt2"):
        assert _ended("refit", "c.pt2", "--weights", state, "--lora", "new.pt2", "-o", taken) == 2, taken
    assert Path("c.pt2").read_bytes() == content
    Path("old.pt2").unlink()
    assert _ended("refit", "c.pt2", "--weights", state, "-o", "e.pt2") == 2
    assert "cannot be compared with its model" in capsys.readouterr().err
    assert not Path("e.pt2").exists()
    assert _ended("refit", "c.pt2", "--weights", state, "-o", "e.pt2", "--no-verify", "-q") == 0


@pytest.mark.slow  # quick: weights that do not fit are refused; comparisons in tests/verification
def test_what_differs_from_the_model_is_not_kept(tmp_path: Path) -> None:
    compiled, x = _compiled(_model(1)), _x()
    before = compiled(x)
    batch = torch.export.Dim("batch", min=1, max=8)
    wrong = torch.export.export(nn.Sequential(_model(2), nn.Sigmoid()), (_x(),), dynamic_shapes=({0: batch},))
    with pytest.raises(trtdiag.VerificationError, match="something else than the model with these weights"):
        trtdiag.refit(compiled, _model(2), model=wrong, output=tmp_path / "not.pt2")
    assert torch.equal(compiled(x), before)
    assert not (tmp_path / "not.pt2").exists()


def test_a_refit_that_nothing_compares_says_so() -> None:
    compiled = trtdiag.compile(_model(1), inputs=[SIZES], refittable=True, **USUAL)
    with pytest.warns(UserWarning, match="were not compared") as told:
        trtdiag.refit(compiled, _model(2))
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trtdiag.refit(compiled, _model(3), verify=False)


# Quick: one argument of three that are read alike.
@pytest.mark.parametrize(
    "argument", ["weights", pytest.param("lora", marks=pytest.mark.slow), pytest.param("model", marks=pytest.mark.slow)]
)
@pytest.mark.slow  # quick: weights that do not fit are refused
def test_names_that_no_file_can_have(argument: str) -> None:
    compiled = trtdiag.compile(_model(1), inputs=[SIZES], refittable=True, **USUAL)
    given: dict[str, Any] = {"weights": _model(2), argument: "a" * 300 + ".pt2"}
    with pytest.raises(trtdiag.TrtdiagError):
        trtdiag.refit(compiled, **given)
