"""Saved programs that state other sizes than their ops give: no kernel that trusts them is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

import trtdiag
from tests.frontend.archive_samples import saved, with_program
from trtdiag.errors import CaptureError
from trtdiag.frontend.archive.read import read_archive
from trtdiag.frontend.bounds_checked_run import BeyondTensorsError, trusted_calls_checked
from trtdiag.runtime.compiled import CompiledProgram

NORM = "aten._native_batch_norm_legit_no_training"
ALONE: dict[str, Any] = {"backend": "reference", "force": True, "keep_in_torch": [NORM]}


class Sliced(nn.Module):
    """Five of seven channels, normalized."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(5)

    def forward(self, x: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        other = x[:, : like.shape[0]] * 3
        return self.norm(x[:, :5] * 2), other


class Folded(nn.Module):
    """The same of a table, which is computed once."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(5)
        self.register_buffer("table", torch.randn(1, 7, 3, 3))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.norm(self.table[:, :5])


class Chosen(nn.Module):
    """The same in a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(5)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > -1e9, lambda y: self.norm(y[:, :5] * 2), lambda y: y[:, :5] - 1, (x,))


def sliced() -> ExportedProgram:
    dims = {"x": {0: Dim("n", min=1, max=9)}, "like": {0: Dim("m", min=2, max=6)}}
    args = (torch.randn(2, 7, 3, 3), torch.zeros(5))
    return export(Sliced().eval(), args, dynamic_shapes=dims).run_decompositions()


