"""What to write where no check helps, or one makes the program right for the example's data alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import Any

import torch
from torch import nn

from trtdiag.graph.source import Frame, syntax_nodes


def asked_for_number(line: str, op: str) -> str:
    """What needs a plain number, and what to write instead where there is something."""
    if op:
        return f"{op} needs a plain number"
    if re.search(r"\blen\(", line):
        return "Python needs a plain number; where it comes from len() of a tensor, .shape[0] keeps the size open"
    if re.search(r"\bint\(", line):
        return "Python needs a plain number; where it comes from int(), the .item() of the tensor keeps the size open"
    return "Python needs a plain number (a loop, an index, an argument)"


def open_number(frame: Frame, kind: str = "int") -> str:
    """What leaves a number of a tensor open in the place of the one ``int(...)`` of a line; empty where none does.

    Args:
        frame: The line.
        kind: ``int`` or ``float``.
    """
    called = {kind: list[ast.Call](), "range": list[ast.Call]()}
    for node in syntax_nodes(frame.file):
        if isinstance(node, ast.Call) and node.lineno <= frame.line <= (node.end_lineno or node.lineno):
            called.get(getattr(node.func, "id", ""), []).append(node)
    if called["range"] or len(called[kind]) != 1 or len(called[kind][0].args) != 1:
        return ""
    given = called[kind][0].args[0]
    text = ast.unparse(given)
    if isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and given.func.attr == "item":
        return f"{text}  # in place of {kind}({text})"
    one = isinstance(given, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    return f"{text if one else f'({text})'}.item()  # in place of {kind}({text})"


def left_open(frame: Frame, running: Iterable[FrameType]) -> tuple[str, str]:
    """What leaves a number of a tensor open in a line that makes a constant of it, and why; both empty where none does.

    Args:
        frame: The line.
        running: The functions of the model; the one with that line knows which of its variables are tensors.
    """
    if code := open_number(frame):
        return code, "int() makes a constant of it, .item() leaves it open"
    if code := _open_write(frame, running):
        return code, "a write takes a number for its index, and a tensor with a dim as it is"
    return "", ""


def _open_write(frame: Frame, running: Iterable[FrameType]) -> str:
    """The one write of a line at an index that may be a tensor without a dim, with one; empty where there is none."""
    writes = [
        (node, target)
        for node in syntax_nodes(frame.file)
        if isinstance(node, ast.Assign | ast.AugAssign)
        and node.lineno <= frame.line <= (node.end_lineno or node.lineno)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Subscript)
    ]
    if len(writes) != 1:
        return ""
    (node, target), *_ = writes
    parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    here = [f.f_locals for f in running if (f.f_code.co_filename, f.f_code.co_name) == (frame.file, frame.function)]
    places = [part for part in parts if not isinstance(part, ast.Slice | ast.Constant) and _may_be_tensor(part, *here)]
    if len(places) != 1:
        return ""
    was, index = ast.unparse(node), ast.unparse(places[0])
    given = [ast.parse(f"({index})[None]", mode="eval").body if part is places[0] else part for part in parts]
    into = ", ".join(ast.unparse(part) for part in given)
    sign = "=" if isinstance(node, ast.Assign) else f"{was.removeprefix(ast.unparse(target)).split('=')[0].strip()}="
    return f"{ast.unparse(target.value)}[{into}] {sign} ...  # in place of {was}; what is written has a dim of 1 there"


def _may_be_tensor(node: ast.expr, *names: Mapping[str, Any]) -> bool:
    """Whether it is a tensor without a dim, as far as is known."""
    if not isinstance(node, ast.Name):
        return True
    known = [each[node.id] for each in names if node.id in each]
    return all(isinstance(value, torch.Tensor) and not value.dim() for value in known)


def open_quotient(frame: Frame, running: Iterable[FrameType]) -> str:
    """What is a size in the place of the one ``torch.div`` of a size in a statement; empty where there is none.

    torch.div makes a tensor of the sizes, and of such a tensor torch.export knows nothing.

    Args:
        frame: A line of the statement.
        running: The functions of the model; the one with that line knows which of its variables are sizes.
    """
    around = [
        node
        for node in syntax_nodes(frame.file)
        if isinstance(node, ast.stmt) and node.lineno <= frame.line <= (node.end_lineno or node.lineno)
    ]
    inside = () if not around else ast.walk(max(around, key=lambda node: (node.lineno, -(node.end_lineno or 0))))
    calls = [n for n in inside if isinstance(n, ast.Call) and ast.unparse(n.func) == "torch.div" and len(n.args) == 2]
    given = {word.arg: getattr(word.value, "value", None) for call in calls for word in call.keywords}
    if len(calls) != 1 or given.get("rounding_mode") not in ("trunc", "floor"):
        return ""
    size, by = calls[0].args
    here = [f.f_locals for f in running if (f.f_code.co_filename, f.f_code.co_name) == (frame.file, frame.function)]
    if not _is_size(size, *here):
        return ""
    return f"{ast.unparse(ast.BinOp(size, ast.FloorDiv(), by))}  # in place of {ast.unparse(calls[0])}"


def _is_size(node: ast.expr, *names: Mapping[str, Any]) -> bool:
    match node:
        case ast.Name(name):
            return any(isinstance(known.get(name), (int, torch.SymInt)) for known in names)
        case ast.Call(ast.Attribute(attr="size"), [_], []):
            return True
        case ast.Subscript(ast.Attribute(attr="shape") | ast.Call(ast.Attribute(attr="size"), [], []), ast.Constant()):
            return True
    return False


def in_while(frame: Frame) -> bool:
    """Whether a line belongs to what a ``while`` asks."""
    loops = (node for node in syntax_nodes(frame.file) if isinstance(node, ast.While))
    return any(loop.lineno <= frame.line <= (loop.test.end_lineno or loop.lineno) for loop in loops)


def causal_argument(running: Iterable[FrameType]) -> str | None:
    """The argument in place of which ``nn.Transformer`` and its parts look into a mask; ``None`` where others ask.

    Args:
        running: The functions of the model, innermost first.
    """
    asking = [f for f in running if f.f_globals.get("__name__") == nn.Transformer.__module__]
    if not any(f.f_code.co_name == "_detect_is_causal_mask" for f in asking):
        return None
    modules = [f.f_locals["self"] for f in asking if "self" in f.f_locals]
    if isinstance(modules[0], nn.TransformerDecoder):
        return "tgt_is_causal"
    return "src_is_causal" if isinstance(modules[-1], nn.Transformer) else "is_causal"
