"""Input dims as the meeting point of three vocabularies: torch's sources, the graph's symbols, the user's names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from trtdiag.frontend.program import InputDim, InputTensor, Program
from trtdiag.symbolic import Expr, Num, Range, Sym, free_symbols, to_text
from trtdiag.symbolic.size_names import said_by

_SIZE = re.compile(r"(?P<tensor>.+?)(?:\.size\(\)|\.shape)\[(?P<dim>\d+)\]$|(?P<method>.+?)\.size\((?P<arg>\d+)\)$")
_PART = re.compile(r"\['?([^\]']+)'?\]")
_FLAT = re.compile(r"L\['flat_args'\]\[(\d+)\]$")
_DIM = re.compile(r"(?P<input>.+)\.shape\[(?P<dim>\d+)\]", re.DOTALL)


class InputsBySource:
    """Finds the input dim that a text names."""

    def __init__(self, inputs: Sequence[InputTensor]) -> None:
        self._inputs = inputs
        self._by_key = {source_key(each.name): each for each in inputs}
        self._by_key.update({source_key(each.placeholder): each for each in inputs})

    def find(self, source: str) -> tuple[InputTensor, int] | None:
        """The input and the dim that torch's text (``L['x'].size()[2]``) or the user's (``x.shape[2]``) names."""
        match = _SIZE.match(source)
        if match is None:
            return None
        found = self.input(match["tensor"] or match["method"])
        return None if found is None else (found, int(match["dim"] or match["arg"]))

    def input(self, source: str) -> InputTensor | None:
        """The input that a text (``L['x']``, ``x``) names."""
        flat = _FLAT.match(source)
        if flat is None:
            return self._by_key.get(source_key(source))
        return next(iter(self._inputs[int(flat[1]) :]), None)

    def site(self, sources: Iterable[str]) -> str | None:
        """The first dim that any of these texts names, as the user's ``x.shape[2]``."""
        found = next(filter(None, map(self.find, sources)), None)
        return None if found is None else f"{found[0].name}.shape[{found[1]}]"


def source_key(text: str) -> str:
    """A spelling shared by torch's sources and the user's names: path parts joined by ``_``, lower case.

    ``L['opts']['k'][1]`` and ``opts['k'][1]`` both give ``opts_k_1``; this is also how torch names placeholders.
    """
    plain = re.sub(r"^L(?=\[)", "", text)
    parts = _PART.sub(r"_\1", plain).replace(".", "_").strip("_")
    return re.sub(r"[^a-zA-Z0-9]", "_", parts).lower()


class Sites:
    """Finds the input dim behind a source, and names symbols and sizes for the user."""

    def __init__(self, program: Program) -> None:
        self.names = program.words
        self._by_source = InputsBySource(program.inputs)
        self.dims = [dim for tensor in program.inputs for dim in tensor.dims]
        self._symbols = {name for dim in self.dims for name in free_symbols(dim.expr)} | set(program.ranges)

    def find(self, source: str) -> InputDim | None:
        """The input dim that torch's source text (``L['x'].size()[2]``) or the user's (``x.shape[2]``) names."""
        found = self._by_source.find(source)
        return None if found is None or found[1] >= len(found[0].dims) else found[0].dims[found[1]]

    def resolve(self, source: str) -> Expr:
        """The size or the number behind a source, over graph symbols; a symbol's own name stands for itself.

        Raises:
            KeyError: Nothing known has this name.
        """
        dim = self.find(source)
        if dim is not None:
            return dim.expr
        if source in self._symbols or re.fullmatch(r"z?[su]\d+", source):
            return Sym(source)
        number = self._by_source.input(source)
        if number is not None and number.number is not None:
            return number.number
        raise KeyError(source)

    def name_of(self, symbol: str) -> str:
        """The user's name for a graph symbol, ``x.shape[2] // 4`` for one that nobody named."""
        return to_text(Sym(symbol), self.names)

    def ranged(self, symbol: str, values: Range) -> tuple[str, Range]:
        """A graph symbol's name and range, both those of a dim where nobody named the symbol."""
        return said_by(symbol, values, self.names)

    def range_text(self, symbol: str, values: Range) -> str:
        """The same as words: ``h in 2..64``, ``h is 2 or more``."""
        name, known = self.ranged(symbol, values)
        return known.of(name)

    def sized_by(self, symbol: str) -> list[InputDim]:
        """The input dims whose size depends on a symbol, those that are just the symbol first."""
        users = [dim for dim in self.dims if symbol in free_symbols(dim.expr)]
        return sorted(users, key=lambda dim: not isinstance(dim.expr, Sym))

    def label(self, dim: InputDim) -> str:
        """How to call a dim in a sentence: the declared name, else its place."""
        return dim.declared_name or dim.site

    @staticmethod
    def static(dim: InputDim) -> int | None:
        """The size of a dim that has one value only."""
        return int(dim.expr.value) if isinstance(dim.expr, Num) else None


def split_site(site: str) -> tuple[str, int | None]:
    """The name of the input and the index of its dim, ``None`` where the site is an integer input."""
    match = _DIM.fullmatch(site)
    return (match["input"], int(match["dim"])) if match else (site, None)
