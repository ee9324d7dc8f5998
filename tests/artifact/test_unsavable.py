"""Unusual inputs and results: they work, or one error names them; what was saved is read again."""

from __future__ import annotations

import re
import warnings
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch.export import Dim

import trtdiag
from tests.harness.rows import thinned
from trtdiag.errors import ArtifactError, CaptureError
from trtdiag.frontend.archive import treespecs
from trtdiag.frontend.capture import capture
from trtdiag.report.fix_module import save_program
from trtdiag.runtime.compiled import CompiledProgram

Pair = namedtuple("Pair", "left right")  # noqa: PYI024  # as users write them


@dataclass
class Unnamed:
    """Registered without the name that a file needs."""

    left: Tensor
    right: Tensor


@dataclass
class Named:
    """Registered with it."""

    left: Tensor


torch.export.register_dataclass(Unnamed)
torch.export.register_dataclass(Named, serialized_type_name="trtdiag.tests.Named")


class Model(nn.Module):
    """Does ``before`` to its inputs and ``after`` to its result."""

    def __init__(self, before: Any = lambda given: given[0], after: Any = lambda y: y) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.linear = nn.Linear(5, 7).requires_grad_(False)
        self._before, self._after = before, after

    def forward(self, x: Any, other: Any = None) -> Any:
        return self._after(torch.relu(self.linear(self._before((x, other)))))


X = torch.linspace(-1, 1, 20).reshape(4, 5)
EYE = torch.eye(5)[:4] * 3


def _plus(given: Any) -> Any:
    return given[0] + given[1].to_dense()


