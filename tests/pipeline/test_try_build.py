"""``analyze --try-build``: what a builder says of planned engines, and what becomes of its refusals and crashes."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Sequence
from typing import Any

import jsonschema
import pytest
import torch
from rich.console import Console

import trtdiag
import trtdiag.pipeline.try_build
from tests.engine import standin_builder
from tests.engine.tensorrt_backend.test_rtx import Small
from trtdiag.analysis.finding import Severity
from trtdiag.engine.backend import BuiltBy, Profile
from trtdiag.engine.build_watch import Watch
from trtdiag.errors import EngineBuildError, UserError
from trtdiag.network import Network
from trtdiag.options import CompileOptions
from trtdiag.report.json_report import SCHEMA_PATH, report_json
from trtdiag.report.terminal import summary
from trtdiag.targets import Target, chosen_gpus, get_rtx_target


class Builder:
    """Stands in for TensorRT-RTX: refuses products on ``refuses``, ends its process on ``ends``, and warns.

    Without ``kernel`` a refusal names the op that has none, with ``stretch`` the first and the last layer of all.
    """

    name, device = "tensorrt-rtx", "cuda"

    def __init__(
        self,
        refuses: Sequence[str] = (),
        ends: Sequence[str] = (),
        kernel: bool = True,
        stretch: bool = False,
        ends_over: str = "",
    ) -> None:
        self.refuses, self.ends, self.kernel, self.stretch = refuses, ends, kernel, stretch
        self.ends_over = ends_over

    def require(self, target: Target) -> None:
        """Take any."""

    def target(self, asked: str | None) -> Target:
        """The newest."""
        return get_rtx_target(asked or "rtx-1.7")

    def chosen_gpus(self, target: Target, asked: Sequence[str]) -> tuple[str, ...]:
        """Those asked, else two."""
        return chosen_gpus(target, asked or ("sm86", "sm89"))

    def built_by(self) -> BuiltBy:
        """A release."""
        return BuiltBy("1.7.1.0")

    def build(self, network: Network, profile: Profile, options: CompileOptions, target: Target, watch: Watch) -> bytes:
        """A hundred bytes a generation."""
        over = not self.ends_over or any(placed.layer.kind == self.ends_over for placed in network.layers)
        if set(options.gpu) & set(self.ends) and over:
            os.kill(os.getpid(), signal.SIGKILL)
        products = [placed for placed in network.layers if placed.layer.kind == "MatrixMultiply"]
        if set(options.gpu) & set(self.refuses) and products and not _shown(network, products[0].origin.node):
            error = EngineBuildError(
                f"TensorRT does not build the engine: {network.describe(products[0])}",
                because="no kernels",
                fix="leave it to PyTorch",
                reference="engine-refused",
            )
            if self.stretch:
                error.without_kernel = (network.layers[0].origin.node, network.layers[-1].origin.node)
            elif not self.kernel:
                error.without_kernel = (products[0].origin.node,)
            raise error
        watch.warned("the profile is odd")
        return bytes(100 * len(options.gpu))


def _shown(network: Network, node: str) -> bool:
    """Whether what enters an op is an output, which ends a fusion over it."""
    op = [placed for placed in network.layers if placed.origin.node == node]
    entering = {n for placed in op for n in placed.inputs} - {n for placed in op for n in placed.outputs}
    return bool(entering & {port.tensor for port in network.outputs})


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    torch.manual_seed(0)
    return torch.export.export(Small().eval(), (torch.randn(2, 3, 13, 8),), dynamic_shapes={"x": {0: BATCH}})


BATCH = torch.export.Dim("batch", min=1, max=7)


def _tried(program: Any, monkeypatch: pytest.MonkeyPatch, builder: Builder, **options: Any) -> Any:
    monkeypatch.setattr(trtdiag.pipeline.try_build, "get_backend", lambda _name: builder)
    return trtdiag.analyze(program, target="rtx-1.7", try_build=True, **options)


def _printed(report: Any) -> str:
    console = Console(width=80)
    with console.capture() as printed:
        console.print(summary(report.analysis))
    return " ".join(printed.get().split())


def test_what_is_built_is_told_with_size_and_warnings(program, monkeypatch):
    report = _tried(program, monkeypatch, Builder())
    (engine,) = report.analysis.tried.engines
    assert (engine.gpus, engine.engine_bytes, engine.warnings) == (("sm86", "sm89"), 200, ("the profile is odd",))
    assert engine.refusal is None
    assert not [finding for finding in report.findings if finding.rule == "BLD701"]
    assert not any("none was built" in told for told in report.analysis.not_checked)
    assert "TensorRT-RTX 1.7.1.0 built 1 of 1 engine for all of sm86, sm89: 200 B" in _printed(report)
    assert "it warns of 1 thing (in the report); none was run" in _printed(report)
    body = json.loads(json.dumps(report_json(report.analysis)))
    jsonschema.validate(body, json.loads(SCHEMA_PATH.read_text(encoding="utf-8")))
    assert body["tried_builds"]["engines"][0]["bytes"] == 200
    assert body["timings"]["tried_builds_s"] == [engine.seconds]
    assert "warns: the profile is odd" in report.to_html()


def test_a_refusal_names_generation_op_and_line(program, monkeypatch):
    report = _tried(program, monkeypatch, Builder(refuses=("sm86",)))
    (engine,) = report.analysis.tried.engines
    assert (engine.gpus, engine.refusal.gpus, engine.refusal.node) == (("sm89",), ("sm86",), "linear")
    (finding,) = [finding for finding in report.findings if finding.rule == "BLD701"]
    assert finding.severity is Severity.ERROR
    assert "refuses engine 0 for sm86" in finding.message
    assert finding.places[0].frame.file.endswith("test_rtx.py")
    assert "built 0 of 1 engine" in _printed(report)


def test_where_another_way_is_found_it_is_a_warning_that_says_which(program, monkeypatch):
    report = _tried(program, monkeypatch, Builder(refuses=("sm86", "sm89"), kernel=False))
    tried = report.analysis.tried
    assert tried.remedied
    assert len(tried.remedies) == 1
    (finding,) = [finding for finding in report.findings if finding.rule == "BLD701"]
    assert finding.severity is Severity.WARNING
    assert any("was built with" in each.fact for each in finding.evidence)
    assert "it was built with" in _printed(report)


@pytest.mark.slow  # quick: the op over which the builder dies is found
def test_a_builder_that_ends_its_process_is_a_message(program, monkeypatch):
    report = _tried(program, monkeypatch, Builder(ends=("sm89",)))
    (engine,) = report.analysis.tried.engines
    assert (engine.gpus, engine.refusal.gpus) == (("sm86",), ("sm89",))
    assert "signal 9" in engine.refusal.because
    assert "the builder did not end in order: its process was ended by signal 9" in _printed(report)


def test_the_op_over_which_the_builder_dies_is_found_and_left_to_pytorch(program, monkeypatch):
    report = _tried(program, monkeypatch, Builder(ends=("sm86", "sm89"), ends_over="MatrixMultiply"))
    tried = report.analysis.tried
    assert tried.remedied
    (remedy,) = tried.remedies
    assert remedy.startswith(
        "engine 0 was refused, since the builder's process ended from aten.linear.default (linear) at "
    )
    assert remedy.endswith("1 op like it is left to PyTorch")
    (finding,) = [finding for finding in report.findings if finding.rule == "BLD701"]
    assert finding.severity is Severity.WARNING


@pytest.mark.slow  # quick: a builder that ends its process is a message
def test_a_builder_that_dies_of_everything_dies_of_no_op(program, monkeypatch):
    report = _tried(program, monkeypatch, Builder(ends=("sm86", "sm89")))
    assert not report.analysis.tried.remedied
    assert report.analysis.tried.remedies == ()


class Clock:
    """A clock in the place of ``time``: each build that begins takes 100 seconds."""

    perf_counter = staticmethod(time.perf_counter)

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """Seconds so far."""
        return self.now

    def begins(self, step: str) -> None:
        """As ``progress``."""
        self.now += 100.0 * (" layer" in step)


@pytest.mark.slow  # quick: where it is over between generations the rest is told as not tried
def test_where_the_time_is_over_before_a_build_it_is_told_as_not_tried(program, monkeypatch):
    report = _tried(program, monkeypatch, Builder(), build_limit_s=0)
    tried = report.analysis.tried
    (engine,) = tried.engines
    assert (engine.gpus, engine.untried, engine.refusal) == ((), ("sm86", "sm89"), None)
    assert not tried.remedied
    assert "built 0 of 1 engine" in _printed(report)
    assert "1 not to the end, since 0 s (--build-limit) were over" in _printed(report)
    body = json.loads(json.dumps(report_json(report.analysis)))
    jsonschema.validate(body, json.loads(SCHEMA_PATH.read_text(encoding="utf-8")))
    assert body["tried_builds"]["engines"][0]["untried"] == ["sm86", "sm89"]
    assert "not tried to the end for sm86, sm89" in report.to_html()
    assert "engine 0: not built to the end for sm86, sm89 (--build-limit)" in report.analysis.not_checked


def test_where_the_time_is_over_between_generations_the_rest_is_told_as_not_tried(program, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(trtdiag.pipeline.try_build, "time", clock)
    builder = Builder(refuses=("sm86",))
    report = _tried(program, monkeypatch, builder, build_limit_s=150, progress=clock.begins)
    (engine,) = report.analysis.tried.engines  # for both at once, then for sm86, and no time is left
    assert (engine.gpus, engine.refusal.gpus, engine.untried) == ((), ("sm86",), ("sm89",))


def test_a_search_ends_with_the_time_and_says_what_was_not_searched(program, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(trtdiag.pipeline.try_build, "time", clock)
    builder = Builder(refuses=("sm86", "sm89"), stretch=True)
    report = _tried(program, monkeypatch, builder, build_limit_s=450, progress=clock.begins)
    tried = report.analysis.tried
    layers = tried.engines[0].layers
    assert not tried.remedied
    assert "450 s (--build-limit) were over before the op at fault was found: engine 0" in tried.unsearched
    first, last = map(int, re.search(r"its layers (\d+) to (\d+) of", tried.unsearched).groups())
    assert (first, last) != (1, layers)
    assert first <= last <= layers
    (finding,) = [finding for finding in report.findings if finding.rule == "BLD701"]
    assert finding.severity is Severity.ERROR
    assert tried.unsearched in [each.fact for each in finding.evidence]
    assert "before the op at fault was found" in _printed(report)
    assert any(tried.unsearched in told for told in report.analysis.not_checked)


@pytest.mark.slow  # quick: the op over which the builder dies is found
def test_the_same_search_with_time_finds_the_op(program, monkeypatch):
    report = _tried(program, monkeypatch, Builder(refuses=("sm86", "sm89"), stretch=True))
    assert report.analysis.tried.remedied
    assert not report.analysis.tried.unsearched


def test_where_nothing_goes_into_engines_nothing_is_built(monkeypatch):
    alone = torch.export.export(Nonzero(), (torch.randn(4),))
    report = _tried(alone, monkeypatch, Builder())
    assert report.analysis.tried.engines == ()
    assert "was given nothing to build" in _printed(report)


class Nonzero(torch.nn.Module):
    """Nothing that has a converter for TensorRT-RTX."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As many rows as the data says."""
        return x.nonzero()


