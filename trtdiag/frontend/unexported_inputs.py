"""The inputs of a program that could not be exported, from the example inputs and the failed export's symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from trtdiag.frontend.declared_dims import Declared, input_dim
from trtdiag.frontend.factory import Recipe
from trtdiag.frontend.program import InputTensor
from trtdiag.frontend.recorded_conditions import in_roots
from trtdiag.frontend.torch_private import replacements, symbol_sources
from trtdiag.symbolic import ExpressionError, expr_from_sympy
from trtdiag.symbolic.expr import Expr, Num, Sym


def input_sketch(
    recipe: Recipe, declared: Sequence[dict[int, Declared]], env: ShapeEnv | None
) -> tuple[InputTensor, ...]:
    """Each tensor leaf of the example inputs with its declared dims.

    A dim's expression is what the failed export made of its symbol (found by its source text), else its example size.
    """
    symbols = None if env is None else _sizes(env)
    tensors: list[InputTensor] = []
    position = 0
    taken = 0
    rest = recipe.rest_name()
    for name, value in zip(recipe.parameter_names(), [*recipe.args, *recipe.kwargs.values()], strict=True):
        top, source = (name, f"L['{name}']") if name != "*" else (f"{rest}[{taken}]", f"L['{rest}'][{taken}]")
        taken += name == "*"
        for path, leaf in pytree.tree_flatten_with_path(value)[0]:
            below = pytree.keystr(path)
            said = declared[position] if position < len(declared) else {}
            position += 1
            if not isinstance(leaf, torch.Tensor):
                tensors.append(InputTensor(top + below, top + below, None, ()))
            else:
                tensors.append(_tensor(top + below, source + below, leaf, said, symbols))
    return tuple(tensors)


def _sizes(env: ShapeEnv) -> dict[str, Expr]:
    """Source text -> the size there, over the symbols that were left when the export failed."""
    known = replacements(env)
    symbolic = {str(symbol): symbol for symbol in env.var_to_sources}
    sizes: dict[str, Expr] = {}
    for symbol, sources in symbol_sources(env).items():
        try:
            size = expr_from_sympy(in_roots(symbolic[symbol], known))
        except ExpressionError:  # a replacement by something that is no size: the symbol itself says as much
            size = Sym(symbol)
        for source in sources:
            sizes.setdefault(source, size)
    return sizes


def _tensor(
    name: str, source: str, tensor: torch.Tensor, declared: dict[int, Declared], symbols: Mapping[str, Expr] | None
) -> InputTensor:
    dims = []
    for index, size in enumerate(tensor.shape):
        said = declared.get(index)
        found = None if symbols is None else symbols.get(f"{source}.size()[{index}]")
        # Without a ShapeEnv the export failed before any size was looked at: what was declared is all that is known.
        if symbols is None and said is not None and said.dynamic:
            found = Sym(f"{source}.size()[{index}]")
        expr: Expr = Num(int(size)) if found is None else found
        dims.append(input_dim(name, index, expr, int(size), said))
    return InputTensor(name, name, tensor.dtype, tuple(dims))
