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
    "torch._inductor",
    "torch._functorch.aot_autograd",
    "torch.export._trace",
    "torch.export.pt2_archive._package",
    "torch.onnx",
    "torch.distributed.fsdp",
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


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.linear = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.conv(x)).mean((2, 3))
        return torch.softmax(self.linear(y), -1)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("saved") / "small.pt2"
    program = torch.export.export(
        Small().eval(), (torch.randn(2, 3, 17, 13),), dynamic_shapes=({0: Dim("batch", min=1, max=7)},)
    )
    torch.export.save(program, place)
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
commands.cli(["analyze", "small.pt2", "-q", "-o", "{name}.html", "--json", "{name}.json"], standalone_mode=False)
"""


@known
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


@pytest.fixture(scope="module")
def both(small: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The report and what was registered in the end, without and with the compiler."""
    found = []
    for name, deferred in (("deferred", True), ("usual", False)):
        told = run(ANALYZE.format(deferred=deferred, name=name) + REGISTERED, small.parent)
        report = json.loads((small.parent / f"{name}.json").read_text("utf-8"))
        del report["timings"], report["page"]["view"]["stages"]  # these are seconds
        found.append((report, json.loads(told)))
    return found


@known
@pytest.mark.slow
def test_the_report_is_the_same(both: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    (deferred, _), (usual, _) = both
    assert deferred["page"]["view"]["graph"]
    assert json.dumps(deferred) == json.dumps(usual)


@known
@pytest.mark.slow
def test_the_compiler_registers_nothing_that_an_analysis_asks(
    both: list[tuple[dict[str, Any], dict[str, Any]]],
) -> None:
    (_, deferred), (_, usual) = both
    assert len(deferred["post_autograd"]) > 1000
    assert {name for name in usual if usual[name] != deferred.get(name)} <= {"trace_wrapped"}  # a call of the compiler


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
