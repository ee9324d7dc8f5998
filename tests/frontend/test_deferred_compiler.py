"""A file is analyzed without torch.compile, which is there as ever once it is used."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from trtdiag.frontend.deferred_compiler import _KNOWN, _NOT_USERS, not_users_files

ROOT = Path(__file__).parents[2]
known = pytest.mark.skipif(
    not torch.__version__.startswith(_KNOWN), reason="of another torch everything is imported as it is"
)
HEAVY = (
    "torch._dynamo.eval_frame",
    "torch._dynamo.symbolic_convert",
    "torch._inductor.compile_fx",
    "torch._functorch.aot_autograd",
    "torch.export._trace",
    "torch.export.pt2_archive._package",
    "torch.onnx",
    "torch.distributed.fsdp",
    "torch.distributed.tensor._api",
    "networkx",
    "z3",
    "IPython",
    "matplotlib",
    "graphviz",
    "tensorrt",
    "trtdiag.dims.torch_text.read",
    "trtdiag.fixdims.run",
    "trtdiag.verification.run",
    "trtdiag.pipeline.compile",
    "trtdiag.benchmark.run",
)
"""What no analysis of a saved program uses."""
PARTS = ("sympy.geometry", "torch.distributions.normal", "torch.nn.intrinsic.quantized", "torch.utils.data.dataloader")
"""Nor these, of packages that are put off and of sympy beyond its core, where sizes are plain."""


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.linear = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.conv(x)).mean((2, 3))
        return torch.softmax(self.linear(y), -1)


class TakenApart(nn.Module):
    """Ops that are decomposed by tracing, a region without gradients, and a guard that breaks the declared range."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(3, 8, 3, padding=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        with torch.no_grad():
            y = y + 1
        return y.reshape(y.shape[0], 8, y.shape[2] // 2, 2).flatten(2).transpose(1, 2).flatten(0, 1)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(Small(), tmp_path_factory, torch.randn(2, 3, 17, 13), {0: Dim("batch", min=1, max=7)})


@pytest.fixture(scope="module")
def taken_apart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(TakenApart(), tmp_path_factory, torch.randn(2, 3, 6), {0: Dim.AUTO, 2: Dim.AUTO})


def saved(module: nn.Module, places: pytest.TempPathFactory, x: torch.Tensor, dims: dict[int, Any]) -> Path:
    place = places.mktemp("saved") / "small.pt2"
    torch.export.save(torch.export.export(module.eval(), (x,), dynamic_shapes=(dims,)), place)
    return place


def run(code: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}"],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# The command in this process: what it imported can then be asked.
ANALYZE = """
from trtdiag.cli import commands, analyze
analyze.file_alone = lambda *a, **k: {deferred}
asked = ["analyze", "small.pt2", "-q", "--fail-on", "never", "-o", "{name}.html", "--json", "{name}.json"]
commands.cli(asked, standalone_mode=False)
"""


@known
@pytest.mark.slow  # a process of its own imports torch; quick: the registered files, below
def test_a_file_needs_no_compiler(small: Path) -> None:
    told = f"print([name for name in {HEAVY + PARTS} if name in sys.modules])"
    code = f"{ANALYZE.format(deferred=True, name='deferred')}\n{told}"
    assert run(code, small.parent).splitlines() == ["[]"]


@known
@pytest.mark.slow
def test_what_a_file_needs_and_what_comes_when_it_is_used(small: Path) -> None:
    code = f"""
{ANALYZE.format(deferred=True, name="deferred")}
print([name for name in {HEAVY} if name in sys.modules])
import torch
from torch._dynamo import convert_frame
from trtdiag.frontend.torch_lock import TORCH_TURN
from trtdiag.frontend.capture import capture
print(convert_frame.compile_lock is TORCH_TURN)
layer, x = torch.nn.Linear(3, 2), torch.ones(1, 3)
print(torch.equal(torch.compile(layer, backend="eager")(x), layer(x)))
for strict in (False, True):
    print(capture(torch.export.export(layer, (x,), strict=strict)).label)
from torch.fx.experimental.symbolic_shapes import uninteresting_files
from torch._dynamo import polyfills
print(polyfills.__file__ in uninteresting_files(), type(sys.modules["torch._dynamo"]).__name__)
"""
    told = run(code, small.parent).splitlines()
    assert told == ["[]", "True", "True", "live program", "live program", "True module"]


@known
@pytest.mark.slow
def test_what_is_taken_apart_by_tracing_needs_no_compiler(taken_apart: Path) -> None:
    code = f"""
{ANALYZE.format(deferred=True, name="deferred")}
print([name for name in {HEAVY} if name in sys.modules])
import torch._inductor.codecache  # asked for before it comes
from torch.distributed.tensor import DTensor
print(callable(torch._inductor.compile), issubclass(DTensor, torch.Tensor))
"""
    # Joint guards are given to z3.
    assert run(code, taken_apart.parent).splitlines() == ["['z3']", "True True"]


REGISTERED = """
import json
import torch
from torch._decomp import global_decomposition_table
from torch._subclasses import fake_impls
from torch.utils import _pytree
tables = {name: sorted(map(str, table)) for name, table in global_decomposition_table.items()}
tables["fakes"] = [len(vars(fake_impls)[name]) for name in sorted(vars(fake_impls)) if name.endswith("s")
                   and isinstance(vars(fake_impls)[name], (dict, set, list))]
tables["trees"] = sorted(f"{each.__module__}.{each.__qualname__}" for each in _pytree.SUPPORTED_NODES)
for name, op in torch._ops._higher_order_ops.items():
    tables[name] = sorted(map(str, [*op.py_kernels, *op.python_key_table]))
print(json.dumps(tables))
"""


def both(program: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The report and what was registered in the end, without and with the compiler."""
    found = []
    for name, deferred in (("deferred", True), ("usual", False)):
        told = run(ANALYZE.format(deferred=deferred, name=name) + REGISTERED, program.parent)
        report = json.loads((program.parent / f"{name}.json").read_text("utf-8"))
        del report["timings"], report["page"]["view"]["stages"]  # these are seconds
        found.append((report, json.loads(told)))
    return found


@known
@pytest.mark.slow
def test_the_report_is_the_same_and_what_an_analysis_asks_is_registered(small: Path) -> None:
    (deferred, registered), (usual, usually) = both(small)
    assert deferred["page"]["view"]["graph"]
    assert json.dumps(deferred) == json.dumps(usual)
    assert len(registered["post_autograd"]) > 1000
    # A call of the compiler, and what distributed tensors add: a tree of their plans, and how one is printed.
    others = {name for name in usually if usually[name] != registered.get(name)}
    assert others <= {"trace_wrapped", "trees", "print"}
    for name in others & {"trees", "print"}:
        assert all("torch.distributed.tensor" in each for each in {*usually[name]} ^ {*registered[name]})


@known
@pytest.mark.slow
def test_the_report_of_what_is_taken_apart_is_the_same(taken_apart: Path) -> None:
    (deferred, _), (usual, _) = both(taken_apart)
    assert [finding["rule"] for finding in deferred["findings"]].count("GRD301") == 1
    assert json.dumps(deferred) == json.dumps(usual)


@known
@pytest.mark.slow
def test_an_op_that_the_compiler_registers_is_read(tmp_path: Path) -> None:
    class Rotated(nn.Module):
        def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
            return torch.onnx.ops.rotary_embedding(x, cos, sin)

    import torch.onnx

    inputs = (torch.randn(2, 3, 5, 8), torch.randn(2, 5, 4), torch.randn(2, 5, 4))
    torch.export.save(torch.export.export(Rotated(), inputs), tmp_path / "small.pt2")
    done = run(ANALYZE.format(deferred=True, name="rotated") + "print('torch.onnx.ops' in sys.modules)", tmp_path)
    assert done.splitlines() == ["True"]
    assert "onnx" in (tmp_path / "rotated.json").read_text("utf-8")


@known
def test_files_that_are_no_users_code_are_those_of_torch() -> None:
    from torch._dynamo import guards
    from torch.fx.experimental import symbolic_shapes

    theirs = symbolic_shapes.uninteresting_files()
    ours = not_users_files(Path(torch.__file__).parent)
    assert ours >= theirs - guards.uninteresting_files()
    assert len(ours) > len(_NOT_USERS)
    polyfills = str(Path(torch.__file__).parent / "_dynamo" / "polyfills")
    assert {each for each in ours - theirs if not each.startswith(polyfills)} == set()


@pytest.mark.slow
def test_a_process_that_imports_trtdiag_has_the_compiler_as_ever() -> None:
    code = """
import trtdiag.pipeline.analyze
from torch._dynamo.convert_frame import compile_lock
from trtdiag.frontend.torch_lock import TORCH_TURN
print(TORCH_TURN is compile_lock, [type(each).__name__ for each in sys.meta_path if "Deferred" in type(each).__name__])
"""
    assert run(code, ROOT).split("\n")[0] == "True []"
