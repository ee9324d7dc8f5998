"""The parts below reading: strict types, saved tensors, call targets, containers."""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
from collections import OrderedDict
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch._export.serde import schema
from torch.utils import _pytree as pytree

from tests.frontend.archive_samples import PROGRAM, PROGRAMS, Pair, members, saved, torch_saved
from tests.harness.rows import each, thinned
from tests.random_cases import cases
from trtdiag.frontend.archive.operators import advice_for, judge
from trtdiag.frontend.archive.safe_load import UnsafePickleError, foreign_globals, load_plain
from trtdiag.frontend.archive.schema import MismatchError, SchemaReader
from trtdiag.frontend.archive.summary import namespace_of
from trtdiag.frontend.archive.treespecs import UnknownTypeError, UnsafeSpecError, check_treespec


# Quick: each other program; all are read in test_archive_round_trip.py.
@thinned("name", PROGRAMS, every=2)
def test_the_schema_reader_builds_what_torch_builds(name: str, tmp_path: Any) -> None:
    from torch._export.serde.serialize import _dict_to_dataclass

    program = json.loads(members(saved(PROGRAMS[name](), tmp_path / "m.pt2"))[PROGRAM])
    assert SchemaReader({}).read(schema.ExportedProgram, program) == _dict_to_dataclass(schema.ExportedProgram, program)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (schema.RangeConstraint, {"min_val": "1", "max_val": None}, "min_val is '1' and should be a whole number"),
        (schema.RangeConstraint, {"min_val": True, "max_val": None}, "min_val is True and should be a whole number"),
        (schema.RangeConstraint, {"min_val": 1}, "the whole lacks 'max_val'"),
        (schema.RangeConstraint, 3, "the whole is 3 and should be an object (RangeConstraint)"),
        (schema.SymInt, {"as_int": 1.0}, "as_int is 1.0 and should be a whole number"),
        (schema.SymInt, {"as_int": 1, "as_expr": None}, "the whole is an object and should have exactly one member"),
        (schema.SymInt, {"as_text": "a"}, "the whole is of the kind 'as_text', which SymInt does not have"),
        (schema.SymFloat, {"as_float": "much"}, "as_float is 'much' and should be a number"),
        (schema.SymFloat, {"as_float": 10**400}, "as_float is too large for a float"),
        (schema.NamedTupleDef, {"field_names": ["a", None]}, "field_names[1] is null and should be a text"),
        (schema.NamedTupleDef, {"field_names": "ab"}, "field_names is 'ab' and should be a list"),
        (schema.PayloadConfig, {"config": {"w": []}}, "config['w'] is a list and should be an object"),
        (schema.Argument, {"as_scalar_type": 99}, "as_scalar_type is 99, which ScalarType does not have"),
    ],
)
def test_the_schema_reader_says_where(kind: type, value: object, expected: str) -> None:
    with pytest.raises(MismatchError) as caught:
        SchemaReader({}).read(kind, value)
    assert str(caught.value).startswith(expected)


def test_infinities_as_torch_writes_them() -> None:
    for text, value in (("Infinity", float("inf")), ("-Infinity", -float("inf"))):
        assert SchemaReader({}).read(schema.SymFloat, {"as_float": text}).as_float == value


PLAIN = [
    {"w": torch.arange(7), "n": 3, "t": "text", "f": 0.5, "none": None, "b": True},
    (torch.randn(3, 1), [torch.ones(0), torch.zeros(1, dtype=torch.bfloat16)]),
    OrderedDict(a=torch.nn.Parameter(torch.randn(2, 5))),
    torch.tensor(1 + 2j),
    {"dims": {0, 3}, "frozen": frozenset([1]), "c": 1 + 2j, "s": slice(1, None, 2)},
    {"half": torch.ones(3, dtype=torch.float16), "q": torch.zeros(2, dtype=torch.float8_e4m3fn)},
]


