"""Compiling to INT8 by calibration, from the data to a verified program, in Python and on the command line."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import jsonschema
import pytest
import torch
from torch import nn
from torch.export import Dim, export

import trtdiag
from tests.calibration.programs import exported_net, images
from trtdiag.cli.main import main
from trtdiag.errors import PlatformError, UserError
from trtdiag.graph.quantizers import decomposed_ops
from trtdiag.network.layers.convolution import Convolution
from trtdiag.network.layers.quantize import Dequantize, Quantize
from trtdiag.option_warnings import OptionWarning
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.pipeline.state import State
from trtdiag.report.json_report import SCHEMA_PATH
from trtdiag.report.saved import read_report

INT8 = {"backend": "reference", "precision": "int8"}


@pytest.fixture(scope="module")
def state() -> State:
    return compile_in_stages(exported_net(), CompileOptions(**INT8), calibrate=images())


def test_one_engine_that_agrees_with_the_quantized_program(state: State) -> None:
    assert len(state.engines) == 1
    assert state.verified.passed
    assert not [result for result in state.verified.results if result.skipped]
    # Outputs are up to 0.7: it is off by some steps that rounding in float16 moved.
    assert max(output.max_abs for result in state.verified.results for output in result.outputs) < 0.02
    original = exported_net().module()
    for x in images():
        torch.testing.assert_close(state.compiled(x), original(x), rtol=0.05, atol=0.05)


def test_quantizers_stand_beside_what_they_are_for(state: State) -> None:
    """Nothing is between a dequantizer and its convolution, not even a cast: TensorRT fuses them only so."""
    network = state.converted[0].network
    made_by = {output: placed.layer for placed in network.layers for output in placed.outputs}
    convolutions = [placed for placed in network.layers if isinstance(placed.layer, Convolution)]
    assert len(convolutions) == 6
    for placed in convolutions:
        taken, weight = (made_by[each] for each in placed.inputs[:2])
        assert isinstance(taken, Dequantize)
        assert isinstance(weight, Dequantize)
    quantizes = [placed.layer for placed in network.layers if isinstance(placed.layer, Quantize)]
    # Of the input, in each block, and before the head.  What enters a block is quantized once for all its readers, of
    # the first the sum, too; that of the second adds what its branch gives.
    assert len(quantizes) == 1 + 2 + 3 + 1


@pytest.mark.slow  # quick: quantized programs are saved in test_quantized_models.py
def test_saved_and_compared_again(state: State, tmp_path: Path) -> None:
    torch.export.save(exported_net(), tmp_path / "net.pt2")
    trtdiag.save(state.compiled, tmp_path / "net_trt.pt2")
    loaded = trtdiag.load(tmp_path / "net_trt.pt2")
    assert loaded.quantizers == state.compiled.quantizers is not None
    x = images()[1]
    assert torch.equal(loaded(x), state.compiled(x))
    found = trtdiag.verify(tmp_path / "net_trt.pt2", tmp_path / "net.pt2")
    assert found.passed
    assert any("as it was quantized" in note for note in found.notes)
    rebuilt = trtdiag.rebuild(loaded, backend="reference")
    assert rebuilt.quantizers == loaded.quantizers
    assert torch.equal(rebuilt(x), loaded(x))


def test_the_report(state: State, tmp_path: Path) -> None:
    report = state.report
    body = json.loads(report.to_json())
    jsonschema.Draft202012Validator(json.loads(SCHEMA_PATH.read_text())).validate(body)
    told = body["compiled"]["quantization"]
    assert (told["batches"], told["measured"], told["kept"], len(told["ops"])) == (3, 3, 0, 9)
    without = [each["error_without"] for each in told["ops"]]
    assert without == sorted(without)
    assert without[0] < told["error"]
    assert min(each["snr_db"] for each in told["ops"]) > 30
    page = report.to_html()
    assert "Quantized to INT8" in page
    assert "9 ops quantized to INT8; scales are of 3 batches." in page
    assert "second.branch" in page
    # Another version draws the page again from the JSON, and draws those that lack this part.
    report.save(tmp_path / "report.json")
    assert "Quantized to INT8" in read_report(tmp_path / "report.json").rendering.text("html")
    del body["compiled"]["quantization"]
    del body["page"]["view"]["compiled"]["quantization"]
    (tmp_path / "earlier.json").write_text(json.dumps(body))
    assert "Quantized to INT8" not in read_report(tmp_path / "earlier.json").rendering.text("html")


@pytest.mark.slow  # quick: what the user keeps, in tests/calibration/test_placement.py
def test_what_is_kept_in_floats() -> None:
    with pytest.warns(OptionWarning) as told:
        found = trtdiag.compile(
            exported_net(), **INT8, verify=False, calibrate=images(1), keep_float=["first", "hea"], keep_fp32="head"
        )
    assert [(each.message.option, each.message.value) for each in told] == [("keep_float", "hea")]
    assert found.quantizers is not None
    assert {op.module for op in found.quantizers.ops} == {"stem", "second.c1", "second.c2", "second.branch", "second"}


REFUSED = [
    ({**INT8}, None, "int8-without-data"),
    ({**INT8}, [], "calibration-data"),
    ({**INT8}, [torch.ones(1, 3, 40, 13)], "input-size"),
    ({**INT8}, [torch.full((1, 3, 9, 13), torch.nan)], "calibration-data"),
    ({**INT8, "refittable": True}, images(1), "int8-not-refittable"),
    ({**INT8, "engine_weights": "once"}, images(1), "int8-not-refittable"),
    ({**INT8, "keep_float": "aten"}, images(1), "nothing-to-quantize"),
]


def test_what_is_refused() -> None:
    program = exported_net()
    for options, data, reference in REFUSED:
        with pytest.raises(UserError) as caught:
            trtdiag.compile(program, **options, calibrate=data)
        assert caught.value.reference == reference, str(caught.value)


class Fake(nn.Module):
    """Quantized by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ops, how = decomposed_ops(), (0.25, 0, -128, 127, torch.int8)
        return self.linear(ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *how), *how))


