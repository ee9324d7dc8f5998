"""Options that change nothing: each is named, with what was meant, and what has an effect is not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import trtdiag
from tests.harness.rows import each, thinned
from trtdiag.cli.main import main
from trtdiag.option_warnings import OptionWarning, without_effect
from trtdiag.options import AnalyzeOptions, CompileOptions, PartitionOptions, Precision


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.attn(x), -1)


class Spread(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.std(x, -1)


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])
        self.spread = Spread()

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.spread(x)


REFUSED = """Constraints violated (h)! For more information, run with TORCH_LOGS="+dynamic".
  - Not all values of h = L['x'].size()[2] in the specified range satisfy the generated guard L['x'].size()[2] % 8 == 0
"""


def build() -> tuple[Any, ...]:
    torch.manual_seed(0)
    return Stack().eval(), (torch.randn(3, 4, 5),), {}, {"x": {0: Dim("n", min=1, max=9)}}


def _told(call: Callable[[], object]) -> list[OptionWarning]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert all(each.filename == __file__ for each in caught if isinstance(each.message, OptionWarning))
    return [each.message for each in caught if isinstance(each.message, OptionWarning)]


# Every option that only TensorRT has, with a value that is not its default.
OF_TENSORRT = {
    "workspace_mib": 64,
    "optimization_level": 5,
    "tactic_sources": ("CUBLAS", "CUDNN"),
    "timing_cache": "cache.bin",
    "tf32": True,
    "hardware_compatibility": "ampere+",
    "version_compatible": True,
    "cuda_graphs": 3,
    "build_in_process": True,
    "engine_per_gpu": True,
    "runtime_cache": "kernels.bin",
    "rtx_cuda_graphs": True,
    "kernel_specialization": "eager",
}
OF_RTX = {"engine_per_gpu", "runtime_cache", "rtx_cuda_graphs", "kernel_specialization"}
# The others, with a value that has an effect under every backend.
OF_ALL = {
    "target": "8.6",
    "backend": "reference",
    "precision": "fp16",
    "truncate_double": True,
    "assume": {"item": 3},
    "max_sizes": {"n": 3},
    "opt": {"n": 3},
    "profiles": {"a": {"n": 3}},
    "portable": True,
    "force": True,
    "verify": False,
    "verify_limit_s": 60.0,
    "engine_cache": "cache",
    "build_jobs": 3,
    "profile_layers": True,
    "refittable": True,
    "engine_weights": "once",
    "optimize": "latency",
    "gpu": "sm89",
}
TIED = {"keep_fp32", "keep_float", "engine_cache_mib", "partition"}
"""What has an effect with another option only; the tests below say which."""


def test_a_limit_for_builds_that_nobody_asked_for() -> None:
    (found,) = without_effect(AnalyzeOptions(build_limit_s=60))
    assert (found.option, found.why) == ("build_limit_s", "try_build is not asked for")
    assert not list(without_effect(AnalyzeOptions(build_limit_s=60, try_build=True)))


def test_every_option_is_decided_upon() -> None:
    assert {*OF_TENSORRT, *OF_ALL, *TIED} == {each.name for each in fields(CompileOptions)}


@each("name", [*OF_TENSORRT, *OF_ALL])
def test_what_a_backend_does_not_have(name: str) -> None:
    value = {**OF_TENSORRT, **OF_ALL}[name]
    options = CompileOptions(**{name: value})
    found = [each.option for each in without_effect(options, "reference")]
    assert found == ([name] if name in OF_TENSORRT else [])
    assert not list(without_effect(options, "tensorrt-rtx"))
    only_rtx = name in OF_RTX
    assert bool(list(without_effect(options, "tensorrt"))) == only_rtx
    usual = getattr(CompileOptions(), name)
    assert not list(without_effect(CompileOptions(**{name: usual}), "reference"))


def test_no_graphs_are_what_every_backend_has() -> None:
    assert not list(without_effect(CompileOptions(cuda_graphs=0, optimize="latency"), "reference"))


def test_runs_are_recorded_once() -> None:
    found = list(without_effect(CompileOptions(cuda_graphs=3, rtx_cuda_graphs=True), "tensorrt-rtx"))
    assert [(each.option, each.why) for each in found] == [
        ("rtx_cuda_graphs", "cuda_graphs has these runs recorded already")
    ]


def test_options_that_others_leave_without_effect() -> None:
    kept = [
        (CompileOptions(keep_fp32="a"), ["keep_fp32"]),
        (CompileOptions(keep_fp32="a", precision=Precision.BF16), []),
        (AnalyzeOptions(keep_fp32=("a", "b")), ["keep_fp32", "keep_fp32"]),
        (CompileOptions(keep_float=("a", "b"), precision=Precision.FP16), ["keep_float", "keep_float"]),
        (CompileOptions(keep_float="a", keep_fp32="b", precision=Precision.INT8), []),  # type: ignore[arg-type]
        (CompileOptions(engine_cache_mib=1), ["engine_cache_mib"]),
        (CompileOptions(engine_cache_mib=1, engine_cache="a"), []),
        (CompileOptions(engine_cache_mib=10_240), []),
        (CompileOptions(partition=PartitionOptions(0, (), True)), ["min_segment_ops"]),
        (AnalyzeOptions(partition=PartitionOptions(5, (), True)), []),
        (AnalyzeOptions(partition=PartitionOptions(0, (), False)), []),
    ]
    assert [[each.option for each in without_effect(options, "tensorrt")] for options, _ in kept] == [
        expected for _, expected in kept
    ]


# Quick: the ends and each fourth; the words are those of test_partition_options.py.
@thinned(
    ("entry", "words"),
    [
        ("nosuch", "it names no op and no module of this program"),
        ("layer.1", "did you mean layers.1 or layers"),
        ("attn", "did you mean layers.0.attn or layers.1.attn?"),
        ("Layers.0", "did you mean layers.0 or layers"),
        ("softmax", "did you mean aten.softmax"),
        ("aten.sofmax", "did you mean aten.softmax"),
        ("aten::linaer", "did you mean aten.linear"),
        ("layers.0.atn", "did you mean layers.0.attn or "),
        ("x" * 5000, "it names no op and no module of this program"),
    ],
    every=4,
)
def test_an_entry_that_names_nothing(entry: str, words: str) -> None:
    found = _told(lambda: trtdiag.analyze(build(), keep_in_torch=[entry, "layers.0"]))
    assert [(each.option, each.value) for each in found] == [("keep_in_torch", entry)]
    assert words in found[0].why


def test_an_op_that_lowering_takes_apart() -> None:
    """The program has it, so that it would be wrong to say that it names nothing."""
    (found,) = _told(lambda: trtdiag.analyze(build(), keep_in_torch="aten.std"))
    assert found.why == "other ops take its place before engines are planned; name its module spread"
    assert not _told(lambda: trtdiag.analyze(build(), keep_in_torch="spread"))


@pytest.mark.slow  # quick: arguments that a source leaves without effect
def test_compile_warns_once_of_each_and_verify_of_none(tmp_path: Path) -> None:
    saved = tmp_path / "compiled.ep"

    def compiled() -> None:
        made = trtdiag.compile(
            build(), backend="reference", precision="fp16", keep_fp32=["nosuch"], keep_in_torch="layer", tf32=True
        )
        trtdiag.save(made, saved)

    assert sorted(each.option for each in _told(compiled)) == ["keep_fp32", "keep_in_torch", "tf32"]
    assert not _told(lambda: trtdiag.verify(saved, build()))
    assert not _told(lambda: trtdiag.compile(build(), backend="reference", precision="fp16", keep_fp32="layers.0"))


def test_arguments_that_a_source_leaves_without_effect() -> None:
    found = _told(lambda: trtdiag.fix_dims(build(), (torch.ones(1),), dynamic_shapes={}))
    assert [each.option for each in found] == ["args", "dynamic_shapes"]
    found = _told(lambda: trtdiag.fix_dims(REFUSED, programs=3, rounds=8, time_limit_s=5))
    assert [each.option for each in found] == ["time_limit_s", "programs"]


def _typed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as left:
        main([*arguments])
    told = capsys.readouterr()
    assert left.value.code in (0, 1), told.err
    return told.err


def test_the_terminal_names_the_option_as_it_was_typed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    source = f"{__name__}:build"
    shared = ("compile", source, "--backend", "reference", "--no-verify", "--force")
    told = _typed(capsys, *shared, "--keep-in-torch", "nosuch", "--tf32", "--tactic-sources", "CUBLAS,CUDNN")
    assert [line.partition(":  ")[0].partition(" has no effect")[0] for line in told.splitlines()] == [
        "warning: --tactic-sources CUBLAS,CUDNN",
        "warning: --tf32",
        "warning: --keep-in-torch nosuch",
    ]
    assert not _typed(capsys, *shared, "-q", "--keep-in-torch", "nosuch")
    assert not _typed(capsys, *shared, "--keep-in-torch", "layers.1", "--cuda-graphs", "0")


def test_the_terminal_names_the_file_that_an_option_stands_in(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.trtdiag]\nkeep-in-torch = ["atn"]\nworkspace-mib = 4\n')
    told = _typed(capsys, "analyze", f"{__name__}:build")
    # What compile alone reads stands in the file for compile.
    assert told.splitlines() == [
        "warning: keep-in-torch atn of [tool.trtdiag] in pyproject.toml has no effect: it names no op and no module of"
        " this program; did you mean layers.0.attn?"
    ]
    (tmp_path / "error.log").write_text(REFUSED)
    assert "--time-limit 5.0 has no effect" in _typed(capsys, "fix-dims", "error.log", "--time-limit", "5")
