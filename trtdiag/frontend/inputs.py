"""User inputs of an exported program, in the user's names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from trtdiag.frontend.declared_dims import Declared, input_dim
from trtdiag.frontend.program import InputTensor
from trtdiag.frontend.torch_private import guards_code, shape_env_of, symbol_sources
from trtdiag.symbolic import Expr, Num, Sym, from_sympy, linear_terms

_PARAMETER = re.compile(r"L\['(\w+)'\]")
_REST = "args"
_NUMBERED = re.compile(r"(\w+?)_(\d+)")


def input_tensors(
    exported: ExportedProgram, declared: Sequence[dict[int, Declared]], hints: dict[str, int], rest: str = _REST
) -> tuple[InputTensor, ...]:
    """Each user input of ``exported`` in order; plain numbers and ``None`` have no dims.

    Args:
        exported: The program.
        declared: Per input leaf the user's declarations, empty where they are not known.
        hints: Symbol -> size in the example.
        rest: The parameter of several arguments, where it is known: of a program without dynamic dims nothing tells.
    """
    vals = {node.name: node.meta.get("val") for node in exported.graph.nodes if node.op == "placeholder"}
    user_inputs = list(exported.graph_signature.user_inputs)
    names = user_names(exported, rest)
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
        number: Any = from_sympy(val.node.expr) if isinstance(val, torch.SymInt) else None
        return InputTensor(placeholder, name, None, (), number)
    dims = []
    for index, size in enumerate(val.shape):
        expr: Expr = from_sympy(size.node.expr) if isinstance(size, torch.SymInt) else Num(int(size))
        hint = hints.get(expr.name) if isinstance(expr, Sym) else expr.value if isinstance(expr, Num) else None
        whole = None if hint is None else int(hint)
        dims.append(input_dim(name, index, expr, whole, declared.get(index), known=known))
    return InputTensor(placeholder, name, val.dtype, tuple(dims))


def user_names(exported: ExportedProgram, rest: str = _REST) -> list[str]:
    """The name of every input leaf as the user writes it: ``x``, ``rest[0]['q'][0]``, ``opts['k'][1]``.

    torch names placeholders by joining the parameter's name and the path below it with ``_``: where a program keeps
    no names of its arguments, taking the path away again leaves the parameter's name.
    """
    spec = exported.call_spec.in_spec
    if spec is None:
        return [str(name) for name in exported.graph_signature.user_inputs]
    tops = _arguments(exported, rest)
    return [tops[_key(path[0]), _key(path[1])] + pytree.keystr(path[2:]) for path in _paths(spec)]


def user_arguments(exported: ExportedProgram) -> list[str] | None:
    """What the user calls each positional argument: ``x``, or ``rest[0]`` of ``*rest``.

    ``None`` where one has no name: a program made without arguments, or an argument without inputs in it.
    """
    spec = exported.call_spec.in_spec
    if spec is None:
        return None
    tops = _arguments(exported)
    names = [tops.get((0, index)) for index in range(spec.child(0).num_children)]
    return None if None in names else [str(name) for name in names]


def _paths(spec: Any) -> list[tuple[Any, ...]]:
    """The way to each leaf from ``(args, kwargs)``."""
    tree = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    paths = [tuple(path) for path, _ in pytree.tree_flatten_with_path(tree)[0]]
    # A class may flatten to its tensors alone, as caches of transformers do: numbers in their place are lost.
    return paths if len(paths) == spec.num_leaves else list(_paths_by_spec(spec))


def _paths_by_spec(spec: Any) -> Iterator[tuple[Any, ...]]:
    """The same by what the spec alone says: the keys of a dict, else the place among the children."""
    if spec.num_children == 0:
        yield from [()] * spec.num_leaves
    keys = spec.context if spec.type is dict else range(spec.num_children)
    for index, key in enumerate(keys):
        step: Any = pytree.MappingKey(key) if spec.type is dict else pytree.SequenceKey(index)
        yield from ((step, *rest) for rest in _paths_by_spec(spec.child(index)))


def _arguments(exported: ExportedProgram, rest: str = _REST) -> dict[tuple[int, Any], str]:
    """The name of each argument of a call, by where it stands in ``(args, kwargs)``."""
    tops: dict[tuple[int, Any], str] = {}
    spec = exported.call_spec.in_spec
    for path, placeholder in zip(_paths(spec), exported.graph_signature.user_inputs, strict=False):
        positional, key = _key(path[0]) == 0, _key(path[1])
        if not positional:
            tops[1, key] = str(key)
        elif isinstance(placeholder, str):
            tops[0, key] = _strip(placeholder, path[2:])
        else:  # a number that is no input of the graph: another leaf of the argument may have a name
            tops.setdefault((0, key), f"args[{key}]")
    kept = _kept_names(exported)
    if len(kept) == spec.child(0).num_children + spec.child(1).num_children:
        tops.update({(0, index): kept[index] for index in range(spec.child(0).num_children)})
    # What torch's sources name and no argument is called is the parameter of several arguments.
    gathering = (_parameters(exported) | {rest}) - set(tops.values())
    return {place: _vararg(top, gathering) if place[0] == 0 else top for place, top in tops.items()}


def _kept_names(exported: ExportedProgram) -> list[str]:
    """Torch's names for the arguments of a call, ``rest_0`` for those of ``*rest``; empty where it kept none."""
    entries = [entry.signature for entry in exported.module_call_graph if entry.fqn == ""]
    return list((entries[0].forward_arg_names if entries and entries[0] is not None else None) or [])


def _parameters(exported: ExportedProgram) -> set[str]:
    """The parameters that torch's sources name: of a live program all with dynamic dims, of a saved one a few."""
    env = shape_env_of(exported.graph_module)
    texts = guards_code(exported) + (
        [] if env is None else [s for found in symbol_sources(env).values() for s in found]
    )
    return {match[1] for text in texts for match in _PARAMETER.finditer(text)}


def _vararg(name: str, gathering: set[str]) -> str:
    """``rest_0`` as ``rest[0]`` where ``rest`` is a parameter that gathers arguments."""
    match = _NUMBERED.fullmatch(name)
    return name if match is None or match[1] not in gathering else f"{match[1]}[{match[2]}]"


def _key(key: Any) -> Any:
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return getattr(key, attribute)
    return str(key)


def _strip(placeholder: str, below: Sequence[Any]) -> str:
    suffix = "".join("_" + re.sub(r"[^a-zA-Z0-9]", "_", str(_key(key))).lower() for key in below)
    if suffix and placeholder.lower().endswith(suffix):
        return placeholder[: -len(suffix)]
    return placeholder


def example_sizes(exported: ExportedProgram, inputs: Sequence[InputTensor]) -> dict[str, int]:
    """Symbol -> its value in the example inputs that the program keeps; empty where it keeps none that fit.

    A file may keep other inputs than those that it was traced with, and what they are is what its user runs.
    """
    if exported.example_inputs is None:
        return {}
    leaves = pytree.tree_leaves(exported.example_inputs)
    if len(leaves) != len(inputs):
        return {}
    found: dict[str, int] = {}
    for leaf, tensor in zip(leaves, inputs, strict=True):
        if not isinstance(leaf, torch.Tensor) or leaf.dim() != len(tensor.dims):
            continue
        for dim, size in zip(tensor.dims, leaf.shape, strict=True):
            terms, constant = linear_terms(dim.expr)
            if len(terms) == 1 and isinstance(terms[0][1], Sym):
                value = (int(size) - constant) / terms[0][0]
                if value == int(value):
                    found.setdefault(terms[0][1].name, int(value))
    return found
