"""Names for symbols that a user recognises."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.capture.program import InputTensor
from trtdiag.symbolic import free_symbols
from trtdiag.symbolic.expr import Sym


def symbol_names(inputs: Sequence[InputTensor]) -> dict[str, str]:
    """Each input symbol's name: the declared Dim's (``h``), else the first dim that it sizes (``x.shape[2]``).

    A derived root that sizes no input by itself (``_seq`` under ``2*_seq``) takes its name from the declaration.
    """
    names: dict[str, str] = {}
    dims = [dim for tensor in inputs for dim in tensor.dims]
    for dim in dims:
        if isinstance(dim.expr, Sym):
            name = names.get(dim.expr.name)
            if name is None or (dim.declared_name is not None and name.endswith("]")):
                names[dim.expr.name] = dim.declared_name or dim.site
    for dim in dims:
        free = free_symbols(dim.expr)
        if not isinstance(dim.expr, Sym) and dim.declared_root is not None and len(free) == 1:
            names.setdefault(next(iter(free)), dim.declared_root)
    return names
