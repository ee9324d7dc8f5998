"""The metadata check: what is missing or wrong is found, repaired in a copy, and the program stays as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

from tests.harness.rows import thinned
from trtdiag.frontend.capture import capture
from trtdiag.lower.facts import Defect
from trtdiag.lower.metadata import check_metadata


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.relu(self.norm(self.conv(x)))
        values, index = torch.topk(y.flatten(1), 5)
        with torch.no_grad():
            y = y + 1
        return y.mean((2, 3)), values * index


def exported_net() -> ExportedProgram:
    dims = {0: Dim("batch", min=1, max=7), 2: Dim("h", min=8, max=61)}
    return export(Net().eval(), (torch.randn(2, 3, 13, 11),), dynamic_shapes={"x": dims})


def _strip(exported: ExportedProgram, name: str) -> None:
    node = next(node for node in exported.graph.nodes if node.name == name)
    del node.meta["val"]


def test_an_honest_program_has_no_defect_and_is_not_copied() -> None:
    exported = exported_net()
    checked = check_metadata(capture(exported))
    assert checked.defects == ()
    assert checked.graph_module is exported.graph_module
    assert checked.checked >= 10
    assert checked.recomputed >= 5
    assert not [why for why in checked.unchecked.values() if "subgraph" not in why], checked.unchecked


# An op and a weight; other ops are as the first.
@thinned("name", ["relu", "conv2d", "topk", "p_conv_weight"], every=9)
def test_a_stripped_node_is_named_and_repaired(name: str) -> None:
    exported = exported_net()
    right = str(next(n for n in exported.graph.nodes if n.name == name).meta["val"])
    _strip(exported, name)
    checked = check_metadata(capture(exported))
    (defect,) = checked.defects
    assert (defect.node, defect.defect, defect.repaired, defect.root) == (name, Defect.MISSING, True, True)
    repaired = next(n for n in checked.graph_module.graph.nodes if n.name == name)
    assert [str(t.shape) for t in _tensors(repaired.meta["val"])] == [
        str(t.shape) for t in _tensors(next(n for n in exported_net().graph.nodes if n.name == name).meta["val"])
    ], right
    stripped = next(n for n in exported.graph.nodes if n.name == name)
    assert "val" not in stripped.meta, "the program given by the user is never edited"


def _tensors(value: object) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else [v for v in value if isinstance(v, Tensor)]  # type: ignore[attr-defined]


@pytest.mark.slow  # quick: test_a_stale_value_is_found_where_it_is_and_not_downstream
def test_the_line_of_the_stripped_node_is_kept() -> None:
    exported = exported_net()
    _strip(exported, "relu")
    (defect,) = check_metadata(capture(exported)).defects
    assert defect.origin.stack.user is not None
    assert "torch.relu" in defect.origin.stack.user.code


def _half(value: Tensor) -> Tensor:
    return value.to(torch.float16)


def _wider(value: Tensor) -> Tensor:
    return torch.cat([value, value], -1)


@pytest.mark.parametrize("change", [_half, _wider])
def test_a_stale_value_is_found_where_it_is_and_not_downstream(change: Callable[[Tensor], Tensor]) -> None:
    exported = exported_net()
    node = next(n for n in exported.graph.nodes if n.name == "relu")
    with node.meta["val"].fake_mode:
        node.meta["val"] = change(node.meta["val"])
    checked = check_metadata(capture(exported))
    (defect,) = checked.defects
    assert (defect.node, defect.defect, defect.repaired) == ("relu", Defect.STALE, True)
    assert defect.recorded != defect.recomputed
    assert defect.recomputed.startswith("float32[")


def test_what_cannot_be_repaired_says_why() -> None:
    exported = exported_net()
    _strip(exported, "x")
    defects = {defect.node: defect for defect in check_metadata(capture(exported)).defects}
    assert not defects["x"].repaired
    assert "input" in defects["x"].cause


@pytest.mark.slow  # quick: what cannot be repaired says why
def test_a_node_behind_a_lost_data_dependent_size_is_reported() -> None:
    class Picks(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[x.sum(1) > 0] * 2

    exported = export(Picks(), (torch.randn(6, 3),), dynamic_shapes={"x": {0: Dim("n", min=2, max=31)}})
    index = next(n for n in exported.graph.nodes if "index" in n.name and n.op == "call_function")
    _strip(exported, index.name)
    (defect,) = [d for d in check_metadata(capture(exported)).defects if d.root]
    assert defect.node == index.name
    assert not defect.repaired
    assert "data" in defect.cause


def test_nested_subgraphs_are_checked_too() -> None:
    exported = exported_net()
    names = [name for name, _ in exported.graph_module.named_children()]
    if not names:
        pytest.skip("this torch inlines no_grad blocks, so there is no subgraph to strip")
    child = exported.graph_module.get_submodule(names[0])
    node = next(n for n in child.graph.nodes if n.op == "call_function")  # type: ignore[union-attr]
    node.meta = {key: value for key, value in node.meta.items() if key != "val"}  # torch shares it with a getitem
    checked = check_metadata(capture(exported))
    (defect,) = checked.defects
    assert defect.node == f"{names[0]}.{node.name}"
    assert defect.repaired
    again = checked.graph_module.get_submodule(names[0])
    assert all("val" in n.meta for n in again.graph.nodes if n.op == "call_function")  # type: ignore[union-attr]
    assert "val" not in node.meta


@pytest.mark.slow  # quick: test_a_stale_value_is_found_where_it_is_and_not_downstream
@pytest.mark.parametrize("kept", [True, False])
def test_a_dynamic_size_replaced_by_the_examples_number_is_stale(kept: bool) -> None:
    exported = exported_net()
    node = next(n for n in exported.graph.nodes if n.name == "relu")
    val = node.meta["val"]
    sizes = [val.shape[0] if kept else 2, 4, 13, 11]
    with val.fake_mode:
        node.meta["val"] = torch.empty(sizes)
    (defect,) = check_metadata(capture(exported)).defects
    assert (defect.node, defect.defect, defect.repaired) == ("relu", Defect.STALE, True)
    assert "for other sizes" in defect.cause
    assert "13" not in defect.recomputed


def test_a_reduction_that_drops_its_symbols_is_honest() -> None:
    class Sums(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.sum() + x.mean(0)[3]

    exported = export(Sums(), (torch.randn(5, 7),), dynamic_shapes={"x": {0: Dim("a", min=1, max=97)}})
    assert check_metadata(capture(exported)).defects == ()


def test_an_output_for_training_whose_size_the_gradients_of_a_weight_decide_is_no_defect() -> None:
    bags = nn.EmbeddingBag(11, 5, include_last_offset=True)
    dims = ({0: Dim("n", max=97)}, {0: Dim("b", min=3, max=13)})
    program = export(bags, (torch.arange(7), torch.tensor([0, 3, 5, 7])), dynamic_shapes=dims)
    checked = check_metadata(capture(program))
    assert checked.defects == ()
    assert checked.graph_module is program.graph_module


class AsksPython(nn.Module):
    """Asks ops for answers that Python uses while tracing: torch keeps the calls, with no value of theirs."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        wide = torch.promote_types(x.dtype, y.dtype)
        if torch.can_cast(x.dtype, y.dtype) and x.is_same_size(y) and torch.result_type(x, y) == wide:
            return x.to(wide) + y
        return x.to(wide) * 2