def nodes(graph: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for node in graph["nodes"]:
        yield node
        for given in node["inputs"]:
            inner = given["arg"].get("as_graph")
            yield from nodes(inner["graph"]) if inner else ()


def wider(program: dict[str, Any]) -> None:
    """The slice gives seven channels, and goes on saying five."""
    every = nodes(program["graph_module"]["graph"])
    ends = [
        each for node in every if "aten.slice" in node["target"] for each in node["inputs"] if each["name"] == "end"
    ]
    fives = [end for end in ends if end["arg"] == {"as_int": 5}]
    assert fives
    for end in fives:
        end["arg"] = {"as_int": 7}


def wider_elsewhere(program: dict[str, Any]) -> None:
    """What is normalized has as many channels as another input's size, which is five at the example alone."""
    graph = program["graph_module"]["graph"]
    norm = next(node for node in nodes(graph) if "batch_norm" in node["target"])
    name = next(node for node in nodes(graph) if "aten.mul" in node["target"])["outputs"][0]["as_tensor"]["name"]
    norm["inputs"][0]["arg"]["as_tensor"]["name"] = name
    graph["tensor_values"][name]["sizes"][1] = {"as_int": 5}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(sliced(), tmp_path_factory.mktemp("honest") / "m.pt2")


@pytest.fixture(scope="module")
def compiled(honest: Path) -> CompiledProgram:
    return trtdiag.compile(honest, **ALONE)


@pytest.fixture(scope="module")
def hostile(honest: Path) -> Path:
    return with_program(honest, honest.with_name("hostile.pt2"), wider)


USES: dict[str, Callable[[Path, CompiledProgram], Any]] = {
    "verify": lambda path, compiled: trtdiag.verify(compiled, path),
    "compile": lambda path, _: trtdiag.compile(path, backend="reference", force=True),
    "compile around it": lambda path, _: trtdiag.compile(path, **ALONE),
    "fix-dims": lambda path, _: trtdiag.fix_dims(path),
    "bench": lambda path, compiled: trtdiag.bench(compiled, model=path, rounds=1),
}


@pytest.mark.parametrize("use", USES)
def test_a_size_that_is_another_at_the_example(use: str, hostile: Path, compiled: CompiledProgram) -> None:
    assert read_archive(hostile).exported is not None  # by what it states it is right
    with pytest.raises(BeyondTensorsError) as caught:
        USES[use](hostile, compiled)
    error = caught.value
    assert (error.exit_code, error.reference) == (2, "beyond-tensors")
    assert NORM in error.message
    assert "test_trusted_calls.py:" in error.message  # the line of the model
    assert "its weight has the sizes 5, and its input 7 channels" in error.because
    assert "the program is a file, it was changed or is broken" in error.fix


def test_a_size_that_is_another_elsewhere(honest: Path, compiled: CompiledProgram, tmp_path: Path) -> None:
    path = with_program(honest, tmp_path / "m.pt2", wider_elsewhere)
    module = read_archive(path).exported.module()
    x = torch.randn(2, 7, 3, 3)
    with torch.no_grad(), trusted_calls_checked(module):
        assert module(x, torch.zeros(5))[0].shape[1] == 5
    with pytest.raises(BeyondTensorsError, match="batch_norm"):
        trtdiag.verify(compiled, path)
    with pytest.raises(BeyondTensorsError):
        trtdiag.bench(compiled, model=path, rounds=1, sizes=["opt", {"like.shape[0]": 6}])


def test_what_is_computed_once(tmp_path: Path) -> None:
    program = export(Folded().eval(), (torch.randn(2, 5, 3, 3),)).run_decompositions()
    path = with_program(saved(program, tmp_path / "honest.pt2"), tmp_path / "m.pt2", wider)
    for use in (trtdiag.analyze, trtdiag.compile):
        with pytest.raises(BeyondTensorsError, match="batch_norm"):
            use(path)


@pytest.mark.slow  # 1.6 s; what is in branches is looked at here alone
def test_in_a_branch(tmp_path: Path) -> None:
    program = export(Chosen().eval(), (torch.randn(2, 7, 3, 3),)).run_decompositions()
    path = saved(program, tmp_path / "honest.pt2")
    right = read_archive(path).exported.module()
    wrong = read_archive(with_program(path, tmp_path / "m.pt2", wider)).exported.module()
    with torch.no_grad():
        with trusted_calls_checked(right):
            assert right(torch.randn(2, 7, 3, 3)).shape[1] == 5
        with trusted_calls_checked(wrong), pytest.raises(BeyondTensorsError):
            wrong(torch.randn(2, 7, 3, 3))


@pytest.mark.slow  # quick: what is computed once, and a size that is another at the example of a compiled program
def test_a_compiled_file(compiled: CompiledProgram, tmp_path: Path) -> None:
    trtdiag.save(compiled, tmp_path / "c.ep")
    given = (torch.randn(2, 7, 3, 3), torch.zeros(4))
    right = trtdiag.load(tmp_path / "c.ep")
    assert torch.equal(right(*given)[0], right(*given)[0])  # the second call does not ask again

    loaded = trtdiag.load(with_program(tmp_path / "c.ep", tmp_path / "m.ep", wider_elsewhere))
    assert loaded(torch.randn(2, 7, 3, 3), torch.zeros(5))[0].shape[1] == 5
    for _ in range(2):
        with pytest.raises(BeyondTensorsError):
            loaded(*given)


class Bags(nn.Module):
    """Sums of rows, from one offset to the next."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.EmbeddingBag(50, 16, mode="sum")

    def forward(self, rows: Tensor, starts: Tensor) -> Tensor:
        return self.bags(rows, starts)


def test_what_the_data_decide_is_asked_at_each_call() -> None:
    rows = torch.arange(12)
    program = export(Bags().eval(), (rows, torch.tensor([0, 3, 9])))
    compiled = trtdiag.compile(program, backend="reference", force=True, keep_in_torch=["bags"])
    for _ in range(2):
        assert compiled(rows, torch.tensor([0, 3, 9])).shape == (3, 16)
        with pytest.raises(BeyondTensorsError, match="embedding_bag") as caught:
            compiled(rows, torch.tensor([0, 1 << 40, 9]))
        assert caught.value.by_elements


def test_sizes_at_which_made_up_data_lead_beyond_are_passed_over() -> None:
    """Offsets that are repeated from the example go back, and those of the example do not."""

    class Computed(Bags):
        def forward(self, rows: Tensor, starts: Tensor) -> Tensor:
            return super().forward(rows, starts * 7 % 10)

    dims = ({0: Dim("n", min=10, max=40)}, {0: Dim("b", min=2, max=30)})
    program = export(Computed().eval(), (torch.arange(12), torch.tensor([0, 3, 2, 1])), dynamic_shapes=dims)
    found = trtdiag.verify(trtdiag.compile(program, backend="reference"), program)
    assert [result.point.sizes for result in found.results if result.passed and not result.skipped]
    skipped = [result.skipped for result in found.results if result.skipped]
    assert skipped
    assert all("its offsets go from 0 to" in why for why in skipped)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(7, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x)[0]


def test_weights_of_a_recurrent_layer(tmp_path: Path) -> None:
    path = saved(export(Recurrent().eval(), (torch.randn(9, 3, 7),)), tmp_path / "honest.pt2")
    assert read_archive(path).exported is not None

    def another(program: dict[str, Any]) -> None:
        lstm = next(node for node in nodes(program["graph_module"]["graph"]) if "aten.lstm" in node["target"])
        weights = next(each for each in lstm["inputs"] if each["name"] == "params")["arg"]["as_tensors"]
        weights[0] = weights[1]

    with pytest.raises(CaptureError) as caught:
        read_archive(with_program(path, tmp_path / "m.pt2", another))
    assert caught.value.reference == "unsafe-operator"
    assert "has the sizes 16x4, and its layers need 16x7" in caught.value.because


class Attention(nn.Module):
    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(query, key, value)


def test_attention_of_a_file_whose_values_are_fewer_than_its_keys(tmp_path: Path) -> None:
    query, key = torch.randn(2, 3, 9, 16), torch.randn(2, 3, 11, 16)
    honest = saved(export(Attention(), (query, key, key + 1)), tmp_path / "honest.pt2")

    def fewer(program: dict[str, Any]) -> None:
        node = next(node for node in nodes(program["graph_module"]["graph"]) if "scaled_dot" in node["target"])
        next(each for each in node["inputs"] if each["name"] == "value")["arg"]["as_tensor"]["name"] = "query"

    with pytest.raises(CaptureError) as caught:
        trtdiag.analyze(with_program(honest, tmp_path / "m.pt2", fewer))
    assert caught.value.reference == "unsafe-operator"


def test_nothing_is_watched_where_nothing_trusts() -> None:
    module = export(nn.ReLU(), (torch.randn(2),)).module()
    with trusted_calls_checked(module) as watching:
        assert watching is None


def test_sizes_that_the_program_itself_states_are_passed_over(compiled: CompiledProgram) -> None:
    """Keys and values that a user declared apart: points at which they differ are left out, not an error."""
    query, key = torch.randn(2, 3, 9, 16), torch.randn(2, 3, 11, 16)
    dims = {"query": None, "key": {2: Dim("k", min=2, max=20)}, "value": {2: Dim("v", min=2, max=20)}}
    program = export(Attention(), (query, key, key + 1), dynamic_shapes=dims)
    del compiled
    found = trtdiag.verify(trtdiag.compile(program, backend="reference", force=True, verify=False), program)
    skipped = [result.skipped for result in found.results if result.skipped]
    assert any("its keys have the sizes" in why for why in skipped)
