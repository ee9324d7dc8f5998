"""SYM204."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.finding import Evidence, Fix, Hit, Place, Severity
from trtdiag.analysis.places import at_line
from trtdiag.analysis.rule import rule
from trtdiag.shapes.facts import SymbolTable
from trtdiag.wording import amount, listed


@rule("SYM204", "unbacked-symbol-without-bounds", Severity.WARNING)
def unbacked_symbol_without_bounds(symbols: SymbolTable) -> Iterator[Hit]:
    """A size that is computed from data has no upper bound.

    Why:
        nonzero, boolean masks, unique, .item() and .tolist() give sizes that are known only when the
        data is.  torch.export gives each a symbol (u0, u1, ...).  A tensor of such a size can only enter
        an engine if the size has a largest value, because an optimization profile needs one; without it
        the ops behind it stay in PyTorch.  A size from .item() may even be negative for all that the
        program says.

        It is a warning: the program is right, it compiles in more and smaller pieces than it could.

    Example:
        n = lengths.max().item()
        torch._check(n >= 0)
        torch._check(n <= 512)          # now every tensor of size n has a largest shape
        mask = torch.arange(n)

    Fix safety:
        Manual: only you know the bound.  torch._check raises at run time when the data breaks it.

    Source:
        torch._check; torch.export documentation, "data-dependent"; pytorch/TensorRT issues 4137, 4611.
    """
    for symbol in symbols.symbols:
        if symbol.backed or symbol.range is None or symbol.range.max is not None:
            continue
        node, _, op = (symbol.born_by or "").partition(": ")
        facts = [
            Evidence(f"{symbol.name} is {symbol.range}", "range_constraints"),
            Evidence(f"born by {symbol.born_by or 'an unknown op'}", str(symbol.born_at or "no source line")),
        ]
        if symbol.expressions:
            facts.append(Evidence(f"sizes that depend on it: {listed(symbol.expressions, 4)}", "the graph"))
        yield Hit(
            f"{symbol.name}, computed from data by {op or node or 'an op'}{at_line(symbol.born_at)}, has no upper"
            f" bound and is used by {amount(symbol.uses, 'node')}",
            tuple(facts),
            Place(node=node or None, frame=symbol.born_at, op=op or None),
            Fix(
                "state the largest value behind that line, where it is a Python number",
                code="n = ...              # the number, or tensor.shape[0] of the tensor, that this line gives\n"
                "torch._check(n >= 0)\n"
                "torch._check(n <= LARGEST)   # the largest value that your data can give",
            ),
            cause=symbol.symbol,
        )
