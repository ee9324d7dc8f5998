"""Programs whose parts do not agree, and calls that reach beyond their tensors: refused before anything runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export

import trtdiag
from tests.frontend.archive_samples import (
    WEIGHTS_CONFIG,
    branches,
    changed,
    convolutions,
    members,
    nested,
    saved,
    shared,
    with_program,
)
from tests.harness.rows import thinned
from trtdiag.errors import CaptureError
from trtdiag.frontend.archive.read import read_archive


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("honest")
    makers = (shared, nested, branches, convolutions, windows)
    return {make.__name__: saved(make(), folder / f"{make.__name__}.pt2") for make in makers}


class Windows(nn.Module):
    """Overlapping views of a row and of a part of it, within its memory."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.as_strided(x, (x.shape[0] - 2, 3), (1, 1)) * 2, torch.as_strided(x[2:], (2,), (1,), 0) + 1


def windows() -> Any:
    return export(Windows(), (torch.arange(7.0),), dynamic_shapes={"x": {0: Dim("n", min=5, max=31)}})


def nodes(program: dict[str, Any]) -> list[dict[str, Any]]:
    return program["graph_module"]["graph"]["nodes"]


def calls(program: dict[str, Any], target: str) -> dict[str, Any]:
    return next(node for node in nodes(program) if target in node["target"])


