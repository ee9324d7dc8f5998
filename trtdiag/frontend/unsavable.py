"""What of a program torch.export cannot save, or could not read again, named as the user names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, SymBoolArgument
from torch.utils import _pytree as pytree

from trtdiag.frontend.archive.treespecs import UnknownTypeError, UnsafeSpecError, check_treespec
from trtdiag.frontend.inputs import user_arguments, user_names
from trtdiag.graph.source import parse_stack
from trtdiag.wording import dtype_text

_SAVED_LAYOUTS = (torch.strided, torch.sparse_coo)
"""Others have no strides, which torch writes of every tensor but these (torch 2.11 to 2.15)."""
_SAVED_RESULTS = (bool, int, float, type(None))
"""What torch reads again as a result that is no tensor.  Source: its ``deserialize_graph_output``."""
_REGISTER = "register its class with a serialized_type_name before the export (torch.export.register_dataclass has it)"


@dataclass(frozen=True)
class Unsavable:
    """A part of a program that cannot be saved.

    Attributes:
        part: ``the input x``, ``the line net.py:7``, ``the result``.
        why: What stands against it.
        fix: What to do about it.
    """

    part: str
    why: str
    fix: str


def unsavable_part(exported: ExportedProgram) -> Unsavable | None:
    """The first input, or line, or the result, that torch.export cannot save and read again; ``None``: all can be."""
    lines = _decimal(exported) or _applied(exported)
    return _nested_input(exported) or _input_layout(exported) or lines or _result(exported)


def _nested_input(exported: ExportedProgram) -> Unsavable | None:
    spec: Any = exported.call_spec.in_spec
    if spec is None:
        return None
    places, keywords = spec.child(0), spec.child(1)
    names = user_arguments(exported) or [f"args[{index}]" for index in range(places.num_children)]
    arguments = [(name, places.child(index)) for index, name in enumerate(names)]
    arguments += [(str(name), keywords.child(index)) for index, name in enumerate(keywords.context or ())]
    for name, argument in arguments:
        why = _unsaved(argument)
        if why:
            return Unsavable(f"the input {name}", why, f"give it as plain tensors, lists and dicts, or {_REGISTER}")
    return None


def _unsaved(spec: Any) -> str:
    """Why the nesting of a value cannot be saved and read; empty where it can."""
    try:
        check_treespec(pytree.treespec_dumps(spec))
    except (NotImplementedError, TypeError, ValueError) as error:
        return str(error).strip().partition("\n")[0]
    except UnknownTypeError as error:
        return f"{error} has no name by which it could be found again"
    except UnsafeSpecError as error:
        return str(error)
    except RecursionError:
        return "it is nested too deeply"
    return ""


def _input_layout(exported: ExportedProgram) -> Unsavable | None:
    signature = exported.graph_signature
    given = [spec.arg.name for spec in signature.input_specs if spec.kind is InputKind.USER_INPUT]
    names = dict(zip(given, user_names(exported), strict=False))
    for node in exported.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.layout not in _SAVED_LAYOUTS:
            part = (
                f"the input {names[node.name]}" if node.name in names else f"the weight {_weight(exported, node.name)}"
            )
            layout = dtype_text(value.layout)
            return Unsavable(part, f"it is {layout}, which torch.export does not save", "make it dense, or sparse_coo")
    return None


def _weight(exported: ExportedProgram, placeholder: str) -> str:
    found = [spec.target for spec in exported.graph_signature.input_specs if spec.arg.name == placeholder]
    return str(found[0] if found else placeholder)


def _decimal(exported: ExportedProgram) -> Unsavable | None:
    """A size that is rounded to digits behind the point; other roundings are written as truncations."""
    for node in exported.graph.find_nodes(op="call_function", target=round):
        digits = node.args[1] if len(node.args) > 1 else None
        if isinstance(digits, int) and isinstance(node.meta.get("val"), torch.SymFloat):
            frame = parse_stack(node.meta.get("stack_trace") or "").best
            power = 10 ** abs(digits)
            instead = f"round(x * {power}) / {power}" if digits > 0 else f"round(x / {power}) * float({power})"
            return Unsavable(
                "a rounded size" if frame is None else f"the line {frame}",
                f"round(x, {digits}) of a size is no op that torch.export saves",
                f"write {instead}, whose last digit may differ where x is halfway",
            )
    return None


def _applied(exported: ExportedProgram) -> Unsavable | None:
    """An ``autograd.Function`` that is applied: vmap's own, too, as transformers index masks under it."""
    for node in exported.graph.find_nodes(op="call_function", target=torch.ops.higher_order.flat_apply):
        frame = parse_stack(node.meta.get("stack_trace") or "").best
        return Unsavable(
            "an autograd.Function" if frame is None else f"the line {frame}",
            "it applies an autograd.Function as one op, which torch.export does not save",
            "save program.run_decompositions({}), or compile the program without a file between",
        )
    return None


def _result(exported: ExportedProgram) -> Unsavable | None:
    specs = exported.graph_signature.output_specs
    if not specs:
        return Unsavable("the result", "it holds nothing, which torch.export does not save", "return a tensor, or None")
    for spec in specs:
        if isinstance(spec.arg, SymBoolArgument):
            why = "it has a bool that sizes decide, which torch.export does not save"
            return Unsavable("the result", why, "return tensors and numbers; compare sizes after the call")
        if isinstance(spec.arg, ConstantArgument) and not isinstance(spec.arg.value, _SAVED_RESULTS):
            kind = type(spec.arg.value).__name__
            why = f"it has {spec.arg.value!r}, and torch.export saves a {kind} in a result but cannot read it"
            return Unsavable("the result", why, "return tensors and numbers; add the others after the call")
    why = "" if exported.call_spec.out_spec is None else _unsaved(exported.call_spec.out_spec)
    return Unsavable("the result", why, f"return plain tensors, lists and dicts, or {_REGISTER}") if why else None