def _deep(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = [value]
    return value


def _unwrapped(given: Any) -> Any:
    value = given[0]
    while isinstance(value, list):
        value = value[0]
    return value


def _deeper(levels: int) -> Any:
    return lambda y: _deep(y, levels)


def _compiled(model: nn.Module, *args: Any) -> tuple[torch.export.ExportedProgram, CompiledProgram]:
    exported = torch.export.export(model, args)
    return exported, trtdiag.compile(exported, backend="reference", min_segment_ops=1)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return torch.allclose(one.to_dense(), other.to_dense(), rtol=1e-5, atol=1e-6)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and all(map(_same, one, other))
    return bool(one == other)


WORK: dict[str, tuple[nn.Module, tuple[Any, ...]]] = {
    "sparse input": (Model(_plus), (X, EYE.to_sparse())),
    "sparse result": (Model(after=lambda y: y.to_sparse()), (X,)),
    "no result": (Model(after=lambda y: None), (X,)),
    "empty lists": (Model(after=lambda y: {"a": [], "b": None}), (X,)),
    "numbers": (Model(after=lambda y: (3, True, 2.5, None, y)), (X,)),
    "named dataclass": (Model(lambda given: given[0].left), (Named(X),)),
    "300 deep": (Model(_unwrapped, _deeper(300)), (_deep(X, 300),)),
}


# Quick: the ends; the others come back by the same pytree.
@thinned("case", WORK, every=99)
def test_the_unusual_works_from_the_model_to_the_file_and_back(case: str, tmp_path: Path) -> None:
    model, args = WORK[case]
    exported, program = _compiled(model, *args)
    assert program.report is not None
    assert trtdiag.analyze(exported).errors == ()
    wanted = model(*args)
    for _ in range(2):  # the second call takes the shorter way
        assert case == "300 deep" or _same(program(*args), wanted)
    torch.export.save(exported, tmp_path / "m.pt2")
    trtdiag.compile(str(tmp_path / "m.pt2"), backend="reference", min_segment_ops=1, verify=False)
    trtdiag.save(program, tmp_path / "m.ep")
    found = trtdiag.load(tmp_path / "m.ep")(*args)
    if case == "300 deep":
        found, wanted = _unwrapped((found,)), _unwrapped((wanted,))
    assert _same(found, wanted)
    assert trtdiag.verify(tmp_path / "m.ep", against=exported).passed


def _rows(tensor: Tensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls them a beta
        return tensor.to_sparse_csr()


REFUSED: dict[str, tuple[nn.Module, tuple[Any, ...], str]] = {
    "sparse rows": (Model(_plus), (X, _rows(EYE)), "the input other: it is sparse_csr"),
    "unnamed dataclass": (Model(lambda given: given[1].left), (X, Unnamed(X, X)), "the input other: .*Unnamed"),
    "unnamed tuple": (Model(lambda given: given[0].left), (Pair(X, X),), "the input x: .*Pair"),
    "unnamed result": (Model(after=lambda y: Pair(y, y + 1)), (X,), "the result: .*Pair"),
    "empty result": (Model(after=lambda y: ()), (X,), "the result: it holds nothing"),
    "text": (Model(after=lambda y: (y, "a")), (X,), "the result: it has 'a'"),
    "too deep": (Model(_unwrapped), (_deep(X, 60),), "the input x: it is nested more than 40 deep"),
}


# Quick: each second; what torch says of the others is told in the same words.
@thinned("case", REFUSED, every=2)
def test_what_cannot_be_saved_runs_and_is_named(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, args, words = REFUSED[case]
    monkeypatch.setattr(treespecs, "LIMIT_DEPTH", 40)  # where torch itself gives up depends on who calls it
    _, program = _compiled(model, *args)
    for _ in range(2):
        assert case == "too deep" or _same(program(*args), model(*args))
    path = tmp_path / "m.ep"
    path.write_bytes(b"old")
    with pytest.raises(ArtifactError, match=r"torch\.export\.save cannot write") as caught:
        trtdiag.save(program, path)
    assert caught.value.reference == "program-not-saveable"
    assert re.search(words, caught.value.because)
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["m.ep"]


def test_a_file_that_is_nested_too_deeply_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(treespecs, "LIMIT_DEPTH", 40)
    torch.export.save(torch.export.export(Model(_unwrapped), (_deep(X, 60),)), tmp_path / "m.pt2")
    with pytest.raises(CaptureError) as caught:
        trtdiag.analyze(tmp_path / "m.pt2")
    assert caught.value.reference == "nested-too-deeply"


def test_what_torch_refuses_is_said_in_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, program = _compiled(Model(), X)

    def refuse(*_: object, **__: object) -> None:
        raise NotImplementedError("no way\nfurther lines")

    monkeypatch.setattr(torch.export, "save", refuse)
    with pytest.raises(ArtifactError, match=r"torch\.export\.save cannot write") as caught:
        trtdiag.save(program, tmp_path / "m.ep")
    assert caught.value.because == "no way"
    assert not list(tmp_path.iterdir())


class Compares(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, bool]:
        return x * 2, x.shape[0] > 5


def test_a_bool_that_sizes_decide_is_named(tmp_path: Path) -> None:
    """torch's own word for it is TODO."""
    dims = ({0: Dim("n", min=2, max=40)},)
    exported = torch.export.export(Compares(), (torch.randn(8, 3),), dynamic_shapes=dims)
    program = trtdiag.compile(exported, backend="reference", min_segment_ops=0)
    assert [program(torch.randn(n, 3))[1] for n in (2, 5, 6, 40)] == [False, False, True, True]
    with pytest.raises(ArtifactError, match="cannot write") as caught:
        trtdiag.save(program, tmp_path / "m.ep")
    assert caught.value.because == "the result: it has a bool that sizes decide, which torch.export does not save"
    assert not list(tmp_path.iterdir())


class Tenths(nn.Module):
    def __init__(self, rounded: Callable[[int], float]) -> None:
        super().__init__()
        self.rounded = rounded

    def forward(self, x: Tensor) -> Tensor:
        return x * self.rounded(x.shape[0])


def test_a_size_that_is_rounded_to_digits_names_its_line_and_what_to_write(tmp_path: Path) -> None:
    dims = ({0: Dim("n", min=2, max=40)},)
    exported = torch.export.export(Tenths(lambda n: round(n / 3, 1)), (torch.randn(8, 3),), dynamic_shapes=dims)
    for save in (
        lambda: trtdiag.save(trtdiag.compile(exported, backend="reference"), tmp_path / "m.ep"),
        lambda: save_program(exported, tmp_path / "m.pt2"),
    ):
        with pytest.raises(ArtifactError) as caught:
            save()
        assert caught.value.because.startswith(f"the line {__file__}:")
        assert caught.value.because.endswith("round(x, 1) of a size is no op that torch.export saves")
        assert caught.value.fix == "write round(x * 10) / 10, whose last digit may differ where x is halfway"
    advised = torch.export.export(Tenths(lambda n: round(n / 3 * 10) / 10), (torch.randn(8, 3),), dynamic_shapes=dims)
    save_program(advised, tmp_path / "m.pt2")
    module = torch.export.load(tmp_path / "m.pt2").module()
    for n in (2, 4, 5, 40):
        x = torch.randn(n, 3)
        assert torch.equal(module(x), x * round(n / 3, 1))


class Applied(nn.Module):
    """As transformers make a mask: entries of a tensor by indices under vmap."""

    def forward(self, x: Tensor) -> Tensor:
        with TransformGetItemToIndex():
            entries = torch.vmap(torch.vmap(lambda row, column: x[row, column], (None, 0)), (0, None))
            return entries(torch.arange(x.shape[0]), torch.arange(3)) + 1


def test_an_applied_function_names_its_line_and_what_to_save(tmp_path: Path) -> None:
    exported = torch.export.export(Applied(), (torch.randn(8, 3),), dynamic_shapes=({0: Dim("n", min=2, max=40)},))
    with pytest.raises(ArtifactError) as caught:
        save_program(exported, tmp_path / "m.pt2")
    assert caught.value.because.startswith(f"the line {__file__}:")
    assert caught.value.because.endswith("it applies an autograd.Function as one op, which torch.export does not save")
    assert caught.value.fix.startswith("save program.run_decompositions({})")
    save_program(exported.run_decompositions({}), tmp_path / "m.pt2")
    trtdiag.save(trtdiag.compile(exported, backend="reference", min_segment_ops=0), tmp_path / "compiled.pt2")
    x = torch.randn(5, 3)
    for path in sorted(tmp_path.iterdir()):
        assert torch.equal(torch.export.load(path).module()(x), x + 1), path


class Bits(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sum() * x.new_ones((x.shape[0] & 6) + 2, (x.shape[0] | 1) + 2)


def test_sizes_of_bits_are_read_again(tmp_path: Path) -> None:
    """torch writes ``n & 6`` by the name of a function that it does not find when it reads."""
    dims = ({0: Dim("n", min=2, max=40)},)
    exported = torch.export.export(Bits(), (torch.randn(9, 4),), dynamic_shapes=dims)
    trtdiag.save(trtdiag.compile(exported, backend="reference", min_segment_ops=0), tmp_path / "m.ep")
    program = trtdiag.load(tmp_path / "m.ep")
    for n in (2, 7, 8, 37, 40):
        x = torch.randn(n, 4)
        assert torch.equal(program(x), Bits()(x))


class WholeEights(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[: x.shape[0] & ~7].reshape(-1, 8).sum(1)


def test_sizes_that_are_made_of_bits_have_a_range_when_they_are_read_again(tmp_path: Path) -> None:
    dims = ({0: 8 * Dim("n", min=2, max=5)},)
    exported = torch.export.export(WholeEights(), (torch.randn(24),), dynamic_shapes=dims)
    trtdiag.save(trtdiag.compile(exported, backend="reference"), tmp_path / "m.ep")
    program = trtdiag.load(tmp_path / "m.ep")
    for n in (16, 24, 40):
        x = torch.randn(n)
        assert torch.equal(program(x), WholeEights()(x))


class SecondHalf(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x[x.shape[0] // 2 :] + y.sum()


def test_sizes_of_a_symbol_that_no_dim_says_alone_are_read_again(tmp_path: Path) -> None:
    """torch knows examples of symbols that are dims, and ranges do not say that n + 1 - n // 2 is positive."""
    n = Dim("n", min=4, max=18)
    exported = torch.export.export(
        SecondHalf(), (torch.randn(7, 3), torch.randn(6, 3)), dynamic_shapes=({0: n + 2}, {0: n + 1})
    )
    torch.export.save(exported, tmp_path / "torch.pt2")
    assert capture(tmp_path / "torch.pt2").exported is not None  # torch.export.load does not read it
    save_program(exported, tmp_path / "m.pt2")
    trtdiag.save(trtdiag.compile(exported, backend="reference"), tmp_path / "m.ep")
    modules = [torch.export.load(tmp_path / file).module() for file in ("m.pt2", "m.ep")]
    for size in (6, 7, 20):
        inputs = torch.randn(size, 3), torch.randn(size - 1, 3)
        for program in (*modules, trtdiag.load(tmp_path / "m.ep")):
            assert torch.allclose(program(*inputs), SecondHalf()(*inputs))
