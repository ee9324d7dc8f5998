"""``trtdiag compile`` and ``trtdiag verify`` as a user meets them: exit codes, texts, files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tests.compiling.programs import mlp, registry_with_wrong_relu, saved, unbounded
from tests.frontend.archive_samples import changed, members
from trtdiag.cli.main import main
from trtdiag.convert import registry


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    (tmp_path / "model.pt2").write_bytes(saved(mlp))
    return tmp_path


def test_compile_then_verify_then_load(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compile", "model.pt2", "--backend", "reference") == 0
    told = capsys.readouterr().out
    assert "4 of 4 ops in 1 engine" in told
    assert "verified: agrees with the original at" in told
    assert "model_trt.pt2" in told
    assert sorted(path.name for path in model.iterdir()) == ["model.pt2", "model_trt.html", "model_trt.pt2"]

    assert run("verify", "model_trt.pt2") == 0
    assert "agrees" in capsys.readouterr().out

    with open("model_trt.pt2", "rb") as file:
        loaded = torch.export.load(file)
    x = torch.randn(9, 33, 5)
    torch.testing.assert_close(loaded.module()(x), mlp()[0](x), rtol=1e-5, atol=1e-6)


@pytest.mark.slow  # quick: compile, then verify, then load
def test_verify_says_when_the_original_is_another_than_was_compiled(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("compile", "model.pt2", "--backend", "reference", "--no-verify", "--no-html", "-q") == 0
    program = torch.export.load(model / "model.pt2")
    for weight in program.state_dict.values():
        weight.data.add_(1)
    torch.export.save(program, model / "model.pt2")
    assert run("verify", "model_trt.pt2") == 1
    told = capsys.readouterr().out
    assert told.startswith("DIFFERS from the original at ")
    assert "note: the original is not what was compiled: " in told


@pytest.mark.slow  # quick: tests/compiling/test_compile_elsewhere.py has it without the command
@pytest.mark.skipif(torch.xpu.is_available(), reason="the test needs a device type that this machine lacks")
def test_a_file_from_a_device_that_is_not_here(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = members(model / "model.pt2")
    there = {name: text.replace(b'"cpu"', b'"xpu"') for name, text in content.items() if name.endswith(".json")}
    changed(model / "model.pt2", model / "there.pt2", there)
    assert run("compile", "there.pt2", "--backend", "reference", "--no-html") == 0
    told = capsys.readouterr().out
    assert "note: it was exported on xpu, which this machine lacks: it is read as one for the CPU" in told
    assert "verified: agrees with the original at" in told


def test_errors_stop_with_1_and_write_the_report(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (model / "wide.pt2").write_bytes(saved(unbounded))
    assert run("compile", "wide.pt2", "--backend", "reference") == 1
    told = capsys.readouterr()
    assert "SYM" in told.out
    assert "severity ERROR" in told.err
    assert (model / "wide_trt.html").exists()
    assert not (model / "wide_trt.pt2").exists()
    assert run("compile", "wide.pt2", "--backend", "reference", "--force", "-q", "--no-html", "-o", "forced.ep") == 0
    assert (model / "forced.ep").exists()


def test_nothing_in_an_engine_is_no_success(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("compile", "model.pt2", "--backend", "reference", "--keep-in-torch", "aten", "--no-html")
    assert run(*asked) == 1
    ending = capsys.readouterr().out.splitlines()[-1]
    assert ending.startswith("0 engines: everything stays in PyTorch; model_trt.pt2 (")
    assert ending.endswith(" bytes) is the program as it was")
    assert run(*asked, "-q") == 1
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow  # quick: tests/compiling/test_compiled_again.py has it without the command
def test_engines_of_before_are_engines(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compile", "model.pt2", "--backend", "reference", "--no-html", "-q") == 0
    assert run("compile", "model_trt.pt2", "--backend", "reference", "--no-html", "-o", "again.pt2") == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("no engine beside the 1 that it had before (1 op, ")
    assert told[-1].endswith(", with the 1 engine that it had before, and no other")


def test_a_program_that_differs_is_not_saved(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = registry_with_wrong_relu()
    monkeypatch.setattr(registry, "converters", lambda: wrong)
    assert run("compile", "model.pt2", "--backend", "reference", "-o", "out.ep") == 1
    told = capsys.readouterr()
    assert "DIFFERS" in told.out
    assert "it begins with aten.relu.default (relu)" in told.out
    assert "verification-failed" in told.err
    assert not (model / "out.ep").exists()

    # It is saved, and nobody who looks at the exit code alone takes it for right.
    assert run("compile", "model.pt2", "--backend", "reference", "-o", "out.ep", "--force", "-q") == 1
    assert (model / "out.ep").exists()
    assert run("verify", "out.ep", "-q") == 1


class ImageTokens(torch.nn.Module):
    """As models of images and text do: as many image tokens in the prompt as there are features, or it does not run."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.project = torch.nn.Embedding(50, 8), torch.nn.Linear(12, 8)

    def forward(self, ids: torch.Tensor, pixels: torch.Tensor) -> torch.Tensor:
        features, image = self.project(pixels), ids == 49
        torch._check(image.sum().item() == features.shape[0])
        places = image.reshape(-1).long().cumsum(0) - 1
        return torch.where(image[..., None], features[places.clamp(min=0)].reshape(*ids.shape, 8), self.tokens(ids))


