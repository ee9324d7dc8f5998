"""Programs from live exports, files and factories: names, ranges, origins, guards with their lines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export, save

from trtdiag.errors import CaptureError
from trtdiag.frontend.capture import capture, names_factory
from trtdiag.frontend.program import Program, SourceKind
from trtdiag.frontend.read_guards import read_guards
from trtdiag.symbolic import to_text
from trtdiag.symbolic.expr import Num, Sym
from trtdiag.symbolic.ranges import Range


class TwoLinears(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x)))


class Nested(nn.Module):
    def forward(self, x: Tensor, *rest: Any, opts: Any = None) -> Tensor:
        return x.sum() + rest[0]["q"][0].sum() + opts["k"][1].sum()


class Halves(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] % 2 == 0:
            x = x * 2
        return x.reshape(x.shape[0], -1, 2)


def two_linears() -> tuple[nn.Module, tuple[Tensor, ...], dict[str, Any], Any]:
    dims = {0: Dim("batch", min=1, max=10), 1: Dim("seq", max=77)}
    return TwoLinears(), (torch.randn(3, 5, 4),), {}, {"x": dims}


def halves(low: int = 2) -> tuple[nn.Module, tuple[Tensor, ...], dict[str, Any], Any]:
    return Halves(), (torch.randn(3, 8),), {}, {"x": {1: Dim("width", min=low, max=97)}}


def test_a_factory_knows_the_declared_names_and_ranges() -> None:
    program = capture(two_linears)
    batch, seq, features = program.inputs[0].dims
    assert (batch.declared, batch.declared_range, batch.dynamic, batch.hint) == ("batch", Range(1, 10), True, 3)
    assert (seq.declared, seq.declared_range, seq.site) == ("seq", Range(0, 77), "x.shape[1]")
    assert isinstance(features.expr, Num)
    assert features.dynamic is False
    assert isinstance(batch.expr, Sym)
    assert program.names[batch.expr.name] == "batch"
    assert program.ranges[batch.expr.name] == Range(1, 10), "min=1 stays 1 although torch widens it to 2 inside"
    assert program.kind is SourceKind.FACTORY


@pytest.mark.slow  # quick: test_nested_inputs_keep_the_users_spelling
def test_a_file_names_dims_by_their_place(tmp_path: Path) -> None:
    module, args, kwargs, shapes = two_linears()
    path = tmp_path / "model.pt2"
    save(export(module, args, kwargs, dynamic_shapes=shapes), path)
    program = capture(path)
    symbol = program.inputs[0].dims[0].expr
    assert isinstance(symbol, Sym)
    assert program.names[symbol.name] == "x.shape[0]"
    assert program.ranges[symbol.name] == Range(1, 10)
    assert program.inputs[0].dims[0].dynamic is None, "a file does not say what was declared"
    assert program.file_bytes == path.stat().st_size
    assert program.versions.exporting_torch == torch.__version__


def test_nested_inputs_keep_the_users_spelling(tmp_path: Path) -> None:
    args = (torch.randn(3), {"q": [torch.randn(5)]})
    kwargs = {"opts": {"k": (1, torch.randn(7))}}
    shapes = {"x": None, "rest": ({"q": [{0: Dim.AUTO}]},), "opts": {"k": (None, {0: Dim("z", min=2)})}}
    exported = export(Nested(), args, kwargs, dynamic_shapes=shapes)
    save(exported, tmp_path / "nested.pt2")
    live = [tensor.name for tensor in capture(exported).inputs]
    assert live == ["x", "rest[0]['q'][0]", "opts['k'][0]", "opts['k'][1]"]
    saved = [tensor.name for tensor in capture(tmp_path / "nested.pt2").inputs]
    assert saved == ["x", "rest_0['q'][0]", *live[2:]], "no guard names *rest, so a file does not tell it from rest_0"
    made = capture((Nested(), args, kwargs, shapes))
    assert made.inputs[1].dims[0].declared == "Dim.AUTO"
    assert made.inputs[3].dims[0].declared == "z"


def test_ops_know_their_module_and_the_users_line() -> None:
    program = capture(two_linears)
    relu = next(origin for name, origin in program.origins.items() if name.startswith("relu"))
    first = next(origin for name, origin in program.origins.items() if name == "linear")
    assert first.module_path == "first"
    assert first.module_type.endswith("Linear")
    user = relu.stack.user
    assert user is not None
    assert Path(user.file).name == Path(__file__).name
    assert "torch.relu" in user.code


def _guard_lines(program: Program) -> set[str]:
    return {guard.stack.user.code for guard in program.guards if guard.stack.user is not None}


def test_guards_of_a_refused_export_come_with_their_lines() -> None:
    program = capture(lambda: halves())
    assert program.failure is not None
    assert "width" in program.failure.message
    assert "draft_export" not in program.failure.message
    assert program.exported is not None, "a relaxed export carries the graph"
    lines = _guard_lines(program)
    assert "if x.shape[1] % 2 == 0:" in lines
    assert "return x.reshape(x.shape[0], -1, 2)" in lines


def test_a_key_that_is_missing_is_told_as_one() -> None:
    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise KeyError("scale")

    program = capture((Broken(), (torch.randn(2, 7),), {}, None))
    assert program.failure is not None
    assert program.failure.message == "KeyError: 'scale'"


def test_an_export_that_cannot_work_leaves_a_program_without_a_graph() -> None:
    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise RuntimeError("no such thing")

    program = capture((Broken(), (torch.randn(2, 7),), {}, {"x": {0: Dim("n", min=2, max=31)}}))
    assert program.exported is None
    assert program.failure is not None
    assert program.failure.error_type == "RuntimeError"
    assert "no such thing" in program.failure.message
    assert program.inputs[0].dims[0].declared == "n"
    user = program.failure.stack.user
    assert user is not None
    assert Path(user.file).name == Path(__file__).name


def test_a_pinned_dim_is_seen_with_the_line_that_pinned_it() -> None:
    class Fixed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if x.shape[0] == 6:
                return x + 1
            return x

    program = capture((Fixed(), (torch.randn(6, 7),), {}, {"x": {0: Dim.AUTO}}))
    (pin,) = program.pins
    assert (pin.site, pin.value) == ("x.shape[0]", 6)
    assert pin.stack.user is not None
    assert pin.stack.user.code == "if x.shape[0] == 6:"


def test_dims_that_are_equal_to_a_pinned_one_have_its_line() -> None:
    class Looped(nn.Module):
        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            x = x * mask
            for row in range(mask.shape[0]):
                x = x + row
            return x

    program = capture((Looped(), (torch.randn(6), torch.randn(6)), {}, ({0: Dim.AUTO}, {0: Dim.AUTO})))
    assert [pin.site for pin in program.pins] == ["x.shape[0]", "mask.shape[0]"]
    for pin in program.pins:
        assert pin.stack.user is not None
        assert pin.stack.user.code == "for row in range(mask.shape[0]):"


def test_capturing_does_not_change_the_program() -> None:
    module, args, kwargs, shapes = two_linears()
    exported = export(module, args, kwargs, dynamic_shapes=shapes)
    before = str(exported), list(exported._guards_code), dict(exported.range_constraints)
    capture(exported)
    assert (str(exported), list(exported._guards_code), dict(exported.range_constraints)) == before


@pytest.mark.parametrize(
    ("source", "reference"),
    [
        ("no_such_module_anywhere:build", "factory-not-importable"),
        ("os:no_such_attribute", "factory-not-found"),
        ("os:name", "factory-not-callable"),
        (lambda: 1 / 0, "factory-failed"),
        (lambda: 7, "factory-wrong-result"),
        ((nn.Linear(2, 2), (torch.randn(2, 2),), 5), "factory-wrong-result"),
        ((nn.Linear(2, 2), (torch.randn(2, 2),), {"input": {0: Dim("n", max=8)}}), "factory-wrong-result"),
        ((nn.Linear(2, 2), (torch.randn(2, 2),), {"input": [Dim.AUTO, None]}), "factory-wrong-result"),
        (nn.Linear(2, 2), "module-without-inputs"),
        (7, "source-unknown"),
        ("no-such-file.pt2", "file-not-found"),
        ("resnet18", "file-not-found"),
        ("package.module.build", "file-not-found"),
    ],
)
def test_wrong_sources_are_named(source: Any, reference: str) -> None:
    with pytest.raises(CaptureError) as raised:
        capture(source)
    assert raised.value.reference == reference
    assert raised.value.because
    assert raised.value.fix


def test_a_name_that_is_no_file_is_told_what_can_be_named() -> None:
    with pytest.raises(CaptureError, match="there is no file or folder resnet18") as raised:
        capture("resnet18")
    assert "package.module:function" in raised.value.fix
    assert ".pt2 file" in raised.value.fix


def test_types_have_their_article() -> None:
    for source, because in (("os:name", "it is a str"), (lambda: 7, "it gave an int")):
        with pytest.raises(CaptureError) as raised:
            capture(source)
        assert raised.value.because == because


def test_a_factory_that_exports_and_is_refused_may_leave_the_export_to_us() -> None:
    def build() -> Any:
        module, args, kwargs, shapes = two_linears()
        return export(module, args, kwargs, dynamic_shapes={**shapes, "no such input": {}})

    with pytest.raises(CaptureError) as raised:
        capture(build)
    assert raised.value.reference == "factory-failed"
    assert re.search(r"no such input.*\(test_capture_program\.py:\d+\)", raised.value.because, re.DOTALL), "our line"
    assert "return (module, args, kwargs, dynamic_shapes)" in raised.value.fix


def test_what_a_library_hides_behind_its_own_error_is_told() -> None:
    def build() -> Any:
        raise ModuleNotFoundError("Could not import module 'Llama'") from RuntimeError(
            "torchvision::nms does not exist"
        )

    with pytest.raises(CaptureError) as raised:
        capture(build)
    assert raised.value.because.startswith(
        "ModuleNotFoundError: Could not import module 'Llama' (test_capture_program.py"
    )
    assert raised.value.because.endswith("), raised from RuntimeError: torchvision::nms does not exist")


def test_a_windows_path_and_an_existing_file_are_no_factories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert names_factory("pkg.mod:build")
    assert not names_factory("C:\\models\\a.pt2")
    assert not names_factory("model.pt2")
    monkeypatch.chdir(tmp_path)
    Path("odd:name").write_bytes(b"")
    assert not names_factory("odd:name")


class Counting(nn.Module):
    """Reads two sizes as numbers, and asks before whether they are alike and small."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        small = bool(x.shape[1] // 8 <= 0 and x.shape[1] <= mask.shape[1])
        for i in range(mask.shape[1]):
            x = x + mask[:, i : i + 1]
        for i in range(x.shape[1]):
            x = x * i
        return x + 1 if small else x


def test_conditions_on_sizes_that_became_numbers_have_the_names_of_their_dims() -> None:
    t = Dim("t", max=9)
    args, shapes = (torch.ones(2, 3), torch.ones(2, 3)), {"x": {1: t}, "mask": {1: t}}
    program = capture(lambda: (Counting(), args, {}, shapes))
    assert {pin.site for pin in program.pins} == {"x.shape[1]", "mask.shape[1]"}
    conditions = {to_text(read.condition, program.words) for read in read_guards(program) if read.condition is not None}
    assert conditions - {"True"} == {"t == 3", "t // 8 <= 0"}
    assert {program.ranges.get(symbol) for symbol, name in program.names.items() if name == "t"} == {Range(0, 9)}
