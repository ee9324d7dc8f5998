"""Input dims as the meeting point of three vocabularies: torch's sources, the graph's symbols, the user's names."""

from __future__ import annotations

import re
from collections.abc import Mapping

from trtdiag.frontend.pinned_dims import source_key
from trtdiag.frontend.program import InputDim, Program
from trtdiag.symbolic import free_symbols
from trtdiag.symbolic.expr import Expr, Num, Sym

_SIZE = re.compile(r"(?P<tensor>.+?)(?:\.size\(\)|\.shape)\[(?P<dim>\d+)\]$|(?P<method>.+?)\.size\((?P<arg>\d+)\)$")
_FLAT = re.compile(r"L\['flat_args'\]\[(\d+)\]$")


class Sites:
    """Finds the input dim behind a source, and names symbols and sizes for the user."""

    def __init__(self, program: Program) -> None:
        self._inputs = program.inputs
        self._names = dict(program.names)
        self._by_key = {source_key(tensor.name): tensor for tensor in program.inputs}
        self._by_key.update({source_key(tensor.placeholder): tensor for tensor in program.inputs})
        self._dims = [dim for tensor in program.inputs for dim in tensor.dims]
        self._symbols = {name for dim in self._dims for name in free_symbols(dim.expr)} | set(program.ranges)

    @property
    def dims(self) -> list[InputDim]:
        """Every dim of every user input, in order."""
        return self._dims

    def find(self, source: str) -> InputDim | None:
        """The input dim that torch's source text (``L['x'].size()[2]``) or the user's (``x.shape[2]``) names."""
        match = _SIZE.match(source)
        if match is None:
            return None
        tensor_text, dim = match["tensor"] or match["method"], int(match["dim"] or match["arg"])
        flat = _FLAT.match(tensor_text)
        if flat is not None:
            position = int(flat[1])
            tensor = self._inputs[position] if position < len(self._inputs) else None
        else:
            tensor = self._by_key.get(source_key(tensor_text))
        return tensor.dims[dim] if tensor is not None and dim < len(tensor.dims) else None

    def resolve(self, source: str) -> Expr:
        """The size behind a source, over graph symbols; a symbol's own name stands for itself.

        Raises:
            KeyError: Nothing known has this name.
        """
        dim = self.find(source)
        if dim is not None:
            return dim.expr
        if source in self._symbols or re.fullmatch(r"z?[su]\d+", source):
            return Sym(source)
        raise KeyError(source)

    def name_of(self, symbol: str) -> str:
        """The user's name for a graph symbol."""
        return self._names.get(symbol, symbol)

    @property
    def names(self) -> Mapping[str, str]:
        """Graph symbol -> the user's name."""
        return self._names

    def sized_by(self, symbol: str) -> list[InputDim]:
        """The input dims whose size depends on a symbol, those that are just the symbol first."""
        users = [dim for dim in self._dims if symbol in free_symbols(dim.expr)]
        return sorted(users, key=lambda dim: not isinstance(dim.expr, Sym))

    def label(self, dim: InputDim) -> str:
        """How to call a dim in a sentence: the declared name, else its place."""
        return dim.declared_name or dim.site

    @staticmethod
    def static(dim: InputDim) -> int | None:
        """The size of a dim that has one value only."""
        return int(dim.expr.value) if isinstance(dim.expr, Num) else None
