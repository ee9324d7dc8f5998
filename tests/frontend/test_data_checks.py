"""The checks found for real models, put into copies of the models, which must then export and compute the same."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from tests.frontend import data_models
from tests.harness.rows import thinned
from trtdiag.frontend.data_dependent.torch_checks import DataChecks, NeededCheck, needed_checks

_SOURCE = Path(data_models.__file__)
_COPIES = itertools.count()
MASK = torch.arange(9) % 3 != 2
GENERATOR = torch.Generator().manual_seed(3)


def _random(*size: int) -> Tensor:
    return torch.randn(*size, generator=GENERATOR)


def _count(value: int) -> Tensor:
    return torch.tensor(value)


# Model (and what tells two cases of it apart) -> inputs, the lines that are to be found, other inputs on which the
# lines hold too.
CASES: dict[str, tuple[tuple[Any, ...], list[str], list[tuple[Any, ...]]]] = {
    "CountBranch": ((torch.ones(2, 9),), ["torch._check(found.shape[0] > 3)"], [(torch.eye(9)[:2] - 1,)]),
    "MaskEmpty": (
        (_random(9, 6), MASK),
        ["torch._check(kept.shape[0] >= 2)"],
        [(_random(9, 6), torch.arange(9) < 2), (_random(9, 6), torch.arange(9) < 9)],
    ),
    "SliceLength": (
        (_random(2, 9), _count(4)),
        ["torch._check(head.shape[1] < 9)"],
        [(_random(2, 9), _count(8)), (_random(2, 9), _count(0))],
    ),
    "Positions": (
        (_random(3, 5), _count(7)),
        ["torch._check(n > 3)", "torch._check(n < 100)"],
        [(_random(3, 5), _count(4)), (_random(3, 5), _count(99))],
    ),
    "Repeated": (
        (_random(3, 3), torch.tensor([1, 2, 5])),
        ["torch._check(rows.shape[0] != 3)"],
        [(_random(3, 3), torch.tensor([1, 0, 0]))],
    ),
    "Halves": ((_random(2, 3), _count(7)), ["torch._check(half != 1)"], [(_random(2, 3), _count(13))]),
    "TwoCounts": (
        (_random(9), _count(4), _count(3)),
        [
            "torch._check(n + m > 5)",
            "torch._check(torch.sym_max(n, m) == 4)",
            "torch._check(n != m)",
            "torch._check(n*m % 4 == 0)",
            "torch._check(n - 2*m < 7)",
            "torch._check(torch.sym_min(n, m) >= 3)",
        ],
        [(_random(9), _count(3), _count(4))],
    ),
    "BestOf": ((_random(3, 9), _count(5)), ["torch._check(k > 4)"], [(_random(3, 9), _count(9))]),
    "InnerFunction": (
        (_random(9, 2), {"a": _count(4), "b": _count(1)}),
        ["torch._check(more > 2)"],
        [(_random(9, 2), {"a": _count(2), "b": _count(1)})],
    ),
    "FlagBranch": ((torch.ones(3),), ["torch._check(torch.sym_not(negative))"], [(torch.zeros(3),)]),
    "Shifted": ((_random(13), _count(4)), ["torch._check((more - 1) // 2 > 3)"], [(_random(13), _count(5))]),
    "Either": ((_random(5), _count(7)), ["torch._check((n == 2) | (n > 5))"], [(_random(5), _count(2))]),
    "Either, inside": (
        (_random(5), _count(4)),
        ["torch._check((n != 2) & (n <= 5))", "torch._check((n > 2) & (n < 5))"],
        [(_random(5), _count(3))],
    ),
    "Either, outside": (
        (_random(5), _count(1)),
        ["torch._check((n != 2) & (n <= 5))", "torch._check((n <= 2) | (n >= 5))"],
        [(_random(5), _count(5))],
    ),
    # From here on one value, or one number of turns, is all that a check can say.
    "MaskPairs": ((_random(9, 6), MASK), ["torch._check(kept.shape[0] == 6)"], [(_random(9, 6), MASK.flip(0))]),
    "Loop": ((torch.ones(3), _count(4)), ["torch._check(n == 4)"], []),
}
PINNED = {"MaskPairs", "Loop", "FlagBranch"}


def _found(name: str, *args: Any, **options: Any) -> DataChecks:
    return needed_checks(getattr(data_models, name)(), args, None, None, **options)


def _copy_with(checks: tuple[NeededCheck, ...], folder: Path) -> ModuleType:
    """The file of models with each line put where its check says."""
    lines = _SOURCE.read_text(encoding="utf-8").splitlines()
    for check in sorted(checks, key=lambda check: -check.before.line if check.before else 0):
        assert check.before is not None
        assert Path(check.before.file) == _SOURCE
        at = check.before.line - 1
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        lines.insert(at, indent + check.code)
    path = folder / f"checked_models_{next(_COPIES)}.py"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The lines that are said of each are quick above and in test_data_checks_limits.py.
@thinned("name", CASES, every=9)
def test_model_with_the_lines_exports_and_computes_the_same(name: str, tmp_path: Path) -> None:
    args, lines, others = CASES[name]
    name = name.split(",")[0]
    with pytest.raises(GuardOnDataDependentSymNode):
        torch.export.export(getattr(data_models, name)(), args, strict=False)

    found = _found(name, *args)

    assert (found.passed, found.failure) == (True, "")
    assert [check.code for check in found.checks] == lines
    assert [check.pins for check in found.checks] == [name in PINNED] * len(lines)
    checked = getattr(_copy_with(found.checks, tmp_path), name)()
    program = torch.export.export(checked, args, strict=False).module()
    for inputs in (args, *others):
        assert torch.equal(program(*inputs), getattr(data_models, name)()(*inputs))


def test_check_on_a_floating_point_value_is_confirmed_where_torch_takes_it(tmp_path: Path) -> None:
    args = (torch.ones(3),)
    found = _found("Threshold", *args)
    assert [check.code for check in found.checks] == ["torch._check(mean > 0.5)"]
    assert found.checks[0].expr is None
    checked = _copy_with(found.checks, tmp_path).Threshold()
    if torch.__version__ < "2.13":  # measured with 2.11: an export with any such torch._check fails
        assert "Unknown symbol zuf0" in found.failure
        with pytest.raises(AssertionError, match="Unknown symbol zuf0"):
            torch.export.export(checked, args, strict=False)
        return
    assert found.passed
    program = torch.export.export(checked, args, strict=False).module()
    for x in (torch.ones(3), torch.tensor([0.0, 1.0, 0.7])):
        assert torch.equal(program(x), data_models.Threshold()(x))