def _image_tokens(path: Path, ids: torch.Tensor) -> None:
    torch.manual_seed(0)
    good = torch.tensor([[3, 1, 49, 49, 49, 49, 7, 2, 5]])
    program = torch.export.export(ImageTokens().eval(), (good, torch.randn(4, 12)))
    program.example_inputs = ((ids, torch.randn(4, 12)), {})
    torch.export.save(program, path)


@pytest.mark.slow  # quick: compile, then verify, then load
def test_a_prompt_with_its_image_tokens_is_compared(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _image_tokens(model / "prompt.pt2", torch.tensor([[3, 1, 49, 49, 49, 49, 7, 2, 5]]))
    assert run("compile", "prompt.pt2", "--backend", "reference", "--no-html") == 0
    assert "verified: agrees with the original at 1 set of sizes" in capsys.readouterr().out


@pytest.mark.slow  # quick: a program that differs is not saved
def test_where_the_original_does_not_run_nothing_is_called_different(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _image_tokens(model / "prompt.pt2", torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5]]))
    asked = ("compile", "prompt.pt2", "--backend", "reference", "--no-html")
    assert run(*asked, "--json", "out.json") == 1
    told = capsys.readouterr()
    assert "not verified: no point could be compared (the original does not run there: " in " ".join(told.out.split())
    assert "the compiled program was not verified, and was not saved" in told.err
    assert "something else" not in told.out + told.err
    assert not (model / "prompt_trt.pt2").exists()
    body = json.loads(Path("out.json").read_text())
    assert body["compiled"]["verification"]["outcome"] == "unknown"
    assert body["compiled"]["verification"]["difference"] is None
    assert "not verified" in body["verdict"]["text"]

    assert run(*asked, "--force", "-q") == 0
    assert (model / "prompt_trt.pt2").exists()
    assert run("verify", "prompt_trt.pt2", "-q") == 1


