"""Code in texts that torch evaluates, compiles, imports or resolves: each place has its own refusal.

As in the test of pickles, a payload only makes an empty directory, and where torch runs it, that is shown.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._export.verifier import SpecViolationError

from tests.frontend.archive_samples import (
    PROGRAM,
    PROGRAMS,
    changed,
    loaded_by_torch,
    members,
    renamed,
    saved,
    with_program,
)
from trtdiag.errors import CaptureError
from trtdiag.frontend.archive.read import inspect_archive, read_archive

Change = Callable[[dict[str, Any], str], None]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("honest")
    return {name: saved(make(), folder / f"{name}.pt2") for name, make in PROGRAMS.items()}


def _graph(program: dict[str, Any]) -> dict[str, Any]:
    graph: dict[str, Any] = program["graph_module"]["graph"]
    return graph


def _entry_signature(program: dict[str, Any]) -> dict[str, Any]:
    signature: dict[str, Any] = program["graph_module"]["module_call_graph"][0]["signature"]
    return signature


def _size(program: dict[str, Any], code: str) -> None:
    for meta in _graph(program)["tensor_values"].values():
        for size in meta["sizes"]:
            if "as_expr" in size:
                size["as_expr"]["expr_str"] = code
                return
    raise AssertionError("the program has no dynamic size")


def _guard(program: dict[str, Any], code: str) -> None:
    program["guards_code"].append(f"{code} is None or L['x'].size()[1] >= 2")


def _quoted_guard(program: dict[str, Any], code: str) -> None:
    """Ends the message that torch puts the guard's text in."""
    program["guards_code"].append(f"""L['x" + str({code}) + "'] == 1""")


def _forward_names(program: dict[str, Any], code: str) -> None:
    names = _entry_signature(program)["forward_arg_names"]
    names[0] = f"{names[0]}={code}"


def _keyword_names(program: dict[str, Any], code: str) -> None:
    signature = _entry_signature(program)
    signature["forward_arg_names"] = None
    protocol, spec = json.loads(signature["in_spec"])
    keywords = spec["children_spec"][1]
    keywords["context"] = json.dumps([f"x={code}"] * len(json.loads(keywords["context"])))
    signature["in_spec"] = json.dumps([protocol, spec])


def _target(program: dict[str, Any], code: str) -> None:
    del code
    _graph(program)["nodes"][0]["target"] = "torch.os.system"


def _operator_argument(program: dict[str, Any], code: str) -> None:
    del code
    _graph(program)["nodes"][0]["inputs"][0]["arg"] = {"as_operator": "torch.hub.load"}


def _method_caller(program: dict[str, Any], code: str) -> None:
    del code
    _graph(program)["nodes"][0]["target"] = "_operator.methodcaller"


def _import_of_ops(program: dict[str, Any], code: str) -> None:
    del code
    _graph(program)["nodes"][0]["target"] = "torch.ops.import_module.antigravity.default"


def _file_operator(program: dict[str, Any], code: str) -> None:
    del code
    _graph(program)["nodes"][0]["target"] = "torch.ops.aten.from_file.default"


def _origin(program: dict[str, Any], code: str) -> None:
    del code
    _graph(program)["nodes"][0]["metadata"]["source_fn_stack"] = "a,torch.nn.__builtins__"


def _module_path(program: dict[str, Any], code: str) -> None:
    _graph(program)["nodes"][0]["metadata"]["nn_module_stack"] = f'a,b" + str({code}) + ",torch.nn.Linear'


def _called_module(program: dict[str, Any], code: str) -> None:
    program["graph_module"]["module_call_graph"].append({"fqn": f'a" + str({code}) + "', "signature": None})


def _parameter(program: dict[str, Any], code: str) -> None:
    for spec in program["graph_module"]["signature"]["input_specs"]:
        if "parameter" in spec:
            spec["parameter"]["parameter_name"] += f'" + str({code}) + "'
            return
    raise AssertionError("the program has no parameter")


def _keyword_of_a_call(program: dict[str, Any], code: str) -> None:
    graph = _graph(program)
    node = next(node for node in graph["nodes"] if "higher_order" in node["target"])
    node["inputs"][0].update(name=f"pred={code}, x", kind=2)


def _inner_graph(program: dict[str, Any], code: str) -> None:
    for node in _graph(program)["nodes"]:
        for argument in node["inputs"]:
            if "as_graph" in argument["arg"]:
                argument["arg"]["as_graph"]["name"] = f'a" + str({code}) + "'
                return
    raise AssertionError("the program has no inner graph")


def _dialect(program: dict[str, Any], code: str) -> None:
    del code
    program["verifiers"] = ["EDGE"]


def _endless_number(program: dict[str, Any], code: str) -> None:
    del code
    _size(program, "Pow(Integer(10), Pow(Integer(10), Integer(10)))")


def _endless_symbols(program: dict[str, Any], code: str) -> None:
    del code
    program["range_constraints"]["u99999999999"] = {"min_val": 0, "max_val": 1}