@pytest.mark.parametrize("target", ["8.6", "9.9"])
def test_a_target_with_another_builder_is_refused(program, target):
    with pytest.raises((UserError, trtdiag.errors.PlatformError)):
        trtdiag.analyze(program, target=target, try_build=True)


@pytest.mark.parametrize("ends", [signal.SIGSEGV, 0], ids=["crashes", "hangs"])
def test_where_cuda_is_in_use_a_process_is_started_and_not_forked(program, monkeypatch, ends):
    started = standin_builder.register(monkeypatch, {"Activation": ends})
    monkeypatch.setattr(standin_builder.Standin, "chosen_gpus", lambda *_: ("sm89",))
    monkeypatch.setattr(trtdiag.pipeline.try_build, "BACKEND", "standin")
    monkeypatch.setattr(trtdiag.pipeline.try_build, "no_child", lambda: "CUDA is in use in this process")
    tried = trtdiag.analyze(program, target="11.4", try_build=True, build_limit_s=60 if ends else 0.5).analysis.tried
    assert started
    assert all(each.returncode is not None for each in started)
    if ends:
        assert "SIGSEGV" in tried.engines[0].refusal.because
        assert "1 op like it is left to PyTorch" in tried.remedies[0]
    else:
        assert (tried.engines[0].untried, tried.remedied) == (("sm89",), False)
