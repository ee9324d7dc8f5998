"""User inputs of an exported program, in the user's names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from trtdiag.capture.declared import Declared
from trtdiag.capture.program import InputDim, InputTensor
from trtdiag.capture.torch_private import guards_code, shape_env_of, symbol_sources
from trtdiag.symbolic import from_sympy
from trtdiag.symbolic.expr import Expr, Num, Sym

_PARAMETER = re.compile(r"L\['(\w+)'\]")
_NUMBERED = re.compile(r"(\w+?)_(\d+)((?:[\[.].*)?)")


def input_tensors(
    exported: ExportedProgram, declared: Sequence[dict[int, Declared]], hints: dict[str, int]
) -> tuple[InputTensor, ...]:
    """Each user input of ``exported`` in order; plain numbers and ``None`` have no dims.

    Args:
        exported: The program.
        declared: Per input leaf the user's declarations, empty where they are not known.
        hints: Symbol -> size in the example.
    """
    vals = {node.name: node.meta.get("val") for node in exported.graph.nodes if node.op == "placeholder"}
    user_inputs = list(exported.graph_signature.user_inputs)
    names = user_names(exported)
    return tuple(
        _input(
            str(placeholder) if isinstance(placeholder, str) else name,
            name,
            vals.get(placeholder) if isinstance(placeholder, str) else None,
            declared[index] if index < len(declared) else {},
            hints,
            known=bool(declared),
        )
        for index, (placeholder, name) in enumerate(zip(user_inputs, names, strict=False))
    )


def _input(
    placeholder: str, name: str, val: Any, declared: dict[int, Declared], hints: dict[str, int], *, known: bool
) -> InputTensor:
    if not isinstance(val, torch.Tensor):
        return InputTensor(placeholder, name, None, ())
    dims = []
    for index, size in enumerate(val.shape):
        expr: Expr = from_sympy(size.node.expr) if isinstance(size, torch.SymInt) else Num(int(size))
        said = declared.get(index)
        hint = hints.get(expr.name) if isinstance(expr, Sym) else expr.value if isinstance(expr, Num) else None
        dims.append(
            InputDim(
                name,
                index,
                expr,
                declared=None if said is None else said.text,
                declared_name=None if said is None else said.name,
                declared_range=None if said is None else said.range,
                dynamic=None if not known else said is not None and said.dynamic,
                hint=None if hint is None else int(hint),
                declared_root=None if said is None else said.root,
            )
        )
    return InputTensor(placeholder, name, val.dtype, tuple(dims))


def user_names(exported: ExportedProgram) -> list[str]:
    """The name of every input leaf as the user writes it: ``x``, ``rest[0]['q'][0]``, ``opts['k'][1]``.

    torch names placeholders by joining the parameter's name and the path below it with ``_``: taking the path away
    again leaves the parameter's name, which is kept nowhere else in a saved file.
    """
    spec = exported.call_spec.in_spec
    user_inputs = list(exported.graph_signature.user_inputs)
    if spec is None:
        return [str(name) for name in user_inputs]
    tree = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    paths, _ = pytree.tree_flatten_with_path(tree)
    names: list[str] = []
    for (path, _leaf), placeholder in zip(paths, user_inputs, strict=False):
        keys = list(path)
        keyword = isinstance(keys[0], pytree.SequenceKey) and keys[0].idx == 1
        if keyword:
            top, below = str(_key(keys[1])), keys[2:]
        else:
            below = keys[2:]
            top = _strip(str(placeholder), below) if isinstance(placeholder, str) else f"args[{_key(keys[1])}]"
        names.append(top + "".join(_spell(key) for key in below))
    tops = _parameters(exported)
    return [_vararg(name, tops) for name in names]


def _parameters(exported: ExportedProgram) -> set[str]:
    """The parameters that torch's sources name: of a live program all with dynamic dims, of a saved one a few."""
    env = shape_env_of(exported.graph_module)
    texts = guards_code(exported) + (
        [] if env is None else [s for found in symbol_sources(env).values() for s in found]
    )
    return {match[1] for text in texts for match in _PARAMETER.finditer(text)} | {"args"}


def _vararg(name: str, parameters: set[str]) -> str:
    """``rest_0['q']`` as ``rest[0]['q']`` where ``rest`` is known to be a parameter and ``rest_0`` is not."""
    match = _NUMBERED.fullmatch(name)
    if match is None or f"{match[1]}_{match[2]}" in parameters or match[1] not in parameters:
        return name
    return f"{match[1]}[{match[2]}]{match[3]}"


def _key(key: Any) -> Any:
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return getattr(key, attribute)
    return str(key)


def _spell(key: Any) -> str:
    return f".{key.name}" if isinstance(key, pytree.GetAttrKey) else f"[{_key(key)!r}]"


def _strip(placeholder: str, below: Sequence[Any]) -> str:
    suffix = "".join("_" + re.sub(r"[^a-zA-Z0-9]", "_", str(_key(key))).lower() for key in below)
    if suffix and placeholder.lower().endswith(suffix):
        return placeholder[: -len(suffix)]
    return placeholder