# Which program, the change, how the refusal is called, and when torch runs the code: while it loads, when the loaded
# module is called, or not with this payload.
PLACES: Mapping[str, tuple[str, Change, str, str]] = {
    "size": ("convolutions", _size, "unsafe-expression", "load"),
    "guard": ("automatic", _guard, "unsafe-expression", "call"),
    "guard with quotes": ("automatic", _quoted_guard, "unsafe-expression", ""),
    "argument names of forward": ("automatic", _forward_names, "unsafe-name", ""),
    "keyword arguments of forward": ("shared", _keyword_names, "unsafe-name", ""),
    "target of a node": ("automatic", _target, "unsafe-operator", ""),
    "operator as an argument": ("automatic", _operator_argument, "unsafe-operator", ""),
    "method caller": ("automatic", _method_caller, "unsafe-operator", ""),
    "method of torch.ops": ("automatic", _import_of_ops, "unsafe-operator", ""),
    "operator that reads files": ("automatic", _file_operator, "unsafe-operator", ""),
    "origin of a node": ("automatic", _origin, "unsafe-operator", ""),
    "module path of a node": ("automatic", _module_path, "unsafe-name", ""),
    "called module": ("automatic", _called_module, "unsafe-name", ""),
    "parameter": ("convolutions", _parameter, "unsafe-name", ""),
    "keyword of a call": ("branches", _keyword_of_a_call, "unsafe-name", ""),
    "name of an inner graph": ("branches", _inner_graph, "unsafe-name", ""),
    "dialect": ("automatic", _dialect, "unknown-dialect", ""),
    "endless number": ("convolutions", _endless_number, "unsafe-expression", ""),
    "endless symbols": ("convolutions", _endless_symbols, "corrupt-program", ""),
}


@pytest.mark.parametrize("place", PLACES)
def test_refused_and_not_run(place: str, honest: dict[str, Path], tmp_path: Path) -> None:
    name, change, reference, torch_runs_it = PLACES[place]
    marker = tmp_path / "marker"
    path = with_program(honest[name], tmp_path / "planted.pt2", lambda program: change(program, _code(marker)))
    inspect_archive(path)
    with pytest.raises(CaptureError) as caught:
        read_archive(path)
    assert caught.value.reference == reference, caught.value
    assert not marker.exists()
    if torch_runs_it:
        _load_with_torch(path, call=torch_runs_it == "call")
        assert marker.exists()


def _code(marker: Path) -> str:
    return f"__import__('os').makedirs({str(marker)!r}, exist_ok=True)"


# What is renamed everywhere in the graph: an input becomes an argument of a function with a default value, which
# Python evaluates when it defines the function; any other name stands on the left of an assignment.
@pytest.mark.parametrize(("name", "old", "pattern", "runs"), [
    ("automatic", "x", "x={code}", True),
    ("convolutions", "conv2d", "{code}; conv2d", False),
    ("convolutions", "conv2d", "lambda", False),
    ("branches", "true_graph_0", "a.{code}", False),
])  # fmt: skip
def test_names_in_the_graph(
    name: str, old: str, pattern: str, runs: bool, honest: dict[str, Path], tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    path = renamed(honest[name], tmp_path / "planted.pt2", old, pattern.format(code=_code(marker)))
    with pytest.raises(CaptureError) as caught:
        read_archive(path)
    assert caught.value.reference == "unsafe-name"
    assert not marker.exists()
    if runs:
        _load_with_torch(path)
        assert marker.exists()


def _enum_key(module: str) -> dict[str, Any]:
    key = {"__enum__": True, "fqn": f"{module}:Color", "name": "RED"}
    return {"type": "builtins.dict", "context": json.dumps([key]), "children_spec": [_LEAF]}


def _factory(module: str) -> dict[str, Any]:
    context = {"default_factory_module": module, "default_factory_name": "make", "dict_context": ["a"]}
    return {"type": "collections.defaultdict", "context": context, "children_spec": [_LEAF]}


_LEAF = {"type": None, "context": None, "children_spec": []}


@pytest.mark.parametrize(
    ("make", "reference"), [(_enum_key, "unknown-input-type"), (_factory, "unsafe-name")], ids=["enum", "defaultdict"]
)
def test_a_module_is_not_imported_for_a_container(
    make: Callable[[str], dict[str, Any]],
    reference: str,
    honest: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marker = tmp_path / "marker"
    module = f"planted_{reference.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(f"{_code(marker)}\n")
    monkeypatch.syspath_prepend(tmp_path)

    def change(program: dict[str, Any]) -> None:
        _entry_signature(program)["out_spec"] = json.dumps([1, make(module)])

    path = with_program(honest["automatic"], tmp_path / "planted.pt2", change)
    with pytest.raises(CaptureError) as caught:
        read_archive(path)
    assert caught.value.reference == reference
    assert not marker.exists()
    assert module not in sys.modules
    _load_with_torch(path)
    assert marker.exists()


def test_json_is_read_once_and_by_one_reader(honest: dict[str, Path], tmp_path: Path) -> None:
    """Of two equal keys every JSON reader may take another one; what is checked here is what is used."""
    text = members(honest["convolutions"])[PROGRAM].decode()
    marker = tmp_path / "marker"
    doubled = text.replace('"expr_str":', f'"expr_str": {json.dumps(_code(marker))}, "expr_str":', 1)
    assert doubled != text
    read_archive(changed(honest["convolutions"], tmp_path / "doubled.pt2", {PROGRAM: doubled.encode()}))
    assert not marker.exists()


def _load_with_torch(path: Path, *, call: bool = False) -> None:
    try:
        program = loaded_by_torch(path)
        if call:
            args, kwargs = program.example_inputs
            program.module()(*args, **kwargs)
    except (AssertionError, AttributeError, KeyError, RuntimeError, SpecViolationError, TypeError, ValueError):
        return


@pytest.mark.slow  # quick: test_archive_round_trip.py
def test_the_samples_are_loaded_by_torch(honest: dict[str, Path]) -> None:
    """Without a change no file of this test fails: a refusal above is due to the change alone."""
    for path in honest.values():
        assert isinstance(loaded_by_torch(path), torch.export.ExportedProgram)
        read_archive(path)