@pytest.mark.parametrize("batch", [None, Dim("batch", min=1, max=7)], ids=["static", "dynamic"])
def test_calls_whose_answer_only_python_used_have_no_value_to_be_wrong(batch: Dim | None) -> None:
    spec = None if batch is None else {"x": {0: batch}, "y": {0: batch}}
    exported = export(AsksPython(), (torch.randn(3, 5), torch.randn(3, 5).half()), dynamic_shapes=spec)
    kept = {str(node.target) for node in exported.graph.nodes}
    assert {"aten.promote_types.default", "aten.can_cast.default"} <= kept, "torch keeps no such call any more"
    checked = check_metadata(capture(exported))
    assert checked.defects == ()
    assert checked.graph_module is exported.graph_module


def test_a_size_by_a_function_that_is_not_read_is_no_defect() -> None:
    class Powers(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * torch.sym_ite(x.shape[0] ** 1.5 > 100, 2, 3)

    program = export(Powers(), (torch.randn(40),), dynamic_shapes=({0: Dim.DYNAMIC(min=8, max=64)},))
    assert check_metadata(capture(program)).defects == ()


@pytest.mark.skipif(torch.__version__ < "2.12", reason="torch 2.11 refuses a generator as an argument of an op")
def test_a_generator_of_random_numbers_is_no_tensor_to_be_checked() -> None:
    class Seeded(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.randn(3, generator=torch.Generator().manual_seed(0)).sum()

    program = export(Seeded(), (torch.randn(5),), dynamic_shapes=({0: Dim("n", max=64)},))
    assert not all(isinstance(value, Tensor) for value in program.constants.values())
    assert check_metadata(capture(program)).defects == ()
