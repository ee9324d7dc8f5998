"""Writes a condition on sizes in the names of the function that uses them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from types import FrameType
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from trtdiag.frontend.torch_private import symbol_sources
from trtdiag.symbolic import (
    Condition,
    Expr,
    ExpressionError,
    Num,
    Sym,
    children,
    floordiv,
    from_sympy,
    is_condition,
    negate,
    sub,
    to_text,
)
from trtdiag.symbolic.build import affine
from trtdiag.symbolic.expr import Add, And, Compare, Max, Min, Mul, Or, Truth, Where

_MOST_LEAVES = 2000
_TOP = re.compile(r"^L\['(\w+)'\]")


def input_sizes(env: ShapeEnv) -> dict[str, str]:
    """The sizes of the model's inputs by torch's symbols, as a user writes them: ``x.shape[0]``."""
    sources = {symbol: texts[0] for symbol, texts in symbol_sources(env).items() if texts}
    return {symbol: _TOP.sub(r"\1", text).replace(".size()[", ".shape[") for symbol, text in sources.items()}


class LocalNames:
    """The sizes that the local variables of a frame hold, by what torch knows them as."""

    def __init__(self, frame: FrameType) -> None:
        self._sizes: dict[Expr, str] = {}
        self._truths: dict[Condition, str] = {}
        for text, value in _local_values(frame):
            try:
                node = from_sympy(value)
            except ExpressionError:  # a float or an infinity: no size of ours
                continue
            if is_condition(node):
                self._truths.setdefault(node, text)  # type: ignore[arg-type]
            elif not isinstance(node, Num):
                self._sizes.setdefault(node, text)  # type: ignore[arg-type]
        self._roots = self._solved()

    def named(self, condition: Condition, others: Mapping[str, str] | None = None) -> Condition | None:
        """``condition`` over symbols that are called what Python calls them; ``None`` where one has no name here.

        Its text is Python that torch's symbolic sizes take.  ``others`` names symbols that no variable holds.
        """
        try:
            return self._named(condition, others or {})  # type: ignore[no-any-return]
        except _UnnamedError:
            return None

    def name_of(self, symbol: str) -> str | None:
        """What the local variables call ``symbol`` itself."""
        return self._sizes.get(Sym(symbol))

    def _solved(self) -> dict[str, Expr]:
        """Symbols that no variable holds, from one that holds ``a * symbol + b``."""
        roots: dict[str, Expr] = {}
        for node, text in self._sizes.items():
            line = affine(node)
            if line is not None and Sym(line[0]) not in self._sizes:
                symbol, scale, offset = line
                roots.setdefault(symbol, floordiv(sub(Sym(text), offset), scale))
        return roots

    def _named(self, node: Expr | Condition, others: Mapping[str, str]) -> Any:
        """``node`` over symbols that are called what Python calls them."""
        if is_condition(node):
            if node in self._truths:
                return Sym(self._truths[node])
            if negate(node) in self._truths:  # type: ignore[arg-type]
                return Sym(f"torch.sym_not({self._truths[negate(node)]})")  # type: ignore[arg-type]
        elif node in self._sizes:
            return Sym(self._sizes[node])
        parts = [self._named(child, others) for child in children(node)]
        match node:
            case Sym(name):
                if name not in self._roots and name not in others:
                    raise _UnnamedError
                return self._roots[name] if name in self._roots else Sym(others[name])
            # Python's max, min, and, or would ask for a truth value themselves.
            case Max() | Min():
                return Sym(_nested("torch.sym_max" if isinstance(node, Max) else "torch.sym_min", parts))
            case And() | Or():
                sign = " & " if isinstance(node, And) else " | "
                return Sym(sign.join(f"({to_text(part)})" for part in parts))
            case _:
                return _rebuilt(node, parts)


class _UnnamedError(Exception):
    """A symbol that no local variable holds."""


def _nested(function: str, parts: list[Expr]) -> str:
    """The calls that apply a function of two arguments to all of ``parts``."""
    return reduce(lambda inner, text: f"{function}({text}, {inner})", map(to_text, reversed(parts)))


def _rebuilt(node: Any, parts: list[Any]) -> Expr | Condition:
    """``node`` with other operands, in the order they were written in."""
    match node:
        case Num() | Truth():
            return node
        case Add() | Mul():
            return type(node)(tuple(parts))
        case Compare():
            return Compare(node.relation, *parts)
        case Where():  # a choice between two sizes has no Python that torch takes
            raise _UnnamedError
        case _:
            return type(node)(*parts)  # type: ignore[no-any-return]


def _local_values(frame: FrameType) -> list[tuple[str, Any]]:
    """Every symbolic number that the locals hold, as the text that reads it and its sympy expression.

    Plain variables come before sizes of tensors, shallow before deep.
    """
    found: list[tuple[int, str, Any]] = []
    # Reading a shape must not be seen by the tracing that is under way.
    with torch._C.DisableTorchFunction():
        for name, value in list(frame.f_locals.items()):
            if name.startswith(".") or isinstance(value, torch.nn.Module):
                continue
            try:
                leaves = pytree.tree_leaves_with_path(value)[:_MOST_LEAVES]
            except Exception:  # an object whose structure cannot be read holds no name
                continue
            for path, leaf in leaves:
                text = name + pytree.keystr(path)
                if isinstance(leaf, (torch.SymInt, torch.SymBool, torch.SymFloat)):
                    found.append((2 if path else 0, text, leaf.node.expr))
                elif isinstance(leaf, torch.Tensor):
                    for index, size in enumerate(leaf.shape):
                        if isinstance(size, torch.SymInt):
                            found.append((2 if path else 1, f"{text}.shape[{index}]", size.node.expr))
    return [(text, expr) for _, text, expr in sorted(found, key=lambda each: each[0])]