@pytest.mark.parametrize("value", PLAIN, ids=range(len(PLAIN)))
def test_plain_values_are_read(value: object) -> None:
    read = load_plain(torch_saved(value), "member")
    leaves, spec = pytree.tree_flatten(value)
    others, other_spec = pytree.tree_flatten(read)
    assert spec == other_spec
    for leaf, other in zip(leaves, others, strict=True):
        assert torch.equal(leaf, other) if isinstance(leaf, torch.Tensor) else leaf == other


def test_example_inputs_that_torch_has_marked_are_read() -> None:
    """torch.export notes dynamic dims in sets on the tensors it was given, and pickles them with the tensor."""
    x = torch.ones(3, 5)
    torch._dynamo.mark_dynamic(x, 1)
    read = load_plain(torch_saved(((x,), {})), "member")
    assert torch.equal(read[0][0], x)  # type: ignore[index]


class Reduced:
    """Pickles as a call."""

    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call[0], tuple(self.call[1:])


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Reduced(os.system, "true"), f"{os.name}.system"),
        (Reduced(eval, "1"), "builtins.eval"),
        (Reduced(torch.load, "x"), "torch.serialization.load"),
        (torch.nn.Linear(2, 2), "torch.nn.modules.linear.Linear"),
        (Pair(1, 2), "tests.frontend.archive_samples.Pair"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_anything_else_is_named(value: object, name: str, protocol: int) -> None:
    buffer = io.BytesIO()
    torch.save(value, buffer, pickle_protocol=protocol)
    with pytest.raises(UnsafePickleError) as caught:
        load_plain(buffer.getvalue(), "member")
    # Protocol 2 writes builtins under their name in Python 2.
    assert caught.value.globals[0].replace("__builtin__", "builtins") == name


_REBUILT = torch._utils
_SIX = torch.arange(6.0)
_COUNT, _NO_HOOKS = torch.ones(1), OrderedDict()


def _stored() -> torch.storage.TypedStorage:
    return torch.storage.TypedStorage(wrap_storage=_SIX.untyped_storage(), dtype=torch.float32, _internal=True)


REACHING = {
    "sizes": (_REBUILT._rebuild_tensor_v2, lambda: (_stored(), 0, (7,), (1,), False, _NO_HOOKS)),
    "strides": (_REBUILT._rebuild_tensor_v2, lambda: (_stored(), 0, (2, 2), (5, 1), False, _NO_HOOKS)),
    "start": (_REBUILT._rebuild_tensor_v2, lambda: (_stored(), 6, (1,), (1,), False, _NO_HOOKS)),
    "before": (_REBUILT._rebuild_tensor_v2, lambda: (_stored(), -1, (1,), (1,), False, _NO_HOOKS)),
    "a longer dtype": (_REBUILT._rebuild_tensor_v3, lambda: (_stored(), 0, (6,), (1,), False, _NO_HOOKS, torch.int64)),
    "indices": (
        _REBUILT._rebuild_sparse_tensor,
        lambda: (torch.sparse_coo, (torch.tensor([[3]]), _COUNT, torch.Size([3]), False)),
    ),
    "rows": (
        _REBUILT._rebuild_sparse_tensor,
        lambda: (torch.sparse_csr, (torch.tensor([0, 9]), torch.tensor([0]), _COUNT, torch.Size([1, 3]))),
    ),
    "parts": (_REBUILT._rebuild_nested_tensor, lambda: (_SIX, *map(torch.tensor, ([[9]], [[1]], [0])))),
}


@pytest.mark.parametrize("name", REACHING)
def test_saved_tensors_that_reach_beyond_their_bytes(name: str) -> None:
    rebuild, arguments = REACHING[name]
    with pytest.raises(UnsafePickleError):
        load_plain(torch_saved({"w": Reduced(rebuild, *arguments())}), "member")


def test_sparse_tensors_are_read() -> None:
    eye = torch.eye(3)
    for layout in (eye.to_sparse(), eye.to_sparse_csr()):
        assert torch.equal(load_plain(torch_saved(layout), "member").to_dense(), eye)  # type: ignore[attr-defined]


@pytest.mark.parametrize("content", [b"", b"PK", b"PK\x03\x04", b"\x80\x02.", b"\x80\x04\x95", bytes(100)])
def test_damaged_payloads(content: bytes) -> None:
    with pytest.raises(UnsafePickleError):
        load_plain(content, "member")


@settings(max_examples=cases(300), deadline=None)
@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda tail: pickle.dumps([1, "a", {}])[:-1] + tail))
def test_scanning_any_bytes_ends(content: bytes) -> None:
    assert all(isinstance(name, str) for name in foreign_globals(content))


