"""The inputs of a program that could not be exported, from the example inputs and the failed export's symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from trtdiag.capture.declared import Declared
from trtdiag.capture.program import InputDim, InputTensor
from trtdiag.capture.torch_private import symbol_sources
from trtdiag.symbolic.expr import Expr, Num, Sym


def input_sketch(
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    names: Sequence[str],
    declared: Sequence[dict[int, Declared]],
    env: ShapeEnv | None,
) -> tuple[InputTensor, ...]:
    """Each tensor leaf of the example inputs with its declared dims.

    A dim's expression is the symbol that the failed export gave to it (by its source text), else its example size.
    """
    symbols: dict[str, str] = {}
    if env is not None:
        for symbol, sources in symbol_sources(env).items():
            for source in sources:
                symbols.setdefault(source, symbol)
    tensors: list[InputTensor] = []
    position = 0
    rest = 0
    for name, value in zip(names, [*args, *kwargs.values()], strict=True):
        top, source = (name, f"L['{name}']") if name != "*" else (f"args[{rest}]", f"L['args'][{rest}]")
        rest += name == "*"
        for path, leaf in pytree.tree_flatten_with_path(value)[0]:
            below = pytree.keystr(path)
            said = declared[position] if position < len(declared) else {}
            position += 1
            if isinstance(leaf, torch.Tensor):
                tensors.append(_tensor(top + below, source + below, leaf, said, symbols))
    return tuple(tensors)


def _tensor(
    name: str, source: str, tensor: torch.Tensor, declared: dict[int, Declared], symbols: Mapping[str, str]
) -> InputTensor:
    dims = []
    for index, size in enumerate(tensor.shape):
        said = declared.get(index)
        symbol = symbols.get(f"{source}.size()[{index}]")
        # Without a ShapeEnv the export failed before any size was looked at: what was declared is all that is known.
        symbol = f"{source}.size()[{index}]" if not symbols and said is not None and said.dynamic else symbol
        expr: Expr = Sym(symbol) if symbol is not None else Num(int(size))
        dims.append(
            InputDim(
                name,
                index,
                expr,
                declared=None if said is None else said.text,
                declared_name=None if said is None else said.name,
                declared_range=None if said is None else said.range,
                dynamic=said is not None and said.dynamic,
                hint=int(size),
                declared_root=None if said is None else said.root,
            )
        )
    return InputTensor(name, name, tensor.dtype, tuple(dims))