@pytest.mark.slow  # quick: test_sizes_to_tune_for
def test_the_examples_of_a_file_are_what_is_tuned_for(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(torch.nn.Linear(5, 7), (torch.randn(3, 5),), dynamic_shapes=({0: batch},))
    program.example_inputs = ((torch.randn(11, 5),), {})
    torch.export.save(program, model / "other.pt2")
    assert run("compile", "other.pt2", "--backend", "reference", "--no-html") == 0
    told = capsys.readouterr().out
    assert "tuned for 11" in told
    assert "verified: agrees with the original at 5 sets of sizes" in told


def test_sizes_to_tune_for(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("compile", "model.pt2", "--backend", "reference", "--no-html", "--no-verify")
    assert run(*asked, "--opt", "x.shape[0]=8", "-o", "a.ep") == 0
    assert "tuned for 8" in capsys.readouterr().out
    assert run(*asked, "--opt", "x.shape[0]=many", "-o", "b.ep") == 2
    assert "wrong-size" in capsys.readouterr().err
    assert run(*asked, "--opt", "x.shape[0]=1000", "-o", "c.ep") == 2


def test_what_is_left_to_pytorch_is_told(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("compile", "model.pt2", "--backend", "reference", "--keep-in-torch", "aten.relu")
    assert run(*arguments, "--min-segment-ops", "1", "--no-html") == 0
    told = capsys.readouterr().out
    assert "3 of 4 ops in 2 engines" in told
    assert "aten.relu.default: keep_in_torch names aten.relu" in told


@pytest.mark.slow  # quick: test_compile_then_verify_then_load
def test_machine_reports_tell_of_compiling(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("compile", "model.pt2", "--backend", "reference", "--no-html")
    assert run(*arguments, "--json", "-", "--sarif", "out.sarif") == 0
    body = json.loads(capsys.readouterr().out)  # nothing else goes there
    assert body["compiled"]["verification"]["passed"]
    assert json.loads(Path("out.sarif").read_text())["runs"][0]["properties"]["verdict"] == body["verdict"]["text"]

    assert run("verify", "model_trt.pt2", "--json", "-") == 0
    again = json.loads(capsys.readouterr().out)["compiled"]
    assert again["verification"]["passed"]
    # Built from the same original: its networks are at hand again.
    assert again["engines"] == body["compiled"]["engines"]


@pytest.mark.slow  # quick: the terminal says it, and reports tell of compiling
def test_machine_reports_of_a_program_that_differs(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = registry_with_wrong_relu()
    monkeypatch.setattr(registry, "converters", lambda: wrong)
    arguments = ("compile", "model.pt2", "--backend", "reference", "--no-html", "--force")
    assert run(*arguments, "--json", "out.json") == 1
    assert "report: out.json" in capsys.readouterr().out
    monkeypatch.undo()
    monkeypatch.chdir(model)
    for path, code in (("out.json", 0), ("again.json", 1)):
        if code:
            assert run("verify", "model_trt.pt2", "--json", path) == code
        body = json.loads(Path(path).read_text())
        assert body["verdict"]["status"] == "error"
        assert not body["compiled"]["verification"]["passed"]
    # The right converters give other networks than those that were built: what is in the engines is not at hand.
    assert [engine["ops"] for engine in body["compiled"]["engines"]] == [None]


def test_errors_are_told_to_machines_too(model: Path) -> None:
    (model / "wide.pt2").write_bytes(saved(unbounded))
    arguments = ("compile", "wide.pt2", "--backend", "reference", "--no-html", "-q")
    assert run(*arguments, "--json", "wide.json", "--sarif", "wide.sarif") == 1
    body = json.loads(Path("wide.json").read_text())
    assert body["verdict"]["status"] == "error"
    assert body["compiled"] is None
    assert json.loads(Path("wide.sarif").read_text())["runs"][0]["results"]


@pytest.mark.slow  # quick: the file of a project in test_engine_options.py
def test_the_file_says_what_goes_into_engines(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = (
        "keep-in-torch = ['aten.relu']\nmin-segment-ops = 1\nprecision = 'fp16'\nkeep-fp32 = ['second', 'no.such']\n"
    )
    (model / "pyproject.toml").write_text("[tool.trtdiag]\n" + table)
    arguments = ("compile", "model.pt2", "--backend", "reference", "--target", "11.4", "--no-html", "--json", "-")
    assert run(*arguments) == 0
    body = json.loads(capsys.readouterr().out)
    assert len(body["compiled"]["engines"]) == 2
    assert body["partition"]["precision"]["asked"] == "fp16"
    assert any("no.such" in text for text in body["not_checked"])
    assert run(*arguments, "--precision", "keep", "--keep-in-torch", "no.such") == 0
    body = json.loads(capsys.readouterr().out)
    assert len(body["compiled"]["engines"]) == 1
    assert body["partition"]["precision"] is None


def test_a_missing_backend_says_what_is_missing(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compile", "model.pt2", "--backend", "tensorrt") == 2
    told = capsys.readouterr().err
    assert "backend-missing" in told
    assert "pip install tensorrt" in told
    assert "reference" in told


def test_a_missing_gpu_is_told_before_the_diagnosis(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # TensorRT as pip knows it and as Python imports it, on a machine whose torch has no CUDA.
    monkeypatch.setattr("trtdiag.engine.backend.installed_version", lambda: "8.6.1")
    monkeypatch.setitem(sys.modules, "tensorrt", SimpleNamespace(__version__="8.6.1"))
    monkeypatch.setattr(torch.version, "cuda", None)
    assert run("compile", "no_such_file.pt2", "--backend", "tensorrt", "--target", "8.6") == 2
    told = capsys.readouterr().err
    assert "torch-without-cuda" in told
    assert "CUDA build of PyTorch" in told


def test_verify_of_what_was_not_compiled(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", "model.pt2") == 2
    assert "no program that trtdiag compiled" in capsys.readouterr().err


def test_int64_of_the_oldest_target_is_said_to_enter_as_pairs(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dims = ({0: torch.export.Dim("rows", min=1, max=9)},)
    program = torch.export.export(torch.nn.Embedding(11, 3), (torch.arange(5),), dynamic_shapes=dims)
    torch.export.save(program, model / "model.pt2")
    for target, expected in (
        ("8.6", "int32[input.shape[0], 2], the pairs of an int64"),
        ("10.16", "int64[input.shape[0]]"),
    ):
        options = ("--target", target, "--backend", "reference", "--force", "--min-segment-ops", "1")
        assert run("compile", "model.pt2", *options, "--json", "model.json") == 0
        assert f"  in     input {expected}\n" in capsys.readouterr().out
        told = json.loads(Path("model.json").read_text("utf-8"))["compiled"]["engines"][0]["inputs"]
        assert [port["pairs_of_int64"] for port in told] == [target == "8.6"]
        assert f">{expected}<" in Path("model_trt.html").read_text("utf-8")