@pytest.mark.parametrize(
    "target",
    [
        "torch.ops.aten.add.Tensor",
        "torch.ops.aten.__and__.Tensor",
        "torch.ops.aten.sym_size.int",
        "torch.ops.prims.convert_element_type.default",
        "torch.ops.higher_order.cond",
        "torch.ops.higher_order.while_loop",
        "torch.ops.higher_order.wrap_with_set_grad_enabled",
        "_operator.add",
        "_operator.floordiv",
        "_operator.getitem",
        "math.trunc",
        "math.ceil",
        "torch.sym_max",
        "torch.sym_float",
        "torch.sym_not",
        "torch.sym_sum",
        "torch._functorch.predispatch._vmap_increment_nesting",
    ],
)
def test_operators(target: str) -> None:
    assert judge(target) == (True, "")


@each(
    "target",
    [
        "torch.load",
        "torch.hub.load",
        "torch.os.system",
        "torch.ops.load_library",
        "torch.ops.load_library.a.default",
        "torch.ops.import_module.os.default",
        "torch.ops.__class__.a.b",
        "torch.ops.aten.from_file.default",
        "torch.ops.higher_order.aoti_call_delegate",
        "torch.export.custom_ops._call_custom_autograd_function_in_pre_dispatch",
        "torch.fx._symbolic_trace.Tracer",
        "torchevil.load",
        "_operator.attrgetter",
        "_operator.methodcaller",
        "_operator.call",
        "_operator.setitem",
        "math.__loader__.load_module",
        "builtins.eval",
        "os.system",
        "#",
        "#a",
        "",
        "torch.ops.aten.add.Tensor\n",
        "torch.ops.aten.add.Tensor.extra",
    ],
)
def test_no_operators(target: str) -> None:
    known, refusal = judge(target)
    assert not known
    assert refusal


@pytest.mark.parametrize(
    ("target", "namespace"),
    [
        ("torch.ops.unheard_of.nms.default", "unheard_of"),
        ("torch.ops.aten.unheard_of.default", None),
        ("torch.ops.aten.add.unheard_of", None),
        ("torch.ops.higher_order.unheard_of", None),
        ("#unheard_of:op", "unheard_of"),
    ],
)
def test_operators_that_are_not_registered(target: str, namespace: str | None) -> None:
    assert judge(target) == (False, "")
    assert namespace_of(target) == namespace


def test_advice_names_packages_once() -> None:
    advice = advice_for(
        ["torch.ops.image.a.default", "torch.ops.torchvision.b.default", "torch.ops.aten.c.default"], "3.0"
    )
    assert advice.count("import torchvision before") == 1
    assert "3.0" in advice