def test_a_program_that_is_quantized_already() -> None:
    program = export(Fake(), (torch.randn(2, 4),), dynamic_shapes=({0: Dim("n", max=5)},))
    with pytest.raises(UserError, match="quantized already") as caught:
        trtdiag.compile(program, **INT8, calibrate=[torch.randn(2, 4)])
    assert caught.value.reference == "already-quantized"
    found = compile_in_stages(program, CompileOptions(**INT8))
    assert found.verified.passed
    assert found.compiled.quantizers is None
    facts = found.report.analysis.compilation
    assert facts is not None
    assert facts.quantization is None


@pytest.mark.slow  # quick: what is refused, and options without effect in tests/pipeline
def test_data_without_int8_changes_nothing() -> None:
    with pytest.warns(OptionWarning, match="precision is fp16") as told:
        found = trtdiag.compile(exported_net(), backend="reference", precision="fp16", calibrate=images(1))
    assert [each.message.option for each in told] == ["calibrate"]
    assert found.quantizers is None


def test_without_torchao(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchao.quantization.pt2e.quantize_pt2e", None)
    with pytest.raises(PlatformError, match="needs torchao") as caught:
        trtdiag.compile(exported_net(), **INT8, calibrate=images(1))
    assert "trtdiag[quantization]" in caught.value.fix
    assert caught.value.reference == "torchao-missing"
    assert importlib.import_module("torchao")


@pytest.mark.slow  # quick: what is refused, above, and one engine; options on the command line in tests/cli
def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    torch.export.save(exported_net(), "net.pt2")
    torch.save(images(), "data.pt")

    def run(*more: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(["compile", "net.pt2", "--backend", "reference", "--precision", "int8", "--no-html", *more])
        told = capsys.readouterr()
        return int(ended.value.code or 0), told.out + told.err

    code, told = run("--calibrate", "data.pt", "--keep-float", "head")
    assert code == 0, told
    assert "8 ops quantized to INT8, 1 more kept in floats; scales are of 3 batches." in told
    assert "verified: agrees with the original" in told
    assert "(second.branch)" in told
    assert max(map(len, told.splitlines())) <= 110  # the last line names files, and is not broken
    code, told = run()
    assert code == 2
    assert "[int8-without-data]" in told
    code, told = run("--calibrate", "data.pt", "--json", "data.pt")
    assert code == 2
    assert "same-file" in told
    torch.save(images()[0], "data.pt")
    code, told = run("--calibrate", "data.pt")
    assert (code, "data.pt holds no list of batches" in told) == (2, True)


class Encoder(nn.Module):
    """A block of a transformer, with attention whole."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 32)
        self.block = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)
        self.head = nn.Linear(32, 50)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.block(self.table(tokens)))


def encoded(backend: str, target: str | None = None) -> State:
    torch.manual_seed(0)
    dims = {0: Dim("b", max=4), 1: Dim("t", min=2, max=20)}
    program = export(Encoder().eval(), (torch.randint(0, 50, (2, 9)),), dynamic_shapes=(dims,))
    batches = [(torch.randint(0, 50, (3, length)),) for length in (2, 20, 11)]
    return compile_in_stages(program, CompileOptions(target, backend, "int8"), calibrate=batches)


@pytest.mark.slow  # quick: one engine that agrees with the quantized program
def test_a_transformer() -> None:
    """Also for 8.6, which has quantized weights as floats behind quantizers."""
    found = encoded("reference", "8.6")
    assert len(found.engines) == 1
    assert found.verified.passed
    facts = found.report.analysis.compilation
    assert facts is not None
    assert facts.quantization is not None
    assert {loss.op for loss in facts.quantization.ops} == {"aten.linear.default"}
    assert len(facts.quantization.ops) == 5
    kinds = [type(placed.layer) for placed in found.converted[0].network.layers]
    # Of each linear layer the weight and what it reads.
    assert kinds.count(Dequantize) == kinds.count(Quantize) == 10


@pytest.mark.slow
@pytest.mark.parametrize("make", ["convolutions", "transformer"])
def test_by_the_real_builder(make: str) -> None:
    pytest.importorskip("tensorrt_rtx", reason="no GPU is needed, but its builder is")
    options = CompileOptions(**{**INT8, "backend": "tensorrt-rtx"})
    convolutions = make == "convolutions"
    found = compile_in_stages(exported_net(), options, calibrate=images()) if convolutions else encoded("tensorrt-rtx")
    assert len(found.engines) == 1
    assert found.notes == ()
    assert found.verified.passed