def _set(place: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """A change of one value; the place as in ``a.0.b``."""

    def change(program: dict[str, Any]) -> None:
        *steps, last = [int(step) if step.isdigit() else step for step in place.split(".")]
        inner: Any = program
        for step in steps:
            inner = inner[step]
        inner[last] = value

    return change


def _drop_input(program: dict[str, Any]) -> None:
    del calls(program, "aten.linear")["inputs"][1]


def _rename_input(program: dict[str, Any]) -> None:
    calls(program, "aten.linear")["inputs"][0]["name"] = "matrix"


def _repeat_input(program: dict[str, Any]) -> None:
    calls(program, "aten.linear")["inputs"][1]["name"] = "input"


def _text_for_a_size(program: dict[str, Any]) -> None:
    calls(program, "aten.linear")["inputs"][0]["arg"] = {"as_string": "x"}


def _no_entries(program: dict[str, Any]) -> None:
    program["graph_module"]["module_call_graph"].clear()


def _swap_specs(program: dict[str, Any]) -> None:
    specs = program["graph_module"]["signature"]["input_specs"]
    specs[0], specs[-1] = specs[-1], specs[0]


def _drop_spec(program: dict[str, Any]) -> None:
    program["graph_module"]["signature"]["input_specs"].pop()


def _drop_output(program: dict[str, Any]) -> None:
    program["graph_module"]["signature"]["output_specs"].pop()


def _other_weight(program: dict[str, Any]) -> None:
    for spec in program["graph_module"]["signature"]["input_specs"]:
        if "parameter" in spec:
            spec["parameter"]["parameter_name"] = "nowhere"
            return


def _wider_weight(program: dict[str, Any]) -> None:
    values = program["graph_module"]["graph"]["tensor_values"]
    values["p_first_bias"]["sizes"] = [{"as_int": 500}]


def _other_in_spec(program: dict[str, Any]) -> None:
    signature = program["graph_module"]["module_call_graph"][0]["signature"]
    signature["in_spec"] = signature["out_spec"]


def _branch_of_more(program: dict[str, Any]) -> None:
    operands = calls(program, "higher_order.cond")["inputs"][3]["arg"]["as_tensors"]
    operands.append(operands[0])


DISAGREEING: dict[str, tuple[str, Callable[[dict[str, Any]], None], str]] = {
    "input of an op renamed": ("shared", _rename_input, "matrix"),
    "input of an op left out": ("shared", _drop_input, "weight"),
    "input of an op twice": ("shared", _repeat_input, "input"),
    "input of an op of another kind": ("shared", _text_for_a_size, "Tensor"),
    "first entry of another module": ("shared", _set("graph_module.module_call_graph.0.fqn", "first"), "module_call"),
    "first entry without signature": (
        "shared",
        _set("graph_module.module_call_graph.0.signature", None),
        "module_call",
    ),
    "no entries": ("shared", _no_entries, "module_call"),
    "inputs in another order": ("nested", _swap_specs, "inputs of the signature"),
    "an input less": ("nested", _drop_spec, ""),
    "an output less": ("nested", _drop_output, ""),
    "a weight that is not there": ("shared", _other_weight, "nowhere"),
    "a weight of another size": ("shared", _wider_weight, "500"),
    "inputs nested as the outputs": ("shared", _other_in_spec, ""),
    "a branch that takes less": ("branches", _branch_of_more, "hands on 2 values"),
}


def _stride_less(program: dict[str, Any]) -> None:
    calls(program, "aten.as_strided")["inputs"][2]["arg"]["as_ints"].pop()


def _one_name_twice(program: dict[str, Any]) -> None:
    names = program["graph_module"]["module_call_graph"][0]["signature"]["forward_arg_names"]
    names.append(names[0])


def _names_turned_round(program: dict[str, Any]) -> None:
    program["graph_module"]["module_call_graph"][0]["signature"]["forward_arg_names"].reverse()


def _far_dim(program: dict[str, Any]) -> None:
    total = calls(program, "aten.sum")
    total["target"] = "torch.ops.aten.sum.dim_IntList"
    total["inputs"].append({"name": "dim", "arg": {"as_ints": [2]}, "kind": 1})


def _constant_called(name: str) -> Callable[[dict[str, Any]], None]:
    def change(program: dict[str, Any]) -> None:
        specs = program["graph_module"]["signature"]["input_specs"]
        next(spec for spec in specs if "constant_input" in spec)["constant_input"]["name"] = name

    return change


DISAGREEING["a constant with the name of an input"] = ("nested", _constant_called("many_1"), "inputs of the signature")
DISAGREEING["a dim that there is not"] = ("branches", _far_dim, "names the dim 2")
DISAGREEING["a constant called self"] = ("nested", _constant_called("self"), "called self")
DISAGREEING["one name for two arguments"] = ("shared", _one_name_twice, "one name")
DISAGREEING["a name by place and by name"] = ("shared", _names_turned_round, "by place and by name")
DISAGREEING["a stride less than sizes"] = ("windows", _stride_less, "different numbers")


# Quick: the ends and each third.
@thinned("name", DISAGREEING, every=3)
def test_parts_that_do_not_agree(name: str, paths: dict[str, Path], tmp_path: Path) -> None:
    source, change, said = DISAGREEING[name]
    path = with_program(paths[source], tmp_path / "m.pt2", change)
    with pytest.raises(CaptureError) as caught:
        read_archive(path)
    # What torch's own builder refuses it names itself.
    assert caught.value.reference in ("corrupt-program", "load-failed")
    assert said in caught.value.because or caught.value.reference == "load-failed"
    with pytest.raises(CaptureError):
        trtdiag.analyze(path)


def test_views_within_their_memory_are_read(paths: dict[str, Path]) -> None:
    program = read_archive(paths["windows"]).exported
    first, second = program.module()(torch.arange(9.0))
    assert first.shape == (7, 3)
    assert second.tolist() == [1.0, 2.0]


def _ints(*values: int) -> dict[str, Any]:
    return {"as_ints": [*values]}


def _strided(program: dict[str, Any], target: str, *given: tuple[str, dict[str, Any]]) -> None:
    node = calls(program, "aten.as_strided")
    node["target"] = f"torch.ops.{target}"
    by_name = ("lengths", "unsafe")
    first = {**node["inputs"][0], "name": "data" if "segment" in target else "self"}
    node["inputs"] = [first, *({"name": name, "arg": arg, "kind": 1 + (name in by_name)} for name, arg in given)]


REACHING = {
    "far sizes": ("aten.as_strided.default", ("size", _ints(100_000)), ("stride", _ints(1))),
    "a number for a list": ("aten.as_strided.default", ("size", {"as_int": 100_000}), ("stride", {"as_int": 1})),
    "one element": ("aten.as_strided.default", ("size", _ints(8)), ("stride", _ints(1))),
    "far strides": ("aten.as_strided.default", ("size", _ints(2, 2)), ("stride", _ints(1 << 40, 1))),
    "far start": (
        "aten.as_strided.default",
        ("size", _ints(1)),
        ("stride", _ints(1)),
        ("storage_offset", {"as_int": 7}),
    ),
    "before the start": (
        "aten.as_strided.default",
        ("size", _ints(1)),
        ("stride", _ints(1)),
        ("storage_offset", {"as_int": -3}),
    ),
    "a copy": ("aten.as_strided_copy.default", ("size", _ints(100_000)), ("stride", _ints(1))),
    "another label": ("aten._reshape_alias.default", ("size", _ints(100_000)), ("stride", _ints(1))),
    "reinterpreted": (
        "inductor._reinterpret_tensor.default",
        ("size", _ints(100_000)),
        ("stride", _ints(1)),
        ("offset_increment", {"as_int": 0}),
    ),
    "from a pool": (
        "inductor._alloc_from_pool.default",
        ("offset_bytes", {"as_int": 0}),
        ("dtype", {"as_scalar_type": 7}),
        ("size", _ints(100_000)),
        ("stride", _ints(1)),
    ),
    "set": (
        "aten.set_.source_Tensor_storage_offset",
        ("source", {"as_tensor": {"name": "x"}}),
        ("storage_offset", {"as_int": 0}),
        ("size", _ints(100_000)),
        ("stride", _ints(1)),
    ),
    "resized": ("aten.resize_.default", ("size", _ints(100_000))),
    "unchecked lengths": (
        "aten.segment_reduce.default",
        ("reduce", {"as_string": "sum"}),
        ("lengths", {"as_tensor": {"name": "x"}}),
        ("unsafe", {"as_bool": True}),
    ),
}


@pytest.mark.parametrize("name", REACHING)
def test_reaching_beyond_a_tensor(name: str, paths: dict[str, Path], tmp_path: Path) -> None:
    target, *given = REACHING[name]
    path = with_program(paths["windows"], tmp_path / "m.pt2", lambda program: _strided(program, target, *given))
    for use in (trtdiag.analyze, trtdiag.compile, trtdiag.fix_dims):
        with pytest.raises(CaptureError) as caught:
            use(path)
        assert caught.value.reference == "unsafe-operator"
        assert target.partition(".")[2].partition(".")[0] in str(caught.value)


class Normalized(nn.Module):
    """Statistics of five channels, and a tensor that is shorter than these."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(5)
        self.register_buffer("short", torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x) * self.short


@pytest.fixture(scope="module")
def normalized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    dims = {"x": {0: Dim("n", min=1, max=9)}}
    program = export(Normalized().eval(), (torch.randn(2, 5, 3, 3),), dynamic_shapes=dims).run_decompositions()
    return saved(program, tmp_path_factory.mktemp("normalized") / "m.pt2")


# Quick: a weight and a statistic.
@thinned("argument", ["weight", "bias", "running_mean", "running_var"], every=9)
def test_statistics_of_too_few_channels(argument: str, normalized: Path, tmp_path: Path) -> None:
    def shorter(program: dict[str, Any]) -> None:
        for given in calls(program, "batch_norm")["inputs"]:
            if given["name"] == argument:
                given["arg"] = {"as_tensor": {"name": "b_short"}}

    assert read_archive(normalized).exported is not None
    with pytest.raises(CaptureError) as caught:
        read_archive(with_program(normalized, tmp_path / "m.pt2", shorter))
    assert caught.value.reference == "unsafe-operator"
    assert f"its {argument} has the sizes 1" in caught.value.because


class Attention(nn.Module):
    """The kernel that attention runs on the CPU."""

    def forward(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, keys, values)[0]


def test_values_shorter_than_keys(tmp_path: Path) -> None:
    query, keys = torch.randn(2, 3, 1, 4), torch.randn(2, 3, 7, 4)
    honest = saved(export(Attention(), (query, keys, keys + 1)), tmp_path / "honest.pt2")
    assert read_archive(honest).exported is not None

    def shorter(program: dict[str, Any]) -> None:
        given = {each["name"]: each for each in calls(program, "_scaled_dot_product")["inputs"]}
        given["value"]["arg"] = {"as_tensor": {"name": "query"}}

    with pytest.raises(CaptureError) as caught:
        read_archive(with_program(honest, tmp_path / "m.pt2", shorter))
    assert caught.value.reference == "unsafe-operator"
    assert "its values 2x3x1x4" in caught.value.because


def test_verifying_against_one(paths: dict[str, Path], tmp_path: Path) -> None:
    target, *given = REACHING["far sizes"]
    hostile = with_program(paths["windows"], tmp_path / "m.pt2", lambda program: _strided(program, target, *given))
    compiled = trtdiag.compile(paths["windows"], backend="reference", force=True)
    with pytest.raises(CaptureError) as caught:
        trtdiag.verify(compiled, hostile)
    assert caught.value.reference == "unsafe-operator"


def test_a_buffer_that_is_said_to_be_a_parameter(paths: dict[str, Path], tmp_path: Path) -> None:
    config = json.loads(members(paths["shared"])[WEIGHTS_CONFIG])
    config["config"]["table"]["is_param"] = True
    path = changed(paths["shared"], tmp_path / "m.pt2", {WEIGHTS_CONFIG: json.dumps(config).encode()})
    with pytest.raises(CaptureError) as caught:
        read_archive(path)
    assert caught.value.reference == "corrupt-program"


@pytest.mark.parametrize(
    "change",
    [
        {"sizes": [{"as_int": 5}, {"as_int": 6}]},
        {"strides": [{"as_int": 1 << 40}, {"as_int": 1}]},
        {"storage_offset": {"as_int": 1}},
        {"storage_offset": {"as_int": -1}},
    ],
    ids=["sizes", "strides", "start", "before"],
)
def test_weights_that_are_said_to_reach_beyond_their_bytes(
    change: dict[str, Any], paths: dict[str, Path], tmp_path: Path
) -> None:
    config = json.loads(members(paths["shared"])[WEIGHTS_CONFIG])
    config["config"]["first.weight"]["tensor_meta"].update(change)
    path = changed(paths["shared"], tmp_path / "m.pt2", {WEIGHTS_CONFIG: json.dumps(config).encode()})
    with pytest.raises(CaptureError) as caught:
        read_archive(path)
    assert caught.value.reference == "corrupt-program"
