"""SYM204."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.finding import Evidence, Fix, Hit, Place, Severity
from trtdiag.analysis.places import at_line
from trtdiag.analysis.rule import rule
from trtdiag.shapes.facts import MemoryEstimate, SymbolFacts, SymbolTable
from trtdiag.wording import amount, listed, sized


@rule("SYM204", "unbacked-symbol-without-bounds", Severity.WARNING)
def unbacked_symbol_without_bounds(symbols: SymbolTable, memory: MemoryEstimate | None) -> Iterator[Hit]:
    """A size that is computed from data has no upper bound.

    Why:
        nonzero, boolean masks, unique, .item() and .tolist() give sizes that are known only when the
        data is.  torch.export gives each a symbol (u0, u1, ...).  A tensor of such a size can only enter
        an engine if the size has a largest value, because an optimization profile needs one; without it
        the ops behind it stay in PyTorch.  A size from .item() may even be negative for all that the
        program says.

        It is a warning: the program is right, it compiles in more and smaller pieces than it could.

        Where the model cannot be changed, --assume 'item<=512' (assume={"item": 512} in Python) says the same
        from outside: with the name that is reported here, or the source line, and with what a larger profile
        costs in memory.  It is taken for true, not proven: a run that breaks it is refused by name.

    Example:
        n = lengths.max().item()
        torch._check(n >= 0)
        torch._check(n <= 512)          # now every tensor of size n has a largest shape
        mask = torch.arange(n)

    Fix safety:
        Manual: only you know the bound.  Both raise at run time when the data breaks it.

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
        if symbol.called:
            facts.append(Evidence(f"--assume knows it as {' and '.join(symbol.called)}", "its value and its line"))
        facts += [
            Evidence(
                f"if it is at most {most:,}, weights and live tensors need {need}",
                "an estimate, other sizes at their maximum",
            )
            for most, need in _needs(symbol, memory)
        ]
        yield Hit(
            f"{symbol.name}, computed from data by {op or node or 'an op'}{at_line(symbol.born_at)}, has no upper"
            f" bound and is used by {amount(symbol.uses, 'node')}",
            tuple(facts),
            Place(node=node or None, frame=symbol.born_at, op=op or None),
            _fix(symbol, memory),
            cause=symbol.symbol,
        )


def _needs(symbol: SymbolFacts, memory: MemoryEstimate | None) -> list[tuple[int, str]]:
    """Greatest values that the user might say, with the memory that each takes."""
    if memory is None or not symbol.called:
        return []
    return [(most, sized(memory.weight_bytes + live)) for most, live in memory.if_assumed]


def _fix(symbol: SymbolFacts, memory: MemoryEstimate | None) -> Fix:
    code = (
        "n = ...              # the number, or tensor.shape[0] of the tensor, that this line gives\n"
        "torch._check(n >= 0)\n"
        "torch._check(n <= LARGEST)   # the largest value that your data can give"
    )
    if not symbol.called:
        return Fix("state the largest value behind that line, where it is a Python number", code=code)
    costs = ", ".join(f"{most:,} takes {need}" for most, need in _needs(symbol, memory))
    title = f"say the largest value that your data can give: --assume '{symbol.called[0]}<=LARGEST'"
    title += f" ({costs})" * bool(costs)
    return Fix(f"{title}; or state it behind that line, where it is a Python number", code=code)
