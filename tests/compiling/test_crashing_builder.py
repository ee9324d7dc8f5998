"""A builder that crashes: the program is compiled all the same, the user's process lives, and nothing stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch
from torch.export import Dim, export

import trtdiag
from tests.engine.standin_builder import register
from trtdiag.errors import EngineBuildError
from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.report.json_report import report_json
from trtdiag.targets import installed_rtx_version

ROOT = Path(__file__).parents[2]
BUILDS = pytest.mark.skipif(installed_rtx_version() is None, reason="tensorrt-rtx is not installed")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="builds are in this process there")


class Net(torch.nn.Module):
    """Products with a sine between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(5, 7), torch.nn.Linear(7, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Three numbers a row."""
        return self.last(self.first(x).relu().sin() * 2).tanh()


def _program() -> torch.export.ExportedProgram:
    torch.manual_seed(0)
    return export(Net().eval(), (torch.randn(3, 5),), dynamic_shapes={"x": {0: Dim("n", min=1, max=7)}})


def test_the_op_at_fault_is_left_to_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    started = register(monkeypatch, {"Unary": signal.SIGSEGV})
    program = _program()
    asked = CompileOptions("8.6", "standin", partition=PartitionOptions(min_segment_ops=0))
    found = compile_in_stages(program, asked)
    assert found.verification is not None
    assert found.verification.passed
    for rows in (1, 2, 7):
        x = torch.randn(rows, 5)
        # Sums of seven terms in another order.
        torch.testing.assert_close(found.compiled(x), program.module()(x), rtol=1e-5, atol=1e-6)
    assert len(found.engines) == 2
    (note,) = [each for each in found.report.analysis.program.notes if "refused" in each]
    assert note.startswith("engine 0 was refused, since the builder's process ended from aten.sin.default (sin) at ")
    assert 'its process was ended by SIGSEGV (it said "a library says something of Unary")' in note
    assert note.endswith("is left to PyTorch")
    (limit,) = found.plan.support.limits.values()
    assert limit.code == "builder-crash"
    assert "builder crashes over an engine that has it" in str(report_json(found.report.analysis))
    assert len(started) > 3
    assert all(each.returncode is not None for each in started)


def test_what_helps_no_further_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, {"Unary": signal.SIGABRT})
    with pytest.raises(EngineBuildError) as caught:
        trtdiag.compile(_program(), target="8.6", backend="standin", require_full=True)
    assert caught.value.reference == "builder-ended"
    assert "SIGABRT" in caught.value.because


SCRIPT = """
import os, sys, torch, trtdiag
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(5, 7)
    def forward(self, x):
        return self.first(x).relu().sin().topk(3)[0] * 2
program = torch.export.export(Net().eval(), (torch.randn(3, 5),))
made = trtdiag.compile(program, backend="tensorrt-rtx", gpu="sm89", min_segment_ops=0)
print(*(note for note in made.report.analysis.program.notes if "refused" in note))
print(len(made.manifests))
"""
CRASHES = """
import importlib.machinery, importlib.util, os, sys
paths = [each for each in sys.path if each != os.path.dirname(__file__)]
spec = importlib.machinery.PathFinder.find_spec("tensorrt_rtx", paths)
trt = importlib.util.module_from_spec(spec)
sys.modules["tensorrt_rtx"] = trt
spec.loader.exec_module(trt)
class Builder(trt.Builder):
    def build_serialized_network(self, network, config):
        print("a line of a library", flush=True)
        os.write(1, b"another")
        kinds = [network.get_layer(index).type for index in range(network.num_layers)]
        if trt.LayerType.TOPK in kinds:
            ENDS
        return super().build_serialized_network(network, config)
trt.Builder = Builder
"""


def _run(folder: Path, script: str, ends: str, **settings: str) -> subprocess.Popen[str]:
    """A script without a guard around its main part, where TensorRT-RTX ends its process over each TopK layer."""
    (folder / "script.py").write_text(script)
    (folder / "tensorrt_rtx.py").write_text(textwrap.dedent(CRASHES).replace("ENDS", ends))
    return subprocess.Popen(
        [sys.executable, "script.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@BUILDS
@pytest.mark.slow  # quick: the op at fault is left to PyTorch, with forks in the place of such processes
def test_a_script_without_a_guard_outlives_the_builder(tmp_path: Path) -> None:
    run = _run(tmp_path, SCRIPT, "os.abort()")
    out, err = run.communicate(timeout=300)
    assert run.returncode == 0, err
    told, last = out.splitlines()
    assert told.startswith("engine 0 was refused, since the builder's process ended from aten.topk.default (topk) at ")
    assert last == "2"


HANGS = """
import fcntl, time
            held = open("held", "w")
            fcntl.flock(held, fcntl.LOCK_EX)
            open("begun", "w").close()
            time.sleep(600)
"""


@BUILDS
@pytest.mark.slow  # quick: a build that is not wanted ends with its process; the process ends with its parent
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_process_that_builds_ends_with_the_script(number: signal.Signals, tmp_path: Path) -> None:
    import fcntl  # not on Windows

    answers = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    run = _run(tmp_path, answers + SCRIPT, HANGS.strip())
    deadline = time.monotonic() + 120
    while not (tmp_path / "begun").exists() and time.monotonic() < deadline:
        assert run.poll() is None, run.communicate()
        time.sleep(0.05)
    with (tmp_path / "held").open("w") as held:
        with pytest.raises(BlockingIOError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        run.send_signal(number)
        out, err = run.communicate(timeout=60)
        fcntl.flock(held, fcntl.LOCK_EX)  # as soon as nobody has it
    assert out == ""
    assert run.returncode in (-number, 1)
    assert ("KeyboardInterrupt" in err) == (number == signal.SIGINT)
