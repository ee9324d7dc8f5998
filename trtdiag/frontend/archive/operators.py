"""Which call targets of a saved graph are operators.

torch resolves a target by walking attributes from ``torch``, ``operator`` or ``math`` and takes whatever callable it
finds (``torch.hub.load``, ``torch.os.system``): here only registered operators and a closed list of functions pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

import torch
from torch._export.serde import serialize
from torch._export.verifier import Verifier

from trtdiag.frontend.archive.unsafe_operators import refusal_by_name, refusal_by_schema

_DISPATCHED = re.compile(r"torch\.ops\.([A-Za-z_]\w*)\.([A-Za-z_]\w*)(?:\.([A-Za-z_]\w*))?")
_EXTENSION = re.compile(r"#(\w+):([\w.\-]+)")
_OF_TORCH = frozenset(["aten", "prims", "prim", "higher_order", "_c10d_functional", "export", "inductor", "quantized"])

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
    "quantized_decomposed": "torch.ao.quantization.fx._decomposed",
    "fbgemm": "fbgemm_gpu",
    "flash_attn_2": "flash_attn",
    "image": "torchvision",
    "onnx": "torch.onnx.ops",
    "torch_ipex": "intel_extension_for_pytorch",
}


class Verdict(Enum):
    """What a call target is."""

    OPERATOR = "operator"
    UNKNOWN = "unknown"
    REFUSED = "refused"


def judge(target: str) -> tuple[Verdict, str]:
    """Whether a serialized target may be called, and why not.

    An unknown target is a well-formed operator name that nothing has registered.
    """
    if target in _plain_functions():
        return Verdict.OPERATOR, ""
    if match := _DISPATCHED.fullmatch(target):
        return _judge_dispatched(*match.groups())
    if match := _EXTENSION.fullmatch(target):
        known = match.group(1) in serialize._deserialization_registry
        return (Verdict.OPERATOR, "") if known else (Verdict.UNKNOWN, "")
    return Verdict.REFUSED, "it is neither a registered operator nor one of the functions that torch.export emits"


def _judge_dispatched(namespace: str, name: str, overload: str | None) -> tuple[Verdict, str]:
    refusal = refusal_by_name(namespace, name)
    if refusal:
        return Verdict.REFUSED, refusal
    # import_module, load_library and the like are methods of torch.ops, not namespaces.
    if hasattr(type(torch.ops), namespace) or namespace in ("loaded_libraries", "_dir"):
        return Verdict.REFUSED, f"torch.ops.{namespace} is no namespace of operators"
    found = getattr(getattr(torch.ops, namespace), name, None)
    if overload is None:
        known = isinstance(found, torch._ops.HigherOrderOperator)
        return (Verdict.OPERATOR if known else Verdict.UNKNOWN), ""
    if not isinstance(found, torch._ops.OpOverloadPacket):
        return Verdict.UNKNOWN, ""
    op = getattr(found, overload, None)
    if not isinstance(op, torch._ops.OpOverload):
        return Verdict.UNKNOWN, ""
    refusal = refusal_by_schema(op)
    return (Verdict.REFUSED if refusal else Verdict.OPERATOR), refusal


_PLAIN: dict[str, object] = {}


def _plain_functions() -> dict[str, object]:
    """The functions that may be called, by the name that torch saves them under."""
    if not _PLAIN:
        predispatch = getattr(torch._functorch, "predispatch", None)
        functions: list[object] = [
            *serialize._SYM_OPS,
            *Verifier().allowed_builtin_ops(),
            torch.sym_sum,
            torch._C._set_grad_enabled,
            *(getattr(predispatch, name) for name in _PREDISPATCH if hasattr(predispatch, name)),
        ]
        for function in functions:
            # As GraphModuleSerializer.serialize_operator names it.
            _PLAIN[f"{getattr(function, '__module__', '')}.{getattr(function, '__name__', '')}"] = function
        # round() and getattr() are builtins: torch cannot resolve the name, so such a file cannot be loaded anyway.
        for name in [name for name in _PLAIN if name.startswith("builtins.")]:
            del _PLAIN[name]
    return _PLAIN


def namespace_of(target: str) -> str | None:
    """The namespace of an operator that is not torch's own: ``torchvision``; ``None`` for torch's."""
    if match := _DISPATCHED.fullmatch(target):
        namespace = match.group(1)
        return None if namespace in _OF_TORCH else namespace
    if match := _EXTENSION.fullmatch(target):
        return match.group(1)
    return None


def advice_for(targets: Iterable[str], exporting_torch: str | None) -> str:
    """Which imports are missing, or that torch itself is too old."""
    packages: list[str] = []
    own = False
    for target in targets:
        namespace = namespace_of(target)
        if namespace is None:
            own = True
        elif (package := _PACKAGES.get(namespace, namespace)) not in packages:
            packages.append(package)
    advice = []
    if packages:
        advice.append(f"import {', '.join(packages)} before reading the file (trtdiag analyze --import {packages[0]})")
        if any(package not in _PACKAGES.values() for package in packages):
            advice.append("where an op has no package of that name, import the module that registers it")
    if own:
        advice.append(f"use the torch that exported the file ({exporting_torch or 'unknown'}); this one lacks its ops")
    return "; ".join(advice)
