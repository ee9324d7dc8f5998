"""Which call targets of a saved graph are operators.

torch resolves a target by walking attributes from ``torch``, ``operator`` or ``math`` and takes whatever callable it
finds (``torch.hub.load``, ``torch.os.system``): here only registered operators and a closed list of functions pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch._export.serde import serialize
from torch._export.verifier import Verifier

from trtdiag.converter_packages import load_packages
from trtdiag.frontend.archive.summary import DISPATCHED, EXTENSION, namespace_of
from trtdiag.frontend.archive.unsafe_operators import refusal_by_name, refusal_by_schema
from trtdiag.graph.quantizers import decomposed_ops

# Functions of torch that export leaves in graphs (the verifier's own list, without
# _call_custom_autograd_function_in_pre_dispatch: that one imports a module which the graph names).
_PREDISPATCH = (
    "_add_batch_dim", "_remove_batch_dim", "_vmap_increment_nesting", "_vmap_decrement_nesting",
    "lazy_load_decompositions", "_make_dual", "_unpack_dual", "_jvp_increment_nesting", "_jvp_decrement_nesting",
    "_unwrap_for_grad", "_enter_dual_level", "_exit_dual_level",
)  # fmt: skip

# The package whose import registers a namespace, where the two are not called the same.
_PACKAGES = {
    "tensorrt": "torch_tensorrt",
    "fbgemm": "fbgemm_gpu",
    "flash_attn_2": "flash_attn",
    "image": "torchvision",
    "onnx": "torch.onnx.ops",
    "torch_ipex": "intel_extension_for_pytorch",
}


def judge(target: str) -> tuple[bool, str]:
    """Whether something is registered under a serialized target, and why it may not be called; empty where it may."""
    if target in _plain_functions():
        return True, ""
    if match := DISPATCHED.fullmatch(target):
        return _judge_dispatched(*match.groups())
    if match := EXTENSION.fullmatch(target):
        return match.group(1) in serialize._deserialization_registry, ""
    return False, "it is neither a registered operator nor one of the functions that torch.export emits"


def _judge_dispatched(namespace: str, name: str, overload: str | None) -> tuple[bool, str]:
    refusal = refusal_by_name(namespace, name)
    # import_module, load_library and the like are methods of torch.ops, not namespaces.
    if not refusal and (hasattr(type(torch.ops), namespace) or namespace in ("loaded_libraries", "_dir")):
        refusal = f"torch.ops.{namespace} is no namespace of operators"
    if refusal:
        return False, refusal
    if namespace == "quantized_decomposed":  # torch's own, which nothing of torch itself imports
        decomposed_ops()
    found = getattr(getattr(torch.ops, namespace), name, None)
    if found is None:
        load_packages()  # who brings a converter of an op registers the op
        found = getattr(getattr(torch.ops, namespace), name, None)
    if overload is None:
        return isinstance(found, torch._ops.HigherOrderOperator), ""
    op = getattr(found, overload, None) if isinstance(found, torch._ops.OpOverloadPacket) else None
    return (True, refusal_by_schema(op)) if isinstance(op, torch._ops.OpOverload) else (False, "")


@cache
def _plain_functions() -> frozenset[str]:
    """The functions that may be called, by the names that torch saves them under."""
    predispatch = getattr(torch._functorch, "predispatch", None)
    functions: list[Any] = [
        *serialize._SYM_OPS,
        *Verifier().allowed_builtin_ops(),
        torch.sym_sum,
        torch._C._set_grad_enabled,
        *(getattr(predispatch, name) for name in _PREDISPATCH if hasattr(predispatch, name)),
    ]
    # As GraphModuleSerializer.serialize_operator names them.
    names = [f"{getattr(function, '__module__', '')}.{getattr(function, '__name__', '')}" for function in functions]
    # round() and getattr() are builtins: torch cannot resolve the name, so such a file cannot be loaded anyway.
    return frozenset(name for name in names if not name.startswith("builtins."))


def advice_for(targets: Iterable[str], exporting_torch: str | None) -> str:
    """Which imports are missing, or that torch itself is too old."""
    namespaces = {target: namespace_of(target) for target in targets}
    registering = {
        target: _registering(target) for target, each in namespaces.items() if each not in (None, *_PACKAGES)
    }
    packages = list(
        dict.fromkeys(
            registering.get(target) or _PACKAGES.get(each, each)
            for target, each in namespaces.items()
            if each is not None
        )
    )
    advice = []
    if packages:
        advice.append(f"import {', '.join(packages)} before reading the file (option --import {packages[0]})")
        if any(package not in (*_PACKAGES.values(), *registering.values()) for package in packages):
            advice.append("where an op has no package of that name, import the module that registers it")
    if None in namespaces.values():
        advice.append(f"use the torch that exported the file ({exporting_torch or 'unknown'}); this one lacks its ops")
    return "; ".join(advice)


def _registering(target: str) -> str | None:
    """The module of the installed package of an op's namespace whose source names the op, as who registers it does.

    The package's own import may leave it out: ``transformers`` imports what is asked for.  Nothing is imported here.
    """
    match = DISPATCHED.fullmatch(target)
    if match is None:
        return None
    namespace, name = match[1], match[2]
    named = re.compile(rf"""\b{namespace}::{name}["'(]""".encode())
    with suppress(ValueError, OSError):  # what has no spec, as __main__; a file that cannot be read
        spec = find_spec(namespace)
        for folder in (spec and spec.submodule_search_locations) or ():
            for path in sorted(Path(folder).rglob("*.py")):
                if named.search(path.read_bytes()):
                    parts = path.relative_to(folder).with_suffix("").parts
                    return ".".join((namespace, *(part for part in parts if part != "__init__")))
    return None
