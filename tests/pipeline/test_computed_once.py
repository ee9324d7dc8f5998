"""What is known is handed on: nothing is worked out twice on the way through a command."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim

import trtdiag
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.pipeline.verify import verify_saved

OPTIONS = trtdiag.CompileOptions(target="8.6", backend="reference", opt=(("rows", 6),))
OPTIONS_WITHOUT_SIZES = trtdiag.CompileOptions(target="8.6", backend="reference")


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        half = x.view(-1, x.shape[0] // 2, 3).sum(0) if x.shape[0] % 2 == 0 else x
        return torch.relu(half * 2 + torch.arange(x.shape[0] // 2)[:, None] - 1).tanh() + 1


def asked() -> tuple[Any, ...]:
    return Scaled(), (torch.randn(4, 3),), {}, {"x": {0: 2 * Dim("rows", min=1, max=9)}}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], list[object]]:
    """Count the calls of a function, by its module and name."""

    def counted(module: str, name: str) -> list[object]:
        home, seen = import_module(module), []
        real = getattr(home, name)

        def call(*args: Any, **named: Any) -> Any:
            seen.append(args)
            return real(*args, **named)

        monkeypatch.setattr(home, name, call)
        return seen

    return counted


ONCE = (
    ("trtdiag.frontend.program_of_export", "recorded_guards"),
    ("trtdiag.shapes.opt_sizes", "opt_sizes"),
    ("trtdiag.shapes.opt_sizes", "allowed_box"),
    ("trtdiag.pipeline.plan_engines", "lower"),
    ("trtdiag.pipeline.plan_engines", "plan_types"),
    ("trtdiag.pipeline.plan_engines", "support"),
)


@pytest.mark.parametrize("full", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_compilation_works_out_everything_once(calls: Any, full: bool) -> None:
    seen = {name: calls(module, name) for module, name in ONCE}
    found = compile_in_stages(asked(), trtdiag.CompileOptions(**vars(OPTIONS) | {"partition": _partition(full)}))
    assert found.verified.passed
    assert {name: len(each) for name, each in seen.items()} == dict.fromkeys(seen, 1)


@pytest.mark.slow  # quick: a compilation works out everything once
def test_a_verification_plans_once(calls: Any, tmp_path: Path) -> None:
    place = tmp_path / "saved.ep"
    trtdiag.save(compile_in_stages(asked(), OPTIONS).compiled, place)
    seen = {name: calls(module, name) for module, name in ONCE}
    assert verify_saved(place, asked()).verified.passed
    # What is saved was captured when it was loaded, and its original is another program.
    assert {name: len(each) for name, each in seen.items()} == {**dict.fromkeys(seen, 1), "recorded_guards": 2}


def test_what_a_program_holds_is_read_once(calls: Any) -> None:
    class Table(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.arange(7) * 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, self.table % 5] * self.table

    seen = calls("trtdiag.dtypes.intervals", "_read")
    graphs = calls("trtdiag.dtypes.plan_integers", "graph_spans")
    compile_in_stages((Table(), (torch.randn(2, 5),), {}, None), OPTIONS_WITHOUT_SIZES)
    assert graphs  # the lowered graph is followed, too
    names = [name for _, name in seen]
    assert len(names) == len(set(names)), names


def _partition(full: bool) -> trtdiag.PartitionOptions:
    return trtdiag.PartitionOptions(require_full=full)


def test_what_is_known_of_sizes_is_worked_out_once_for_all_ops(calls: Any) -> None:
    facts = calls("trtdiag.convert.support", "ShapeConstraints")
    builders = calls("trtdiag.convert.support", "NetworkBuilder")
    trtdiag.analyze(asked())
    assert len(facts) == 1
    assert len(builders) > 5
    assert all(not args for args in builders)