def test_advice_names_the_module_that_registers_an_op(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As transformers, whose import registers nothing: --import of it was advised again where it was given."""
    package = tmp_path / "late_ops"
    (package / "parts").mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('nothing of it is imported')")
    (package / "other.py").write_text("OPS = ['late_ops::twice_as_much', 'late_ops.twice']")
    (package / "parts" / "__init__.py").write_text("torch.library.define('late_ops::twice(Tensor x) -> Tensor')")
    monkeypatch.syspath_prepend(tmp_path)
    advice = advice_for(["torch.ops.late_ops.twice.default"], None)
    assert advice == "import late_ops.parts before reading the file (option --import late_ops.parts)"
    unknown = advice_for(["torch.ops.late_ops.thrice.default"], None)
    assert unknown.startswith("import late_ops before reading the file")
    assert unknown.endswith("import the module that registers it")


class Color(Enum):
    RED = 1


SPECS = [
    (),
    (1, [2, {"a": 3}], {}),
    OrderedDict(b=1),
    {Color.RED: 1, 3: 2},
    Pair(1, (2,)),
    torch.Size([1]),
    None,
]


@pytest.mark.parametrize("value", SPECS, ids=repr)
def test_containers_that_are_registered(value: object) -> None:
    check_treespec(pytree.treespec_dumps(pytree.tree_structure(value)))


def _spec(kind: object, context: object, *children: object) -> str:
    return json.dumps([1, {"type": kind, "context": context, "children_spec": children}])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[2, {}]", UnsafeSpecError),
        ("{}", UnsafeSpecError),
        ("[1, 2]", UnsafeSpecError),
        ("[" * 5000, UnsafeSpecError),
        (_spec("os.system", "[]"), UnknownTypeError),
        (_spec(["a"], "[]"), UnknownTypeError),
        (_spec("builtins.dict", 3), UnsafeSpecError),
        (_spec("builtins.dict", "not json"), UnsafeSpecError),
        (_spec("builtins.list", None), UnsafeSpecError),
        (_spec(None, "context"), UnsafeSpecError),
        (_spec("collections.namedtuple", "os.system"), UnknownTypeError),
        (
            _spec("collections.defaultdict", {"default_factory_module": "os", "default_factory_name": "system"}),
            UnsafeSpecError,
        ),
        (
            _spec("collections.defaultdict", {"default_factory_module": ["os"], "default_factory_name": "system"}),
            UnsafeSpecError,
        ),
        (_spec("collections.defaultdict", "text"), UnsafeSpecError),
        (_spec("builtins.dict", json.dumps([{"__enum__": True, "fqn": "os:system", "name": "a"}])), UnsafeSpecError),
        (_spec("builtins.dict", json.dumps([{"__enum__": True, "fqn": "os:path.join", "name": "a"}])), UnsafeSpecError),
        (
            _spec("builtins.dict", json.dumps([{"__enum__": True, "fqn": "antigravity:A", "name": "a"}])),
            UnknownTypeError,
        ),
    ],
)
def test_containers_that_are_not(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        check_treespec(text)


class Layer:
    """A part of a cache."""


@pytest.fixture
def cache_of_transformers(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a class that is registered as transformers' exporters register caches; ``Layer`` is of its module."""
    module = ModuleType("transformers.stand_in")
    module.Layer, module.Rows = Layer, type("Rows", (list,), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    made, name = type("Cache", (), {}), f"{module.__name__}:Cache"
    pytree.register_pytree_node(made, lambda cache: ([], None), lambda values, context: None, serialized_type_name=name)
    yield name
    pytree._deregister_pytree_node(made)


def _part(tag: str, path: str, **rest: object) -> dict[str, object]:
    return {"_t": tag, "p": path, **rest}


OF_TRANSFORMERS = "transformers.stand_in:Layer"


@pytest.mark.parametrize(
    ("part", "made_by"),
    [
        (_part("obj", OF_TRANSFORMERS, s={"rows": _part("seq", "transformers.stand_in:Rows", v=[])}), ""),
        (_part("map", "collections:OrderedDict", v={"a": [_part("type", OF_TRANSFORMERS)]}), ""),
        (_part("seq", "builtins:tuple", v=[{"_t": ["a"]}, {"_t": "tensor", "i": 0}]), ""),
        (_part("seq", "os:system", v=["true"]), "os:system"),
        (_part("seq", "builtins:eval", v=["1"]), "builtins:eval"),
        ({"keys": [_part("type", "antigravity:A")]}, "antigravity:A"),
        (_part("map", OF_TRANSFORMERS, v={}), f"{OF_TRANSFORMERS}, which is no container"),
        (_part("seq", "transformers.other:Rows", v=[]), "transformers.other:Rows"),
        (_part("obj", "transformers.stand_in:Layer.real", s={}), "transformers.stand_in:Layer.real"),
    ],
)
def test_caches_of_transformers_are_made_of_its_classes_alone(
    part: object, made_by: str, cache_of_transformers: str
) -> None:
    text = _spec(cache_of_transformers, json.dumps(part))
    if not made_by:
        check_treespec(text)
        return
    with pytest.raises(UnsafeSpecError) as caught:
        check_treespec(text)
    assert str(caught.value).endswith(f" {made_by}")
